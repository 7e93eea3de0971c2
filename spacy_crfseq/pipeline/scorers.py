"""Scorers of the components: spaCy's own `Scorer`, and the accuracy of whole sequences.

A sequence is a sentence, or a whole Doc without sentence starts.  It is right if all its tokens with known gold
annotation are, and does not count if it has none.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE, IDS
from spacy.language import Language
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc
from spacy.training import Example

SEQUENCES = "sequence_acc"
"""How the names of these accuracies end."""


def create_tagger_scorer() -> Callable[..., dict[str, Any]]:
    """Return the tagger's scorer (registered as ``spacy_crfseq.tagger_scorer.v1``)."""
    return tagger_score


def create_chunker_scorer() -> Callable[..., dict[str, Any]]:
    """Return the chunker's scorer (registered as ``spacy_crfseq.chunker_scorer.v1``)."""
    return chunker_score


def create_ner_scorer() -> Callable[..., dict[str, Any]]:
    """Return the entity recognizer's scorer (registered as ``spacy_crfseq.ner_scorer.v1``)."""
    return ner_score


def tagger_score(examples: Iterable[Example], *, attr: str = "tag", **kwargs: Any) -> dict[str, Any]:
    """Return the accuracy ``{attr}_acc`` of the token attribute `attr`, and that of sequences."""
    examples = list(examples)
    known = {name: value for name, value in kwargs.items() if name == "missing_values"}
    if attr == "morph":
        known["getter"] = lambda token, _: token.morph.key
    scores: dict[str, Any] = Scorer.score_token_attr(examples, attr, **known)
    return {**scores, f"{attr}_{SEQUENCES}": _of_sequences(examples, lambda doc: doc.to_array([IDS[attr.upper()]]))}


def ner_score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Return precision, recall and F1 of the entities, as ``ents_f``, and the accuracy of sequences."""
    examples, attributes = list(examples), [ENT_IOB, ENT_TYPE]
    scores: dict[str, Any] = get_ner_prf(examples, **kwargs)
    return {**scores, f"ents_{SEQUENCES}": _of_sequences(examples, lambda doc: doc.to_array(attributes))}


def chunker_score(examples: Iterable[Example], *, spans_key: str = "chunks", **kwargs: Any) -> dict[str, Any]:
    """Return precision, recall and F1 of ``doc.spans[spans_key]``, as ``spans_{spans_key}_f``, and of sequences."""
    prefix, examples = "spans_", list(examples)

    def spans_of(doc: Doc, key: str) -> Any:
        return doc.spans.get(key[len(prefix) :], [])

    def labels(doc: Doc) -> Any:
        table = np.zeros((len(doc), 2), np.uint64)
        table[:, 0] = 2 if spans_key in doc.spans else 0  # as ENT_IOB: outside, or unknown
        for span in doc.spans.get(spans_key, []):
            table[span.start : span.end] = 1, span.label
            table[span.start, 0] = 3
        return table

    scores: dict[str, Any] = Scorer.score_spans(
        examples,
        attr=f"{prefix}{spans_key}",
        getter=spans_of,
        has_annotation=lambda doc: spans_key in doc.spans,
        labeled=True,
        allow_overlap=False,
    )
    return {**scores, f"{prefix}{spans_key}_{SEQUENCES}": _of_sequences(examples, labels)}


def _of_sequences(examples: Iterable[Example], labels: Callable[[Doc], Any]) -> float | None:
    """Return the share of sequences without an error; None if none is annotated, or tokens differ.

    labels: Function from a Doc to values [T, n] of its tokens, the first of which is 0 where they are unknown.
    """
    right = total = 0
    for example in examples:
        gold, found = (labels(doc).reshape(len(doc), -1) for doc in (example.reference, example.predicted))
        if len(gold) != len(found):
            return None
        starts = [token.i for token in example.reference if token.i == 0 or token.is_sent_start]
        known = gold[:, 0] != 0
        wrong = known & (gold != found).any(1)
        if starts:
            known, wrong = (np.logical_or.reduceat(tokens, starts) for tokens in (known, wrong))
            total, right = total + int(known.sum()), right + int((known & ~wrong).sum())
    return right / total if total else None


def scores_alone(nlp: Language, known: Mapping[str, dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the scores of a pipeline of one component from those by `Evaluator.scores`, None if they are not known.

    Where there are others, a component may see what they write, which `Evaluator` does not.
    """
    (name, pipe), *others = nlp.pipeline
    found = known.get(name) if getattr(pipe, "scorer", None) in (tagger_score, ner_score, chunker_score) else None
    if found is None or others:
        return None
    of_tokens = hasattr(nlp.tokenizer, "score")
    return {name: value for name, value in found.items() if of_tokens or not name.startswith("token_")}
