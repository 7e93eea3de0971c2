"""Sentences, lines and encodings, which all corpus files share.

Only a line feed, with an optional carriage return, ends a line: Python's lines and white space are too wide for
corpora, where U+0085, U+00A0 and U+2028 occur inside words.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, AnyStr, NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError

OnError: TypeAlias = Callable[[FormatError], None]
"""Receives an error in a file; reading continues after the line or sentence."""
Parse: TypeAlias = Callable[[Path, Iterable[tuple[int, str]], OnError | None], Iterator["Sentence"]]
"""Yields the sentences of the numbered lines of a file."""
MAX_LINE = 1 << 26
"""Characters or bytes of a line, at most; a small packed file may hold a line of any length."""
SAMPLE = 1 << 16
"""Bytes of a file that its encoding is guessed from."""
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip


DOCBIN_MARK = b"x\x9c"
"""The first bytes of a DocBin, which zlib writes."""


class Sentence(NamedTuple):
    """A sentence of T tokens in a file.

    columns: Each further column by its name, [T]; an empty string is a missing value.
    spaces [T]: Whether white space follows a token; None if the format does not tell.
    line: 1-based line of the first token.
    document: 0-based number of the document in its file.
    comments: Those of the form ``# key = value``.
    on_one_line: Whether all tokens are on one line, or in one Doc.
    file: Its path, where a corpus may have several; else empty.
    """

    words: list[str]
    columns: dict[str, list[str]]
    spaces: list[bool] | None
    line: int
    document: int
    comments: dict[str, str]
    on_one_line: bool = False
    file: str = ""

    @property
    def text(self) -> str:
        """The text, with spaces between all tokens if the format does not tell."""
        spaces = self.spaces if self.spaces is not None else [True] * len(self.words)
        return "".join(word + " " * space for word, space in zip(self.words, spaces, strict=True))

    def line_of(self, token: int) -> int:
        """Return the line of a token."""
        return self.line if self.on_one_line else self.line + token


def check_file(path: Path | str) -> Path:
    """Return the path of a file; RAISES FormatError: If there is none, or a folder in its place."""
    path = Path(path)
    if path.is_dir():
        raise FormatError(path, 0, "this is a folder; give one file.")
    if not path.is_file():
        what = "this is a device or a pipe" if path.exists() else f"no such file (in {Path.cwd()})"
        raise FormatError(path, 0, f"{what}.")
    return path


def read_sentences(
    path: Path, encoding: str, parse: Parse, on_error: OnError | None, data: bytes | None = None
) -> Iterator[Sentence]:
    """Yield the sentences that `parse` finds in the lines of a file.

    on_error (OnError | None): Receives errors in sentences, which are then skipped.
    data (bytes | None): A part of the file, to be read instead; it may hold no sentence.
    RAISES FormatError: At the end, if there was neither a sentence nor an error.
    """
    empty = data is None

    def report(error: FormatError) -> None:
        nonlocal empty
        assert on_error is not None
        empty = False
        on_error(error)

    keep = report if on_error is not None else None
    for sentence in parse(path, read_lines(path, encoding, keep, data), keep):
        empty = False
        yield sentence
    if empty:
        raise FormatError(path, 0, "no sentence in the file.")


def read_lines(
    path: Path, encoding: str, on_error: OnError | None = None, data: bytes | None = None
) -> Iterator[tuple[int, str]]:
    """Yield 1-based line numbers and lines, without their ends and a byte order mark.

    on_error (OnError | None): Receives errors in lines, which are then yielded as far as they can be read.
    data (bytes | None): A part of the file, to be read instead.
    RAISES FormatError: If bytes are not in the encoding, or a carriage return is inside a line.
    RAISES ConfigError: On an unknown encoding.
    """
    check_encoding(encoding)
    try:
        if on_error is not None:
            yield from _all_lines(path, encoding, on_error)
            return
        part = None if data is None else TextIOWrapper(BytesIO(data), encoding, newline="\n")
        with part or path.open(encoding=encoding, newline="\n") as file:
            for number, line in enumerate(bounded_lines(path, file), start=1):
                yield number, _clean(path, number, line)
    except UnicodeError as error:
        raise _encoding_error(path, encoding) from error
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror}.") from error


def bounded_lines(path: Path, file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of a file.  RAISES FormatError: If one is longer than `MAX_LINE`, without reading more of it."""
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE), file.read(0)), start=1):
        if len(line) == MAX_LINE:
            raise FormatError(path, number, f"the line is longer than {MAX_LINE:,} characters. Split it.")
        yield line


def _all_lines(path: Path, encoding: str, on_error: OnError) -> Iterator[tuple[int, str]]:
    # decoded one by one, which is slower
    offset = 0
    with path.open("rb") as stream:
        file, encoding = byte_lines(stream, encoding)
        for number, raw in enumerate(bounded_lines(path, file), start=1):
            try:
                line = raw.decode(encoding)
            except UnicodeDecodeError as error:
                on_error(undecodable(path, number, offset + error.start, encoding))
                line = raw.decode(encoding, "replace")
            try:
                line = _clean(path, number, line)
            except FormatError as error:
                on_error(error)
                line = line.rstrip("\r\n").replace("\r", "")
            offset += len(raw)
            yield number, line


def in_bytes(encoding: str) -> bool:
    """Whether lines in this encoding end with the byte of a line feed.  RAISES ConfigError: If it is unknown."""
    check_encoding(encoding)
    return len("a\n".encode(encoding)) == 2


def byte_lines(file: IO[bytes], encoding: str) -> tuple[IO[bytes], str]:
    """Return a file whose lines end with the byte of a line feed, and its encoding: UTF-16 and its kind become UTF-8.

    RAISES UnicodeError: If such a file cannot be decoded.
    """
    if in_bytes(encoding):
        return file, encoding
    return BytesIO(file.read().decode(encoding).encode("utf8")), "utf8"


def _clean(path: Path, number: int, line: str) -> str:
    line = line.rstrip("\r\n")
    if number == 1:
        line = line.removeprefix("\ufeff")
    if "\r" in line:
        raise FormatError(path, number, "a carriage return inside the line; end lines with \\n or \\r\\n.")
    return line


def check_encoding(encoding: str) -> None:
    """RAISES ConfigError: On an unknown encoding."""
    try:
        "a".encode(encoding)
    except (LookupError, ValueError) as error:
        raise ConfigError(f"Unknown encoding {encoding!r}. Try 'utf8', 'latin-1' or 'utf-16'.") from error


def probable_encoding(data: bytes) -> str:
    """Return the encoding that bytes of a text are probably in: utf8, utf-16, utf-32, cp1252 or latin-1."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return name
    even, odd = data[::2].count(0), data[1::2].count(0)
    if max(even, odd) > len(data) // 8 and max(even, odd) > 8 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    text = data.decode("utf8", "replace")
    wrong = text.count("\ufffd")
    if 2 * wrong <= sum(sign > "\x7f" for sign in text):  # UTF-8, perhaps with damaged places
        return "utf8"
    return "cp1252" if re.search(rb"[\x80-\x9f]", data) else "latin-1"


def undecodable(path: Path, line: int, byte: int, encoding: str, sample: bytes | None = None) -> FormatError:
    """Return an error on a byte that cannot be decoded, with the encoding to give instead.

    byte (int): Its place in the file, from 0.
    sample (bytes | None): What to guess the encoding from; None for the beginning of the file and the bad byte.
    """
    if sample is None:
        with path.open("rb") as file:
            sample = file.read(SAMPLE)
            if byte >= SAMPLE:
                file.seek(byte)
                sample += file.readline(SAMPLE)
    if sample.startswith(DOCBIN_MARK):
        what = "this is spaCy's binary format. Give --format spacy, in a config the reader spacy.Corpus.v1."
        return FormatError(path, 0, what)
    probable = probable_encoding(sample)
    hint = "The rest of the file looks right: correct this line."
    if codecs.lookup(probable).name != codecs.lookup(encoding).name:
        hint = f'The file looks like {probable}: give --encoding {probable}, in a config encoding = "{probable}".'
    return FormatError(path, line, f"byte {byte} of the file is not {encoding}. {hint}")


def _encoding_error(path: Path, encoding: str) -> FormatError:
    data = path.read_bytes()
    start = len(data)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        start = error.start
    except UnicodeError:  # utf-16 without a byte order mark gives no position
        start = 0
    return undecodable(path, data.count(b"\n", 0, start) + 1, start, encoding)
