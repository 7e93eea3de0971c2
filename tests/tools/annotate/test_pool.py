"""The pool: each text once, found again by its content, and near duplicates known."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import spacy

from spacy_crfseq.corpora import PRESETS
from spacy_crfseq.corpora.layouts import RAW
from spacy_crfseq.errors import DataError, FormatError
from spacy_crfseq.tools.annotate.pool import Pool, TextFile, bands, text_of
from tests.tools.annotate.conftest import sentences


def test_texts_are_kept_once_and_found_by_their_content(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("one two\n\n \none two\nthree\n", encoding="utf8")
    second.write_text("three\nvier\u2028fünf 😀\n", encoding="utf8")
    pool = Pool(nlp, [TextFile(first, RAW["txt"]), TextFile(second, RAW["txt"])])
    assert [pool.doc(i).text for i in range(len(pool))] == ["one two", "three", "vier\u2028fünf 😀"]
    assert [pool.number(pool.key(i)) for i in range(3)] == [0, 1, 2]
    for key in ("", "x", "g" * 16, "0" * 16, "\ud800", "٣" * 16):
        assert pool.number(key) is None
    keys = [pool.key(i) for i in range(3)]
    with first.open("a") as file:
        file.write("new\n")
    assert pool.refresh() == 1
    assert pool.refresh() == 0
    assert [pool.number(key) for key in keys] == [0, 1, 2]
    assert pool.doc(3).text == "new"


def present(pool: Pool) -> list[str]:
    return sorted(pool.doc(number).text.strip() for number in pool.draw(Random(0), set()))


GROWING = {
    "a.txt": ("one\ntwo\n", "three and", " four\n", ["one", "three and four", "two"]),
    "a.iob": ("one O\n\ntwo O\n\n", "three O\nand O\n", "four O\n\n", ["one", "three and four", "two"]),
    "a.jsonl": ('{"text": "one"}\n', '{"text": "two"}', "\n", ["one", "two"]),
}


@pytest.mark.parametrize("name", GROWING)
def test_half_a_text_of_a_file_that_grows_waits(name: str, tmp_path: Path) -> None:
    begin, half, rest, wanted = GROWING[name]
    path = tmp_path / name
    path.write_text(begin)
    pool = Pool(spacy.blank("xx"), [TextFile(path, RAW.get(path.suffix[1:], PRESETS["iob"]))])
    before = present(pool)
    with path.open("a") as file:
        file.write(half)
    assert pool.refresh() == 0
    assert present(pool) == before
    with path.open("a") as file:
        file.write(rest)
    assert pool.refresh() == 1
    assert present(pool) == wanted
    assert len(pool) == len(wanted)


def test_an_unfinished_text_counts_once_the_file_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo")  # complete, as nothing says otherwise
    pool = Pool(spacy.blank("xx"), [TextFile(path, RAW["txt"])])
    assert present(pool) == ["one", "two"]
    key = pool.key(1)
    path.write_text("one\ntwo and a half\nthree")
    assert pool.refresh() == 1
    assert present(pool) == ["one", "two and a half"]
    assert pool.number(key) is None
    assert pool.refresh() == 1
    assert present(pool) == ["one", "three", "two and a half"]
    path.write_text("three\n")
    assert pool.refresh() == 0
    assert (len(pool), present(pool)) == (1, ["three"])
    path.write_text("three\ntwo\n")
    assert pool.refresh() == 0
    assert pool.number(key) == 1


def test_words_of_a_corpus_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.iob"
    path.write_text("don't B-X\ngo O\n\nU.S.A. O\n", encoding="utf8")
    pool = Pool(spacy.blank("en"), [TextFile(path, PRESETS["iob"])])
    assert [text_of(pool.doc(i)) for i in range(2)] == [(("don't", "go"), None), (("U.S.A.",), None)]


def test_draws_are_random_complete_and_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(map(str, range(50))))
    pool = Pool(spacy.blank("xx"), [TextFile(path, RAW["txt"])])
    for without in (set[int](), {3, 4}, set(range(40)), set(range(50))):
        drawn = list(pool.draw(Random(1), without))
        assert sorted(drawn) == sorted(set(range(50)) - without)
    assert list(pool.draw(Random(1), set())) != list(pool.draw(Random(2), set()))


def test_near_duplicates_share_a_band() -> None:
    nlp = spacy.blank("xx")
    texts = [f"{text} and some more words that are common to the texts of this test" for text in sentences(60)]
    same = other = 0
    for i, text in enumerate(texts):
        words = text.split()
        near = bands(nlp(" ".join(words[:-1])))
        same += bool(near & bands(nlp(text)))
        far = " ".join(f"{word}{i}" for word in words)
        other += bool(near & bands(nlp(far)))
    assert same > 50
    assert other == 0
    assert bands(nlp("")) == frozenset()


def test_files_without_texts_and_texts_that_are_too_long_are_refused(tmp_path: Path) -> None:
    nlp, path = spacy.blank("xx"), tmp_path / "a.txt"
    path.write_text(" \n\n")
    with pytest.raises(DataError, match="no text in the file"):
        Pool(nlp, [TextFile(path, RAW["txt"])])
    nlp.max_length = 10
    path.write_text("short\n12345678901\n")
    with pytest.raises(FormatError, match=r"a.txt:2: a text of 11 characters"):
        Pool(nlp, [TextFile(path, RAW["txt"])])
