"""The layouts of files: named ones, which replace six settings by one word, and one rule to find that of a file.

In this order: the options of the user, the ending of the file, the layout that the model was trained on if the file
fits it, and a guess from the first lines, which commands show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import getitem
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ..errors import ConfigError, FormatError, suggest
from ..schemes import OUTSIDE, decode_lenient, find_invalid, is_tag
from .columns import DOCSTART, IGNORED, WORD, check_columns, parse_columns
from .conllu import COLUMNS as CONLLU_COLUMNS
from .conllu import parse_conllu
from .lines import (
    STDIN,
    ZIPPED,
    OnError,
    Sentence,
    check_encoding,
    check_file,
    checked,
    lines_of,
    probable_encoding,
    read_lines,
)  # fmt: skip
from .splitting import SPACES, WORDS, Splitter
from .xml import XMLForm, check_corpus, likely_sequence, parse_xml, read_xml, xml_files


class Preset(NamedTuple):
    """The layout of a corpus.

    name: Its name in `PRESETS`, `DOCBIN` or `CUSTOM`.
    scheme: How its spans are tagged.
    score: The column whose annotation is scored by default.
    form: How the elements of an XML file become sequences; None for other files.  Its columns are the same labels.
    """

    name: str
    columns: tuple[str, ...]
    scheme: str
    encoding: str
    score: str
    form: XMLForm | None = None


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
DOCBIN, CUSTOM, CRFSUITE = "spacy", "columns", "crfsuite"
"""The names of spaCy's binary format, of a layout without a preset, and of attribute files, whose labels are scored."""
TOKEN_COLUMNS = ("tag", "pos", "morph", "lemma")
SPAN_COLUMNS = ("chunk", "ent")
DOCS = Preset(DOCBIN, ("word", *TOKEN_COLUMNS, *SPAN_COLUMNS), "BILUO", "", "ent")
"""What spaCy's binary files may hold."""
RAW = {"txt": Preset("txt", (), "plain", "utf8", ""), "jsonl": Preset("jsonl", (), "plain", "utf8", ""), DOCBIN: DOCS}
"""Layouts of raw text; of a DocBin, only the words are read."""
TEXTS = {**RAW, **PRESETS}
"""Layouts of files of texts; of corpora, only the words are read."""
ANNOTATIONS = Preset("jsonl", ("word", "ent"), "IOB2", "utf8", "ent")
"""What exports of annotation tools hold, see `annotations`."""


def get_preset(name: str) -> Preset:
    """Return a preset by its name; RAISES ConfigError: Naming the known ones."""
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
    """Yield the sentences that `read` yields.

    on_error (OnError | None): Receives errors; sentences with errors are skipped.
    RAISES FormatError: On an error without `on_error`, and on a file with neither a sentence nor an error.
    """
    path = Path(path) if layout.form is not None else check_file(path)
    return checked(read(path, layout), path, on_error)


def marks_documents(path: Path, layout: Preset) -> bool:
    """Whether a corpus file marks the beginnings of documents, by a line -DOCSTART- or ``# newdoc``.

    RAISES FormatError: If the file cannot be read.
    """
    if layout.form is not None or layout.name in (DOCBIN, ANNOTATIONS.name):
        return False
    lines = (line for _, line in read_lines(path, layout.encoding))
    if layout.name == "conllu":
        return any(line.startswith("#") and line[1:].lstrip().startswith("newdoc") for line in lines)
    return any(line.split(None, 1)[:1] == [DOCSTART] for line in lines)


# Options of users


GOLD = {DOCBIN: DOCS, **PRESETS, ANNOTATIONS.name: ANNOTATIONS}
"""Layouts of annotated files."""
NAMES = tuple(GOLD)
ENDINGS = {"txt": ".txt", "jsonl": ".jsonl", DOCBIN: ".spacy", "conllu": ".conllu", "xml": ".xml"}
"""Layouts that have an ending of their own."""
COLUMNS = ("word", "tag", "pos", "lemma", "morph", *SPAN_COLUMNS, "weight", "_")
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
        chosen = None
        if name is not None:
            check_choice("--format", name, known, " format")
            chosen = known[name]
        elif columns is not None:
            chosen = own_layout(columns, scheme or "IOB2")
        return self.encoded(chosen)

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
    chosen = known["xml"] if path.is_dir() else said.layout(known)
    if chosen is None and path == STDIN:
        chosen = RAW["txt"]
    unpacked = Path(path.name.removesuffix(ZIPPED)) if texts else path
    if chosen is None and (name := layout_by_ending(unpacked, known)) is not None:
        chosen = known[name]
    if trained is not None and trained.form is not None:  # which only XML can have
        chosen, trained = (trained if chosen is not None and chosen.form is not None else chosen), None
    elif (
        chosen is not None and chosen.form is not None and (seems := guess(path)) is not None and seems.form is not None
    ):
        chosen = chosen._replace(form=chosen.form._replace(pattern=seems.form.pattern))  # as `init-config` does
    if (
        chosen is None
        and trained is not None
        and trained.name not in (DOCBIN, ANNOTATIONS.name)
        and fits(path, trained)
    ):
        chosen = trained
    if (settled := said.encoded(chosen)) is not None:
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


# Guesses

LINES = 5000
"""Lines that are read."""
CHUNK_TYPES = frozenset({"NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"})
"""Chunks of CoNLL-2000; other types of spans count as entities."""
SPAN_TAGS = 0.95
"""Share of the values of a column that are tags of spans, from which the others are mistakes."""
_SPAN_TAG = re.compile(r"O|-|[BILU]-\S+")
_CONLLU_FIELDS = 10
_XML = re.compile(r"\s*<[?!A-Za-z_]")
_JSON = re.compile(r"""\s*\[?\s*\{\s*"\w+"\s*:""")


def guess(path: Path) -> Preset | None:
    """Return the layout that the first lines of a file suggest, if any; unclear columns become "_"."""
    path = next(iter(xml_files(path)), path)
    lines, encoding = _first_lines(path) or ([], "")
    if _JSON.match("\n".join(lines[:100])):
        return ANNOTATIONS
    if lines and _XML.match(lines[0]) and (sequence := likely_sequence("\n".join(lines))):
        # white space does not separate tokens where segments end before a comma
        sequences = islice(read_xml(path, XMLForm(sequence), lambda _: None), LINES)
        cut = [Splitter()(text.text)[0] != text.words for text in sequences]
        pattern = SPACES if sum(cut) <= 0.05 * len(cut) else WORDS
        return PRESETS["xml"]._replace(form=XMLForm(sequence, pattern=pattern))
    sentences = _sentences(lines)
    rows = [row for sentence in sentences for row in sentence]
    if rows and all(len(row) == _CONLLU_FIELDS and row[0][:1].isdecimal() for row in rows):
        return PRESETS["conllu"]
    if (width := _width(rows)) is None:
        return None
    whole = [sentence for sentence in sentences if all(len(row) == width for row in sentence)]
    names = _names([[row[i] for sentence in whole for row in sentence] for i in range(width)])
    if names is None:
        return None
    places = [i for i, name in enumerate(names) if name in SPAN_COLUMNS]
    scheme = _scheme([[row[i] for row in sentence] for i in places for sentence in whole]) if places else "plain"
    return _named(names, scheme, encoding)


def separator_of(path: Path) -> str:
    """Return the name of the sign between the columns of a file where that is no white space, else an empty string."""
    lines = [line for line in (_first_lines(path) or ([], ""))[0] if line.strip()]
    for sign, name in ((",", "commas"), (";", "semicolons"), ("|", "vertical bars")):
        (count, number), *_ = Counter(line.count(sign) for line in lines).most_common(1) or [(0, 0)]
        if count and number > 0.9 * len(lines) > 1:
            return name
    return ""


def fits(path: Path, layout: Preset) -> bool:
    """Whether the first lines of a file fit a layout: number of columns, and columns of spans where they are clear."""
    rows = [row for sentence in _sentences((_first_lines(path) or ([], ""))[0]) for row in sentence]
    if _width(rows) != len(layout.columns):
        return False
    if (seems := guess(path)) is ANNOTATIONS:
        return False
    pairs = zip(layout.columns, seems.columns, strict=True) if seems is not None else ()
    return all(IGNORED in (one, other) or (one in SPAN_COLUMNS) == (other in SPAN_COLUMNS) for one, other in pairs)


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    # the number of columns; None if it varies or there is only one
    width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
    return None if width < 2 or count < 0.9 * len(rows) else width


def _first_lines(path: Path) -> tuple[list[str], str] | None:
    # the first lines and their encoding; None if they are not text
    try:
        with path.open("rb") as file:
            raw = list(islice(file, LINES))
    except OSError:
        return None
    data = b"".join(raw)
    encoding = probable_encoding(data)
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return None if not text or "\0" in text else (text.split("\n"), encoding)


def _sentences(lines: Sequence[str]) -> list[list[list[str]]]:
    sentences: list[list[list[str]]] = [[]]
    tabs = any("\t" in line for line in lines)
    for line in lines:
        fields = line.rstrip("\r").split("\t") if tabs and "\t" in line else line.split()
        if line.startswith("# ") or (fields and fields[0] == DOCSTART):
            continue
        if any(fields):
            sentences[-1].append(fields)
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def _names(columns: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    # the first column holds words, then come a tag and at most one of each kind of spans; None without annotation
    names, few = [WORD], max(20, len(set(columns[0])) // 4)
    for values in columns[1:]:
        kinds = Counter(values)
        n_tags = sum(number for kind, number in kinds.items() if _SPAN_TAG.fullmatch(kind))
        if n_tags >= SPAN_TAGS * len(values):
            types = {kind[2:] for kind in kinds if kind[1:2] == "-" and _SPAN_TAG.fullmatch(kind)}
            name = "chunk" if types and types <= CHUNK_TYPES else "ent"
        else:
            # a lemma takes as many values as words do, a tag few
            name = "tag" if len(kinds) <= few else IGNORED
        names.append(IGNORED if name in names else name)
    if set(names) <= {WORD, IGNORED, "tag"}:  # without spans, tags must come again to be taken for tags
        if 1 < len(set(columns[-1])) <= few:  # CRF++ and Wapiti have the labels in the last column
            names = [WORD, *[IGNORED] * (len(names) - 2), "tag"]
        tags = columns[names.index("tag")] if "tag" in names else ()
        return tuple(names) if tags and 2 * len(set(tags)) <= len(tags) else None
    return tuple(names)


def _scheme(sequences: Sequence[Sequence[str]]) -> str:
    known = [[tag if is_tag(tag) else OUTSIDE for tag in tags] for tags in sequences]
    if any(tag[:2] in ("L-", "U-") for tags in known for tag in tags):
        return "BILUO"
    with_spans = [tags for tags in known if decode_lenient(tags)]
    broken = sum(find_invalid(tags, "IOB2") is not None for tags in with_spans)
    return "IOB1" if 2 * broken > len(with_spans) else "IOB2"  # single ones are mistakes in IOB2


def _named(names: tuple[str, ...], scheme: str, encoding: str) -> Preset:
    # under the name of the preset that reads it the same way
    for preset in PRESETS.values():
        same = scheme == preset.scheme or (scheme == "IOB2" and preset.scheme == "IOB1")
        if preset.columns == names and same and encoding == preset.encoding:
            return preset
    score = next(name for name in ("ent", "chunk", "tag") if name in names)
    return Preset(CUSTOM, names, scheme, encoding, score)
