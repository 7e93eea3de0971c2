"""Sequences as XML elements whose children are labelled segments, as parserator, anystyle and GROBID have them.

::

    <Name><GivenName>Ada</GivenName> <Surname>Lovelace</Surname></Name>            a child for each token
    <bibl><author>A. Lovelace</author>, <date>1843</date>. <lb/>London.</bibl>     for each segment, with text between

The name of the child is the label.  White space is a single space, and so is an element without content, such as a
line break.  A file is read as a stream by expat, which also resolves entities and encodings.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.parsers import expat

from ..errors import ConfigError, FormatError, suggest
from ._lines import OnError, Sentence, check_encoding, check_file, undecodable
from .columns import MISSING_ENTITY
from .splitting import SPACES, Splitter

NESTED = ("innermost", "outermost", "error")
SAMPLE = 1 << 20
"""Bytes (or characters) of a file in which the elements that are sequences are found."""
SHARE = 0.1
"""The outermost elements that hold this share of the labelled segments are the sequences."""
_CHUNK = 1 << 16
_HINTS = {
    "no element": "The file ends before its elements do.",
    "token": "Write &amp; and &lt; for & and <.",
    "entity": "Write the character itself; XML knows &amp; &lt; &gt; &quot; and &apos; only.",
}
"""What to do about errors of expat, by a part of their text."""


class XMLForm(NamedTuple):
    """How elements become labelled sequences; the settings of ``spacy_crfseq.XMLReader.v1``."""

    sequence: str = ""
    nested: str = "innermost"
    other: str | None = "O"
    ignore: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    join: bool = False
    pattern: str = SPACES
    between: str = "words"

    def check(self) -> Splitter:
        """Return the function that splits texts; RAISES ConfigError: On settings that cannot be used."""
        if self.nested not in NESTED:
            raise ConfigError(f"nested = {self.nested!r} is not known. {suggest(str(self.nested), NESTED)}")
        if self.other == "":
            raise ConfigError('other = "" is no label. Give one such as "O", or null for text that is not annotated.')
        return Splitter(self.pattern, self.between)


class _Segment(NamedTuple):
    """An element with a label, or the sequence itself with the label of text outside."""

    number: int
    label: str | None
    inside: bool


def read_xml(
    path: Path | str, form: XMLForm, on_error: OnError | None = None, *, encoding: str = ""
) -> Iterator[Sentence]:
    """Yield the sequences of a file, with columns tag (plain labels), and ent and chunk (segments in IOB2).

    on_error (OnError | None): Receives errors in sequences, which are then skipped, and the one that ends the reading.
    encoding (str): That of the file; empty for what the file declares.
    Text outside of segments is "O" for spans if its label is that, and not annotated if it has none.
    RAISES ConfigError: On settings that cannot be used.
    RAISES FormatError: With its line, on bad XML, an element of the sequence's name in another one, labels in labels if
        that is an error, and a sequence without text or without a label; on a file without a sequence.
    """
    with check_file(path).open("rb") as stream:
        yield from parse_xml(Path(path), stream, form, on_error, encoding=encoding)


def parse_xml(
    path: Path, stream: IO[bytes], form: XMLForm, on_error: OnError | None = None, *, encoding: str = ""
) -> Iterator[Sentence]:
    """Yield the sequences of a stream; arguments and errors as in `read_xml`."""
    check_encoding(encoding or "utf8")
    decode: Any = codecs.getincrementaldecoder(encoding)().decode if encoding else lambda data, _: data
    errors, split, handler = _Errors(path, on_error), form.check(), None
    try:
        data = stream.read(SAMPLE)
        chunk = decode(data, not data)
        sequence = form.sequence or likely_sequence(chunk)
        handler = _Handler(errors, form._replace(sequence=sequence), split)
        while data:
            handler.parser.Parse(chunk, False)
            yield from handler.taken()
            data = stream.read(_CHUNK)
            chunk = decode(data, not data)
        handler.parser.Parse(chunk, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if handler is not None:
            yield from handler.taken()
        errors(_readable(path, error, handler, encoding))
    if handler is not None and not handler.count and not errors.count:
        names = ", ".join(f"<{name}>" for name in list(handler.names)[:10])
        what = f"it has no <{form.sequence}>" if form.sequence else "no element holds labelled elements"
        message = f"no sequence in the file: {what}; there are {names}. In a config, sequence names the element."
        raise FormatError(path, 0, message)


def likely_sequence(data: bytes | str) -> str:
    """Return the name of the elements that are sequences, by the beginning of a file; empty if there are none.

    Segments are the elements with text and without parts; sequences are the outermost elements of those that directly
    hold at least `SHARE` of them.  An element without parts that has them elsewhere is a sequence without labels.
    """
    counts, depths = Counter[tuple[str, str]](), dict[str, int]()
    open_elements: list[list[Any]] = []  # name, whether it has text, whether it has elements with content

    def start(name: str, _: Any) -> None:
        open_elements.append([_local(name), False, False])

    def text(data: str) -> None:
        open_elements[-1][1] |= not data.isspace()

    def end(_: str) -> None:
        name, has_text, has_parts = open_elements.pop()
        if open_elements:
            outer = open_elements[-1]
            outer[2] |= has_text or has_parts
            if has_text and not has_parts:
                counts[outer[0], name] += 1
                depths.setdefault(outer[0], len(open_elements))

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    with suppress(expat.ExpatError, LookupError, ValueError):  # which reading reports
        parser.Parse(data, False)
    held = Counter(outer for (outer, name), count in counts.items() for _ in range(count) if name not in depths)
    known = [name for name, count in held.items() if count >= SHARE * held.total()]
    return min(known, key=depths.__getitem__, default="")


class _Errors:
    """Raises errors, or hands them to a function and counts them."""

    def __init__(self, path: Path, on_error: OnError | None) -> None:
        self.path, self.count, self._on_error = path, 0, on_error

    def __call__(self, error: FormatError) -> None:
        if self._on_error is None:
            raise error
        self.count += 1
        self._on_error(error)


class _Handler:
    """Turns the events of a parser into sequences."""

    def __init__(self, errors: _Errors, form: XMLForm, split: Splitter) -> None:
        self.count, self.names = 0, dict[str, None]()
        self._errors, self._form, self._split = errors, form, split
        self._done: list[Sentence] = []
        self._outside = _Segment(0, form.other, False)
        self._open: list[tuple[_Segment, int]] = []  # of the sequence: segments, and the pieces before each
        self._pieces: list[tuple[_Segment, str]] = []
        self._line, self._wrong = 0, ""
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler, self.parser.SkippedEntityHandler = self._text, self._entity

    def taken(self) -> list[Sentence]:
        """Return the sequences that were read since the last call."""
        done, self._done = self._done, []
        self.count += len(done)
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name, form, line = _local(name), self._form, self.parser.CurrentLineNumber
        self.names[name] = None
        if not self._open:
            if name == form.sequence:
                self._open, self._pieces = [(self._outside, 0)], []
                self._line, self._wrong = line, ""
            return
        segment, _ = self._open[-1]
        if name == form.sequence:
            self._wrong = self._wrong or f"<{name}> in another <{name}>; a sequence cannot hold one (line {line})."
        if name not in form.ignore:
            if segment.inside and form.nested == "error":
                message = f"<{name}> in <{segment.label}> (line {line}): a label in a label. Set nested to innermost or"
                self._wrong = self._wrong or f"{message} outermost, or list <{name}> under ignore."
            if not (segment.inside and form.nested == "outermost"):
                values = (attributes.get(key, "") for key in form.attributes)
                label = "-".join([name, *filter(None, values)]).replace(" ", "_")
                segment = _Segment(self.parser.CurrentByteIndex + 1, label, True)
        self._open.append((segment, len(self._pieces)))

    def _text(self, text: str) -> None:
        if self._open:
            self._pieces.append((self._open[-1][0], text))

    def _entity(self, name: str, _: bool) -> None:
        message = f"the entity &{name}; is not defined in this file. Write the character itself."
        raise FormatError(self._errors.path, self.parser.CurrentLineNumber, message)

    def _end(self, _: str) -> None:
        if not self._open:
            return
        before = self._open.pop()[1]
        if not self._open:
            self._finish()
        elif before == len(self._pieces):  # an element without content
            self._pieces.append((self._open[-1][0], " "))

    def _finish(self) -> None:
        words, spaces, tags, spans = list[str](), list[bool](), list[str](), list[str]()
        outside = MISSING_ENTITY if self._form.other is None else "O"
        for segment, pieces in groupby(self._pieces, key=itemgetter(0)):
            text = "".join(piece for _, piece in pieces)
            if spaces and text[:1].isspace():
                spaces[-1] = True
            new, gaps = self._split(text)
            if not new:
                continue
            label = segment.label or ""
            is_span = segment.inside or self._form.other not in (None, "O")
            begin = "I" if self._form.join and tags and tags[-1] == label else "B"
            spans += [f"{'I' if i else begin}-{label}" if is_span else outside for i in range(len(new))]
            words, spaces, tags = words + new, spaces + gaps, tags + [label] * len(new)
        if not any(one.inside and not piece.isspace() for one, piece in self._pieces):
            what = "has no labelled element" if words else "has no text"
            self._wrong = self._wrong or f"<{self._form.sequence}> {what}. Label it, or take it out."
        if self._wrong:
            self._errors(FormatError(self._errors.path, self._line, self._wrong))
            return
        spaces[-1] = False
        chunks = ["O" if tag == MISSING_ENTITY else tag for tag in spans]
        columns = {"tag": tags, "ent": spans, "chunk": chunks}
        self._done.append(Sentence(words, columns, spaces, self._line, 0, {}, on_one_line=True))


def _local(name: str) -> str:
    # without the prefix of its namespace
    return name.rpartition(":")[2]


def _readable(path: Path, error: Exception, handler: _Handler | None, encoding: str) -> FormatError:
    """Return an error of the parser or of a decoder with its line."""
    if isinstance(error, FormatError):
        return error
    parser = None if handler is None else handler.parser
    line = 0 if parser is None else parser.CurrentLineNumber
    if isinstance(error, UnicodeDecodeError):
        return undecodable(path, line, error.start, encoding)
    if not isinstance(error, expat.ExpatError) or parser is None:
        return FormatError(path, line, f"{error}. Give the encoding of the file: --encoding, in a config encoding.")
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN] and path.is_file() and not encoding:
        with path.open("rb") as file:
            file.seek(parser.ErrorByteIndex)
            if file.read(1) > b"\x7f":
                return undecodable(path, error.lineno, parser.ErrorByteIndex, "utf8")
    what = f"this is not XML: {expat.ErrorString(error.code)}, at column {error.offset + 1}."
    hint = next((hint for text, hint in _HINTS.items() if text in what), "")
    return FormatError(path, error.lineno, f"{what} {hint}".rstrip())
