"""Regularization path: models of growing size, each started from the one before.

The minimum for one L1 strength rho1 is close to that for the next smaller one, so that a whole path costs only slightly
more than its last model (Friedman, Hastie & Tibshirani 2010, section 2.5, "pathwise coordinate descent"; Lavergne,
Cappe & Yvon 2010 for CRFs).  A development score chooses among the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ...errors import ConfigError
from ...regularizers.elastic_net import ElasticNet
from ...training.objective import Objective
from ...types import Floats, Optimizer, StepReport


class PathStep(NamedTuple):
    """A model of the path.

    rho1 (float): Strength of its L1 norm.
    objective, loss (float): Minimum of the objective, and the loss alone, summed over the sequences.
    unigrams, pairs (int): Weights other than zero that score one label, and those that score two.
    score (float): Development score.
    iterations (int): Iterations of the optimizer, from the model before.
    seconds (float): Wall time from the start of the path, the score included.
    """

    rho1: float
    objective: float
    loss: float
    unigrams: int
    pairs: int
    score: float
    iterations: int
    seconds: float

    @property
    def active(self) -> int:
        """All weights other than zero."""
        return self.unigrams + self.pairs


SHARE = 0.01
"""Share of the weights that are not zero where a path begins."""
ROUGH_ITERATIONS = 10
GAIN, PATIENCE = 0.001, 2
"""A path has passed its best score when so many models in a row were not better by so much."""


def sparse_start(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    *,
    rho2: float = 0.0,
    watch: Callable[[StepReport], None] | None = None,
) -> float:
    """Return a rho1 that leaves about `SHARE` of the weights other than zero; theta [D] of zeros gets near its minimum.

    A weight is taken to stay zero where its gradient is smaller than rho1: at zero, then after a few iterations with
    the rho1 found there (the "strong rule" of Tibshirani et al. 2012, for one step of a path).
    """
    smooth, found = objective.under(ElasticNet(0.0, rho2)), 0.0
    for last in (False, True):
        gradient = abs(smooth.value_and_grad(theta)[2])
        gradient[theta != 0] = np.inf
        place = -1 - int(SHARE * (len(gradient) - 1))
        limit = float(np.partition(gradient, place)[place])
        found = limit if np.isfinite(limit) else found
        if not last and found > 0:
            _minimise(objective.under(ElasticNet(found, rho2)), optimizer, theta, watch, ROUGH_ITERATIONS)
    return found or 1.0


def has_passed_its_best(steps: Sequence[PathStep]) -> bool:
    """Return whether the last `PATIENCE` models are not better than one before by `GAIN` or more."""
    before = max((step.score for step in steps[:-PATIENCE]), default=0.0)
    return before > 0 and all(step.score < before + GAIN for step in steps[-PATIENCE:])


def schedule(first: float, last: float, steps: int) -> list[float]:
    """Return strengths from `first` down to `last` in geometric progression; one if they are equal.

    RAISES ConfigError: If they do not go down, the last is not positive, or there is no step.
    """
    if steps < 1:
        raise ConfigError(f"A path needs at least 1 step, but {steps} was given.")
    if not 0 < last <= first:
        raise ConfigError(
            f"A path goes from a larger strength down to a smaller one above 0, but not from {first:g} to {last:g}."
        )
    return [first] if steps == 1 or first == last else [float(rho) for rho in np.geomspace(first, last, steps)]


def choose(steps: Sequence[PathStep], within: float = 0.0) -> int:
    """Return the number of the smallest model whose score is at most `within` below the best."""
    best = max(step.score for step in steps)
    return min(
        (number for number, step in enumerate(steps) if step.score >= best - within - 1e-12),
        key=lambda number: (steps[number].active, -steps[number].score),
    )


def follow(
    objective: Objective,
    optimizer: Optimizer,
    strengths: Iterable[float],
    theta: Floats,
    evaluate: Callable[[Floats], float],
    *,
    rho2: float = 0.0,
    watch: Callable[[StepReport], None] | None = None,
) -> Iterator[tuple[PathStep, Floats]]:
    """Minimise loss + rho1 ||w||_1 + rho2/2 ||w||^2 for each rho1 in turn, beginning at `theta` [D].

    evaluate (Callable): Maps parameters to a development score.
    watch (Callable): Called after every iteration of the optimizer.
    YIELDS: Each model and its parameters [D], in an array that the next model overwrites.
    """
    began, theta = perf_counter(), theta.copy()
    for rho1 in strengths:
        report, iterations = _minimise(objective.under(ElasticNet(rho1, rho2)), optimizer, theta, watch)
        figures = *_sizes(objective, theta), evaluate(theta), iterations, perf_counter() - began
        yield PathStep(rho1, report.value, report.loss, *figures), theta


def _minimise(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    watch: Callable[[StepReport], None] | None,
    most: float = np.inf,
) -> tuple[StepReport, int]:
    """Minimise from `theta` [D] and write the minimum there; return the last report and the number of iterations.

    most (float): Iterations after which the run ends in any case.
    """
    state, iterations = optimizer.start(theta), 0
    while True:
        report, iterations = optimizer.iterate(objective, state), iterations + 1
        if watch is not None:
            watch(report)
        if report.converged or iterations >= most:
            optimizer.export(state, theta)
            return report, iterations


def _sizes(objective: Objective, theta: Floats) -> tuple[int, int]:
    """Return how many weights score one label, and how many two."""
    views = objective.layout.views(theta)
    unigrams, bigrams, transitions, start, end = (np.count_nonzero(group) for group in views)
    return int(unigrams + start + end), int(bigrams + transitions)
