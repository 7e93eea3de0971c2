"""Gold Docs that tell only something of a token: labels it may have, labels it has not, spans that do not begin there.

What is noted on a gold Doc by `CRFComponent.restrict`, and the spans of its ``incorrect_spans_key``, are put together
with its gold tags.  Where one tag is left, it is a gold tag like others; elsewhere a `Partial` stands in its place,
and a table numbers these (`types.Candidates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import DataError
from ..training.dataset import CandidateTable
from ..types import MISSING, Bools, Candidates, IncorrectSpan
from .given import Given, given_of, numbers_of

if TYPE_CHECKING:
    from .annotations import Annotation, Tags


@dataclass(frozen=True)
class Partial:
    """What is known of a token whose tag is not.

    labels (tuple[str, ...] | None): Tags one of which it has, or types, which stand for all their tags; None for any.
    barred (tuple[str, ...]): Tags that it does not have.
    wrong (tuple[tuple[str, int], ...]): Labels and lengths of spans that do not begin there.
    where (str): The Doc and the token, for messages.
    """

    labels: tuple[str, ...] | None = None
    barred: tuple[str, ...] = ()
    wrong: tuple[tuple[str, int], ...] = ()
    where: str = field(default="", compare=False)


class PartialTable:
    """Numbers what is known of tokens, and keeps the candidate sets that the numbers stand for.

    candidates (CandidateTable): The sets, for data sets to refer to.
    """

    def __init__(self, annotation: Annotation) -> None:
        self._annotation = annotation
        self._numbers: dict[Partial, int] = {}
        self._tags: list[str] = []
        self.candidates = CandidateTable()

    def number(self, partial: Partial) -> int:
        """Return the gold label that stands for what is known, below `MISSING`."""
        return MISSING - 1 - self._numbers.setdefault(partial, len(self._numbers))

    def labels(self) -> list[str]:
        """Return all labels that tokens may have, in the order of their first appearance."""
        return list(dict.fromkeys(label for partial in self._numbers for label in partial.labels or ()))

    def resolve(self, tags: Sequence[str]) -> None:
        """Bring the candidate sets up to date with a model's tags and with what was numbered.

        RAISES DataError: On a label that is none of the model's, and where none is left for a token.
        """
        if list(tags) != self._tags:
            self._tags, self.candidates.now = list(tags), Candidates(np.zeros((0, len(tags)), np.bool_))
        sets, incorrect = self.candidates.now
        rows, spans = [sets], list(incorrect)
        for partial, number in list(self._numbers.items())[len(sets) :]:
            try:
                allowed, wrong = self._resolved(partial, number)
            except DataError as error:
                self._numbers = dict(list(self._numbers.items())[: len(sets)])  # forget it, and what came with it
                raise DataError(f"{partial.where}: {error}") from None
            rows.append(allowed[None])
            spans += wrong
        self.candidates.now = Candidates(np.concatenate(rows), tuple(spans))

    def _resolved(self, partial: Partial, number: int) -> tuple[Bools, list[IncorrectSpan]]:
        tags, spans = self._tags, []
        allowed = np.full(len(tags), partial.labels is None)
        allowed[numbers_of(partial.labels or (), self._annotation, tags)] = True
        allowed &= ~np.isin(tags, partial.barred)
        for label, length in partial.wrong:
            numbers_of([label], self._annotation, tags)
            pattern = _pattern(self._annotation, label, length, tags)
            if len(pattern) == 1:
                allowed &= ~pattern[0]
            elif pattern.any(1).all():
                spans.append(IncorrectSpan(number, length, pattern))
        if not allowed.any():
            raise DataError("what is known of the token leaves no label for it.")
        return allowed, spans


def _pattern(annotation: Annotation, label: str, length: int, tags: Sequence[str]) -> Bools:
    """Return [length or length + 1, L] the tags of a span, and those behind it where some go on with it."""
    after = tags_after(annotation, label, length)
    rows = [[tag == wanted for tag in tags] for wanted in annotation.tags_of_span(length, label)]
    if after:
        rows.append([tag not in after for tag in tags])
    return np.array(rows, np.bool_)


def tags_after(annotation: Annotation, label: str, length: int) -> list[str]:
    """Return the tags that, right behind a span, would make it longer."""
    tags = annotation.all_tags([label])
    last = tags.index(annotation.tags_of_span(length, label)[-1])
    inside = annotation.constraints(tags).inside[last]
    return [tag for tag, goes_on in zip(tags, inside, strict=True) if goes_on]


def with_notes(tags: Tags, annotation: Annotation, example: Example, component: str, same_words: bool) -> Tags:
    """Return gold tags with what else is known of the gold Doc's tokens.

    A known tag that is one of the labels that its token may have stays.  Notes on tokens of another tokenization count
    where gold and predicted token stand for each other alone.
    RAISES DataError: Where what is known of a token contradicts itself.
    """
    notes = given_of(example.reference, component, ("user",))
    wrong = annotation.incorrect_spans(example, same_words)
    if not (notes.spans or notes.allowed or wrong):
        return tags
    reader = _Reader(list(tags), annotation, example)
    reader.take_notes(notes, None if same_words else _one_to_one(example))
    for start, end, label in wrong:
        reader.take_wrong(start, end, label)
    return reader.tags


def _one_to_one(example: Example) -> dict[int, int]:
    """Return the predicted token of each gold token, of those that have one for themselves."""
    to_gold, to_predicted = example.alignment.x2y, example.alignment.y2x
    pairs = ((i, to_gold[i]) for i in range(len(example.predicted)))
    return {int(gold[0]): i for i, gold in pairs if len(gold) == 1 and len(to_predicted[int(gold[0])]) == 1}


class _Reader:
    """Puts together what is known of the tokens of one example.

    tags (Tags): A tag, None or a `Partial` for each predicted token.
    """

    def __init__(self, tags: Tags, annotation: Annotation, example: Example) -> None:
        self.tags, self._annotation = tags, annotation
        self._doc, self._reference = example.predicted, example.reference

    def take_notes(self, notes: Given, places: dict[int, int] | None) -> None:
        """Take in spans that are there and labels that tokens may have."""
        for start, end, label in notes.spans:
            tokens = self._tokens(range(start, end), places)
            for token, tag in zip(tokens, self._annotation.tags_of_span(end - start, label), strict=False):
                self._allow(token, [tag])
            if tokens and not self._ends(tokens[-1] + 1):
                self._bar(tokens[-1] + 1, tags_after(self._annotation, label, end - start))
        for gold, labels in notes.allowed.items():
            for token in self._tokens(range(gold, gold + 1), places):
                self._allow(token, labels)

    def _tokens(self, gold: range, places: dict[int, int] | None) -> list[int]:
        """Return the predicted tokens of gold ones, none where not all have one."""
        size = len(self._reference)
        if not 0 <= gold.start < gold.stop <= size:
            about = f"tokens {gold.start}-{gold.stop}"
            raise DataError(f"{self._name} has {size} tokens, but something is noted of {about}.")
        if places is None:
            return list(gold)
        found = [places[i] for i in gold if i in places]
        return found if len(found) == len(gold) else []

    @property
    def _name(self) -> str:
        text = self._reference.text.strip()
        return f"The gold document {text if len(text) < 60 else text[:57] + '...'!r}"

    def _ends(self, token: int) -> bool:
        """Whether a sentence ends before a token."""
        return token >= len(self._doc) or bool(self._doc[token].is_sent_start)

    def _where(self, token: int) -> str:
        return f"{self._name}, token {token} ({self._doc[token].text!r})"

    def _fits(self, tag: str, labels: Sequence[str]) -> bool:
        return tag in labels or not set(self._annotation.public_labels([tag])).isdisjoint(labels)

    def _allow(self, token: int, labels: Sequence[str]) -> None:
        known = self.tags[token]
        given = " or ".join(map(repr, labels)) or "none"
        if isinstance(known, str):
            if not self._fits(known, labels):
                raise DataError(
                    f"{self._where(token)} is annotated as {known!r}, but its label is noted to be {given}."
                )
            return
        if known is not None and known.labels is not None:
            labels = [tag for tag in known.labels if self._fits(tag, labels)]
        if not labels:
            raise DataError(f"{self._where(token)}: no label is left for it, which is noted to be {given}.")
        partial = replace(known or Partial(), labels=tuple(sorted(set(labels))), where=self._where(token))
        alone = len(set(labels)) == 1 and self._annotation.is_tag(labels[0]) and partial == Partial(partial.labels)
        self.tags[token] = labels[0] if alone else partial

    def _bar(self, token: int, tags: Sequence[str]) -> None:
        known = self.tags[token]
        if isinstance(known, str):
            if known in tags:
                raise DataError(
                    f"{self._where(token)} is annotated as {known!r}, but a span is noted to end before it."
                )
        elif tags:
            barred = (*(known.barred if known else ()), *tags)
            self.tags[token] = replace(known or Partial(), barred=barred, where=self._where(token))

    def take_wrong(self, start: int, end: int, label: str) -> None:
        """Take in a span that is not there."""
        wanted = self._annotation.tags_of_span(end - start, label)
        after = tags_after(self._annotation, label, end - start)
        known = [self.tags[token] for token in range(start, end)]
        follows = None if self._ends(end) else self.tags[end]
        if any(isinstance(tag, str) and tag != want for tag, want in zip(known, wanted, strict=True)):
            return  # nobody says that it is there
        if follows in after:
            return
        if known == wanted and (isinstance(follows, str) or self._ends(end) or not after):
            raise DataError(
                f"{self._where(start)}: a span {label!r} of {end - start} tokens is both gold and incorrect."
            )
        first = known[0]
        partial = Partial((first,)) if isinstance(first, str) else first or Partial()
        wrong = tuple(dict.fromkeys((*partial.wrong, (label, end - start))))
        self.tags[start] = replace(partial, wrong=wrong, where=self._where(start))


def known_tags(tags: Tags) -> list[str | None]:
    """Return None for what is known only in part."""
    return [None if isinstance(tag, Partial) else tag for tag in tags]


def contents(reference: Doc, component: str) -> object:
    """Return something hashable that is equal for gold Docs with equal notes."""
    notes = given_of(reference, component, ("user",))
    return repr((notes.spans, sorted(notes.allowed.items())))
