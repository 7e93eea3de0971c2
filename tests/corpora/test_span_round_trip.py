"""The bundled corpus, written in several formats of annotated spans: each of them is read with the same tags."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pytest
from pyarrow import parquet

from spacy_crfseq.corpora.layouts import read_preset
from spacy_crfseq.corpora.spans import read_annotations
from spacy_crfseq.schemes import TagSpan, decode_lenient, encode

CORPUS = Path(__file__).parents[2] / "assets" / "corpus" / "dev.conll"


class Annotation(NamedTuple):
    """A sentence, and its spans in words."""

    words: Sequence[str]
    spans: Sequence[TagSpan]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def characters(self) -> list[tuple[int, int, str]]:
        starts = [len(" ".join([*self.words[:i], ""])) for i in range(len(self.words))]
        return [(starts[a], starts[b - 1] + len(self.words[b - 1]), label) for a, b, label in self.spans]

    def tags(self, scheme: str) -> list[str]:
        return encode(self.spans, len(self.words), scheme)


def lines(record: Callable[[Annotation], Any]) -> Callable[[Path, Sequence[Annotation]], Path]:
    """Return a function that writes a record a line."""

    def write(folder: Path, corpus: Sequence[Annotation]) -> Path:
        path = folder / "a.jsonl"
        path.write_text("".join(json.dumps(record(item)) + "\n" for item in corpus))
        return path

    return write


def table(folder: Path, corpus: Sequence[Annotation]) -> Path:
    columns = {"tokens": [item.words for item in corpus], "tags": [item.tags("IOBES") for item in corpus]}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def webanno(folder: Path, corpus: Sequence[Annotation]) -> Path:
    rows, at, path = ["#FORMAT=WebAnno TSV 3.3", "#T_SP=a.NamedEntity|value", ""], 0, folder / "a.tsv"
    for i, item in enumerate(corpus):
        marks = ["_"] * len(item.words)
        for n, (start, end, label) in enumerate(item.spans):
            marks[start:end] = [f"{label}[{1000 * i + n + 1}]"] * (end - start)
        for j, (word, mark) in enumerate(zip(item.words, marks, strict=True)):
            rows.append(f"{i + 1}-{j + 1}\t{at}-{at + len(word)}\t{word}\t{mark}")
            at += len(word) + 1
        rows.append("")
    path.write_text("\n".join([*rows, ""]), encoding="utf8")
    return path


WRITERS = {
    "jsonl: characters": lines(lambda item: {"text": item.text, "label": item.characters}),
    "jsonl: pairs": lines(lambda item: [item.text, {"entities": item.characters}]),
    "jsonl: tags": lines(lambda item: {"tokens": item.words, "ner_tags": item.tags("BILUO")}),
    "jsonl: words": lines(
        lambda item: {"tokenized_text": item.words, "ner": [(a, b - 1, c) for a, b, c in item.spans]}
    ),
    "parquet": table,
    "webanno": webanno,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> list[Annotation]:
    sentences = read_preset(CORPUS, "conll2003")
    return [Annotation(sentence.words, decode_lenient(sentence.columns["ent"])) for sentence in sentences]


@pytest.mark.parametrize("name", WRITERS)
def test_a_corpus_has_the_same_tags_in_every_format(name: str, corpus: Sequence[Annotation], tmp_path: Path) -> None:
    def tokenize(text: str) -> tuple[list[str], list[bool]]:
        words = text.split(" ")
        return words, [True] * (len(words) - 1) + [False]

    path = WRITERS[name](tmp_path, corpus)
    sentences = list(read_annotations(path, tokenize, format=name.partition(":")[0]))
    assert [sentence.words for sentence in sentences] == [item.words for item in corpus]
    assert [sentence.columns["ent"] for sentence in sentences] == [item.tags("IOB2") for item in corpus]
