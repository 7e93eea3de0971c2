"""The decisions of a user, on disk before anybody is told so: an append-only file of JSON lines.

The state of a project is a fold over its entries: "begin", which is the first, "label", "accept", "skip", "undo" and
"model".  To undo is an entry, too, so nothing is ever lost.  A last line that a kill has torn is cut off.  Entries come
from a file that others may have changed and from requests, so each value in them is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from ...corpora.outputs import cut_line, whole_lines
from ...errors import ConfigError, DataError, FormatError
from ...schemes import TagSpan
from .values import flag, list_of, number, object_of, rows_of, string, whole

FILE = "journal.jsonl"
VERSION = 1
LONGEST_LABEL = 80
BEGIN = b'{"kind": "begin", '
"""The first bytes of a journal."""


class Pins(NamedTuple):
    """A user's decisions about the tokens of a text; a prediction fills in the rest.

    spans: Spans that are there.
    outside: Tokens that are in no span.
    unknown: Tokens about which nothing is to be learned.
    choices: Labels that a token may have.
    wrong: Spans that are not there, whatever is.
    """

    spans: tuple[TagSpan, ...] = ()
    outside: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    choices: Mapping[int, tuple[str, ...]] = {}
    wrong: tuple[TagSpan, ...] = ()

    @classmethod
    def of(cls, value: Any, n_tokens: int) -> Pins:
        """Return the pins in a JSON object.  RAISES DataError: If it is malformed or contradicts itself."""
        said = object_of(value, "an annotation")
        spans, wrong = (_spans(said.get(name, []), name, n_tokens) for name in ("spans", "wrong"))
        outside, unknown = (
            tuple(sorted({whole(token, name) for token in list_of(said.get(name, []), name)}))
            for name in ("outside", "unknown")
        )
        choices = {
            whole(token, "choices"): tuple(map(checked_label, list_of(labels, "choices")))
            for token, labels in rows_of(said.get("choices", []), "choices", 2)
        }
        if any(spans[i].end > spans[i + 1].start for i in range(len(spans) - 1)):
            raise DataError("Two spans overlap. Remove one of them.")
        if any(token >= n_tokens for token in (*outside, *unknown, *choices)):
            raise DataError(f"A token is given that is not among the {n_tokens} of the text.")
        inside = {token for start, end, _ in spans for token in range(start, end)}
        if (
            not all(choices.values())
            or not inside.isdisjoint((*outside, *unknown, *choices))
            or set(spans) & set(wrong)
        ):
            raise DataError(
                "What is said contradicts itself: a span that is there and is not, or no label for a token."
            )
        return cls(spans, outside, unknown, choices, wrong)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `of` reads."""
        return {**self._asdict(), "choices": [[token, labels] for token, labels in self.choices.items()]}

    @property
    def labels(self) -> set[str]:
        """All labels that occur."""
        chosen = {label for labels in self.choices.values() for label in labels}
        return chosen | {span.label for span in (*self.spans, *self.wrong)}


def checked_label(name: Any) -> str:
    """Return the name of a label.  RAISES DataError: If no file can hold it."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_LABEL:
        raise DataError(f"A label has 1 to {LONGEST_LABEL} characters.")
    if not name.isprintable() or any(map(str.isspace, name)) or name in ("O", "-"):
        raise DataError(f"A label has no white space or control characters, and is not O or -: {name!r} cannot be one.")
    return name


class TextTokens(NamedTuple):
    """The tokens of a text; spaces are None if a corpus does not tell them."""

    words: tuple[str, ...]
    spaces: tuple[bool, ...] | None = None

    @classmethod
    def of(cls, value: Any) -> TextTokens:
        """Return the text that an entry holds.  RAISES DataError: If it is malformed."""
        text = object_of(value, "text")
        words, spaces = list_of(text.get("words"), "words"), text.get("spaces")
        if not words or not all(isinstance(word, str) and word for word in words):
            raise DataError("'words' must be strings that are not empty, at least one.")
        if spaces is None:
            return cls(tuple(words))
        if len(list_of(spaces, "spaces")) != len(words):
            raise DataError(f"'spaces' must be true or false for each of the {len(words)} words.")
        return cls(tuple(words), tuple(flag(space, "spaces") for space in spaces))


class Decision(NamedTuple):
    """An annotation that a user has accepted.

    key: The hash of the text.
    pins: Spans as accepted, whoever proposed them; tokens and spans that are known in part.
    by_user: The spans that the user has made or confirmed one by one; the others were predicted and accepted.
    predicted: What was shown first: spans with their probabilities; empty for the part that is held out.
    model: The number of texts that the model had learned from; None if there was no model.
    held_out: Whether scores are computed on it.
    """

    key: str
    text: TextTokens
    pins: Pins
    by_user: tuple[TagSpan, ...] = ()
    predicted: Sequence[Any] = ()
    model: int | None = None
    held_out: bool = False
    seconds: float = 0.0
    actions: int = 1
    id: str = ""
    reviewed: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the entry of the journal."""
        return {"kind": "accept", **self._asdict(), "text": self.text._asdict(), "pins": self.pins.as_json()}

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Decision:
        """Return the decision of an entry.  RAISES DataError: If it is malformed."""
        entry = object_of(entry, "a decision")
        text = TextTokens.of(entry.get("text"))
        model = entry.get("model")
        predicted = [
            (*_span(row[:3], "predicted", len(text.words)), number(row[3], "predicted", 1.000001))
            for row in rows_of(entry.get("predicted"), "predicted", 4)
        ]
        return cls(
            string(entry.get("key"), "key"),
            text,
            Pins.of(entry.get("pins"), len(text.words)),
            _spans(entry.get("by_user"), "by_user", len(text.words)),
            predicted,
            None if model is None else whole(model, "model"),
            flag(entry.get("held_out"), "held_out"),
            number(entry.get("seconds"), "seconds"),
            whole(entry.get("actions"), "actions"),
            string(entry.get("id"), "id"),
            flag(entry.get("reviewed"), "reviewed"),
        )


def _span(row: Sequence[Any], name: str, n_tokens: int) -> TagSpan:
    start, end, label = whole(row[0], name), whole(row[1], name), checked_label(row[2])
    if not start < end <= n_tokens:
        raise DataError(f"The span {start}-{end} {label!r} is not inside the {n_tokens} tokens of the text.")
    return TagSpan(start, end, label)


def _spans(value: Any, name: str, n_tokens: int) -> tuple[TagSpan, ...]:
    return tuple(sorted(_span(row, name, n_tokens) for row in rows_of(value, name, 3)))


class State:
    """The state to which the entries of a journal amount.

    decisions: The present decision of each text by its key, in the order of acceptance.
    skipped: The texts that were put aside, by their keys.
    curve: The scores of models: texts, F1 and its interval, texts held out, and actions up to there.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.labels: list[str] = []
        self.decisions: dict[str, Decision] = {}
        self.skipped: dict[str, TextTokens] = {}
        self.ids: set[str] = set()
        self.curve: list[dict[str, Any]] = []
        self._stack: list[tuple[str, Decision | TextTokens]] = []

    def apply(self, entry: Any) -> None:
        """Take in an entry.  RAISES DataError: If it is malformed; then nothing changes."""
        kind = object_of(entry, "an entry").get("kind")
        id_ = string(entry.get("id", ""), "id")
        if (kind == "begin") == bool(self.settings):
            raise DataError('the first entry, and no other one, must be of the kind "begin".')
        if kind == "begin":
            settings = object_of(entry.get("settings"), "settings")
            string(settings.get("task"), "task")
            self.settings = dict(settings)
        elif kind == "label":
            names = list(map(checked_label, list_of(entry.get("names"), "names")))
            self.labels = list(dict.fromkeys([*self.labels, *names]))
        elif kind == "accept":
            decision = Decision.of(entry)
            self._decide(decision.key, decision)
        elif kind == "skip":
            self._decide(string(entry.get("key"), "key"), TextTokens.of(entry.get("text")))
        elif kind == "undo":
            self._undo()
        elif kind == "model":
            self.curve.append(_point(entry))
        else:
            raise DataError(f"there is no entry of the kind {kind!r}.")
        if id_:
            self.ids.add(id_)

    def _decide(self, key: str, what: Decision | TextTokens) -> None:
        self._stack.append((key, what))
        self._put(key, what)

    def _put(self, key: str, what: Decision | TextTokens) -> None:
        self._drop(key)
        if isinstance(what, Decision):
            self.decisions[key] = what
        else:
            self.skipped[key] = what

    def _drop(self, key: str) -> None:
        self.decisions.pop(key, None)
        self.skipped.pop(key, None)

    def _undo(self) -> None:
        if not self._stack:
            return
        key, _ = self._stack.pop()
        self._drop(key)
        if any(other == key for other, _ in self._stack):  # decided before: all in the order that it had
            for entry in self._stack:
                self._put(*entry)

    def last(self) -> tuple[str, Decision | TextTokens] | None:
        """Return the text that undoing would reopen: its key, and its decision or, if it was skipped, itself."""
        return self._stack[-1] if self._stack else None

    @property
    def learned(self) -> list[Decision]:
        """The decisions to learn from, in the order of acceptance."""
        return [decision for decision in self.decisions.values() if not decision.held_out]

    @property
    def held_out(self) -> list[Decision]:
        """The decisions to score on."""
        return [decision for decision in self.decisions.values() if decision.held_out]


def _point(entry: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("texts", "held_out", "actions"):
        whole(entry.get(name), name)
    by_label = object_of(entry.get("by_label"), "by_label")
    for name, value in (*((name, entry.get(name)) for name in ("f1", "low", "high")), *by_label.items()):
        if value is not None:
            number(value, name, 1.000001)
    return dict(entry)


class Journal:
    """The file, and the state it stands for.

    RAISES FormatError: On a line that is not an entry, before the last one; the file stays as it is.
    RAISES ConfigError: If the file is of a later version.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.state = path, State()
        lines = whole_lines(path, BEGIN) if path.exists() else []
        for line_number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line.decode("utf8"))
                self.state.apply(entry)
            except (ValueError, RecursionError) as error:
                what = f"this is no entry of a journal of 'annotate' ({error})"
                raise FormatError(path, line_number, f"{what}. Remove the line, or give another folder.") from None
            if entry.get("version", VERSION) != VERSION:
                raise ConfigError(f"{path} was written by another release, version {entry['version']}.")
        self._file: FileIO | None = None
        self._size = 0
        if path.exists():
            cut_line(path)
            self._size = path.stat().st_size

    def add(self, entry: Mapping[str, Any]) -> None:
        """Append an entry; it is on disk when this returns.

        RAISES OSError: If it cannot be written, such as on a full disk; then the file is as it was.
        RAISES DataError: If it is malformed, or another program has changed or replaced the file.
        """
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            data = line.encode("utf8")
        except UnicodeEncodeError:
            raise DataError("Half a character, which no file can hold.") from None
        if entry["kind"] == "accept":
            Decision.of(entry)
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
        self._check(self._file)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)
        self.state.apply(json.loads(line))

    def _check(self, file: FileIO) -> None:
        """Check that what is appended will be found under the name of the file, behind what was written last."""
        here = os.fstat(file.fileno())
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or not os.path.samestat(here, there) or there.st_size != self._size:
            what = "another program has changed, replaced or removed it. Nothing was saved: end the command"
            raise DataError(f"{self.path}: {what}, put the right file there, and begin again.")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
