"""Texts without labels: the layouts that TextReader takes, and what it refuses."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.errors import ConfigError, CrfError
from spacy_crfseq.pipeline.readers import create_text_reader
from tests.commands import Run, worked
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


OTHERS = [
    ({"id": 7, "data": {"text": "Ada ran"}, "annotations": [{"result": []}]}, "Ada ran"),
    ({"data": {"article": "Ada ran", "id": 3}}, "Ada ran"),
    ({"fields": {"body": "Ada ran"}, "responses": {}}, "Ada ran"),
    ({"content": "Ada ran", "annotator": 1, "label": []}, "Ada ran"),
    ({"tokens": ["Ada", "ran"], "ner_tags": [1, 0]}, "Ada ran"),
    ({"tokenized_text": ["Ada", "ran"], "ner": [[0, 0, "PER"]]}, "Ada ran"),
    ({"text": None, "tokens": ["Ada", "ran"]}, "Ada ran"),
    ({"text": None, "data": {"text": "Ada ran"}}, "Ada ran"),
    (["Ada ran", {"entities": [[0, 3, "PER"]]}], "Ada ran"),
]
"""Records of other formats than a text under "text", and their texts."""


@pytest.mark.parametrize("as_list", [False, True])
def test_records_of_any_format_are_texts_without_what_is_annotated(as_list: bool, tmp_path: Path) -> None:
    path, lines = tmp_path / "a.jsonl", [json.dumps(record) for record, _ in OTHERS]
    path.write_text(f"[{', '.join(lines)}]" if as_list else "\n".join(lines), encoding="utf8")
    docs = [example.predicted for example in create_text_reader(path)(spacy.blank("en"))]
    assert [doc.text.strip() for doc in docs] == [text for _, text in OTHERS]
    assert not any(doc.has_annotation("ENT_IOB") for doc in docs)


def test_what_tag_writes_of_an_export_are_its_own_spans(model: Path, run: Run, tmp_path: Path) -> None:
    old = {"result": [{"value": {"start": 0, "end": 3, "labels": ["LOC"]}}]}
    task = {"id": 7, "data": {"text": "Anna lives in New York ."}, "annotations": [old]}
    (tmp_path / "tasks.json").write_text(json.dumps([task]), encoding="utf8")
    out = tmp_path / "out.jsonl"
    assert worked(run("tag", model, tmp_path / "tasks.json", "--output", out))
    (record,) = map(json.loads, out.read_text(encoding="utf8").splitlines())
    assert record["id"] == 7
    assert record["text"] == task["data"]["text"]
    assert not {"data", "annotations"} & record.keys()


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
