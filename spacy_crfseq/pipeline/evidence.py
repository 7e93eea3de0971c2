"""Prior knowledge about a Doc: spans that are there, labels that tokens may have, its weight in training.

A component notes it in ``doc.user_data``, in plain lists, so that it is stored and copied with the Doc.  Predictions
and queries respect it; on a gold Doc, training does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np
from spacy.tokens import Doc, Span, Token

from ..errors import ConfigError, DataError
from ..features.noted import EXTENSION as ATTRIBUTES
from ..types import Floats

KEY = "spacy_crfseq.given"
"""Key in ``doc.user_data`` of a dictionary with the notes for each component."""
ENTITIES = "doc.ents"
"""In place of a component: every one that learns the entities of a gold Doc, as corpus readers do not know its name."""
WEIGHT = "crf_weight"
WEIGHT_KEY: Any = ("._.", WEIGHT, None, None)
GROUP = "crf_group"
GROUP_KEY: Any = ("._.", GROUP, None, None)
"""spaCy's keys of the extension attributes in ``doc.user_data``."""


class SpanLike(NamedTuple):
    """A labelled range of tokens, with the attributes of spaCy's Spans."""

    start: int
    end: int
    label_: str


class GivenSpan(NamedTuple):
    """A span with exact boundaries that has one of these labels."""

    start: int
    end: int
    labels: tuple[str, ...]


class DocEvidence(NamedTuple):
    """Evidence about a Doc: spans that are there, and the allowed tags or types of single tokens."""

    spans: list[GivenSpan]
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
    shares (tuple[tuple[str, str, float], ...]): Probabilities of the tag before and the tag, see `soft_labels`.
    where (str): The Doc and the token, for messages.
    """

    labels: tuple[str, ...] | None = None
    barred: tuple[str, ...] = ()
    wrong: tuple[tuple[str, int], ...] = ()
    shares: tuple[tuple[str, str, float], ...] = ()
    where: str = field(default="", compare=False)


Tags = list[str | Partial | None]
"""A gold tag for each token: None if nothing is known, a `Partial` if it is known in part."""


def register_extensions() -> None:
    """Register the extension attributes, as components and readers do when they are created.

    They are ``doc._.crf_weight``, ``doc._.crf_group``, ``doc._.crf_attributes``, ``span._.crf_score`` and
    ``token._.crf_score``.
    """
    settings: tuple[tuple[Any, str, dict[str, Any]], ...] = (
        (Doc, ATTRIBUTES, {"default": None}),
        (Doc, WEIGHT, {"default": 1.0}),
        (Doc, GROUP, {"default": None}),
        (Span, "crf_score", {"getter": span_score}),
        (Token, "crf_score", {"getter": token_score}),
    )
    for kind, name, how in settings:
        if not kind.has_extension(name):
            kind.set_extension(name, **how)


def weight_of(doc: Doc) -> float:
    """Return the weight of a gold Doc in training.  RAISES DataError: If it is not a finite number of at least 0."""
    weight = doc.user_data.get(WEIGHT_KEY, 1.0)
    if not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
        raise DataError(f"{about(doc)}: doc._.{WEIGHT} must be a number of at least 0, but it is {weight!r}.")
    return float(weight)


def group_of_doc(doc: Doc, by: str) -> str:
    """Return the group of a gold Doc: the one that its reader has noted, or an extension attribute of its own.

    RAISES DataError: If it has neither.
    """
    own: Any = ("._.", by, None, None)
    group = doc.user_data.get(GROUP_KEY, doc.user_data.get(own))
    if group is None:
        raise DataError(
            f"{about(doc)} has no group: neither a reader of spacy_crfseq has read it, nor does it have the extension "
            f"attribute doc._.{by}. Set it, or convert the corpus with --group."
        )
    return str(group)


def make_evidence(spans: Iterable[Any], allowed: Mapping[int, Iterable[str]] | None) -> DocEvidence:
    """Return the knowledge of a user about a Doc; spans with the same start and end are one with several labels.

    RAISES DataError: If a label is not in a list of labels.
    """
    labels_of: dict[int, list[str]] = {}
    for token, labels in (allowed or {}).items():
        if isinstance(labels, str):
            raise DataError(f"allowed = {{{token}: {labels!r}}}: give a list of labels, such as [{labels!r}].")
        labels_of[int(token)] = [str(label) for label in labels]
    places: dict[tuple[int, int], dict[str, None]] = {}
    for span in spans:
        places.setdefault((int(span.start), int(span.end)), {})[str(span.label_)] = None
    return DocEvidence([GivenSpan(*place, tuple(labels)) for place, labels in places.items()], labels_of)


def of_docs(
    docs: Sequence[Doc], spans: Iterable[Span], allowed: Mapping[int, Iterable[str]] | None, component: str
) -> dict[int, DocEvidence]:
    """Return the knowledge of a user about Docs, by number.

    RAISES DataError: If they are no Docs, or a span is in none of them.
    """
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
    """Note knowledge about a Doc for a component, replacing an earlier note of that kind ("user" or "preset")."""
    note = {
        "tokens": len(doc),
        "spans": [[start, end, *labels] for start, end, labels in evidence.spans],
        "allowed": [[token, labels] for token, labels in evidence.allowed.items()],
    }
    write_note(doc, component, kind, note if evidence.spans or evidence.allowed else None)


def write_note(doc: Doc, component: str, kind: str, note: Mapping[str, Any] | None) -> None:
    """Write a note of a kind on a Doc for a component, instead of an earlier one, or remove that."""
    notes = {name: dict(kinds) for name, kinds in doc.user_data.get(KEY, {}).items()}
    kinds = notes.setdefault(component, {})
    kinds.pop(kind, None)
    if note is not None:
        kinds[kind] = note
    doc.user_data.pop(KEY, None)
    if notes := {name: kinds for name, kinds in notes.items() if kinds}:
        doc.user_data[KEY] = notes


def note_of(doc: Doc, component: str, kind: str) -> Mapping[str, Any] | None:
    """Return the note of a kind on a Doc for a component.

    RAISES DataError: If it was written before the tokens changed, unless a component did so ("preset").
    """
    note: Mapping[str, Any] | None = doc.user_data.get(KEY, {}).get(component, {}).get(kind)
    if note is None or (note["tokens"] != len(doc) and kind == "preset"):
        return None
    if note["tokens"] != len(doc):
        raise DataError(
            f"{about(doc)}: labels or spans were noted for {component!r} when it had "
            f"{note['tokens']} tokens, but it has {len(doc)} now. Note them again."
        )
    return note


def read_evidence(doc: Doc, component: str, kinds: Sequence[str] = ("user", "preset")) -> DocEvidence:
    """Return the notes on a Doc for a component.  RAISES DataError: If a user noted them before the tokens changed."""
    evidence = NO_EVIDENCE
    for kind in kinds:
        if (note := note_of(doc, component, kind)) is None:
            continue
        spans = [GivenSpan(start, end, tuple(labels)) for start, end, *labels in note["spans"]]
        evidence = evidence.and_(DocEvidence(spans, {token: list(labels) for token, labels in note["allowed"]}))
    return evidence


def crosses_sentences(doc: Doc, start: int, end: int) -> bool:
    """Whether a range of tokens is in more than one sentence."""
    return any(token.is_sent_start for token in doc[start + 1 : end])


def about(doc: Doc, subject: str = "The document") -> str:
    """Return the start of a message about a Doc."""
    text = doc.text.strip()
    return f"{subject} {text if len(text) < 60 else text[:57] + '...'!r}"


# Scores of components

SCORES_KEY = "spacy_crfseq.scores"
"""Key in ``doc.user_data`` of a dictionary with the token scores [tokens] of each tagger."""

_alive: WeakSet[Any] = WeakSet()
"""All components in use; untyped, because their module imports this one."""
ANNOTATED: WeakKeyDictionary[Doc, tuple[ref[Any], ...]] = WeakKeyDictionary()
"""The components that have annotated each Doc: the extension attributes ask these about it."""


def register(component: Any) -> None:
    """Let the extension attributes query a component while it is in use."""
    register_extensions()
    _alive.add(component)


def store_token_scores(doc: Doc, component: str, scores: Floats) -> None:
    """Write the probabilities of a tagger's tags [tokens] to the Doc, nan where a token keeps a tag of others."""
    doc.user_data[SCORES_KEY] = {**doc.user_data.get(SCORES_KEY, {}), component: scores}


def span_score(span: Span) -> float | None:
    """Return the probability that a span is there, with its boundaries and label, as ``span._.crf_score``.

    It is the stored score if there is one.  Otherwise a component computes it, for which the model runs over the whole
    Doc.  None means that no component has predicted it or could have: none has the label, as with spans of an entity
    ruler, or it was given to the component that has, as a span that was there before or that `clamp` noted.
    RAISES ConfigError: If no trained crf_ner or crf_chunker works on this Doc, or if several could be meant.
    """
    doc, wanted = span.doc, (span.start, span.end, span.label)
    if (stored := _stored_score(span)) is not None:
        return stored
    if not _components_of(doc, lambda pipe: pipe.annotation.scheme):
        raise ConfigError(_missing("span", "crf_ner or crf_chunker"))
    knowing = _components_of(doc, lambda pipe: pipe.annotation.scheme and span.label_ in pipe.labels)
    knowing = [pipe for pipe in knowing if not _is_given(doc, pipe.name, span.start, span.end, span.label_)]
    home = [pipe for pipe in knowing if any((s.start, s.end, s.label) == wanted for s in pipe.annotation.spans_in(doc))]
    meant = home or knowing
    if len(meant) > 1:
        raise ConfigError(_ambiguous("span", meant, f"have the label {span.label_!r}"))
    return span_probability(meant[0], span) if meant else None


def _is_given(doc: Doc, component: str, start: int, end: int, label: str) -> bool:
    """Whether a component took a span as given, so that its probability of 1 says nothing."""
    return (start, end, (label,)) in read_evidence(doc, component).spans


def span_probability(pipe: Any, span: Span) -> float:
    """Return the probability that a span is there, by one component; 0 across sentences and for white space.

    White space at its ends does not count.
    """
    words = [token.i for token in span if not token.is_space]
    if not words or crosses_sentences(span.doc, words[0], words[-1] + 1):
        return 0.0
    tags = pipe.annotation.tags_of_span(words[-1] + 1 - words[0], span.label_)
    return float(pipe.posterior([span.doc]).probability(words[0], tags))


def _stored_score(span: Span) -> float | None:
    """Return the stored score of an equal span, None if there is none."""
    for name, group in span.doc.spans.items():
        scores = group.attrs.get("scores")
        if scores is None or len(scores) != len(group) or _is_given(span.doc, name, span.start, span.end, span.label_):
            continue
        try:
            spans = list(group)
        except IndexError:  # there are fewer tokens now
            continue
        for other, score in zip(spans, scores, strict=True):
            # groups keep the token numbers from before tokens were merged or split, so characters are compared, too
            if other == span and (other.start, other.end) == (span.start, span.end):
                return float(score)
    return None


def token_score(token: Token) -> float | None:
    """Return the probability of a token's tag, as ``token._.crf_score``: stored, or computed by the tagger.

    None means that the tagger does not have the tag, that the tag was given by `clamp`, or that it is white space.
    RAISES ConfigError: If no trained crf_tagger works on this Doc, or if several do.
    """
    stored: dict[str, Any] = token.doc.user_data.get(SCORES_KEY, {})
    if stored:
        scores = next(reversed(list(stored.values())))
        if len(scores) == len(token.doc) and not np.isnan(scores[token.i]):
            return float(scores[token.i])
    taggers = _components_of(token.doc, lambda pipe: pipe.annotation.scheme is None)
    if not taggers:
        raise ConfigError(_missing("token", "crf_tagger"))
    if len(taggers) > 1:
        raise ConfigError(_ambiguous("token", taggers, "tag this document"))
    tag = taggers[0].annotation.tag_of(token)
    if token.is_space or _is_given(token.doc, taggers[0].name, token.i, token.i + 1, tag):
        return None
    return float(taggers[0].posterior([token.doc]).probability(token.i, [tag])) if tag in taggers[0].tags else None


def _components_of(doc: Doc, suits: Callable[[Any], Any]) -> list[Any]:
    """Return the trained components that suit and have annotated a Doc; if there are none, those that use its vocab."""
    pipes = [pipe for alive in ANNOTATED.get(doc, ()) if (pipe := alive()) is not None and pipe.tags and suits(pipe)]
    return pipes or [pipe for pipe in list(_alive) if pipe.works_on(doc.vocab) and pipe.tags and suits(pipe)]


def _missing(kind: str, factories: str) -> str:
    return (
        f"{kind}._.crf_score: no trained {factories} has annotated this document or uses its vocab. Load a pipeline "
        "with one and call it on the document; or set scores = true in the component's config, so that scores are "
        "stored with the document."
    )


def _ambiguous(kind: str, components: list[Any], why: str) -> str:
    names = ", ".join(sorted(repr(pipe.name) for pipe in components))
    return (
        f"{kind}._.crf_score: the components {names} {why}, so it is not clear which one to ask. Ask one of them by "
        'nlp.get_pipe("...").posterior([doc]), or set scores = true in the config of the one you mean.'
    )
