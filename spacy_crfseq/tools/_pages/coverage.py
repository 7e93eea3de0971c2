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


class Coverage(NamedTuple):
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
    """Return the share of covered spans [..., 1] of counts [..., 2]: covered ones, and all; nan without spans."""
    return share(counts[..., :1], counts[..., 1:])


def coverage(gold: Sequence[Sequence[TagSpan]], found: Sequence[Sequence[TagSpan]]) -> Coverage:
    """Return the coverage of the gold spans of texts by those found; text by text."""
    words = [{i for span in spans for i in range(span.start, span.end)} for spans in found]
    truth = [{i for span in spans for i in range(span.start, span.end)} for spans in gold]
    covered = [
        [(span.label, here.issuperset(range(span.start, span.end))) for span in spans]
        for spans, here in zip(gold, words, strict=True)
    ]
    labels = sorted({label for spans in covered for label, _ in spans})
    rows = []
    for label in [*labels, ALL]:
        counts = np.array(
            [
                np.sum([(hit, 1) for name, hit in spans if label in (name, ALL)], 0, initial=0) * np.ones(2)
                for spans in covered
            ]
        ).reshape(-1, 2)
        value, low, high = interval(counts, covered_share)
        rows.append(Covered(label, int(counts[:, 1].sum()), *(float(number[0]) for number in (value, low, high))))
    n_words = sum(map(len, words))
    right = sum(len(here & there) for here, there in zip(words, truth, strict=True))
    return Coverage(rows, n_words, right / n_words if n_words else float("nan"))
