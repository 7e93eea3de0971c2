"""Texts as a stream of records: one per line, JSON Lines as annotation tools write them, or the words of a corpus.

Each record comes with the position after it, so that reading can resume there.  An unreadable record is replaced by an
error: the caller stops or continues.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ..errors import FormatError
from .columns import parse_columns
from .conllu import parse_conllu
from .layouts import STDIN, ZIPPED
from .lines import Parse, bounded_lines, byte_lines, check_encoding, undecodable
from .presets import RAW, Preset, is_mark
from .xml import XMLForm, read_xml


class Record(NamedTuple):
    """A text in a file, of T words if the file has words.

    line: Its (first) line in the file; of a DocBin, the number of the Doc; from 1.
    text: Where there are no words.
    spaces [T]: None if the file does not tell.
    starts [T]: Whether a word begins a sentence, None if unknown.
    columns: Token attributes that are given, such as "tag", [T].
    entry: The object of a line of JSON.
    attributes: Those that a DocBin has noted on the Doc, see `features.noted`; None for none.
    """

    line: int
    text: str = ""
    words: list[str] | None = None
    spaces: list[bool] | None = None
    starts: list[bool | None] | None = None
    columns: Mapping[str, Sequence[str]] = {}
    entry: Mapping[str, Any] = {}
    attributes: Any = None

    @property
    def size(self) -> int:
        """The approximate number of characters."""
        return len(self.text) if self.words is None else sum(map(len, self.words)) + len(self.words)


class Place(NamedTuple):
    """A position between two records: bytes (of a DocBin Docs, of XML sequences) and lines of the unpacked file."""

    offset: int = 0
    line: int = 0


Piece: TypeAlias = tuple[Record | FormatError, Place]
"""A record, or an error if it cannot be read, and the position after it."""
BEGINNING = Place()
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
"""How JSON writes halves of characters."""
_Lines: TypeAlias = Iterator[tuple["str | FormatError", Place]]


def stream_records(
    path: Path, layout: Preset, given: Sequence[str] = (), start: Place = BEGINNING, *, documents: bool = False
) -> Iterator[Piece]:
    """Yield the records of a file of texts or a corpus; arguments as `pipeline.texts.read_records` has them.

    A sentence with a malformed line is skipped as a whole.
    """
    check_encoding(layout.encoding or "utf8")
    with _opened(path) as stream:
        if layout.form is not None:
            pieces = enumerate(_from_xml(path, layout, stream), start=1)
            yield from ((piece, Place(number)) for number, piece in pieces if number > start.offset)
            return
        try:
            file, encoding = byte_lines(stream, layout.encoding)
        except UnicodeError:
            raise undecodable(path, 0, 0, layout.encoding) from None
        if start.offset:
            file.seek(start.offset)
        lines = _lines(file, path, start, encoding)
        if layout.name not in RAW:
            found = _from_corpus(path, layout, given, lines)
            yield from _by_document(found) if documents else (piece for _, piece in found)
            return
        for line, place in lines:
            if isinstance(line, FormatError):
                yield line, place
            elif line and not line.isspace():
                yield (_entry(path, place.line, line) if layout.name == "jsonl" else Record(place.line, line)), place


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        if path == STDIN:
            yield sys.stdin.buffer
            return
        unpack: Any = gzip.open if path.suffix == ZIPPED else open
        with unpack(path, "rb") as file:
            yield file
    except EOFError as error:
        raise FormatError(path, 0, "the packed file was cut short.") from error
    except zlib.error as error:
        raise FormatError(path, 0, f"the packed file is damaged ({error}).") from error
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror or error}.") from error


def _lines(file: IO[bytes], path: Path, start: Place, encoding: str) -> _Lines:
    """Yield lines, without their ends and a byte order mark, and the position after each; only a line feed ends one."""
    offset, number = start
    for raw in bounded_lines(path, file):
        offset, number = offset + len(raw), number + 1
        place = Place(offset, number)
        try:
            line = raw.decode(encoding).rstrip("\r\n")
            yield (line.removeprefix("\ufeff") if offset == len(raw) else line), place
        except UnicodeDecodeError as error:
            yield undecodable(path, number, offset - len(raw) + error.start, encoding, raw), place


def _entry(path: Path, number: int, line: str) -> Record | FormatError:
    try:
        entry = parse_object(path, number, line)
    except FormatError as error:
        return error
    if not isinstance(entry.get("text"), str):
        return FormatError(path, number, 'expected an object with a string under "text".')
    return Record(number, entry["text"], entry=entry)


def parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return an object in JSON.  RAISES FormatError: If there is none, or a string that no file can hold."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, number, f"no JSON ({error}). Each line must be an object with a text.") from None
    if not isinstance(entry, dict):
        raise FormatError(path, number, 'expected an object with a string under "text".')
    try:
        if _SURROGATE.search(line):
            json.dumps(entry, ensure_ascii=False).encode("utf8")
    except UnicodeEncodeError:
        raise FormatError(path, number, "half a character (\\ud800 to \\udfff, alone); no file can hold it.") from None
    return entry


def _from_xml(path: Path, layout: Preset, stream: IO[bytes]) -> Iterator[Record | FormatError]:
    """Yield the words of sequences, and the errors, each before the sequences that were read with it."""
    errors: list[FormatError] = []
    form, encoding = layout.form or XMLForm(), layout.encoding
    for sentence in read_xml(path, form, errors.append, encoding=encoding, stream=stream):
        yield from errors
        errors.clear()
        yield Record(sentence.line, "", sentence.words, sentence.spaces)
    yield from errors


def _from_corpus(path: Path, layout: Preset, given: Sequence[str], lines: _Lines) -> Iterator[tuple[int, Piece]]:
    """Yield sentences and errors, and how many documents have been marked before each."""
    parse: Parse = parse_conllu if layout.name == "conllu" else partial(parse_columns, columns=layout.columns)
    document = 0
    for block, place in _blocks(path, lines):
        try:
            if isinstance(block, FormatError):
                raise block
            document += any(is_mark(line, layout) for _, line in block)
            sentences = list(parse(path, block, None))
        except FormatError as error:
            yield document, (error, place)
            continue
        for sentence in sentences:
            columns = {name: sentence.columns[name] for name in given}
            yield document, (Record(sentence.line, "", sentence.words, sentence.spaces, columns=columns), place)


def _by_document(pieces: Iterator[tuple[int, Piece]]) -> Iterator[Piece]:
    """Join the sentences of each document that is marked; its errors come before it, both with its end."""
    for document, group in groupby(pieces, key=itemgetter(0)):
        if not document:
            yield from (piece for _, piece in group)
            continue
        found = [piece for _, piece in group]
        end = found[-1][1]
        yield from ((error, end) for error, _ in found if isinstance(error, FormatError))
        if sentences := [record for record, _ in found if isinstance(record, Record)]:
            yield _joined(sentences), end


def _joined(sentences: Sequence[Record]) -> Record:
    first, words = sentences[0], [word for sentence in sentences for word in sentence.words or ()]
    known = [space for sentence in sentences for space in sentence.spaces or ()]
    columns = {name: [value for one in sentences for value in one.columns[name]] for name in first.columns}
    starts: list[bool | None] = [i == 0 for sentence in sentences for i in range(len(sentence.words or ()))]
    return first._replace(words=words, spaces=known if first.spaces else None, starts=starts, columns=columns)


def _blocks(path: Path, lines: _Lines) -> Iterator[tuple[list[tuple[int, str]] | FormatError, Place]]:
    # the numbered lines between blank ones, or what is wrong with the first bad one of them
    block: list[tuple[int, str]] = []
    wrong: FormatError | None = None
    place = BEGINNING
    for line, place in lines:
        if isinstance(line, FormatError):
            wrong = wrong or line
        elif "\r" in line:
            message = "a carriage return inside the line; end lines with \\n or \\r\\n."
            wrong = wrong or FormatError(path, place.line, message)
        elif line.strip(" \t"):
            block.append((place.line, line))
        elif block or wrong:
            yield wrong or block, place
            block, wrong = [], None
    if block or wrong:
        yield wrong or block, place
