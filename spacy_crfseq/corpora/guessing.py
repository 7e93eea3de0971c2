"""One rule to find the layout of a file.

In this order: the options of the user, the ending of the file, the layout that the model was trained on if the file
fits it, and a guess from the first lines, which commands show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..errors import FormatError
from ..schemes import OUTSIDE, decode_lenient, find_invalid, is_tag
from .columns import DOCSTART, IGNORED, WORD
from .layouts import (
    ANNOTATIONS,
    CUSTOM,
    DOCBIN,
    GOLD,
    PRESETS,
    RAW,
    SPAN_COLUMNS,
    TEXTS,
    Format,
    Preset,
    as_options,
    asked,
    layout_by_ending,
)
from .lines import STDIN, ZIPPED, probable_encoding
from .splitting import SPACES, WORDS, Splitter
from .xml import XMLForm, check_corpus, likely_sequence, read_xml, xml_files

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


class FoundLayout(NamedTuple):
    """A layout; `guessed` if it comes from the first lines of the file, which is to be shown to the user."""

    layout: Preset
    guessed: bool = False

    def notice(self, path: Path) -> str:
        """Return a line on how the file is read."""
        holds = "" if self.layout.name == CUSTOM else f" ({' '.join(self.layout.columns)})"
        return f"{path}: detected {as_options(self.layout)}{holds}."


def find_layout(
    path: Path, layout: Format = None, trained: Preset | None = None, *, texts: bool = False
) -> FoundLayout:
    """Return the layout of a file, which must exist.

    layout: Options of the user.
    trained: The layout that a model was trained on.
    texts: Whether texts are asked for, so that raw text will do; standard input is that by default.
    RAISES FormatError: If the file does not exist, or its layout cannot be found.
    RAISES ConfigError: If the options are invalid.
    """
    said, layouts = asked(layout), TEXTS if texts else GOLD
    if path != STDIN:
        check_corpus(path)
    unpacked = Path(path.name.removesuffix(ZIPPED)) if texts else path
    chosen = layouts["xml"] if path.is_dir() else said.layout(layouts)
    if chosen is None and path == STDIN:
        chosen = RAW["txt"]
    if chosen is None and (ending := layout_by_ending(unpacked, layouts)) is not None:
        chosen = layouts[ending]
    if chosen is None and trained is not None and _may_be(path, trained):
        chosen = trained
    elif chosen is not None and chosen.form is not None:
        chosen = _xml_layout(path, chosen, trained)
    if (settled := said.encoded(chosen)) is not None:
        return FoundLayout(settled)
    if (guessed := guess(path)) is None:
        raise _unknown_layout(path, unpacked.suffix, layouts)
    guessed = layouts.get(guessed.name, guessed)  # of exports, the raw text if texts are asked for
    # other bytes than UTF-8 raise an error with a proposal
    guessed = guessed._replace(encoding=guessed.encoding and "utf8")
    return FoundLayout(said.encoded(guessed) or guessed, guessed=True)


def _may_be(path: Path, trained: Preset) -> bool:
    """Whether a file may have the layout that a model was trained on: one of columns that fits its first lines."""
    return trained.form is None and trained.name not in (DOCBIN, ANNOTATIONS.name) and fits(path, trained)


def _xml_layout(path: Path, layout: Preset, trained: Preset | None) -> Preset:
    """Return the layout of an XML file: that of a model which has read XML, else with a likely way to split tokens."""
    if trained is not None and trained.form is not None:
        return trained
    guessed = guess(path)
    if guessed is None or guessed.form is None or layout.form is None:
        return layout
    return layout._replace(form=layout.form._replace(pattern=guessed.form.pattern))  # as `init-config` does


def _unknown_layout(path: Path, ending: str, layouts: Iterable[str]) -> FormatError:
    """Return the error on a file whose layout neither its ending nor its first lines show."""
    if path != STDIN and not path.stat().st_size:
        return FormatError(path, 0, "the file is empty.")
    if separated := separator_of(path):
        return FormatError(path, 1, f"the columns are separated by {separated}. Separate them by spaces or tabs.")
    neither = f"Neither its ending {ending!r} nor" if ending else "It has no ending, and not even"
    advice = f"Give --format, in a config format ({', '.join(layouts)}), or --columns."
    return FormatError(path, 0, f"the layout of this file is unknown. {neither} its first lines show it. {advice}")


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
    return all(IGNORED in pair or (pair[0] in SPAN_COLUMNS) == (pair[1] in SPAN_COLUMNS) for pair in pairs)


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
    clean = [[tag if is_tag(tag) else OUTSIDE for tag in tags] for tags in sequences]
    if any(tag[:2] in ("L-", "U-") for tags in clean for tag in tags):
        return "BILUO"
    with_spans = [tags for tags in clean if decode_lenient(tags)]
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
