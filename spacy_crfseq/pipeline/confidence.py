"""Scores in spaCy's places: ``doc.spans[key].attrs["scores"]``, ``span._.crf_score`` and ``token._.crf_score``.

Components store them, if asked to, with the Doc; else the extension attributes ask a component of the same vocab.
"""

from __future__ import annotations

from math import nan
from typing import Any
from weakref import WeakSet

import numpy as np
from spacy.tokens import Doc, Span, Token

from ..errors import ConfigError
from ..types import Floats
from .evidence import crosses_sentences

KEY = "spacy_crfseq.scores"
"""Key in ``doc.user_data`` of a dictionary with the token scores [tokens] of each tagger."""


_alive: WeakSet[Any] = WeakSet()
"""Components, which import this module."""


def register(component: Any) -> None:
    """Let the extension attributes ask a component about Docs of its vocab, as long as it is in use."""
    _alive.add(component)
    kinds: tuple[tuple[Any, Any], ...] = ((Span, span_score), (Token, token_score))
    for kind, getter in kinds:
        if not kind.has_extension("crf_score"):
            kind.set_extension("crf_score", getter=getter)


def store_token_scores(doc: Doc, component: str, scores: Floats) -> None:
    """Write the probabilities of a tagger's tags [tokens] to the Doc, nan where a token keeps a tag of others."""
    doc.user_data[KEY] = {**doc.user_data.get(KEY, {}), component: scores}


def span_score(span: Span) -> float:
    """Return the probability that a span is there, with its boundaries and label, as ``span._.crf_score``.

    It is the one stored, else that of the entity recognizer or chunker whose span it is, else of one that knows the
    label, for which the model runs over the whole Doc; nan where none knows it, such as a label of a ruler alone.
    RAISES ConfigError: If no trained crf_ner or crf_chunker uses the vocab of the Doc.
    """
    doc, wanted = span.doc, (span.start, span.end, span.label)
    if (stored := _stored_score(span)) is not None:
        return stored
    loaded = [pipe for pipe in _with_vocab(doc) if pipe.annotation.scheme]
    if not loaded:
        raise ConfigError("span._.crf_score: no trained crf_ner or crf_chunker is loaded for this document.")
    knowing = [pipe for pipe in loaded if span.label_ in pipe.labels]
    home = [pipe for pipe in knowing if any((s.start, s.end, s.label) == wanted for s in pipe.annotation.spans_in(doc))]
    return span_probability((*home, *knowing)[0], span) if knowing else nan


def span_probability(pipe: Any, span: Span) -> float:
    """Return the probability that a span is there, by one component; 0 across sentences."""
    if crosses_sentences(span.doc, span.start, span.end):
        return 0.0
    tags = pipe.annotation.tags_of_span(span.end - span.start, span.label_)
    return float(pipe.posterior([span.doc]).probability(span.start, tags))


def _stored_score(span: Span) -> float | None:
    """Return the score stored beside an equal span, None if there is none."""
    for group in span.doc.spans.values():
        scores = group.attrs.get("scores")
        if scores is None or len(scores) != len(group):
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


def token_score(token: Token) -> float:
    """Return the probability of a token's tag, stored or asked.  RAISES ConfigError: If not one tagger can say."""
    stored: dict[str, Any] = token.doc.user_data.get(KEY, {})
    if stored:
        scores = next(reversed(list(stored.values())))
        if len(scores) == len(token.doc) and not np.isnan(scores[token.i]):
            return float(scores[token.i])
    taggers = [pipe for pipe in _with_vocab(token.doc) if pipe.annotation.scheme is None]
    if len(taggers) != 1:
        raise ConfigError(
            f"token._.crf_score: {len(taggers)} taggers are loaded for this document. "
            + ("Set scores = true in the one that is meant." if taggers else "Load a pipeline with a crf_tagger.")
        )
    tagger = taggers[0]
    return float(tagger.posterior([token.doc]).probability(token.i, [tagger.annotation.tag_of(token)]))


def _with_vocab(doc: Doc) -> list[Any]:
    found = [pipe for pipe in list(_alive) if pipe.vocab is doc.vocab and pipe.tags]
    return sorted(found, key=lambda pipe: pipe.name)
