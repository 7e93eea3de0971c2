"""Corpora of many files, and files cut into parts: together, the parts have what the whole has."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.pipeline.encode import reader_of

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
