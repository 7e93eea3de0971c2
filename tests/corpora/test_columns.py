"""Column files: hand-written ones, broken ones, round trips and the real corpora."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora import (
    CUSTOM,
    PRESETS,
    Preset,
    Sentence,
    check_scheme,
    get_preset,
    guess,
    read_columns,
    read_conllu,
    read_preset,
    write_columns,
)
from spacy_crfseq.corpora.xml import XMLForm
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from tests.corpora.conftest import Write

Read = Callable[..., list[Sentence]]
COLUMNS = ["word", "tag", "chunk"]
TEXT = "He PRP B-NP\nran VBD B-VP\n\nIt PRP B-NP\n"


@pytest.fixture
def read(write: Write) -> Read:
    def found(text: str | bytes, columns: list[str] = COLUMNS, **settings: str) -> list[Sentence]:
        return list(read_columns(write(text), columns, **settings))

    return found


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x y z\n" * 30000 + b"\xff\n", r":30001: byte 180000 "),
        ("a b c\nx y\n", r"a\.txt:2: 3 columns expected \(word tag chunk\), 2 found.*Name the columns"),
        ("\n\na b c d\n", r"a\.txt:3: 3 columns expected .* 4 found"),
        ("", r"a\.txt: no sentence"),
        ("-DOCSTART- -X- O\n\n \n", r"a\.txt: no sentence"),
        ("a b\rc d\n", r"a\.txt:1: a carriage return inside"),
        (b"a b c\na b c\nEspa\xf1a b c\n", r"a\.txt:3: byte 16 of the file is not utf8.*latin-1"),
    ],
)
def test_broken_files(read: Read, text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(text)


def test_other_refusals_of_the_reader(tmp_path: Path, read: Read) -> None:
    with pytest.raises(FormatError, match=r":2: the word is empty"):
        read("a\tX\n\tX\n", ["word", "tag"], separator="\t")
    with pytest.raises(FormatError, match=r"gone\.txt: no such file"):
        read_columns(tmp_path / "gone.txt", COLUMNS)
    with pytest.raises(FormatError, match="folder"):
        read_columns(tmp_path, COLUMNS)
    with pytest.raises(ConfigError, match="separator"):
        read(TEXT, separator="")


def test_encodings(read: Read) -> None:
    for encoding in ("latin-1", "utf-16"):
        (sentence,) = read("España NP\n".encode(encoding), ["word", "tag"], encoding=encoding)
        assert sentence.words == ["España"]
    with pytest.raises(ConfigError, match="Unknown encoding 'utf9'"):
        read(TEXT, encoding="utf9")
    with pytest.raises(FormatError, match="not utf-16"):
        read(b"abcde", encoding="utf-16")


@pytest.mark.parametrize("columns", [["tag"], ["word", "tag", "tag"], ["word", "word"], [], "word"])
def test_impossible_columns(read: Read, columns: list[str]) -> None:
    with pytest.raises(ConfigError, match="columns = "):
        read(TEXT, columns)


def test_check_scheme_names_the_line(read: Read) -> None:
    good, bad = read(TEXT + "\nx NN B-NP\ny NN I-VP\n")[::2]
    check_scheme(good, "chunk", "IOB2", "a.txt")
    with pytest.raises(FormatError, match=r"a\.txt:7: tag 'I-VP' may not follow 'B-NP'.*conlleval") as info:
        check_scheme(bad, "chunk", "IOB2", "a.txt")
    assert info.value.line == 7
    check_scheme(bad, "chunk", "IOB1", "a.txt")


# Half a surrogate pair has no bytes; U+FEFF at the start of a file is a byte order mark.
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


def test_other_refusals_of_the_writer(tmp_path: Path) -> None:
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
    found = []
    for sentence in read_preset(path, "conll2002"):
        try:
            check_scheme(sentence, "ent", "IOB2", path)
        except FormatError as error:
            found.append(error)
    (error,) = found
    assert error.line == 221619
    assert "tag 'I-LOC' may not be the first" in str(error)


# --- what files seem to be, and reading on behind errors ------------------------------------------------------------


CHUNKS = "The DT B-NP\nold JJ I-NP\nmap NN I-NP\nlies VBZ B-VP\n. . O\n\n"
ENTITIES = "Ada NNP B-PER\nKing NNP I-PER\nsaw VBD O\nOslo NNP B-LOC\n. . O\n\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CHUNKS, "conll2000"),
        (ENTITIES, "conll2002"),
        ("-DOCSTART- -X- O O\n\nAda NNP B-NP B-PER\nsaw VBD B-VP O\nOslo NNP B-NP B-LOC\n. . O O\n\n", "conll2003"),
        (ENTITIES.replace(" NNP", "").replace(" VBD", "").replace(". .", "."), "iob"),
        ('<?xml version="1.0"?>\n<!-- names -->\n<all>\n<n><given>Ada</given></n></all>', "xml"),
        ("# text = Ada\n1\tAda\tAda\tPROPN\tNNP\t_\t0\troot\t_\t_\n\n", "conllu"),
    ],
)  # fmt: skip
def test_presets_are_known_again(text: str, name: str, write: Write) -> None:
    found = guess(write(text))
    assert found is not None
    assert found._replace(form=found.form and XMLForm()) == PRESETS[name]


def test_schemes_and_encodings(write: Write) -> None:
    for text, columns, scheme, encoding in (
        ("Ada U-PER\nKing B-PER\nBo L-PER\nOslo O\n\n", ("word", "ent"), "BILUO", "utf8"),
        (ENTITIES.replace("B-", "I-"), ("word", "tag", "ent"), "IOB1", "utf8"),
        ("Málaga NNP B-LOC\n\n".encode("latin-1"), ("word", "tag", "ent"), "IOB2", "latin-1"),
    ):
        assert guess(write(text)) == Preset(CUSTOM, columns, scheme, encoding, "ent")
    for last, columns in (("B-UNIT", ("word", "_", "tag")), ("OTHER", ("word", "tag", "_"))):  # the last says something
        found = guess(write(f"2 I1 OTHER\ncups I2 {last}\n\n" * 9))
        assert found is not None
        assert found.columns == columns
    one_mistake = guess(write(ENTITIES * 9 + "Oslo NNP I-LOC\n\n"))
    assert one_mistake is PRESETS["conll2002"]


@pytest.mark.parametrize("text", ["", "\n\n", "a\nb\n", "one two\nthree four five\nsix\n", b"\0\1\2"])
def test_what_is_no_corpus(text: str | bytes, write: Write) -> None:
    assert guess(write(text)) is None
    assert guess(Path("none")) is None


def test_reading_goes_on_behind_errors(write: Write) -> None:
    path = write(b"a A\nb\n\nc A\n\n\xff A\n\nd A B\ne A\n\nf\rg A\n")
    errors: list[FormatError] = []
    sentences = list(read_columns(path, ["word", "tag"], on_error=errors.append))
    assert [error.line for error in errors] == [2, 6, 8, 11]
    assert [(sentence.words, sentence.line) for sentence in sentences] == [(["c"], 4)]
    with pytest.raises(FormatError, match=":2: 2 columns expected"):
        list(read_columns(path, ["word", "tag"]))


def test_good_files_read_the_same(write: Write) -> None:
    path = write("\ufeff-DOCSTART- -X- O\n\n" + CHUNKS + ENTITIES)
    errors: list[FormatError] = []
    names = ["word", "tag", "ent"]
    assert list(read_columns(path, names, on_error=errors.append)) == list(read_columns(path, names))
    assert not errors


def test_conllu_goes_on_behind_errors(write: Write) -> None:
    row = "1\tAda\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
    path = write(f"{row}\n1\tAda\n{row}\n{row}\n{row.replace('PROPN', 'N')}\n3{row[1:]}")
    errors: list[FormatError] = []
    assert len(list(read_conllu(path, errors.append))) == 2
    assert [error.line for error in errors] == [3, 8, 10]


@pytest.mark.parametrize(("line", "said"), [
    ("CHAPTER\t\tO", r":2: column 2 \(tag\) is empty, between tabs"),
    ("\tNN\tO", r":2: column 1 \(word\) is empty"),
    ("CHAPTER\tNN\t", r":2: column 3 \(ent\) is empty"),
    ("CHAPTER\tO", r":2: 3 columns expected \(word tag ent\), 2 found"),
])  # fmt: skip
def test_an_empty_column_is_named(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(f"Ada\tNNP\tB-PER\n{line}\n")
    with pytest.raises(FormatError, match=said):
        list(read_columns(tmp_path / "a.conll", ["word", "tag", "ent"]))


def test_a_scheme_is_checked_up_to_the_end_of_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a B-X\n" + "b O\nc I-X\n" * 5)
    [sentence] = read_columns(tmp_path / "a.conll", ["word", "ent"])
    with pytest.raises(FormatError, match=r":3: .* and 4 more in this sequence \(lines 5, 7, 9, \.\.\.\)\. Correct"):
        check_scheme(sentence, "ent", "IOB2", tmp_path / "a.conll")
