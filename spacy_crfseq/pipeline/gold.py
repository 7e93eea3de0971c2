"""The gold tags of an example, including partially known ones.

The evidence of `CRFComponent.clamp` on a gold Doc, and the spans of its ``incorrect_spans_key``, result in a `Partial`
for a token, unless only one tag remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spacy.training import Example

from ..errors import DataError
from .evidence import DocEvidence, Partial, Tags, about, read_evidence
from .labels import tags_after
from .tasks.base import Annotation


def gold_tags(annotation: Annotation, example: Example, component: str) -> Tags:
    """Return the gold tag of each predicted token: None if missing, a `Partial` if known in part.

    A known tag is kept if it is one of the labels that its token may have.  Notes on tokens of another tokenization,
    under the name of the component, count where one gold token corresponds to one predicted token.
    RAISES DataError: If the knowledge about a token contradicts itself.
    """
    tags = annotation.gold_tags(example, same := same_words(example))
    evidence = read_evidence(example.reference, component, ("user",))
    wrong = annotation.incorrect_spans(example, same)
    if not (evidence.spans or evidence.allowed or wrong):
        return tags
    reader = _Reader(list(tags), annotation, example)
    reader.take_evidence(evidence, None if same else _one_to_one(example))
    for start, end, label in wrong:
        reader.take_wrong(start, end, label)
    return reader.tags


def known_tags(tags: Tags) -> list[str | None]:
    """Replace partially known tags by None."""
    return [None if isinstance(tag, Partial) else tag for tag in tags]


def same_words(example: Example) -> bool:
    """Whether predicted and gold Doc have the same tokens, so that no alignment is needed."""
    predicted, reference = example.predicted, example.reference
    return len(predicted) == len(reference) and bool(
        (predicted.to_array(["ORTH"]) == reference.to_array(["ORTH"])).all()
    )


def _one_to_one(example: Example) -> dict[int, int]:
    """Return the predicted token of each gold token, for pairs that correspond to each other alone."""
    to_gold, to_predicted = example.alignment.x2y, example.alignment.y2x
    pairs = ((i, to_gold[i]) for i in range(len(example.predicted)))
    return {int(gold[0]): i for i, gold in pairs if len(gold) == 1 and len(to_predicted[int(gold[0])]) == 1}


class _Reader:
    """Collects what is known about the predicted tokens of one example in `tags`."""

    def __init__(self, tags: Tags, annotation: Annotation, example: Example) -> None:
        self.tags, self._annotation = tags, annotation
        self._doc, self._size = example.predicted, len(example.reference)
        self._name = about(example.reference, "The gold document")

    def take_evidence(self, notes: DocEvidence, places: dict[int, int] | None) -> None:
        """Add spans that are there and labels that tokens may have."""
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
        if not 0 <= gold.start < gold.stop <= self._size:
            noted = f"tokens {gold.start}-{gold.stop}"
            raise DataError(f"{self._name} has {self._size} tokens, but there is a note on {noted}.")
        if places is None:
            return list(gold)
        found = [places[i] for i in gold if i in places]
        return found if len(found) == len(gold) else []

    def _ends(self, token: int) -> bool:
        return token >= len(self._doc) or bool(self._doc[token].is_sent_start)

    def _where(self, token: int) -> str:
        return f"{self._name}, token {token} ({self._doc[token].text!r})"

    def _fits(self, tag: str, labels: Sequence[str]) -> bool:
        return tag in labels or not set(self._annotation.public_labels([tag])).isdisjoint(labels)

    def _allow(self, token: int, labels: Sequence[str]) -> None:
        known = self.tags[token]
        given = " or ".join(map(repr, labels)) or "none"
        if isinstance(known, str):
            if self._fits(known, labels):
                return
            raise DataError(f"{self._where(token)} is annotated as {known!r}, but its label is noted to be {given}.")
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
                where = self._where(token)
                raise DataError(f"{where} is annotated as {known!r}, but a span is noted to end before it.")
        elif tags:
            barred = (*(known.barred if known else ()), *tags)
            self.tags[token] = replace(known or Partial(), barred=barred, where=self._where(token))

    def take_wrong(self, start: int, end: int, label: str) -> None:
        """Add a span that is not there."""
        wanted = self._annotation.tags_of_span(end - start, label)
        after = tags_after(self._annotation, label, end - start)
        known = [self.tags[token] for token in range(start, end)]
        follows = None if self._ends(end) else self.tags[end]
        other = any(isinstance(tag, str) and tag != want for tag, want in zip(known, wanted, strict=True))
        if other or follows in after:  # the annotation does not have it anyway
            return
        if known == wanted and (isinstance(follows, str) or self._ends(end) or not after):
            where = self._where(start)
            raise DataError(f"{where}: a span {label!r} of {end - start} tokens is both gold and incorrect.")
        first = known[0]
        partial = Partial((first,)) if isinstance(first, str) else first or Partial()
        wrong = tuple(dict.fromkeys((*partial.wrong, (label, end - start))))
        self.tags[start] = replace(partial, wrong=wrong, where=self._where(start))
