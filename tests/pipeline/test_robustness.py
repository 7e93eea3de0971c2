"""What happens in services, notebooks and loops: threads, interrupts, changing data, long texts, caches."""

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from numba.core.compiler_lock import global_compiler_lock
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq import threads
from spacy_crfseq.errors import DataError
from spacy_crfseq.features.encoder import Encoder, FrozenEncoder
from spacy_crfseq.features.index import BagStore
from spacy_crfseq.inference import posterior
from spacy_crfseq.kernels import jit
from spacy_crfseq.pipeline import prediction
from spacy_crfseq.pipeline.component import CRFComponent
from tests.pipeline import helpers
from tests.pipeline.helpers import (
    LBFGS,
    annotation,
    bare_doc,
    blank,
    examples,
    gold_doc,
    initialize,
    initialized,
    inputs,
    pipe_of,
    registered,
    templates,
    words_of,
)
from tests.pipeline.helpers import trained as trained_of_threads

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
        if next(calls) == 0:
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
    assert (pipe.training.data.corpus, pipe.training.data.terms, pipe.training.run) == (None, {}, None)
    monkeypatch.setattr(FrozenEncoder, "MAX_CACHED", 500)
    for text in texts(900):
        nlp(text)
    assert pipe.doc_model.encoder._lexicon.size < 600


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


# --- inside ``nlp.memory_zone()``: caches hold nothing of the vocab and stay small, predictions stay the same -------


@pytest.fixture(scope="module")
def nlp() -> Language:
    """A pipeline of all three components over words only."""
    nlp = spacy.blank("en")
    features = {"crf_chunker": {"features": helpers.registered("features", "Tagging")}}
    for factory in helpers.FACTORIES:
        nlp.add_pipe(factory, config={"optimizer": helpers.LBFGS, **features.get(factory, {})})
    nlp.initialize(lambda: helpers.examples(nlp))
    for factory in helpers.FACTORIES:
        helpers.pipe_of(nlp, factory).fit(helpers.examples(nlp))
    return nlp


def copy_of(nlp: Language) -> Language:
    """Return a pipeline that has met no words yet."""
    return spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())


def texts_of_memory_zone(size: int, seed: int = 0) -> list[str]:
    """Return sentences of known words and of some that come up again in later ones, but not at once."""
    rng = random.Random(seed)
    known = "Anna lives in New York . Bob saw the old bridge Bank of Norway Oslo".split()  # noqa: SIM905
    rare = [f"Word{i % 7}ish{i}" for i in range(60)]
    return [" ".join(rng.choice(known if rng.random() < 0.7 else rare) for _ in range(8)) for _ in range(size)]


def answers(nlp: Language, some: list[str]) -> list[object]:
    found: list[object] = []
    for doc in nlp.pipe(some):
        pipe = helpers.pipe_of(nlp, "crf_ner")
        found.append((helpers.annotation(doc), pipe.posterior([doc], preset=True).marginals()[0].tolist()))
    return found


def zoned(nlp: Language, some: list[str], size: int) -> list[object]:
    found = []
    for first in range(0, len(some), size):
        with nlp.memory_zone():
            found += answers(nlp, some[first : first + size])
    return found


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
    encoder = helpers.pipe_of(nlp, "crf_ner").doc_model.encoder
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
    pipe = helpers.pipe_of(nlp, "crf_ner")
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
    encoder = helpers.pipe_of(fresh, "crf_ner").doc_model.encoder
    fresh("Xq11 Xq11 Xq11")
    words, bags = encoder._lexicon.size, encoder.unigrams.tables.store.size
    fresh("Xq22 Xq33 Xq44")  # of the same shape; the model knows none of their affixes
    assert (encoder._lexicon.size, encoder.unigrams.tables.store.size) == (words + 3, bags)


def test_tables_of_a_training_stay_until_they_are_full(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "ZONE_BYTES", 0)
    pipe = helpers.pipe_of(nlp, "crf_ner")

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
    pipe = helpers.pipe_of(nlp, "crf_ner")
    some = texts_of_memory_zone(10)
    with nlp.memory_zone():
        kept = pipe.posterior([nlp.make_doc(text) for text in some])
        expected = pipe.posterior([nlp.make_doc(text) for text in some]).marginals()
    with pytest.raises(ZeroDivisionError), nlp.memory_zone():
        _ = [1 / len(doc[:0]) for doc in nlp.pipe(texts_of_memory_zone(10, seed=1))]
    assert [values.tolist() for values in kept.marginals()] == [values.tolist() for values in expected]


# --- tagging with several threads gives what one thread gives -------------------------------------------------------


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.parametrize(
    ("factory", "threshold", "n_threads"),
    [
        ("crf_tagger", 0.0, 0),
        ("crf_chunker", 0.3, 2),
        ("crf_chunker", 0.0, 3),
        ("crf_ner", 0.3, 3),
        ("crf_ner", 0.0, 50),
    ],
)
def test_threads_share_the_docs(
    factory: str, threshold: float, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posterior, "THREAD_TOKENS", 3)
    monkeypatch.setattr(threads, "SHARD_FLOATS", 40)
    config = {} if factory == "crf_tagger" else {"threshold": threshold}
    nlp = trained_of_threads(factory, **config)
    alone = trained_of_threads(factory, n_threads=1, **config)
    pipe_of(nlp).method = pipe_of(nlp).method._replace(n_threads=n_threads)
    docs, expected = inputs(nlp, factory) * 3, inputs(alone, factory) * 3
    shared = [annotation(doc) for doc in nlp.pipe(doc.copy() for doc in docs)]
    assert shared == [annotation(doc) for doc in alone.pipe(doc.copy() for doc in expected)]


def forked(function: Any) -> int:
    """Fork, and return the status of a child that returns whether `function` returned something true in 20 seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads
        child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if function() else 1)
    return os.waitpid(child, 0)[1]


@needs_fork
def test_a_fork_beside_a_thread_that_predicts_or_compiles() -> None:
    nlp = trained_of_threads("crf_ner")
    doc = inputs(nlp, "crf_ner")[0]

    def hold(lock: Any, taken: threading.Event, left: threading.Event) -> None:
        with lock:
            taken.set()
            time.sleep(0.2)
            left.set()

    def works(lock: Any, left: threading.Event) -> bool:
        with lock:
            return left.is_set() and bool(nlp(doc).ents)

    for lock in (pipe_of(nlp).doc_model.lock, global_compiler_lock, jit._loading):
        taken, left = threading.Event(), threading.Event()
        thread = threading.Thread(target=hold, args=(lock, taken, left))
        thread.start()
        taken.wait()
        assert forked(partial(works, lock, left)) == 0, lock
        thread.join()
        assert works(lock, left)  # it is free here, too


@needs_fork
def test_a_fork_lets_threads_take_locks_in_any_order() -> None:
    first, second = (threads.surviving(threading.Lock()) for _ in range(2))
    taken, left = threading.Event(), threading.Event()

    def hold() -> None:
        with second:
            taken.set()
            time.sleep(0.2)
            with first:
                left.set()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    assert forked(left.is_set) == 0
    thread.join()


def test_a_doc_that_is_retokenized_during_its_prediction() -> None:
    nlp = trained_of_threads("crf_ner")
    doc, pipe = inputs(nlp, "crf_ner")[0], pipe_of(nlp)
    found = pipe.predict([doc])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(DataError, match="crf_ner: a Doc was retokenized"):
        pipe.set_annotations([doc], found)


@pytest.mark.parametrize("attr", ["tag", "morph", "ents", "chunks"])
def test_docs_of_two_vocabs_in_one_batch(attr: str) -> None:
    factory = {"ents": "crf_ner", "chunks": "crf_chunker"}.get(attr, "crf_tagger")
    nlp = trained_of_threads(factory, **({} if factory != "crf_tagger" else {"attr": attr}))

    def found(doc: Any) -> Any:
        if attr in ("ents", "chunks"):
            spans = doc.ents if attr == "ents" else doc.spans["chunks"]
            return [(span.text, span.label_) for span in spans]
        return [token.tag_ if attr == "tag" else str(token.morph) for token in doc]

    expected = [found(nlp(doc)) for doc in inputs(nlp, factory)]
    others = inputs(spacy.blank("xx"), factory)  # whose words and labels the pipeline's vocab may lack
    mixed = [doc for pair in zip(inputs(nlp, factory), others, strict=True) for doc in pair]
    pipe = pipe_of(nlp)
    pipe.set_annotations(mixed, pipe.predict(mixed))
    assert [found(doc) for doc in mixed] == [one for one in expected for _ in range(2)]


def test_labels_made_inside_a_zone_stay() -> None:
    nlp = spacy.blank("en")
    with nlp.memory_zone():
        nlp.add_pipe("crf_ner").add_label("GADGETRY")
        nlp.add_pipe("crf_tagger").add_label("ZZTAG")
    assert {"GADGETRY", "ZZTAG"} <= set(nlp.vocab.strings)


@pytest.mark.parametrize("ask", ["predict", "posterior"])
def test_words_of_another_vocab_may_be_new(ask: str) -> None:
    nlp = trained_of_threads("crf_ner", features=templates("LOWER[0]", "SHAPE[0]", "SUFFIX3[0]"))
    pipe, known = pipe_of(nlp), bare_doc(nlp, ["Anna", "lives"])
    new = bare_doc(spacy.blank("xx"), ["Wordsneverseen", "in", "Oslo"])
    assert "Wordsneverseen" not in nlp.vocab.strings
    answer = pipe.posterior([known, new])
    alone = pipe.posterior([bare_doc(nlp, words_of(new))])
    if ask == "predict":
        np.testing.assert_array_equal(pipe.predict([known, new]).labels[2:], alone.all_labels)
    np.testing.assert_allclose(answer.marginals()[1], alone.marginals()[0], atol=1e-6)


ENTRANCES: dict[str, Callable[[CRFComponent, list[Doc]], Any]] = {
    "predict": lambda pipe, docs: pipe.predict(docs),
    "posterior": lambda pipe, docs: pipe.posterior(docs),
    "the thinc model": lambda pipe, docs: pipe.model.predict(docs),
    "fit": lambda pipe, docs: pipe.fit(examples(blank()), dev=examples(blank())),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_tables_that_threads_share_grow_under_a_lock(entrance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = trained()
    free: list[bool] = []
    encode = Encoder.encode

    def watched(self: Encoder, *args: Any, **settings: Any) -> Any:
        def ask() -> None:
            free.append(pipe.doc_model.lock.acquire(blocking=False))

        thread = threading.Thread(target=ask)  # its own thread could take the lock again
        thread.start()
        thread.join()
        return encode(self, *args, **settings)

    monkeypatch.setattr(Encoder, "encode", watched)
    ENTRANCES[entrance](pipe, [bare_doc(nlp, ["Anna", "lives", "in", "Oslo"])])
    assert free
    assert not any(free)
