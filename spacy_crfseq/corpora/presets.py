"""Named layouts of well-known corpora, which replace six settings by one word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ..errors import ConfigError, FormatError, suggest
from .columns import DOCSTART, parse_columns
from .conllu import COLUMNS, parse_conllu
from .lines import OnError, Sentence, check_file, checked, lines_of, read_lines
from .xml import XMLForm, parse_xml


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


def read(path: Path, layout: Preset, stream: IO[bytes] | None = None) -> Iterator[Sentence | FormatError]:
    """Yield the sentences of a column file, a CoNLL-U file or XML, and what is wrong with others.

    stream (IO | None): The open file or a part of it, if it is open.
    """
    if layout.form is not None:
        return parse_xml(path, layout.form, layout.encoding, stream)
    lines = lines_of(path, layout.encoding, stream)
    return parse_conllu(path, lines) if layout.name == "conllu" else parse_columns(path, lines, layout.columns)


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
