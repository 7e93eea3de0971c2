"""Calibration: whether a share p of predictions with probability p is correct.

The expected calibration error is the sum over bins b of n_b / n |share correct_b - mean probability_b| (Naeini, Cooper
& Hauskrecht 2015; Guo, Pleiss, Sun & Weinberger 2017, equation 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import ConfigError, DataError
from .judged import Judged

Values = NDArray[np.float64]

SMALLEST = 1e-7
"""Minimum distance of probabilities from 0 and 1 in logarithms, because scores have single precision."""
SLACK = 1e-4
"""Maximum rounding error of a probability beyond 0 and 1 in single precision."""


class Bin(NamedTuple):
    """Predictions, at least 1, of probability low < p <= high; the first bin also contains its low end.

    predicted (float): Mean probability.
    correct (float): Share of correct predictions.
    """

    low: float
    high: float
    total: int
    predicted: float
    correct: float


class Calibration(NamedTuple):
    """Calibration of `total` predictions; the other fields are nan if there is none.

    predicted, correct (float): Mean probability, and the share of correct predictions.
    error (float): Expected calibration error.
    brier (float): Mean squared distance of the probability from 1 if correct, from 0 if wrong.
    log_loss (float): Mean log loss in nats.
    """

    total: int
    predicted: float
    correct: float
    error: float
    brier: float
    log_loss: float


class Certainty(NamedTuple):
    """Reliability of probabilities at a temperature.

    bins (list[Bin]): The reliability table.
    whole (Calibration): Calibration of all predictions.
    labels (dict[str, Calibration]): Calibration of each label.
    """

    temperature: float
    bins: list[Bin]
    whole: Calibration
    labels: dict[str, Calibration]

    def rows(self, digits: int = 3) -> list[list[str]]:
        """Return the cells of the reliability table: ends of a bin with some digits, number, mean, share correct."""
        return [
            [f"{b.low:.{digits}f} to {b.high:.{digits}f}", f"{b.total:,}", f"{b.predicted:.3f}", f"{b.correct:.3f}"]
            for b in self.bins
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, without those of single labels."""
        whole = {name: None if value != value else value for name, value in self.whole._asdict().items()}
        return {"temperature": self.temperature, **whole, "bins": [part._asdict() for part in self.bins]}


def reliability(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> list[Bin]:
    """Return the bins with predictions, in ascending order.

    probabilities, correct: [S] of S predictions, between 0 and 1, and whether they are correct.
    equal_mass (bool): Bins of about S / n_bins predictions each, equal probabilities together; else of equal width.
    RAISES ConfigError: If `n_bins` is not positive.
    RAISES DataError: If the arrays do not match or have invalid values.
    """
    if n_bins < 1:
        raise ConfigError(f"A reliability table needs at least 1 bin, but {n_bins} was given.")
    p, right = _checked(probabilities, correct)
    if not len(p):
        return []
    edges = _equal_mass_edges(p, n_bins) if equal_mass else np.arange(n_bins + 1) / n_bins
    numbers = np.searchsorted(edges[1:-1], p, side="left")
    counts = np.bincount(numbers, minlength=len(edges) - 1)
    sums, hits = (np.bincount(numbers, values, len(counts)) for values in (p, right))
    b = np.flatnonzero(counts)
    columns = edges[b], edges[b + 1], counts[b], sums[b] / counts[b], hits[b] / counts[b]
    return list(map(Bin, *(column.tolist() for column in columns)))


def _equal_mass_edges(p: Values, n_bins: int) -> Values:
    ordered = np.sort(p)
    lasts = np.arange(1, n_bins) * len(p) // n_bins - 1  # the last prediction of each bin but the highest
    inner: Values = np.unique(ordered[lasts[lasts >= 0]])
    return np.concatenate([[0.0], inner, [1.0]])


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error of a reliability table; nan if it is empty."""
    total = sum(part.total for part in bins)
    return sum(part.total * abs(part.correct - part.predicted) for part in bins) / total if total else float("nan")


def calibration(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> Calibration:
    """Return the calibration of probabilities; parameters as in `reliability`."""
    error = calibration_error(reliability(probabilities, correct, n_bins, equal_mass=equal_mass))
    p, right = _checked(probabilities, correct)
    if not len(p):
        return Calibration(0, *[float("nan")] * 5)
    means = (p.mean(), right.mean(), error, ((p - right) ** 2).mean(), log_losses(p, right).mean())
    return Calibration(len(p), *map(float, means))


def certainty(judged: Judged, n_bins: int = 10, *, equal_mass: bool = False) -> Certainty | None:
    """Return the reliability of a component's probabilities, None without; parameters as in `reliability`."""
    if judged.temperature is None:
        return None
    p, right = judged.certainties()
    labels = np.array([span.label for spans in judged.found for span in spans], np.str_)

    def of(chosen: NDArray[np.bool_]) -> Calibration:
        return calibration(p[chosen], right[chosen], n_bins, equal_mass=equal_mass)

    return Certainty(
        judged.temperature,
        reliability(p, right, n_bins, equal_mass=equal_mass),
        of(np.ones(len(p), np.bool_)),
        {str(label): of(labels == label) for label in np.unique(labels)},
    )


def log_losses(probabilities: ArrayLike, correct: ArrayLike) -> Values:
    """Return the log loss [S] of each prediction: -log p if correct, -log(1 - p) if wrong."""
    p, right = _checked(probabilities, correct)
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    losses: Values = -np.log(np.where(right > 0, p, 1 - p))
    return losses


def _checked(probabilities: ArrayLike, correct: ArrayLike) -> tuple[Values, Values]:
    p, right = np.asarray(probabilities, np.float64), np.asarray(correct, np.float64)
    if p.ndim != 1 or p.shape != right.shape:
        raise DataError(f"Probabilities {p.shape} and what is correct {right.shape} must be two lists of one length.")
    inside = (p > -SLACK) & (p < 1 + SLACK)
    if not inside.all() or not np.isin(right, (0, 1)).all():
        raise DataError("Probabilities must lie between 0 and 1, and what is correct be 0 or 1.")
    return np.clip(p, 0, 1), right
