"""Texts without labels: the layouts that TextReader takes, and what it refuses."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.errors import ConfigError, CrfError
from spacy_crfseq.pipeline.readers import create_text_reader
from tests.pipeline.helpers import SENTENCES, gold_doc


def test_every_layout_is_read(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    (tmp_path / "a.txt").write_text("one text\n\nanother text\n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write('{"text": "a third"}\n')
    (tmp_path / "c.conll").write_text("Ada NNP B-NP O\nruns VBZ B-VP O\n\n")
    DocBin(docs=[gold_doc(nlp, SENTENCES[0])]).to_disk(tmp_path / "d.spacy")
    result = list(create_text_reader(tmp_path)(nlp))
    words = ["one text", "another text", "a third", "Ada runs", "Anna lives in New York ."]
    assert [example.predicted.text.strip() for example in result] == words
    assert not any(
        doc.has_annotation(name) for example in result for doc in (example.reference,) for name in ("TAG", "ENT_IOB")
    )
    assert len(list(create_text_reader(tmp_path, limit=2)(nlp))) == 2
    assert len(list(create_text_reader(tmp_path / "a.txt", format="txt", encoding="latin-1")(nlp))) == 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text that is too long, an ending that says nothing, and a folder without files."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "long.txt").write_text("short\n" + "long " * 5)
    (folder / "a.md").write_text("one text\n")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(("name", "settings", "error", "message"), [
    (None, {}, ConfigError, r"path"),
    ("empty", {}, ConfigError, "no file in this folder"),
    ("long.txt", {"format": "doc"}, ConfigError, "doc"),
    ("long.txt", {"limit": -1}, ConfigError, "limit must be 0"),
    ("none.txt", {}, CrfError, r"none\.txt"),
    ("long.txt", {}, CrfError, r"long\.txt:2: a text of 25 characters"),
    ("a.md", {}, CrfError, r"in a config format \(txt"),
    (os.devnull, {"format": "txt"}, CrfError, "a device"),
])  # fmt: skip
def test_texts_that_cannot_be_read_are_refused(
    name: str | None, settings: dict[str, Any], error: type[Exception], message: str, folder: Path
) -> None:
    nlp = spacy.blank("en")
    nlp.max_length = 20
    with pytest.raises(error, match=message):
        list(create_text_reader(None if name is None else folder / name, **settings)(nlp))
