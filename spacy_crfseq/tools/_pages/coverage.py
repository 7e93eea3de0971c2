"""How many gold spans are covered: all their words are in predicted spans, of whatever type and boundaries.

This is the recall of an anonymisation, which hides the words of all predicted spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...prf import Values, finite, share
from ...schemes import TagSpan
from .bootstrap import interval

ALL = "all"


class Covered(NamedTuple):
    """The share of the gold spans of a label that are covered, and its 95 % interval by samples of the texts."""

    label: str
    spans: int
    recall: float
    low: float
    high: float


class SpanCoverage(NamedTuple):
    """The shares of covered spans of each label and of all, and of the words of predicted spans that are in gold ones.

    words (int): Number of the words of predicted spans.
    """

    labels: list[Covered]
    words: int
    precision: float

    def rows(self) -> list[list[str]]:
        """Return the cells of a table: label, spans, recall, interval."""
        return [
            [label, f"{spans:,}", f"{100 * recall:.2f}", f"{100 * low:.2f} to {100 * high:.2f}"]
            for label, spans, recall, low, high in self.labels
        ]

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        head = [["covered", "spans", "%", "95 % interval"], *self.rows()]
        widths = [max(map(len, column)) for column in zip(*head, strict=True)]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in head]
        return [
            *table,
            f"{self.words:,} words are in predicted spans, {100 * self.precision:.2f} % of them in gold spans",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as values for JSON."""
        labels = {
            covered.label: {name: finite(value) for name, value in covered._asdict().items() if name != "label"}
            for covered in self.labels
        }
        return {"labels": labels, "words": self.words, "precision": finite(self.precision)}


def covered_share(counts: Values) -> Values:
    """Return the shares of covered spans [..., G] of counts [..., 2 G]: those covered, and all; nan without spans."""
    pairs = counts.reshape(*counts.shape[:-1], -1, 2)
    return share(pairs[..., 0], pairs[..., 1])


def coverage(gold: Sequence[Sequence[TagSpan]], predicted: Sequence[Sequence[TagSpan]]) -> SpanCoverage:
    """Return the coverage of the gold spans of texts by those found, text by text."""
    labels = [*sorted({span.label for spans in gold for span in spans}), ALL]
    place, counts = {label: i for i, label in enumerate(labels)}, np.zeros((len(gold), len(labels), 2))
    n_words = n_right = 0
    for spans, others, row in zip(gold, predicted, counts, strict=True):
        words, truth = ({i for span in side for i in range(span.start, span.end)} for side in (others, spans))
        n_words, n_right = n_words + len(words), n_right + len(words & truth)
        for start, end, label in spans:
            row[[place[label], -1]] += words.issuperset(range(start, end)), 1
    figures = np.stack(interval(counts.reshape(len(gold), -1), covered_share), 1).tolist()
    totals = counts[..., 1].sum(0).astype(int).tolist()
    rows = [Covered(label, total, *row) for label, total, row in zip(labels, totals, figures, strict=True)]
    return SpanCoverage(rows, n_words, n_right / n_words if n_words else float("nan"))
