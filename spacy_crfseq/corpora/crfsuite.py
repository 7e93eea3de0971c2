"""Attribute files of CRFsuite (Okazaki 2007): one token per line, its label and its attributes, separated by tabs.

A blank line ends a sequence.  ``name:2`` is an attribute with a value; a colon in a name is written ``\\:``, a
backslash ``\\\\``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from ..errors import DataError, FormatError
from .columns import SPAN_COLUMNS
from .lines import OnError, Sentence, check_file, checked, lines_of
from .tags import TagReader

WORD = "w[0]="
"""The beginning of the attribute with the word in CRFsuite's own examples."""
NO_WORD = "_"
Attributes: TypeAlias = list[str | tuple[str, float]]
"""The attributes of a token: names, or pairs with a value."""
_FIELD = re.compile(r"(?P<name>(?:\\.|[^\\:])*)(?::(?P<value>.*))?")
_ESCAPED = re.compile(r"\\([\\:])")


def read_crfsuite(
    path: Path | str,
    column: str = "tag",
    word: str = WORD,
    encoding: str = "utf8",
    on_error: OnError | None = None,
) -> Iterator[Sentence]:
    """Yield the sequences of a file, with their labels in a column, and their attributes.

    word (str): The beginning of the attribute whose rest is the word; a token without one gets "_".
    on_error (OnError | None): Receives errors in lines; their sequences are skipped.
    RAISES FormatError: With its line, on a value that is no number, on an attribute that is there twice, on a weight of
        a sequence, on a line without a label, and on a file without a sequence.
    """
    path = check_file(path)
    return checked(_sentences(path, column, word, encoding), path, on_error, empty="no sequence")


def _sentences(path: Path, column: str, word: str, encoding: str) -> Iterator[Sentence | FormatError]:
    rows: list[tuple[str, Attributes]] = []
    first, spoilt, reader = 0, False, TagReader()
    for item in chain(lines_of(path, encoding), [(0, "")]):  # a blank line ends a sequence that is open
        try:
            if isinstance(item, FormatError):
                raise item
            number, line = item
            if line.strip(" \t"):
                if line.startswith("@"):
                    _check_weight(path, number, line)
                else:
                    first = first if rows else number
                    rows.append(_item(path, number, line))
                continue
            ended, whole, rows, spoilt = rows, not spoilt, [], False
            if ended and whole:
                labels, attributes = map(list, zip(*ended, strict=True))
                words = [_word(names, word) for names in attributes]
                if column in SPAN_COLUMNS:
                    labels = _read_tags(path, first, labels, reader)
                yield Sentence(words, {column: labels}, None, first, attributes=attributes)
        except FormatError as error:
            yield error
            spoilt = isinstance(item, FormatError) or bool(item[1].strip(" \t"))  # else the sequence has ended


def _check_weight(path: Path, number: int, line: str) -> None:
    name, _, value = line.partition(":")
    if name != "@weight" or _value_of(value) != 1:
        raise FormatError(path, number, f"{line!r}: weights of sequences are not supported; remove such lines.")


def _read_tags(path: Path, line: int, labels: list[str], reader: TagReader) -> list[str]:
    try:
        return reader.read(labels)
    except DataError as error:
        index = next(i for i, label in enumerate(labels) if label not in reader)
        raise FormatError(path, line + index, f"the label: {error}") from None


def _word(attributes: Attributes, prefix: str) -> str:
    rests = (name[len(prefix) :] for name in attributes if isinstance(name, str) and name.startswith(prefix))
    return next(rests, "") or NO_WORD


def _item(path: Path, number: int, line: str) -> tuple[str, Attributes]:
    (label, valued), *items = (_field(path, number, field) for field in line.split("\t"))
    attributes = [name for name, _ in items]
    if valued not in (None, 1.0):
        raise FormatError(path, number, f"the label {label!r} has a value. Write \\: for a colon in a label.")
    if not label:
        raise FormatError(path, number, "the label is empty; a line begins with its label, then a tab.")
    if not attributes and " " in label.strip():
        what = f"{line[:60]!r} has spaces but no tab; tabs separate label and attributes."
        raise FormatError(path, number, what)
    if len(set(attributes)) < len(attributes):
        twice = next(name for i, name in enumerate(attributes) if name in attributes[:i])
        what = f"the attribute {twice!r} occurs twice, which CRFsuite counts as the value 2; keep it once."
        raise FormatError(path, number, what)
    return label, [name if value is None else (name, value) for name, value in items]


def _field(path: Path, number: int, field: str) -> tuple[str, float | None]:
    match = _FIELD.fullmatch(field)
    if match is None:
        raise FormatError(path, number, f"{field!r} ends with a single backslash; write two for one.")
    value = None if match["value"] is None else _value_of(match["value"])
    if value is not None and not math.isfinite(value):
        what = f"{field!r} has the value {match['value']!r}, which is not a number."
        raise FormatError(path, number, f"{what} Write \\: for a colon in a name.")
    return _ESCAPED.sub(r"\1", match["name"]), value


def _value_of(text: str) -> float:
    """Return a value, 1 if it is empty, NaN if it is no number."""
    try:
        return float(text or 1)
    except ValueError:
        return math.nan
