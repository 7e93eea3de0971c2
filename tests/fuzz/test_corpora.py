"""Corpus files of any bytes: each is read, or refused with its name and the line."""

import gc
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from hypothesis import given
from hypothesis import strategies as st
from spacy.attrs import ENT_TYPE
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq.corpora import DOCBIN, guess
from spacy_crfseq.corpora.layouts import GOLD, TEXTS
from spacy_crfseq.errors import FormatError
from spacy_crfseq.pipeline.readers import create_conll_reader, create_crfsuite_reader, read_gold
from spacy_crfseq.pipeline.texts import read_documents
from tests.fuzz.damage import changed, damaged
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import SENTENCES, gold_doc

COLUMNS = b"-DOCSTART- -X- O O\n\nAda NNP B-NP B-PER\nsees VBZ B-VP O\n. . O O\n\nOslo NNP B-NP B-LOC\n"
CONLLU = (
    b"# newdoc\n# text = Ada sees\n1-2\tAdasees\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"1\tAda\tada\tPROPN\tNNP\tCase=Nom\t2\tnsubj\t_\t_\n"
    b"2\tsees\tsee\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    b"1\tOslo\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
)
ATTRIBUTES = b"B-PER\tw=Ada\tt=NNP:1\nO\tw=sees\\:\tt=VBZ\n\n@weight:1\nB-LOC\tw=Oslo\tt=\\\\\n"
JSONL = (
    b'{"text": "Ada sees Oslo.", "meta": {"n": 1}}\n{"text": "", "tokens": [{"start": 0}]}\n'
    b'{"text": "\\ud83d\\ude00"}\n'
)
XML = b'<?xml version="1.0"?>\n<r><s><PER>Ada</PER> sees<br/> <LOC x="1">Os<i>lo</i>&amp;</LOC> .</s></r>\n'
BASES = {
    "xml": XML,
    "conll2003": COLUMNS,
    "conll2000": COLUMNS,
    "conllu": CONLLU,
    "crfsuite": ATTRIBUTES,
    "jsonl": JSONL,
    "txt": COLUMNS,
}


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
    return read_gold(BLANK, path, GOLD[kind]).examples


BLANK = spacy.blank("xx")
ENTRIES = srsly.msgpack_loads(
    zlib.decompress(DocBin(docs=[gold_doc(BLANK, rows) for rows in SENTENCES], store_user_data=True).to_bytes())
)
SETTINGS = st.fixed_dictionaries(
    {"scheme": st.sampled_from(["IOB2", "IOB1", "BILUO"]), "on_invalid": st.sampled_from(["error", "conlleval"])}
)


@cases(100)
@given(data=st.data(), kind=st.sampled_from(["conll2003", "conll2000", "conllu", "crfsuite", "xml"]), settings=SETTINGS)
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


@cases(50)
@given(data=st.data(), kind=st.sampled_from(["txt", "jsonl", "conll2003", "conllu", "xml"]))
def test_texts(data: st.DataObject, kind: str, folder: Path) -> None:
    path = folder / f"texts.{kind}"
    path.write_bytes(data.draw(damaged(BASES[kind])))
    for text in attempt(lambda: list(read_documents(path, TEXTS[kind])), f"texts.{kind}") or ():
        if isinstance(text, FormatError):
            assert str(text).startswith(f"{path}:{text.line}: " if text.line else f"{path}: ")
        else:
            text.text.encode()


@cases(50)
@given(data=st.data())
def test_docbins(data: st.DataObject, folder: Path, nlp: Any) -> None:
    path = folder / "docs.spacy"
    entries = dict(ENTRIES)
    for name in data.draw(st.lists(st.sampled_from(sorted(entries)), max_size=3)):
        entries[name] = data.draw(changed(entries[name]))
    whole = zlib.compress(srsly.msgpack_dumps(entries), 1)
    path.write_bytes(data.draw(st.one_of(st.just(whole), damaged(whole))) if entries == ENTRIES else whole)
    sound = path.read_bytes() == zlib.compress(srsly.msgpack_dumps(ENTRIES), 1)
    examples = attempt(lambda: read_gold(nlp, path, GOLD[DOCBIN]).examples, "docs.spacy")
    assert gc.isenabled()
    assert examples is not None or not sound
    if examples is not None:
        check_examples([example for example in examples if len(example.reference)])
    for text in attempt(lambda: list(read_documents(path, TEXTS[DOCBIN])), "docs.spacy") or ():
        if not isinstance(text, FormatError):
            assert all(isinstance(word, str) for sentence in text.sentences for word in sentence.words)


FOUND = [
    {"attrs": "0"},
    {"attrs": {}},
    {"flags": "0"},
    {"flags": []},
    {"span_groups": {}},
    {"cats": [1]},
    {"strings": [0.0]},
]

FOUND.append({"attrs": [0 if attr == ENT_TYPE else attr for attr in ENTRIES["attrs"]]})


@pytest.mark.parametrize("entry", FOUND, ids=str)
def test_found(entry: dict[str, Any], folder: Path, nlp: Any) -> None:
    path = folder / "found.spacy"
    path.write_bytes(zlib.compress(srsly.msgpack_dumps({**ENTRIES, **entry})))
    with pytest.raises(FormatError, match=r"found\.spacy"):
        read_gold(nlp, path, GOLD[DOCBIN])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora")
