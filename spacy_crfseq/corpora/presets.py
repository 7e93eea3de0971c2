"""Named layouts of well-known corpora, which replace six settings by one word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError, suggest
from .columns import DOCSTART, read_columns
from .conllu import COLUMNS, read_conllu
from .lines import OnError, Sentence, read_lines
from .xml import XMLForm, read_xml


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
        Preset("conllu", ("word", *COLUMNS), "plain", "utf8", "tag"),
        Preset("iob", ("word", "ent"), "IOB1", "utf8", "ent"),
        Preset("xml", ("word", "tag", "chunk", "ent"), "IOB2", "", "tag", XMLForm()),
    )
}
DOCBIN, CUSTOM = "spacy", "columns"
"""The names of spaCy's binary format, and of a layout without a preset."""
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


def read_layout(path: Path | str, layout: Preset, on_error: OnError | None = None) -> Iterator[Sentence]:
    """Yield the sentences of a column file, a CoNLL-U file or XML; arguments and errors as `read_columns` has them."""
    if layout.form is not None:
        return read_xml(path, layout.form, on_error, encoding=layout.encoding)
    if layout.name == "conllu":
        return read_conllu(path, on_error, encoding=layout.encoding)
    return read_columns(path, layout.columns, encoding=layout.encoding, on_error=on_error)


def marks_documents(path: Path, layout: Preset) -> bool:
    """Whether a corpus file marks the beginnings of documents, by a line -DOCSTART- or ``# newdoc``.

    RAISES FormatError: If the file cannot be read.
    """
    unmarked = layout.form is not None or layout.name in (DOCBIN, ANNOTATIONS.name)
    lines = () if unmarked else read_lines(path, layout.encoding)
    return any(is_mark(line, layout) for _, line in lines)


def is_mark(line: str, layout: Preset) -> bool:
    """Whether a line marks the beginning of a document."""
    if layout.name == "conllu":
        return line.startswith("#") and line[1:].lstrip().startswith("newdoc")
    return line.split(None, 1)[:1] == [DOCSTART]
