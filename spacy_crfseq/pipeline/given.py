"""What is known about a Doc beforehand: spans that are there, labels that tokens may have.

A component notes it in ``doc.user_data``, in plain lists, so that it travels with the Doc through bytes and processes;
prediction and every question honour it.  On a gold Doc the same note says which labels its tokens may have in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.tokens import Doc

from ..errors import DataError, suggest
from ..types import Bools, Constraints

if TYPE_CHECKING:
    from .annotations import Annotation

KEY = "spacy_crfseq.given"
"""Key in ``doc.user_data`` of a dictionary with an entry for each component that something is noted for."""


class SpanLike(NamedTuple):
    """A labelled stretch of tokens; spaCy's Spans have the same attributes."""

    start: int
    end: int
    label_: str


class Given(NamedTuple):
    """What is known about a Doc.

    spans (list[SpanLike]): Spans that are there, with these boundaries.
    allowed (dict[int, list[str]]): Labels that single tokens may have: tags, or types, which stand for all their tags.
    """

    spans: list[SpanLike]
    allowed: dict[int, list[str]]

    def and_(self, other: Given) -> Given:
        """Return both together."""
        allowed = dict(self.allowed)
        for token, labels in other.allowed.items():
            allowed[token] = [label for label in labels if label in allowed.get(token, labels)]
        return Given([*self.spans, *other.spans], allowed)


NOTHING = Given([], {})


def make_given(spans: Iterable[Any], allowed: Mapping[int, Iterable[str]] | None) -> Given:
    """Return what a user says of a Doc.

    RAISES DataError: If a label stands where a list of labels should.
    """
    for token, labels in (allowed or {}).items():
        if isinstance(labels, str):
            raise DataError(f"allowed = {{{token}: {labels!r}}}: give a list of labels, such as [{labels!r}].")
    return Given(
        [SpanLike(int(span.start), int(span.end), str(span.label_)) for span in spans],
        {int(token): [str(label) for label in labels] for token, labels in (allowed or {}).items()},
    )


def note(doc: Doc, component: str, given: Given, kind: str = "user") -> None:
    """Write to the Doc what is known about it for a component; what was there before is forgotten.

    kind (str): Who says so: the "user", or, as "preset", components that came before.
    """
    notes = {name: dict(kinds) for name, kinds in doc.user_data.get(KEY, {}).items()}
    kinds = notes.setdefault(component, {})
    kinds.pop(kind, None)
    if given.spans or given.allowed:
        kinds[kind] = {
            "tokens": len(doc),
            "spans": [list(span) for span in given.spans],
            "allowed": [[token, labels] for token, labels in given.allowed.items()],
        }
    notes = {name: kinds for name, kinds in notes.items() if kinds}
    if notes:
        doc.user_data[KEY] = notes
    else:
        doc.user_data.pop(KEY, None)


def given_of(doc: Doc, component: str, kinds: Sequence[str] = ("user", "preset")) -> Given:
    """Return what is noted on a Doc for a component; what was preset on other tokens than it has now is forgotten.

    RAISES DataError: If a user's note is on other tokens than the Doc has now.
    """
    given, notes = NOTHING, doc.user_data.get(KEY, {}).get(component, {})
    for kind in kinds:
        if kind in notes:
            if notes[kind]["tokens"] != len(doc):
                if kind == "user":
                    raise DataError(
                        f"{_about(doc)}: labels or spans were noted for {component!r} when it had "
                        f"{notes[kind]['tokens']} tokens, but it has {len(doc)} now. Note them again."
                    )
                continue
            spans = [SpanLike(*span) for span in notes[kind]["spans"]]
            given = given.and_(Given(spans, {token: list(labels) for token, labels in notes[kind]["allowed"]}))
    return given


def restrict(
    allowed: Bools, given: Given, doc: Doc, annotation: Annotation, tags: Sequence[str], constraints: Constraints
) -> None:
    """Take from allowed [tokens, L] the labels that what is given rules out.

    RAISES DataError: On a span that reaches over the end of a sentence or of the Doc, overlaps another, or has a label
        that the model does not know; on such tokens and labels; and where no label is left for a token.
    """
    taken: set[int] = set()
    for span in dict.fromkeys(given.spans):  # a ruler and a user may say the same
        if not taken.isdisjoint(range(span.start, span.end)):
            raise DataError(f"{_about(doc)}: the given span {span.start}-{span.end} {span.label_!r} overlaps another.")
        taken.update(range(span.start, span.end))
        _clamp(allowed, span, doc, annotation, tags, constraints)
    for token, labels in given.allowed.items():
        if not 0 <= token < len(doc):
            raise DataError(f"{_about(doc)}: labels are given for token {token}, but it has {len(doc)} tokens.")
        allowed[token] &= np.isin(np.arange(len(tags)), numbers_of(labels, annotation, tags))
        if not allowed[token].any():
            raise DataError(
                f"{_about(doc)}: no label is left for token {token}, {doc[token].text!r}: what is known of it "
                "(restrict, given spans, entities that are set on the Doc already) contradicts itself."
            )


def numbers_of(labels: Iterable[str], annotation: Annotation, tags: Sequence[str]) -> list[int]:
    """Return the numbers of the tags that labels stand for: tags themselves, types all their tags.

    RAISES DataError: If the model has no such label.
    """
    found: list[int] = []
    for label in labels:
        meant = [i for i, tag in enumerate(tags) if label == tag or (label,) == annotation.public_labels([tag])]
        if not meant:
            raise DataError(f"The model has no label {label!r}. {suggest(label, annotation.public_labels(tags))}")
        found += meant
    return found


def _clamp(
    allowed: Bools, span: SpanLike, doc: Doc, annotation: Annotation, tags: Sequence[str], constraints: Constraints
) -> None:
    start, end, label = span
    where = f"{_about(doc)}: the given span {start}-{end} {label!r}"
    if not 0 <= start < end <= len(doc):
        raise DataError(f"{where} is not inside the {len(doc)} tokens.")
    if crosses_sentences(doc, start, end):
        raise DataError(f"{where} reaches over the end of a sentence, which no labelling can.")
    wanted = annotation.tags_of_span(end - start, label)
    unknown = [tag for tag in wanted if tag not in tags]
    if unknown:
        raise DataError(f"{where}: the model has no tag {unknown[0]!r}. {suggest(unknown[0], tags)}")
    numbers = [list(tags).index(tag) for tag in wanted]
    allowed[start:end] = False
    allowed[np.arange(start, end), numbers] = True
    if end < len(doc) and not doc[end].is_sent_start:
        allowed[end] &= ~constraints.inside[numbers[-1]]


def crosses_sentences(doc: Doc, start: int, end: int) -> bool:
    """Whether a stretch of tokens is in more than one sentence."""
    return any(token.is_sent_start for token in doc[start + 1 : end])


def _about(doc: Doc) -> str:
    text = doc.text.strip()
    return f"The document {text if len(text) < 60 else text[:57] + '...'!r}"
