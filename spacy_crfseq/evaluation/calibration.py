"""Calibration: whether predictions of probability p are right in a share p of the cases, and a temperature for it.

Probabilities are put in bins; the expected calibration error is the mean distance between what a bin promises and what
it keeps, sum over bins b of n_b / n |share correct_b - mean probability_b| (Naeini, Cooper & Hauskrecht 2015; Guo,
Pleiss, Sun & Weinberger 2017, equation 3).  A temperature T divides the scores of a trained model: above 1 it makes
probabilities less extreme, below 1 more, and the most probable labelling stays the same (Guo et al. 2017, section 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ConfigError, DataError
from ..prf import Values, for_json

SPREAD = 1.0
"""Standard deviation of the normal prior on log T: worth less than one prediction, it keeps the temperature of a small
sample finite where all is right, or all is wrong."""
HOTTEST = 3.0
"""Temperatures between exp(-3) and exp(3) are tried."""
GRID = 13
"""Temperatures to begin the search with, equally far apart in log T; the loss need not have a single valley."""
TOLERANCE = 1e-3
"""Of log T, a thousandth part of the temperature."""
SMALLEST = 1e-7
"""Probabilities are kept this far from 0 and 1 in logarithms: scores have single precision."""
SLACK = 1e-4
"""How far sums in single precision may carry a probability beyond 0 and 1."""


class Bin(NamedTuple):
    """Predictions of probabilities above `low`, up to `high`: how many, their mean probability, the share of right.

    The first bin takes its low end, too.
    """

    low: float
    high: float
    total: int
    predicted: float
    correct: float


class Calibration(NamedTuple):
    """How well the probabilities of `total` predictions fit; the other fields are nan where there is none.

    predicted, correct: Mean probability, share that is right.
    error: Expected calibration error.
    brier: Mean squared distance of the probability from 1 where right, from 0 where wrong.
    log_loss: Mean log loss in nats.
    """

    total: int
    predicted: float
    correct: float
    error: float
    brier: float
    log_loss: float


class Certainty(NamedTuple):
    """How far probabilities at a temperature can be believed: the reliability table, and by label."""

    temperature: float
    bins: list[Bin]
    whole: Calibration
    labels: dict[str, Calibration]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, without those of single labels."""
        return {"temperature": self.temperature, **for_json(self.whole), "bins": [for_json(part) for part in self.bins]}


def reliability(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> list[Bin]:
    """Return the reliability table, bins in ascending order; bins without predictions are left out.

    probabilities, correct: [S] of S predictions, between 0 and 1, and whether they are right.
    equal_mass (bool): Bins of about S / n_bins predictions each, fewer where there are fewer predictions or equal
        probabilities, which stay together; else of equal width.
    RAISES ConfigError: If `n_bins` is not positive.
    RAISES DataError: If the arrays do not fit, or hold something else.
    """
    if n_bins < 1:
        raise ConfigError(f"A reliability table needs at least 1 bin, but {n_bins} was given.")
    p, right = _checked(probabilities, correct)
    if not len(p):
        return []
    edges = np.arange(n_bins + 1) / n_bins
    if equal_mass:
        lasts = np.arange(1, n_bins) * len(p) // n_bins - 1  # the last prediction of each bin but the highest
        edges = np.concatenate([[0.0], np.unique(np.sort(p)[lasts[lasts >= 0]]), [1.0]])
    numbers = np.searchsorted(edges[1:-1], p, side="left")
    counts = np.bincount(numbers, minlength=len(edges) - 1)
    sums, hits = (np.bincount(numbers, values, len(counts)) for values in (p, right))
    filled = np.flatnonzero(counts)
    total = counts[filled]
    columns = edges[filled], edges[filled + 1], total, sums[filled] / total, hits[filled] / total
    return [Bin(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error of a reliability table; nan if it is empty."""
    total = sum(part.total for part in bins)
    return sum(part.total * abs(part.correct - part.predicted) for part in bins) / total if total else float("nan")


def calibration(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> Calibration:
    """Return how well probabilities fit; arguments as `reliability` has them."""
    error = calibration_error(reliability(probabilities, correct, n_bins, equal_mass=equal_mass))
    p, right = _checked(probabilities, correct)
    if not len(p):
        return Calibration(0, *[float("nan")] * 5)
    means = (p.mean(), right.mean(), error, ((p - right) ** 2).mean(), log_losses(p, right).mean())
    return Calibration(len(p), *map(float, means))


def log_losses(probabilities: ArrayLike, correct: ArrayLike) -> Values:
    """Return the log loss [S] of each prediction: -log p where right, -log(1 - p) where wrong."""
    p, right = _checked(probabilities, correct)
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    losses: Values = -np.log(np.where(right > 0, p, 1 - p))
    return losses


def fit_temperature(probabilities_at: Callable[[float], ArrayLike], correct: ArrayLike) -> float:
    """Return the temperature that minimises the log loss of predictions being right.

    probabilities_at (Callable): Maps a temperature to the probabilities [S] of the same S predictions; `correct` [S].
    RAISES DataError: If there are no predictions.
    """
    if not np.size(correct):
        raise DataError("There are no predictions to fit a temperature to.")

    def cost(log_temperature: float) -> float:
        losses = log_losses(probabilities_at(float(np.exp(log_temperature))), correct)
        return float(losses.sum() + 0.5 * (log_temperature / SPREAD) ** 2)

    grid = np.linspace(-HOTTEST, HOTTEST, GRID)
    best = int(np.argmin([cost(float(point)) for point in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    return float(np.exp(golden_section(cost, float(around[0]), float(around[1]), TOLERANCE)))


def golden_section(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return the minimum of a function with one valley between `low` and `high` (Kiefer 1953)."""
    share = (5**0.5 - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            at_left = function(left := high - share * (high - low))
        else:
            low, left, at_left = left, right, at_right
            at_right = function(right := low + share * (high - low))
    return (low + high) / 2


def _checked(probabilities: ArrayLike, correct: ArrayLike) -> tuple[Values, Values]:
    p, right = np.asarray(probabilities, np.float64), np.asarray(correct, np.float64)
    if p.ndim != 1 or p.shape != right.shape:
        raise DataError(f"Probabilities {p.shape} and what is correct {right.shape} must be two lists of one length.")
    inside = (p > -SLACK) & (p < 1 + SLACK)
    if not inside.all() or not np.isin(right, (0, 1)).all():
        raise DataError("Probabilities must lie between 0 and 1, and what is correct be 0 or 1.")
    return np.clip(p, 0, 1), right
