"""Kinds of errors: pairs of gold and predicted spans, and confusion tables.

The kinds are those of Manning (2006, "Doing named entity recognition? Don't optimize for F1"), refined from MUC-5
(Chinchor & Sundheim 1993): correct; labelling error (correct boundaries, wrong label); boundary error (correct label,
overlapping boundaries); both; missed; spurious.  Each span, gold or predicted, is in at most one pair.  Correct spans
are paired first, then labelling errors, boundary errors and errors of both kinds, each with the largest overlap first.
The remaining spans are missed or spurious.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...schemes import TagSpan

RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS = "right", "label", "boundary", "both", "missed", "spurious"
KINDS = (RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS)
NOTHING = ""
"""The label of a missing span in tables."""


class Pair(NamedTuple):
    """One of `KINDS`; a gold span and the predicted one that it pairs with, None if there is none."""

    kind: str
    gold: TagSpan | None
    found: TagSpan | None


def pair_spans(gold: Sequence[TagSpan], predicted: Sequence[TagSpan]) -> list[Pair]:
    """Return the spans of one text in pairs, each once, in the order of the text."""
    there, same = set(predicted), set(gold)
    pairs = [Pair(RIGHT, span, span) for span in dict.fromkeys(gold) if span in there]
    left = [span for span in dict.fromkeys(gold) if span not in there]
    free = [span for span in dict.fromkeys(predicted) if span not in same]
    at: dict[int, list[int]] = {}  # by token, so that the time for a long text is linear
    for j, other in enumerate(free):
        for token in range(other.start, other.end):
            at.setdefault(token, []).append(j)
    candidates = {
        (*_distance(span_, free[j]), i, j)
        for i, span_ in enumerate(left)
        for token in range(span_.start, span_.end)
        for j in at.get(token, ())
    }
    rows, columns = set(range(len(left))), set(range(len(free)))  # unpaired spans
    for rank, _, i, j in sorted(candidates):
        if i in rows and j in columns:
            rows.remove(i)
            columns.remove(j)
            pairs.append(Pair(KINDS[rank], left[i], free[j]))
    pairs += [Pair(MISSED, left[i], None) for i in rows] + [Pair(SPURIOUS, None, free[j]) for j in columns]
    return sorted(pairs, key=lambda pair: pair.gold or pair.found or ())


def _distance(gold: TagSpan, predicted: TagSpan) -> tuple[int, int]:
    # the index of the kind of two overlapping spans, and minus the number of shared tokens
    if (gold.start, gold.end) == (predicted.start, predicted.end):
        return KINDS.index(LABEL), 0
    shared = min(gold.end, predicted.end) - max(gold.start, predicted.start)
    return KINDS.index(BOUNDARY if gold.label == predicted.label else BOTH), -shared


def kinds_by_label(pairs: Iterable[Pair]) -> dict[str, Counter[str]]:
    """Return the counts of each kind by label: the gold label, for spurious spans their own."""
    table: dict[str, Counter[str]] = {}
    for kind, *spans in pairs:
        label = next(span.label for span in spans if span)
        table.setdefault(label, Counter())[kind] += 1
    return dict(sorted(table.items()))


def span_confusion(pairs: Iterable[Pair]) -> Counter[tuple[str, str]]:
    """Return the counts of gold labels (first) predicted as labels (second); `NOTHING` for no span."""
    return Counter(
        (gold.label if gold else NOTHING, predicted.label if predicted else NOTHING) for _, gold, predicted in pairs
    )


def confusion(gold: ArrayLike, predicted: ArrayLike, n_labels: int) -> NDArray[np.int64]:
    """Return the counts of gold labels (row) predicted as labels (column) [L, L]; gold labels below 0 are ignored."""
    is_known = np.asarray(gold) >= 0
    a, b = np.asarray(gold, np.int64)[is_known], np.asarray(predicted, np.int64)[is_known]
    counts: NDArray[np.int64] = np.bincount(a * n_labels + b, minlength=n_labels * n_labels)
    return counts.reshape(n_labels, n_labels)
