"""Predictions of several threads, in forks, of long texts and of Docs of several vocabs are those of one Doc alone."""

import os
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
from spacy.tokens import Doc

from spacy_crfseq import threads
from spacy_crfseq.errors import DataError
from spacy_crfseq.features.encoder import Encoder
from spacy_crfseq.inference import posterior
from spacy_crfseq.kernels import jit
from spacy_crfseq.pipeline.component import CRFComponent
from tests.pipeline.helpers import (
    annotation,
    bare_doc,
    blank,
    entities,
    examples,
    inputs,
    pipe_of,
    templates,
    texts,
    trained,
    with_all_tags,
    words_of,
)


def test_threads_share_a_pipeline(tmp_path: Path) -> None:
    """Words that no thread has seen yet are the hard case: tables grow while others read them."""
    nlp, _ = with_all_tags()
    nlp.to_disk(tmp_path)
    expected = [entities(nlp, text) for text in texts(300)]
    cold = spacy.load(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda text: entities(cold, text), texts(300)))
    assert actual == expected
    assert [entities(cold, text) for text in texts(300)] == expected


def test_a_text_of_many_tokens_is_decoded_as_exactly_as_a_short_one() -> None:
    """Scores of a path grow with its length; in float32 the differences between paths must not be lost."""
    nlp, pipe = with_all_tags()
    words = ["Anna", "saw", "New", "York", "in", "Oslo", "."]
    short, repeat = bare_doc(nlp, words * 3), 30_000
    long = bare_doc(nlp, words * repeat)
    middle = pipe.predict([short]).labels[7:14]
    labels = pipe.predict([long]).labels.reshape(repeat, len(words))
    assert (labels[1:-1] == middle).all()


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
    nlp = trained(factory, **config)
    alone = trained(factory, n_threads=1, **config)
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
    nlp = trained("crf_ner")
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
    nlp = trained("crf_ner")
    doc, pipe = inputs(nlp, "crf_ner")[0], pipe_of(nlp)
    predicted = pipe.predict([doc])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(DataError, match="crf_ner: a Doc was retokenized"):
        pipe.set_annotations([doc], predicted)


@pytest.mark.parametrize("attr", ["tag", "morph", "ents", "chunks"])
def test_docs_of_two_vocabs_in_one_batch(attr: str) -> None:
    factory = {"ents": "crf_ner", "chunks": "crf_chunker"}.get(attr, "crf_tagger")
    nlp = trained(factory, **({} if factory != "crf_tagger" else {"attr": attr}))

    def ents_of(doc: Any) -> Any:
        if attr in ("ents", "chunks"):
            spans = doc.ents if attr == "ents" else doc.spans["chunks"]
            return [(span.text, span.label_) for span in spans]
        return [token.tag_ if attr == "tag" else str(token.morph) for token in doc]

    expected = [ents_of(nlp(doc)) for doc in inputs(nlp, factory)]
    others = inputs(spacy.blank("xx"), factory)  # whose words and labels the pipeline's vocab may lack
    mixed = [doc for pair in zip(inputs(nlp, factory), others, strict=True) for doc in pair]
    pipe = pipe_of(nlp)
    pipe.set_annotations(mixed, pipe.predict(mixed))
    assert [ents_of(doc) for doc in mixed] == [ents for ents in expected for _ in range(2)]


@pytest.mark.parametrize("ask", ["predict", "posterior"])
def test_words_of_another_vocab_may_be_new(ask: str) -> None:
    nlp = trained("crf_ner", features=templates("LOWER[0]", "SHAPE[0]", "SUFFIX3[0]"))
    pipe, first = pipe_of(nlp), bare_doc(nlp, ["Anna", "lives"])
    new = bare_doc(spacy.blank("xx"), ["Wordsneverseen", "in", "Oslo"])
    assert "Wordsneverseen" not in nlp.vocab.strings
    answer = pipe.posterior([first, new])
    alone = pipe.posterior([bare_doc(nlp, words_of(new))])
    if ask == "predict":
        np.testing.assert_array_equal(pipe.predict([first, new]).labels[2:], alone.all_labels)
    np.testing.assert_allclose(answer.marginals()[1], alone.marginals()[0], atol=1e-6)


ENTRANCES: dict[str, Callable[[CRFComponent, list[Doc]], Any]] = {
    "predict": lambda pipe, docs: pipe.predict(docs),
    "posterior": lambda pipe, docs: pipe.posterior(docs),
    "the thinc model": lambda pipe, docs: pipe.model.predict(docs),
    "fit": lambda pipe, docs: pipe.fit(examples(blank()), dev=examples(blank())),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_tables_that_threads_share_grow_under_a_lock(entrance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = with_all_tags()
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
