"""Annotation that models trained without it contradict, the most suspicious first.

Each place is a stretch of tokens where gold and predicted spans (or tags) differ.  What is compared are the exact
probabilities of both labellings of the stretch, in a model that has not been trained on the text.  Ranking by the
difference is the "normalized margin" of confident learning: Northcutt, Jiang & Chuang (2021), "Confident Learning:
Estimating Uncertainty in Dataset Labels", JAIR 70; with cross-validated predictions on CoNLL-2003, Reiss et al. (2020),
"Identifying Incorrect Labels in the CoNLL-2003 Corpus".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..schemes import Span


class Stretch(NamedTuple):
    """Tokens start..end-1 of a document, and the spans there, gold and predicted."""

    start: int
    end: int
    gold: tuple[Span, ...]
    predicted: tuple[Span, ...]


class Suspect(NamedTuple):
    """Annotation that may be wrong.

    where (str): File and line.
    gold, predicted (str): Spans as text, "O" for none.
    p_gold, p_predicted (float): Probabilities of both labellings of the stretch.
    """

    where: str
    text: str
    gold: str
    predicted: str
    p_gold: float
    p_predicted: float

    @property
    def margin(self) -> float:
        """P(predicted) - P(gold), at most 1: how sure the model is that the annotation is wrong."""
        return self.p_predicted - self.p_gold

    def as_json(self) -> dict[str, Any]:
        """Return it in a form that JSON knows."""
        return {**self._asdict(), "margin": self.margin}


def stretches(gold: Sequence[Span], predicted: Sequence[Span], known: Sequence[bool]) -> list[Stretch]:
    """Return where the spans of a document differ, in order; without stretches that are not annotated in full.

    known [tokens]: Whether a token is annotated.
    """
    here, there = set(gold) - set(predicted), set(predicted) - set(gold)
    found: list[Stretch] = []
    for span in sorted(here | there):
        if not found or span.start >= found[-1].end:
            found.append(Stretch(span.start, span.end, (), ()))
        last = found[-1]
        found[-1] = Stretch(
            last.start,
            max(last.end, span.end),
            (*last.gold, span) if span in here else last.gold,
            (*last.predicted, span) if span in there else last.predicted,
        )
    return [one for one in found if all(known[one.start : one.end])]


def worst(suspects: Sequence[Suspect], number: int) -> list[Suspect]:
    """Return the most suspicious, of which the predicted labelling is the more probable."""
    return sorted((one for one in suspects if one.margin > 0), key=lambda one: -one.margin)[:number]


def shown(spans: Sequence[Span], words: Sequence[str]) -> str:
    """Return spans as text, such as ``[New York LOC]``; "O" if there are none."""
    return " ".join(f"[{' '.join(words[s:e])} {label}]" for s, e, label in spans) or "O"


def context(words: Sequence[str], stretch: Stretch, around: int = 6) -> str:
    """Return the words around a stretch."""
    begin, end = max(0, stretch.start - around), stretch.end + around
    return " ".join([*(["..."] if begin else []), *words[begin:end], *(["..."] if end < len(words) else [])])
