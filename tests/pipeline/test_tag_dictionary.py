"""A tag dictionary in the components: what tagging may say, whatever the weights are, and where it must give way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS,
    SCORES,
    SENTENCES,
    bare_doc,
    examples,
    initialized,
    pipe_of,
    predictions,
    registered,
    trained,
)

DICTIONARY = {"tag_dictionary_size": 1000, "tag_dictionary_min_count": 1}
WORDS = sorted({row[0] for rows in SENTENCES for row in rows} | {"unknown"})
OTHER_SCHEMES = [("crf_ner", {"scheme": "IOB2"}), ("crf_chunker", {"scheme": "BILUO"})]
each_factory = pytest.mark.parametrize("factory", FACTORIES)


@pytest.fixture(scope="module", params=[*((factory, {}) for factory in FACTORIES), *OTHER_SCHEMES])
def nlp(request: pytest.FixtureRequest) -> Language:
    factory, settings = request.param
    return trained(factory, **settings, **DICTIONARY)


def with_random_weights(nlp: Language, seed: int) -> None:
    pipe = pipe_of(nlp)
    theta = np.random.default_rng(seed).normal(0, 5, len(pipe.crf.theta)).astype(np.float32)
    pipe.set_parameters(theta)


@given(seed=st.integers(0, 100), words=st.lists(st.sampled_from(WORDS), max_size=8))
def test_every_text_has_a_labelling(nlp: Language, seed: int, words: list[str]) -> None:
    with_random_weights(nlp, seed)
    assert len(nlp(bare_doc(nlp, words, ["NN"] * len(words)))) == len(words)


def test_words_keep_to_their_tags_whatever_the_weights() -> None:
    nlp = trained("crf_tagger", **DICTIONARY)
    tags = {row[0]: row[1] for rows in SENTENCES for row in rows}
    for seed in range(5):
        with_random_weights(nlp, seed)
        doc = nlp(bare_doc(nlp, WORDS[::-1]))
        assert {token.text: token.tag_ for token in doc if token.text in tags} == tags
        marginals = pipe_of(nlp).marginals(doc)
        assert marginals.max(1)[[token.text in tags for token in doc]] == pytest.approx(1, abs=1e-6)


@each_factory
@pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])
def test_training_and_storage(factory: str, optimizer: str, tmp_path: Path) -> None:
    nlp = initialized(factory, optimizer=registered("optimizers", optimizer), **DICTIONARY)
    corpus = examples(nlp, factory)
    for _ in range(15):
        losses = nlp.update(corpus, losses={})
    assert np.isfinite(losses[factory])
    assert nlp.evaluate(corpus)[SCORES[factory]] == 1.0
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert predictions(again, factory) == predictions(nlp, factory)
    assert pipe_of(again).crf.dictionary is not None
    again.update(corpus)  # training goes on
    assert nlp.evaluate(corpus)[SCORES[factory]] == 1.0


@each_factory
def test_other_labels_in_later_data_do_no_harm(factory: str) -> None:
    nlp = trained(factory, optimizer=LBFGS, **DICTIONARY)
    gold = Doc(nlp.vocab, words=["the", "Oslo", "saw"], tags=["NNP", "VBD", "DT"], ents=["B-LOC", "O", "B-PER"])
    gold.spans["chunks"] = [Span(gold, 0, 1, "VP"), Span(gold, 2, 3, "NP")]
    example = Example(bare_doc(nlp, ["the", "Oslo", "saw"], ["DT", "NN", "VB"]), gold)
    history = pipe_of(nlp).fit([example], dev=[example]).history
    losses = nlp.update([example], losses={})
    assert np.isfinite([*(progress.report.value for progress in history), *losses.values()]).all()


@pytest.mark.parametrize("scheme", ["BILUO", "IOB2"])
def test_entities_that_are_set_come_first(scheme: str) -> None:
    nlp = trained("crf_ner", scheme=scheme, threshold=0.3, **DICTIONARY)
    doc = bare_doc(nlp, ["Anna", "lives", "in", "the", "Bank", " ", "of", "Oslo"])
    doc.set_ents([Span(doc, 1, 4, "ORG")], blocked=[Span(doc, 7, 8)], default="unmodified")
    found = [(ent.text, ent.label_) for ent in nlp(doc).ents]
    assert ("lives in the", "ORG") in found
    assert not {"Oslo"} & {text for text, _ in found}


def test_a_span_that_is_said_to_begin_goes_on_whatever_the_dictionary_says() -> None:
    nlp = trained("crf_ner", **DICTIONARY)
    doc = nlp.make_doc("Anna lives in")
    labels = pipe_of(nlp).posterior([doc], allowed={0: ["B-LOC"]}).labels[0]
    assert pipe_of(nlp).tags[labels[0]] == "B-LOC"
