"""The calibration of a component on the texts of a file: of all its predictions, and of those of each label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...reliability import Bin, PerfectError, calibration_error, checked, log_losses, perfect_error, reliability
from .judged import Judged


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

    @property
    def perfect(self) -> PerfectError:
        """The expected calibration error if the probabilities were perfect."""
        return perfect_error(self.bins)

    def rows(self, digits: int = 3) -> list[list[str]]:
        """Return the cells of the reliability table: ends of a bin with some digits, number, mean, share correct."""
        return [
            [f"{b.low:.{digits}f} to {b.high:.{digits}f}", f"{b.total:,}", f"{b.predicted:.3f}", f"{b.correct:.3f}"]
            for b in self.bins
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, without those of single labels."""
        whole, perfect = (
            {name: None if value != value else value for name, value in figures._asdict().items()}
            for figures in (self.whole, self.perfect)
        )
        bins = [part._asdict() for part in self.bins]
        return {"temperature": self.temperature, **whole, "perfect": perfect, "bins": bins}


def calibration(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> Calibration:
    """Return the calibration of probabilities; parameters as in `reliability`."""
    error = calibration_error(reliability(probabilities, correct, n_bins, equal_mass=equal_mass))
    p, right = checked(probabilities, correct)
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
