"""Predictions inside ``nlp.memory_zone()``: caches hold nothing of the vocab and stay small, answers stay the same."""

import random

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_crfseq.features.encoder import FrozenEncoder
from spacy_crfseq.features.index import BagStore
from spacy_crfseq.pipeline import prediction
from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS,
    annotation,
    examples,
    pipe_of,
    registered,
)


@pytest.fixture(scope="module")
def nlp() -> Language:
    """A pipeline of all three components over words only."""
    nlp = spacy.blank("en")
    features = {"crf_chunker": {"features": registered("features", "Tagging")}}
    for factory in FACTORIES:
        nlp.add_pipe(factory, config={"optimizer": LBFGS, **features.get(factory, {})})
    nlp.initialize(lambda: examples(nlp))
    for factory in FACTORIES:
        pipe_of(nlp, factory).fit(examples(nlp))
    return nlp


def copy_of(nlp: Language) -> Language:
    """Return a pipeline that has met no words yet."""
    return spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())


def texts_of_memory_zone(size: int, seed: int = 0) -> list[str]:
    """Return sentences of known words and of some that come up again in later ones, but not at once."""
    rng = random.Random(seed)
    words = "Anna lives in New York . Bob saw the old bridge Bank of Norway Oslo".split()  # noqa: SIM905
    rare = [f"Word{i % 7}ish{i}" for i in range(60)]
    return [" ".join(rng.choice(words if rng.random() < 0.7 else rare) for _ in range(8)) for _ in range(size)]


def answers(nlp: Language, some: list[str]) -> list[object]:
    collected: list[object] = []
    for doc in nlp.pipe(some):
        pipe = pipe_of(nlp, "crf_ner")
        collected.append((annotation(doc), pipe.posterior([doc], preset=True).marginals()[0].tolist()))
    return collected


def zoned(nlp: Language, some: list[str], size: int) -> list[object]:
    collected = []
    for first in range(0, len(some), size):
        with nlp.memory_zone():
            collected += answers(nlp, some[first : first + size])
    return collected


@pytest.mark.parametrize(("limit", "size"), [(0, 1), (40_000, 7), (12_000_000, 7)])
def test_words_come_back_after_their_lexemes_went(
    nlp: Language, monkeypatch: pytest.MonkeyPatch, limit: int, size: int
) -> None:
    some = texts_of_memory_zone(24)
    expected, nlp = answers(copy_of(nlp), some), copy_of(nlp)
    monkeypatch.setattr(prediction, "ZONE_BYTES", limit)
    assert zoned(nlp, some, size) == expected
    assert "Word1ish1" not in nlp.vocab.strings
    assert answers(nlp, some) == expected  # outside of zones, with what they left in the caches


def test_caches_stay_small_in_a_zone(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = pipe_of(nlp, "crf_ner").doc_model.encoder
    monkeypatch.setattr(prediction, "ZONE_BYTES", 0)
    list(nlp.pipe(texts_of_memory_zone(20)))
    assert encoder._lexicon.size > 50
    with nlp.memory_zone():
        nlp("Anna")
        assert encoder._lexicon.size < 20
        assert encoder.unigrams.tables.store.size < 20
    list(nlp.pipe(texts_of_memory_zone(20)))
    nlp("Anna")
    assert encoder._lexicon.size > 50


def test_bags_go_before_words(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = copy_of(nlp)
    pipe = pipe_of(nlp, "crf_ner")
    for number in range(40):  # so that the sums of weights, one for each label of a bag, take more than the words
        pipe.add_label(f"TYPE{number}")
    encoder = pipe.doc_model.encoder
    with nlp.memory_zone():
        list(nlp.pipe(texts_of_memory_zone(20)))
        words = encoder._lexicon.size
        assert sum(tables.n_bytes for tables in encoder.tables) < encoder._lexicon.n_bytes < pipe.crf.cached_bytes
        monkeypatch.setattr(prediction, "ZONE_BYTES", encoder._lexicon.n_bytes)
        nlp("Anna")
        assert encoder._lexicon.size == words
        assert encoder.unigrams.tables.store.size < 20


def test_words_of_equal_features_share_bags(nlp: Language) -> None:
    fresh = copy_of(nlp)
    encoder = pipe_of(fresh, "crf_ner").doc_model.encoder
    fresh("Xq11 Xq11 Xq11")
    words, bags = encoder._lexicon.size, encoder.unigrams.tables.store.size
    fresh("Xq22 Xq33 Xq44")  # of the same shape; the model knows none of their affixes
    assert (encoder._lexicon.size, encoder.unigrams.tables.store.size) == (words + 3, bags)


def test_tables_of_a_training_stay_until_they_are_full(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "ZONE_BYTES", 0)
    pipe = pipe_of(nlp, "crf_ner")

    def compiled() -> BagStore:
        docs = [nlp.make_doc(text) for text in texts_of_memory_zone(5)]
        return pipe.training.compile([Example(doc, doc.copy()) for doc in docs])[0].store

    with nlp.memory_zone():
        first = compiled()
        nlp("Anna")
    assert compiled() is first
    pipe.training.release()
    assert compiled() is first
    monkeypatch.setattr(FrozenEncoder, "MAX_CACHED", 1)
    pipe.training.release()
    assert compiled() is not first


def test_answers_outlive_a_zone_and_an_exception(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "ZONE_BYTES", 0)
    pipe = pipe_of(nlp, "crf_ner")
    some = texts_of_memory_zone(10)
    with nlp.memory_zone():
        kept = pipe.posterior([nlp.make_doc(text) for text in some])
        expected = pipe.posterior([nlp.make_doc(text) for text in some]).marginals()
    with pytest.raises(ZeroDivisionError), nlp.memory_zone():
        _ = [1 / len(doc[:0]) for doc in nlp.pipe(texts_of_memory_zone(10, seed=1))]
    assert [values.tolist() for values in kept.marginals()] == [values.tolist() for values in expected]


def test_labels_made_inside_a_zone_stay() -> None:
    nlp = spacy.blank("en")
    with nlp.memory_zone():
        nlp.add_pipe("crf_ner").add_label("GADGETRY")
        nlp.add_pipe("crf_tagger").add_label("ZZTAG")
    assert {"GADGETRY", "ZZTAG"} <= set(nlp.vocab.strings)
