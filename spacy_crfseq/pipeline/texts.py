"""Texts in files for a pipeline: raw texts, the words of a corpus, and annotated texts to score it on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from catalogue import REGISTRY, Registry
from srsly import msgpack_loads
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from ..corpora import DOCBIN, PRESETS, TOKEN_COLUMNS, Preset, Sentence, check_file, read
from ..corpora.layouts import RAW, corpus_block
from ..corpora.lines import FilePart, Invalid, OnError, checked, lines_of
from ..corpora.paths import corpus_files
from ..corpora.spans.json_formats import text_of
from ..corpora.spans.json_values import json_values
from ..errors import DataError, FormatError, count_of
from ..files import collecting, replacing

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

_ASSIGNED = {
    "token.tag": "tag", "token.pos": "pos", "token.morph": "morph", "token.lemma": "lemma",
    "doc.ents": "ent", "doc.spans": "chunk",
}  # fmt: skip


class Document(NamedTuple):
    """A text in a file: raw text without tokens, or sentences.

    line: Its (first) line in the file; of a DocBin, the number of the Doc; from 1.
    text: Where there are no sentences.
    marked: Whether sentence starts are known.
    entry: The object of a line of JSON.
    """

    line: int
    text: str = ""
    sentences: Sequence[Sentence] = ()
    marked: bool = False
    entry: Mapping[str, Any] = {}

    @property
    def size(self) -> int:
        """The approximate number of characters."""
        return len(self.text) + sum(len(word) + 1 for sentence in self.sentences for word in sentence.words)


class Text(NamedTuple):
    """The tokens of a text without annotation.

    line (int): Its line in the file; of a DocBin or a corpus, the number of the Doc; from 1.
    meta (dict): Its metadata in the file.
    file (str): Its path, where there are several; else empty.
    """

    doc: Doc
    line: int
    meta: dict[str, Any]
    file: str = ""

    @property
    def place(self) -> str:
        """The line, after the file if there are several."""
        return f"{self.file}:{self.line}" if self.file else f"line {self.line}"


def read_parts(
    nlp: Language, parts: Sequence[tuple[FilePart, Preset]], others: Sequence[Language] = ()
) -> Iterator[Text]:
    """Stream the texts of parts of files in their layouts, but empty texts; without annotation.

    A text of a corpus is a sentence, or a marked document if the pipeline reads documents.
    others (Sequence[Language]): Pipelines that read the same texts: these have the columns, and are the documents, that
        one of them needs.
    RAISES CrfError: If a line is reached that cannot be read, see `lines.Invalid`.
    """
    skip = parts[0][1].skip_invalid if parts else None
    invalid = Invalid(skip, partly=any(part.begin or part.end for part, _ in parts))
    pipelines, named = (nlp, *others), len(parts) > 1
    texts = (text for part, layout in parts for text in _texts_of(pipelines, part, layout, invalid, named=named))
    return invalid.passing(texts)


def _texts_of(
    pipelines: Sequence[Language], part: FilePart, layout: Preset, on_error: OnError, *, named: bool
) -> Iterator[Text]:
    nlp, is_corpus, path = pipelines[0], layout.name not in RAW, part.path
    join = any(unit_of(pipeline) == "document" for pipeline in pipelines)
    documents, file = read_documents(path, layout, part.open(), join=join), str(path) if named else ""
    given = list(dict.fromkeys(column for pipeline in pipelines for column in given_columns(pipeline, layout)))

    def note(error: FormatError) -> None:
        on_error(part.in_file(error))

    docs = checked(documents, path, note, empty="no sentence" if is_corpus else "")
    for number, document in enumerate(docs, start=1):
        meta = document.entry.get("meta", {})
        if (size := len(document.text)) > nlp.max_length:
            what = f"a text of {size:,} characters; {nlp.max_length:,} are the most."
            note(FormatError(path, document.line, what))
        elif not isinstance(meta, dict):
            note(FormatError(path, document.line, 'expected an object under "meta".'))
        else:
            doc = make_doc(nlp, document, given)
            if len(doc) and not doc.text.isspace():
                yield Text(doc, number if is_corpus else document.line, meta, file)


def given_columns(nlp: Language, layout: Preset) -> list[str]:
    """Return the columns of a corpus that features read and no component sets."""
    return missing_columns(nlp, layout) if layout.name not in RAW else []


def read_documents(
    path: Path, layout: Preset, stream: IO[bytes] | None = None, *, join: bool = False
) -> Iterator[Document | FormatError]:
    """Yield the texts of a file, and errors in place of those that cannot be read.

    path (Path): The file, packed by gzip if its name ends in .gz; `STDIN` for standard input.
    layout (Preset): One of `TEXTS`, or columns; a DocBin is unpacked in memory.
    stream (IO | None): The open file or a part of it, if it is open.
    join (bool): Join the sentences of each document that a corpus marks.
    """
    if layout.name == DOCBIN:
        return _from_docbin(path)
    if layout.name == "jsonl":
        return (_from_record(path, record) for record in json_values(path, layout.encoding, stream))
    if layout.name in RAW:
        lines = lines_of(path, layout.encoding, stream, returns=True)
        return (
            line if isinstance(line, FormatError) else Document(*line)
            for line in lines
            if isinstance(line, FormatError) or (line[1] and not line[1].isspace())
        )
    return _from_sentences(read(path, layout, stream), join)


def _from_record(path: Path, record: tuple[int, Any] | FormatError) -> Document | FormatError:
    if isinstance(record, FormatError):
        return record
    line, value = record
    try:
        text = text_of(value)
    except DataError as error:
        return FormatError(path, line, str(error))
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return Document(line, str(text), entry=value)
    # what else an export has is not kept: its annotations would be read as those of the text that a command writes
    kept = {key: value[key] for key in ("id", "meta") if key in value} if isinstance(value, dict) else {}
    if isinstance(text, str):
        return Document(line, text, entry=kept)
    return Document(line, sentences=[Sentence(text, {}, None, line)], entry=kept)


def _from_sentences(items: Iterator[Sentence | FormatError], join: bool) -> Iterator[Document | FormatError]:
    begun: list[Sentence] = []  # sentences of a marked document
    for sentence in items:
        if isinstance(sentence, FormatError):
            yield sentence
            continue
        if begun and sentence.document != begun[0].document:
            yield Document(begun[0].line, sentences=begun, marked=True)
            begun = []
        if join and sentence.document:
            begun.append(sentence)
        else:
            yield Document(sentence.line, sentences=[sentence])
    if begun:
        yield Document(begun[0].line, sentences=begun, marked=True)


def make_doc(nlp: Language, document: Document, given: Sequence[str] = ()) -> Doc:
    """Return a text as a Doc of the pipeline's vocab, with the columns `given` of its sentences."""
    from spacy.tokens import Doc

    from ..features.noted import KEY

    sentences = document.sentences
    if not sentences:
        return nlp.make_doc(document.text)
    columns: dict[str, Any] = {name: [v for sentence in sentences for v in sentence.columns[name]] for name in given}
    if "pos" in columns:
        columns["pos"] = [value.replace("_", "") for value in columns["pos"]]
    spaces = (
        None if sentences[0].spaces is None else [space for sentence in sentences for space in sentence.spaces or ()]
    )
    starts: Any = [i == 0 for sentence in sentences for i in range(len(sentence.words))] if document.marked else None
    doc = Doc(
        nlp.vocab,
        words=[word for sentence in sentences for word in sentence.words],
        spaces=spaces,
        sent_starts=starts,
        tags=columns.get("tag"),
        pos=columns.get("pos"),
        morphs=columns.get("morph"),
        lemmas=columns.get("lemma"),
    )
    if sentences[0].attributes is not None:
        doc.user_data[KEY] = [names for sentence in sentences for names in sentence.attributes]
    return doc


def _remember_plugins(registry: Registry) -> None:
    """Let a registry of srsly search the entry points of all packages once, and again when plug-ins are registered.

    It searches them for each value that is packed or unpacked, which takes longer than anything else that is done to
    read or write a Doc.
    """
    search: Callable[[], dict[str, Any]] = registry.get_all
    namespace, kept = registry.namespace, dict[None, tuple[int, dict[Any, Any], dict[str, Any]]]()

    def get_all() -> dict[str, Any]:
        number, registered, plugins = kept.get(None, (-1, {}, {}))
        if number != len(REGISTRY) or any(REGISTRY.get(key) is not plugin for key, plugin in registered.items()):
            registered = {key: plugin for key, plugin in REGISTRY.copy().items() if key[:-1] == namespace}
            plugins = search()
            kept[None] = len(REGISTRY), registered, plugins
        return plugins

    registry.get_all = get_all


_remember_plugins(msgpack_encoders)
_remember_plugins(msgpack_decoders)


def write_docs(path: Path, docs: Iterable[Doc]) -> int:
    """Write Docs and their user data in spaCy's binary format, and return their number."""
    from spacy.tokens import DocBin

    binary = DocBin(docs=docs, store_user_data=True)
    with replacing(path) as temporary:
        binary.to_disk(temporary)
    return len(binary)


def load_docs(
    source: Path, vocab: Vocab, on_error: OnError | None = None, *, skip_invalid: bool | None = None
) -> Iterator[Doc]:
    """Yield the Docs of files in spaCy's binary format, see `paths.resolve`.

    Tags I- that continue no entity are read as conlleval does.
    on_error (OnError | None): Receives the errors of damaged Docs, which are then left out.
    skip_invalid (bool | None): Without `on_error`, leave these out and warn; None where a user cannot choose.
    RAISES FormatError: If a file is none, and at a damaged Doc, see `lines.Invalid`.
    """
    invalid = Invalid(skip_invalid)
    files = corpus_files(source)
    return invalid.passing(doc for file in files for doc in _load_file(file, vocab, on_error or invalid))


def _load_file(source: Path, vocab: Vocab, on_error: OnError) -> Iterator[Doc]:
    from .tasks import begin_stray_entities, describe_stray

    n_stray, first = 0, ""
    for number, doc in enumerate(_unpacked(_read_docbin(source), vocab), start=1):
        try:
            if isinstance(doc, Exception):
                raise doc
            stray = begin_stray_entities(doc)
            _check_values(doc)
        except Exception as error:  # whatever spaCy raises on entries that do not fit each other
            on_error(FormatError(source, number, f"this Doc is damaged ({error}). Write the file again."))
            continue
        if stray:
            n_stray, first = n_stray + 1, first or f"{source}, doc {number}: {describe_stray(doc, stray[0])}"
        yield doc
    if n_stray:
        warnings.warn(f"{first} This file has {count_of(n_stray, 'such doc')}.", stacklevel=2)


def _unpacked(binary: Any, vocab: Vocab) -> Iterator[Any]:
    """Yield Docs, and exceptions in place of those that cannot be unpacked."""
    entries = ("tokens", "spaces", "cats", "flags", "span_groups", "user_data")
    rest = binary
    while rest.tokens:
        docs, n_done = rest.get_docs(vocab), 0
        while n_done < len(rest):
            n_done += 1
            try:
                with collecting():
                    doc = next(docs)
            except Exception as error:  # behind which the generator ends
                yield error
                break
            yield doc
        left = copy(rest)
        left.strings = set()  # which the vocab has by now
        for name in entries:
            setattr(left, name, getattr(rest, name)[n_done:])
        rest = left


def _check_values(doc: Doc) -> None:
    """Raise the error of spaCy at the use of a value: KeyError on an unknown string, ValueError on wrong entities."""
    from spacy.attrs import DEP, ENT_TYPE, LEMMA, MORPH, ORTH, TAG

    values: set[Any] = set(doc.to_array([ORTH, TAG, LEMMA, DEP, ENT_TYPE, MORPH]).ravel().tolist())
    for value in values.union(span.label for span in chain(doc.ents, *doc.spans.values())):
        doc.vocab.strings[value]


def _from_docbin(path: Path) -> Iterator[Document | FormatError]:
    """Yield the words of Docs, without making Docs: their strings need not be in any vocab."""
    from spacy.attrs import ORTH, SENT_START
    from spacy.strings import get_string_id

    binary = _read_docbin(path)
    text_of = {get_string_id(string): string for string in binary.strings}
    words_at = binary.attrs.index(ORTH)
    starts_at = binary.attrs.index(SENT_START) if SENT_START in binary.attrs else None
    for number, table in enumerate(binary.tokens, start=1):
        try:
            words = [text_of[orth] for orth in table[:, words_at].tolist()]
            unknown = binary.flags[number - 1].get("has_unknown_spaces")
            spaces = None if unknown else binary.spaces[number - 1].ravel().tolist()
            marks = [] if starts_at is None else table[:, starts_at].tolist()
            attributes = _noted(binary.user_data[number - 1])
            begins = [0, *(i for i, mark in enumerate(marks) if mark == 1 and i), len(words)]
            sentences = [
                Sentence(words[a:b], {}, spaces and spaces[a:b], number, attributes=attributes and attributes[a:b])
                for a, b in pairwise(begins)
            ]
        except KeyError:
            yield FormatError(path, number, "the file lacks the words of this Doc.")
            continue
        except Exception as error:  # msgpack raises many kinds on foreign bytes
            yield FormatError(path, number, f"this Doc is damaged ({error}).")
            continue
        yield Document(number, "", sentences, any(marks))


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
        raise FormatError(
            source, 0,
            "this is not a file in spaCy's binary format, or it was cut short. If it has another layout, name that by "
            f"--format (--from of convert): {', '.join(PRESETS)}.",
        ) from error  # fmt: skip


# Columns


def predicted_columns(nlp: Language) -> set[str]:
    """Return which columns of corpus files a pipeline predicts."""
    return {column for name, pipe in nlp.pipeline for column in _columns_of(nlp, name, pipe)}


def _columns_of(nlp: Language, name: str, pipe: Any) -> list[str]:
    from .component import CRFComponent

    if isinstance(pipe, CRFComponent):
        return [pipe.annotation.column]
    return [_ASSIGNED[key] for key in nlp.get_pipe_meta(name).assigns if key in _ASSIGNED]


def predicted_labels(nlp: Language) -> dict[str, set[str]]:
    """Return the labels that the components of a pipeline predict, by columns, of those whose components know any."""
    labels = dict[str, set[str]]()
    for name, pipe in nlp.pipeline:
        if own := getattr(pipe, "labels", ()):
            for column in _columns_of(nlp, name, pipe):
                labels.setdefault(column, set()).update(own)
    return labels


def chunks_key(nlp: Language) -> str:
    """Return the key of doc.spans of the pipeline's first chunker."""
    settings = [getattr(pipe, "cfg", None) or {} for _, pipe in nlp.pipeline]
    return str(next((cfg["spans_key"] for cfg in settings if "spans_key" in cfg), "chunks"))


def missing_columns(nlp: Language, layout: Preset) -> list[str]:
    """Return the columns of a file that features of a pipeline read but none of its components sets.

    Those of an XML file are all to be predicted.
    """
    columns = layout.columns if layout.form is None else ()
    predicted = predicted_columns(nlp)
    reads = {column.lower() for _, pipe in nlp.pipeline for column in getattr(pipe, "reads", ())}
    return [name for name in TOKEN_COLUMNS if name in reads and name in columns and name not in predicted]


def unit_of(nlp: Language) -> str:
    """Return the unit of a Doc in training, by the config of the pipeline: sentence, passage or document.

    A pipeline without features of the whole document reads sentences instead of documents.
    """
    from ..features.protocol import WordAttributes
    from .component import CRFComponent

    block = corpus_block(nlp.config.interpolate(), "train_corpus")
    of_sentences = str(block.get("@readers", "")).startswith("spacy_crfseq.Conll")
    unit = str(block.get("unit", "sentence" if of_sentences else "document"))
    pipes = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, CRFComponent)]
    of_words = all(isinstance(plugin, WordAttributes) for pipe in pipes for plugin in pipe.method.attributes.values())
    return "sentence" if unit == "document" and of_words else unit


def names_of(given: str | None) -> list[str] | None:
    """Return the names in a comma-separated option; None if it is not given."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]
