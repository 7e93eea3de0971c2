"""What happens in services, notebooks and loops: threads, interrupts, changing data, long texts, caches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.features.encoder import Encoder
from spacy_crfseq.features.index import BagStore
from spacy_crfseq.pipeline.component import CRFComponent
from tests.pipeline.helpers import (
    LBFGS,
    bare_doc,
    blank,
    examples,
    gold_doc,
    initialize,
    initialized,
    pipe_of,
    registered,
    templates,
)

TEXT = "Anna lives in New York ."
OPTIMIZERS = pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])


def trained(**config: object) -> tuple[Language, CRFComponent]:
    nlp = blank(**{"optimizer": LBFGS, **config})
    for label in ("PER", "LOC", "ORG"):  # with all their tags
        pipe_of(nlp).add_label(label)
    initialize(nlp, examples(nlp), fit=True)
    return nlp, pipe_of(nlp)


def texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words = ["Anna", "saw", "Oslo", "in", "New", "York", "Bank", "of", "Norway"]
    return [" ".join([*rng.choice(words, 6), f"Name{i}", f"word{i % 97}x"]) for i in range(count)]


def entities(nlp: Language, text: str) -> list[tuple[str, str]]:
    return [(entity.text, entity.label_) for entity in nlp(text).ents]


def test_threads_share_a_pipeline(tmp_path: Path) -> None:
    """Words that no thread has seen yet are the hard case: tables grow while others read them."""
    nlp, _ = trained()
    nlp.to_disk(tmp_path)
    expected = [entities(nlp, text) for text in texts(600)]
    cold = spacy.load(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: entities(cold, text), texts(600)))
    assert found == expected
    assert [entities(cold, text) for text in texts(600)] == expected


def test_an_interrupt_leaves_prediction_working(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = trained(features=templates("LOWER", "SUFFIX2", "TAG[-1..0]", "TAG[-1]|TAG[0]"))
    unseen = bare_doc(nlp, ["Somebody", "went", "home"], ["NN", "VBD", "RB"])
    expected = entities(nlp, "Anna saw New York")
    add, calls = BagStore.add, iter(range(10**6))

    def interrupted(self: BagStore, members: np.ndarray) -> np.ndarray:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return add(self, members)

    monkeypatch.setattr(BagStore, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipe.predict([unseen])
    monkeypatch.undo()
    pipe.predict([unseen])
    assert entities(nlp, "Anna saw New York") == expected


def test_examples_made_anew_in_every_iteration_are_the_same_examples() -> None:
    nlp = initialized()
    pipe = pipe_of(nlp)
    for _ in range(30):
        nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    assert pipe.doc_model.n_sequences == len(examples(nlp))
    assert entities(nlp, TEXT) == [("Anna", "PER"), ("New York", "LOC")]


def swapped(nlp: Language) -> list[Example]:
    """Return the corpus with persons called places and the other way round."""
    corpus = examples(nlp)
    names = {"PER": "LOC", "LOC": "PER", "ORG": "ORG"}
    for example in corpus:
        tags = [f"{t.ent_iob_}-{names[t.ent_type_]}" if t.ent_type_ else "O" for t in example.reference]
        example.reference = Doc(nlp.vocab, words=[t.text for t in example.reference], ents=tags)
    return corpus


@OPTIMIZERS
def test_gold_labels_changed_in_place_are_seen(optimizer: str) -> None:
    nlp = blank(optimizer=registered("optimizers", optimizer))
    for label in ("PER", "LOC"):
        pipe_of(nlp).add_label(label)
    corpus = examples(nlp)
    initialize(nlp, corpus)
    for _ in range(20):
        nlp.update(corpus, sgd=nlp.create_optimizer())
    for old, new in zip(corpus, swapped(nlp), strict=True):
        old.reference.ents = [Span(old.reference, s.start, s.end, s.label) for s in new.reference.ents]
    for _ in range(60):
        nlp.update(corpus, sgd=nlp.create_optimizer())
    assert entities(nlp, TEXT) == [("Anna", "LOC"), ("New York", "PER")]


def test_repeated_sentences_count_every_time() -> None:
    """An epoch that spaCy deals out in batches is the epoch that `fit` sees, repetitions included."""
    results = []
    for deal in (1, 4, 15):
        nlp = initialized(repeat=3, optimizer=LBFGS)
        pipe, corpus = pipe_of(nlp), examples(nlp, repeat=3)
        for _ in range(40):
            for start in range(0, len(corpus), deal):
                nlp.update(corpus[start : start + deal], sgd=nlp.create_optimizer())
        assert pipe.doc_model.n_sequences == len(corpus)
        results.append(pipe.crf.theta.copy())
    np.testing.assert_allclose(results[1], results[0], atol=2e-3)
    np.testing.assert_allclose(results[2], results[0], atol=2e-3)


def test_a_text_of_many_tokens_is_decoded_as_exactly_as_a_short_one() -> None:
    """Scores of a path grow with its length; in float32 the differences between paths must not be lost."""
    nlp, pipe = trained()
    words = ["Anna", "saw", "New", "York", "in", "Oslo", "."]
    short, repeat = bare_doc(nlp, words * 3), 30_000
    long = bare_doc(nlp, words * repeat)
    middle = pipe.predict([short]).labels[7:14]
    labels = pipe.predict([long]).labels.reshape(repeat, len(words))
    assert (labels[1:-1] == middle).all()


def test_data_and_unbounded_caches_are_let_go_after_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = trained()
    assert (pipe.training.corpus, pipe.training.run) == (None, None)
    monkeypatch.setattr(Encoder, "MAX_CACHED", 500)
    for text in texts(2000):
        nlp(text)
    assert pipe.doc_model.encoder._lexicon.size < 600


def test_the_development_score_knows_labels_that_training_did_not() -> None:
    nlp = initialized(optimizer=LBFGS)
    pipe = pipe_of(nlp)
    dev = examples(nlp)
    words = ["Bob", "saw", "the", "Games"]
    dev.append(Example(bare_doc(nlp, words), Doc(nlp.vocab, words=words, ents=["B-PER", "O", "O", "B-EVENT"])))
    result = pipe.fit(dev=dev)
    assert result.best_score == pytest.approx(nlp.evaluate(dev)["ents_f"])
    assert result.best_score < 1.0


def test_a_label_that_is_refused_is_not_added() -> None:
    pipe = spacy.blank("xx").add_pipe("crf_tagger", config={"attr": "pos"})
    with pytest.raises(ValueError, match="FOO"):
        pipe.add_label("FOO")
    assert pipe.labels == ()


def test_gold_docs_of_the_corpus_are_not_changed() -> None:
    nlp = initialized()
    doc = gold_doc(nlp, [["Anna", "NNP", "PROPN", "_", "B-NP", "U-PER"]])
    before = doc.to_bytes()
    initialize(nlp, [Example(bare_doc(nlp, ["Anna"]), doc)], fit=True)
    assert doc.to_bytes() == before
