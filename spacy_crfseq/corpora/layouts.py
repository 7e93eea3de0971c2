"""The layouts of files: named ones, which replace six settings by one word, and those that a user or a config gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError, suggest
from ..schemes import OTHER_NAMES, SPAN_SCHEMES, scheme_named
from .columns import DOCSTART, SPAN_COLUMNS, check_columns, parse_columns
from .conllu import COLUMNS as CONLLU_COLUMNS
from .conllu import parse_conllu
from .lines import Invalid, OnError, Sentence, check_encoding, checked, lines_of, read_lines
from .paths import corpus_files
from .spans import Notes, SpanRules, Tokenize, read_annotations
from .xml import XMLForm, parse_xml


class Preset(NamedTuple):
    """The layout of a corpus.

    name: Its name in `PRESETS`, `DOCBIN` or `CUSTOM`.
    scheme: How its spans are tagged.
    score: The column whose annotation is scored by default.
    form: How the elements of an XML file become sequences; None for other files.  Its columns are the same labels.
    spans: The rules for annotated spans in texts; None for other files.
    skip_invalid: Whether readers leave out what they cannot read, and warn; else they raise an error.  None where a
        user cannot choose.
    """

    name: str
    columns: tuple[str, ...]
    scheme: str
    encoding: str
    score: str
    form: XMLForm | None = None
    spans: SpanRules | None = None
    skip_invalid: bool | None = None

    @property
    def complete(self) -> Preset:
        """The layout for texts to score on, which the rules on what is unknown are not for."""
        return self if self.spans is None else self._replace(spans=SpanRules(match=self.spans.match))


# The original CoNLL-2003 files are IOB1.  The common IOB2 copies read the same under it, since a B- tag may
# begin any span in IOB1.  The original CoNLL-2002 files are latin-1, today's copies UTF-8.
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("conll2000", ("word", "tag", "chunk"), "IOB2", "utf8", "chunk"),
        Preset("conll2002", ("word", "tag", "ent"), "IOB2", "utf8", "ent"),
        Preset("conll2003", ("word", "tag", "chunk", "ent"), "IOB1", "utf8", "ent"),
        Preset("conllu", ("word", *CONLLU_COLUMNS), "plain", "utf8", "tag"),
        Preset("iob", ("word", "ent"), "IOB1", "utf8", "ent"),
        Preset("xml", ("word", "tag", "chunk", "ent"), "IOB2", "", "tag", XMLForm()),
    )
}
COLUMN_FILES = ("conll2000", "conll2002", "conll2003", "iob")
"""The presets of column files with tags of spans, which may have another scheme than the usual one."""
_SCHEME_OPTIONS = {"--format": "--scheme", "--to": "--to-scheme"}
"""The options of schemes, by those of layouts, where a user may give a scheme."""
DOCBIN, CUSTOM, CRFSUITE = "spacy", "columns", "crfsuite"
"""The names of spaCy's binary format, of a layout without a preset, and of attribute files, whose labels are scored."""
TOKEN_COLUMNS = ("tag", "pos", "morph", "lemma")
DOCS = Preset(DOCBIN, ("word", *TOKEN_COLUMNS, *SPAN_COLUMNS), "BILUO", "", "ent")
"""The columns that spaCy's binary files may have."""
RAW = {"txt": Preset("txt", (), "plain", "utf8", ""), "jsonl": Preset("jsonl", (), "plain", "utf8", ""), DOCBIN: DOCS}
"""Layouts of raw text; of a DocBin, only the words are read."""
TEXTS = {**RAW, **PRESETS}
"""Layouts of files of texts; of corpora, only the words are read."""
ANNOTATIONS, BRAT, WEBANNO, PARQUET = (
    Preset(name, ("word", "ent"), "IOB2", "utf8", "ent", spans=SpanRules())
    for name in ("jsonl", "brat", "webanno", "parquet")
)
"""Layouts of annotated spans, see the package `spans`."""


def get_preset(name: str) -> Preset:
    """Return a preset by its name; RAISES ConfigError: If there is none, with all names."""
    if name not in PRESETS:
        raise ConfigError(f"Unknown corpus format {name!r}. {suggest(name, PRESETS)}")
    return PRESETS[name]


def read_preset(path: Path | str, name: str) -> Iterator[Sentence]:
    """Yield the sentences of a file in the layout of a preset; errors are those of `get_preset` and its reader."""
    return read_layout(path, get_preset(name))


def read(path: Path, layout: Preset, stream: IO[bytes] | None = None) -> Iterator[Sentence | FormatError]:
    """Yield the sentences of a column file, a CoNLL-U file or XML, and what is wrong with others.

    stream (IO | None): The open file or a part of it, if it is open.
    """
    if layout.form is not None:
        return parse_xml(path, layout.form, layout.encoding, stream)
    if layout.name == "conllu":
        return parse_conllu(path, lines_of(path, layout.encoding, stream, ends=True))
    return parse_columns(path, lines_of(path, layout.encoding, stream), layout.columns)


def read_layout(path: Path | str, layout: Preset, on_error: OnError | None = None) -> Iterator[Sentence]:
    """Yield the sentences that `read` yields of all files of a path, see `paths.resolve`.

    on_error (OnError | None): Receives errors; sentences with errors are skipped.
    RAISES FormatError: On an error without `on_error`, unless the layout skips it, see `lines.Invalid`; and on a file
        with neither a sentence nor an error.
    """
    invalid = Invalid(layout.skip_invalid)

    def sentences() -> Iterator[Sentence]:
        documents = last = 0
        for file in corpus_files(path):
            for sentence in checked(read(file, layout), file, on_error or invalid):
                last = documents + sentence.document
                yield sentence._replace(file=str(file), document=last)
            documents = last + 1

    return invalid.passing(sentences())


def read_spans(
    path: Path, layout: Preset, tokenize: Tokenize, notes: Notes | None = None, on_error: OnError | None = None
) -> Iterator[Sentence]:
    """Yield the annotated texts of a file in a layout of spans, as `read_annotations` does.

    RAISES FormatError: On an error without `on_error`, unless the layout skips it, see `lines.Invalid`.
    """
    rules, invalid = layout.spans or SpanRules(), Invalid(layout.skip_invalid)
    sentences = read_annotations(
        path, tokenize, notes, on_error or invalid, format=layout.name, encoding=layout.encoding, rules=rules
    )
    return invalid.passing(sentences)


def marks_documents(path: Path, layout: Preset) -> bool:
    """Whether a file of a corpus marks the beginnings of documents, by a line -DOCSTART- or ``# newdoc``.

    RAISES FormatError: If the file cannot be read.
    """
    if layout.form is not None or layout.spans is not None or layout.name == DOCBIN:
        return False
    lines = (line for file in corpus_files(path) for _, line in read_lines(file, layout.encoding))
    if layout.name == "conllu":
        return any(line.startswith("#") and line[1:].lstrip().startswith("newdoc") for line in lines)
    return any(line.split(None, 1)[:1] == [DOCSTART] for line in lines)


# Options of users


SPAN_LAYOUTS = {layout.name: layout for layout in (ANNOTATIONS, BRAT, WEBANNO, PARQUET)}
GOLD = {DOCBIN: DOCS, **PRESETS, **SPAN_LAYOUTS}
"""Layouts of annotated files."""
NAMES = tuple(GOLD)
ENDINGS = {"txt": ".txt", "jsonl": ".jsonl", DOCBIN: ".spacy", "conllu": ".conllu", "xml": ".xml"}
"""Layouts that have an ending of their own."""
OTHER_ENDINGS = {".json": ANNOTATIONS.name, ".ann": BRAT.name, ".parquet": PARQUET.name, ".arrow": PARQUET.name}
"""Endings of annotated spans."""
COLUMNS = ("word", "tag", "pos", "lemma", "morph", *SPAN_COLUMNS, "weight", "group", "_")


class Asked(NamedTuple):
    """Options on the layout of a file, which `cli/options.py` explains."""

    name: str | None = None
    columns: str | None = None
    scheme: str | None = None
    encoding: str | None = None
    rename: str | None = None
    outside: str | None = None
    min_score: float | None = None
    match: str | None = None
    alternatives: str | None = None
    skip_invalid: bool | None = None

    def layout(self, layouts: Mapping[str, Preset] = GOLD) -> Preset | None:
        """Return the layout given by name or by columns; None if neither is.

        RAISES ConfigError: If there is no such layout, column, scheme or encoding, or name and columns are both given.
        """
        name, columns, encoding = self.name, self.columns, self.encoding
        if name is not None and columns is not None:
            raise ConfigError("--format and --columns exclude each other; give one of them.")
        check_encoding(encoding or "utf8")
        chosen = None
        if name is not None:
            check_choice("--format", name, layouts, " format")
            chosen = layouts[name]
        elif columns is not None:
            chosen = own_layout(columns)
        return self.encoded(chosen)

    def encoded(self, layout: Preset | None) -> Preset | None:
        """Return a layout in the encoding, with the scheme, the new labels and the rules that are asked for."""
        if self.scheme is not None:
            scheme = scheme_named(self.scheme, "--scheme")
            if layout is not None and (layout.scheme == "plain" or layout.name not in (CUSTOM, *COLUMN_FILES)):
                raise ConfigError(
                    f"--scheme {self.scheme} is for files of columns with tags of spans, unlike {as_options(layout)}."
                )
            layout = layout and layout._replace(scheme=scheme)
        if layout is not None and self.rename is not None:
            pairs = [pair.partition("=") for pair in self.rename.replace(" ", "").split(",")]
            if layout.form is None or not all(old and new for old, _, new in pairs):
                raise ConfigError(f"--rename {self.rename}: give labels of XML and new names, as in name=author,ref=O.")
            names = {**layout.form.rename, **{old: new for old, _, new in pairs}}
            layout = layout._replace(form=layout.form._replace(rename=names))
        rules = {name: value for name in SpanRules._fields if (value := getattr(self, name)) is not None}
        if layout is not None and rules:
            if layout.spans is None:
                option = f"--{next(iter(rules)).replace('_', '-')}"
                raise ConfigError(f"{option} is for annotated spans in texts, unlike {as_options(layout)}.")
            layout = layout._replace(spans=layout.spans._replace(**rules).check())
        if layout is not None and self.skip_invalid is not None:
            layout = layout._replace(skip_invalid=self.skip_invalid)
        return layout if layout is None or self.encoding is None else layout._replace(encoding=self.encoding)


Format: TypeAlias = str | Asked | None
"""The name of a layout, or all options on it."""


def asked(layout: Format) -> Asked:
    """Return options on a layout, given in full or as its name."""
    return layout if isinstance(layout, Asked) else Asked(layout)


def own_layout(columns: str) -> Preset:
    """Return a layout of columns, comma-separated; RAISES ConfigError: If they cannot be."""
    names = tuple(part.strip() for part in columns.split(","))
    for part in names:
        if part not in COLUMNS:
            raise ConfigError(f"--columns {columns}: unknown column {part!r}. {suggest(part, COLUMNS)}")
    check_columns(names)
    return Preset(CUSTOM, names, "IOB2", "utf8", _scored(names))


def _scored(columns: Sequence[str]) -> str:
    return next((name for name in ("ent", "chunk", "tag", "pos") if name in columns), "word")


def layout_by_ending(path: Path, layouts: Collection[str] = NAMES) -> str | None:
    """Return the name of the layout that has the ending of a file, None for none of the given layouts."""
    if (name := OTHER_ENDINGS.get(path.suffix)) in layouts:
        return name
    return next((name for name, ending in ENDINGS.items() if ending == path.suffix and name in layouts), None)


def trained_layout(config: Mapping[str, Any]) -> Preset | None:
    """Return the layout of the corpora in the config of a trained pipeline, interpolated; None if it is unknown."""
    layouts = (reader_layout(corpus_block(config, name)) for name in ("dev_corpus", "train_corpus"))
    return next((layout for layout in layouts if layout is not None), None)


def corpus_block(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the block of a config that reads the file of train_corpus or dev_corpus; empty if it is none."""
    try:
        block = reduce(getitem, corpus_place(config, name).split("."), config)
    except (KeyError, TypeError, AttributeError):  # a callback may make a corpus of anything
        return {}
    return block if isinstance(block, dict) else {}


def corpus_place(config: Mapping[str, Any], name: str) -> str:
    """Return where a config has the block that reads a file: what `[training]` names, or the corpus weighted there."""
    place: Any = config.get("training", {}).get(name, f"corpora.{name.removesuffix('_corpus')}")
    with suppress(KeyError, TypeError, AttributeError):
        while reduce(getitem, place.split("."), config)["@readers"] == "spacy_crfseq.WeightedReader.v1":
            place += ".corpus"
    return str(place)


def reader_layout(reader: Mapping[str, Any]) -> Preset | None:
    """Return the layout that a config's block such as `[corpora.dev]` reads; None if the reader is unknown."""
    layout = _reader_layout(reader)
    return layout._replace(skip_invalid=True) if layout and reader.get("skip_invalid") else layout


def _reader_layout(reader: Mapping[str, Any]) -> Preset | None:
    name = str(reader.get("@readers", ""))
    if name == "spacy.Corpus.v1":
        return DOCS
    encoding = str(reader.get("encoding", "utf8"))
    if name == "spacy_crfseq.ConlluReader.v1":
        return PRESETS["conllu"]._replace(encoding=encoding)
    if name == "spacy_crfseq.AnnotationReader.v1":
        layout = span_layout(Path(str(reader.get("path"))), reader.get("format"))
        rules = {key: reader[key] for key in SpanRules._fields if key in reader}
        return layout._replace(encoding=encoding, spans=SpanRules(**rules))
    if name == "spacy_crfseq.XMLReader.v1":
        given = {key: reader[key] for key in XMLForm._fields if key in reader}
        lists = {key: tuple(value) for key, value in given.items() if isinstance(value, list)}
        return PRESETS["xml"]._replace(encoding=str(reader.get("encoding", "")), form=XMLForm(**{**given, **lists}))
    if name != "spacy_crfseq.ConllReader.v1":
        return None
    columns = tuple(reader.get("columns", ("word", "tag", "chunk")))
    return Preset(CUSTOM, columns, scheme_named(str(reader.get("scheme", "IOB2"))), encoding, _scored(columns))


def span_layout(path: Path, name: str | None = None) -> Preset:
    """Return the layout of annotated spans of this name, else of a file's ending; RAISES ConfigError: If unknown."""
    if name is not None:
        check_choice("format", name, SPAN_LAYOUTS)
        return SPAN_LAYOUTS[name]
    return SPAN_LAYOUTS[layout_by_ending(path, SPAN_LAYOUTS) or ANNOTATIONS.name]


def file_columns(layout: Preset) -> tuple[str, ...]:
    """Return the columns that files of a layout can have in addition to words."""
    return tuple(column for column in (*TOKEN_COLUMNS, *SPAN_COLUMNS) if column in layout.columns)


def as_options(layout: Preset) -> str:
    """Return the options that name a layout."""
    encoding = "" if layout.encoding in ("utf8", "") else f" --encoding {layout.encoding}"
    usual = PRESETS[layout.name].scheme if layout.name in COLUMN_FILES else "IOB2"
    scheme = f" --scheme {layout.scheme}" if layout.scheme not in (usual, "plain") else ""
    if layout.name != CUSTOM:
        return f"--format {layout.name}{scheme if layout.name in COLUMN_FILES else ''}{encoding}"
    return f"--columns {','.join(layout.columns)}{scheme}{encoding}"


def described(layout: Preset) -> str:
    """Return the options that name a layout, its columns, and the scheme of its tags of spans."""
    is_tagged = layout.name in (CUSTOM, *COLUMN_FILES) and not {*SPAN_COLUMNS}.isdisjoint(layout.columns)
    scheme = f"; tags in {shown_scheme(layout.scheme)}" if is_tagged else ""
    return f"{as_options(layout)} ({' '.join(layout.columns)}{scheme})"


def shown_scheme(scheme: str) -> str:
    """Return the name of a scheme for people: IOB1 reads tags in IOB2 the same way."""
    return "IOB1 or IOB2" if scheme == "IOB1" else scheme


def check_choice(option: str, value: str, choices: Iterable[str], what: str = "") -> None:
    """Raise ConfigError if the value of an option is unknown; `what` follows "unknown" in the message."""
    if value not in choices:
        if (setting := _SCHEME_OPTIONS.get(option)) and value.upper() in {*SPAN_SCHEMES, *OTHER_NAMES}:
            raise ConfigError(f"{option} {value}: a scheme of tags, not a layout. Give {setting} {value.upper()}.")
        raise ConfigError(f"{option} {value}: unknown{what}. {suggest(value, choices)}")
