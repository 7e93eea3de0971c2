"""Corpus readers and the full batch: what lands in the docs, what is refused, what is kept between calls."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from confection import Config
from hypothesis import given as examples
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.pipeline.readers import (
    PASSAGE,
    create_conll_reader,
    create_conllu_reader,
    create_crfsuite_reader,
    read_examples,
)
from spacy_crfseq.pipeline.spacy_train import create_full_batch
from tests.pipeline.helpers import triples

ALL = ["word", "tag", "pos", "lemma", "morph", "chunk", "ent"]
FILE = """\
-DOCSTART- O O O O O O

The DT DET the Definite=Def B-NP O
NOUN NN NOUN x _ I-NP B-ORG
of IN ADP of _ B-PP I-ORG
Rome NNP PROPN Rome Number=Sing|Case=Nom B-NP -

It PRP PRON it _ B-NP B-PER
is VBZ _ be _ O B-PER

-DOCSTART- O O O O O O

So RB ADV so _ O O
"""
CONLLU = """\
# newdoc
1\tAl\tAl\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\tSpaceAfter=No
2\tran\trun\tVERB\tVBD\t_\t0\troot\t_\t_
3\toff\t_\tADP\t_\t_\t2\tadvmod\t_\tSpaceAfter=No

1\tSo\tso\tADV\tRB\t_\t0\troot\t_\t_

# newdoc
1\tOh\toh\tINTJ\tUH\t_\t2\tx\t_\t_
2\tno\tno\tINTJ\tUH\t_\t1\tx\t_\t_
"""


@pytest.fixture(scope="module")
def nlp() -> Language:
    return spacy.blank("xx")


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf8")
    return path


def chunks(doc: Doc, key: str = "chunks") -> list[tuple[int, int, str]]:
    return triples(doc.spans[key])


def ents(doc: Doc) -> list[tuple[int, int, str]]:
    return triples(doc.ents)


def read(nlp: Language, path: Path, columns: list[str] = ALL, **settings: Any) -> list[Example]:
    return list(create_conll_reader(path, columns, **settings)(nlp))


def test_every_column(nlp: Language, tmp_path: Path) -> None:
    first, second, third = read(nlp, write(tmp_path, FILE))
    doc = first.reference
    assert [t.text for t in doc] == ["The", "NOUN", "of", "Rome"]
    assert [t.tag_ for t in doc] == ["DT", "NN", "IN", "NNP"]
    assert [t.pos_ for t in doc] == ["DET", "NOUN", "ADP", "PROPN"]
    assert [t.lemma_ for t in doc] == ["the", "x", "of", "Rome"]
    assert [str(t.morph) for t in doc] == ["Definite=Def", "", "", "Case=Nom|Number=Sing"]
    assert doc.has_annotation("MORPH", require_complete=True)
    assert chunks(doc) == [(0, 2, "NP"), (2, 3, "PP"), (3, 4, "NP")]
    assert ents(doc) == [(1, 3, "ORG")]
    assert [t.ent_iob for t in doc] == [2, 3, 1, 0]
    assert ents(second.reference) == [(0, 1, "PER"), (1, 2, "PER")]
    assert [t.pos_ for t in second.reference] == ["PRON", ""]
    assert chunks(third.reference) == []


def test_predicted_docs_are_bare(nlp: Language, tmp_path: Path) -> None:
    for example in read(nlp, write(tmp_path, FILE)):
        assert [t.orth for t in example.predicted] == [t.orth for t in example.reference]
        assert not any(example.predicted.has_annotation(name) for name in ("TAG", "POS", "LEMMA", "MORPH", "ENT_IOB"))
        assert not example.predicted.spans
        assert example.predicted.to_array(["SENT_START"])[1:].tolist() == [0] * (len(example) - 1)
        assert example.predicted.has_unknown_spaces


def test_given_columns_are_on_predicted_docs(nlp: Language, tmp_path: Path) -> None:
    given = ["tag", "pos", "lemma", "morph", "ent", "chunk"]
    for example in read(nlp, write(tmp_path, FILE), given=given, chunks_key="np"):
        predicted, reference = example.predicted, example.reference
        for name in ("tag_", "pos_", "lemma_", "morph", "ent_iob", "ent_type_"):
            assert [str(getattr(t, name)) for t in predicted] == [str(getattr(t, name)) for t in reference]
        assert chunks(predicted, "np") == chunks(reference, "np")
    only_tags = read(nlp, tmp_path / "a.txt", given=["tag"])[0].predicted
    assert only_tags.has_annotation("TAG")
    assert not only_tags.has_annotation("POS")


def test_documents(nlp: Language, tmp_path: Path) -> None:
    first, second = read(nlp, write(tmp_path, FILE), unit="document")
    for doc in (first.reference, first.predicted):
        assert [t.is_sent_start for t in doc] == [True, False, False, False, True, False]
    assert chunks(first.reference) == [(0, 2, "NP"), (2, 3, "PP"), (3, 4, "NP"), (4, 5, "NP")]
    assert ents(first.reference) == [(1, 3, "ORG"), (4, 5, "PER"), (5, 6, "PER")]
    assert [t.tag_ for t in second.reference] == ["RB"]


def _starts(found: Sequence[Example]) -> list[list[bool | None]]:
    """Return the sentence starts of predicted docs, which their reference docs share."""
    for example in found:
        assert [t.is_sent_start for t in example.reference] == [t.is_sent_start for t in example.predicted]
    return [[t.is_sent_start for t in example.predicted] for example in found]


def test_joined_sentences(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    one = [True]
    joined, plain = [True, None, None, None, None, None], [True, False, False, False, True, False]
    assert _starts(read(nlp, path, joined=1.0)) == [joined, one]  # not beyond the document
    assert _starts(read(nlp, path, joined=1.0, twice=True)) == [plain, joined, one, one]
    first, *_ = read(nlp, path, joined=1.0)
    assert ents(first.reference) == [(1, 3, "ORG"), (4, 5, "PER"), (5, 6, "PER")]
    in_document = [True, False, False, False, False, False]
    assert _starts(read(nlp, path, joined=1.0, unit="document")) == [in_document, one]
    assert _starts(read(nlp, path, joined=1.0, unit="document", twice=True)) == [plain, in_document, one, one]
    assert len(list(create_conllu_reader(write(tmp_path, CONLLU), joined=1.0, twice=True)(nlp))) == 4


def test_a_share_of_the_sentences_is_joined(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "a O\n\n" * 400)
    found = read(nlp, path, ["word", "ent"], joined=0.3)
    assert 250 < len(found) < 310
    assert sum(len(example.reference) for example in found) == 400
    assert [e.text for e in found] == [e.text for e in read(nlp, path, ["word", "ent"], joined=0.3)]


def test_weighted_sentences_stay_apart(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "a 1\nb _\n\nc 2\n")
    assert [e.text for e in read(nlp, path, ["word", "weight"], joined=1.0)] == ["a b ", "c "]


def test_passages_are_sentences_in_a_row_of_one_document(nlp: Language, tmp_path: Path) -> None:
    text = "-DOCSTART- O\n\n" + "a O\n\n" * (PASSAGE + 1) + "-DOCSTART- O\n\n" + "b O\n\n"
    docs = [one.predicted for one in read(nlp, write(tmp_path, text), ["word", "ent"], unit="passage")]
    assert [len(doc) for doc in docs] == [PASSAGE, 1, 1]
    assert all(token.is_sent_start for doc in docs for token in doc)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (create_conll_reader, {"scheme": "plain"}, "no spans"),
    (create_conll_reader, {"unit": "doc"}, "unit: 'doc'"),
    (create_conll_reader, {"joined": 1.5}, "joined = 1.5"),
    (create_conll_reader, {"given": ["word"]}, "given: 'word'"),
    (create_conll_reader, {"on_invalid": "ignore"}, "conlleval"),
    (create_conllu_reader, {"path": None}, r"--paths\.train"),
    (create_conllu_reader, {"given": ["dep"]}, "given: 'dep'"),
    (create_crfsuite_reader, {"path": None}, "has no path"),
    (create_crfsuite_reader, {"column": "lemma"}, "column: 'lemma' is not known"),
]


@pytest.mark.parametrize(("create", "settings", "message"), REFUSED)
def test_settings_that_cannot_work(create: Callable[..., Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(**{"path": Path("a.txt"), **settings})


@pytest.mark.parametrize(
    ("scheme", "tags"), [("IOB1", "I-A B-A I-A O"), ("IOB2", "B-A B-A I-A O"), ("BILUO", "U-A B-A L-A O")]
)
def test_schemes(nlp: Language, tmp_path: Path, scheme: str, tags: str) -> None:
    path = write(tmp_path, "".join(f"w {tag} {tag}\n" for tag in tags.split()))
    (example,) = read(nlp, path, ["word", "ent", "chunk"], scheme=scheme)
    assert ents(example.reference) == chunks(example.reference) == [(0, 1, "A"), (1, 3, "A")]


def test_reference_docs_are_the_same_in_every_call(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(write(tmp_path, FILE), ALL)
    first, again = list(reader(nlp)), list(reader(nlp))
    assert all(a.reference is b.reference for a, b in zip(first, again, strict=True))
    assert not any(a.predicted is b.predicted for a, b in zip(first, again, strict=True))
    other = spacy.blank("xx")
    assert all(example.reference.vocab is other.vocab for example in reader(other))
    assert next(iter(reader(nlp))).reference is first[0].reference


def test_a_stream_reads_as_it_goes(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(write(tmp_path, FILE + "\nbroken line\n"), ALL)
    stream = reader.stream(nlp)
    words = [[t.text for t in next(stream).reference] for _ in range(3)]
    with pytest.raises(FormatError, match=r"a\.txt:15: 7 columns expected"):
        next(stream)
    assert not reader._built
    whole = read(nlp, write(tmp_path, FILE))
    assert words == [[t.text for t in example.reference] for example in whole]


def test_changes_to_predicted_docs_do_not_come_back(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(write(tmp_path, FILE), ALL, given=["tag", "chunk"])
    for example in reader(nlp):
        example.predicted[0].tag_ = "changed"
        example.predicted.spans["chunks"] = []
    assert [example.predicted[0].tag_ for example in reader(nlp)] == ["DT", "PRP", "RB"]
    assert chunks(next(iter(reader(nlp))).predicted) == [(0, 2, "NP"), (2, 3, "PP"), (3, 4, "NP")]


def test_limit(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, FILE + "\nbroken line\n")
    assert len(read(nlp, path, limit=2)) == 2
    assert len(read(nlp, path, limit=1, unit="document")) == 1
    with pytest.raises(FormatError, match=r"a\.txt:15: 7 columns expected"):
        read(nlp, path)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a B-X\n\nb O\nc I-X\n", ["word", "chunk"], r"a\.txt:4: tag 'I-X' may not follow 'O' in IOB2.*conlleval"),
        ("a -\nb I-X\n", ["word", "ent"], r"a\.txt:2: tag 'I-X' may not follow 'O'"),
        ("a _\nb Case\n", ["word", "morph"], r"a\.txt:2: 'Case' in column 'morph'"),
        ("a O\nb NN\n", ["word", "chunk", "conlleval"], r"a\.txt:2: tag 'NN' is not an IOB2 tag"),
    ],
)
def test_broken_files(nlp: Language, tmp_path: Path, text: str, columns: list[str], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(nlp, write(tmp_path, text), columns[:2], on_invalid=(*columns, "error")[2])


def test_conlleval_reading_warns_once(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "a O\n\nb I-X\nc I-X\n\nd B-X\ne I-Y\n")
    reader = create_conll_reader(path, ["word", "chunk"], on_invalid="conlleval")
    with pytest.warns(UserWarning, match=r"a\.txt:3: 2 sentences, the first at this line.*IOB2") as caught:
        _, second, third = reader(nlp)
    assert len(caught) == 1
    assert chunks(second.reference) == [(0, 2, "X")]
    assert chunks(third.reference) == [(0, 1, "X"), (1, 2, "Y")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(reader(nlp))) == len(list(reader(spacy.blank("xx")))) == 3


def test_conllu(nlp: Language, tmp_path: Path) -> None:
    first, second, third = create_conllu_reader(write(tmp_path, CONLLU), given=["tag"])(nlp)
    doc = first.reference
    assert doc.text == "Alran off"
    assert [t.tag_ for t in doc] == [t.tag_ for t in first.predicted] == ["NNP", "VBD", ""]
    assert [t.pos_ for t in doc] == ["PROPN", "VERB", "ADP"]
    assert [t.lemma_ for t in doc] == ["Al", "run", ""]
    assert [str(t.morph) for t in doc] == ["Number=Sing", "", ""]
    assert [(t.head.i, t.dep_) for t in doc] == [(1, "nsubj"), (1, "root"), (1, "advmod")]
    assert second.reference.has_annotation("DEP")
    assert not third.reference.has_annotation("DEP")  # its heads make a circle
    assert not first.predicted.has_annotation("POS")


def test_conllu_documents(nlp: Language, tmp_path: Path) -> None:
    reader = create_conllu_reader(write(tmp_path, CONLLU), unit="document")
    first, second = reader(nlp)
    for doc in (first.reference, first.predicted):
        assert [t.is_sent_start for t in doc] == [True, False, False, True]
    assert [t.head.i for t in first.reference] == [1, 1, 1, 3]
    assert [t.is_sent_start for t in second.reference] == [True, False]
    assert next(iter(reader(nlp))).reference is first.reference


@pytest.mark.parametrize(
    ("heads", "is_tree"),
    [("2 0 2", True), ("3 0 2", True), ("0 0 1", False), ("2 1 0", False), ("9 0 1", False), ("_ 0 1", False)],
)
def test_heads(nlp: Language, tmp_path: Path, heads: str, is_tree: bool) -> None:
    lines = [f"{i}\tw\tw\tX\tX\t_\t{head}\tx\t_\t_\n" for i, head in enumerate(heads.split(), start=1)]
    (example,) = create_conllu_reader(write(tmp_path, "".join(lines)))(nlp)
    assert example.reference.has_annotation("DEP") == is_tree


def test_presets(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "a NN B-X\nb NN I-Y\n")
    with pytest.warns(UserWarning, match="conlleval"):
        (example,) = read_examples(nlp, path, "conll2002", given=["tag"])
    assert ents(example.reference) == [(0, 1, "X"), (1, 2, "Y")]
    assert example.predicted[0].tag_ == "NN"
    assert len(list(read_examples(nlp, write(tmp_path, CONLLU), "conllu", unit="document"))) == 2
    with pytest.raises(ConfigError, match="Did you mean"):
        read_examples(nlp, path, "conll200")


WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\ufeff"), min_size=1, max_size=4)


@hypothesis_settings(deadline=None)
@examples(st.lists(WORD | st.sampled_from(["NOUN", "ORTH", "IS_ALPHA", "_"]), min_size=1, max_size=6))
def test_any_words(tmp_path_factory: pytest.TempPathFactory, nlp: Language, words: list[str]) -> None:
    words = [word for word in words if word != "-DOCSTART-"]
    path = write(tmp_path_factory.getbasetemp(), "".join(f"{word} T\n" for word in words))
    (example,) = read(nlp, path, ["word", "tag"])
    assert [t.text for t in example.reference] == [t.text for t in example.predicted] == words


CONFIG = """
[train]
@readers = "spacy_crfseq.ConllReader.v1"
path = "{path}"
given = ["tag"]

[dev]
@readers = "spacy_crfseq.ConlluReader.v1"
path = "{path}"

[batcher]
@batchers = "spacy_crfseq.full_batch.v1"
"""


def test_config_by_entry_points(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "a NN B-X\n\nb NN O\n")
    config = Config().from_str(CONFIG.format(path=path.as_posix()))
    filled = spacy.util.registry.fill(config)
    assert filled["train"]["columns"] == ["word", "tag", "chunk"]
    resolved = spacy.util.registry.resolve(filled)
    (batch,) = resolved["batcher"](resolved["train"](nlp))
    assert [example.predicted[0].tag_ for example in batch] == ["NN", "NN"]
    with pytest.raises(DataError, match=r"spacy_crfseq\.full_batch\.v1.*corpus is empty.*--paths\.train"):
        next(iter(resolved["batcher"]([])))
    with pytest.raises(FormatError, match="10 columns"):
        resolved["dev"](nlp)


def test_full_batch() -> None:
    batcher = create_full_batch()
    assert list(batcher(iter([1, 2, 3]))) == [[1, 2, 3]]
    assert list(batcher([4])) == [[4]]


def test_no_compiler_is_imported() -> None:
    code = "import sys, spacy_crfseq.pipeline.readers, spacy_crfseq.pipeline.spacy_train; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.skipif("CRFSEQ_DATA" not in os.environ, reason="CRFSEQ_DATA does not name a folder of corpora")
def test_real_documents_keep_their_sentences(nlp: Language) -> None:
    path = Path(os.environ["CRFSEQ_DATA"], "ud-english-ewt/en_ewt-ud-dev.conllu")
    for example in create_conllu_reader(path, unit="document")(nlp):
        assert example.reference.has_annotation("DEP")  # trees with crossing arcs among them
        starts = [t.is_sent_start for t in example.predicted]
        assert [t.is_sent_start for t in example.reference] == starts
