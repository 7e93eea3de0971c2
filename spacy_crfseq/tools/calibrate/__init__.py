"""Probabilities that agree with frequencies, by a temperature: it divides the scores of a trained component.

Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", section 4.2, for the spans and tags of
a CRF.  A temperature above 1 makes probabilities less extreme, and the best labelling stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...errors import DataError
from .._pages.calibration import Certainty, calibration, log_losses

SPREAD = 1.0
"""Standard deviation of the normal prior on log T.  It has less weight than one prediction, and keeps the temperature
of a small sample finite if all predictions are correct or all are wrong."""
HOTTEST = 3.0
"""Temperatures are between exp(-3) and exp(3)."""
GRID = 13
"""Number of initial temperatures, equidistant in log T, because the loss may have several minima."""
TOLERANCE = 1e-3
"""Tolerance of log T."""


def fit_temperature(probabilities_at: Callable[[float], ArrayLike], correct: ArrayLike) -> float:
    """Return the temperature that minimises the log loss of S predictions.

    probabilities_at (Callable): Maps a temperature to their probabilities [S].
    correct: [S] whether they are correct.
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
    """Return the minimum of a unimodal function between `low` and `high` (Kiefer 1953)."""
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


class Result(NamedTuple):
    """Calibration of a component before and after, over its "spans" or "tokens"."""

    unit: str
    before: Certainty
    after: Certainty

    def rows(self) -> list[list[str]]:
        """Return the cells of each label, then of all: its number, share correct, and means before and after."""
        none = calibration([], [])
        labels = sorted({*self.before.labels, *self.after.labels})
        before, after = ([*(side.labels.get(label, none) for label in labels), side.whole] for side in self[1:])
        rows = []
        for label, old, new in zip([*labels, "all"], before, after, strict=True):
            numbers = ((getattr(old, name), getattr(new, name)) for name in ("predicted", "error", "brier"))
            changes = [cell for a, b in numbers for cell in (f"{a:.3f}", f"-> {b:.3f}")]
            rows.append([label, f"{old.total:,}", f"{old.correct:.3f}", *changes])
        return rows

    def as_json(self) -> dict[str, Any]:
        """Return the figures as values for JSON."""
        sides: dict[str, Any] = {}
        for name, side in (("before", self.before), ("after", self.after)):
            labels = {label: one._asdict() for label, one in side.labels.items()}
            sides[name] = {**side.as_json(), "labels": labels}
        return {"unit": self.unit, **sides}
