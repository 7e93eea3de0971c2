"""A training set is compiled chunk by chunk from a stream, and comes out as if it had been read at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.features.encoder import Encoded, take_sequences
from spacy_crfseq.pipeline import encode
from spacy_crfseq.pipeline.component import CRFComponent
from tests.pipeline.helpers import FACTORIES, LBFGS_TIGHT, SENTENCES, bare_doc, examples, gold_doc, input_doc
from tests.problems import ids_of_tokens

WITH_TAGS = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["ORTH[-1..0]", "TAG[-1..1]", "LOWER|TAG[-1]"]}


def initialized(
    factory: str, given: bool, chunk: int, monkeypatch: pytest.MonkeyPatch, **config: object
) -> CRFComponent:
    monkeypatch.setattr(encode, "CHUNK_DOCS", chunk)
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe(factory, config={"optimizer": LBFGS_TIGHT, "keep_names": True, **config})
    source = examples(nlp, factory, repeat=2)
    if not given:
        source = [Example(bare_doc(nlp, [row[0] for row in rows]), gold_doc(nlp, rows)) for rows in SENTENCES]
    nlp.initialize(lambda: iter(source))
    return pipe


def attributes_of_tokens(pipe: CRFComponent, encoded: Encoded) -> list[set[str]]:
    store = encoded.unigrams.store
    found = []
    for bags, attrs in zip(*encoded.unigrams.expanded(), strict=True):
        numbers = [*attrs[attrs >= 0]]
        for bag in bags:
            numbers += [*store.ids[store.ptr[bag] : store.ptr[bag + 1]]]
        found.append({pipe.doc_model.feature_names[number] for number in numbers})
    return found


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("min_count", [1, 2])
def test_chunks_make_no_difference(factory: str, given: bool, min_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"features": WITH_TAGS} if factory != "crf_tagger" else {}
    whole, parts = (
        initialized(factory, given, chunk, monkeypatch, min_count=min_count, **features) for chunk in (100, 2)
    )
    assert whole.labels == parts.labels
    assert sorted(whole.doc_model.feature_names) == sorted(parts.doc_model.feature_names)
    data, other = whole.training.data, parts.training.data
    assert data is not None
    assert other is not None
    np.testing.assert_array_equal(data.gold, other.gold)
    np.testing.assert_array_equal(data.encoded.offsets, other.encoded.offsets)
    assert attributes_of_tokens(whole, data.encoded) == attributes_of_tokens(parts, other.encoded)
    assert whole.fit().history[-1].report.value == pytest.approx(parts.fit().history[-1].report.value, rel=1e-3)


@pytest.mark.parametrize("min_count", [1, 2])
def test_stored_texts_are_those_that_a_pipeline_reads(min_count: int) -> None:
    nlp = spacy.blank("xx")
    pair = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["ORTH[-2..2]", "SHAPE[0]", "ORTH[-1]|TAG[0]"]}
    config = {"features": {**pair, "bigram_templates": ["LOWER[0]"]}, "min_count": min_count}
    pipe = nlp.add_pipe("crf_tagger", config=config)
    source = examples(nlp, "crf_tagger", repeat=2)
    nlp.initialize(lambda: iter(source))
    stored = pipe.training.data
    read, _ = pipe.doc_model.encode([example.predicted for example in source])
    assert stored.gold.dtype == np.int8
    for order in (np.arange(stored.n_sequences), np.array([3, 1])):
        some, wanted = stored.take(order).encoded, take_sequences(read, order)[0]
        for block in (0, 1):
            assert ids_of_tokens(some[block]) == ids_of_tokens(wanted[block])


def test_documents_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "CHUNK_DOCS", 10)
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    docs: list[weakref.ref[Doc]] = []
    most = 0

    def stream() -> Iterator[Example]:
        nonlocal most
        for i in range(100):
            rows = SENTENCES[i % len(SENTENCES)]
            example = Example(input_doc(nlp, "crf_ner", rows), gold_doc(nlp, rows))
            docs.append(weakref.ref(example.predicted))
            most = max(most, sum(doc() is not None for doc in docs))
            yield example
            del example

    gc.disable()
    try:
        nlp.initialize(stream)
    finally:
        gc.enable()
    assert most < 30
