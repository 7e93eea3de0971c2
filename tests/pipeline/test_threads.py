"""Tagging with several threads gives what one thread gives."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from functools import partial
from typing import Any

import pytest
import spacy
from numba.core.compiler_lock import global_compiler_lock

from spacy_crfseq import threads
from spacy_crfseq.errors import DataError
from spacy_crfseq.inference import posterior
from spacy_crfseq.kernels import jit
from spacy_crfseq.potentials import layout
from tests.pipeline.helpers import FACTORIES, annotation, inputs, pipe_of, trained

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("threshold", [0.0, 0.3])
@pytest.mark.parametrize("n_threads", [0, 2, 3, 50])
def test_threads_share_the_docs(
    factory: str, threshold: float, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posterior, "THREAD_TOKENS", 3)
    monkeypatch.setattr(layout, "SHARD_FLOATS", 40)
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
    found = pipe.predict([doc])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(DataError, match="crf_ner: a Doc was retokenized"):
        pipe.set_annotations([doc], found)


@pytest.mark.parametrize("attr", ["tag", "morph", "ents", "chunks"])
def test_docs_of_two_vocabs_in_one_batch(attr: str) -> None:
    factory = {"ents": "crf_ner", "chunks": "crf_chunker"}.get(attr, "crf_tagger")
    nlp = trained(factory, **({} if factory != "crf_tagger" else {"attr": attr}))

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
