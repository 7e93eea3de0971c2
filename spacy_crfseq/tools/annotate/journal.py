"""What a user has decided, on disk before anybody is told so: an append-only file of JSON lines.

The state of a project is a fold over its entries: "begin", "label", "accept", "skip", "undo" and "model".  To undo is
an entry, too, so nothing is ever lost.  A last line that a kill has torn is cut off.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...corpora.outputs import cut_line
from ...errors import ConfigError, DataError, FormatError
from ...schemes import Span

FILE = "journal.jsonl"
VERSION = 1
LONGEST_LABEL = 80


class Pins(NamedTuple):
    """What a user has said about the tokens of a text; a prediction fills in the rest.

    spans: Spans that are there.
    outside: Tokens that are in no span.
    unknown: Tokens about which nothing is to be learned.
    choices: Labels that a token may have.
    wrong: Spans that are not there, whatever is.
    """

    spans: tuple[Span, ...] = ()
    outside: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    choices: Mapping[int, tuple[str, ...]] = {}
    wrong: tuple[Span, ...] = ()

    @classmethod
    def of(cls, value: Any, n_tokens: int) -> Pins:
        """Return what a JSON object says about a text.  RAISES DataError: If it is malformed or contradicts itself."""
        try:
            choices = {int(token): tuple(map(checked_label, labels)) for token, labels in value.get("choices", [])}
            spans, wrong = _spans(value.get("spans", ())), _spans(value.get("wrong", ()))
            outside, unknown = (tuple(sorted({int(t) for t in value.get(name, ())})) for name in ("outside", "unknown"))
        except (AttributeError, TypeError, ValueError) as error:
            raise error if isinstance(error, DataError) else DataError(f"This is no annotation: {error}") from None
        for start, end, label in (*spans, *wrong):
            if not 0 <= start < end <= n_tokens:
                raise DataError(f"The span {start}-{end} {label!r} is not inside the {n_tokens} tokens of the text.")
        if any(spans[i].end > spans[i + 1].start for i in range(len(spans) - 1)):
            raise DataError("Two spans overlap. Remove one of them.")
        if any(not 0 <= token < n_tokens for token in (*outside, *unknown, *choices)):
            raise DataError(f"A token is given that is not among the {n_tokens} of the text.")
        return cls(spans, outside, unknown, choices, wrong)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `of` reads."""
        return {**self._asdict(), "choices": [[token, labels] for token, labels in self.choices.items()]}


def _spans(values: Iterable[Any]) -> tuple[Span, ...]:
    return tuple(sorted(Span(int(start), int(end), checked_label(label)) for start, end, label, *_ in values))


def checked_label(name: Any) -> str:
    """Return the name of a label.  RAISES DataError: If no file can hold it."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_LABEL:
        raise DataError(f"A label has 1 to {LONGEST_LABEL} characters.")
    if not name.isprintable() or any(map(str.isspace, name)) or name in ("O", "-"):
        raise DataError(f"A label has no white space or control characters, and is not O or -: {name!r} cannot be one.")
    return name


class Text(NamedTuple):
    """The tokens of a text; spaces are None if a corpus does not tell them."""

    words: tuple[str, ...]
    spaces: tuple[bool, ...] | None = None


class Decision(NamedTuple):
    """An annotation that a user has accepted.

    key: The hash of the text.
    pins: Spans as accepted, whoever proposed them; tokens and spans that are known in part.
    by_user: The spans that the user has made or confirmed one by one; the others were predicted and accepted.
    predicted: What was shown first: spans with their probabilities; empty for the part that is held out.
    model: The number of texts that the model had learned from.
    held_out: Whether scores are computed on it.
    """

    key: str
    text: Text
    pins: Pins
    by_user: tuple[Span, ...] = ()
    predicted: Sequence[Any] = ()
    model: int = 0
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
        words, spaces = tuple(entry["text"]["words"]), entry["text"]["spaces"]
        seconds, actions = float(entry["seconds"]), int(entry["actions"])
        if not (math.isfinite(seconds) and seconds >= 0 <= actions):
            raise DataError("Seconds and actions are numbers from 0 on.")
        return cls(
            str(entry["key"]), Text(words, None if spaces is None else tuple(map(bool, spaces))),
            Pins.of(entry["pins"], len(words)), _spans(entry["by_user"]), list(entry["predicted"]),
            int(entry["model"]), bool(entry["held_out"]), seconds, actions, str(entry["id"]), bool(entry["reviewed"]),
        )  # fmt: skip


class State:
    """What the entries of a journal amount to.

    decisions: The present decision of each text by its key, in the order of acceptance.
    curve: The scores of models: texts, F1 and its interval, texts held out, and actions up to there.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.labels: list[str] = []
        self.decisions: dict[str, Decision] = {}
        self.skipped: dict[str, None] = {}
        self.ids: set[str] = set()
        self.curve: list[dict[str, Any]] = []
        self._stack: list[tuple[str, Decision | None]] = []

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Take in an entry.  RAISES DataError: If it is malformed."""
        kind = entry.get("kind")
        try:
            if kind == "begin":
                self.settings = dict(entry["settings"])
            elif kind == "label":
                self.labels += [label for label in entry["names"] if label not in self.labels]
            elif kind == "accept":
                self._decide(Decision.of(entry))
            elif kind == "skip":
                self._stack.append((str(entry["key"]), self.decisions.get(entry["key"])))
                self.skipped[str(entry["key"])] = None
            elif kind == "undo":
                self._undo()
            elif kind == "model":
                self.curve.append(dict(entry))
            else:
                raise DataError(f"unknown kind of entry {kind!r}")
            self.ids.add(str(entry.get("id", "")))
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"a malformed entry ({error!r})") from None

    def _decide(self, decision: Decision) -> None:
        self._stack.append((decision.key, self.decisions.pop(decision.key, None)))
        self.decisions[decision.key] = decision
        self.skipped.pop(decision.key, None)

    def _undo(self) -> None:
        if not self._stack:
            return
        key, before = self._stack.pop()
        self.skipped.pop(key, None)
        self.decisions.pop(key, None)
        if before is not None:
            self.decisions[key] = before

    def last(self) -> tuple[str, Decision | None] | None:
        """Return the text that undoing would reopen, and its decision; None for a skipped one."""
        if not self._stack:
            return None
        key = self._stack[-1][0]
        return key, None if key in self.skipped else self.decisions.get(key)

    @property
    def learned(self) -> list[Decision]:
        """The decisions to learn from, in the order of acceptance."""
        return [decision for decision in self.decisions.values() if not decision.held_out]

    @property
    def held_out(self) -> list[Decision]:
        """The decisions to score on."""
        return [decision for decision in self.decisions.values() if decision.held_out]


class Journal:
    """The file, and the state it stands for.

    RAISES FormatError: On a line that is not an entry, before the last one.
    RAISES ConfigError: If the file is of a later version.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.state = path, State()
        if path.exists():
            cut_line(path)
            for number, line in enumerate(path.read_text(encoding="utf8").split("\n")[:-1], start=1):
                try:
                    entry = json.loads(line)
                    self.state.apply(entry)
                except (ValueError, AttributeError) as error:
                    raise FormatError(path, number, f"this is no entry of a journal ({error}).") from None
                if entry.get("version", VERSION) != VERSION:
                    raise ConfigError(f"{path} was written by another release, version {entry['version']}.")
        self._file = path.open("ab", buffering=0)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Append an entry; it is on disk when this returns.

        RAISES OSError: If it cannot be written, such as on a full disk; then the file is as it was.
        RAISES DataError: If it is malformed.
        """
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            data = line.encode("utf8")
        except UnicodeEncodeError:
            raise DataError("Half a character, which no file can hold.") from None
        if entry["kind"] == "accept":
            Decision.of(entry)
        size = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)
            raise
        self.state.apply(json.loads(line))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
