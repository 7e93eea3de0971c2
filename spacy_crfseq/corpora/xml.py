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
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from ..errors import ConfigError, FormatError, suggest
from .columns import MISSING_ENTITY
from .lines import OnError, Sentence, check_encoding, check_file, checked, opened, undecodable
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
"""Advice on errors of expat, by a part of their text."""


class XMLForm(NamedTuple):
    """The way from elements to labelled sequences; the settings of ``spacy_crfseq.XMLReader.v1``."""

    sequence: str = ""
    nested: str = "innermost"
    other: str | None = "O"
    ignore: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    join: bool = False
    pattern: str = SPACES
    between: str = "words"
    rename: Mapping[str, str] = {}

    def check(self) -> Splitter:
        """Return the function that splits texts; RAISES ConfigError: On settings that cannot be used."""
        if self.nested not in NESTED:
            raise ConfigError(f"nested = {self.nested!r} is not known. {suggest(str(self.nested), NESTED)}")
        if self.other == "":
            raise ConfigError('other = "" is no label. Give one such as "O", or null for text that is not annotated.')
        if not all(self.rename.values()):
            raise ConfigError(
                f"rename = {dict(self.rename)}: a label has no new name. List it under ignore to drop it."
            )
        return Splitter(self.pattern, self.between)


class _Segment(NamedTuple):
    """An element with a label, or the sequence itself with the label of text outside."""

    number: int
    label: str | None
    inside: bool


def read_xml(
    path: Path | str, form: XMLForm, on_error: OnError | None = None, *, encoding: str = ""
) -> Iterator[Sentence]:
    """Yield the sequences of a file.

    Their columns are tag (plain labels), and ent and chunk (segments in IOB2).
    on_error (OnError | None): Receives errors in sequences, which are then skipped, and the one that ends the reading.
    encoding (str): That of the file; empty for what the file declares.
    Text outside of segments is "O" for spans if its label is that, and not annotated if it has none.
    RAISES ConfigError: On settings that cannot be used.
    RAISES FormatError: With its line, on bad XML, an element of the sequence's name in another one, labels in labels if
        that is an error, and a sequence without text or without a label; on a file without a sequence.
    """
    return checked(parse_xml(Path(path), form, encoding), Path(path), on_error)


def parse_xml(
    path: Path, form: XMLForm, encoding: str = "", stream: IO[bytes] | None = None
) -> Iterator[Sentence | FormatError]:
    """Yield the sequences, and what is wrong with others; see `read_xml`.  stream: The open file, if it is."""
    check_encoding(encoding or "utf8")
    with opened(check_file(path)) if stream is None else nullcontext(stream) as data:
        yield from _Reader(path, form, encoding).read(data)


def likely_sequence(data: bytes | str) -> str:
    """Return the name of the elements that are sequences, by the beginning of a file; empty if there are none.

    Segments are the elements with text and without parts; sequences are the first elements of those that directly hold
    at least `SHARE` of them.  An element without parts that has them elsewhere is a sequence without labels.
    """
    parser: Any = ElementTree.XMLPullParser(["start"])
    elements: list[ElementTree.Element] = []
    with suppress(ElementTree.ParseError, LookupError, ValueError):  # which reading reports
        parser.feed(data)
        elements.extend(element for _, element in parser.read_events())
    pairs = [
        (_local(outer.tag), _local(inner.tag))
        for outer in elements
        for inner in outer
        if (inner.text or "").strip() and not any(part.text or len(part) for part in inner)
    ]
    names = {outer for outer, _ in pairs}
    held = Counter(outer for outer, name in pairs if name not in names)
    return next((name for name, count in held.items() if count >= SHARE * held.total()), "")


class _Reader:
    """Turns the events of a parser into sequences."""

    def __init__(self, path: Path, form: XMLForm, encoding: str) -> None:
        self._path, self._form, self._split = path, form, form.check()
        self._encoding, self._sequence = encoding, form.sequence
        self._names = dict[str, None]()
        self._done: list[Sentence | FormatError] = []
        self._outside = _Segment(0, form.other, False)
        self._open: list[tuple[_Segment, int]] = []  # of the sequence: segments, and the pieces before each
        self._pieces: list[tuple[_Segment, str]] = []
        self._line, self._wrong = 0, ""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler, self._parser.SkippedEntityHandler = self._text, self._entity
        self._parser.ExternalEntityRefHandler = self._entity

    def read(self, stream: IO[bytes]) -> Iterator[Sentence | FormatError]:
        """Yield the sequences of a stream, and errors."""
        decode: Any = codecs.getincrementaldecoder(self._encoding)().decode if self._encoding else lambda data, _: data
        data, empty, ended = stream.read(SAMPLE), True, False
        while not ended:
            try:
                chunk, ended = decode(data, not data), not data
                self._sequence = self._sequence or likely_sequence(chunk)
                self._parser.Parse(chunk, ended)
            except (expat.ExpatError, LookupError, ValueError) as error:
                wrong = error if isinstance(error, FormatError) else self._readable(error)
                self._done.append(FormatError(wrong.file, wrong.line, wrong.what, ends=True))
                ended = True
            empty = empty and not self._done
            yield from self._done
            self._done, data = [], b"" if ended else stream.read(_CHUNK)
        if empty:
            names = ", ".join(f"<{name}>" for name in list(self._names)[:10])
            what = f"it has no <{self._sequence}>" if self._sequence else "no element holds labelled elements"
            message = f"no sequence in the file: {what}; there are {names}. In a config, sequence names the element."
            yield FormatError(self._path, 0, message)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name, form, line = _local(name), self._form, self._parser.CurrentLineNumber
        self._names[name] = None
        if not self._open:
            if name == self._sequence:
                self._open, self._pieces = [(self._outside, 0)], []
                self._line, self._wrong = line, ""
            return
        segment, _ = self._open[-1]
        if name == self._sequence:
            self._wrong = self._wrong or f"<{name}> in another <{name}>; a sequence cannot hold one (line {line})."
        if name not in form.ignore:
            if segment.inside and form.nested == "error":
                message = f"<{name}> in <{segment.label}> (line {line}): a label in a label. Set nested to innermost or"
                self._wrong = self._wrong or f"{message} outermost, or list <{name}> under ignore."
            if not (segment.inside and form.nested == "outermost"):
                values = (attributes.get(key, "") for key in form.attributes)
                label = "-".join([name, *filter(None, values)]).replace(" ", "_")
                segment = _Segment(self._parser.CurrentByteIndex + 1, form.rename.get(label, label), True)
        self._open.append((segment, len(self._pieces)))

    def _text(self, text: str) -> None:
        if self._open:
            self._pieces.append((self._open[-1][0], text))

    def _entity(self, name: str, *_: Any) -> NoReturn:
        message = f"the entity &{name}; is not defined in this file. Write the character itself."
        raise FormatError(self._path, self._parser.CurrentLineNumber, message)

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
        for segment, pieces in groupby(self._pieces, key=itemgetter(0)):
            text = "".join(piece for _, piece in pieces)
            if spaces and text[:1].isspace():
                spaces[-1] = True
            new, gaps = self._split(text)
            label = segment.label or ""
            outside, is_span = "O" if label else MISSING_ENTITY, label not in ("", "O")
            begin = "I" if self._form.join and tags and tags[-1] == label else "B"
            spans += [f"{'I' if i else begin}-{label}" if is_span else outside for i in range(len(new))]
            words += new
            spaces += gaps
            tags += [label] * len(new)
        if not any(segment_.inside and not piece.isspace() for segment_, piece in self._pieces):
            what = "has no labelled element" if words else "has no text"
            self._wrong = self._wrong or f"<{self._sequence}> {what}. Label it, or take it out."
        if self._wrong or not words:
            what = self._wrong or f"<{self._sequence}> has no token."
            self._done.append(FormatError(self._path, self._line, what))
            return
        spaces[-1] = False
        columns = {"tag": tags, "ent": spans, "chunk": ["O" if tag == MISSING_ENTITY else tag for tag in spans]}
        self._done.append(Sentence(words, columns, spaces, self._line, on_one_line=True, file=str(self._path)))

    def _readable(self, error: Exception) -> FormatError:
        """Return an error of the parser or of a decoder with its line."""
        line, byte, path = self._parser.CurrentLineNumber, self._parser.ErrorByteIndex, self._path
        if isinstance(error, UnicodeDecodeError):
            return undecodable(path, line, error.start, self._encoding)
        if not isinstance(error, expat.ExpatError):
            return FormatError(path, line, f"{error}. Give the encoding of the file: --encoding, in a config encoding.")
        what = f"this is not XML: {expat.ErrorString(error.code)}, at column {error.offset + 1}."
        if "invalid token" in what and path.is_file() and not self._encoding:
            with path.open("rb") as file:
                file.seek(byte)
                if file.read(1) > b"\x7f":
                    return undecodable(path, error.lineno, byte, "utf8")
        hint = next((hint for text, hint in _HINTS.items() if text in what), "")
        return FormatError(path, error.lineno, f"{what} {hint}".rstrip())


def _local(name: str) -> str:
    # without its namespace or the prefix of one
    return name.replace("}", ":").rpartition(":")[2]
