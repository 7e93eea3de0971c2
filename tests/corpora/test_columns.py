"""Column files: their sentences, what is refused, writing, the real corpora, and the Docs that ConllReader makes."""

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq.corpora import (
    PRESETS,
    Sentence,
    check_scheme,
    get_preset,
    write_columns,
)
from spacy_crfseq.corpora.columns import read_columns
from spacy_crfseq.corpora.layouts import read_preset
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.features.documents import APART
from spacy_crfseq.pipeline.corpus_reader import PASSAGE, read_examples
from spacy_crfseq.pipeline.readers import create_conll_reader, create_conllu_reader
from tests.corpora.conftest import Write
from tests.corpora.helpers import CONLLU, FILE, chunks, ents, read_docs, saved

Read = Callable[..., list[Sentence]]
COLUMNS = ["word", "tag", "chunk"]
TEXT = "He PRP B-NP\nran VBD B-VP\n\nIt PRP B-NP\n"


@pytest.fixture
def read(write: Write) -> Read:
    def sentences_of(text: str | bytes, columns: list[str] = COLUMNS, **settings: str) -> list[Sentence]:
        return list(read_columns(write(text), columns, **settings))

    return sentences_of


def test_sentences(read: Read) -> None:
    assert read(TEXT) == [
        Sentence(["He", "ran"], {"tag": ["PRP", "VBD"], "chunk": ["B-NP", "B-VP"]}, None, 1, 0, {}),
        Sentence(["It"], {"tag": ["PRP"], "chunk": ["B-NP"]}, None, 4, 0, {}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"), TEXT.replace(" ", "\t"), TEXT.replace(" ", "  \t "), TEXT.removesuffix("\n"),
        TEXT + "\n\n \n\t\n", TEXT.replace("NP\n", "NP  \n"), "\ufeff" + TEXT,
    ],
    ids=["crlf", "tabs", "runs", "no final newline", "blank lines", "trailing blanks", "bom"],
)  # fmt: skip
def test_the_same_sentences_written_otherwise(read: Read, text: str) -> None:
    assert read(text) == read(TEXT)


def test_leading_blank_lines_and_ignored_columns(read: Read) -> None:
    first, second = read("\n\n" + TEXT, ["_", "word", "_"])
    assert (first.words, first.columns, first.line, second.line) == (["PRP", "VBD"], {}, 3, 6)


def test_other_white_space_belongs_to_words(read: Read) -> None:
    words = ["10\xa0000", "a\x85b", "c\u2028d", "e\x0bf", "\u3000"]
    (sentence,) = read("".join(f"{word} X\n" for word in words), ["word", "tag"])
    assert sentence.words == words


def test_a_separator_keeps_empty_values_and_spaces(read: Read) -> None:
    (sentence,) = read("New York\t\nis\tVBZ\n \n", ["word", "tag"], separator="\t")
    assert (sentence.words, sentence.columns["tag"]) == (["New York", "is"], ["", "VBZ"])


def test_docstart_numbers_documents(read: Read) -> None:
    text = "-DOCSTART- -X- O\n\na X O\n\nb X O\n-DOCSTART- O O\nc X O\n\n-DOCSTART-\n"
    sentences = read(text)
    assert [(s.words, s.document, s.line) for s in sentences] == [(["a"], 1, 3), (["b"], 1, 5), (["c"], 2, 7)]
    assert [s.document for s in read("a X O\n\n-DOCSTART- O O\n\nb X O\n")] == [0, 1]


@pytest.mark.parametrize(("text", "columns", "settings", "message"), [
    (b"x y z\n" * 30000 + b"\xff\n", COLUMNS, {}, r":30001: byte 180000 "),
    ("a b c\nx y\n", COLUMNS, {}, r"a\.txt:2: 3 columns expected \(word tag chunk\), 2 found.*Name the columns"),
    ("\n\na b c d\n", COLUMNS, {}, r"a\.txt:3: 3 columns expected .* 4 found"),
    ("# from the Times\na b c\n", COLUMNS, {}, r":1: 3 columns expected .* 4 found\. If the line is a comment"),
    ("", COLUMNS, {}, r"a\.txt: no sentence"),
    ("-DOCSTART- -X- O\n\n \n", COLUMNS, {}, r"a\.txt: no sentence"),
    ("a b\rc d\n", COLUMNS, {}, r"a\.txt:1: a carriage return inside"),
    (b"a b c\na b c\nEspa\xf1a b c\n", COLUMNS, {}, r"a\.txt:3: byte 16 of the file is not utf8.*latin-1"),
    (b"abcde", COLUMNS, {"encoding": "utf-16"}, "not utf-16"),
    ("a\tX\n\tX\n", COLUMNS[:2], {"separator": "\t"}, r":2: the word is empty"),
    ("Ada\tNNP\tO\nCHAPTER\t\tO\n", COLUMNS, {}, r":2: column 2 \(tag\) is empty, between tabs"),
    ("Ada\tNNP\tO\n\tNN\tO\n", COLUMNS, {}, r":2: column 1 \(word\) is empty"),
    ("Ada\tNNP\tO\nCHAPTER\tNN\t\n", COLUMNS, {}, r":2: column 3 \(chunk\) is empty"),
    ("Ada\tNNP\tO\nCHAPTER\tO\n", COLUMNS, {}, r":2: 3 columns expected \(word tag chunk\), 2 found"),
])  # fmt: skip
def test_a_broken_file_is_refused_with_its_line(
    read: Read, text: str | bytes, columns: list[str], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        read(text, columns, **settings)


@pytest.mark.parametrize(("columns", "settings", "message"), [
    (["tag"], {}, "columns = "),
    (["word", "tag", "tag"], {}, "columns = "),
    (["word", "word"], {}, "columns = "),
    ([], {}, "columns = "),
    ("word", {}, "columns = "),
    (COLUMNS, {"separator": ""}, "separator"),
    (COLUMNS, {"encoding": "utf9"}, "Unknown encoding 'utf9'"),
    (COLUMNS, {"encoding": "utf8\0"}, "Unknown encoding"),
])  # fmt: skip
def test_settings_of_the_reader_that_cannot_work(
    read: Read, columns: list[str], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(TEXT, columns, **settings)


@pytest.mark.parametrize(("name", "message"), [("gone.txt", r"gone\.txt: no such file"), ("", "folder")])
def test_paths_that_are_no_file_are_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read_columns(tmp_path / name, COLUMNS)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_encodings(read: Read, encoding: str) -> None:
    (sentence,) = read("España NP\n".encode(encoding), ["word", "tag"], encoding=encoding)
    assert sentence.words == ["España"]


def test_reading_goes_on_behind_errors(write: Write) -> None:
    path = write(b"a A\nb\n\nc A\n\n\xff A\n\nd A B\ne A\n\nf\rg A\n")
    errors: list[FormatError] = []
    sentences = list(read_columns(path, ["word", "tag"], on_error=errors.append))
    assert [error.line for error in errors] == [2, 6, 8, 11]
    assert [(sentence.words, sentence.line) for sentence in sentences] == [(["c"], 4)]
    with pytest.raises(FormatError, match=":2: 2 columns expected"):
        list(read_columns(path, ["word", "tag"]))


def test_good_files_read_the_same(write: Write) -> None:
    path = write("\ufeff-DOCSTART- -X- O\n\n" + "The DT B-NP\nmap NN I-NP\n\nAda NNP B-PER\nsaw VBD O\n")
    errors: list[FormatError] = []
    names = ["word", "tag", "ent"]
    assert list(read_columns(path, names, on_error=errors.append)) == list(read_columns(path, names))
    assert not errors


def test_check_scheme_names_the_line(read: Read) -> None:
    good, bad = read(TEXT + "\nx NN B-NP\ny NN I-VP\n")[::2]
    check_scheme(good, "chunk", "IOB2", "a.txt")
    with pytest.raises(FormatError, match=r"a\.txt:7: tag 'I-VP' may not follow 'B-NP'.*conlleval") as info:
        check_scheme(bad, "chunk", "IOB2", "a.txt")
    assert info.value.line == 7
    check_scheme(bad, "chunk", "IOB1", "a.txt")


def test_a_scheme_is_checked_up_to_the_end_of_the_sentence(write: Write) -> None:
    path = write("a B-X\n" + "b O\nc I-X\n" * 5)
    [sentence] = read_columns(path, ["word", "ent"])
    with pytest.raises(FormatError, match=r":3: .* and 4 more in this sequence \(lines 5, 7, 9, \.\.\.\)\. Correct"):
        check_scheme(sentence, "ent", "IOB2", path)


VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\ufeff"), min_size=1, max_size=4)


@given(st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4), min_size=1, max_size=4), st.data())
def test_round_trip(rows: list[list[tuple[str, str]]], data: st.DataObject) -> None:
    sentences, line, document = [], 1, 0
    for tokens in rows:
        if sentences and data.draw(st.booleans()):
            line, document = line + 2, document + 1
        words, tags = (list(column) for column in zip(*tokens, strict=True))
        sentences.append(Sentence(words, {"tag": tags}, None, line, document, {}))
        line += len(words) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        write_columns(path, sentences, ["word", "tag"])
        assert list(read_columns(path, ["word", "tag"])) == sentences
        assert list(Path(folder).iterdir()) == [path]


@pytest.mark.parametrize("value", ["", "a b", "a\tb", "a\n", "\r"])
def test_values_that_cannot_be_written(tmp_path: Path, write: Write, value: str) -> None:
    path = write("as it was")
    sentences = [Sentence(["w"], {"tag": [tag]}, None, 1, 0, {}) for tag in ("X", value)]
    with pytest.raises(DataError, match="'tag'"):
        write_columns(path, sentences, ["word", "tag"])
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_the_writer_refuses_words_that_read_as_marks_and_columns_that_lack(tmp_path: Path) -> None:
    sentence = Sentence(["-DOCSTART-"], {}, None, 1, 0, {})
    with pytest.raises(DataError, match="start of a document"):
        write_columns(tmp_path / "a", [sentence], ["word"])
    with pytest.raises(DataError, match="no column 'tag'"):
        write_columns(tmp_path / "a", [sentence], ["word", "tag"])
    write_columns(tmp_path / "a", [sentence], ["_", "word"])
    assert (tmp_path / "a").read_text() == "_ -DOCSTART-\n\n"


def test_presets(write: Write) -> None:
    assert all(preset.name == name and preset.score in preset.columns for name, preset in PRESETS.items())
    assert [s.words for s in read_preset(write(TEXT), "conll2000")] == [["He", "ran"], ["It"]]
    with pytest.raises(ConfigError, match="Did you mean"):
        get_preset("conll2001")


needs_corpora = pytest.mark.skipif(not os.environ.get("CRFSEQ_DATA"), reason="CRFSEQ_DATA is not set")


@needs_corpora
@pytest.mark.parametrize(
    ("file", "preset", "size", "tokens"),
    [
        ("conll2000/train.txt", "conll2000", 8936, 211727),
        ("conll2000/test.txt", "conll2000", 2012, 47377),
        ("conll2002/esp.train", "conll2002", 8323, 264715),
        ("ud-english-ewt/en_ewt-ud-train.conllu", "conllu", 12544, 204577),
    ],
)
def test_real_corpora(file: str, preset: str, size: int, tokens: int) -> None:
    sentences = list(read_preset(Path(os.environ["CRFSEQ_DATA"], file), preset))
    assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (size, tokens)
    assert all(len(values) == len(s.words) for s in sentences for values in s.columns.values())


@needs_corpora
def test_the_stray_tag_of_conll2002() -> None:
    path = Path(os.environ["CRFSEQ_DATA"], "conll2002/esp.train")
    collected = []
    for sentence in read_preset(path, "conll2002"):
        try:
            check_scheme(sentence, "ent", "IOB2", path)
        except FormatError as error:
            collected.append(error)
    (error,) = collected
    assert error.line == 221619
    assert "tag 'I-LOC' may not be the first" in str(error)


def test_every_column(nlp: Language, tmp_path: Path) -> None:
    first, second, third = read_docs(nlp, saved(tmp_path, FILE))
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


def test_given_columns_are_on_predicted_docs(nlp: Language, tmp_path: Path) -> None:
    given = ["tag", "pos", "lemma", "morph", "ent", "chunk"]
    for example in read_docs(nlp, saved(tmp_path, FILE), given=given, chunks_key="np"):
        predicted, reference = example.predicted, example.reference
        for name in ("tag_", "pos_", "lemma_", "morph", "ent_iob", "ent_type_"):
            assert [str(getattr(t, name)) for t in predicted] == [str(getattr(t, name)) for t in reference]
        assert chunks(predicted, "np") == chunks(reference, "np")
    only_tags = read_docs(nlp, tmp_path / "a.txt", given=["tag"])[0].predicted
    assert only_tags.has_annotation("TAG")
    assert not only_tags.has_annotation("POS")


def test_a_doc_may_be_a_document(nlp: Language, tmp_path: Path) -> None:
    first, second = read_docs(nlp, saved(tmp_path, FILE), unit="document")
    for doc in (first.reference, first.predicted):
        assert [t.is_sent_start for t in doc] == [True, False, False, False, True, False]
    assert chunks(first.reference) == [(0, 2, "NP"), (2, 3, "PP"), (3, 4, "NP"), (4, 5, "NP")]
    assert ents(first.reference) == [(1, 3, "ORG"), (4, 5, "PER"), (5, 6, "PER")]
    assert [t.tag_ for t in second.reference] == ["RB"]


def starts(corpus: Sequence[Example]) -> list[list[bool | None]]:
    """Return the sentence starts of predicted docs, which their reference docs share."""
    for example in corpus:
        assert [t.is_sent_start for t in example.reference] == [t.is_sent_start for t in example.predicted]
    return [[t.is_sent_start for t in example.predicted] for example in corpus]


def test_joined_sentences(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, FILE)
    begun = [True]
    joined, plain = [True, None, None, None, None, None], [True, False, False, False, True, False]
    assert starts(read_docs(nlp, path, joined=1.0)) == [joined, begun]  # not beyond the document
    assert starts(read_docs(nlp, path, joined=1.0, twice=True)) == [plain, joined, begun, begun]
    first, *_ = read_docs(nlp, path, joined=1.0)
    assert ents(first.reference) == [(1, 3, "ORG"), (4, 5, "PER"), (5, 6, "PER")]
    in_document = [True, False, False, False, False, False]
    assert starts(read_docs(nlp, path, joined=1.0, unit="document")) == [in_document, begun]
    assert starts(read_docs(nlp, path, joined=1.0, unit="document", twice=True)) == [plain, in_document, begun, begun]
    assert len(list(create_conllu_reader(saved(tmp_path, CONLLU), joined=1.0, twice=True)(nlp))) == 4


def test_a_share_of_the_docs_is_read_apart(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "-DOCSTART- O\n\na O\n\nb O\n\n" * 400)

    def marks(share: float) -> list[bool]:
        examples = read_docs(nlp, path, ["word", "ent"], unit="document", apart=share)
        return [APART in example.predicted.user_data for example in examples]

    assert (sum(marks(0.0)), sum(marks(1.0))) == (0, 400)
    assert 150 < sum(marks(0.5)) < 250


@pytest.mark.parametrize("joined", [0.0, 0.3])
@pytest.mark.parametrize("unit", ["sentence", "passage", "document"])
@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no sentence in the file"), (b"\n\n", "no sentence in the file"), (b"DocBin", "the reader spacy.Corpus.v1")],
)
def test_a_file_without_sentences_is_refused_by_name(
    nlp: Language, tmp_path: Path, content: bytes, message: str, unit: str, joined: float
) -> None:
    path = tmp_path / "c.conll"
    path.write_bytes(DocBin(docs=[nlp.make_doc("Ada met Bo .")]).to_bytes() if content == b"DocBin" else content)
    with pytest.raises(FormatError, match=rf"c\.conll: .*{message}"):
        list(create_conll_reader(path, ["word", "ent"], unit=unit, joined=joined)(nlp))


def test_a_share_of_the_sentences_is_joined(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "a O\n\n" * 400)
    docs = read_docs(nlp, path, ["word", "ent"], joined=0.3)
    assert 250 < len(docs) < 310
    assert sum(len(example.reference) for example in docs) == 400
    assert [e.text for e in docs] == [e.text for e in read_docs(nlp, path, ["word", "ent"], joined=0.3)]


def test_weighted_sentences_stay_apart(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "a 1\nb _\n\nc 2\n")
    assert [e.text for e in read_docs(nlp, path, ["word", "weight"], joined=1.0)] == ["a b ", "c "]


def test_passages_are_sentences_in_a_row_of_one_document(nlp: Language, tmp_path: Path) -> None:
    text = "-DOCSTART- O\n\n" + "a O\n\n" * (PASSAGE + 1) + "-DOCSTART- O\n\n" + "b O\n\n"
    docs = [example.predicted for example in read_docs(nlp, saved(tmp_path, text), ["word", "ent"], unit="passage")]
    assert [len(doc) for doc in docs] == [PASSAGE, 1, 1]
    assert all(token.is_sent_start for doc in docs for token in doc)


@pytest.mark.parametrize(
    ("scheme", "tags"), [("IOB1", "I-A B-A I-A O"), ("IOB2", "B-A B-A I-A O"), ("BILUO", "U-A B-A L-A O")]
)
def test_spans_are_those_of_the_scheme(nlp: Language, tmp_path: Path, scheme: str, tags: str) -> None:
    path = saved(tmp_path, "".join(f"w {tag} {tag}\n" for tag in tags.split()))
    (example,) = read_docs(nlp, path, ["word", "ent", "chunk"], scheme=scheme)
    assert ents(example.reference) == chunks(example.reference) == [(0, 1, "A"), (1, 3, "A")]


@pytest.mark.parametrize(("text", "columns", "message"), [
    ("a B-X\n\nb O\nc I-X\n", ["word", "chunk"], r"a\.txt:4: tag 'I-X' may not follow 'O' in IOB2.*conlleval"),
    ("a -\nb I-X\n", ["word", "ent"], r"a\.txt:2: tag 'I-X' may not follow 'O'"),
    ("a _\nb Case\n", ["word", "morph"], r"a\.txt:2: 'Case' in column 'morph'"),
    ("a NNP\n", ["word", "pos"], r"a\.txt:1: 'NNP'.*PROPN.*'tag'"),
    ("a NP\n", ["word", "chunk"], r"a\.txt:1: tag 'NP' is not an IOB2 tag"),
    ("a O\nb NN\n", ["word", "chunk", "conlleval"], r"a\.txt:2: tag 'NN' is not an IOB2 tag"),
])  # fmt: skip
def test_tags_that_make_no_docs_are_refused(
    nlp: Language, tmp_path: Path, text: str, columns: list[str], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        read_docs(nlp, saved(tmp_path, text), columns[:2], on_invalid=(*columns, "error")[2])


def test_conlleval_reading_warns_once(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "a O\n\nb I-X\nc I-X\n\nd B-X\ne I-Y\n")
    reader = create_conll_reader(path, ["word", "chunk"], on_invalid="conlleval")
    with pytest.warns(UserWarning, match=r"a\.txt:3: 2 sentences, the first at this line.*IOB2") as caught:
        _, second, third = reader(nlp)
    assert len(caught) == 1
    assert chunks(second.reference) == [(0, 2, "X")]
    assert chunks(third.reference) == [(0, 1, "X"), (1, 2, "Y")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(reader(nlp))) == len(list(reader(spacy.blank("xx")))) == 3


def test_examples_of_a_preset(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "a NN B-X\nb NN I-Y\n")
    with pytest.warns(UserWarning, match="conlleval"):
        (example,) = read_examples(nlp, path, "conll2002", given=["tag"])
    assert ents(example.reference) == [(0, 1, "X"), (1, 2, "Y")]
    assert example.predicted[0].tag_ == "NN"
    with pytest.raises(ConfigError, match="Did you mean"):
        read_examples(nlp, path, "conll200")


@given(st.lists(VALUES | st.sampled_from(["NOUN", "ORTH", "IS_ALPHA", "_"]), min_size=1, max_size=6))
def test_any_words(tmp_path_factory: pytest.TempPathFactory, nlp: Language, words: list[str]) -> None:
    words = [word for word in words if word != "-DOCSTART-"]
    path = saved(tmp_path_factory.getbasetemp(), "".join(f"{word} T\n" for word in words))
    (example,) = read_docs(nlp, path, ["word", "tag"])
    assert [t.text for t in example.reference] == [t.text for t in example.predicted] == words
