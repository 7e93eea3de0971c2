"""What training will cost, before it: the time of an iteration on all data, and iterations extrapolated from samples.

The number of iterations to convergence grows as a power of the number of sequences; two samples, one four times as large
as the other, tell the power.
"""

from __future__ import annotations

from math import log
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..types import Floats, Optimizer, Regularizer
from .dataset import SAMPLE_SEQUENCES
from .objective import CRFObjective

RATIO = 4
"""How many times as large the second sample is."""
SECONDS = 8.0
"""Time that training on a sample may take; where it has not converged then, iterations are those that were allowed."""
LONG_ITERATION = 5.0
"""Seconds; an iteration on all data that takes as long is run once, others twice."""


class Cost(NamedTuple):
    """What training will cost.

    iterations (int): Until the optimizer has converged.
    bounded (bool): Whether that is only its `max_iterations`, because it did not converge on a sample.
    iteration_seconds (float): Of an iteration on all data.
    n_sequences, n_parameters (int): N, D.
    """

    iterations: int
    bounded: bool
    iteration_seconds: float
    n_sequences: int
    n_parameters: int

    @property
    def seconds(self) -> float:
        """Of all iterations."""
        return self.iterations * self.iteration_seconds


def estimate(objective: CRFObjective, optimizer: Optimizer, regularizer: Regularizer, theta: Floats) -> Cost:
    """Return what it will cost to train from theta [D], which stays as it is.

    regularizer (Regularizer): The one that the objective was made with.
    """
    n = objective.n_sequences
    large = min(n, SAMPLE_SEQUENCES)
    small = max(1, large // RATIO)
    _iterations(_part(objective, small, regularizer), optimizer, theta, limit=2)  # whatever is done once
    few, _ = _iterations(_part(objective, small, regularizer), optimizer, theta)
    many, converged = _iterations(_part(objective, large, regularizer), optimizer, theta)
    power = log(max(many, few) / few) / log(large / small) if large > small else 0.0
    expected = round(many * (n / large) ** power) if converged else optimizer.max_iterations
    iterations = min(expected, optimizer.max_iterations)
    return Cost(iterations, not converged, _iteration_seconds(objective, optimizer, theta), n, len(theta))


def _part(objective: CRFObjective, size: int, regularizer: Regularizer) -> CRFObjective:
    data = objective.data.sample(size)
    return CRFObjective(
        objective.layout,
        data,
        objective.loss,
        regularizer,
        n_threads=objective.n_threads,
        dictionary=objective.dictionary,
    )


def _iterations(objective: CRFObjective, optimizer: Optimizer, theta: Floats, limit: int = 0) -> tuple[int, bool]:
    """Return how many iterations it takes to converge, and whether it came to that."""
    state, started, done = optimizer.start(theta.copy()), perf_counter(), 0
    while True:
        report = optimizer.iterate(objective, state)
        done += 1
        if report.converged or done == limit:
            return done, done < optimizer.max_iterations
        if perf_counter() - started > SECONDS:
            return done, False


def _iteration_seconds(objective: CRFObjective, optimizer: Optimizer, theta: Floats) -> float:
    """Return the seconds of an iteration on all data, what is prepared before the first left out where that is short."""
    state, seconds = optimizer.start(theta.copy()), np.inf
    for _ in range(3):
        started = perf_counter()
        report = optimizer.iterate(objective, state)
        seconds = min(seconds, perf_counter() - started)
        if report.converged or seconds > LONG_ITERATION:
            break
    return float(seconds)
