"""What files seem to be, and reading on behind errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_crfseq.corpora import CUSTOM, PRESETS, Preset, guess, read_columns, read_conllu
from spacy_crfseq.corpora.xml import XMLForm
from spacy_crfseq.errors import FormatError
from tests.corpora.conftest import Write

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
