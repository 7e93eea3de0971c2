"""Prior knowledge about a Doc: spans that are there, labels that tokens may have, its weight in training.

A component notes it in ``doc.user_data``, in plain lists, so that it is stored and copied with the Doc.  Predictions
and queries respect it; on a gold Doc, training does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span

from ..errors import DataError
from ..features.noted import EXTENSION as ATTRIBUTES

KEY = "spacy_crfseq.given"
"""Key in ``doc.user_data`` of a dictionary with the notes for each component."""
WEIGHT = "crf_weight"
WEIGHT_KEY: Any = ("._.", WEIGHT, None, None)
"""spaCy's key of the extension attribute in ``doc.user_data``."""


class SpanLike(NamedTuple):
    """A labelled range of tokens, with the attributes of spaCy's Spans."""

    start: int
    end: int
    label_: str


class DocEvidence(NamedTuple):
    """Evidence about a Doc: spans with exact boundaries, and the allowed tags or types of single tokens."""

    spans: list[SpanLike]
    allowed: dict[int, list[str]]

    def and_(self, other: DocEvidence) -> DocEvidence:
        """Return the union."""
        allowed = dict(self.allowed)
        for token, labels in other.allowed.items():
            allowed[token] = [label for label in labels if label in allowed.get(token, labels)]
        return DocEvidence([*self.spans, *other.spans], allowed)


NO_EVIDENCE = DocEvidence([], {})


@dataclass(frozen=True)
class Partial:
    """Partial knowledge about a gold token.

    labels (tuple[str, ...] | None): Candidate tags, or types, which mean all their tags; None for any.
    barred (tuple[str, ...]): Excluded tags.
    wrong (tuple[tuple[str, int], ...]): Labels and lengths of incorrect spans that start there.
    where (str): The Doc and the token, for messages.
    """

    labels: tuple[str, ...] | None = None
    barred: tuple[str, ...] = ()
    wrong: tuple[tuple[str, int], ...] = ()
    where: str = field(default="", compare=False)


Tags = list[str | Partial | None]
"""One gold tag per token: None if nothing is known, a `Partial` if it is known in part."""


def register_extensions() -> None:
    """Register ``doc._.crf_attributes`` and ``doc._.crf_weight``."""
    for name, default in ((ATTRIBUTES, None), (WEIGHT, 1.0)):
        if not Doc.has_extension(name):
            Doc.set_extension(name, default=default)


def weight_of(doc: Doc) -> float:
    """Return the weight of a gold Doc in training.  RAISES DataError: If it is not a finite number of at least 0."""
    weight = doc.user_data.get(WEIGHT_KEY, 1.0)
    if not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
        raise DataError(f"{about(doc)}: doc._.{WEIGHT} must be a number of at least 0, but it is {weight!r}.")
    return float(weight)


def make_evidence(spans: Iterable[Any], allowed: Mapping[int, Iterable[str]] | None) -> DocEvidence:
    """Return what a user says about a Doc.  RAISES DataError: If a label is given in the place of a list of labels."""
    found: dict[int, list[str]] = {}
    for token, labels in (allowed or {}).items():
        if isinstance(labels, str):
            raise DataError(f"allowed = {{{token}: {labels!r}}}: give a list of labels, such as [{labels!r}].")
        found[int(token)] = [str(label) for label in labels]
    return DocEvidence([SpanLike(int(span.start), int(span.end), str(span.label_)) for span in spans], found)


def of_docs(
    docs: Sequence[Doc], spans: Iterable[Span], allowed: Mapping[int, Iterable[str]] | None, component: str
) -> dict[int, DocEvidence]:
    """Return what a user says about Docs, by number.  RAISES DataError: If they are no Docs, or a span is in none."""
    if any(not isinstance(doc, Doc) for doc in docs):
        raise DataError(
            f"{component}: posterior takes a list of Docs, such as [doc]; marginals and nbest take one Doc. Make "
            "Docs of texts by nlp(text)."
        )
    spans = list(spans)
    if any(all(span.doc is not doc for doc in docs) for span in spans):
        raise DataError(f"{component}: a span that was given is in none of the Docs that are asked about.")
    if not spans and not allowed:
        return {}
    return {i: make_evidence([span for span in spans if span.doc is doc], allowed) for i, doc in enumerate(docs)}


def write_evidence(doc: Doc, component: str, evidence: DocEvidence, kind: str = "user") -> None:
    """Note what is known about a Doc for a component, replacing an earlier note of that kind ("user" or "preset")."""
    notes = {name: dict(kinds) for name, kinds in doc.user_data.get(KEY, {}).items()}
    kinds = notes.setdefault(component, {})
    kinds.pop(kind, None)
    if evidence.spans or evidence.allowed:
        kinds[kind] = {
            "tokens": len(doc),
            "spans": [list(span) for span in evidence.spans],
            "allowed": [[token, labels] for token, labels in evidence.allowed.items()],
        }
    doc.user_data.pop(KEY, None)
    if notes := {name: kinds for name, kinds in notes.items() if kinds}:
        doc.user_data[KEY] = notes


def read_evidence(doc: Doc, component: str, kinds: Sequence[str] = ("user", "preset")) -> DocEvidence:
    """Return the notes on a Doc for a component.  RAISES DataError: If a user noted them before the tokens changed."""
    evidence, notes = NO_EVIDENCE, doc.user_data.get(KEY, {}).get(component, {})
    for kind in kinds:
        note = notes.get(kind)
        if note is None or (note["tokens"] != len(doc) and kind != "user"):
            continue
        if note["tokens"] != len(doc):
            raise DataError(
                f"{about(doc)}: labels or spans were noted for {component!r} when it had "
                f"{note['tokens']} tokens, but it has {len(doc)} now. Note them again."
            )
        spans = [SpanLike(*span) for span in note["spans"]]
        evidence = evidence.and_(DocEvidence(spans, {token: list(labels) for token, labels in note["allowed"]}))
    return evidence


def crosses_sentences(doc: Doc, start: int, end: int) -> bool:
    """Whether a range of tokens is in more than one sentence."""
    return any(token.is_sent_start for token in doc[start + 1 : end])


def about(doc: Doc, what: str = "The document") -> str:
    """Return the start of a message about a Doc."""
    text = doc.text.strip()
    return f"{what} {text if len(text) < 60 else text[:57] + '...'!r}"
