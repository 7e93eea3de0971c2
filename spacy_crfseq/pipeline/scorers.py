"""Scorers of the tagger and the chunker, in terms of spaCy's own `Scorer`; `crf_ner` uses ``spacy.ner_scorer.v1``."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example


def create_tagger_scorer() -> Callable[..., dict[str, Any]]:
    """Return the tagger's scorer (registered as ``spacy_crfseq.tagger_scorer.v1``)."""
    return tagger_score


def create_chunker_scorer() -> Callable[..., dict[str, Any]]:
    """Return the chunker's scorer (registered as ``spacy_crfseq.chunker_scorer.v1``)."""
    return chunker_score


def tagger_score(examples: Iterable[Example], *, attr: str = "tag", **kwargs: Any) -> dict[str, Any]:
    """Return the accuracy ``{attr}_acc`` of the token attribute `attr`."""
    known = {name: value for name, value in kwargs.items() if name == "missing_values"}
    if attr == "morph":
        known["getter"] = lambda token, _: token.morph.key
    return Scorer.score_token_attr(examples, attr, **known)


def chunker_score(examples: Iterable[Example], *, spans_key: str = "chunks", **kwargs: Any) -> dict[str, Any]:
    """Return precision, recall and F1 of the spans in ``doc.spans[spans_key]``, as ``spans_{spans_key}_f``."""
    prefix = "spans_"

    def spans_of(doc: Doc, key: str) -> Any:
        return doc.spans.get(key[len(prefix) :], [])

    return Scorer.score_spans(
        examples,
        attr=f"{prefix}{spans_key}",
        getter=spans_of,
        has_annotation=lambda doc: spans_key in doc.spans,
        labeled=True,
        allow_overlap=False,
    )
