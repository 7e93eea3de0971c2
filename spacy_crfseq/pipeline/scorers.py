"""The scores of the components: those of spaCy's own `Scorer`, and the accuracy of whole sequences.

A sequence is a sentence, or a whole Doc without sentence starts.  It is right if all its tokens with known gold
annotation are, and does not count if it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE, IDS
from spacy.language import Language
from spacy.scorer import MISSING_VALUES, Scorer, get_ner_prf
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import suggest
from ..prf import SEQUENCES


def tagger_score(examples: Iterable[Example], *, attr: str = "tag", **kwargs: Any) -> dict[str, Any]:
    """Return the accuracy ``{attr}_acc`` of the token attribute `attr`, and that of sequences.

    White space does not count: spaCy would take that of gold Docs for words that are not predicted.
    """
    examples, missing = list(examples), {*kwargs.get("missing_values", MISSING_VALUES), None}

    def value(token: Any, name: str) -> Any:
        return None if token.is_space else token.morph.key if name == "morph" else getattr(token, name)

    scores: dict[str, Any] = Scorer.score_token_attr(examples, attr, getter=value, missing_values=missing)
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


def lacking_scores(nlp: Language, weights: Mapping[str, float | None], example: Example) -> dict[str, str]:
    """Return the scores that have a weight in a config but not in its pipeline, and which there are.

    example (Example): Of any gold text, whose scores show their names.
    """
    weighted = [name for name, weight in weights.items() if weight]
    if not weighted:
        return {}
    scores = {"speed": 0.0, **Scorer(nlp).score([Example(example.reference, example.reference)])}
    numbers = [name for name, value in scores.items() if not isinstance(value, Mapping)]
    return {name: suggest(name, numbers) for name in weighted if name not in scores}


def _of_sequences(examples: Iterable[Example], labels: Callable[[Doc], Any]) -> float | None:
    """Return the share of sequences without an error; None if none is annotated, or tokens differ.

    labels: Function from a Doc to values [T, n] of its tokens, the first of which is 0 where they are unknown.
    """
    right = total = 0
    for example in examples:
        n_tokens = len(example.reference)
        if n_tokens != len(example.predicted):
            return None
        if not n_tokens:
            continue
        gold, predicted = (labels(doc).reshape(n_tokens, -1) for doc in (example.reference, example.predicted))
        starts = [token.i for token in example.reference if token.i == 0 or token.is_sent_start]
        is_known = gold[:, 0] != 0
        wrong = is_known & (gold != predicted).any(1)
        is_known, wrong = (np.logical_or.reduceat(tokens, starts) for tokens in (is_known, wrong))
        total, right = total + int(is_known.sum()), right + int((is_known & ~wrong).sum())
    return right / total if total else None


def scores_alone(nlp: Language, by_component: Mapping[str, dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the scores of a pipeline of one component from those by `Evaluator.scores`, None if they are not known.

    Where there are others, a component may see what they write, which `Evaluator` does not.
    """
    (name, pipe), *others = nlp.pipeline
    scores_ = (
        by_component.get(name) if getattr(pipe, "scorer", None) in (tagger_score, ner_score, chunker_score) else None
    )
    if scores_ is None or others:
        return None
    of_tokens = hasattr(nlp.tokenizer, "score")
    return {name: value for name, value in scores_.items() if of_tokens or not name.startswith("token_")}
