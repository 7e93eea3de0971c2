"""Sentences, lines, encodings and parts of files, which all corpora share.

Only a line feed, with an optional carriage return, ends a line: Python's lines and white space are too wide for
corpora, where U+0085, U+00A0 and U+2028 occur inside words.  Readers yield a `FormatError` in place of what is
malformed; `checked` raises it, or reports it and goes on.
"""

from __future__ import annotations

import codecs
import gzip
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

from ..errors import ConfigError, FormatError, count_of

Item = TypeVar("Item")
OnError: TypeAlias = Callable[[FormatError], None]
"""Receives an error in a file; reading continues after the line or sentence."""
Line: TypeAlias = tuple[int, str] | FormatError
"""A line and its number from 1, or what is wrong with it."""
MAX_LINE = 1 << 26
"""Bytes of a line, at most; a small packed file may hold a line of any length."""
LISTING = "The command debug-data lists them by reason."
SKIPPING = "To go on without what cannot be read, give --skip-invalid, in a config skip_invalid = true."
SAMPLE = 1 << 16
"""Bytes of a file that its encoding is guessed from."""
STDIN = Path("-")
ZIPPED = ".gz"
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
ODD = 0.02
"""Share of control characters in single-byte encodings from which bytes are no text; random ones have 0.1."""
_OF_TEXTS = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\f\r"})
_OTHERS = {
    b"x\x9c": "this is spaCy's binary format. Give --format spacy, in a config the reader spacy.Corpus.v1.",
    b"\x1f\x8b": "this file is packed by gzip. Unpack it; a file of raw texts may be packed if its name ends in .gz.",
    b"PK\x03\x04": "this is a ZIP archive or a document of an office program. Unpack it, or save it as text.",
    b"PAR1": "this is Parquet. Give --format parquet.",
    b"%PDF": "this is a PDF. Save it as text.",
}
"""The first bytes of files that are no texts, and messages on them."""


class MultiwordToken(NamedTuple):
    """Words that a text writes as one form, whose letters need not be theirs: "al" of a and el.

    start, end: The first word, and the one after the last.
    """

    start: int
    end: int
    form: str


class SpanAlternatives(NamedTuple):
    """The labels of which one is that of a span, whose tokens are known: `start` is the first, `end` after the last."""

    start: int
    end: int
    labels: tuple[str, ...]


class SourceLines(NamedTuple):
    """The lines of a sentence in its file, with their ends; `words` [T] are the numbers of those of its tokens.

    Comments before the sentence and blank lines behind it are among them.
    """

    lines: Sequence[str]
    words: Sequence[int]


class Sentence(NamedTuple):
    """A sentence of T tokens in a file.

    columns: Each further column by its name, [T]; an empty string is a missing value.
    spaces [T]: Whether white space follows a token; None if the format does not tell.
    line: 1-based line of the first token; of a DocBin, the number of the Doc.
    document: How many documents the file has marked up to here.
    comments: Those of the form ``# key = value``.
    on_one_line: Whether all tokens are on one line, or in one Doc.
    file: Its path, where a corpus may have several; else empty.
    attributes [T]: Names of features, or pairs with a value, see `features.noted`; None if the format has none.
    multiword: Multiword tokens whose forms are not those of their words, one after another.
    source: Its lines, if the format has more than tokens and columns.
    alternatives: Spans of entities with several labels, whose tokens have a missing tag in "ent".
    """

    words: list[str]
    columns: dict[str, list[str]]
    spaces: list[bool] | None
    line: int
    document: int = 0
    comments: Mapping[str, str] = {}
    on_one_line: bool = False
    file: str = ""
    attributes: Any = None
    multiword: Sequence[MultiwordToken] = ()
    source: SourceLines | None = None
    alternatives: Sequence[SpanAlternatives] = ()

    @property
    def text(self) -> str:
        """The text, with spaces between all tokens if the format does not tell."""
        spaces = self.spaces if self.spaces is not None else [True] * len(self.words)
        forms = with_forms(self.words, self.multiword)
        return "".join(form + " " * space for form, space in zip(forms, spaces, strict=True))

    def line_of(self, token: int) -> int:
        """Return the line of a token."""
        if self.source is not None:
            return self.line + self.source.words[token] - self.source.words[0]
        return self.line if self.on_one_line else self.line + token


def with_forms(words: Sequence[str], multiword: Iterable[MultiwordToken]) -> list[str]:
    """Return words [T] as a text writes them: the first word of each multiword token is its form, the others empty."""
    forms = list(words)
    for start, end, form in multiword:
        forms[start:end] = [form, *[""] * (end - start - 1)]
    return forms


def checked(
    items: Iterable[Item | FormatError], path: Path, on_error: OnError | None = None, *, empty: str = "no sentence"
) -> Iterator[Item]:
    """Yield the items that a reader has read.

    on_error (OnError | None): Receives the errors; None raises the first one and counts the others, see `Invalid`.
    empty (str): What is missing in a file without anything; an empty string if that may be.
    RAISES FormatError: At the end, if there was neither an item nor an error.
    """
    if on_error is None:
        invalid = Invalid()
        yield from invalid.passing(checked(items, path, invalid, empty=empty))
        return
    for item in items:
        empty = ""
        if not isinstance(item, FormatError):
            yield item
        else:
            on_error(item)
    if empty:
        raise FormatError(path, 0, f"{empty} in the file.")


class Invalid:
    """Records of a corpus that cannot be read: the first error, and how many there are.

    Reading goes on behind an error, either without such records or to count the others.
    skip (bool | None): Whether such records are left out; None where that cannot be asked for.
    partly (bool): Whether a part of the corpus is read.
    """

    def __init__(self, skip: bool | None = None, *, partly: bool = False) -> None:
        self._skip, self._partly = skip, partly
        self._first: FormatError | None = None
        self._count = 0

    def __call__(self, error: FormatError) -> None:
        """Note an error.  RAISES FormatError: One behind which nothing is read of a file, if records are left out."""
        if self._skip and error.ends:
            raise error
        self._first = self._first or error
        self._count += 1

    def passing(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, and read those behind an error without yielding them, unless records are left out.

        RAISES FormatError: The first error, with the number of others; where records are left out, a warning has them,
            unless nothing else is there.
        """
        n_items = 0
        try:
            for item in items:
                if self._skip or self._first is None:
                    n_items += 1
                    yield item
        except GeneratorExit:  # no more are wanted
            self._warn()
            raise
        if self._first is not None and not (self._skip and n_items):
            raise self._summary(self._first)
        self._warn()

    def _warn(self) -> None:
        if self._skip and self._first is not None:
            number = count_of(self._count, "error")
            what = f"{number}, left out with what cannot be read (skip_invalid). The first is {self._first} {LISTING}"
            warnings.warn(what, stacklevel=1)  # one place, so that it is shown once for several passes

    def _summary(self, error: FormatError) -> FormatError:
        said = [error.what]
        if self._count > 1:
            said.append(f"{'At least ' * self._partly}{count_of(self._count - 1, 'more error')}.")
        if self._count > 1 and self._skip is not None:
            said.append(LISTING)
        if self._skip is False and not error.ends:
            said.append(SKIPPING)
        return FormatError(error.file, error.line, " ".join(said), ends=error.ends)


# Files


def check_file(path: Path | str) -> Path:
    """Return the path of a file; RAISES FormatError: If there is none, or a folder in its place."""
    path = Path(path)
    if path.is_dir():
        raise FormatError(path, 0, "this is a folder; give a file.")
    if not path.is_file():
        what = "this is a device or a pipe" if path.exists() else f"no such file (in {Path.cwd()})"
        raise FormatError(path, 0, f"{what}.")
    return path


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, packed by gzip if its name ends in .gz, or standard input if it is `STDIN`.

    RAISES FormatError: If it cannot be read, now or later.
    """
    try:
        unpack: Any = gzip.open if path.suffix == ZIPPED else open
        with nullcontext(sys.stdin.buffer) if path == STDIN else unpack(path, "rb") as file:
            yield file
    except EOFError as error:
        raise FormatError(path, 0, "the packed file was cut short.") from error
    except zlib.error as error:
        raise FormatError(path, 0, f"the packed file is damaged ({error}).") from error
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror or error}.") from error


def lines_of(
    path: Path, encoding: str, stream: IO[bytes] | None = None, *, returns: bool = False, ends: bool = False
) -> Iterator[Line]:
    """Yield the numbered lines of a file, without their ends and a byte order mark, and errors in place of bad ones.

    stream (IO | None): The open file or a part of it, if it is open.
    returns (bool): Whether carriage returns may be inside a line.
    ends (bool): Whether lines keep their ends.
    RAISES ConfigError: On an unknown encoding.
    """
    check_encoding(encoding)
    with opened(path) if stream is None else nullcontext(stream) as file:
        if not in_bytes(encoding):
            try:
                file, encoding = BytesIO(file.read().decode(encoding).encode("utf8")), "utf8"
            except UnicodeError:
                yield undecodable(path, 0, 0, encoding)
                return
        begin = getattr(file, "begin", 0)
        for number, raw in enumerate(iter(partial(file.readline, MAX_LINE), b""), start=1):
            if number == 1 and not begin and (what := _other_format(raw)):
                yield FormatError(path, 0, what)
                return
            if len(raw) == MAX_LINE:  # without reading more of it
                yield FormatError(path, number, f"the line is longer than {MAX_LINE:,} bytes. Split it.", ends=True)
                return
            try:
                whole = raw.decode(encoding)
            except UnicodeDecodeError as error:
                yield (wrong := undecodable(path, number, begin + error.start, encoding, raw))
                if wrong.ends:
                    return
                continue
            finally:
                begin += len(raw)
            if number == 1:
                whole = whole.removeprefix("\ufeff")
            line = whole.rstrip("\r\n")
            if "\r" in line and not returns:
                yield FormatError(path, number, "a carriage return inside the line; end lines with \\n or \\r\\n.")
            else:
                yield number, whole if ends else line


def read_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file as `lines_of`.  RAISES FormatError: On a bad line, or if the file cannot be read."""
    return checked(lines_of(path, encoding), path, empty="")


# Parts of files


class PartBytes(BytesIO):
    """The bytes of a part, and where they begin in the file."""

    begin = 0


class FilePart(NamedTuple):
    """The bytes from `begin` to `end` of a file, None for its end."""

    path: Path
    begin: int = 0
    end: int | None = None

    def open(self) -> PartBytes | None:
        """Return the bytes, or None if they are the whole file."""
        if not self.begin and self.end is None:
            return None
        with self.path.open("rb") as file:
            file.seek(self.begin)
            stream = PartBytes(file.read() if self.end is None else file.read(self.end - self.begin))
        stream.begin = self.begin
        return stream

    def line_in_file(self, line: int) -> int:
        """Return the number in the file of a line of this part; both from 1."""
        before = self._replace(begin=0, end=self.begin).open() if self.begin else None
        return line + (before.getvalue().count(b"\n") if before else 0)

    def in_file(self, error: FormatError) -> FormatError:
        """Return an error of a reader of this part with its line counted from the beginning of the file."""
        if not self.begin or not error.line:
            return error
        return FormatError(error.file, self.line_in_file(error.line), error.what, ends=error.ends)


def cut(path: Path, size: int, mark: bytes | tuple[bytes, ...] | None) -> list[FilePart]:
    """Return a file in parts of about `size` bytes.

    mark: What a line begins with at which a part may begin; None to return the file as a whole.
    """
    if mark is None or size <= 0 or path.suffix == ZIPPED or not path.is_file():
        return [FilePart(path)]
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
    return [FilePart(path, *bounds) for bounds in zip(begins, [*begins[1:], None], strict=True)]


# Encodings


def check_encoding(encoding: str) -> None:
    """RAISES ConfigError: On an unknown encoding."""
    try:
        "a".encode(encoding)
    except (LookupError, ValueError) as error:
        raise ConfigError(f"Unknown encoding {encoding!r}. Try 'utf8', 'latin-1' or 'utf-16'.") from error


def in_bytes(encoding: str) -> bool:
    """Whether lines in this encoding end with the byte of a line feed.  RAISES ConfigError: If it is unknown."""
    check_encoding(encoding)
    return len("a\n".encode(encoding)) == 2


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


def no_text(data: bytes) -> str:
    """Return a message on the first bytes of a file that is no text; an empty string for a text."""
    if what := _other_format(data):
        return what
    odd = len(data.translate(None, _OF_TEXTS))
    if probable_encoding(data) not in ("cp1252", "latin-1") or odd <= ODD * len(data):
        return ""
    return f"this is no text: {odd / len(data):.0%} of its first bytes are control characters. Give another file."


def _other_format(data: bytes) -> str:
    return next((what for mark, what in _OTHERS.items() if data.startswith(mark)), "")


def undecodable(path: Path, line: int, byte: int, encoding: str, raw: bytes = b"") -> FormatError:
    """Return an error on a byte that cannot be decoded, with the encoding to give instead.

    byte (int): Its place in the file, from 0.
    raw (bytes): Its line.
    """
    sample = raw
    if path.is_file() and path.suffix != ZIPPED:
        with path.open("rb") as file:
            sample = file.read(SAMPLE) + raw[:SAMPLE]
    if what := no_text(sample):
        return FormatError(path, 0, what)
    probable = probable_encoding(sample)
    hint = "The rest of the file looks right: correct this line."
    if codecs.lookup(probable).name != codecs.lookup(encoding).name:
        hint = f'The file looks like {probable}: give --encoding {probable}, in a config encoding = "{probable}".'
    return FormatError(path, line, f"byte {byte} of the file is not {encoding}. {hint}")
