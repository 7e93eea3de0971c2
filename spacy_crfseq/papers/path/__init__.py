"""A path of models of growing size: fits with ever smaller L1 penalties, each begun with the weights of the one before.

The minimum for one strength is close to that for the next smaller one, so that a whole path costs only slightly more
than its last model (Friedman, Hastie & Tibshirani 2010, section 2.5, "pathwise coordinate descent"; Lavergne, Cappe &
Yvon 2010 for CRFs).  A development score chooses among the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ...errors import ConfigError
from ...regularizers.elastic_net import ElasticNet
from ...types import Floats, Optimizer

if TYPE_CHECKING:
    from ...training.fit import FitResult, Progress
    from ...training.objective import Objective

SHARE = 0.01
"""Share of the weights that are not zero where a path begins."""
ROUGH_ITERATIONS = 10
GAIN, PATIENCE = 0.001, 2
"""A path has passed its best score when this many models in a row have not gained this much."""
Watch: TypeAlias = "Callable[[Progress], None] | None"
"""Called after every iteration of the optimizer."""


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


def sparse_start(
    objective: Objective, optimizer: Any, theta: Floats, *, rho2: float = 0.0, watch: Watch = None
) -> tuple[float, Floats]:
    """Return a rho1 that leaves about `SHARE` of the weights other than zero, and weights [D] near its minimum.

    A weight is taken to stay zero where its gradient is smaller than rho1: at zero, then after a few iterations with
    the rho1 found there (the "strong rule" of Tibshirani et al. 2012, for one step of a path).

    theta (Floats): [D] zeros.
    """
    smooth, rho1 = objective.under(ElasticNet(0.0, rho2)), 0.0
    for last in (False, True):
        gradient = abs(smooth.value_and_grad(theta)[2])
        gradient[theta != 0] = np.inf
        place = -1 - int(SHARE * (len(gradient) - 1))
        limit = float(np.partition(gradient, place)[place])
        rho1 = limit if np.isfinite(limit) else rho1
        if not last and rho1 > 0:
            few = replace(optimizer, max_iterations=ROUGH_ITERATIONS)
            theta = _minimum(objective.under(ElasticNet(rho1, rho2)), few, theta, watch).last
    return rho1 or 1.0, theta


def follow(
    objective: Objective,
    optimizer: Optimizer,
    strengths: Iterable[float],
    theta: Floats,
    evaluate: Callable[[Floats], float],
    *,
    rho2: float = 0.0,
    watch: Watch = None,
) -> Iterator[tuple[PathStep, Floats]]:
    """Minimise loss + rho1 ||w||_1 + rho2/2 ||w||^2 for each rho1 in turn; yield each model and its weights [D].

    theta (Floats): [D] weights to begin with.
    evaluate (Callable): Maps weights to a development score.
    RAISES KeyboardInterrupt: If a fit was interrupted.
    """
    began = perf_counter()
    for rho1 in strengths:
        result = _minimum(objective.under(ElasticNet(rho1, rho2)), optimizer, theta, watch)
        theta, report = result.last, result.history[-1].report
        score, seconds = evaluate(theta), perf_counter() - began
        yield PathStep(rho1, *report[:2], *_sizes(objective, theta), score, len(result.history), seconds), theta


def _minimum(objective: Objective, optimizer: Optimizer, theta: Floats, watch: Watch) -> FitResult:
    """Return a fit from `theta` [D] until the optimizer has converged.  RAISES KeyboardInterrupt."""
    from ...training.fit import fit

    result = fit(objective, optimizer, theta, callback=watch)
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    return result


def _sizes(objective: Objective, theta: Floats) -> tuple[int, int]:
    """Return how many weights other than zero score one label, and how many two."""
    views = objective.layout.views(theta)
    unigrams, bigrams, transitions, start, end = (np.count_nonzero(group) for group in views)
    return int(unigrams + start + end), int(bigrams + transitions)


def has_passed_its_best(steps: Sequence[PathStep]) -> bool:
    """Return whether the last `PATIENCE` models are not better than one before by `GAIN` or more."""
    before = max((step.score for step in steps[:-PATIENCE]), default=0.0)
    return before > 0 and all(step.score < before + GAIN for step in steps[-PATIENCE:])


def choose(steps: Sequence[PathStep], within: float = 0.0) -> int:
    """Return the number of the smallest model whose score is at most `within` below the best."""
    best = max(step.score for step in steps)
    return min(
        (number for number, step in enumerate(steps) if step.score >= best - within - 1e-12),
        key=lambda number: (steps[number].active, -steps[number].score),
    )
