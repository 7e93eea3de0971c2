"""Texts from a file: one a line, JSON Lines as annotation tools write them, spaCy's binary format, or a corpus.

A file is read as a stream of records, with the place behind each of them, so that reading can begin there again.  What
cannot be read is an error in the place of its record: it is for the caller to stop there or to go on.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from srsly import msgpack_loads

from ..errors import ConfigError, DataError, FormatError, suggest
from ..formats import PRESETS, Sentence, check_file, get_preset, parse_columns, parse_conllu
from ._columns import missing_columns

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

DOCBIN = "spacy"
RAW = ("txt", "jsonl", DOCBIN)
KNOWN = (*RAW, *PRESETS)
TOLD = (*RAW, "conllu")
"""Formats that the ending of a file tells."""
ZIPPED = ".gz"
STDIN = Path("-")
HELP = 'File of texts: one a line (.txt), JSON with "text" in each line (.jsonl), DocBin (.spacy), or --format'
FORMAT_HELP = f"Layout of the file: {', '.join((*RAW, *PRESETS))} [what its ending tells]"


class Text(NamedTuple):
    """A text that nobody has annotated.

    doc (Doc): Its tokens, and sentences where the file marks them.
    line (int): Its line in the file; of a DocBin or a corpus, the number of the Doc; from 1.
    meta (dict): What the file tells about it.
    """

    doc: Doc
    line: int
    meta: dict[str, Any]


class Record(NamedTuple):
    """A text as it stands in a file; of T words where the file has words.

    line (int): Its (first) line in the file; of a DocBin, the number of the Doc; from 1.
    text (str): Where there are no words.
    words (list[str] | None): [T].
    spaces (list[bool] | None): [T], None where the file does not tell.
    starts (list[bool | None] | None): [T] whether a word begins a sentence, None where that is not known.
    columns (Mapping[str, Sequence[str]]): Token attributes that are given, such as "tag", [T].
    entry (Mapping[str, Any]): The object of a line of JSON.
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
        """About how many characters there are."""
        return len(self.text) if self.words is None else sum(map(len, self.words)) + len(self.words)


class Place(NamedTuple):
    """A place between two records.

    offset (int): Bytes of the (unpacked) file before it; of a DocBin, Docs.
    line (int): Lines before it.
    """

    offset: int = 0
    line: int = 0


BEGINNING = Place()
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
"""How JSON writes halves of characters."""


def read_texts(nlp: Language, path: Path, format_name: str | None = None) -> Iterator[Text]:
    """Yield the texts of a file as it is read, without empty ones.

    format_name (str | None): One of `RAW`, or a corpus whose annotation is left out; None for what the ending tells.
    RAISES FormatError: If there is no such file, its ending tells nothing, or a line is reached that cannot be read.
    RAISES ConfigError: If there is no such format.
    """
    check_file(path)
    kind = format_of(path, format_name)
    given = given_columns(nlp, kind)
    return _texts(nlp, path, kind, given)


def texts_of(nlp: Language, source: str | Path, format_name: str | None = None) -> Iterator[Text]:
    """Return the texts of a file, or a text that is given itself; none where that is empty.

    format_name (str | None): As `read_texts` has it; if given, the source is a file.
    """
    if format_name or _is_path(str(source)):
        return read_texts(nlp, Path(source), format_name)
    if not str(source).isprintable() and any("\ud800" <= sign <= "\udfff" for sign in str(source)):
        raise DataError("The text is not in the encoding of this terminal. Write it to a file in UTF-8.")
    return iter([Text(nlp.make_doc(str(source)), 1, {})] if str(source).strip() else [])


def _is_path(source: str) -> bool:
    """Whether an argument is a file's name and no text, also where there is no such file."""
    if len(source) >= 256 or not source.strip():
        return False
    path = Path(source)
    known = path.suffix[1:] in RAW
    return known or path.exists() or (os.sep in source and not any(map(str.isspace, source)))


def _texts(nlp: Language, path: Path, kind: str, given: Sequence[str]) -> Iterator[Text]:
    number = 0
    for record, _ in read_records(path, kind, given):
        if isinstance(record, FormatError):
            raise record
        number += 1
        meta = record.entry.get("meta", {})
        if not isinstance(meta, dict):
            raise FormatError(path, record.line, 'expected an object under "meta".')
        doc = make_doc(nlp, record)
        if len(doc) and not doc.text.isspace():
            yield Text(doc, number if kind in PRESETS else record.line, meta)
    if kind in PRESETS and not number:
        raise FormatError(path, 0, "no sentence in the file.")


def format_of(path: Path, format_name: str | None) -> str:
    """Return the format of a file; of standard input, plain text if none is given.

    RAISES FormatError: If neither `format_name` nor the ending tells.
    RAISES ConfigError: If there is no such format.
    """
    if format_name is not None:
        if format_name not in KNOWN:
            raise ConfigError(f"--format {format_name}: unknown format. {suggest(format_name, KNOWN)}")
        return format_name
    if path == STDIN:
        return RAW[0]
    name = Path(path.name.removesuffix(ZIPPED))
    if name.suffix[1:] not in TOLD:
        ending = f"the ending {name.suffix!r} does not tell" if name.suffix else "no ending tells"
        raise FormatError(path, 0, f"{ending} what this file is. Give --format: {', '.join(KNOWN)}.")
    return name.suffix[1:]


def given_columns(nlp: Language, kind: str) -> list[str]:
    """Return the columns of a corpus that features read and nothing in the pipeline sets."""
    return missing_columns(nlp, get_preset(kind).columns) if kind in PRESETS else []


def read_records(
    path: Path, kind: str, given: Sequence[str] = (), start: Place = BEGINNING
) -> Iterator[tuple[Record | FormatError, Place]]:
    """Yield the records of a file, or what is wrong where one cannot be read, and the place behind each.

    path (Path): The file, packed by gzip if its name ends in .gz; `STDIN` for standard input.
    kind (str): What `format_of` tells.
    given (Sequence[str]): Columns of a corpus to be read beside the words.
    start (Place): Where to begin; what is yielded is the same as in a run from the beginning.
    A sentence with a broken line is left out as a whole.  A DocBin is unpacked in memory.
    """
    if kind == DOCBIN:
        yield from _from_docbin(path, start)
        return
    with _opened(path) as file:
        if start.offset:
            file.seek(start.offset)
        lines = _lines(file, path, start)
        if kind == "jsonl":
            yield from _from_json(path, lines)
        elif kind in PRESETS:
            yield from _from_corpus(path, kind, given, lines)
        else:
            for line, place in lines:
                if isinstance(line, FormatError):
                    yield line, place
                elif line and not line.isspace():
                    yield Record(place.line, line), place


def make_doc(nlp: Language, record: Record) -> Doc:
    """Return a record as an unannotated Doc of the pipeline's vocab."""
    from spacy.tokens import Doc

    from ..features.noted import KEY

    if record.words is None:
        return nlp.make_doc(record.text)
    columns = record.columns
    starts: Any = record.starts
    doc = Doc(
        nlp.vocab,
        words=record.words,
        spaces=record.spaces,
        sent_starts=starts,
        tags=_list(columns.get("tag")),
        pos=[value.replace("_", "") for value in columns["pos"]] if "pos" in columns else None,
        morphs=_list(columns.get("morph")),
        lemmas=_list(columns.get("lemma")),
    )
    if record.attributes is not None:
        doc.user_data[KEY] = record.attributes
    return doc


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


# Lines

_Lines = Iterator[tuple["str | FormatError", Place]]


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """RAISES FormatError: If the file cannot be read to its end."""
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


def _lines(file: Iterable[bytes], path: Path, start: Place) -> _Lines:
    """Yield lines, without their ends and a byte order mark, and the place behind each; only a line feed ends one."""
    offset, number = start
    for raw in file:
        offset, number = offset + len(raw), number + 1
        place = Place(offset, number)
        try:
            line = raw.decode("utf8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte = offset - len(raw) + error.start
            yield FormatError(path, number, f"byte {byte} of the file is not utf8. Convert the file to UTF-8."), place
            continue
        yield (line.removeprefix("\ufeff") if number == 1 else line), place


def _from_json(path: Path, lines: _Lines) -> Iterator[tuple[Record | FormatError, Place]]:
    for line, place in lines:
        if isinstance(line, FormatError):
            yield line, place
        elif line and not line.isspace():
            yield _entry(path, place.line, line), place


def _entry(path: Path, number: int, line: str) -> Record | FormatError:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        return FormatError(path, number, f"no JSON ({error}). Each line must be an object with a text.")
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        return FormatError(path, number, 'expected an object with a string under "text".')
    if _SURROGATE.search(line) and _has_halves(entry):
        return FormatError(path, number, "half a character (\\ud800 to \\udfff, alone); no file can hold it.")
    return Record(number, entry["text"], entry=entry)


def _has_halves(entry: dict[str, Any]) -> bool:
    try:
        json.dumps(entry, ensure_ascii=False).encode("utf8")
    except UnicodeEncodeError:
        return True
    return False


def _from_corpus(
    path: Path, preset: str, given: Sequence[str], lines: _Lines
) -> Iterator[tuple[Record | FormatError, Place]]:
    for block, place in _blocks(path, lines):
        if isinstance(block, FormatError):
            yield block, place
            continue
        try:
            sentences = list(_sentences(path, preset, block))
        except FormatError as error:
            yield error, place
            continue
        for sentence in sentences:
            columns = {name: sentence.columns[name] for name in given}
            yield Record(sentence.line, "", sentence.words, sentence.spaces, columns=columns), place


def _sentences(path: Path, preset: str, block: Iterable[tuple[int, str]]) -> Iterator[Sentence]:
    return parse_conllu(path, block) if preset == "conllu" else parse_columns(path, block, get_preset(preset).columns)


def _blocks(path: Path, lines: _Lines) -> Iterator[tuple[list[tuple[int, str]] | FormatError, Place]]:
    """Yield the numbered lines between blank ones, or what is wrong with the first bad one of them."""
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


# spaCy's binary format


def _from_docbin(path: Path, start: Place) -> Iterator[tuple[Record | FormatError, Place]]:
    """Yield the words of Docs, without making Docs: their strings need not be in any vocab."""
    from spacy.attrs import ORTH, SENT_START
    from spacy.strings import get_string_id

    binary = _read_docbin(path)
    text_of = {get_string_id(string): string for string in binary.strings}
    words_at = binary.attrs.index(ORTH)
    starts_at = binary.attrs.index(SENT_START) if SENT_START in binary.attrs else None
    for number in range(start.offset, len(binary)):
        table, place = binary.tokens[number], Place(number + 1, number + 1)
        try:
            words = [text_of[orth] for orth in table[:, words_at].tolist()]
        except KeyError:
            yield FormatError(path, number + 1, "the file lacks the words of this Doc."), place
            continue
        spaces = None if binary.flags[number].get("has_unknown_spaces") else binary.spaces[number].ravel().tolist()
        marks = [] if starts_at is None else table[:, starts_at].tolist()
        starts: list[bool | None] | None = [{0: None, 1: True}.get(mark, False) for mark in marks]
        attributes = _noted(binary.user_data[number])
        yield Record(number + 1, "", words, spaces, starts if any(marks) else None, attributes=attributes), place


def _noted(user_data: bytes | None) -> Any:
    """Return the attributes in the packed user data of a Doc."""
    from ..features.noted import EXTENSION, KEY

    if user_data is None or EXTENSION.encode() not in user_data:
        return None
    return msgpack_loads(user_data, use_list=False).get(KEY)


def _read_docbin(source: Path) -> Any:
    from spacy.tokens import DocBin

    if not source.is_file():
        raise FormatError(source, 0, f"no such file (looked from {Path.cwd()}).")
    try:
        return DocBin().from_disk(source)
    except Exception as error:  # zlib and msgpack raise many kinds on foreign bytes
        raise FormatError(
            source,
            0,
            "this is no file in spaCy's binary format, or it was cut short. If it has another layout, name that by "
            f"--format (--from of convert): {', '.join(PRESETS)}.",
        ) from error


def load_docs(source: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the Docs of a file in spaCy's binary format.

    RAISES FormatError: If it is none.
    """
    docs: Iterator[Doc] = _read_docbin(source).get_docs(vocab)
    return docs


def bare(doc: Doc, columns: Sequence[str] = ()) -> Doc:
    """Return the tokens and sentences of a Doc, its noted attributes, and the columns asked for, such as "tag"."""
    from spacy.tokens import Doc

    from ..features.noted import KEY

    starts: Any = [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    result = Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)
    if columns:
        names: Any = [column.upper() for column in columns]
        values: Any = doc.to_array(names).reshape(len(doc), len(names))
        result.from_array(names, values)
    if KEY in doc.user_data:
        result.user_data[KEY] = doc.user_data[KEY]
    return result
