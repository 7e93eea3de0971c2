"""Corpus files of any bytes: each is read, or refused with its name and the line."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq.corpora import DOCBIN, guess
from spacy_crfseq.pipeline.gold_files import read_gold
from spacy_crfseq.pipeline.readers import create_conll_reader, create_crfsuite_reader
from spacy_crfseq.pipeline.texts import read_records
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import SENTENCES, gold_doc

COLUMNS = b"-DOCSTART- -X- O O\n\nAda NNP B-NP B-PER\nsees VBZ B-VP O\n. . O O\n\nOslo NNP B-NP B-LOC\n"
CONLLU = (
    b"# newdoc\n# text = Ada sees\n1-2\tAdasees\t_\t_\t_\t_\t_\t_\t_\t_\n1\tAda\tada\tPROPN\tNNP\tCase=Nom\t2\tnsubj\t_\t_\n"
    b"2\tsees\tsee\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\tOslo\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
)
ATTRIBUTES = b"B-PER\tw=Ada\tt=NNP:1\nO\tw=sees\\:\tt=VBZ\n\n@weight:1\nB-LOC\tw=Oslo\tt=\\\\\n"
JSONL = b'{"text": "Ada sees Oslo.", "meta": {"n": 1}}\n{"text": "", "tokens": [{"start": 0}]}\n{"text": "\\ud83d\\ude00"}\n'
BASES = {
    "conll2003": COLUMNS,
    "conll2000": COLUMNS,
    "conllu": CONLLU,
    "crfsuite": ATTRIBUTES,
    "jsonl": JSONL,
    "txt": COLUMNS,
}

PIECES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b" ", b"  ", b"\xe9", b"\xc2\x85", b"\xc2\xa0",
    b"\xe2\x80\xa8", b"\x1a", b"\x1b[31m", b"I-LOC", b"B-", b"-", b"O", b"_", b"L-X", b"I-", b"B-A-B", b"#", b"# newdoc id = 3\n",
    b"-DOCSTART-", b"1-2", b"1.1", b"9" * 30, b"0", b"-1", b"SpaceAfter=No", b"A=B|", b"=", b"|", b":", b":2", b":nan", b"\\",
    b"@weight:2\n", b"@", b"{", b"}", b'"', b"\\ud800", b"[" * 2000, b"null", b"1e999", b"x" * 20000, b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80", "\u0665".encode(), "\u202e".encode(), "²".encode(),
]  # fmt: skip


@st.composite
def damaged(draw: Any, base: bytes) -> bytes:
    """Draw a valid file that is cut, doubled, pasted into, or written in another encoding, or any bytes."""
    data = base
    for _ in range(draw(st.integers(0, 4))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)))
        data = draw(
            st.sampled_from(
                [data[:at] + piece + data[at:], data[:at] + piece + data[end:], data[:at] + data[end:], data[:end]]
                + [data[:end] + data[at:], data.replace(b"\n", b"\r\n"), data.replace(b" ", b"\t"), piece + data, piece]
            )
        )
    if draw(st.integers(0, 9)) == 0:
        text, encoding = data.decode("latin-1"), draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-8-sig"]))
        data = text.encode(encoding)
    return data[:100_000]


def check_examples(examples: list[Example]) -> None:
    assert examples
    for example in examples:
        for doc in (example.predicted, example.reference):
            assert len(doc) > 0
            assert [ent.start for ent in doc.ents] == sorted({ent.start for ent in doc.ents})
            for span in (*doc.ents, *doc.spans.get("chunks", ())):
                assert span.label_
                assert 0 <= span.start < span.end <= len(doc)


def read(path: Path, kind: str, settings: dict[str, Any]) -> list[Example]:
    if kind == "crfsuite":
        return list(create_crfsuite_reader(path, **settings)(BLANK))
    if kind == "conll2003" and settings:
        return list(create_conll_reader(path, columns=["word", "tag", "chunk", "ent"], **settings)(BLANK))
    return read_gold(BLANK, path, kind).examples


BLANK = spacy.blank("xx")
ENTRIES = srsly.msgpack_loads(
    zlib.decompress(DocBin(docs=[gold_doc(BLANK, rows) for rows in SENTENCES], store_user_data=True).to_bytes())
)
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=3),
        st.binary(max_size=9),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def changed(draw: Any, value: Any) -> Any:
    """Draw a value of msgpack in the place of another: cut, doubled, with something else inside, or any other."""
    if not draw(st.integers(0, 4)):
        return draw(JUNK)
    if isinstance(value, bytes) and value:
        at, bit = draw(st.integers(0, len(value) - 1)), draw(st.integers(0, 7))
        flipped = value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]
        return draw(st.sampled_from([flipped, value[:at], value * 2, value[8:], value[:-8]]))
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        inside = [*value[:at], draw(changed(value[at])), *value[at + 1 :]]
        return draw(st.sampled_from([inside, value[:at], value[::-1], value * 2, value[1:]]))
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value, key=str)))
        without = {name: one for name, one in value.items() if name != key}
        return draw(st.sampled_from([without, {**value, key: draw(changed(value[key]))}]))
    return draw(JUNK)


SETTINGS = st.fixed_dictionaries(
    {"scheme": st.sampled_from(["IOB2", "IOB1", "BILUO"]), "on_invalid": st.sampled_from(["error", "conlleval"])}
)


@cases(150)
@given(data=st.data(), kind=st.sampled_from(["conll2003", "conll2000", "conllu", "crfsuite"]), settings=SETTINGS)
def test_annotated_files(data: st.DataObject, kind: str, settings: dict[str, Any], folder: Path) -> None:
    path = folder / "corpus.txt"
    path.write_bytes(data.draw(damaged(BASES[kind])))
    guess(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        examples = attempt(lambda: read(path, kind, settings), "corpus.txt")
    if examples is not None:
        check_examples(examples)
        assert all(token.text for example in examples for token in example.reference)


@cases(100)
@given(data=st.data(), kind=st.sampled_from(["txt", "jsonl", "conll2003", "conllu"]))
def test_texts(data: st.DataObject, kind: str, folder: Path) -> None:
    path = folder / f"texts.{kind}"
    path.write_bytes(data.draw(damaged(BASES[kind])))
    for record, _ in read_records(path, kind):
        if isinstance(record, Exception):
            assert str(record).startswith(f"{path}:{record.line}: ")
        else:
            record.text.encode()


@cases(100)
@given(data=st.data())
def test_docbins(data: st.DataObject, folder: Path, nlp: Any) -> None:
    path = folder / "docs.spacy"
    entries = dict(ENTRIES)
    for name in data.draw(st.lists(st.sampled_from(sorted(entries)), max_size=3)):
        entries[name] = data.draw(changed(entries[name]))
    whole = zlib.compress(srsly.msgpack_dumps(entries), 1)
    path.write_bytes(data.draw(st.one_of(st.just(whole), damaged(whole))) if entries == ENTRIES else whole)
    examples = attempt(lambda: read_gold(nlp, path).examples, "docs.spacy")
    if examples is not None:
        check_examples([example for example in examples if len(example.reference)])
    for record, _ in attempt(lambda: list(read_records(path, DOCBIN)), "docs.spacy") or ():
        if not isinstance(record, Exception):
            assert all(isinstance(word, str) for word in record.words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora")
