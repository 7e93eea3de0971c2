"""The cost of training on a corpus: the time of an iteration on all data, and their number, estimated from samples."""

from __future__ import annotations

import sys
from math import log
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...pipeline.pipeline_training import PipelineTraining

if TYPE_CHECKING:
    from ...training.objective import Objective
    from ...types import Floats, Optimizer

POWER, RATIO = 0.4, 4
"""The number of iterations to convergence grows with the data.  On CoNLL-2000, CoNLL-2002 and UD English EWT, from
1,000 sentences to all of them, that of batch methods grew as the power `POWER` of the data; online methods needed about
one more for `RATIO` times the data."""
SECONDS = 20.0
"""Maximum processor time of training on a sample; without convergence, a quarter of the sample is used."""
LONG_ITERATION = 5.0
"""From this number of seconds on, an iteration on all data is run once instead of twice."""


class TrainingCost(NamedTuple):
    """The expected cost of training.

    iterations (int): Iterations to convergence.
    bounded (bool): Whether this is only `max_iterations`, because training did not converge on a sample.
    iteration_seconds (float): Seconds of an iteration on all data.
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


class Expense(NamedTuple):
    """Cost of the pipeline: seconds to encode and to train, and the peak memory of this process, if it can be told."""

    encoding: float
    training: float
    megabytes: float | None


def costs_of(training: PipelineTraining) -> tuple[dict[str, TrainingCost], Expense]:
    """Return the cost of each component, and of the pipeline; the training corpus is encoded."""
    started = _seconds()
    training.encode(postpone=False)
    encoding = _seconds() - started
    costs = {}
    for name, pipe in training.to_train.items():
        if name not in training.resumed:
            with pipe.training.training_on() as (objective, _):
                costs[name] = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
    try:
        import resource
    except ImportError:  # Windows
        megabytes = None
    else:
        unit = 1 if sys.platform == "darwin" else 1 << 10
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return costs, Expense(encoding, sum(cost.seconds for cost in costs.values()), megabytes)


def estimate(objective: Objective, optimizer: Optimizer, theta: Floats) -> TrainingCost:
    """Return the cost of training from theta [D], which does not change."""
    n = objective.n_sequences
    from ...training.dataset import SAMPLE_SEQUENCES

    sizes = sorted({max(1, min(n, SAMPLE_SEQUENCES) // part) for part in (RATIO, 1)})
    added = [getattr(potential, "plugin", None) for potential in getattr(objective.potential, "small", ())]
    if not all(getattr(plugin, "transferable", True) for plugin in added):  # one learns from the whole corpus only
        sizes = []
    for size in sizes[:1]:
        _iterations(_part(objective, size), optimizer, theta, limit=2)  # one-off work
    expected = None
    for size in sizes:
        done, converged = _iterations(_part(objective, size), optimizer, theta)
        if not converged:
            break
        expected = done + log(n / size, RATIO) if optimizer.online else done * (n / size) ** POWER
    iterations = optimizer.max_iterations if expected is None else min(round(expected), optimizer.max_iterations)
    return TrainingCost(iterations, expected is None, _iteration_seconds(objective, optimizer, theta), n, len(theta))


def _seconds() -> float:
    """Return the time without that of compiling, which a later process does not spend."""
    from ...kernels._compile import NOTICE

    return perf_counter() - NOTICE.seconds


def _part(objective: Objective, size: int) -> Objective:
    n = max(1, objective.n_sequences)
    samples = ((term, max(1, round(size * term.data.n_sequences / n))) for term in objective.terms)
    return objective.on([term._replace(data=term.data.sample(number)) for term, number in samples])


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
    """Return the seconds of an iteration on all data, without one-off work if that is short."""
    state, seconds = optimizer.start(theta.copy()), np.inf
    for _ in range(2):
        started = _seconds()
        report = optimizer.iterate(objective, state)
        seconds = min(seconds, _seconds() - started)
        if report.converged or seconds > LONG_ITERATION:
            break
    return float(seconds)
