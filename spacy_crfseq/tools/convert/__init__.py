"""``crfseq convert``: convert between column files, CoNLL-U, XML, CRFsuite's attribute files and spaCy's DocBin.

Columns are converted to columns without spaCy, so nothing but the tags of spans changes; a DocBin is read and written
through Docs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora import CUSTOM, DOCBIN, PRESETS, SPAN_COLUMNS, Preset, Sentence, check_scheme, layouts, write_columns
from ...corpora.columns import MISSING_ENTITY
from ...corpora.crfsuite import WORD
from ...corpora.outputs import check_output_file
from ...corpora.saved_models import read_saved_model
from ...corpora.xml import XMLForm
from ...errors import ConfigError, DataError
from ...files import replacing
from ...pipeline.project import load_config
from ...pipeline.texts import load_docs
from ...pipeline.written import ColumnWriter, Form
from ...schemes import decode_lenient, encode

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

CRFSUITE = "crfsuite"
CHUNKS_KEY = "chunks"
_SOURCES = (DOCBIN, *PRESETS, CUSTOM, CRFSUITE, layouts.ANNOTATIONS.name)
_TARGETS = (DOCBIN, *(name for name in PRESETS if name not in ("conllu", "xml")), CUSTOM)
_FROM_HELP = f"Layout of INPUT: {', '.join(_SOURCES)} [by its ending, else by its first lines]"


def convert_file(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="File to read")],
    target: Annotated[Path, typer.Argument(metavar="OUTPUT", help="File to write")],
    from_: Annotated[str | None, typer.Option("--from", "--format", "-f", help=_FROM_HELP)] = None,
    to: Annotated[
        str | None, typer.Option("--to", "-t", help=f"Layout of OUTPUT: {', '.join(_TARGETS)} [by its ending]")
    ] = None,
    lang: options.Lang = "en",
    encoding: Annotated[str | None, typer.Option(help=layouts.ENCODING_HELP)] = None,
    columns: Annotated[str | None, typer.Option(help=layouts.COLUMNS_HELP)] = None,
    scheme: Annotated[
        str, typer.Option("--scheme", "-s", help="Tag scheme of spans in OUTPUT: IOB1, IOB2 or BILUO")
    ] = "IOB2",
    from_scheme: Annotated[str | None, typer.Option(help="Tag scheme of spans in INPUT [that of its layout]")] = None,
    on_invalid: Annotated[
        str,
        typer.Option(help="Tags that violate the scheme: error, or conlleval to read them as the CoNLL scorer does"),
    ] = "error",
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="What becomes one Doc of a DocBin file: sentence or document")
    ] = "sentence",
    word: Annotated[str, typer.Option(help="For --from crfsuite: prefix of the attribute that holds the word")] = WORD,
    rename: Annotated[str | None, typer.Option(help=options.RENAME_HELP)] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Config with the reader and the tokenizer of INPUT: XML, exports of annotation tools"),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="SHARES", help="Write OUTPUT-train, -dev and -test, in shares: 80,10,10"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --split")] = 0,
    labels: Annotated[
        str, typer.Option(help="For --from crfsuite: what its labels annotate: tag, chunk or ent")
    ] = "tag",
    force: options.Force = False,
) -> str:
    """Convert a corpus: columns, CoNLL-U, XML, attribute files, exports of annotation tools, DocBin.

    conll2000 holds word, tag and chunk; conll2002 word, tag and ent; conll2003 word, tag, chunk and ent; iob word and
    ent; jsonl, an export of Prodigy, doccano or Label Studio, texts with ent, which the rules of --lang tokenize. Give
    --columns for other column files, with "_" for columns to ignore. In xml, the children of an element label its
    words: with a tag for each word, and with spans. --to columns writes the columns that --columns names, by default
    word and tag, as in the training files of CRF++ and Wapiti. Columns that the layout of OUTPUT does not have
    are dropped. Docs from attribute files keep their attributes as doc._.crf_attributes. OUTPUT appears only when it
    is complete.

    XML is split into tokens as init-config does, or as the corpus of --config, which may be that of a trained pipeline.

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
      python -m spacy crfseq convert annotated.jsonl train.spacy --lang es
      python -m spacy crfseq convert labeled.xml train.txt --to columns
      python -m spacy crfseq convert train.conll my.conll --from conll2003 \\
          --to conll2003 --split 80,10,10
    \f
    Convert a file, see `convert`, and return what was converted, in words.
    """
    if (source / "config.cfg").is_file():
        raise ConfigError(f"{source} is a pipeline. To make a model of another program of it, use export-model.")
    if not source.is_dir() and from_ in (None, CRFSUITE) and read_saved_model(source, encoding or "utf8") is not None:
        raise ConfigError(f"{source} is a trained model. To make a pipeline of it, use import-model.")
    own = layouts.own_layout(columns).columns if columns else ()
    read_by = load_config(config, {}).interpolate() if config else {}
    elements, block = XMLForm(), read_by.get("nlp", {})
    if from_ in (None, "xml") or rename:
        of_source = columns if layouts.layout_by_ending(source) is None and from_ is None else None
        asked = layouts.Asked(from_, of_source, encoding=encoding, rename=rename)
        detected = options.show_layout(source, asked, layouts.trained_layout(read_by))
        from_, elements = detected.name, detected.form or elements
        own = detected.columns if detected.name == CUSTOM else own
        if detected.name != DOCBIN and detected.scheme in layouts.SCHEMES:
            from_scheme = from_scheme or detected.scheme
    settings = Settings(
        from_, to or _target(target), block.get("lang", lang), scheme, from_scheme, unit, on_invalid, encoding, own,
        labels, word, _shares(split), seed, elements, block.get("tokenizer"),
    )  # fmt: skip
    count = convert(source, target, settings, force=force)
    return f"{count:,} {'docs' if settings.target == DOCBIN else 'sentences'}"


@command("convert", "Begin", calls=convert_file)
def _print(said: str, target: Path, split: str | None) -> None:
    printer().good(f"Converted {said}: {', '.join(map(str, _files(target, _shares(split))))}")


def _target(path: Path) -> str:
    to = layouts.layout_by_ending(path, _TARGETS) or (path.suffix[1:] if path.suffix[1:] in _TARGETS else None)
    if to is None:
        known = ", ".join(_TARGETS)
        raise ConfigError(f"{path}: no layout that can be written has the ending {path.suffix!r}. Give --to: {known}.")
    return to


PARTS = ("train", "dev", "test")


class Settings(NamedTuple):
    """Settings of a conversion; see the help of the command."""

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
    shares: tuple[int, ...] = ()
    seed: int = 0
    form: XMLForm = XMLForm()
    tokenizer: Mapping[str, Any] | None = None

    @property
    def layout(self) -> Preset:
        """The layout of the source; of a DocBin, that of the columns made from it."""
        if self.source in (CUSTOM, DOCBIN):
            layout = Preset(CUSTOM, self.columns, "IOB2", "utf8", "")
        elif self.source == CRFSUITE:
            layout = Preset(CRFSUITE, ("word", self.labels), "IOB2", "utf8", self.labels)
        else:
            layout = layouts.GOLD[self.source]
        scheme, encoding = self.from_scheme or layout.scheme, self.encoding or layout.encoding
        return layout._replace(scheme=scheme, encoding=encoding, form=layout.form and self.form)

    @property
    def written(self) -> tuple[str, ...]:
        """The columns of the target."""
        if self.target != CUSTOM:
            return PRESETS[self.target].columns
        return tuple(name for name in self.columns if name != "_") or ("word", self.layout.score or "tag")


def convert(source: Path, target: Path, settings: Settings, *, force: bool = False) -> int:
    """Convert a file and return the number of docs (DocBin) or sentences (columns) written.

    force (bool): Replace the target if it exists.
    RAISES CrfError: On unknown names, on an unreadable file, and if it lacks annotation that the target holds.
    """
    from ...pipeline.examples import CorpusSettings
    from ...pipeline.readers import create_crfsuite_reader, reader_of

    _check(settings)
    for path in _files(target, settings.shares):
        check_output_file(path, source, force=force)
    nlp, layout, invalid = _blank(settings.lang, settings.tokenizer), settings.layout, settings.on_invalid
    if settings.source == CRFSUITE:
        reader = create_crfsuite_reader(
            source, settings.labels, layout.scheme, settings.word, CHUNKS_KEY, invalid, encoding=layout.encoding
        )
    else:
        reader = reader_of(
            CorpusSettings(source, layout, unit=settings.unit, chunks_key=CHUNKS_KEY, on_invalid=invalid)
        )
    if settings.target == DOCBIN:
        items: Iterable[Any] = (example.reference for example in reader.stream(nlp))
    else:
        of_docs = settings.source == DOCBIN
        sentences = _sentences_of(load_docs(source, nlp.vocab), settings) if of_docs else reader.sentences(nlp)
        items = (_recoded(sentence, source, settings) for sentence in sentences)
    parts = _split(list(items), settings) if settings.shares else [items]
    return sum(_write(path, part, settings) for path, part in zip(_files(target, settings.shares), parts, strict=True))


def _write(target: Path, items: Iterable[Any], settings: Settings) -> int:
    if settings.target != DOCBIN:
        return write_columns(target, items, settings.written)
    from spacy.tokens import DocBin

    binary = DocBin(docs=items, store_user_data=True)
    with replacing(target) as temporary:
        binary.to_disk(temporary)
    return len(binary)


def _files(target: Path, shares: tuple[int, ...]) -> list[Path]:
    """Return the files to write: one for each share, or the target itself."""
    return [target.with_stem(f"{target.stem}-{part}") for part, _ in zip(PARTS, shares, strict=False)] or [target]


def _shares(text: str | None) -> tuple[int, ...]:
    shares = [part.strip() for part in (text or "").split(",")]
    if text is None:
        return ()
    if not 2 <= len(shares) <= 3 or not all(part.isdecimal() and int(part) for part in shares):
        raise ConfigError(f"--split {text}: give two or three numbers above 0, such as 80,10,10: train, dev, test.")
    return tuple(map(int, shares))


def _split(items: list[Any], settings: Settings) -> list[list[Any]]:
    """Return Docs or sentences by part, in their order; documents, and copies of a sentence, stay together."""
    whole = settings.target != DOCBIN and len({sentence.document for sentence in items}) > 1
    units = [sentence.document if whole else sentence.text for sentence in items]
    names = list(dict.fromkeys(units))
    order = np.random.default_rng(settings.seed).permutation(len(names))
    ends = np.cumsum(settings.shares) * len(names) // sum(settings.shares)
    part_of = {names[i]: int(np.searchsorted(ends, place, side="right")) for place, i in enumerate(order.tolist())}
    parts: list[list[Any]] = [[] for _ in settings.shares]
    for unit, one in zip(units, items, strict=True):
        parts[part_of[unit]].append(one)
    if not all(parts):
        raise DataError(f"--split: {len(names)} texts or documents are too few for {len(parts)} parts of these shares.")
    return parts


def _blank(lang: str, tokenizer: Mapping[str, Any] | None) -> Language:
    import spacy

    return spacy.blank(lang, config={"nlp": {"tokenizer": tokenizer}} if tokenizer else {})


def _check(settings: Settings) -> None:
    layouts.check_choice("--from", settings.source, _SOURCES)
    if settings.target == CRFSUITE:
        raise ConfigError(
            "--to crfsuite: attribute files hold extracted features, which a corpus does not have. Write a column "
            f"file, or train on the corpus itself. --to takes: {', '.join(_TARGETS)}."
        )
    layouts.check_choice("--to", settings.target, _TARGETS)
    if bool(settings.columns) != (settings.source == CUSTOM) and settings.target != CUSTOM:
        needs = "needs --columns" if settings.source == CUSTOM else "has columns of its own; leave --columns out"
        raise ConfigError(f"--from {settings.source} {needs}, or write --from columns --columns word,tag,_,ent.")
    if settings.columns:
        layouts.own_layout(",".join(settings.columns))
    for option, value, known in (
        ("--labels", settings.labels, ("tag", *SPAN_COLUMNS)),
        ("--unit", settings.unit, ("sentence", "document")),
        ("--on-invalid", settings.on_invalid, ("error", "conlleval")),
        ("--scheme", settings.scheme, layouts.SCHEMES),
        ("--from-scheme", settings.from_scheme or "IOB2", layouts.SCHEMES),
    ):
        layouts.check_choice(option, value, known)
    if settings.source == settings.target == DOCBIN:
        raise ConfigError("--from spacy --to spacy would only copy the file.")
    if DOCBIN in (settings.source, settings.target):
        return
    held = settings.layout.columns
    lacking = [name for name in settings.written if name not in held]
    if lacking:
        possible = [name for name in _TARGETS if name not in PRESETS or set(PRESETS[name].columns) <= set(held)]
        raise ConfigError(
            f"{settings.target} files hold the columns {', '.join(lacking)}, which {settings.source} files do not. "
            f"{settings.source} can become: {', '.join(possible)}."
        )


def _recoded(sentence: Sentence, source: Path, settings: Settings) -> Sentence:
    """Return a sentence with spans in the scheme of the target, without tokens of white space, as exports have them."""
    columns = dict(sentence.columns)
    for name in SPAN_COLUMNS:
        if name not in settings.written:
            continue
        old = columns[name]
        tags = ["O" if tag == MISSING_ENTITY else tag for tag in old]  # missing entities are outside the scheme
        if settings.on_invalid == "error":
            check_scheme(sentence._replace(columns={name: tags}), name, settings.layout.scheme, source)
        new = encode(decode_lenient(tags), len(tags), settings.scheme)
        columns[name] = [was if was == MISSING_ENTITY else tag for was, tag in zip(old, new, strict=True)]
    if settings.source != layouts.ANNOTATIONS.name:
        return sentence._replace(columns=columns)
    kept = [i for i, word in enumerate(sentence.words) if not word.isspace()]
    columns = {name: [values[i] for i in kept] for name, values in columns.items()}
    return sentence._replace(words=[sentence.words[i] for i in kept], columns=columns, document=0)


def _sentences_of(docs: Iterable[Doc], settings: Settings) -> Iterator[Sentence]:
    held, line = tuple(name for name in settings.written if name != "word"), 1
    writer = ColumnWriter(Form(held, CHUNKS_KEY, (), {}), ("word", *held), scores=False)
    for number, doc in enumerate(docs):
        for name in held:
            attribute = "ENT_IOB" if name == "ent" else name.upper()
            if not (CHUNKS_KEY in doc.spans if name == "chunk" else doc.has_annotation(attribute)):
                raise DataError(
                    f"The doc {doc.text[:60]!r} has no {name} annotation, which {settings.target} files hold. "
                    "Choose another --to, or annotate the docs."
                )
            if name == "chunk":  # raises an error on overlaps
                encode([(span.start, span.end, span.label_) for span in doc.spans[CHUNKS_KEY]], len(doc), "IOB2")
        for sentence in writer.sentences(doc):
            yield sentence._replace(line=line, document=number if settings.unit == "document" else 0)
            line += len(sentence.words) + 1
