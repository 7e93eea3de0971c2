"""Word classes: files, fallbacks, what a model stores."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora.word_classes import lookups_languages, read_classes, read_lookups
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.features.word_classes import ClassTable, WordClasses

BROWN = "0010\trome\t7\n00111101\tParis\t5\n1\tthe\t90\n"


@pytest.fixture
def lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as `spacy-lookups-data` is, with a table for one language; paths are stored from the lowest bit up."""
    package = tmp_path / "spacy_lookups_data"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    table = {"Rome": 0b100, "the": 0b1011, "\n\n": 0, "rare": 0}
    (package / "data" / "qq_lexeme_cluster.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("lookups")
def test_tables_of_lookups() -> None:
    assert [*lookups_languages()] == ["qq"]
    assert read_lookups("qq") == {"Rome": "001", "the": "1101"}
    with pytest.raises(ConfigError, match=r"word classes for qq, not for 'en'.*crfseq word-classes"):
        read_lookups("en")


def test_the_package_of_the_tables_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.corpora.word_classes.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install spacy-lookups-data"):
        WordClasses(lookups="en").class_of("the")


@pytest.fixture
def brown(tmp_path: Path) -> Path:
    path = tmp_path / "classes.txt"
    path.write_text(BROWN, encoding="utf8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BROWN, {"rome": "0010", "Paris": "00111101", "the": "1"}),
        ("\ufeffrome\t17\r\nParis\t17\r\n\r\nthe\t3\r\n", {"rome": "17", "Paris": "17", "the": "3"}),
        ("c1 rome\nc1 paris\nc2 the\n", {"rome": "c1", "paris": "c1", "the": "c2"}),
        ("rome\t01\n1\t10\n", {"rome": "01", "1": "10"}),
    ],
)
def test_formats_are_recognized(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_classes(plain) == read_classes(str(packed)) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"01\trome\n10\t\n", ":2: no word and class"),
        (b"rome\n", ":1: no word and class"),
        (b"\n\n", "no word in the file"),
        (b"01\trome\n10\tthe\n11\trome\n", ":3: the word 'rome' is in class 01 already"),
        (b"01\trome\n10\tcaf\xe9\n", ":2: byte 14 is not UTF-8"),
        (b"\x1f\x8bnothing", "cannot be read"),
    ],
)
def test_wrong_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        WordClasses(path).class_of("rome")


def test_prefixes_and_fallbacks(brown: Path) -> None:
    functions = WordClasses(brown, prefixes=[2, 6, 0]).functions("C")
    values = {word: [function(word) for function in functions.values()] for word in ("Rome", "Paris", "the", "x")}
    assert list(functions) == ["C2", "C6", "C"]
    assert values == {
        "Rome": ["00", "0010", "0010"], "Paris": ["00", "001111", "00111101"], "the": ["1", "1", "1"], "x": [None] * 3,
    }  # fmt: skip


def test_classes_without_paths_have_no_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("Rome 10\nParis 10\nthe 9\n", encoding="utf8")
    values = {name: function("Rome") for name, function in WordClasses(path, prefixes=[1, 0]).functions("C").items()}
    assert values == {"C1": None, "C": "10"}


def test_only_seen_words_are_kept(brown: Path) -> None:
    plugin = WordClasses(brown, keep="seen")
    assert [plugin.class_of(word) for word in ("Rome", "Oslo")] == ["0010", None]
    again = WordClasses("gone.txt", keep="seen")
    again.from_state(plugin.to_state())
    assert [again.class_of(word) for word in ("Rome", "rome", "Paris")] == ["0010", "0010", None]
    assert again.to_state() == plugin.to_state()


classes = st.dictionaries(st.text(min_size=1), st.sampled_from(["0", "01", "110", "x"]))


@given(classes, st.text())
def test_state_round_trip(words: dict[str, str], other: str) -> None:
    table = ClassTable.of(words)
    again = ClassTable.from_state(table.to_state())
    assert {word: again.find(word) for word in words} == words
    assert again.find(other) == words.get(other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "either path"),
        ({"path": "a", "lookups": "en"}, "either path"),
        ({"path": "a", "prefixes": [-1]}, "prefixes"),
        ({"path": "a", "prefixes": []}, "prefixes"),
        ({"path": "a", "prefixes": 4}, "prefixes"),
        ({"path": "a", "window": 99}, "window"),
        ({"path": "a", "keep": "few"}, "keep"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WordClasses(**settings)  # type: ignore[arg-type]
