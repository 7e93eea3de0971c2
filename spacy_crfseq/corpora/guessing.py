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

from ..errors import ConfigError, CrfError, DataError, FormatError
from ..schemes import LETTERS, OUTSIDE, find_invalid
from .columns import DOCSTART, IGNORED, MISSING_ENTITY, SPAN_COLUMNS, WORD
from .groups import COLUMN
from .layouts import (
    ANNOTATIONS,
    BRAT,
    COLUMN_FILES,
    CUSTOM,
    DOCBIN,
    GOLD,
    PRESETS,
    RAW,
    TEXTS,
    WEBANNO,
    Format,
    Preset,
    asked,
    described,
    layout_by_ending,
    read_layout,
    shown_scheme,
)
from .lines import STDIN, ZIPPED, probable_encoding
from .paths import corpus_files, resolve
from .spans.brat import ENDING as BRAT_ENDING
from .spans.brat import TEXT as BRAT_TEXT
from .spans.inception import MARK as WEBANNO_MARK
from .splitting import SPACES, WORDS, Splitter
from .tags import UNNAMED, find_scheme, typed
from .xml import XMLForm, likely_sequence

LINES = 5000
"""Lines that are read."""
CHUNK_TYPES = frozenset({"NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"})
"""Chunks of CoNLL-2000; other types of spans count as entities."""
REPEATED = 4
"""Tokens that have the value of the one before them, from which a column that changes between sentences is a group."""
SPAN_TAGS = 0.95
"""Share of the values of a column that are tags of spans, from which the others are mistakes."""
_CONLLU_FIELDS = 10
_XML = re.compile(r"\s*<[?!A-Za-z_]")
_JSON = re.compile(r"""\s*\[?\s*(\{\s*"[\w%]+"\s*:|\[\s*")""")


BRAT_FILES = (BRAT_ENDING, BRAT_TEXT)


class FoundLayout(NamedTuple):
    """A layout; `guessed` if it comes from the first lines of the file, which is to be shown to the user.

    named: Whether only the scheme of its tags does.
    """

    layout: Preset
    guessed: bool = False
    named: bool = False

    def notice(self, path: Path) -> str:
        """Return a line on how the file is read."""
        if self.named:
            return (
                f"{path}: detected tags in {shown_scheme(self.layout.scheme)}, as --scheme {self.layout.scheme} says."
            )
        return f"{path}: detected {described(self.layout)}."


def find_layout(
    path: Path, layout: Format = None, trained: Preset | None = None, *, texts: bool = False
) -> FoundLayout:
    """Return the layout of the files of a path, see `paths.resolve`: the same for all.

    layout: Options of the user.
    trained: The layout that a model was trained on.
    texts: Whether texts are asked for, so that raw text will do; standard input is that by default.
    RAISES FormatError: If a file does not exist, or its layout cannot be found.
    RAISES ConfigError: If the options are invalid, or there are files of several kinds.
    """
    said, layouts = asked(layout), TEXTS if texts else GOLD
    files = resolve(path) if texts else corpus_files(path)
    unpacked = Path(files[0].name.removesuffix(ZIPPED)) if texts else files[0]
    chosen = said.layout(layouts)
    if chosen is None:
        _check_kinds(files)
    if chosen is None and path == STDIN:
        chosen = RAW["txt"]
    if chosen is None and (ending := layout_by_ending(unpacked, layouts)) is not None:
        chosen = layouts[ending]
    if chosen is None and trained is not None and _may_be(path, trained):
        chosen = trained
    elif chosen is not None and chosen.form is not None:
        chosen = _xml_layout(path, chosen, trained)
    if (settled := said.encoded(chosen)) is not None:
        adapted = settled if said.scheme else with_scheme(path, settled)
        return FoundLayout(adapted, guessed=adapted != settled, named=True)
    if (guessed := guess(path)) is None:
        raise _unknown_layout(path, unpacked.suffix, layouts)
    guessed = layouts.get(guessed.name, guessed)  # of exports, the raw text if texts are asked for
    # other bytes than UTF-8 raise an error with a proposal
    guessed = guessed._replace(encoding=guessed.encoding and "utf8")
    return FoundLayout(said.encoded(guessed) or guessed, guessed=True)


def end_alike(train: Path, dev: Path) -> bool:
    """Return whether the files of a training and a dev corpus have endings of one layout, or of none.

    RAISES ConfigError: As of `corpus_files`.
    """
    return len({layout_by_ending(path) for path in (*corpus_files(train)[:1], *corpus_files(dev))}) == 1


def _check_kinds(files: Sequence[Path]) -> None:
    """RAISES ConfigError: If files have endings of several layouts, or not all of them do."""
    kinds = {layout_by_ending(Path(file.name.removesuffix(ZIPPED)), TEXTS) or "": file for file in reversed(files)}
    if len(kinds) > 1:
        some = ", ".join(f"{file} ({kind or 'no layout of its own'})" for kind, file in sorted(kinds.items()))
        raise ConfigError(f"These files are of {len(kinds)} kinds: {some}. Give those of one kind, or --format.")


def _may_be(path: Path, trained: Preset) -> bool:
    """Whether a file may have the layout that a model was trained on: one of columns that fits its first lines."""
    return trained.form is None and trained.spans is None and trained.name != DOCBIN and fits(path, trained)


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
    if path.is_file() and not path.stat().st_size:
        return FormatError(path, 0, "the file is empty.")
    if separated := separator_of(path):
        return FormatError(path, 1, f"the columns are separated by {separated}. Separate them by spaces or tabs.")
    neither = f"Neither its ending {ending!r} nor" if ending else "It has no ending, and not even"
    advice = f"Give --format, in a config format ({', '.join(layouts)}), or --columns."
    return FormatError(path, 0, f"the layout of this file is unknown. {neither} its first lines show it. {advice}")


def guess(path: Path) -> Preset | None:
    """Return the layout that the first lines of a file suggest, if any; unclear columns become "_".

    RAISES FormatError: If a column has tags of spans of no scheme.
    """
    if path.suffix in BRAT_FILES and path.with_suffix(BRAT_ENDING).is_file():
        return BRAT
    lines, encoding = _first_lines(path) or ([], "")
    if _JSON.match("\n".join(lines[:100])):
        return ANNOTATIONS
    if lines and lines[0].startswith(WEBANNO_MARK):
        return WEBANNO
    if lines and _XML.match(lines[0]) and (sequence := likely_sequence("\n".join(lines))):
        # white space does not separate tokens where segments end before a comma
        sequences = islice(read_layout(path, PRESETS["xml"]._replace(form=XMLForm(sequence)), lambda _: None), LINES)
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
    names = _names([[[row[i] for row in sentence] for sentence in whole] for i in range(width)])
    if names is None:
        return None
    places = [i for i, name in enumerate(names) if name in SPAN_COLUMNS]
    try:
        scheme = _scheme([[row[i] for row in sentence] for i in places for sentence in whole]) if places else "plain"
    except DataError as error:
        columns = f"column {places[0] + 1}" if len(places) == 1 else "columns of spans"
        raise FormatError(path, 0, f"{columns}: {error} Write the tags in one of these.") from None
    return _named(names, scheme, encoding)


def with_scheme(path: Path, layout: Preset) -> Preset:
    """Return a layout with the scheme of the tags in the first lines of a file, if its own has other prefixes."""
    if layout.name not in (CUSTOM, *COLUMN_FILES) or {*SPAN_COLUMNS}.isdisjoint(layout.columns):
        return layout
    places, width = [i for i, name in enumerate(layout.columns) if name in SPAN_COLUMNS], len(layout.columns)
    sentences = [[row for row in rows if len(row) == width] for rows in _sentences((_first_lines(path) or ([], ""))[0])]
    try:
        scheme = _scheme([[row[i] for row in sentence] for i in places for sentence in sentences])
    except DataError:  # whose line the reader tells
        return layout
    return layout if LETTERS[scheme] == LETTERS.get(layout.scheme) else layout._replace(scheme=scheme)


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
    try:
        seems = guess(path)
    except FormatError:  # whose line the reader tells
        seems = None
    if seems is not None and seems.spans is not None:
        return False
    pairs = zip(layout.columns, seems.columns, strict=True) if seems is not None else ()
    return all(IGNORED in pair or (pair[0] in SPAN_COLUMNS) == (pair[1] in SPAN_COLUMNS) for pair in pairs)


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    # the number of columns; None if it varies or there is only one
    width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
    return None if width < 2 or count < 0.9 * len(rows) else width


def _first_lines(path: Path) -> tuple[list[str], str] | None:
    # the first lines and their encoding; None if they are not text
    raw: list[bytes] = []
    try:
        for name in resolve(path):
            with name.open("rb") as file:
                raw += islice(file, max(0, LINES - len(raw)))
            if raw and not raw[-1].endswith(b"\n"):
                raw[-1] += b"\n"
            raw += [b"\n"]
    except (OSError, CrfError):
        return None
    data = b"".join(raw)
    encoding = probable_encoding(data)
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return None if not text or "\0" in text else (text.split("\n"), encoding)


def _sentences(lines: Sequence[str]) -> list[list[list[str]]]:
    sentences: list[list[list[str]]] = [[]]
    split = [line.rstrip("\r").split("\t") if "\t" in line and line.strip() else line.split() for line in lines]
    width = Counter(len(fields) for line, fields in zip(lines, split, strict=True) if fields and line[:2] != "# ")
    usual = max(width, key=width.__getitem__, default=0)
    for line, fields in zip(lines, split, strict=True):
        is_comment = line.startswith("# ") and len(fields) != usual  # else "#" is a token
        if is_comment or (fields and fields[0] == DOCSTART):
            continue
        if any(fields):
            sentences[-1].append(fields)
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def _names(columns: Sequence[Sequence[Sequence[str]]]) -> tuple[str, ...] | None:
    # the first column holds words, then come a tag and at most one of each kind of spans; None without annotation
    counts = [Counter(value for values in column for value in values) for column in columns]
    names, few = [WORD], max(20, len(counts[0]) // 4)
    for column, kinds in zip(columns[1:], counts[1:], strict=True):
        # a lemma takes as many values as words do, a tag few
        name = _spans_in(column, kinds) or _group_in(column, kinds) or ("tag" if len(kinds) <= few else IGNORED)
        names.append(IGNORED if name in names else name)
    if set(names) <= {WORD, IGNORED, "tag"}:  # without spans, tags must come again to be taken for tags
        if 1 < len(counts[-1]) <= few:  # CRF++ and Wapiti have the labels in the last column
            names = [WORD, *[IGNORED] * (len(names) - 2), "tag"]
        tags = counts[names.index("tag")] if "tag" in names else Counter[str]()
        return tuple(names) if tags and 2 * len(tags) <= tags.total() else None
    return tuple(names)


def _group_in(column: Sequence[Sequence[str]], kinds: Counter[str]) -> str | None:
    # what sentences belong to, such as a source: the same at all their tokens; None for other columns
    repeated = sum(map(len, column)) - len(column)
    is_group = len(kinds) > 1 and repeated >= REPEATED and all(len({*values}) == 1 for values in column)
    return COLUMN if is_group else None


def _spans_in(column: Sequence[Sequence[str]], kinds: Counter[str]) -> str | None:
    # the kind of spans that a column has tags of, None for none
    tags = {kind: tag for kind in kinds if (tag := OUTSIDE if kind == MISSING_ENTITY else typed(kind))}
    if sum(kinds[kind] for kind in tags) < SPAN_TAGS * kinds.total():
        return None
    types = {tag[2:] for tag in tags.values() if tag != OUTSIDE}
    if types == {UNNAMED}:  # letters alone may mean other things, unless they keep a scheme
        sequences = [[tags.get(value, OUTSIDE) for value in values] for values in column]
        try:
            scheme = find_scheme(sequences)
        except DataError:
            return None
        if 2 * sum(find_invalid(values, scheme) is None for values in sequences) < len(sequences):
            return None
        return "ent" if OUTSIDE in kinds else "chunk"  # as the words of a segmented text, which are everywhere
    return "chunk" if types and types <= CHUNK_TYPES else "ent"


def _scheme(sequences: Sequence[Sequence[str]]) -> str:
    return find_scheme([[typed(tag) or OUTSIDE for tag in tags] for tags in sequences])


def _named(names: tuple[str, ...], scheme: str, encoding: str) -> Preset:
    # under the name of the preset that reads it the same way
    for preset in PRESETS.values():
        same = scheme == preset.scheme or (scheme == "IOB2" and preset.scheme == "IOB1")
        if preset.columns == names and same and encoding == preset.encoding:
            return preset
    score = next(name for name in ("ent", "chunk", "tag") if name in names)
    return Preset(CUSTOM, names, scheme, encoding, score)
