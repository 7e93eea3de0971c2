"""Outputs that can be resumed after a killed run: a partial file, and a journal of how much of it is complete.

The folder ``.tag`` next to an output has its journal, lines of JSON: the settings first, then, after each portion, the
position in the input and the length of the output.  The output is written under a temporary name in that folder and
moved when it is complete.  What a killed run wrote after the last entry of the journal is cut off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from glob import escape
from itertools import count
from operator import add, sub
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple, TypeAlias

from ..errors import ConfigError
from ..files import named, replacing
from .records import BEGINNING, Place

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nobody is kept from starting the same run twice at once
    fcntl = None

FOLDER = ".tag"
PATIENCE = 10.0
"""Seconds to wait for another process to let go of an output: workers of a killed run end by themselves."""


class Counts(NamedTuple):
    """What has been done: texts and tokens annotated, and malformed lines skipped."""

    texts: int = 0
    tokens: int = 0
    broken: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(*map(add, self, other))

    def minus(self, other: Counts) -> Counts:
        """Return the differences."""
        return Counts(*map(sub, self, other))


class State(NamedTuple):
    """How far a run has come: the place in the input, the bytes or parts of the output, whether it is complete."""

    place: Place = BEGINNING
    size: int = 0
    counts: Counts = Counts()
    done: bool = False


class Target:
    """Where the annotation of one file goes.

    path: The output; of one in parts, their name without the number before the ending.
    make_part: For an output in parts: makes what collects items by `add` and has `to_disk`, such as a DocBin; None for
        a text file.
    """

    def __init__(self, path: Path, make_part: Callable[[], Any] | None = None) -> None:
        self.path, self.make_part = path, make_part
        self._folder = path.parent / FOLDER
        self._journal = self._folder / f"{path.name}.journal"
        self._temporary = self._folder / f"{path.name}.part"

    def parts(self) -> list[Path]:
        """Return the files of the output that are there."""
        if self.make_part is None:
            return [self.path] if self.path.exists() else []
        found = [path for path in self.path.parent.glob(f"{escape(self.path.stem)}-*") if self.number(path)]
        return sorted(found, key=self.number)

    def part(self, number: int) -> Path:
        """Return the name of a part; they count from 1."""
        return self.path.with_name(f"{self.path.stem}-{number:05d}{self.path.suffix}")

    def number(self, path: Path) -> int:
        """Return the number of a part, 0 of other files."""
        digits = path.name[len(self.path.stem) + 1 : -len(self.path.suffix)]
        return int(digits) if digits.isdecimal() and path.suffix == self.path.suffix else 0

    def _size(self) -> int:
        if self.make_part is None:
            return self._temporary.stat().st_size if self._temporary.exists() else 0
        return next(number for number in count() if not self.part(number + 1).exists())

    def state(self, settings: Mapping[str, Any]) -> State:
        """Return how far an earlier run with these settings has come.

        RAISES ConfigError: If there is an output that such a run has not made.
        """
        lines = self._read()
        there = self.parts()
        if not lines:
            if there:
                raise ConfigError(
                    f"{there[0]} exists, and no earlier run that could be resumed has written it. Use --force."
                )
            return State()
        for name, now in settings.items():
            if (was := lines[0].get(name)) != now:
                values = f" from {was} to {now}" if _is_short(was) and _is_short(now) else ""
                what = f"was begun by another run: {name} has changed{values}. Use --force to start over."
                raise ConfigError(f"{self.path} {what}")
        size = self._size()
        for line in reversed(lines[1:]):
            state = State(Place(*line["place"]), line["size"], Counts(*line["counts"]), line["done"])
            if state.size <= size or (state.done and there and self.make_part is None):
                return state
        return State()

    def _read(self) -> list[dict[str, Any]]:
        try:
            *lines, _ = self._journal.read_text(encoding="utf8").split("\n")
            return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []
        except (ValueError, UnicodeError):
            raise ConfigError(f"{self._journal} cannot be read. Use --force to start over.") from None

    def remove(self) -> None:
        """Remove the output and its journal."""
        for path in (self._temporary, *self.parts(), self._journal):
            path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the journal: this output will not be resumed."""
        self._journal.unlink(missing_ok=True)

    @contextmanager
    def opened(self, settings: Mapping[str, Any], overwrite: bool) -> Iterator[Output]:
        """Yield the output to write to, from where an earlier run has left it.

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
        if self.make_part is not None:
            return _Parts(self, self.make_part, state.size)
        if state.done and self.path.exists():
            return _TextFile(None)
        file = self._temporary.open("ab")
        file.truncate(state.size)
        file.seek(state.size)
        return _TextFile(file, self._temporary, self.path)


class Output:
    """An unfinished output and how far it is complete; without a `journal` it cannot be resumed."""

    def __init__(self, sink: Sink, journal: Path | None, state: State) -> None:
        self._sink, self.state = sink, state
        self._journal: IO[str] | None = None
        if journal is not None:
            cut_line(journal)
            self._journal = journal.open("a", encoding="utf8")
        if state.done:
            sink.finish()

    def write(self, item: Any, text: str) -> None:
        """Write what parts collect, or its lines in a text format."""
        self._sink.write(item, text)

    def commit(self, place: Place, counts: Counts, done: bool = False) -> None:
        """Note that the output has all up to a place of the input; if that is all, move it to its place."""
        self.state = State(place, self._sink.commit(), counts, done)
        if self._journal is not None:
            self._journal.write(json.dumps(self.state._asdict()) + "\n")
            self._journal.flush()
            if done:
                os.fsync(self._journal.fileno())
        if done:
            self._sink.finish()

    def close(self) -> None:
        """Close all files."""
        try:
            self._sink.close()
        finally:
            if self._journal is not None:
                self._journal.close()


def stream_output(file: IO[bytes]) -> Output:
    """Return standard output as an output, which cannot be resumed."""
    return Output(_TextFile(file), None, State())


class _TextFile:
    """A text file that is moved to its place, if it has one, when it is complete; None if that has happened."""

    def __init__(self, file: IO[bytes] | None, temporary: Path | None = None, path: Path | None = None) -> None:
        self._file, self._temporary, self._path = file, temporary, path

    def write(self, item: Any, text: str) -> None:
        assert self._file is not None
        self._file.write(text.encode("utf8"))

    def commit(self) -> int:
        """Write everything out, and return the size of the output."""
        assert self._file is not None
        self._file.flush()
        return self._file.tell() if self._path else 0

    def finish(self) -> None:
        """Move the output to its place."""
        if self._file is not None and self._temporary is not None and self._path is not None:
            os.fsync(self._file.fileno())
            self.close()
            self._temporary.replace(self._path)

    def close(self) -> None:
        if self._file is not None and self._path is not None:
            self._file.close()
            self._file = None


class _Parts:
    """A file for each portion of the input that has texts."""

    def __init__(self, target: Target, make: Callable[[], Any], size: int) -> None:
        self._target, self._make, self._size = target, make, size
        self._part: Any = None
        for path in target.parts():
            if target.number(path) > size:
                path.unlink()

    def write(self, item: Any, text: str) -> None:
        if self._part is None:
            self._part = self._make()
        self._part.add(item)

    def commit(self) -> int:
        if self._part is not None:
            with replacing(self._target.part(self._size + 1)) as temporary:
                self._part.to_disk(temporary)
            self._size, self._part = self._size + 1, None
        return self._size

    def finish(self) -> None:
        """Do nothing: parts are in their places."""

    def close(self) -> None:
        self._part = None


Sink: TypeAlias = _TextFile | _Parts


@contextmanager
def locked(lock: Path, output: Path, patience: float | None = None) -> Iterator[None]:
    """Keep other processes from writing an output, by a file that stays as it is, or a folder.

    patience (float | None): Seconds to wait for another process; `PATIENCE` if None.
    RAISES ConfigError: If another process is writing it.
    """
    if fcntl is None:
        yield
        return
    until = time.monotonic() + (PATIENCE if patience is None else patience)
    descriptor = os.open(lock, os.O_RDONLY if lock.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise ConfigError(f"{output} is being written by another process.") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_folder(output: Path) -> Iterator[None]:
    """Make a folder if need be and lock it for writing; one that stays empty is removed.

    RAISES ConfigError: If it cannot be written, or another process writes to it.
    """
    output.mkdir(parents=True, exist_ok=True)
    if not os.access(output, os.W_OK | os.X_OK):
        raise ConfigError(f"--output {output} cannot be written. Give another folder, or change its permissions.")
    try:
        with locked(output, output, 0.0):
            yield
    finally:
        with suppress(OSError):
            output.rmdir()


def cut_line(path: Path) -> None:
    """Remove what follows the last line feed of a file."""
    data = path.read_bytes()
    with path.open("rb+") as file:
        file.truncate(data.rfind(b"\n") + 1)


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, (list, dict)) and len(str(value)) < 40
