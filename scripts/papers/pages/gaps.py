"""Gaps between taggers that know more and less, on the tables of Hall, McDonald & Petrov (2011)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scripts.papers._harness import Row


def scores_of(rows: Sequence[Row], knowledge: str, score: str) -> list[float]:
    """Return a score for each seed, in their order."""
    return [row[score] for row in sorted(rows, key=lambda row: row["seed"]) if row["known"] == knowledge]


def mean(scores: Sequence[float]) -> float:
    """Return the mean of scores.  Raises StatisticsError, a ValueError, where there are none."""
    return statistics.fmean(scores)


class Gap(NamedTuple):
    """The scores of some rows, and from the least to the most that a tagger knows."""

    rows: Sequence[Row]
    least: str
    most: str
    score: str

    def shares(self, knowledge: str) -> list[float]:
        """Return, for each seed, the share of the gap that some knowledge closes."""
        parts = [scores_of(self.rows, name, self.score) for name in (self.least, knowledge, self.most)]
        return [_part(*scores) for scores in zip(*parts, strict=True)]

    def share(self, knowledge: str) -> float:
        """Return the share of the gap between mean scores."""
        return _part(*(mean(scores_of(self.rows, name, self.score)) for name in (self.least, knowledge, self.most)))

    def told(self, knowledge: str) -> list[str]:
        """Return the share of the gap, and the smallest and the largest of a seed, as texts."""
        per_seed = self.shares(knowledge)
        return [f"{self.share(knowledge):.0%}", f"{min(per_seed):.0%} to {max(per_seed):.0%}"]

    def gains(self, knowledge: str, before: str = "") -> list[float]:
        """Return, for each seed, what some knowledge adds to the score before, that of the least by default."""
        parts = [scores_of(self.rows, name, self.score) for name in (before or self.least, knowledge)]
        return [after - low for low, after in zip(*parts, strict=True)]


def _part(low: float, here: float, high: float) -> float:
    return (here - low) / (high - low) if high != low else float("nan")


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return mean and standard deviation."""
    if not values:
        return ""
    sd = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{sd}"
