"""The layout of a file, found by one rule for all commands.

In this order: the options of the user, the ending of the file, the layout that the model was trained on if the file
fits it, and a guess from the first lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError, suggest
from .columns import check_columns
from .guess import fits, guess, separator_of
from .lines import STDIN, ZIPPED, check_encoding
from .presets import ANNOTATIONS, CUSTOM, DOCBIN, DOCS, PRESETS, RAW, SPAN_COLUMNS, TEXTS, TOKEN_COLUMNS, Preset
from .xml import XMLForm, check_corpus

GOLD = {DOCBIN: DOCS, **PRESETS, ANNOTATIONS.name: ANNOTATIONS}
"""Layouts of annotated files."""
NAMES = tuple(GOLD)
ENDINGS = {"txt": ".txt", "jsonl": ".jsonl", DOCBIN: ".spacy", "conllu": ".conllu", "xml": ".xml"}
"""Layouts that have an ending of their own."""
FORMAT_HELP = f"Layout of the file: {', '.join(NAMES)} [by its ending, else as in training, else by its first lines]"
TEXTS_HELP = f"Layout of the file: {', '.join(TEXTS)} [by its ending, else by its first lines]"
_FILE = 'File of texts: one per line (.txt), JSON with "text" in each line (.jsonl), DocBin (.spacy)'
TEXTS_FILE_HELP = f"{_FILE}, or a corpus, where only words are read"
COLUMNS = ("word", "tag", "pos", "lemma", "morph", *SPAN_COLUMNS, "weight", "_")
COLUMNS_HELP = f'What each column holds, such as "word,_,ent", instead of --format; known: {", ".join(COLUMNS)}'
SCHEME_HELP = "Tags of spans, with --columns: IOB2, IOB1 or BILUO [IOB2]"
ENCODING_HELP = "Encoding of the file, such as latin-1 or utf-16 [utf8]"
SCHEMES = ("IOB2", "IOB1", "BILUO")


class Asked(NamedTuple):
    """Options on the layout of a file: --format, --columns, --scheme, --encoding and --rename."""

    name: str | None = None
    columns: str | None = None
    scheme: str | None = None
    encoding: str | None = None
    rename: str | None = None

    def layout(self, known: Mapping[str, Preset] = GOLD) -> Preset | None:
        """Return the layout given by name or by columns; None if neither is.

        RAISES ConfigError: If there is no such layout, column, scheme or encoding, or name and columns are both given.
        """
        name, columns, scheme, encoding, _ = self
        if name is not None and columns is not None:
            raise ConfigError("--format and --columns exclude each other; give one of them.")
        if scheme is not None and columns is None:
            raise ConfigError("--scheme goes with --columns; a --format has its own.")
        check_encoding(encoding or "utf8")
        found = None
        if name is not None:
            check_choice("--format", name, known, " format")
            found = known[name]
        elif columns is not None:
            found = own_layout(columns, scheme or "IOB2")
        return self.encoded(found)

    def encoded(self, layout: Preset | None) -> Preset | None:
        """Return a layout in the encoding and with the new labels that are asked for."""
        if layout is not None and self.rename is not None:
            pairs = [pair.partition("=") for pair in self.rename.replace(" ", "").split(",")]
            if layout.form is None or not all(old and new for old, _, new in pairs):
                raise ConfigError(f"--rename {self.rename}: give labels of XML and new names, as in name=author,ref=O.")
            names = {**layout.form.rename, **{old: new for old, _, new in pairs}}
            layout = layout._replace(form=layout.form._replace(rename=names))
        return layout if layout is None or self.encoding is None else layout._replace(encoding=self.encoding)


Format: TypeAlias = str | Asked | None
"""The name of a layout, or all options on it."""


def asked(layout: Format) -> Asked:
    """Return options on a layout, given in full or as its name."""
    return layout if isinstance(layout, Asked) else Asked(layout)


def own_layout(columns: str, scheme: str = "IOB2") -> Preset:
    """Return a layout of columns, given with commas between; RAISES ConfigError: If they cannot be."""
    names = tuple(part.strip() for part in columns.split(","))
    for part in names:
        if part not in COLUMNS:
            raise ConfigError(f"--columns {columns}: unknown column {part!r}. {suggest(part, COLUMNS)}")
    check_columns(names)
    check_choice("--scheme", scheme, SCHEMES)
    return Preset(CUSTOM, names, scheme, "utf8", _scored(names))


def _scored(columns: Sequence[str]) -> str:
    return next((name for name in ("ent", "chunk", "tag", "pos") if name in columns), "word")


class Found(NamedTuple):
    """A layout; `guessed` if it comes from the first lines of the file, which is to be shown to the user."""

    layout: Preset
    guessed: bool = False

    def notice(self, path: Path) -> str:
        """Return a line on how the file is read."""
        holds = "" if self.layout.name == CUSTOM else f" ({' '.join(self.layout.columns)})"
        return f"{path}: detected {as_options(self.layout)}{holds}."


def layout_by_ending(path: Path, known: Collection[str] = NAMES) -> str | None:
    """Return the known layout that has the ending of a file, if any."""
    if path.suffix == ".json" and ANNOTATIONS.name in known:  # exports of Label Studio
        return ANNOTATIONS.name
    return next((name for name, ending in ENDINGS.items() if ending == path.suffix and name in known), None)


def find_layout(path: Path, layout: Format = None, trained: Preset | None = None, *, texts: bool = False) -> Found:
    """Return the layout of a file, which must exist.

    layout: Options of the user.
    trained: The layout that a model was trained on.
    texts: Whether texts are asked for, so that raw text will do; standard input is that by default.
    RAISES FormatError: If the file does not exist, or its layout cannot be found.
    RAISES ConfigError: If the options are invalid.
    """
    said, known = asked(layout), TEXTS if texts else GOLD
    if path != STDIN:
        check_corpus(path)
    found = known["xml"] if path.is_dir() else said.layout(known)
    if found is None and path == STDIN:
        found = RAW["txt"]
    unpacked = Path(path.name.removesuffix(ZIPPED)) if texts else path
    if found is None and (name := layout_by_ending(unpacked, known)) is not None:
        found = known[name]
    if trained is not None and trained.form is not None:  # which only XML can have
        found, trained = (trained if found is not None and found.form is not None else found), None
    elif found is not None and found.form is not None and (seems := guess(path)) is not None and seems.form is not None:
        found = found._replace(form=found.form._replace(pattern=seems.form.pattern))  # as `init-config` does
    if found is None and trained is not None and trained.name not in (DOCBIN, ANNOTATIONS.name) and fits(path, trained):
        found = trained
    if (settled := said.encoded(found)) is not None:
        return Found(settled)
    if (seems := guess(path)) is None:
        if path != STDIN and not path.stat().st_size:
            raise FormatError(path, 0, "the file is empty.")
        ending = f"Neither its ending {unpacked.suffix!r} nor" if unpacked.suffix else "It has no ending, and not even"
        if separated := separator_of(path):
            raise FormatError(path, 1, f"the columns are separated by {separated}. Separate them by spaces or tabs.")
        advice = f"Give --format, in a config format ({', '.join(known)}), or --columns."
        raise FormatError(path, 0, f"the layout of this file is unknown. {ending} its first lines show it. {advice}")
    seems = known.get(seems.name, seems)  # of exports, the raw text if texts are asked for
    # other bytes than UTF-8 raise an error with a proposal
    seems = seems._replace(encoding=seems.encoding and "utf8")
    return Found(said.encoded(seems) or seems, guessed=True)


def trained_layout(config: Mapping[str, Any]) -> Preset | None:
    """Return the layout of the corpora in the config of a trained pipeline, interpolated; None if it is unknown."""
    found = (reader_layout(corpus_block(config, name)) for name in ("dev_corpus", "train_corpus"))
    return next((layout for layout in found if layout is not None), None)


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
    name = str(reader.get("@readers", ""))
    if name == "spacy.Corpus.v1":
        return DOCS
    encoding = str(reader.get("encoding", "utf8"))
    if name == "spacy_crfseq.ConlluReader.v1":
        return PRESETS["conllu"]._replace(encoding=encoding)
    if name == "spacy_crfseq.AnnotationReader.v1":
        return ANNOTATIONS._replace(encoding=encoding)
    if name == "spacy_crfseq.XMLReader.v1":
        given = {key: reader[key] for key in XMLForm._fields if key in reader}
        lists = {key: tuple(value) for key, value in given.items() if isinstance(value, list)}
        return PRESETS["xml"]._replace(encoding=str(reader.get("encoding", "")), form=XMLForm(**{**given, **lists}))
    if name != "spacy_crfseq.ConllReader.v1":
        return None
    columns = tuple(reader.get("columns", ("word", "tag", "chunk")))
    return Preset(CUSTOM, columns, str(reader.get("scheme", "IOB2")), encoding, _scored(columns))


def file_columns(layout: Preset) -> tuple[str, ...]:
    """Return the columns that files of a layout can have in addition to words."""
    return tuple(column for column in (*TOKEN_COLUMNS, *SPAN_COLUMNS) if column in layout.columns)


def as_options(layout: Preset) -> str:
    """Return the options that name a layout."""
    encoding = "" if layout.encoding in ("utf8", "") else f" --encoding {layout.encoding}"
    if layout.name != CUSTOM:
        return f"--format {layout.name}{encoding}"
    scheme = f" --scheme {layout.scheme}" if layout.scheme in ("IOB1", "BILUO") else ""
    return f"--columns {','.join(layout.columns)}{scheme}{encoding}"


def check_choice(option: str, value: str, known: Iterable[str], what: str = "") -> None:
    """Raise ConfigError if the value of an option is unknown; `what` follows "unknown" in the message."""
    if value not in known:
        raise ConfigError(f"{option} {value}: unknown{what}. {suggest(value, known)}")
