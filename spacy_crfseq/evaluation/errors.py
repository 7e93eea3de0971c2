"""What kind of mistakes predictions make: gold and predicted spans in pairs, and tables of what was taken for what.

The kinds are those of Manning (2006, "Doing named entity recognition? Don't optimize for F1"), refined from MUC-5
(Chinchor & Sundheim 1993): right; labelling error (the stretch is right, its label is not); boundary error (the label
is right, the stretch overlaps); both at once; missed, and spurious.  Each span, gold or predicted, is in one pair at
most: first the right ones pair, then labelling errors, boundary errors and errors of both, of each kind those with the
largest overlap first; what is left is missed or spurious.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..schemes import Span

RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS = "right", "label", "boundary", "both", "missed", "spurious"
KINDS = (RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS)
NOTHING = ""
"""In tables of spans: the label of what is not there."""

SEEN, OTHER, NEW = "seen with this label", "seen with another label", "never seen"
FAMILIAR = (SEEN, OTHER, NEW)


class Pair(NamedTuple):
    """One of `KINDS`; a gold span and the predicted one that it pairs with, None where there is none."""

    kind: str
    gold: Span | None
    found: Span | None


def pair_spans(gold: Sequence[Span], found: Sequence[Span]) -> list[Pair]:
    """Return the spans of one text in pairs, each once, in the order of the text."""
    there, same = set(found), set(gold)
    pairs = [Pair(RIGHT, span, span) for span in dict.fromkeys(gold) if span in there]
    left = [span for span in dict.fromkeys(gold) if span not in there]
    free = [span for span in dict.fromkeys(found) if span not in same]
    at: dict[int, list[int]] = {}  # by token, so that a long text takes no longer than its sentences
    for j, other in enumerate(free):
        for token in range(other.start, other.end):
            at.setdefault(token, []).append(j)
    candidates = {
        (*_distance(one, free[j]), i, j)
        for i, one in enumerate(left)
        for token in range(one.start, one.end)
        for j in at.get(token, ())
    }
    rows, columns = set(range(len(left))), set(range(len(free)))  # what is in no pair
    for rank, _, i, j in sorted(candidates):
        if i in rows and j in columns:
            rows.remove(i)
            columns.remove(j)
            pairs.append(Pair(KINDS[rank], left[i], free[j]))
    pairs += [Pair(MISSED, left[i], None) for i in rows] + [Pair(SPURIOUS, None, free[j]) for j in columns]
    return sorted(pairs, key=lambda pair: pair.gold or pair.found or ())


def _distance(gold: Span, found: Span) -> tuple[int, int]:
    # the number of the kind of two spans that overlap, and minus the tokens that they share
    if (gold.start, gold.end) == (found.start, found.end):
        return KINDS.index(LABEL), 0
    shared = min(gold.end, found.end) - max(gold.start, found.start)
    return KINDS.index(BOUNDARY if gold.label == found.label else BOTH), -shared


def span_counts(
    gold: Sequence[Iterable[Span]],
    found: Sequence[Iterable[Span]],
    labels: Sequence[str],
    label_of: Callable[[int, Span], str] = lambda _, span: span.label,
) -> NDArray[np.int64]:
    """Return for each of N texts and L labels how many spans are right, found, and in the gold standard [N, L, 3].

    label_of (Callable): Maps the number of a text and a span in it to the label under which the span counts.
    """
    counts = np.zeros((len(gold), len(labels), 3), np.int64)
    number = {label: i for i, label in enumerate(labels)}
    for i, (there, guessed) in enumerate(zip(gold, found, strict=True)):
        for place, spans in enumerate((set(there) & set(guessed), set(guessed), set(there))):
            for span in spans:
                counts[i, number[label_of(i, span)], place] += 1
    return counts


def kinds_by_label(pairs: Iterable[Pair]) -> dict[str, Counter[str]]:
    """Return how many spans of each label are of each kind: by the gold label, spurious ones by their own."""
    table: dict[str, Counter[str]] = {}
    for kind, *spans in pairs:
        label = next(span.label for span in spans if span)
        table.setdefault(label, Counter())[kind] += 1
    return dict(sorted(table.items()))


def span_confusion(pairs: Iterable[Pair]) -> Counter[tuple[str, str]]:
    """Return how often spans of a gold label (first) were found with a label (second); `NOTHING` for no span."""
    return Counter((gold.label if gold else NOTHING, found.label if found else NOTHING) for _, gold, found in pairs)


def confusion(gold: ArrayLike, found: ArrayLike, n_labels: int) -> NDArray[np.int64]:
    """Return how often a gold label (row) was predicted as a label (column) [L, L]; none below 0 in `gold` [T]."""
    known = np.asarray(gold) >= 0
    a, b = np.asarray(gold, np.int64)[known], np.asarray(found, np.int64)[known]
    counts: NDArray[np.int64] = np.bincount(a * n_labels + b, minlength=n_labels * n_labels)
    return counts.reshape(n_labels, n_labels)


class Familiarity(NamedTuple):
    """The labels that each text, a word or that of a span, has in a training corpus."""

    labels: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Familiarity:
        """Collect pairs of texts and labels."""
        labels: dict[str, set[str]] = {}
        for text, label in pairs:
            labels.setdefault(text, set()).add(label)
        return cls({text: frozenset(found) for text, found in labels.items()})

    def status(self, text: str, label: str) -> str:
        """Return which of `FAMILIAR` a text with a label is."""
        found = self.labels.get(text)
        return NEW if found is None else SEEN if label in found else OTHER
