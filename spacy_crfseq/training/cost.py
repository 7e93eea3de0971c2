"""An estimate of training time: the time of an iteration on all data, and the number of iterations, from a sample.

The number of iterations to convergence grows with the data.  On CoNLL-2000, CoNLL-2002 and UD English EWT, from 1,000
sentences to all of them, that of batch methods grew as the power `POWER` of their number; online ones took about one
more for `RATIO` times the data.
"""

from __future__ import annotations

from math import log
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np

from ..types import Floats, Optimizer, Regularizer
from .dataset import SAMPLE_SEQUENCES
from .objective import Objective

POWER, RATIO = 0.4, 4
SECONDS = 20.0
"""Processor time of training on a sample; if it does not converge by then, a quarter of the sample must suffice."""
LONG_ITERATION = 5.0
"""Seconds from which an iteration on all data is run once instead of twice."""


class Cost(NamedTuple):
    """The expected cost of training.

    iterations (int): Until the optimizer has converged.
    bounded (bool): Whether that is only its `max_iterations`, because it did not converge on a sample.
    iteration_seconds (float): Of an iteration on all data.
    """

    iterations: int
    bounded: bool
    iteration_seconds: float
    n_sequences: int
    n_parameters: int

    @property
    def seconds(self) -> float:
        """The time of all iterations."""
        return self.iterations * self.iteration_seconds


def estimate(objective: Objective, optimizer: Optimizer, regularizer: Regularizer, theta: Floats) -> Cost:
    """Return the cost of training from theta [D], which stays as it is.

    regularizer (Regularizer): That of the objective, before `Regularizer.over`.
    """
    n = objective.n_sequences
    sizes = sorted({max(1, min(n, SAMPLE_SEQUENCES) // part) for part in (RATIO, 1)})
    _iterations(_part(objective, sizes[0], regularizer), optimizer, theta, limit=2)  # whatever is done once
    expected = None
    for size in sizes:
        done, converged = _iterations(_part(objective, size, regularizer), optimizer, theta)
        if not converged:
            break
        expected = done + log(n / size, RATIO) if optimizer.online else done * (n / size) ** POWER
    iterations = optimizer.max_iterations if expected is None else min(round(expected), optimizer.max_iterations)
    return Cost(iterations, expected is None, _iteration_seconds(objective, optimizer, theta), n, len(theta))


def _part(objective: Objective, size: int, regularizer: Regularizer) -> Objective:
    return Objective(
        objective.potential,
        [term._replace(data=term.data.sample(size)) for term in objective.terms],
        regularizer,
        n_total=objective.n_total,
        n_threads=objective.n_threads,
        dictionary=objective.dictionary,
    )


def _iterations(objective: Objective, optimizer: Optimizer, theta: Floats, limit: int = 0) -> tuple[int, bool]:
    """Return the number of iterations, and whether the last one converged."""
    state, started, done = optimizer.start(theta.copy()), process_time(), 0
    while True:
        report = optimizer.iterate(objective, state)
        done += 1
        if report.converged or done == limit:
            return done, done < optimizer.max_iterations
        if process_time() - started > SECONDS:
            return done, False


def _iteration_seconds(objective: Objective, optimizer: Optimizer, theta: Floats) -> float:
    """Return the seconds of an iteration on all data, without what is only done before the first if that is short."""
    state, seconds = optimizer.start(theta.copy()), np.inf
    for _ in range(2):
        started = perf_counter()
        report = optimizer.iterate(objective, state)
        seconds = min(seconds, perf_counter() - started)
        if report.converged or seconds > LONG_ITERATION:
            break
    return float(seconds)
