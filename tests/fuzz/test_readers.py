"""Files of users with any damage: each is read, or refused with its name, by every reader of `readers`."""

import gc
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.attrs import ENT_TYPE
from spacy.training import Example

from spacy_crfseq.errors import CrfError, FormatError
from spacy_crfseq.pipeline.texts import Document
from tests.fuzz.damage import DOCBIN, damaged
from tests.fuzz.oracle import attempt, cases
from tests.fuzz.readers import DOCS, READERS, Reader

every_reader = pytest.mark.parametrize("reader", READERS, ids=[reader.file for reader in READERS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


def check(content: Any, path: Path) -> None:
    """Check each example, text and error of a file."""
    for item in content if isinstance(content, list) else ():
        if isinstance(item, Example):
            check_example(item)
        elif isinstance(item, FormatError):
            assert str(item).startswith(f"{path}:{item.line}: " if item.line else f"{path}: ")
        elif isinstance(item, Document):
            item.text.encode()
            assert all(isinstance(word, str) for sentence in item.sentences for word in sentence.words)


def check_example(example: Example) -> None:
    for doc in (example.predicted, example.reference):
        assert all(token.text for token in doc)
        assert [ent.start for ent in doc.ents] == sorted({ent.start for ent in doc.ents})
        for span in (*doc.ents, *doc.spans.get("chunks", ())):
            assert span.label_
            assert 0 <= span.start < span.end <= len(doc)


@every_reader
def test_a_sound_file_is_read(reader: Reader, folder: Path) -> None:
    path = folder / reader.file
    path.write_bytes(reader.sample)
    content = reader.read(path)
    assert content
    check(content, path)
    if reader.packing is not None:
        path.write_bytes(reader.packing.pack(reader.packing.unpack(reader.sample)))
        assert reader.read(path)


@every_reader
@cases(10)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_by_name(reader: Reader, data: st.DataObject, folder: Path) -> None:
    path = folder / reader.file
    path.write_bytes(data.draw(damaged(reader.sample, reader.packing)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(attempt(lambda: reader.read(path), reader.file), path)
    assert gc.isenabled()


ENTRIES = DOCBIN.unpack(DOCS)
NO_LABELS = [0 if attr == ENT_TYPE else attr for attr in ENTRIES["attrs"]]
ODD_ENTRIES: list[dict[str, Any]] = [
    {"attrs": "0"}, {"attrs": {}}, {"attrs": NO_LABELS}, {"flags": "0"}, {"flags": []}, {"span_groups": {}},
    {"cats": [1]}, {"strings": [0.0]},
]  # fmt: skip
ONCE_FAULTS = [
    *(("gold.spacy", DOCBIN.pack({**ENTRIES, **entry})) for entry in ODD_ENTRIES),
    ("training.cfg", b"[nlp]\n[sweep]\n[nlp]\n"),
]


@pytest.mark.parametrize(("file", "content"), ONCE_FAULTS)
def test_a_file_that_once_passed_or_failed_without_its_name_is_refused(file: str, content: bytes, folder: Path) -> None:
    (reader,) = [reader for reader in READERS if reader.file == file]
    path = folder / file
    path.write_bytes(content)
    with pytest.raises(CrfError, match=re.escape(file)):
        reader.read(path)
