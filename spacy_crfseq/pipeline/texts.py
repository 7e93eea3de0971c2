"""Docs of texts in files: raw text, JSON Lines, spaCy's binary format, or the words of a corpus."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from srsly import msgpack_loads

from ..corpora import DOCBIN, PRESETS, Preset, check_file
from ..corpora.parts import Part
from ..corpora.presets import RAW
from ..corpora.records import BEGINNING, Piece, Place, Record, stream_records
from ..errors import FormatError
from ..files import collecting
from .columns import missing_columns, unit_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab


class Text(NamedTuple):
    """A text without annotation: its tokens, and sentences if the file marks them.

    line (int): Its line in the file; of a DocBin or a corpus, the number of the Doc; from 1.
    meta (dict): Its metadata in the file.
    """

    doc: Doc
    line: int
    meta: dict[str, Any]


def read_texts(nlp: Language, path: Path | Part, layout: Preset) -> Iterator[Text]:
    """Stream the texts of a file, or a part of it, without empty ones; of a corpus, the annotation is ignored.

    A text of a corpus is a sentence, or a marked document if the pipeline reads documents.
    RAISES CrfError: If a line is reached that cannot be read.
    """
    part = path if isinstance(path, Part) else Part(path)
    with part.numbered():
        yield from _texts(nlp, part, layout)


def _texts(nlp: Language, part: Part, layout: Preset) -> Iterator[Text]:
    is_corpus, number, path = layout.name not in RAW, 0, part.path
    documents, start = unit_of(nlp) == "document", Place(part.begin)
    for record, place in read_records(path, layout, given_columns(nlp, layout), start, documents=documents):
        if part.end is not None and place.offset > part.end:
            return
        if isinstance(record, FormatError):
            raise record
        if (size := len(record.text)) > nlp.max_length:
            raise FormatError(path, record.line, f"a text of {size:,} characters; {nlp.max_length:,} are the most.")
        number += 1
        meta = record.entry.get("meta", {})
        if not isinstance(meta, dict):
            raise FormatError(path, record.line, 'expected an object under "meta".')
        doc = make_doc(nlp, record)
        if len(doc) and not doc.text.isspace():
            yield Text(doc, number if is_corpus else record.line, meta)
    if is_corpus and not number:
        raise FormatError(path, 0, "no sentence in the file.")


def given_columns(nlp: Language, layout: Preset) -> list[str]:
    """Return the columns of a corpus that features read and no component sets."""
    return missing_columns(nlp, layout) if layout.name not in RAW else []


def read_records(
    path: Path, layout: Preset, given: Sequence[str] = (), start: Place = BEGINNING, *, documents: bool = False
) -> Iterator[Piece]:
    """Return an iterator over the records of a file, errors among them, and the positions after them.

    path (Path): The file, packed by gzip if its name ends in .gz; `STDIN` for standard input.
    layout (Preset): One of `TEXTS`, or columns; a DocBin is unpacked in memory.
    given (Sequence[str]): Columns of a corpus to read in addition to the words.
    start (Place): Where to begin; results are the same as in a run from the beginning.
    documents (bool): Join the sentences of each document that a corpus marks.
    """
    if layout.name == DOCBIN:
        return _from_docbin(path, start)
    return stream_records(path, layout, given, start, documents=documents)


def make_doc(nlp: Language, record: Record) -> Doc:
    """Return a record as an unannotated Doc of the pipeline's vocab."""
    from spacy.tokens import Doc

    from ..features.noted import KEY

    if record.words is None:
        return nlp.make_doc(record.text)
    columns: dict[str, Any] = {name: list(values) for name, values in record.columns.items()}
    starts: Any = record.starts
    doc = Doc(
        nlp.vocab,
        words=record.words,
        spaces=record.spaces,
        sent_starts=starts,
        tags=columns.get("tag"),
        pos=[value.replace("_", "") for value in columns["pos"]] if "pos" in columns else None,
        morphs=columns.get("morph"),
        lemmas=columns.get("lemma"),
    )
    if record.attributes is not None:
        doc.user_data[KEY] = record.attributes
    return doc


def load_docs(source: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the Docs of a file in spaCy's binary format; tags I- that continue no entity are read as conlleval does.

    RAISES FormatError: If it is none.
    """
    from .tasks.ner import begin_stray_entities, describe_stray

    binary, done = _read_docbin(source), 0
    n_stray, first = 0, ""
    try:
        with collecting():
            for doc in binary.get_docs(vocab):
                if stray := begin_stray_entities(doc):
                    n_stray, first = n_stray + 1, first or f"{source}, doc {done + 1}: {describe_stray(doc, stray[0])}"
                _check_values(doc)
                yield doc
                done += 1
    except Exception as error:  # whatever spaCy raises on entries that do not fit each other
        raise FormatError(source, done + 1, f"this Doc is damaged ({error}). Write the file again.") from error
    if n_stray:
        warnings.warn(f"{first} This file has {n_stray:,} such docs.", stacklevel=2)


def _check_values(doc: Doc) -> None:
    """Raise now what spaCy would raise at the use of a value: KeyError on an unknown string, ValueError on entities."""
    from spacy.attrs import DEP, ENT_TYPE, LEMMA, MORPH, ORTH, TAG

    values: set[Any] = set(doc.to_array([ORTH, TAG, LEMMA, DEP, ENT_TYPE, MORPH]).ravel().tolist())
    for value in values.union(span.label for span in chain(doc.ents, *doc.spans.values())):
        doc.vocab.strings[value]


def _from_docbin(path: Path, start: Place) -> Iterator[Piece]:
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
            spaces = None if binary.flags[number].get("has_unknown_spaces") else binary.spaces[number].ravel().tolist()
            marks = [] if starts_at is None else table[:, starts_at].tolist()
            starts: list[bool | None] | None = [{0: None, 1: True}.get(mark, False) for mark in marks]
            attributes = _noted(binary.user_data[number])
        except KeyError:
            yield FormatError(path, number + 1, "the file lacks the words of this Doc."), place
            continue
        except Exception as error:  # msgpack raises many kinds on foreign bytes
            yield FormatError(path, number + 1, f"this Doc is damaged ({error})."), place
            continue
        yield Record(number + 1, "", words, spaces, starts if any(marks) else None, attributes=attributes), place


def _noted(user_data: bytes | None) -> Any:
    from ..features.noted import EXTENSION, KEY

    if user_data is None or EXTENSION.encode() not in user_data:
        return None
    with collecting():
        return msgpack_loads(user_data, use_list=False).get(KEY)


def _read_docbin(source: Path) -> Any:
    from spacy.attrs import IDS, ORTH
    from spacy.tokens import DocBin

    check_file(source)
    try:
        with collecting():
            binary = DocBin().from_disk(source)
        parts = (binary.spaces, binary.cats, binary.flags, binary.span_groups, binary.user_data)
        if any(not isinstance(part, list) or len(part) != len(binary) for part in (binary.tokens, *parts)):
            raise ValueError("its entries do not fit each other")
        if ORTH not in binary.attrs or not set(IDS.values()).issuperset(binary.attrs):
            raise ValueError("its attributes are not those of tokens")
        if not all(isinstance(string, str) for string in binary.strings):
            raise ValueError("its strings are not texts")
        return binary
    except Exception as error:  # zlib and msgpack raise many kinds on foreign bytes
        what = (
            "this is not a file in spaCy's binary format, or it was cut short. If it has another layout, name that by "
        )
        raise FormatError(source, 0, f"{what}--format (--from of convert): {', '.join(PRESETS)}.") from error
