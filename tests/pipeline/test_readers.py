"""Corpus readers and the full batch: what lands in the docs, what is refused, what is kept between calls."""

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from confection import Config
from hypothesis import given
from hypothesis import given as examples
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.corpora import PRESETS, Preset
from spacy_crfseq.corpora.layouts import marks_documents
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.features.documents import APART, DocumentWords
from spacy_crfseq.pipeline.readers import (
    PASSAGE,
    create_conll_reader,
    create_conllu_reader,
    create_crfsuite_reader,
    read_examples,
    read_gold,
)
from spacy_crfseq.pipeline.terms import reader_of
from spacy_crfseq.pipeline.texts import Document, read_documents, read_texts
from spacy_crfseq.tools.evaluate import guess_spaces, score_raw
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


def test_a_share_of_the_docs_is_read_apart(nlp: Language, tmp_path: Path) -> None:
    path = write(tmp_path, "-DOCSTART- O\n\na O\n\nb O\n\n" * 400)

    def marks(share: float) -> list[bool]:
        return [APART in e.predicted.user_data for e in read(nlp, path, ["word", "ent"], unit="document", apart=share)]

    assert (sum(marks(0.0)), sum(marks(1.0))) == (0, 400)
    assert 150 < sum(marks(0.5)) < 250


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
    (create_conll_reader, {"apart": 2.0}, "apart = 2.0"),
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


@pytest.mark.parametrize(("text", "columns", "message"), [
    ("a B-X\n\nb O\nc I-X\n", ["word", "chunk"], r"a\.txt:4: tag 'I-X' may not follow 'O' in IOB2.*conlleval"),
    ("a -\nb I-X\n", ["word", "ent"], r"a\.txt:2: tag 'I-X' may not follow 'O'"),
    ("a _\nb Case\n", ["word", "morph"], r"a\.txt:2: 'Case' in column 'morph'"),
    ("a O\nb NN\n", ["word", "chunk", "conlleval"], r"a\.txt:2: tag 'NN' is not an IOB2 tag"),
])  # fmt: skip
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


@pytest.mark.parametrize(("heads", "is_tree"), [
    ("2 0 2", True), ("3 0 2", True), ("0 0 1", False), ("2 1 0", False), ("9 0 1", False), ("_ 0 1", False),
])  # fmt: skip
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
    assert list(resolved["batcher"]([4, 5])) == [[4, 5]]
    with pytest.raises(DataError, match=r"spacy_crfseq\.full_batch\.v1.*corpus is empty.*--paths\.train"):
        next(iter(resolved["batcher"]([])))
    with pytest.raises(FormatError, match="10 columns"):
        resolved["dev"](nlp)


@pytest.mark.skipif(not os.environ.get("CRFSEQ_DATA"), reason="CRFSEQ_DATA does not name a folder of corpora")
def test_real_documents_keep_their_sentences(nlp: Language) -> None:
    path = Path(os.environ["CRFSEQ_DATA"], "ud-english-ewt/en_ewt-ud-dev.conllu")
    for example in create_conllu_reader(path, unit="document")(nlp):
        assert example.reference.has_annotation("DEP")  # trees with crossing arcs among them
        starts = [t.is_sent_start for t in example.predicted]
        assert [t.is_sent_start for t in example.reference] == starts


# --- corpora of many files, and files cut into parts: together, the parts have what the whole has -------------------


WORDS = st.sampled_from(["Anna", "is", "ü", "-", "n'est", "12"])
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=12)
READERS = {
    "conll": {"@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "tag"]},
    "documents": {"@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "tag"], "unit": "document"},
    "conllu": {"@readers": "spacy_crfseq.ConlluReader.v1"},
    "txt": {"@readers": "spacy_crfseq.TextReader.v1"},
    "jsonl": {"@readers": "spacy_crfseq.TextReader.v1"},
}


def written(kind: str, sentences: list[list[str]], end: str = "\n") -> str:
    blocks = []
    for number, words in enumerate(sentences):
        if kind == "conllu":
            head = [f"# newdoc id = {number}"] if number % 3 == 0 else []
            rows = [f"{i}\t{word}\t_\tX\tX\t_\t0\troot\t_\t_" for i, word in enumerate(words, 1)]
            blocks.append(end.join([*head, *rows]) + end)
        elif kind in ("conll", "documents"):
            head = [f"-DOCSTART- X{end}"] if kind == "documents" and number % 3 == 0 else []
            blocks.append(end.join([*head, *(f"{word} X" for word in words)]) + end)
        else:
            text = " ".join(words)
            blocks.append(f'{{"text": "{text}"}}' if kind == "jsonl" else text)
    return end.join(blocks) + end


def reader(kind: str, path: Path, **settings: Any) -> tuple[Any, Any]:
    nlp = spacy.blank("xx")
    nlp.config["corpora"]["train"] = {**READERS[kind], "path": str(path), **settings}
    return reader_of("[test]", "corpora.train", nlp), nlp


def texts(one: Any, nlp: Any) -> list[list[str]]:
    found = one.stream(nlp) if hasattr(one, "stream") else one(nlp)
    return [[token.text for token in getattr(item, "reference", item)] for item in found]


@pytest.mark.parametrize("kind", READERS)
@given(sentences=SENTENCES, size=st.integers(1, 200), end=st.sampled_from(["\n", "\r\n"]))
def test_parts_make_up_the_whole(kind: str, sentences: list[list[str]], size: int, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"one.{'conllu' if kind == 'conllu' else kind if kind in ('txt', 'jsonl') else 'conll'}"
        file.write_bytes(written(kind, sentences, end).encode())
        whole, nlp = reader(kind, file)
        expected = texts(whole, nlp)
        parts = whole.parts(size)
        assert [text for part in parts for text in texts(whole.part(part), nlp)] == expected
        if kind in ("conll", "txt") and size < 3 and len(sentences) > 1:
            assert len(parts) > 1


def test_folders_and_patterns_are_corpora(tmp_path: Path) -> None:
    for number, word in enumerate(("one", "two", "three")):
        (tmp_path / f"part{number}.conll").write_text(f"{word} X\n\n")
    for path, expected in (
        (tmp_path, ["one", "two", "three"]),
        (tmp_path / "part[01].conll", ["one", "two"]),
        (tmp_path / "part2.conll", ["three"]),
    ):
        assert [words[0] for words in texts(*reader("conll", path))] == expected
    (tmp_path / "empty").mkdir()
    for path, message in ((tmp_path / "empty", "no file in this folder"), (tmp_path / "*.txt", "no file of this pat")):
        with pytest.raises(ConfigError, match=message):
            texts(*reader("conll", path))


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.conll"
    file.write_text("one X\n\n" * 20 + "two columns too many\n\n" + "one X\n\n")
    whole, nlp = reader("conll", file)
    with pytest.raises(FormatError, match=r"bad\.conll:41: 2 columns expected"):
        _ = [texts(whole.part(part), nlp) for part in whole.parts(30)]


# --- documents as Docs: a pipeline whose features read documents gets those that a corpus marks ---------------------


IOB = "a O\n\nb B-X\n\n-DOCSTART- O\n\nc O\nd O\n\ne O\n"
FILES = {
    "iob": IOB.replace("a", "-DOCSTART- O\n\na", 1),
    "conllu": "".join(
        f"{mark}1\t{word}\t_\tX\tT\t_\t0\t_\t_\tSpaceAfter=No\n\n"
        for mark, word in (("# newdoc id = 1\n", "a"), ("", "b"), ("#newdoc\n", "c"), ("", "d"))
    ),
}


def pipeline(*, reads: bool) -> Language:
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe("crf_ner")
    pipe.method = pipe.method._replace(attributes={"context": DocumentWords()} if reads else {})
    return nlp


def file(tmp_path: Path, text: str, name: str = "iob") -> tuple[Path, Preset]:
    path = tmp_path / f"a.{name}"
    path.write_text(text)
    return path, PRESETS[name]


def words(nlp: Language, path: Path, layout: Preset) -> list[str]:
    """Return the words of Docs, with a bar before each sentence; gold Docs and texts are the same."""

    def marked(docs: Any) -> list[str]:
        return [" ".join("|" * bool(t.is_sent_start) + t.text for t in doc) for doc in docs]

    found = marked(example.predicted for example in read_gold(nlp, path, layout).examples)
    assert marked(text.doc for text in read_texts(nlp, path, layout)) == found
    return found


@pytest.mark.parametrize("name", FILES)
def test_documents_are_read_where_features_need_them(tmp_path: Path, name: str) -> None:
    path, layout = file(tmp_path, FILES[name], name)
    second = "|c d |e" if name == "iob" else "|c |d"
    nlp = pipeline(reads=True)
    assert words(nlp, path, layout) == ["|a |b", second]
    assert len(words(pipeline(reads=False), path, layout)) == 4
    nlp.config["corpora"]["train"] = {"@readers": "spacy_crfseq.ConllReader.v1"}
    assert len(words(nlp, path, layout)) == 4  # as in training


def test_without_marks_a_text_is_a_sentence(tmp_path: Path) -> None:
    path, layout = file(tmp_path, "a O\n\nb O\n")
    assert not marks_documents(path, layout)
    assert words(pipeline(reads=True), path, layout) == ["|a", "|b"]


def test_documents_stream_with_errors(tmp_path: Path) -> None:
    path, layout = file(tmp_path, FILES["iob"].replace("d O", "d") + "\n-DOCSTART- O\n\nf O\n")
    found = list(read_documents(path, layout, join=True))
    texts = [[one.words for one in text.sentences] for text in found if isinstance(text, Document)]
    assert texts == [[["a"], ["b"]], [["e"]], [["f"]]]
    assert len(found) == 4


# --- scores on raw text: spaces between words, and comparison by characters -----------------------------------------


@pytest.mark.parametrize("text", [
    'He said : " I do n\'t know ( yet ) . " -> He said: "I don\'t know (yet)."',
    "It cost $ 5 , or 3 % of Ann 's pay ! -> It cost $5, or 3% of Ann's pay!",
    "\u00bf Qu\u00e9 ? L' eau -> \u00bfQu\u00e9? L'eau",
    "`` So - called '' ... -> ``So - called''...",
])  # fmt: skip
def test_spaces_are_those_of_print(text: str) -> None:
    words, printed = text.split(" -> ")
    parts = zip(words.split(), guess_spaces(words.split()), strict=True)
    assert "".join(word + " " * space for word, space in parts).strip() == printed


@Language.component("raw_text_test")
def _annotate(doc: Doc) -> Doc:
    doc.ents = [Span(doc, 0, 1, "X"), Span(doc, len(doc) - 1, len(doc), "X")]
    for token in doc:
        token.tag_ = "T"
    return doc


def test_what_is_compared_are_characters() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("raw_text_test")
    ents = ["B-X", "O", "B-X", "I-X"]
    gold = Doc(nlp.vocab, words=["A-b", "in", "New", "York"], tags=["T", "U", "T", "T"], ents=ents)
    other = Doc(nlp.vocab, words=["Oh", "!"], tags=["", "T"])  # nothing is known of its first tag, nor of entities
    scores, tokens, _ = score_raw(nlp, [gold, other], ["tag", "ent"], "chunks")
    assert tokens == 8  # A - b in New York / Oh !
    assert scores["token"] == pytest.approx((5 / 8, 5 / 6, 10 / 14))
    assert scores["tag"] == pytest.approx((3 / 7, 3 / 5, 6 / 12))
    assert scores["ent"] == (0, 0, 0)
    gold = Doc(nlp.vocab, words=["A", "York"], ents=["B-X", "B-X"])
    assert score_raw(nlp, [gold], ["ent"], "chunks").scores["ent"] == (1, 1, 1)
