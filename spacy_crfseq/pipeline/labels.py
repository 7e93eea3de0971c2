"""The labels of a model: its tags, which may follow which, and the labels that the tokens of Docs may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from spacy.tokens import Doc

from ..errors import ConfigError, DataError, suggest
from ..schemes import occurrence_rules
from ..threads import cached_property
from ..training.dataset import CandidateTable
from ..types import MISSING, Bools, Candidates, Constraints, IncorrectSpan, Ints, OccurrenceRules
from .evidence import KEY, NO_EVIDENCE, DocEvidence, Partial, SpanLike, Tags, about, crosses_sentences, read_evidence
from .extract import DocColumns
from .tasks.base import Annotation


class LabelSet:
    """The tags of a model, in the order of its numbers, under the rules of a task; immutable.

    component (str): The name of the component, for messages.
    """

    def __init__(self, annotation: Annotation, component: str, tags: Iterable[str] = ()) -> None:
        self.annotation, self.component, self.tags = annotation, component, tuple(tags)

    @cached_property
    def constraints(self) -> Constraints:
        """Which of the L tags may follow each other."""
        return self.annotation.constraints(self.tags)

    def rules(self, once: Sequence[str], order: Sequence[str]) -> OccurrenceRules | None:
        """Return the rules of these settings, see `schemes.occurrence_rules`; None if they are empty.

        RAISES ConfigError: If a setting names a label that is not there, or one twice.
        """
        if not once and not order:
            return None
        try:
            return _rules(self.tags, self.annotation.scheme or "plain", tuple(once), tuple(order))
        except ConfigError as error:
            raise ConfigError(f"Component {self.component!r}: {error}") from None

    def numbers(self, tags: Tags, partials: PartialTable) -> Ints:
        """Return gold labels [T] for gold tags.  RAISES DataError: If the component does not have a tag."""
        numbers: dict[str | None, int] = {None: MISSING, **{tag: number for number, tag in enumerate(self.tags)}}
        try:
            found = [partials.number(tag) if isinstance(tag, Partial) else numbers[tag] for tag in tags]
            return np.array(found, np.int32)
        except KeyError as error:
            label = (*self.annotation.public_labels([error.args[0]]), error.args[0])[0]
            raise DataError(
                f"Component {self.component!r}: the label {error.args[0]!r} is in the data but not among the "
                f"component's labels ({', '.join(self.tags[:20])}). Use add_label({label!r}), or add it to the labels "
                "given to initialize."
            ) from None

    def preset(self, docs: Sequence[Doc], columns: DocColumns) -> dict[int, DocEvidence]:
        """Return the decisions of earlier components about Docs, by number."""
        return self.annotation.preset(docs, columns.state, columns.doc_offsets, self.tags)

    def allowed(self, docs: Sequence[Doc], columns: DocColumns, known: Mapping[int, DocEvidence]) -> Bools | None:
        """Return which tags the tokens of Docs may have [T, L], None if all may have all.

        known (Mapping[int, DocEvidence]): What is known about single Docs, by number.
        RAISES DataError: If it is impossible or contradicts itself.
        """
        allowed = self.annotation.allowed(columns.state, self.tags)
        if not known:
            return allowed
        if allowed is None:
            allowed = np.ones((int(columns.doc_offsets[-1]), len(self.tags)), np.bool_)
        for number, evidence in known.items():
            self._restrict(allowed[slice(*columns.doc_offsets[number : number + 2])], evidence, docs[number])
        return allowed

    def _restrict(self, allowed: Bools, evidence: DocEvidence, doc: Doc) -> None:
        """Remove the labels that the evidence rules out from allowed [tokens, L].  RAISES DataError: As `allowed`."""
        taken: set[int] = set()
        for span in dict.fromkeys(evidence.spans):  # a ruler and a user may give the same span
            where = f"{about(doc)}: the given span {span.start}-{span.end} {span.label_!r}"
            if not taken.isdisjoint(range(span.start, span.end)):
                raise DataError(f"{where} overlaps another.")
            taken.update(range(span.start, span.end))
            self._clamp(allowed, span, doc, where)
        for token, labels in evidence.allowed.items():
            if not 0 <= token < len(doc):
                raise DataError(f"{about(doc)}: labels are given for token {token}, but it has {len(doc)} tokens.")
            allowed[token] &= np.isin(np.arange(len(self.tags)), numbers_of(labels, self.annotation, self.tags))
            if not allowed[token].any():
                raise DataError(
                    f"{about(doc)}: no label is left for token {token}, {doc[token].text!r}: what is known of it "
                    "(restrict, given spans, entities that are set on the Doc already) contradicts itself."
                )

    def _clamp(self, allowed: Bools, span: SpanLike, doc: Doc, where: str) -> None:
        start, end, label = span
        if not 0 <= start < end <= len(doc):
            raise DataError(f"{where} is not inside the {len(doc)} tokens.")
        if crosses_sentences(doc, start, end):
            raise DataError(f"{where} reaches over the end of a sentence, which no labelling can.")
        wanted = self.annotation.tags_of_span(end - start, label)
        unknown = [tag for tag in wanted if tag not in self.tags]
        if unknown:
            raise DataError(f"{where}: the model has no tag {unknown[0]!r}. {suggest(unknown[0], self.tags)}")
        numbers = [self.tags.index(tag) for tag in wanted]
        allowed[start:end] = False
        allowed[np.arange(start, end), numbers] = True
        if end < len(doc) and not doc[end].is_sent_start:
            allowed[end] &= ~self.constraints.inside[numbers[-1]]


_rules = lru_cache(maxsize=16)(occurrence_rules)


def known_of(
    docs: Sequence[Doc],
    component: str,
    preset: Mapping[int, DocEvidence] | None,
    given: Mapping[int, DocEvidence] | None = None,
) -> dict[int, DocEvidence]:
    """Return everything that is known about Docs, by number, including the notes on them.

    preset (Mapping | None): Decisions of earlier components, as they are on the Docs; None uses the notes about them.
    given (Mapping | None): Further knowledge.
    """
    known = dict(preset or {})
    kinds = ("user", "preset") if preset is None else ("user",)
    for number, doc in enumerate(docs):
        if given and number in given:
            known[number] = known.get(number, NO_EVIDENCE).and_(given[number])
        if KEY in doc.user_data:
            known[number] = known.get(number, NO_EVIDENCE).and_(read_evidence(doc, component, kinds))
    return known


def numbers_of(labels: Iterable[str], annotation: Annotation, tags: Sequence[str]) -> list[int]:
    """Return the numbers of the tags that labels (tags or types) stand for.  RAISES DataError: If there are none."""
    found: list[int] = []
    for label in labels:
        meant = [i for i, tag in enumerate(tags) if label == tag or (label,) == annotation.public_labels([tag])]
        if not meant:
            raise DataError(f"The model has no label {label!r}. {suggest(label, annotation.public_labels(tags))}")
        found += meant
    return found


class PartialTable:
    """Numbers partial knowledge about gold tokens, and keeps the candidate sets behind the numbers."""

    def __init__(self, annotation: Annotation) -> None:
        self._annotation = annotation
        self._numbers: dict[Partial, int] = {}
        self._tags: tuple[str, ...] = ()
        self.candidates = CandidateTable()

    def number(self, partial: Partial) -> int:
        """Return the gold label for partial knowledge, below `MISSING`."""
        return MISSING - 1 - self._numbers.setdefault(partial, len(self._numbers))

    def new_tags(self, known: Sequence[str]) -> list[str]:
        """Return tags that only partially known tokens may have, and all tags of types without any."""
        labels = dict.fromkeys(label for partial in self._numbers for label in partial.labels or ())
        tags = dict.fromkeys(label for label in labels if self._annotation.is_tag(label))
        types = set(self._annotation.public_labels([*known, *tags]))
        new = [label for label in labels if label not in {*types, *tags}]
        tags.update(dict.fromkeys(self._annotation.all_tags(new) if new else ()))
        return [tag for tag in tags if tag not in known]

    def resolve(self, tags: Sequence[str]) -> None:
        """Update the candidate sets for a model's tags.  RAISES DataError: If a token has no label left."""
        if tuple(tags) != self._tags:
            self._tags, self.candidates.now = tuple(tags), Candidates(np.zeros((0, len(tags)), np.bool_))
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
            pattern = self._pattern(label, length)
            if len(pattern) == 1:
                allowed &= ~pattern[0]
            elif pattern.any(1).all():
                spans.append(IncorrectSpan(number, length, pattern))
        if not allowed.any():
            raise DataError("what is known of the token leaves no label for it.")
        return allowed, spans

    def _pattern(self, label: str, length: int) -> Bools:
        """Return [length or length + 1, L] the tags of a span, and those after it if some would continue it."""
        after = tags_after(self._annotation, label, length)
        rows = [[tag == wanted for tag in self._tags] for wanted in self._annotation.tags_of_span(length, label)]
        return np.array([*rows, *([[tag not in after for tag in self._tags]] if after else [])], np.bool_)


def tags_after(annotation: Annotation, label: str, length: int) -> list[str]:
    """Return the tags that, right after a span, would continue it."""
    tags = annotation.all_tags([label])
    last = tags.index(annotation.tags_of_span(length, label)[-1])
    inside = annotation.constraints(tags).inside[last]
    return [tag for tag, goes_on in zip(tags, inside, strict=True) if goes_on]
