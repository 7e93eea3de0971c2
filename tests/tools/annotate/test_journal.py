"""The journal: nothing is lost by a kill or a full disk, and undoing is exact."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.schemes import Span
from spacy_crfseq.tools.annotate.journal import Decision, Journal, Pins, State, Text, checked_label


def accept(key: str, id_: str, *spans: Span, **more: Any) -> dict[str, Any]:
    return Decision(key, Text(("Ada", "in", "Oslo")), Pins(tuple(spans)), id=id_, **more).as_json()


ENTRIES: list[dict[str, Any]] = [
    {"kind": "begin", "version": 1, "settings": {"task": "entities"}},
    {"kind": "label", "names": ["PER", "Å"]},
    accept("k1", "1", Span(0, 1, "PER"), seconds=2.5, actions=3),
    {"kind": "skip", "key": "k2", "id": "2"},
    accept("k3", "3", Span(2, 3, "Å"), held_out=True),
    {"kind": "undo", "key": "k3", "id": "4"},
    {"kind": "model", "texts": 1, "held_out": 0, "f1": None},
    accept("k1", "5"),
]


def seen(state: State) -> Any:
    return state.settings, state.labels, state.decisions, list(state.skipped), state.ids, state.curve


def fold(entries: list[dict[str, Any]]) -> Any:
    state = State()
    for entry in entries:
        state.apply(json.loads(json.dumps(entry)))
    return seen(state)


def test_a_kill_at_any_byte_loses_at_most_the_entry_that_was_being_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for entry in ENTRIES:
        journal.add(entry)
    whole, told = path.read_bytes(), seen(journal.state)
    journal.close()
    assert fold(ENTRIES) == told
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        again = Journal(path)
        assert seen(again.state) == fold(ENTRIES[: whole[:size].count(b"\n")])
        again.add({"kind": "label", "names": ["NEW"]})
        again.close()
        assert b"NEW" in path.read_bytes().splitlines()[-1]


def test_undoing_goes_back_decision_by_decision() -> None:
    state = State()
    for entry in ENTRIES:
        state.apply(entry)
    assert state.last() is not None
    assert state.decisions["k1"].pins.spans == ()
    state.apply({"kind": "undo"})
    assert state.decisions["k1"].pins.spans == (Span(0, 1, "PER"),)
    assert state.last() == ("k2", None)
    state.apply({"kind": "undo"})
    assert list(state.skipped) == []
    state.apply({"kind": "undo"})
    state.apply({"kind": "undo"})
    assert state.decisions == {}
    assert state.last() is None


@pytest.mark.parametrize("written", [0, 10])
def test_a_full_disk_leaves_the_file_as_it_was(written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(ENTRIES[0])
    before = path.read_bytes()

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.file.write(data[:written])
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    real = journal._file
    monkeypatch.setattr(journal, "_file", Full(real))
    with pytest.raises(OSError, match="No space"):
        journal.add(ENTRIES[2])
    assert path.read_bytes() == before
    assert journal.state.decisions == {}
    monkeypatch.setattr(journal, "_file", real)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input"):
        journal.add(ENTRIES[2])
    assert path.read_bytes() == before
    monkeypatch.undo()
    journal.add(ENTRIES[2])
    assert journal.state.decisions.keys() == {"k1"}
    journal.close()


@pytest.mark.parametrize("line", ["{", "[]", '{"kind": "dance"}', '{"kind": "accept", "key": "a"}', '"x"', "\x00"])
def test_a_line_that_is_no_entry_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(ENTRIES[0]) + f"\n{line}\n", encoding="utf8")
    with pytest.raises(FormatError, match=r"journal.jsonl:2: "):
        Journal(path)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(json.dumps({**ENTRIES[0], "version": 2}) + "\n")
    with pytest.raises(ConfigError, match="another release, version 2"):
        Journal(tmp_path / "journal.jsonl")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"spans": [[0, 4, "PER"]]}, "not inside the 3 tokens"),
        ({"spans": [[1, 1, "PER"]]}, "not inside"),
        ({"spans": [[0, 2, "PER"], [1, 3, "LOC"]]}, "overlap"),
        ({"spans": [[0, 1, "a b"]]}, "white space"),
        ({"spans": [[0, 1, ""]]}, "1 to 80"),
        ({"spans": [[0, 1]]}, "no annotation"),
        ({"spans": 3}, "no annotation"),
        ({"outside": [3]}, "not among the 3"),
        ({"unknown": ["x"]}, "no annotation"),
        ({"choices": [[0, ["O"]]]}, "O or -"),
        ([], "no annotation"),
        (None, "no annotation"),
    ],
)
def test_annotations_that_make_no_sense_are_refused(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Pins.of(value, 3)


@pytest.mark.parametrize("name", ["\n", "a\u202eb", "\ud800", " a", "a\u2028", "x" * 81, 3, None])
def test_labels_that_no_file_can_hold_are_refused(name: Any) -> None:
    with pytest.raises(DataError):
        checked_label(name)
    assert checked_label("<b>'\"&😀") == "<b>'\"&😀"


def test_half_a_character_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(DataError, match="Half a character"):
        journal.add({"kind": "skip", "key": "\ud800", "id": "1"})
    with pytest.raises(DataError, match="numbers from 0"):
        journal.add({**accept("k", "1"), "seconds": -1})
    journal.close()
    assert (tmp_path / "journal.jsonl").read_bytes() == b""
