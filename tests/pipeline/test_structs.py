"""Tokens and spans of many Docs at once, against spaCy's methods for one Doc."""

import os

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_crfseq.features.documents import read_words
from spacy_crfseq.pipeline import structs
from spacy_crfseq.schemes import SpanArrays

SIZES = (3, 0, 7, 1, 300)


def make_docs(kind: type[Doc] = Doc) -> list[Doc]:
    functions = {"IS_SPACE": str.isspace, "IS_ALPHA": str.isalpha, "IS_LOWER": str.islower, "IS_STOP": "Ada".__eq__}
    getters = {"LOWER": str.lower, **functions}
    vocab = Vocab(lex_attr_getters={structs.IDS[name]: function for name, function in getters.items()})
    words = [[("Ada", "\n", "naïve", "𝄞x")[(i + size) % 4] for i in range(size)] for size in SIZES]
    docs = [kind(vocab, sentence, [i % 3 > 0 for i in range(len(sentence))]) for sentence in words]
    for number, doc in enumerate(docs):
        for token in doc:
            token.tag_, token.pos_, token.ent_type_ = f"T{token.i % 5}", ("NOUN", "X")[token.i % 2], f"E{number}"
            token.is_sent_start = (None, True, False)[token.i % 3]
            if token.i % 2:
                token.set_morph("Case=Nom")
                token.norm_ = "norm"
    return docs


def test_words_are_the_same_whether_docs_are_read_at_once() -> None:
    docs = make_docs()
    for at_once, one_by_one in zip(read_words(structs.Texts(docs)), read_words(docs), strict=True):
        np.testing.assert_array_equal(at_once, one_by_one)


@pytest.mark.parametrize("kind", [Doc, type("Own", (Doc,), {})])
@pytest.mark.parametrize("fewest", [0, 10**6])
def test_attributes_and_spans_are_those_of_spacys_methods(
    kind: type[Doc], fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structs, "FEWEST", fewest)
    docs, names, n_tokens = make_docs(kind), structs.READABLE, sum(SIZES)
    actual = structs.read_tokens(docs, names)
    assert np.array_equal(actual, np.concatenate([doc.to_array([*names]).reshape(-1, len(names)) for doc in docs]))
    assert structs.read_tokens(docs, ["LEMMA", "HEAD"]).shape == (n_tokens, 2)
    assert structs.read_tokens(docs[1:2], ["ORTH"]).shape == (0, 1) == structs.read_tokens([], ["ORTH"]).shape

    table = np.full((n_tokens, 3), 2**64 - 1, np.uint64)
    table[:, 0], table[:, 1] = np.arange(n_tokens) % 2 + 2, np.arange(n_tokens)
    structs.write_tokens(docs, ["ENT_IOB", "TAG", "SENT_START"], table)
    written = np.concatenate([doc.to_array(["ENT_IOB", "TAG", "SENT_START"]).reshape(-1, 3) for doc in docs])
    assert np.array_equal(written, table)

    label, offsets = docs[0].vocab.strings.add("NP"), np.cumsum([0, *SIZES])
    start, end = np.array([0, 3, 5, 10, 12, 310]), np.array([3, 4, 7, 11, 20, 311])
    spans = SpanArrays(np.zeros(6, np.int64), start, end, np.zeros(6, np.int64))
    structs.write_spans(docs, "chunks", offsets, spans, np.full(6, label, np.uint64))
    places = [(0, 0, 3), (2, 0, 1), (2, 2, 4), (3, 0, 1), (4, 1, 9), (4, 299, 300)]
    expected = [Span(docs[number], start, end, "NP") for number, start, end in places]
    spans_found = [span for doc in docs for span in doc.spans["chunks"]]
    assert spans_found == expected
    assert [span.text for span in spans_found] == [span.text for span in expected]
    assert [(span.start_char, span.end_char) for span in spans_found] == [
        (span.start_char, span.end_char) for span in expected
    ]


@pytest.mark.skipif(structs.PLAIN in os.environ, reason="spaCy's methods are to do the work")
def test_the_layout_of_the_installed_spacy_is_known() -> None:
    assert structs.layout() is not None


@pytest.mark.parametrize("why", ["layout", "release", "environment"])
def test_spacys_methods_work_where_the_structs_cannot_be_used(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "layout":
        monkeypatch.setattr(structs, "_TOKEN", np.dtype([("other", "u8"), *structs._TOKEN.descr]))
    elif why == "release":
        monkeypatch.setattr(structs.about, "__version__", "3.9.0")
    else:
        monkeypatch.setenv("SPACY_CRFSEQ_PLAIN_SPACY", "1")
    structs.layout.cache_clear()
    try:
        assert structs.layout() is None
        docs = make_docs()
        assert len(structs.read_tokens(docs, ["ORTH"])) == sum(SIZES)
    finally:
        structs.layout.cache_clear()


def test_a_norm_of_the_token_goes_before_that_of_its_word() -> None:
    nlp = spacy.blank("en")
    doc = nlp("Gonna run")
    doc[1].norm_ = "walk"
    expected = doc.to_array(["NORM"])
    assert structs.read_tokens([doc], ["NORM"])[:, 0].tolist() == expected.tolist()
