"""Tagging with several threads gives what one thread gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from spacy_crfseq.inference import posterior
from spacy_crfseq.potentials import layout
from tests.pipeline.helpers import FACTORIES, annotation, inputs, pipe_of, trained


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


def test_callers_in_several_threads() -> None:
    nlp = trained("crf_tagger", n_threads=1)
    docs = inputs(nlp, "crf_tagger")
    expected = [annotation(nlp(doc.copy())) for doc in docs]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [annotation(nlp(doc.copy())) for doc in docs], range(20)):
            assert found == expected
