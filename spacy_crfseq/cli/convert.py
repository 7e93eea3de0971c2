"""``crfseq convert``: between column files, CoNLL-U, CRFsuite's attribute files and spaCy's DocBin.

Two ways: columns to columns never leave the sentences of `corpora`, so nothing but tags of spans changes; a DocBin is
read or written through Docs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..corpora import (
    CUSTOM,
    DOCBIN,
    PRESETS,
    SPAN_COLUMNS,
    Preset,
    Sentence,
    check_columns,
    check_scheme,
    read_columns,
    read_conllu,
    write_columns,
)
from ..corpora.crfsuite import WORD, read_crfsuite, sentence_of
from ..corpora.layouts import COLUMNS, SCHEMES, check_choice
from ..corpora.outputs import check_output_file
from ..corpora.presets import ANNOTATIONS
from ..errors import ConfigError, DataError
from ..files import replacing
from ..pipeline.texts import load_docs
from ..pipeline.written import MISSING_ENTITY, sentences_of
from ..schemes import Span, decode_lenient, encode
from . import _options as options
from ._app import crfseq_cli
from ._console import printer, reported_errors

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    Reader = Callable[[Language], Iterator[Example]]

CRFSUITE = "crfsuite"
CHUNKS_KEY = "chunks"
_SOURCES = (DOCBIN, *PRESETS, CUSTOM, CRFSUITE, ANNOTATIONS.name)
_TARGETS = (DOCBIN, *(name for name in PRESETS if name != "conllu"))


@crfseq_cli.command("convert")
def convert_cli(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="File to read")],
    target: Annotated[Path, typer.Argument(metavar="OUTPUT", help="File to write")],
    from_: Annotated[str, typer.Option("--from", "-f", help=f"Format of INPUT: {', '.join(_SOURCES)}")],
    to: Annotated[str, typer.Option("--to", "-t", help=f"Format of OUTPUT: {', '.join(_TARGETS)}")],
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language code, for DocBin and JSONL files")] = "en",
    scheme: Annotated[
        str, typer.Option("--scheme", "-s", help="Tags of spans in OUTPUT: IOB1, IOB2 or BILUO")
    ] = "IOB2",
    from_scheme: Annotated[str | None, typer.Option(help="Tags of spans in INPUT [as usual in its format]")] = None,
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="What a doc of a DocBin file is: sentence or document")
    ] = "sentence",
    on_invalid: Annotated[
        str, typer.Option(help="On tags that break the scheme: error, or conlleval to read on")
    ] = "error",
    encoding: Annotated[str | None, typer.Option(help="Encoding of INPUT [utf8]")] = None,
    columns: Annotated[
        str,
        typer.Option(help=f"For --from columns: what each column holds, such as word,tag,_,ent; {', '.join(COLUMNS)}"),
    ] = "",
    labels: Annotated[str, typer.Option(help="For --from crfsuite: what the labels are: tag, chunk or ent")] = "tag",
    word: Annotated[str, typer.Option(help="For --from crfsuite: how the attribute begins that is the word")] = WORD,
    force: options.Force = False,
) -> None:
    """Convert a corpus: column files, CoNLL-U, CRFsuite's attribute files, exports of annotation tools, DocBin.

    conll2000 holds word, tag and chunk; conll2002 word, tag and ent; conll2003 word, tag, chunk and ent; iob word and
    ent; columns what --columns names, "_" being left out; jsonl is an export of Prodigy, doccano or Label Studio, whose
    texts are tokenized with the rules of --lang. Columns that OUTPUT has no room for are left out. Docs from
    attribute files keep their attributes as doc._.crf_attributes. OUTPUT appears only when it is complete.

    \b
    Example:
      python -m spacy crfseq convert train.conll train.spacy \\
          --from conll2003 --to spacy
      python -m spacy crfseq convert train.conll train.iob --from conll2003 \\
          --to iob --scheme BILUO
      python -m spacy crfseq convert train.conll train.spacy --from columns \\
          --columns word,tag,_,ent --to spacy
      python -m spacy crfseq convert train.crfsuite train.spacy \\
          --from crfsuite --to spacy
      python -m spacy crfseq convert annotated.jsonl train.spacy \\
          --from jsonl --to spacy --lang es
    """
    with reported_errors():
        names = tuple(name.strip() for name in columns.split(",")) if columns else ()
        settings = Settings(from_, to, lang, scheme, from_scheme, unit, on_invalid, encoding, names, labels, word)
        count = convert(source, target, settings, force=force)
        printer().good(f"Converted {count:,} {'docs' if to == DOCBIN else 'sentences'}: {target}")


class Settings(NamedTuple):
    """How to convert; see the help of the command."""

    source: str
    target: str
    lang: str = "en"
    scheme: str = "IOB2"
    from_scheme: str | None = None
    unit: str = "sentence"
    on_invalid: str = "error"
    encoding: str | None = None
    columns: tuple[str, ...] = ()
    labels: str = "tag"
    word: str = WORD

    @property
    def layout(self) -> Preset:
        """How the source is laid out, unless it is a DocBin."""
        if self.source == CUSTOM:
            return Preset(CUSTOM, self.columns, "IOB2", "utf8", "")
        if self.source == CRFSUITE:
            return Preset(CRFSUITE, ("word", self.labels), "IOB2", "utf8", self.labels)
        return ANNOTATIONS if self.source == ANNOTATIONS.name else PRESETS[self.source]


def convert(source: Path, target: Path, settings: Settings, *, force: bool = False) -> int:
    """Convert a file and return how many docs (DocBin) or sentences (columns) were written.

    RAISES CrfError: On unknown names, on a file that cannot be read, and where it lacks what the target holds.
    """
    _check(settings)
    check_output_file(target, source, force=force)
    if settings.target == DOCBIN:
        from spacy.tokens import DocBin

        binary = DocBin(docs=_read_docs(source, settings), store_user_data=True)
        with replacing(target) as temporary:
            binary.to_disk(temporary)
        return len(binary)
    if settings.source == DOCBIN:
        sentences = _sentences_of(source, settings)
    else:
        sentences = _recoded(_read_sentences(source, settings), source, settings)
    return write_columns(target, sentences, PRESETS[settings.target].columns)


def _check(settings: Settings) -> None:
    check_choice("--from", settings.source, _SOURCES)
    if settings.target == CRFSUITE:
        raise ConfigError(
            "--to crfsuite: attribute files hold what features make of a text, and a corpus has no features. Write a "
            f"column file for people, or train on the corpus as it is. --to takes: {', '.join(_TARGETS)}."
        )
    check_choice("--to", settings.target, _TARGETS)
    if bool(settings.columns) != (settings.source == CUSTOM):
        needs = "needs --columns" if settings.source == CUSTOM else "has columns of its own; leave --columns out"
        raise ConfigError(f"--from {settings.source} {needs}, or write --from columns --columns word,tag,_,ent.")
    for name in settings.columns:
        check_choice("--columns", name, COLUMNS)
    if settings.columns:
        check_columns(settings.columns)
    check_choice("--labels", settings.labels, ("tag", *SPAN_COLUMNS))
    check_choice("--unit", settings.unit, ("sentence", "document"))
    check_choice("--on-invalid", settings.on_invalid, ("error", "conlleval"))
    check_choice("--scheme", settings.scheme, SCHEMES)
    check_choice("--from-scheme", settings.from_scheme or "IOB2", SCHEMES)
    if DOCBIN in (settings.source, settings.target):
        return
    held = settings.layout.columns
    lacking = [name for name in PRESETS[settings.target].columns if name not in held]
    if lacking:
        possible = [name for name in _TARGETS if name == DOCBIN or set(PRESETS[name].columns) <= set(held)]
        raise ConfigError(
            f"{settings.target} files hold the columns {', '.join(lacking)}, which {settings.source} files do not. "
            f"{settings.source} can become: {', '.join(possible)}."
        )


def _read_sentences(source: Path, settings: Settings) -> Iterator[Sentence]:
    if settings.source == "conllu":
        return read_conllu(source)
    if settings.source == CRFSUITE:
        return (sentence_of(found, settings.labels, settings.word) for found in read_crfsuite(source))
    if settings.source == ANNOTATIONS.name:
        return _annotated(source, settings)
    layout = settings.layout
    return read_columns(source, layout.columns, encoding=settings.encoding or layout.encoding)


def _annotated(source: Path, settings: Settings) -> Iterator[Sentence]:
    """Yield the texts of an export without tokens of white space, which columns cannot hold."""
    import spacy

    from ..pipeline.readers import annotated_sentences

    for sentence in annotated_sentences(spacy.blank(settings.lang), source):
        kept = [i for i, word in enumerate(sentence.words) if not word.isspace()]
        tags = [sentence.columns["ent"][i] for i in kept]
        yield sentence._replace(words=[sentence.words[i] for i in kept], columns={"ent": tags}, spaces=None, document=0)


def _recoded(sentences: Iterable[Sentence], source: Path, settings: Settings) -> Iterator[Sentence]:
    scheme = settings.from_scheme or settings.layout.scheme
    columns = [name for name in SPAN_COLUMNS if name in PRESETS[settings.target].columns]
    for sentence in sentences:
        recoded = dict(sentence.columns)
        for name in columns:
            old = sentence.columns[name]
            known = ["O" if tag == MISSING_ENTITY else tag for tag in old]  # missing entities belong to no scheme
            if settings.on_invalid == "error":
                check_scheme(sentence._replace(columns={name: known}), name, scheme, source)
            new = encode(decode_lenient(known), len(known), settings.scheme)
            recoded[name] = [was if was == MISSING_ENTITY else tag for was, tag in zip(old, new, strict=True)]
        yield sentence._replace(columns=recoded)


def _read_docs(source: Path, settings: Settings) -> Iterator[Doc]:
    import spacy

    from ..pipeline import readers

    if settings.source == DOCBIN:
        raise ConfigError("--from spacy --to spacy would only copy the file.")
    if settings.source == "conllu":
        reader: Reader = readers.create_conllu_reader(source, [], settings.unit)
    elif settings.source == ANNOTATIONS.name:
        reader = readers.create_annotation_reader(source)
    elif settings.source == CRFSUITE:
        scheme = settings.from_scheme or "IOB2"
        reader = readers.create_crfsuite_reader(
            source, settings.labels, scheme, settings.word, CHUNKS_KEY, settings.on_invalid
        )
    else:
        layout = settings.layout
        scheme, encoding = settings.from_scheme or layout.scheme, settings.encoding or layout.encoding
        reader = readers.create_conll_reader(
            source, list(layout.columns), scheme, [], settings.unit, CHUNKS_KEY, settings.on_invalid, encoding
        )
    return (example.reference for example in reader(spacy.blank(settings.lang)))


def _sentences_of(source: Path, settings: Settings) -> Iterator[Sentence]:
    import spacy

    line = 1
    for number, doc in enumerate(load_docs(source, spacy.blank(settings.lang).vocab)):
        columns = {name: _column(doc, name, settings) for name in PRESETS[settings.target].columns}
        document = number if settings.unit == "document" else 0
        for start, end in sentences_of(doc):
            kept = [i for i in range(start, end) if not doc[i].is_space]
            if not kept:
                continue
            parts = {name: [values[i] for i in kept] for name, values in columns.items()}
            for name in SPAN_COLUMNS:
                if name in parts:
                    parts[name] = _span_tags(doc, name, start, end, parts[name], settings.scheme)
            yield Sentence(parts.pop("word"), parts, None, line, document, {})
            line += len(kept) + 1


def _column(doc: Doc, name: str, settings: Settings) -> list[str]:
    """Return a column of all tokens; of spans, only where they are missing."""
    held = {"tag": "TAG", "ent": "ENT_IOB"}
    if name != "word" and not (doc.has_annotation(held[name]) if name in held else CHUNKS_KEY in doc.spans):
        raise DataError(
            f"The doc {doc.text[:60]!r} has no {name} annotation, which {settings.target} files hold. "
            "Choose another --to, or annotate the docs."
        )
    if name in ("word", "tag"):
        return [token.text if name == "word" else token.tag_ for token in doc]
    return [MISSING_ENTITY if name == "ent" and token.ent_iob == 0 else "" for token in doc]


def _span_tags(doc: Doc, name: str, start: int, end: int, marks: list[str], scheme: str) -> list[str]:
    """Return tags of the tokens of a sentence that are no white space; `marks` are those of missing ones."""
    before = [0, *accumulate(int(not token.is_space) for token in doc[start:end])]
    spans = [
        Span(before[span.start - start], before[span.end - start], span.label_)
        for span in (doc.ents if name == "ent" else doc.spans[CHUNKS_KEY])
        if start <= span.start and span.end <= end
    ]
    tags = encode([span for span in spans if span.end > span.start], len(marks), scheme)
    return [mark or tag for mark, tag in zip(marks, tags, strict=True)]
