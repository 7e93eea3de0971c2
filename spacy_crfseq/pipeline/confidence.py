"""Scores in spaCy's places: ``doc.spans[key].attrs["scores"]``, ``span._.crf_score`` and ``token._.crf_score``.

If asked to, components store scores with the Doc.  Otherwise the extension attributes ask the component that annotated
the Doc; for a Doc that none has annotated in this process, a component that works on Docs of the same vocab.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np
from spacy.tokens import Doc, Span, Token

from ..errors import ConfigError
from ..types import Floats
from .evidence import crosses_sentences, read_evidence

KEY = "spacy_crfseq.scores"
"""Key in ``doc.user_data`` of a dictionary with the token scores [tokens] of each tagger."""

_alive: WeakSet[Any] = WeakSet()
"""All components in use; untyped, because their module imports this one."""
ANNOTATED: WeakKeyDictionary[Doc, tuple[ref[Any], ...]] = WeakKeyDictionary()
"""The components that have annotated each Doc: the extension attributes ask these about it."""


def register(component: Any) -> None:
    """Let the extension attributes query a component while it is in use."""
    _alive.add(component)
    kinds: tuple[tuple[Any, Any], ...] = ((Span, span_score), (Token, token_score))
    for kind, getter in kinds:
        if not kind.has_extension("crf_score"):
            kind.set_extension("crf_score", getter=getter)


def store_token_scores(doc: Doc, component: str, scores: Floats) -> None:
    """Write the probabilities of a tagger's tags [tokens] to the Doc, nan where a token keeps a tag of others."""
    doc.user_data[KEY] = {**doc.user_data.get(KEY, {}), component: scores}


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
    return (start, end, label) in read_evidence(doc, component).spans


def span_probability(pipe: Any, span: Span) -> float:
    """Return the probability that a span is there, by one component; 0 across sentences."""
    if crosses_sentences(span.doc, span.start, span.end):
        return 0.0
    tags = pipe.annotation.tags_of_span(span.end - span.start, span.label_)
    return float(pipe.posterior([span.doc]).probability(span.start, tags))


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

    None means that the tagger does not have the tag, or that the tag was given by `clamp`.
    RAISES ConfigError: If no trained crf_tagger works on this Doc, or if several do.
    """
    stored: dict[str, Any] = token.doc.user_data.get(KEY, {})
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
    if _is_given(token.doc, taggers[0].name, token.i, token.i + 1, tag):
        return None
    return float(taggers[0].posterior([token.doc]).probability(token.i, [tag])) if tag in taggers[0].tags else None


def _components_of(doc: Doc, suits: Callable[[Any], Any]) -> list[Any]:
    """Return the trained components that suit and have annotated a Doc; if there are none, those that use its vocab."""
    found = [pipe for each in ANNOTATED.get(doc, ()) if (pipe := each()) is not None and pipe.tags and suits(pipe)]
    return found or [pipe for pipe in list(_alive) if pipe.works_on(doc.vocab) and pipe.tags and suits(pipe)]


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
