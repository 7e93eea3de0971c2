"""A corpus file read without docs gives what its docs give, and docs are made where they are needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.training import Example

from spacy_crfseq.errors import DataError
from spacy_crfseq.pipeline import encode
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.examples import Corpus
from spacy_crfseq.pipeline.readers import create_conll_reader
from tests.pipeline.helpers import SENTENCES, blank, pipe_of, registered, templates

COLUMNS = ["word", "tag", "pos", "morph", "chunk", "ent"]
WITH_TAGS = templates("ORTH[-1..0]", "TAG[0]", "SHAPE[0]|TAG[-1]")


def write(path: Path, changes: dict[int, dict[int, str]] | None = None) -> Path:
    """Write the sentences as columns, with changes by sentence and column of the first word."""
    blocks = []
    for number, sentence in enumerate(SENTENCES):
        rows = [[*row[:5], row[5].replace("U-", "B-").replace("L-", "I-")] for row in sentence]
        for column, value in (changes or {}).get(number, {}).items():
            rows[0][column] = value
        blocks.append("\n".join(" ".join(row) for row in rows))
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf8")
    return path


def read(path: Path, factory: str, by_portions: bool, settings: dict[str, Any], reader: dict[str, Any]) -> Any:
    """Return a component initialized on a file, and whether each portion had docs."""
    nlp = blank(factory, **settings)
    corpus = create_conll_reader(path, **{"columns": COLUMNS, **reader})
    had_docs: list[bool] = []

    def portions(size: int, *args: Any) -> Any:
        for part in corpus.portions(nlp, size, *args):
            had_docs.append(isinstance(part, list))
            yield part

    sizes: list[tuple[int, int]] = []
    source = Corpus(
        partial(corpus.stream, nlp), False, lambda *size: sizes.append(size), portions if by_portions else None
    )
    nlp.initialize(lambda: source)
    return pipe_of(nlp), had_docs, sizes


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[int, dict[int, str]], list[bool]]] = {
    "tags": ("crf_tagger", {}, {}, {}, [False] * 3),
    "entities": ("crf_ner", {}, {}, {}, [False] * 3),
    "given tags": ("crf_chunker", {"features": WITH_TAGS}, {"given": ["tag"]}, {}, [False] * 3),
    "a tag dictionary": ("crf_tagger", {"tag_dictionary_size": 2}, {}, {}, [False] * 3),
    "parts of speech": ("crf_tagger", {"attr": "pos"}, {}, {0: {2: "_"}}, [False] * 3),
    "other scheme": ("crf_ner", {"scheme": "IOB2"}, {"scheme": "IOB2"}, {}, [False] * 3),
    "invalid": ("crf_ner", {}, {"on_invalid": "conlleval"}, {1: {5: "I-LOC"}}, [False] * 3),
    "a limit": ("crf_ner", {}, {"limit": 3}, {}, [False] * 2),
    "features": ("crf_tagger", {"attr": "morph"}, {}, {}, [True] * 3),
    "tags of gold docs": ("crf_chunker", {"features": WITH_TAGS}, {}, {}, [True] * 3),
    "a negative tag": ("crf_tagger", {}, {}, {2: {1: "!NNP"}}, [False, True, False]),
    "missing": ("crf_ner", {}, {}, {2: {5: "-"}}, [False, True, False]),
    "weight": ("crf_ner", {}, {"weight": 2.0}, {}, [False] * 3),
    "documents": ("crf_ner", {}, {"unit": "document"}, {}, [True]),
    "twice": ("crf_ner", {}, {"twice": True}, {}, [True] * 5),
    "joined": ("crf_ner", {}, {"joined": 0.5}, {}, [True] * 2),
}


@pytest.mark.filterwarnings("ignore:.*not valid IOB2")
@pytest.mark.parametrize("case", CASES)
def test_portions_are_encoded_as_docs_are(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "CHUNK_DOCS", 2)
    factory, settings, reader, changes, expected = CASES[case]
    path = write(tmp_path / "train.conll", changes)
    (pipe, had_docs, size), (other, _, other_size) = (
        read(path, factory, by_portions, settings, reader) for by_portions in (True, False)
    )
    assert had_docs == expected
    assert size == other_size
    assert pipe.label_data == other.label_data
    data, wanted = pipe.training.data, other.training.data
    for own, theirs in ((data.gold, wanted.gold), (data.weights, wanted.weights)):
        np.testing.assert_array_equal(own, theirs)
    for one, two in ((data.encoded.unigrams, wanted.encoded.unigrams), (data.encoded.bigrams, wanted.encoded.bigrams)):
        np.testing.assert_array_equal(one.plain().columns, two.plain().columns)
    np.testing.assert_array_equal(data.encoded.offsets, wanted.encoded.offsets)
    for keys, their_keys in zip(pipe.crf.keys, other.crf.keys, strict=True):
        np.testing.assert_array_equal(keys, their_keys)
    np.testing.assert_array_equal(pipe.fit().last, other.fit().last)


@pytest.mark.parametrize("changes", [{1: {5: "I-LOC"}}, {1: {2: "NOUNS"}}])
def test_errors_of_columns_that_the_task_does_not_need(changes: dict[int, dict[int, str]], tmp_path: Path) -> None:
    path = write(tmp_path / "train.conll", changes)
    with pytest.raises(DataError, match=r"train\.conll:8"):
        read(path, "crf_tagger", True, {}, {})


def test_docs_are_made_where_features_read_them(tmp_path: Path) -> None:
    words = {"attributes": {"doc": registered("attributes", "DocumentWords")}}
    pipe, had_docs, _ = read(write(tmp_path / "train.conll"), "crf_ner", True, words, {})
    assert isinstance(pipe, CRFComponent)
    assert had_docs == []
    assert isinstance(next(create_conll_reader(tmp_path / "train.conll", COLUMNS).stream(blank())), Example)
