"""Precision, recall and F1 from the numbers of correct, predicted and gold spans."""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

SEQUENCES = "sequence_acc"
"""How the names of accuracies of whole sequences end."""


class PRF(NamedTuple):
    """Precision, recall and F1; 0.0 after a division by zero."""

    precision: float
    recall: float
    f1: float


def prf(right: int, predicted: int, gold: int) -> PRF:
    """Return precision, recall and F1 of three counts."""
    return PRF(*np.nan_to_num(rates((right, predicted, gold))).tolist())


def rates(counts: ArrayLike) -> Values:
    """Return precision, recall and F1 [..., 3] of counts [..., 3]: correct, predicted, gold.

    Precision is nan without predicted spans, recall without gold spans, and F1 without either.
    """
    right, predicted, gold = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    return np.stack([share(right, predicted), share(right, gold), share(2 * right, predicted + gold)], axis=-1)


def rates_by_label(counts: Values) -> Values:
    """Return `rates` of each of L labels as one row [..., 3 L], of counts likewise [..., 3 L]."""
    return rates(counts.reshape(*counts.shape[:-1], -1, 3)).reshape(counts.shape)


def accuracy(counts: Values) -> Values:
    """Return the accuracy [..., 1] of counts [..., 2]: correct tokens, and all."""
    return share(counts[..., :1], counts[..., 1:])


def share(part: Values, whole: Values) -> Values:
    """Return part / whole, nan if both are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient: Values = np.divide(part, whole)
    return quotient


def for_json(row: Any) -> dict[str, Any]:
    """Return the fields of a NamedTuple by name, with None for nan and infinity, which JSON does not support."""
    return {name: finite(value) if isinstance(value, float) else value for name, value in row._asdict().items()}


def finite(value: float) -> float | None:
    """Return a number, or None for nan and infinity, which JSON does not have."""
    return float(value) if np.isfinite(value) else None


def f1_of(predicted: Set[Hashable], gold: Set[Hashable]) -> float:
    """Return the F1 score of a set; 1.0 if both are empty.  It uses plain numbers for speed."""
    total = len(predicted) + len(gold)
    return 2 * len(predicted & gold) / total if total else 1.0
