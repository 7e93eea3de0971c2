"""Conversion of corpora: column files, CoNLL-U, XML, attribute files and exports to columns or spaCy's DocBin.

Columns are converted to columns without spaCy, so nothing but the tags of spans changes; a DocBin is read and written
through Docs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cli.inputs import show_layout
from ...corpora import CRFSUITE, DOCBIN, PRESETS, SPAN_COLUMNS, Preset, Sentence, check_scheme, layouts, write_columns
from ...corpora.columns import MISSING_ENTITY
from ...corpora.groups import DOCUMENT, group_of
from ...corpora.lines import FilePart, OnError
from ...corpora.outputs import check_output_file
from ...corpora.saved_models import read_saved_model
from ...corpora.spans import Notes
from ...errors import ConfigError, DataError, count_of
from ...pipeline.texts import load_docs, write_docs
from ...pipeline.written import COLUMNS, ColumnWriter, Form, check_tags
from ...schemes import decode_lenient, encode, scheme_named

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ...pipeline.corpus_reader import Sentences
    from ...pipeline.doc_builder import CorpusSettings

CHUNKS_KEY = "chunks"
SOURCES = (*layouts.NAMES, CRFSUITE)
TARGETS = (DOCBIN, *(name for name in PRESETS if name not in ("conllu", "xml")))
PARTS = ("train", "dev", "test")


def corpus_of(
    source: Path,
    asked: layouts.Asked,
    *,
    labels: str = "tag",
    unit: str = "sentence",
    on_invalid: str = "error",
    config: Mapping[str, Any] | None = None,
) -> CorpusSettings:
    """Return how a corpus is read.

    asked (Asked): Options on its layout; its name may be `CRFSUITE`.
    labels (str): What the labels of an attribute file annotate: tag, chunk or ent.
    unit (str): What becomes a Doc: a sentence or a document.
    on_invalid (str): Whether tags that violate the scheme are an "error", or read as conlleval does.
    config (Mapping | None): An interpolated config, whose reader says how XML is read.
    RAISES CrfError: On unknown settings, or if the layout cannot be found.
    """
    from ...pipeline.doc_builder import CorpusSettings

    for option, value, choices in (
        ("--labels", labels, ("tag", *SPAN_COLUMNS)),
        ("--unit", unit, ("sentence", "document")),
        ("--on-invalid", on_invalid, ("error", "conlleval")),
    ):
        layouts.check_choice(option, value, choices)
    if (source / "config.cfg").is_file():
        raise ConfigError(f"{source} is a pipeline. To make a model of another program of it, use export-model.")
    may_be_model = asked.name in (None, CRFSUITE) and source.is_file()
    if may_be_model and read_saved_model(source, asked.encoding or "utf8") is not None:
        raise ConfigError(f"{source} is a trained model. To make a pipeline of it, use import-model.")
    if asked.name == CRFSUITE:
        scheme = scheme_named(asked.scheme or "IOB2", "--scheme")
        columns, encoding = ("word", labels), asked.encoding or "utf8"
        layout = Preset(CRFSUITE, columns, scheme, encoding, labels, skip_invalid=asked.skip_invalid)
    else:
        if asked.name is not None:
            layouts.check_choice("--format", asked.name, SOURCES)
        layout = show_layout(source, asked, layouts.trained_layout(config or {}))
    return CorpusSettings(source, layout, unit=unit, chunks_key=CHUNKS_KEY, on_invalid=on_invalid)


def target_layout(target: Path, to: str | None, scheme: str = "IOB2", source: CorpusSettings | None = None) -> Preset:
    """Return the layout to write, in a scheme for the tags of spans.

    source (CorpusSettings | None): The corpus, whose columns a file .conll gets by default.
    to (str | None): The name of a layout, or comma-separated columns; None for that of the ending.
    RAISES ConfigError: If it cannot be written, or is unknown.
    RAISES DataError: If a file .conll is to get the columns of Docs, but none of these is annotated in all of them.
    """
    scheme = scheme_named(scheme, "--to-scheme")
    name = to or layouts.layout_by_ending(target, TARGETS) or target.suffix[1:]
    if to is None and name == COLUMNS and source is not None:
        held = _annotated(source) if source.layout.name == DOCBIN else _written(source.layout)
        return layouts.own_layout(",".join(c for c in held if c in layouts.COLUMNS))._replace(scheme=scheme)
    if to is None and name not in TARGETS:
        names = f"{', '.join(TARGETS)}, or columns, as in word,tag"
        raise ConfigError(
            f"{target}: no layout that can be written has the ending {target.suffix!r}. Give --to: {names}."
        )
    if name == CRFSUITE:
        raise ConfigError(
            "--to crfsuite: attribute files hold extracted features, which a corpus does not have. Write a column "
            f"file, or train on the corpus itself. --to takes: {', '.join(TARGETS)}, or columns."
        )
    if "," in name:
        return layouts.own_layout(name)._replace(scheme=scheme)
    layouts.check_choice("--to", name, TARGETS)
    check_tags(name, scheme)
    if name == DOCBIN:
        return layouts.DOCS
    return PRESETS[name]._replace(scheme=scheme, encoding="utf8")


def _annotated(source: CorpusSettings) -> tuple[str, ...]:
    """Return the columns that are annotated in all Docs of a file; RAISES DataError: If there are none."""
    from spacy.vocab import Vocab

    from ...pipeline.gold_file import holds

    columns = [name for name in source.layout.columns if name != "word"]
    for doc in load_docs(source.path, Vocab(), skip_invalid=source.layout.skip_invalid):
        columns = [name for name in columns if holds(doc, name, CHUNKS_KEY)]
    if not columns:
        raise DataError(f"{source.path}: no column is annotated in all Docs. Annotate them, or give --to.")
    return ("word", *columns)


def convert(
    corpus: CorpusSettings,
    target: Path,
    layout: Preset,
    nlp: Language,
    *,
    shares: Sequence[int] = (),
    seed: int = 0,
    group: str | None = None,
    document_start: str | None = None,
    force: bool = False,
) -> int:
    """Convert a corpus and return the number of Docs (DocBin) or sentences (columns) written.

    layout (Preset): The layout to write, see `target_layout`.
    nlp (Language): Its tokenizer splits texts of XML and of exports.
    shares (Sequence[int]): Of the parts for training, development and test; none for one file.
    seed (int): Of the choice of the parts.
    group (str | None): What no two parts share, see `groups.group_of`; None for marked documents, or copies of a text.
    document_start (str | None): A regular expression; a sentence in whose text it matches begins a document.
    force (bool): Replace the target if it exists.
    RAISES CrfError: On an unreadable file, and if it lacks annotation that the target holds.
    """
    from ...pipeline.corpus_reader import CorpusReader

    _check(corpus.layout, layout)
    sentences_of = _reader_of_documents(corpus, layout, document_start) if document_start is not None else None
    files = files_of(target, shares)
    for path in files:
        check_output_file(path, corpus.path, force=force)
    reader = CorpusReader(replace(corpus, group=group or ""), sentences_of)
    if layout.name == DOCBIN:
        items: Iterable[Any] = (example.reference for example in reader.stream(nlp))
    else:
        of_docs = corpus.layout.name == DOCBIN
        sentences = _sentences_of(corpus, layout, nlp, group) if of_docs else _of_one_label(reader.sentences(nlp))
        items = (_recoded(sentence, corpus, layout) for sentence in sentences)
    parts = _split(list(items), shares, seed, partial(_unit_of, by=group, corpus=corpus)) if shares else [items]
    return sum(_write(path, part, layout) for path, part in zip(files, parts, strict=True))


def _reader_of_documents(corpus: CorpusSettings, target: Preset, pattern: str) -> Sentences:
    """Return a reader of sentences that begins a document at each one in whose text a pattern matches.

    RAISES ConfigError: If the pattern cannot be read, or one of the files has no sentences that make documents.
    The reader raises DataError at the end of a file in which no sentence matches.
    """
    from ...pipeline.corpus_reader import read_sentences

    if corpus.layout.spans or corpus.layout.form or corpus.layout.name in (DOCBIN, CRFSUITE):
        raise ConfigError("--document-start is for columns and CoNLL-U, whose sentences may be parts of documents.")
    if target.name == DOCBIN and corpus.unit == "sentence":
        raise ConfigError("--document-start has no effect on Docs of sentences. Give --unit document, too.")
    try:
        begins = re.compile(pattern).search
    except re.error as error:
        raise ConfigError(f"--document-start {pattern!r} is no regular expression: {error}.") from error

    def read(nlp: Language, part: FilePart, on_error: OnError, notes: Notes) -> Iterator[Sentence]:
        n_read = n_begun = 0
        for sentence in read_sentences(corpus.layout, nlp, part, on_error, notes):
            n_read += 1
            n_begun += begins(sentence.text) is not None
            yield sentence._replace(document=sentence.document + n_begun)
        if n_read and not n_begun:
            raise DataError(
                f"--document-start {pattern!r} matches in no sentence of {part.path}. Spaces are between all words."
            )

    return read


def files_of(target: Path, shares: Sequence[int]) -> list[Path]:
    """Return the files to write: one for each share, or the target itself."""
    return [target.with_stem(f"{target.stem}-{part}") for part, _ in zip(PARTS, shares, strict=False)] or [target]


def shares_of(text: str | None) -> tuple[int, ...]:
    """Return the shares of an option such as "80,10,10", none if it is not given.

    RAISES ConfigError: If it is anything else.
    """
    shares = [part.strip() for part in (text or "").split(",")]
    if text is None:
        return ()
    if not 2 <= len(shares) <= 3 or not all(part.isdecimal() and int(part) for part in shares):
        raise ConfigError(f"--split {text}: give two or three numbers above 0, such as 80,10,10: train, dev, test.")
    return tuple(map(int, shares))


def _written(layout: Preset) -> tuple[str, ...]:
    return tuple(name for name in layout.columns if name != "_")


def _write(target: Path, items: Iterable[Any], layout: Preset) -> int:
    if layout.name != DOCBIN:
        return write_columns(target, items, _written(layout))
    return write_docs(target, items)


def _unit_of(item: Any, by: str | None, corpus: CorpusSettings) -> str:
    """Return the group of a Doc or a sentence; without one, its document if it is marked, or its text."""
    if isinstance(item, Sentence):
        if by is not None:
            return group_of(item, by, corpus.path)
        return group_of(item, DOCUMENT, corpus.path) if item.document else item.text
    from ...pipeline.evidence import group_of_doc

    return item.text if by is None else group_of_doc(item, by)


def _split(items: list[Any], shares: Sequence[int], seed: int, unit_of: Callable[[Any], str]) -> list[list[Any]]:
    """Return Docs or sentences by part, in their order; those of a unit stay together."""
    units = list(map(unit_of, items))
    names = list(dict.fromkeys(units))
    order = np.random.default_rng(seed).permutation(len(names))
    ends = np.cumsum(shares) * len(names) // sum(shares)
    part_of = {names[i]: int(np.searchsorted(ends, place, side="right")) for place, i in enumerate(order.tolist())}
    parts: list[list[Any]] = [[] for _ in shares]
    for unit, item in zip(units, items, strict=True):
        parts[part_of[unit]].append(item)
    if not all(parts):
        counted = f"{len(names)} texts, documents or groups"
        raise DataError(f"--split: {counted} are too few for {len(parts)} parts of these shares.")
    return parts


def _check(source: Preset, target: Preset) -> None:
    """RAISES ConfigError: If a layout lacks columns that another holds."""
    if source.name == target.name == DOCBIN:
        raise ConfigError("From spacy to spacy, a conversion would only copy the file.")
    if DOCBIN in (source.name, target.name):
        return
    if lacking := [name for name in _written(target) if name not in source.columns]:
        possible = [name for name in TARGETS if name == DOCBIN or set(PRESETS[name].columns) <= set(source.columns)]
        raise ConfigError(
            f"{target.name} files hold the columns {', '.join(lacking)}, which {source.name} files do not. "
            f"{source.name} can become: {', '.join(possible)}."
        )


def _recoded(sentence: Sentence, corpus: CorpusSettings, layout: Preset) -> Sentence:
    """Return a sentence with spans in the scheme of the target, without tokens of white space, as exports have them."""
    columns = dict(sentence.columns)
    for name in SPAN_COLUMNS:
        if name not in layout.columns:
            continue
        old = columns[name]
        tags = ["O" if tag == MISSING_ENTITY else tag for tag in old]  # missing entities are outside the scheme
        if corpus.on_invalid == "error":
            scheme = "IOB2" if corpus.layout.name == DOCBIN else corpus.layout.scheme
            check_scheme(sentence._replace(columns={name: tags}), name, scheme, corpus.path)
        new = encode(decode_lenient(tags), len(tags), layout.scheme)
        columns[name] = [was if was == MISSING_ENTITY else tag for was, tag in zip(old, new, strict=True)]
    if corpus.layout.spans is None:
        return sentence._replace(columns=columns)
    kept = [i for i, word in enumerate(sentence.words) if not word.isspace()]
    columns = {name: [values[i] for i in kept] for name, values in columns.items()}
    return sentence._replace(words=[sentence.words[i] for i in kept], columns=columns, document=0)


def _sentences_of(
    corpus: CorpusSettings, layout: Preset, nlp: Language, group: str | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of the Docs of a file, with spans tagged in IOB2; with their groups, if asked for."""
    from ...pipeline.evidence import KEY, group_of_doc

    held, line, lossy = tuple(name for name in _written(layout) if name != "word"), 1, 0
    writer = ColumnWriter(Form(held, CHUNKS_KEY, (), {}), ("word", *held), scores=False)
    for number, doc in enumerate(load_docs(corpus.path, nlp.vocab, skip_invalid=corpus.layout.skip_invalid)):
        for name in held:
            _check_annotation(doc, name, layout)
        noted = {} if group is None else {group: group_of_doc(doc, group)}
        lossy += bool(doc.user_data.get(KEY))
        for sentence in writer.sentences(doc):
            document = number if corpus.unit == "document" else 0
            yield sentence._replace(line=line, document=document, comments=noted)
            line += len(sentence.words) + 1
    _warn_of_loss(lossy)


def _of_one_label(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield sentences, and warn of those with several labels at one place, which are unknown in columns."""
    lossy = 0
    for sentence in sentences:
        lossy += bool(sentence.alternatives)
        yield sentence
    _warn_of_loss(lossy)


def _warn_of_loss(number: int) -> None:
    if number:
        texts = count_of(number, "text")
        warnings.warn(
            f"Columns do not hold the candidates and probabilities of labels in {texts}; a file .spacy keeps them.",
            stacklevel=2,
        )


def _check_annotation(doc: Doc, name: str, layout: Preset) -> None:
    """RAISES DataError: If a Doc lacks the annotation of a column, or has chunks that overlap."""
    from ...pipeline.gold_file import holds

    if not holds(doc, name, CHUNKS_KEY):
        raise DataError(
            f"The doc {doc.text[:60]!r} has no {name} annotation, which {layout.name} files hold. "
            "Choose another --to, or annotate the docs."
        )
    if name == "chunk":
        encode([(span.start, span.end, span.label_) for span in doc.spans[CHUNKS_KEY]], len(doc), "IOB2")
