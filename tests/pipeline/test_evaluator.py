"""Scores of parameters on arrays: the same figures as those of Docs, or none."""

from __future__ import annotations

from typing import Any

import pytest
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from tests.pipeline.helpers import FACTORIES, LBFGS, SENTENCES, blank, examples, gold_doc, initialize, pipe_of

SETTINGS = [(factory, {}) for factory in FACTORIES]
SETTINGS += [("crf_tagger", {"attr": "pos"}), ("crf_tagger", {"attr": "morph"}), ("crf_ner", {"scheme": "IOB2"})]


def dev_of(nlp: Language, factory: str) -> list[Example]:
    """Return a sentence without spaces that are known, one with them and another label, and a Doc of two sentences."""
    dev = examples(nlp, factory)
    spaced = Doc(nlp.vocab, words=["Anna", "saw", "Norway"], spaces=[True, True, False])
    gold = Doc(nlp.vocab, words=["Anna", "saw", "Norway"], tags=["NEW", "VBD", "NNP"], pos=["PROPN", "VERB", "NOUN"],
               morphs=["Number=Sing", "", "Case=Nom"], ents=["O", "O", "B-NEW"])  # fmt: skip
    gold.spans["chunks"] = [Span(gold, 0, 2, "NEW")]
    starts: list[Any] = [True, False, True, False]
    two = [Doc(nlp.vocab, words=[*"abcd"], sent_starts=starts) for _ in range(2)]
    two[1].set_ents([Span(two[1], 1, 2, "LOC"), Span(two[1], 2, 3, "LOC")])
    two[1].spans["chunks"] = [Span(two[1], 1, 2, "NP"), Span(two[1], 2, 3, "NP")]
    for token in two[1]:
        token.tag_, token.pos_ = "NNP", "NOUN"
        token.set_morph("Number=Sing")
    return [*dev, Example(spaced, gold), Example(*two)]


@pytest.mark.parametrize(("factory", "settings"), SETTINGS)
def test_scores_are_those_of_docs(factory: str, settings: dict[str, Any]) -> None:
    nlp = blank(factory, optimizer={**LBFGS, "max_iterations": 3}, **settings)
    initialize(nlp, examples(nlp, factory)[:3])
    pipe, dev = pipe_of(nlp), dev_of(nlp, factory)
    if settings.get("attr") == "morph":  # words without features are not annotated
        dev = [one for one in dev if all(token.morph for token in one.reference)]
    result = pipe.fit(dev=dev)
    for theta, scores in zip((result.best, result.last), result.scores, strict=True):
        pipe.set_parameters(theta)
        found = nlp.evaluate(dev)
        found.pop("speed")
        assert scores == found
        assert 0 < scores[pipe.annotation.score_name] < 1 or settings.get("attr") == "morph"


@pytest.mark.parametrize("what", ["unknown", "space", "other words", "decided", "threshold", "sentences"])
def test_no_scores_where_docs_are_needed(what: str) -> None:
    nlp = blank("crf_ner", optimizer={**LBFGS, "max_iterations": 1})
    nlp.get_pipe("crf_ner").cfg["threshold"] = 0.5 if what == "threshold" else 0.0  # type: ignore[attr-defined]
    initialize(nlp, examples(nlp))
    gold = gold_doc(nlp, SENTENCES[0])
    words = [token.text for token in gold]
    words = [*words[:3], "NewYork", "."] if what == "other words" else words
    ents: list[Any] = ["B-PER" if what == "decided" else "", *[""] * (len(words) - 1)]
    predicted = Doc(nlp.vocab, words=words, ents=ents if what == "decided" else None)
    if what == "unknown":
        gold.set_ents([], missing=[gold[1:2]], default="unmodified")
    elif what == "sentences":
        gold[3].is_sent_start = True
    elif what == "space":
        predicted, gold = (Doc(nlp.vocab, words=["a", " "], ents=["O", "O"] if one else None) for one in (0, 1))
    result = pipe_of(nlp).fit(dev=[Example(predicted, gold)])
    assert result.scores == (None, None)
    assert result.best_score is not None
