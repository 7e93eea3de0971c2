"""Counts and the report of conlleval, the scorer of the CoNLL shared tasks (Tjong Kim Sang & Buchholz, 2000).

A span counts as correct if its type and both its ends are.  Accuracy is that of the IOB2 tags of all tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..prf import prf
from ..schemes import OUTSIDE, Span

MOST = 100
"""Rows of a table of tags: words have more lemmas."""


@dataclass
class SpanCounts:
    """The counts of conlleval.

    tokens, right: Tokens with known gold annotation, and those with the correct tag.
    gold, found, correct: Spans by type: in the gold standard, predicted, and both.
    """

    tokens: int = 0
    right: int = 0
    gold: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def add(self, gold: Sequence[Span], found: Sequence[Span], known: Sequence[bool]) -> None:
        """Count the spans of a document of len(known) tokens; spans that touch an unknown token do not count."""
        found = [span for span in found if all(known[span.start : span.end])]
        self.gold.update(span.label for span in gold)
        self.found.update(span.label for span in found)
        self.correct.update(span.label for span in set(gold) & set(found))
        pairs = zip(_tags(gold, len(known)), _tags(found, len(known)), known, strict=True)
        self.right += sum(a == b for a, b, is_known in pairs if is_known)
        self.tokens += sum(known)

    @property
    def accuracy(self) -> float:
        """The share of tokens with the correct tag."""
        return self.right / self.tokens if self.tokens else 0.0

    def report(self, *, spans: bool = True) -> str:
        """Return the report of conlleval; without spans, that of tags, with a row each unless there are too many."""
        gold, found, correct = (sum(counts.values()) for counts in (self.gold, self.found, self.correct))
        head = f"processed {self.tokens} tokens with {gold} phrases; found: {found} phrases; correct: {correct}."
        total = f"accuracy: {100 * self.accuracy:6.2f}%; {scores_line(gold, found, correct)}"
        width = max(17, *map(len, [*self.gold, *self.found, ""]))
        rows = [
            f"{name:>{width}}: {scores_line(self.gold[name], self.found[name], self.correct[name])}  {self.found[name]}"
            for name in sorted({*self.gold, *self.found})
        ]
        if not spans:
            head, total = f"processed {self.tokens} tokens; correct: {self.right}.", total.partition(";")[0]
            rows = rows if len(rows) <= MOST else []
        return "\n".join([head, total, *rows])

    def per_type(self) -> dict[str, dict[str, float]]:
        """Return precision, recall and F1 of each type, named as in spaCy."""
        counts = {name: (self.correct[name], self.found[name], self.gold[name]) for name in {*self.gold, *self.found}}
        return {name: dict(zip("prf", prf(*of_type), strict=True)) for name, of_type in sorted(counts.items())}


def scores_line(gold: int, found: int, correct: int) -> str:
    """Return precision, recall and F1 of numbers of spans as conlleval prints them."""
    precision, recall, f1 = (100 * score for score in prf(correct, found, gold))
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def _tags(spans: Iterable[Span], length: int) -> list[str]:
    """Return IOB2 tags; of overlapping spans, which `schemes.encode` rejects, the last one wins."""
    tags = [OUTSIDE] * length
    for start, end, label in spans:
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags
