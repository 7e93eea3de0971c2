"""Outputs: what a command may replace, locks against other processes, and files that are appended to.

A command never replaces its input or a foreign folder, and earlier work only if forced.  Only what it can make again
from its inputs, such as a page, it writes over without being asked, and only where it finds its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FormatError
from .paths import resolve

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""None on Windows, where nobody is kept from starting the same run twice at once."""

STDOUT = "-"
SAMPLE = 4096
"""Bytes at the beginning of a file that tell whose it is."""
PAGE_MARK = b'<meta name="generator" content="spacy_crfseq">'
"""A line of every page, which `tools/_pages/frame.html` has."""
PIPELINE = ("config.cfg", "meta.json")
"""Files that the folder of every pipeline has."""
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
        return any(path.samefile(file) for file in resolve(other))
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
    """Remove the bytes after the last line feed of a file."""
    data = path.read_bytes()
    with path.open("rb+") as file:
        file.truncate(data.rfind(b"\n") + 1)
