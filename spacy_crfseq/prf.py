"""Precision, recall and F1, from the numbers of spans that are right, that were found, and that there are."""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


class PRF(NamedTuple):
    """Precision, recall and F1; 0.0 where nothing was there to divide by."""

    precision: float
    recall: float
    f1: float


def prf(right: int, found: int, gold: int) -> PRF:
    """Return precision, recall and F1 of three counts."""
    return PRF(*np.nan_to_num(rates((right, found, gold))).tolist())


def rates(counts: ArrayLike) -> Values:
    """Return precision, recall and F1 [..., 3] of counts [..., 3]: right, found, in the gold standard.

    nan where nothing is found, or there is nothing to find; F1 only where neither is.
    """
    right, found, gold = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    return np.stack([share(right, found), share(right, gold), share(2 * right, found + gold)], axis=-1)


def rates_by_label(counts: Values) -> Values:
    """Return `rates` of each of L labels as one row [..., 3 L], of counts likewise [..., 3 L]."""
    return rates(counts.reshape(*counts.shape[:-1], -1, 3)).reshape(counts.shape)


def accuracy(counts: Values) -> Values:
    """Return the share of tokens that are right [..., 1], of counts [..., 2]: right tokens, and all."""
    return share(counts[..., :1], counts[..., 1:])


def share(part: Values, whole: Values) -> Values:
    """Return part / whole, nan where both are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient: Values = np.divide(part, whole)
    return quotient


def for_json(row: Any) -> dict[str, Any]:
    """Return the fields of a NamedTuple by their names, None for nan and infinity, which JSON does not know."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in row._asdict().items()
    }


def f1_of(found: Set[Hashable], gold: Set[Hashable]) -> float:
    """Return the F1 score of a set; 1.0 if both are empty.  Plain numbers, since losses call it for each labelling."""
    total = len(found) + len(gold)
    return 2 * len(found & gold) / total if total else 1.0
