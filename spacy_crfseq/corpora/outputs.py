"""Outputs: what a command may replace, locks against other processes, and outputs that can be resumed after a kill.

A command never replaces its input or a foreign folder, and earlier work only if forced.  Only what it can make again
from its inputs, such as a page, it writes over without being asked, and only where it finds its own.

The folder ``.tag`` next to an `Output` has its journal, lines of JSON: the settings first, then, after each part, the
number of parts and the length of the output.  The output is written under a temporary name in that folder and moved
when it is complete.  What a killed run wrote after the last entry of the journal is cut off.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from operator import add
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import ConfigError, FormatError
from ..files import move, named, replacing

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""None on Windows, where nobody is kept from starting the same run twice at once."""

STDOUT = "-"
SAMPLE = 4096
"""Bytes at the beginning of a file that tell whose it is."""
PAGE_MARK = b'<meta name="generator" content="spacy_crfseq">'
"""A line of every page, which `tools/_pages/frame.html` has."""
PIPELINE = ("config.cfg", "meta.json")
"""Files that the folder of every pipeline has."""
FOLDER = ".tag"
PATIENCE = 10.0
"""Seconds to wait for another process to let go of an output: workers of a killed run end by themselves."""


FORCE = "Give another name, or --force to replace it."


def check_output_file(
    output: str | Path | None, *inputs: str | Path | None, force: bool = False, instead: str = FORCE
) -> None:
    """Check that a file can be written without the loss of another; before anything is computed.

    output: The file; None for none, "-" for standard output.
    inputs: Files that the command reads; other arguments, such as a text, are ignored.
    force: Whether a file of this name may be replaced.
    instead: What a user can do if it exists.
    RAISES ConfigError: If it is a folder, its parent is a file, it is one of the inputs, or it exists without `force`.
    """
    if output is None or str(output) == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give the name of a file to write.")
    _check_parents(path)
    if any(source is not None and _same(path, source) for source in inputs):
        raise ConfigError(f"{path} is read by this command; the output would replace it. Give another name.")
    _check_new(path, force, instead)


def check_own_file(
    output: str | Path | None, *inputs: str | Path | None, own: Callable[[bytes], bool], what: str
) -> None:
    """Check a file that the command can make again at any time, and so may replace without being asked.

    own: Whether the first bytes of a file are those of an earlier output; an empty file is replaced, too.
    what: The kind of file in words, such as "a page".
    RAISES ConfigError: As `check_output_file`, and if a file that is no such output exists.
    """
    check_output_file(output, *inputs, force=True)
    if output is not None and str(output) != STDOUT and Path(output).exists():
        with Path(output).open("rb") as file:
            first = file.read(SAMPLE)
        if first and not own(first):
            raise ConfigError(f"{output} exists, and is not {what} of this command. Give another name.")


def check_page(output: str | Path | None, *inputs: str | Path | None) -> None:
    """Check that a page can be written, in the place of an earlier one or of nothing, as `check_own_file` does."""
    check_own_file(output, *inputs, own=lambda first: PAGE_MARK in first, what="a page")


def check_output_folder(
    output: Path, *inputs: str | Path, pipelines: Sequence[str] = (), files: Sequence[str] = (), force: bool = False
) -> None:
    """Check that a folder can take the results of training.

    inputs: Pipelines that the command reads, folders or names of packages.
    pipelines, files: Names of the pipelines and files that will be written to it.
    RAISES ConfigError: If it is a file or lies in one, or as `check_output_pipeline` for each pipeline and
        `check_output_file` for each file.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is a file. Give a folder.")
    _check_parents(output)
    for name in pipelines:
        check_output_pipeline(output / name, *inputs, force=force)
    for name in files:
        check_output_file(output / name, *inputs, force=force)


def check_output_pipeline(output: Path, *inputs: str | Path, force: bool = False, instead: str = FORCE) -> None:
    """Check that a pipeline can be saved, which replaces the folder with all that it holds.

    inputs: Pipelines that the command reads, folders or names of packages.
    force: Whether an existing pipeline may be replaced.
    instead: What a user can do if it exists.
    RAISES ConfigError: If it is, holds or is inside one of the inputs, if there is a file or folder that is no
        pipeline, or a pipeline without `force`.
    """
    for source in inputs:
        new, old = output.resolve(), Path(source).resolve()
        if old.exists() and (_same(output, source) or new in (old, *old.parents) or old in new.parents):
            how = "is inside" if old in new.parents else "holds" if new in old.parents else "is"
            where = "the model" if how == "is" else source
            raise ConfigError(f"The output folder {output} {how} {where} that this command reads. Give another folder.")
    if output.exists() and not all((output / name).is_file() for name in PIPELINE):
        raise ConfigError(f"{output} exists and is not a pipeline. Give a folder that does not exist yet.")
    _check_parents(output)
    _check_new(output, force, instead)


def _check_new(path: Path, force: bool, instead: str) -> None:
    if not force and path.exists():
        raise ConfigError(f"{path} exists. {instead}")


def _check_parents(path: Path) -> None:
    there = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if there is not None and not there.is_dir():
        raise ConfigError(f"{path}: {there} is a file, not a folder.")


def _same(path: Path, other: str | Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one does not exist, or is not a file name
        return False


# Locks


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


def whole_lines(path: Path, begin: bytes) -> list[bytes]:
    """Return the lines of a file that has been appended to; one that a kill has torn is left out.

    begin: The first bytes of such a file.
    RAISES FormatError: If it begins otherwise, so that `cut_line` would damage a foreign file.
    """
    data = path.read_bytes()
    if not data.startswith(begin[: len(data)]):
        raise FormatError(path, 1, "the file has not been written by this command. Give another folder.")
    return data.split(b"\n")[:-1]


def cut_line(path: Path) -> None:
    """Remove what follows the last line feed of a file."""
    data = path.read_bytes()
    with path.open("rb+") as file:
        file.truncate(data.rfind(b"\n") + 1)


# Outputs that can be resumed


class Counts(NamedTuple):
    """What has been done: texts and tokens annotated, and malformed lines skipped."""

    texts: int = 0
    tokens: int = 0
    broken: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(*map(add, self, other))


class State(NamedTuple):
    """How far a run has come: parts of the input, bytes or files of the output, whether it is complete."""

    parts: int = 0
    size: int = 0
    counts: Counts = Counts()
    done: bool = False


class Output:
    """Where the annotation of a file goes.

    path: A text file, or the name of several files without the number before the ending; `STDOUT`.
    settings: By names for users, what an output depends on.
    in_files: Whether each part with texts becomes a file of its own, such as a DocBin.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any] | None = None, *, in_files: bool = False) -> None:
        self.path, self._settings, self._in_files = path, dict(settings or {}), in_files
        self.state, self._open, self._streams = State(), ExitStack(), str(path) == STDOUT
        self._journal = path.parent / FOLDER / f"{path.name}.journal"
        self._temporary = self._journal.with_name(f"{path.name}.part")
        self._file: IO[bytes] | None = None
        self._log: IO[str] | None = None

    def files(self) -> list[Path]:
        """Return the files of the output that are there."""
        if not self._in_files:
            return [self.path] if not self._streams and self.path.exists() else []
        files = [path for path in self.path.parent.glob(f"{escape(self.path.stem)}-*") if self._number(path)]
        return sorted(files, key=self._number)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-{number:05d}{self.path.suffix}")

    def _number(self, path: Path) -> int:
        digits = path.name[len(self.path.stem) + 1 : -len(self.path.suffix)]
        return int(digits) if digits.isdecimal() and path.suffix == self.path.suffix else 0

    def look(self) -> State:
        """Return how far an earlier run with these settings has come.

        RAISES ConfigError: If there is an output that such a run has not made.
        """
        if self._streams:
            return State()
        there = self.files()
        try:
            text = self._journal.read_text(encoding="utf8") if self._journal.exists() else ""
            entries = [json.loads(line) for line in text.split("\n")[:-1]]
            states = [State(parts, size, Counts(*counts), done) for parts, size, counts, done in entries[1:]]
        except (ValueError, TypeError):
            raise ConfigError(f"{self._journal} cannot be read. Use --force to start over.") from None
        if not entries:
            if there:
                what = f"{there[0]} exists, and no earlier run that could be resumed has written it. Use --force."
                raise ConfigError(what)
            return State()
        for name, now in self._settings.items():
            if (was := entries[0].get(name)) != now:
                values = f" from {was} to {now}" if _is_short(was) and _is_short(now) else ""
                what = f"was begun by another run: {name} has changed{values}. Use --force to start over."
                raise ConfigError(f"{self.path} {what}")
        if self._in_files:
            size = next(number for number in count() if not self._numbered(number + 1).exists())
        else:
            size = self._temporary.stat().st_size if self._temporary.exists() else 0
        moved = bool(there) and not self._in_files
        return next((state for state in reversed(states) if state.size <= size or (state.done and moved)), State())

    def open(self, overwrite: bool) -> None:
        """Prepare writing from where an earlier run has left the output.

        RAISES ConfigError: If another process is writing it, or as `look` does.
        """
        if self._streams:
            self._file = sys.stdout.buffer
            return
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(locked(self._journal.with_name(f"{self.path.name}.lock"), self.path))
        self.state = State() if overwrite else self.look()
        with named(self.path):
            if self.state == State():
                for path in (self._temporary, *self.files(), self._journal):
                    path.unlink(missing_ok=True)
                self._journal.write_text(json.dumps(self._settings) + "\n", encoding="utf8")
            cut_line(self._journal)
            self._log = self._open.enter_context(self._journal.open("a", encoding="utf8"))
            if self._in_files:
                for path in self.files()[self.state.size :]:
                    path.unlink()
            elif not (self.state.done and self.files()):
                self._file = self._open.enter_context(self._temporary.open("ab"))
                self._file.truncate(self.state.size)
            if self.state.done:
                self._finish()

    def add(self, data: bytes, counts: Counts, last: bool) -> None:
        """Write the next part; the last one completes the output, which is then moved to its place."""
        parts, size, before, _ = self.state
        with named(self.path):
            if self._file is not None:
                self._file.write(data)
                self._file.flush()
                size += len(data)
            elif data:
                size += 1
                with replacing(self._numbered(size)) as temporary:
                    temporary.write_bytes(data)
            self.state = State(parts + 1, size, before.plus(counts), last)
            if self._log is not None:
                self._log.write(json.dumps(self.state) + "\n")
                self._log.flush()
                if last:
                    os.fsync(self._log.fileno())
                    self._finish()

    def _finish(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            move(self._temporary, self.path)
        self.close()

    def forget(self) -> None:
        """Remove the journal: this output will not be resumed."""
        self._journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all files, and let other processes write."""
        self._open.close()


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, (list, dict)) and len(str(value)) < 40
