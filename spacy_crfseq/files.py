"""Files and folders that are written completely or not at all."""

from __future__ import annotations

import gc
import glob
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from time import sleep
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, as `write_text` does."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8; an older file stays until the new one is complete."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; the file written there then replaces `path`, or is removed on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in _left_beside(path, "part"):
        if left.is_file():  # a process was killed
            left.unlink(missing_ok=True)
    temporary = _beside(path, "part")
    try:
        with named(path):
            yield temporary
            move(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def move(source: Path, target: Path) -> None:
    """Rename a file, which may replace another, or a folder; Windows refuses while another program looks at it."""
    for seconds in (0.1, 1.0, None):
        try:
            return os.replace(source, target)  # noqa: PTH105
        except PermissionError:
            if seconds is None or os.name == "posix":
                raise
            sleep(seconds)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the file name to errors that lack it, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


@contextmanager
def collecting() -> Iterator[None]:
    """Let Python collect garbage afterwards as before: srsly stops that while it unpacks, for good if it fails."""
    was = gc.isenabled()
    try:
        yield
    finally:
        if was:
            gc.enable()


def digest(path: Path) -> str:
    """Return a hash of a file, or of the names and contents of all files of a folder but compiled Python."""
    digest_ = blake2b(digest_size=16)
    for file in sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]:
        if file.suffix != ".pyc":
            digest_.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest_.update(block)
    return digest_.hexdigest()


def replace_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder and move it to `path`; an older one there is removed only afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    restore_folder(path)
    new, old = _beside(path, "part"), _beside(path, "old")
    try:
        with named(path):
            write(new)
        if path.exists():
            move(path, old)
        move(new, path)
    finally:
        if old.exists() and not path.exists():
            move(old, path)
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)


def restore_folder(path: Path) -> None:
    """Move a folder back to `path` if a process was killed in `replace_folder` after it had moved the folder aside."""
    for old in _left_beside(path, "old"):
        if not path.exists():
            with suppress(OSError):  # a folder that cannot be written, or another process was faster
                old.rename(path)


def _left_beside(path: Path, ending: str) -> list[Path]:
    """Return the temporary files and folders of `path` whose processes have ended."""
    places = path.parent.glob(f".{glob.escape(path.name)}.*.{ending}")
    processes = {place: place.suffixes[-2][1:] for place in places}
    return [place for place, process in processes.items() if not (process.isdigit() and _is_alive(int(process)))]


def _is_alive(process: int) -> bool:
    try:
        if os.name == "posix":  # elsewhere, signal 0 is Ctrl-C
            os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it belongs to somebody else
    return True


def _beside(path: Path, ending: str) -> Path:
    # the same folder, so that moving is one rename; the process id keeps two writers apart
    return path.with_name(f".{path.name}.{os.getpid()}.{ending}")
