"""Two pipelines on the same texts: scores side by side, whether they differ by more than chance, and what changed.

Intervals and p values are those of the paired bootstrap (Koehn 2004), in the form of Berg-Kirkpatrick, Burkett & Klein
(2012); `tools/_pages/bootstrap.py` has the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...evaluation.spans import span_counts
from ...prf import Values, accuracy, for_json, rates_by_label
from ...schemes import Span
from .._pages import bootstrap
from .._pages.charts import Bar
from .._pages.judged import Judged, Tokens, moved, shown_part, within

if TYPE_CHECKING:
    from .._pages.html import Side

MOST_LABELS = 30
"""Number of labels in a table."""


class Line(NamedTuple):
    """Two scores of the same spans and their difference, as shares; nan if there is nothing to score.

    p: Probability of a difference as large by chance.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    def cells(self) -> list[str]:
        """Return A, B, their difference, its interval, and p as text; scores in per cent."""
        a, b = (_percent(score, "") for score in (self.first, self.second))
        if not np.isfinite(self.difference):
            return [a, b, "-", "-", "-"]
        interval = f"{_percent(self.low, '+')} to {_percent(self.high, '+')}"
        return [a, b, _percent(self.difference, "+"), interval, f"{self.p:.3f}"]

    def bar(self, name: str) -> Bar:
        """Return the difference as a bar, in points, with its interval if there is one."""
        value, low, high = (round(100 * v, 2) for v in (self.difference, self.low, self.high))
        return Bar(name, value, None, low, high) if np.isfinite(low) else Bar(name, value)


def _percent(share: float, sign: str) -> str:
    return f"{100 * share + 0.0:{sign}.2f}" if np.isfinite(share) else "-"


class Change(NamedTuple):
    """A text that one of the two labels better.

    number: Index of the text in the file, from 1.
    fewer: Number of mistakes that the second avoids.
    odd: Spans that gold, first and second do not share.
    """

    number: int
    fewer: int
    tokens: Tokens
    gold: list[Span]
    first: list[Span]
    second: list[Span]
    odd: frozenset[Span]

    def sides(self) -> list[tuple[str, list[Span]]]:
        """Return the spans that are not shared, with their owners."""
        sides = (("gold", self.gold), ("A", self.first), ("B", self.second))
        return [(name, [span for span in spans if span in self.odd]) for name, spans in sides]

    def part(self) -> tuple[Tokens, list[Side]]:
        """Return the tokens to show on a page, and the spans in them that are not shared."""
        begin, end = shown_part(0, len(self.tokens.words), min(span.start for span in self.odd))
        sides = [(name, [moved(s, begin) for s in within(spans, begin, end)]) for name, spans in self.sides()]
        return self.tokens.part(begin, end), [(name, [(*span, None) for span in spans], {}) for name, spans in sides]

    def as_json(self) -> dict[str, Any]:
        """Return the text and all its spans for JSON."""
        spans = {name: [list(span) for span in getattr(self, name)] for name in ("gold", "first", "second")}
        return {"text": self.number, "fewer_mistakes": self.fewer, "words": self.tokens.words, **spans}


class Comparison(NamedTuple):
    """The comparison of a component of two pipelines.

    unit: "spans" or "tokens".
    score: Score of all labels together: "F1", or "accuracy" for a tagger.
    whole, labels, gold: Scores of all labels together; F1 of each; gold spans of each.
    only_first, only_second: Gold spans that one found and the other did not.
    texts_first, texts_second: Number of texts without mistakes in one and with mistakes in the other.
    better, worse: Texts in which the second makes fewer mistakes, and more; with the largest changes first.
    """

    name: str
    unit: str
    score: str
    texts: int
    whole: Line
    labels: dict[str, Line]
    gold: dict[str, int]
    only_first: int
    only_second: int
    texts_first: int
    texts_second: int
    better: list[Change]
    worse: list[Change]

    def lines(self) -> list[tuple[str, str, Line]]:
        """Return name, number of gold spans and scores of all labels together, then of the most frequent ones."""
        few = sorted(self.labels, key=lambda label: -self.gold[label])[:MOST_LABELS]
        of_labels = [(label, f"{self.gold[label]:,}", self.labels[label]) for label in few]
        return [(f"{self.score}, all", "", self.whole), *of_labels]

    def rows(self) -> list[list[str]]:
        """Return the lines as the cells of a table."""
        return [[name, n, *line.cells()] for name, n, line in self.lines()]

    def changes(self, n_shown: int) -> list[tuple[str, str, list[Change]]]:
        """Return improved and worsened texts to show: the kind, their number, and some of them."""
        return [
            (title, f"{len(changes):,} of {self.texts:,} texts, the largest changes first", changes[:n_shown])
            for title, changes in (("better", self.better), ("worse", self.worse))
            if changes[:n_shown]
        ]

    def in_words(self) -> str:
        """Return the number of examples that only one labelled correctly."""
        return (
            f"Gold {self.unit} that only A got right: {self.only_first:,}; only B: {self.only_second:,}. "
            f"Texts that only A got right as a whole: {self.texts_first:,}; only B: {self.texts_second:,}."
        )

    def as_json(self, n_shown: int) -> dict[str, Any]:
        """Return the figures for JSON, with some of the texts."""
        numbers = ("unit", "score", "texts", "only_first", "only_second", "texts_first", "texts_second")
        return {
            **{name: getattr(self, name) for name in numbers},
            "all": for_json(self.whole),
            "labels": {label: {"gold": self.gold[label], **for_json(line)} for label, line in self.labels.items()},
            "n_better": len(self.better),
            "n_worse": len(self.worse),
            "better": [change.as_json() for change in self.better[:n_shown]],
            "worse": [change.as_json() for change in self.worse[:n_shown]],
        }


def compare_judged(name: str, first: Judged, second: Judged, n_samples: int) -> Comparison:
    """Return the comparison of two predictions, with `n_samples` for the intervals."""

    def f1_by_label(counts: Values) -> Values:
        return rates_by_label(counts)[..., 2::3]

    labels = sorted({*first.labels, *second.labels})
    counts = [span_counts(one.gold, one.found, labels) for one in (first, second)]
    whole = [one.token_counts for one in (first, second)] if first.plain else [each.sum(1) for each in counts]
    of_labels = _lines([each.reshape(len(each), -1) for each in counts], f1_by_label, n_samples)
    sides = [zip(one.gold, one.found, strict=True) for one in (first, second)]
    right = [[set(gold) & set(found) for gold, found in side] for side in sides]
    n_texts = len(first.texts)
    wrong = [np.array([one.mistakes(i) for i in range(n_texts)], np.int64) for one in (first, second)]
    changes = []
    for i, fewer in enumerate((wrong[0] - wrong[1]).tolist()):
        if fewer:
            gold, a, b = spans = first.gold[i], first.found[i], second.found[i]
            odd = frozenset({*gold, *a, *b} - (set(gold) & set(a) & set(b)))
            changes.append(Change(i + 1, fewer, first.texts[i], *spans, odd))
    return Comparison(
        name=name,
        unit=first.unit,
        score="accuracy" if first.plain else "F1",
        texts=n_texts,
        whole=_lines(whole, accuracy if first.plain else f1_by_label, n_samples)[0],
        labels=dict(zip(labels, of_labels, strict=True)),
        gold=dict(zip(labels, counts[0].sum(0)[:, 2].tolist(), strict=True)),
        only_first=sum(len(a - b) for a, b in zip(*right, strict=True)),
        only_second=sum(len(b - a) for a, b in zip(*right, strict=True)),
        texts_first=int(((wrong[0] == 0) & (wrong[1] > 0)).sum()),
        texts_second=int(((wrong[1] == 0) & (wrong[0] > 0)).sum()),
        better=sorted((one for one in changes if one.fewer > 0), key=lambda one: (-one.fewer, one.number)),
        worse=sorted((one for one in changes if one.fewer < 0), key=lambda one: (one.fewer, one.number)),
    )


def _lines(counts: Sequence[NDArray[np.int64]], score: bootstrap.Score, n_samples: int) -> list[Line]:
    difference = bootstrap.compare(counts[0], counts[1], score, n_samples)
    scores = [score(each.sum(0).astype(np.float64)) for each in counts]
    return [Line(*map(float, each)) for each in zip(*scores, *difference, strict=True)]
