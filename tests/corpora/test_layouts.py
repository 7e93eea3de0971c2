"""Layouts and encodings of files: the guess at them, and one rule for all commands that read a corpus or texts."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora import CUSTOM, PRESETS, Preset, guess
from spacy_crfseq.corpora.layouts import corpus_block, corpus_place, trained_layout
from spacy_crfseq.corpora.xml import XMLForm
from tests.commands import Corpus, Run, refused, worked
from tests.corpora.conftest import Write
from tests.corpora.helpers import COMMANDS

OUTPUTS = ("new", "tagged.jsonl")
"""Outputs that are not replaced unasked."""
READS = "detected --format iob (word ent; tags in IOB1 or IOB2)."


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
def test_presets_are_guessed(text: str, name: str, write: Write) -> None:
    layout = guess(write(text))
    assert layout is not None
    assert layout._replace(form=layout.form and XMLForm()) == PRESETS[name]


@pytest.mark.parametrize(("text", "columns", "scheme", "encoding"), [
    ("Ada U-PER\nKing B-PER\nBo L-PER\nOslo O\n\n", ("word", "ent"), "BILUO", "utf8"),
    (ENTITIES.replace("B-", "I-"), ("word", "tag", "ent"), "IOB1", "utf8"),
    ("Málaga NNP B-LOC\n\n".encode("latin-1"), ("word", "tag", "ent"), "IOB2", "latin-1"),
])  # fmt: skip
def test_schemes_and_encodings_are_guessed(
    text: str | bytes, columns: tuple[str, ...], scheme: str, encoding: str, write: Write
) -> None:
    assert guess(write(text)) == Preset(CUSTOM, columns, scheme, encoding, "ent")


@pytest.mark.parametrize(("last", "columns"), [("B-UNIT", ("word", "_", "tag")), ("OTHER", ("word", "tag", "_"))])
def test_the_tag_is_the_last_column_that_says_something(last: str, columns: tuple[str, ...], write: Write) -> None:
    layout = guess(write(f"2 I1 OTHER\ncups I2 {last}\n\n" * 9))
    assert layout is not None
    assert layout.columns == columns


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("Ada B-PER a\nsaw O a\nOslo B-LOC a\n\nBo B-PER b\nand O b\nAl B-PER b\n\n", ("word", "ent", "group")),
        ("Ada a NNP\nsaw a VBD\nOslo a NNP\n\nBo b NNP\nand b CC\nAl b NNP\n\n", ("word", "group", "tag")),
        ("Ada NNP\nBo NNP\n\nsaw VBD\nran VBD\n\n", ("word", "tag")),
    ],
)
def test_a_column_that_changes_between_sentences_alone_is_their_group(
    text: str, columns: tuple[str, ...], write: Write
) -> None:
    layout = guess(write(text))
    assert layout is not None
    assert layout.columns == columns


def test_one_mistake_leaves_a_layout_what_it_is(write: Write) -> None:
    assert guess(write(ENTITIES * 9 + "Oslo NNP I-LOC\n\n")) is PRESETS["conll2002"]


@pytest.mark.parametrize("text", ["", "\n\n", "a\nb\n", "one two\nthree four five\nsix\n", b"\0\1\2"])
def test_a_file_that_is_no_corpus_has_no_layout(text: str | bytes, write: Write) -> None:
    assert guess(write(text)) is None
    assert guess(Path("none")) is None


@pytest.fixture(scope="module")
def small(trained: Path, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with one component, which loads fast, and a few sentences."""
    folder = tmp_path_factory.mktemp("small")
    spacy.load(trained / "model-best", exclude=["crf_tagger", "crf_chunker"]).to_disk(folder / "model")
    sentences = corpus.dev.read_text(encoding="utf8").split("\n\n")[:12]
    (folder / "dev.conll").write_text("\n\n".join(sentences) + "\n", encoding="utf8")
    return folder / "model", folder / "dev.conll"


@pytest.fixture
def dev(small: tuple[Path, Path]) -> Path:
    return small[1]


@pytest.fixture
def call(run: Run, small: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one of these commands on a file."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"M": small[0]}

    def call(command: str, file: Path, *options: str) -> Any:
        return run(*({**names, "F": file}.get(word, word) for word in command.split()), *options)

    return call


def two_columns(source: Path, target: Path, encoding: str = "utf8", word: str = "Ada") -> Path:
    rows = [line.split() for line in source.read_text(encoding="utf8").splitlines()]
    text = "".join(f"{row[0].replace('Ada', word)} {row[3]}\n" if row else "\n" for row in rows)
    target.write_text(text, encoding=encoding)
    return target


@pytest.mark.parametrize("command", COMMANDS)
def test_the_layout_is_that_of_training_or_what_the_file_looks_like(
    command: str, call: Any, dev: Path, tmp_path: Path
) -> None:
    result = worked(call(command, dev))
    assert "detected" not in result.stderr
    other = two_columns(dev, tmp_path / "other.data")
    guessed = worked(call(command, other, *(["--force"] if command.split()[-1] in OUTPUTS else [])))
    assert guessed.stderr.count(f"{other}: {READS}") == 1
    (tmp_path / "plain.data").write_text("no columns\nat all here\n")
    refused(call(command.replace("tagged", "plain").replace(" new", " plain"), tmp_path / "plain.data"), "is unknown")


@pytest.mark.parametrize("command", COMMANDS)
def test_columns_and_encodings(command: str, call: Any, dev: Path, tmp_path: Path) -> None:
    latin = two_columns(dev, tmp_path / "latin.data", "latin-1", "Zoë")
    columns = "--columns word,ent --scheme IOB2"
    if not command.startswith("tag"):  # which leaves broken lines out
        message = 'not utf8. The file looks like latin-1: give --encoding latin-1, in a config encoding = "latin-1".'
        refused(call(command, latin, columns), "latin.data:", message)
    result = worked(call(command, latin, f"{columns} --encoding latin-1"))
    assert "looks" not in result.stderr
    if command.startswith("evaluate"):
        wide = two_columns(dev, tmp_path / "wide.data", "utf-16", "Zoë")
        again = worked(call(command, wide, f"{columns} --encoding utf-16"))
        assert again.stdout.split("tokens in")[0] == result.stdout.split("tokens in")[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1"])
def test_raw_text_in_other_encodings(encoding: str, call: Any, tmp_path: Path) -> None:
    texts = ["Zoë sees a dog in Oslo .", "the “old” map" if encoding != "latin-1" else "the old map"]
    (tmp_path / "news.txt").write_bytes("\n".join(texts).encode(encoding))
    result = call("tag M F -o tagged.jsonl", tmp_path / "news.txt", "--strict")
    refused(result, "news.txt:1: byte", "not utf8")
    worked(call("tag M F -o tagged.jsonl --force --strict", tmp_path / "news.txt", f"--encoding {encoding}"))
    rows = [json.loads(line)["text"] for line in (tmp_path / "tagged.jsonl").read_text(encoding="utf8").splitlines()]
    assert rows == texts


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_reader_inside_of_weighted_ones_reads_the_file(depth: int) -> None:
    reader: dict[str, Any] = {"@readers": "spacy_crfseq.ConllReader.v1", "path": "a.conll", "columns": ["word", "ent"]}
    block = reader
    for _ in range(depth):
        block = {"@readers": "spacy_crfseq.WeightedReader.v1", "corpus": block}
    config = {"corpora": {"train": block}, "training": {"train_corpus": "corpora.train"}}
    assert corpus_block(config, "train_corpus") == reader
    assert corpus_place(config, "train_corpus") == "corpora.train" + ".corpus" * depth
    layout = trained_layout(config)
    assert layout is not None
    assert layout.columns == ("word", "ent")
