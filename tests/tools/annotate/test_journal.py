"""The journal: nothing is lost by a kill or a full disk, and undoing is exact."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.annotate.journal import Decision, Journal, Pins, State, TextTokens, checked_label


def accept(key: str, id_: str, *spans: TagSpan, **more: Any) -> dict[str, Any]:
    return Decision(key, TextTokens(("Ada", "in", "Oslo")), Pins(tuple(spans)), id=id_, **more).as_json()


ENTRIES: list[dict[str, Any]] = [
    {"kind": "begin", "version": 1, "settings": {"task": "entities"}},
    {"kind": "label", "names": ["PER", "Å"]},
    accept("k1", "1", TagSpan(0, 1, "PER"), seconds=2.5, actions=3),
    {"kind": "skip", "key": "k2", "id": "2", "text": {"words": ["Bo"], "spaces": None}},
    accept("k3", "3", TagSpan(2, 3, "Å"), held_out=True),
    {"kind": "undo", "key": "k3", "id": "4"},
    {
        "kind": "model",
        "texts": 1,
        "held_out": 0,
        "actions": 3,
        "f1": None,
        "low": None,
        "high": None,
        "by_label": {"PER": 0.5},
    },
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
        if again.state.settings:
            again.add({"kind": "label", "names": ["NEW"]})
            assert b"NEW" in path.read_bytes().splitlines()[-1]
        again.close()


STEPS = st.lists(st.sampled_from(["accept", "skip", "undo"]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.sampled_from("abc"), st.integers(0, 9))), max_size=12)  # fmt: skip


def step(kind: str, key: str, number: int) -> dict[str, Any]:
    if kind == "accept":
        return accept(key, str(number), actions=number)
    return {"kind": kind, "key": key, "text": {"words": ["Bo"], "spaces": None}}


@given(STEPS)
@example([("skip", "a", 0), ("accept", "a", 0)])
@example([("accept", "a", 0), ("accept", "b", 1), ("accept", "a", 2), ("undo", "a", 0)])
def test_a_state_is_what_the_steps_that_were_not_undone_amount_to(steps: list[tuple[str, str, int]]) -> None:
    state, kept = State(), list[tuple[str, str, int]]()
    state.apply(ENTRIES[0])
    for event in steps:
        state.apply(step(*event))
        kept = kept[:-1] if event[0] == "undo" else [*kept, event]
    last = {key: (number, kind, actions) for number, (kind, key, actions) in enumerate(kept)}
    decided = sorted((at, key, actions) for key, (at, kind, actions) in last.items() if kind == "accept")
    assert [(key, decision.actions) for key, decision in state.decisions.items()] == [(k, n) for _, k, n in decided]
    assert state.skipped.keys() == {key for key, (_, kind, _) in last.items() if kind == "skip"}
    reopened = state.last()
    assert (reopened is None) == (not kept)
    if reopened is not None:
        assert reopened[0] == kept[-1][1]
        assert isinstance(reopened[1], TextTokens) == (kept[-1][0] == "skip")


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


DAMAGED = [
    b"{",
    b"[]",
    b"3",
    b'"x"',
    b"\x00",
    b"\xff",
    b"[" * 100_000,
    b'{"kind": ' + b"9" * 5000 + b"}",
    b'{"kind": "dance"}',
    b'{"kind": ["label"]}',
    b'{"kind": "begin", "settings": {"task": "tags"}}',
    b'{"kind": "label", "names": [{"a": 1}]}',
    b'{"kind": "label", "names": [[]]}',
    b'{"kind": "label", "names": "PER"}',
    b'{"kind": "label", "names": ["A"], "id": 3}',
    b'{"kind": "model"}',
    b'{"kind": "skip", "key": "a"}',
    b'{"kind": "skip", "text": {"words": ["a"]}}',
    b'{"kind": "accept", "key": "a"}',
]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_line_that_is_no_entry_is_named_and_the_file_stays(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    content = json.dumps(ENTRIES[0]).encode() + b"\n" + line + b"\n" + b"half"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"journal.jsonl:2: .*Remove the line"):
        Journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"mine", b"mine\n", b'{"mine": 1}\n', b'{"kind": "label", "names": ["A"]}\n', b'{"k', b"\n"]
)
def test_a_foreign_file_of_that_name_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)
    if content == b'{"k':  # a kill while the first entry was written
        Journal(path).close()
        assert path.read_bytes() == b""
        return
    with pytest.raises(FormatError, match="has not been written by this command"):
        Journal(path)
    assert path.read_bytes() == content


def test_nothing_is_written_to_a_file_that_another_program_has_put_aside_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    copy = tmp_path / "copy"
    journal = Journal(path)
    journal.add(ENTRIES[0])
    original = path.read_bytes()

    def refused() -> None:
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(DataError, match=r"journal\.jsonl: another program has .* Nothing was saved"):
            journal.add(ENTRIES[2])
        assert journal.state.decisions == {}
        assert (path.read_bytes() if path.exists() else None) == before

    copy.write_bytes(original)
    copy.replace(path)  # as git and clients of shared folders do
    refused()
    path.unlink()
    refused()
    journal.close()
    path.write_bytes(original)
    journal = Journal(path)
    with path.open("ab") as file:
        file.write(b'{"kind": "label", "names": ["X"]}\n')
    refused()
    path.write_bytes(original[:-3])
    refused()
    path.write_bytes(original)
    journal.add(ENTRIES[2])
    assert journal.state.decisions.keys() == {"k1"}
    journal.close()


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
        ({"spans": [[0, 1]]}, "must be"),
        ({"spans": 3}, "must be"),
        ({"outside": [3]}, "not among the 3"),
        ({"spans": [[0, "1", "PER"]]}, "whole number"),
        ({"spans": [[0, 1.0, "PER"]]}, "whole number"),
        ({"spans": [[0, 1, "PER", 0.5]]}, "lists of 3"),
        ({"choices": [[0]]}, "lists of 2"),
        ({"choices": {"0": ["A"]}}, "must be a list"),
        ({"unknown": [True]}, "whole number"),
        ({"unknown": ["x"]}, "must be"),
        ({"choices": [[0, ["O"]]]}, "O or -"),
        ([], "must be"),
        (None, "must be"),
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
    journal.add(ENTRIES[0])
    before = journal.path.read_bytes()
    with pytest.raises(DataError, match="Half a character"):
        journal.add({"kind": "skip", "key": "\ud800", "id": "1"})
    with pytest.raises(DataError, match="number from 0"):
        journal.add({**accept("k", "1"), "seconds": -1})
    journal.add({"kind": "label", "names": ["A"]})
    journal.close()
    assert journal.path.read_bytes() == before + b'{"kind": "label", "names": ["A"]}\n'


def test_spans_may_touch_and_what_contradicts_itself_is_refused() -> None:
    touching = {"spans": [[1, 2, "LOC"], [0, 1, "PER"]], "unknown": [2], "wrong": [[0, 2, "PER"]]}
    assert Pins.of(touching, 3).spans == (TagSpan(0, 1, "PER"), TagSpan(1, 2, "LOC"))
    spans = {"spans": [[0, 2, "PER"]]}
    for more in ({"unknown": [1]}, {"outside": [0]}, {"choices": [[1, ["A"]]]}, {"wrong": [[0, 2, "PER"]]}):
        with pytest.raises(DataError, match="contradicts itself"):
            Pins.of({**spans, **more}, 3)
    with pytest.raises(DataError, match="contradicts itself"):
        Pins.of({"choices": [[1, []]]}, 3)
