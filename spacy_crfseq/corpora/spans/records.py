"""An annotated text as formats of spans give it, and notes on what in a file cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...errors import FormatError, count_of, first_of

INCORRECT = "incorrect"
"""The column of spans that are known to be wrong; only present where a text has one."""
NOWHERE = -1
"""Start and end of a span that comes as a text without a position."""
LISTED = 5
"""Number of spans that a warning lists."""
DOUBTFUL = 0.5
"""Spans with a lower score are more likely wrong than right, if the score is a probability."""
MOST = 0.5
FEW = 10
"""A file is in error if more than this share of its spans is of no use, and more than this number."""


class CharSpan(NamedTuple):
    """A labelled span of characters.

    text: Its text according to the file, empty if the file does not say.
    score: Its probability, None if the file does not say.
    """

    start: int
    end: int
    label: str
    text: str = ""
    score: float | None = None

    @property
    def placed(self) -> bool:
        """Whether it has a position."""
        return self.start != NOWHERE


class Unusable(NamedTuple):
    """A span that is in a text, but not as one stretch with a label; the reason continues its description."""

    span: CharSpan
    reason: str


class Annotated(NamedTuple):
    """An annotated text.

    spans, wrong: Annotated spans, and spans known to be wrong.
    unusable: Spans that cannot be learned.
    unknown: Characters that are not annotated, from and to.
    complete (bool): Whether the rest of the text is known to be outside any span; otherwise it is not annotated.
    weight (float): Its weight in training.
    in_utf16 (bool): Whether its tool counts characters in UTF-16, where the file does not show otherwise.
    keys: The names and numbers of its record, which may be groups of texts.
    predicted (bool): Whether its spans are predictions of a model, because its annotation is empty.
    words (Sequence[str] | None): Its tokens, if the file has them, with one space between them in `text`.
    """

    text: str
    spans: Sequence[CharSpan]
    wrong: Sequence[CharSpan] = ()
    unusable: Sequence[Unusable] = ()
    unknown: Sequence[tuple[int, int]] = ()
    complete: bool = True
    weight: float = 1.0
    in_utf16: bool = False
    keys: Mapping[str, str] = {}
    words: Sequence[str] | None = None
    predicted: bool = False


class SkippedError(Exception):
    """A text to leave out, with the reason."""


class Skipped(NamedTuple):
    """A text that is left out."""

    reason: str


Item: TypeAlias = tuple[int, Annotated] | Skipped | FormatError
"""The items that a format yields: a text with its line, or the fault of one."""


class Notes:
    """Texts and spans that were left out of a file, or are in doubt.

    skipped: The number of texts by reason.
    total: The number of spans, before any is left out.
    spans, overlapping, doubtful: Spans with their line and what is wrong, those in the way of others, and those that
        fit two places.
    alternatives: Spans of which several labels are kept, with their line.
    unmatched: Spans that came as texts, with their line, which are not at a place of their own, and why.
    unsure: The number of spans below the least score.
    unscored: The number of spans that the least score cannot judge, as they have none.
    predicted: The number of texts whose annotation is empty, and that have predictions instead.
    n_short: The number of spans that cannot be used, but could if they ended one character later.
    n_scored, n_doubtful: The number of spans with a score, and of those below `DOUBTFUL`; and their lowest and highest.
    """

    def __init__(self) -> None:
        self.skipped, self.total, self.unsure, self.unscored = Counter[str](), 0, 0, 0
        self.predicted = self.n_short = 0
        self.n_scored, self.n_doubtful, self.lowest, self.highest = 0, 0, inf, -inf
        self.spans: list[tuple[int, str]] = []
        self.overlapping: list[tuple[int, str]] = []
        self.doubtful: list[tuple[int, str]] = []
        self.alternatives: list[tuple[int, str]] = []
        self.unmatched: list[tuple[int, CharSpan, str]] = []

    def score(self, span: CharSpan) -> None:
        """Count the score of a span, if it has one."""
        if span.score is not None:
            self.n_scored += 1
            self.n_doubtful += span.score < DOUBTFUL
            self.lowest, self.highest = min(self.lowest, span.score), max(self.highest, span.score)

    def short_ends(self) -> str:
        """Return a sentence on ends that are one short, if most spans have such.

        A few only end inside of a token, such as a name with the ending of a case.
        """
        if 2 * self.n_short <= self.total:
            return ""
        ends = f"The ends of {self.n_short:,} of them are one short" if self.n_short > 1 else "Its end is one short"
        return f" {ends}: give the number of the character behind the last one, as Python does."

    def messages(self, path: Path, listed: int = LISTED) -> list[tuple[str, list[str]]]:
        """Return messages, each with a list of places."""
        lines: list[tuple[str, list[str]]] = []
        if self.skipped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.most_common())
            lines.append((f"{path}: texts left out: {reasons}.", []))
        if self.predicted:
            texts = count_of(self.predicted, "text")
            said = "without annotation, read with predictions of a model: give min_score, or remove what is wrong"
            lines.append((f"{path}: {texts} {said}.", []))
        if self.unsure:
            number = count_of(self.unsure, "span")
            lines.append((f"{path}: {number} below min_score; the tokens there are unknown.", []))
        if self.unscored:
            number = count_of(self.unscored, "span")
            said = f"{path}: {number} without a score, certain despite min_score."
            lines.append((said, []))
        if self.unmatched:
            by_reason = Counter(reason for *_, reason in self.unmatched).most_common()
            counts = ", ".join(f"{count:,} {reason}" for reason, count in by_reason)
            places = [f"{path}:{line}: {span.text!r} ({span.label}) is {why}" for line, span, why in self.unmatched]
            said = f"{path}: {count_of(len(places), 'span')} left out that came as a text: {counts}."
            lines.append((said, first_of(places, listed)))
        for spans, text in (
            (self.spans, f"cannot be used; the tokens there count as not annotated.{self.short_ends()}"),
            (
                self.overlapping,
                "left out because of an overlap with one of a higher score or, of the same score, a longer one.",
            ),
            (self.alternatives, "with several labels, which are candidates: one of them is right."),
            (
                self.doubtful,
                "may be at two places, because characters above U+FFFF count once or twice. Look whether these are "
                "right. A span behind such a character whose text occurs once decides for the whole file.",
            ),
        ):
            if spans:
                places = first_of([f"{path}:{line}: {what}" for line, what in spans], listed)
                lines.append((f"{path}: {count_of(len(spans), 'span')} {text}", places))
        return lines


def failed(lost: int, total: int) -> bool:
    """Whether so many spans of a file are of no use that it must be read in another way."""
    return lost > max(FEW, MOST * total)
