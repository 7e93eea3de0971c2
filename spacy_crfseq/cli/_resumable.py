"""Outputs that a killed run leaves so that the next one goes on: a part file, and a journal of what is safely in it.

Beside an output stands the folder ``.tag`` with its journal, lines of JSON: the settings first, then, after each
portion, how far the input was read and how long the output is.  The output is written under a temporary name in that
folder and moved when it is complete.  Whatever a killed run wrote behind the last line of the journal is cut off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import ConfigError
from ..files import named, replacing
from ._texts import BEGINNING, Place

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nobody is kept from starting the same run twice at once
    fcntl = None

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin

FOLDER = ".tag"
PATIENCE = 10.0
"""Seconds to wait for another process to let go of an output: workers of a killed run end by themselves."""


class Counts(NamedTuple):
    """What has been done: texts and tokens annotated, and broken lines left out."""

    texts: int = 0
    tokens: int = 0
    broken: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class State(NamedTuple):
    """How far a run has come.

    place (Place): In the input.
    size (int): Of the output: bytes, or parts.
    done (bool): Whether the output is complete.
    """

    place: Place = BEGINNING
    size: int = 0
    counts: Counts = Counts()
    done: bool = False


class Sink(Protocol):
    """Takes annotated Docs."""

    def write(self, doc: Doc, text: str) -> None:
        """Take a Doc; `text` are its lines in a text format."""
        ...

    def commit(self) -> int:
        """Have all that was taken in written, and return the size of the output."""
        ...

    def finish(self) -> None:
        """Move the output to its place."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class Target:
    """Where the annotation of one file goes.

    path (Path): The output; of a DocBin, parts of it with a number before the ending.
    parted (bool): Whether it is a DocBin, written in parts.
    """

    def __init__(self, path: Path, parted: bool) -> None:
        self.path, self.parted = path, parted
        self._folder = path.parent / FOLDER
        self._journal = self._folder / f"{path.name}.journal"
        self._temporary = self._folder / f"{path.name}.part"

    def parts(self) -> list[Path]:
        """Return the files of the output that are there."""
        if not self.parted:
            return [self.path] if self.path.exists() else []
        found = [path for path in self.path.parent.glob(f"{_escaped(self.path.stem)}-*") if self.number(path)]
        return sorted(found, key=self.number)

    def part(self, number: int) -> Path:
        """Return the name of a part, from 1."""
        return self.path.with_name(f"{self.path.stem}-{number:05d}{self.path.suffix}")

    def _whole(self) -> int:
        """Return how many parts are there, counted up to the first that is not."""
        number = 0
        while self.part(number + 1).exists():
            number += 1
        return number

    def number(self, path: Path) -> int:
        """Return the number of a part, 0 of other files."""
        digits = path.name[len(self.path.stem) + 1 : -len(self.path.suffix)]
        return int(digits) if digits.isdecimal() and path.suffix == self.path.suffix else 0

    def state(self, settings: Mapping[str, Any]) -> State:
        """Return how far an earlier run with these settings has come.

        RAISES ConfigError: If there is an output that such a run has not made.
        """
        lines = self._read()
        there = self.parts()
        if not lines:
            if there:
                raise ConfigError(f"{there[0]} is there already, and not from a run to go on with. Use --overwrite.")
            return State()
        changed = [name for name in settings if lines[0].get(name) != settings[name]]
        if changed:
            was, now = lines[0].get(changed[0]), settings[changed[0]]
            what = f"{changed[0]} has changed" + (f" from {was} to {now}" if _is_short(was) and _is_short(now) else "")
            raise ConfigError(f"{self.path} was begun by another run: {what}. Use --overwrite to begin anew.")
        size = self._whole() if self.parted else _size_of(self._temporary)
        for line in reversed(lines[1:]):
            state = State(Place(*line["place"]), line["size"], Counts(*line["counts"]), line["done"])
            if state.done and there and (not self.parted or size >= state.size):
                return state
            if state.size <= size:
                return state
        return State()

    def _read(self) -> list[dict[str, Any]]:
        """Return the whole lines of the journal."""
        try:
            *lines, _ = self._journal.read_text(encoding="utf8").split("\n")
            return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []
        except (ValueError, UnicodeError):
            raise ConfigError(f"{self._journal} cannot be read. Use --overwrite to begin anew.") from None

    def remove(self) -> None:
        """Take away the output and its journal."""
        for path in (self._temporary, *self.parts()):
            path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Take away the journal: no run will go on with this output."""
        self._journal.unlink(missing_ok=True)

    @contextmanager
    def opened(self, settings: Mapping[str, Any], overwrite: bool) -> Iterator[Output]:
        """Give the output to write to, from where an earlier run has left it.

        RAISES ConfigError: If another process is writing it, or as `state` does.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder / f"{self.path.name}.lock", self.path):
            if overwrite:
                self.remove()
            state = self.state(settings)
            if state == State():
                self.remove()
                self._journal.write_text(json.dumps(dict(settings)) + "\n", encoding="utf8")
            with named(self.path), closing(Output(self._sink(state), self._journal, state)) as output:
                yield output

    def _sink(self, state: State) -> Sink:
        return Parts(self, state.size) if self.parted else TextFile(self.path, self._temporary, state)


class Output:
    """An output in the making.

    state (State): How far it has come.
    """

    def __init__(self, sink: Sink, journal: Path, state: State) -> None:
        self._sink, self.state = sink, state
        _cut_line(journal)
        self._file = journal.open("a", encoding="utf8")
        if state.done:
            sink.finish()

    def write(self, doc: Doc, text: str) -> None:
        """Take a Doc."""
        self._sink.write(doc, text)

    def commit(self, place: Place, counts: Counts, done: bool = False) -> None:
        """Note that all up to a place of the input is in the output; if that is all, move it to its place."""
        self.state = State(place, self._sink.commit(), counts, done)
        self._file.write(json.dumps(self.state._asdict()) + "\n")
        self._file.flush()
        if done:
            os.fsync(self._file.fileno())
            self._sink.finish()

    def close(self) -> None:
        """Close all files."""
        try:
            self._sink.close()
        finally:
            self._file.close()


class TextFile:
    """A text file that is moved to its place when it is complete."""

    def __init__(self, path: Path, temporary: Path, state: State) -> None:
        self._path, self._temporary = path, temporary
        self._file: IO[bytes] | None = None
        if not (state.done and path.exists()):
            self._file = temporary.open("ab")
            self._file.truncate(state.size)
            self._file.seek(state.size)

    def write(self, doc: Doc, text: str) -> None:
        assert self._file is not None
        self._file.write(text.encode("utf8"))

    def commit(self) -> int:
        assert self._file is not None
        self._file.flush()
        return self._file.tell()

    def finish(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self.close()
            self._temporary.replace(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Parts:
    """DocBin files, one for each portion of the input that has texts."""

    def __init__(self, target: Target, size: int) -> None:
        self._target, self._size = target, size
        self._binary: DocBin | None = None
        for path in target.parts():
            if target.number(path) > size:
                path.unlink()

    def write(self, doc: Doc, text: str) -> None:
        from spacy.tokens import DocBin

        if self._binary is None:
            self._binary = DocBin(store_user_data=True)
        self._binary.add(doc)

    def commit(self) -> int:
        if self._binary is not None:
            with replacing(self._target.part(self._size + 1)) as temporary:
                self._binary.to_disk(temporary)
            self._size, self._binary = self._size + 1, None
        return self._size

    def finish(self) -> None:
        """Do nothing: parts are in their place already."""

    def close(self) -> None:
        self._binary = None


class Stream:
    """Standard output; nothing goes on from an earlier run."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.state = State()

    def write(self, doc: Doc, text: str) -> None:
        """Write the lines of a Doc."""
        self._file.write(text.encode("utf8"))

    def commit(self, place: Place, counts: Counts, done: bool = False) -> None:
        """Hand on what was written."""
        self.state = State(place, 0, counts, done)
        self._file.flush()


@contextmanager
def locked(lock: Path, output: Path) -> Iterator[None]:
    """Keep other processes from writing an output; they are told apart by a file, which stays as it is.

    RAISES ConfigError: If another process is writing it.
    """
    with lock.open("a", encoding="utf8") as file:
        _lock(file, output)
        yield


def _lock(file: IO[str], output: Path) -> None:
    if fcntl is None:
        return
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > until:
                raise ConfigError(f"{output} is being written by another process.") from None
            time.sleep(0.05)


def _cut_line(path: Path) -> None:
    """Take away what stands behind the last line feed of a file."""
    data = path.read_bytes()
    with path.open("rb+") as file:
        file.truncate(data.rfind(b"\n") + 1)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, (list, dict)) and len(str(value)) < 40


def _escaped(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
