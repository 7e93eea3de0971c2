"""Parts of corpora: the files of a folder or a pattern, and large files cut between sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError
from .columns import DOCSTART
from .layouts import ZIPPED

Mark: TypeAlias = bytes | tuple[bytes, ...]
"""What a line begins with at which a part may begin."""
LINE: Mark = b""
BLANK: Mark = (b"\n", b"\r\n")
DOCUMENT: Mark = tuple(DOCSTART.encode() + end for end in (b" ", b"\t", b"\n", b"\r\n"))
NEWDOC: Mark = (b"# newdoc\n", b"# newdoc\r\n", b"# newdoc id =")


class Part(NamedTuple):
    """The bytes from `begin` to `end` of a file, None for its end."""

    path: Path
    begin: int = 0
    end: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether this is all of the file."""
        return not self.begin and self.end is None

    def read(self) -> bytes:
        """Return the bytes."""
        with self.path.open("rb") as file:
            file.seek(self.begin)
            return file.read() if self.end is None else file.read(self.end - self.begin)

    def line_in_file(self, line: int) -> int:
        """Return the number in the file of a line of this part; both from 1."""
        return line + self._replace(begin=0, end=self.begin).read().count(b"\n")

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """Count the lines of errors, which a reader of this part raises, from the beginning of the file."""
        try:
            yield
        except FormatError as error:
            if not self.begin or not error.line or isinstance(error.__cause__, UnicodeError):
                raise  # bytes that cannot be decoded are searched for in the whole file
            raise FormatError(error.file, self.line_in_file(error.line), error.what) from None


def files_of(path: Path) -> list[Path]:
    """Return a file, or those in a folder or of a pattern such as ``train-*.conll``, in the order of their names.

    RAISES ConfigError: If there is none.
    """
    if path.is_file():
        return [path]
    names = path.rglob("*") if path.is_dir() else Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    found = sorted(file for file in names if file.is_file() and file.name[:1] != ".")
    if not found and (path.is_dir() or any(sign in str(path) for sign in "*?[")):
        where = "in this folder" if path.is_dir() else "of this pattern"
        raise ConfigError(f"{path}: there is no file {where}. Check the path.")
    return found or [path]


def cut(path: Path, size: int, mark: Mark | None) -> list[Part]:
    """Return a file in parts of about `size` bytes, which begin at lines with a mark; as a whole if that is None."""
    if mark is None or size <= 0 or path.suffix == ZIPPED or not path.is_file():
        return [Part(path)]
    length, begins = path.stat().st_size, [0]
    with path.open("rb") as file:
        while begins[-1] + size < length:
            file.seek(begins[-1] + size - 1)
            file.readline()  # to the beginning of a line
            place, line = file.tell(), file.readline()
            while line and not line.startswith(mark):
                place, line = file.tell(), file.readline()
            if not line:
                break
            begins.append(place)
    return [Part(path, *bounds) for bounds in zip(begins, [*begins[1:], None], strict=True)]
