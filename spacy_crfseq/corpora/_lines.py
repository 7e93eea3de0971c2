"""What all corpus files share: a sentence as it was read, and lines that end where the corpus says they end.

Python's own notion of a line or of white space is too wide for corpora, where U+0085, U+00A0 or U+2028 are characters
of words.  Here only a line feed (with an optional carriage return) ends a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError

OnError: TypeAlias = Callable[[FormatError], None]
"""Gets an error in a file; reading goes on behind what it spoils."""
Parse: TypeAlias = Callable[[Path, Iterable[tuple[int, str]], OnError | None], Iterator["Sentence"]]
"""Yields the sentences of the numbered lines of a file."""
_HINT = "Convert the file, or give its own encoding where one can be given, such as encoding='latin-1'."


class Sentence(NamedTuple):
    """A sentence of T tokens as it is in a file.

    columns: Each further column by its name, [T]; an empty string is a missing value.
    spaces [T]: Whether white space follows a token; None where the format does not say.
    line: 1-based line of the first token.
    document: 0-based number of the document in its file.
    comments: Those of the form ``# key = value``.
    on_one_line: Whether all tokens are on one line, or in one Doc.
    """

    words: list[str]
    columns: dict[str, list[str]]
    spaces: list[bool] | None
    line: int
    document: int
    comments: dict[str, str]
    on_one_line: bool = False

    def line_of(self, token: int) -> int:
        """Return the line of a token."""
        return self.line if self.on_one_line else self.line + token


def check_file(path: Path | str) -> Path:
    """Return the path of a file; RAISES FormatError: If there is none, or a folder in its place."""
    path = Path(path)
    if path.is_dir():
        raise FormatError(path, 0, "this is a folder; give one file.")
    if not path.is_file():
        raise FormatError(path, 0, f"no such file (looked from {Path.cwd()}).")
    return path


def read_sentences(path: Path, encoding: str, parse: Parse, on_error: OnError | None) -> Iterator[Sentence]:
    """Yield the sentences that `parse` finds in the lines of a file.

    on_error (OnError | None): Gets what is wrong with a sentence, which is then left out.
    RAISES FormatError: At the end, if there was neither a sentence nor an error.
    """
    empty = True

    def report(error: FormatError) -> None:
        nonlocal empty
        assert on_error is not None
        empty = False
        on_error(error)

    keep = report if on_error is not None else None
    for sentence in parse(path, read_lines(path, encoding, keep), keep):
        empty = False
        yield sentence
    if empty:
        raise FormatError(path, 0, "no sentence in the file.")


def read_lines(path: Path, encoding: str, on_error: OnError | None = None) -> Iterator[tuple[int, str]]:
    """Yield 1-based line numbers and lines, without their ends and a byte order mark.

    on_error (OnError | None): Gets what is wrong with a line, which is then yielded as far as it can be read.
    RAISES FormatError: If bytes are not in the encoding, or a carriage return is inside a line.
    RAISES ConfigError: On an unknown encoding.
    """
    try:
        if on_error is not None:
            yield from _all_lines(path, encoding, on_error)
            return
        with path.open(encoding=encoding, newline="\n") as file:
            for number, line in enumerate(file, start=1):
                yield number, _clean(path, number, line)
    except UnicodeError as error:
        raise _encoding_error(path, encoding) from error
    except LookupError as error:
        raise ConfigError(f"Unknown encoding {encoding!r}. Try 'utf8' or 'latin-1'.") from error
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror}.") from error


def _all_lines(path: Path, encoding: str, on_error: OnError) -> Iterator[tuple[int, str]]:
    # decoded one by one, which is slower
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode(encoding)
            except UnicodeDecodeError as error:
                on_error(FormatError(path, number, f"byte {error.start} of the line is not {encoding}. {_HINT}"))
                line = raw.decode(encoding, "replace")
            try:
                line = _clean(path, number, line)
            except FormatError as error:
                on_error(error)
                line = line.rstrip("\r\n").replace("\r", "")
            yield number, line


def _clean(path: Path, number: int, line: str) -> str:
    line = line.rstrip("\r\n")
    if number == 1:
        line = line.removeprefix("\ufeff")
    if "\r" in line:
        raise FormatError(path, number, "a carriage return inside the line; end lines with \\n or \\r\\n.")
    return line


def _encoding_error(path: Path, encoding: str) -> FormatError:
    data = path.read_bytes()
    start = len(data)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        start = error.start
    except UnicodeError:  # utf-16 without a byte order mark gives no position
        start = 0
    line = data.count(b"\n", 0, start) + 1
    return FormatError(path, line, f"byte {start} of the file is not {encoding}. {_HINT}")
