"""Attributes of the words of a sentence, by the standard library alone.

`crfseq export-model` copies this file beside a model that it writes for CRFsuite, with the templates of the model::

    tagger.tag(items(["Anna", "lives", "in", "Oslo"]))
"""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

Function = Callable[[str], "str | None"]
"""Returns the value of an attribute for a word, None or an empty text if it has none."""


def _prefix(length: int) -> Function:
    return lambda text: text[:length].lower() if len(text) >= length else None


def _suffix(length: int) -> Function:
    return lambda text: text[-length:].lower() if len(text) >= length else None


def _fires(condition: bool) -> str | None:
    return "1" if condition else None


def brief_shape(text: str) -> str:
    """Return the word's shape with runs collapsed: ``Xx`` for "Paris", ``d-d`` for "1990-95"."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "".join(kind for kind, _ in groupby(kinds))


def shape(text: str) -> str:
    """Return spaCy's shape of a word, with runs of at most four: ``Xxxxx`` for "Lisbon"."""
    kinds = ("X" if c.isalpha() and c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "LONG" if len(text) >= 100 else "".join("".join([*run][:4]) for _, run in groupby(kinds))


TEXT_FUNCTIONS: dict[str, Function] = {
    **{f"PREFIX{n}": _prefix(n) for n in range(1, 7)},
    **{f"SUFFIX{n}": _suffix(n) for n in range(1, 7)},
    "BRIEF_SHAPE": brief_shape,
    "LENGTH": lambda text: str(len(text)),
    "INITIAL_LOWER": lambda text: _fires(text[:1].islower()),
    "INITIAL_UPPER": lambda text: _fires(text[:1].isupper()),
    "INITIAL_DIGIT": lambda text: _fires(text[:1].isdigit()),
    "ALL_CAPS": lambda text: _fires(text.isupper()),
    "CAP_WITH_DOT": lambda text: _fires(text[:1].isupper() and "." in text),
    "HAS_HYPHEN": lambda text: _fires("-" in text),
    "HAS_DIGIT": lambda text: _fires(any(char.isdigit() for char in text)),
}
"""Functions of a word's text.  Affixes are lower-cased, and absent if the word is shorter."""

LEXEME_FUNCTIONS: dict[str, Function] = {
    "ORTH": lambda text: text,
    "LOWER": lambda text: text.lower(),
    "SHAPE": shape,
    "PREFIX": lambda text: text[:1],
    "SUFFIX": lambda text: text[-3:],
    "IS_ALPHA": lambda text: _fires(text.isalpha()),
    "IS_ASCII": lambda text: _fires(text.isascii()),
    "IS_DIGIT": lambda text: _fires(text.isdigit()),
    "IS_LOWER": lambda text: _fires(text.islower()),
    "IS_PUNCT": lambda text: _fires(bool(text) and all(unicodedata.category(char)[0] == "P" for char in text)),
    "IS_SPACE": lambda text: _fires(text.isspace()),
    "IS_TITLE": lambda text: _fires(text.istitle()),
    "IS_UPPER": lambda text: _fires(text.isupper()),
}
"""The attributes that spaCy computes for a word in any language."""

COLUMNS = ("NORM", "TAG", "POS", "LEMMA", "MORPH", "DEP", "ENT_TYPE", "ENT_IOB", "SPACY")
PADDED = frozenset({"ORTH", "LOWER", "SHAPE", "PREFIX", "SUFFIX", "BRIEF_SHAPE", *COLUMNS})
"""Attributes that have a value beyond the ends of a sentence."""
START, END = "_START", "_END"
"""Attributes of the first and of the last word."""

TEMPLATES: list[list[tuple[str, int]]] = []
"""The parts of each template: an attribute and an offset."""
CLASSES: dict[str, tuple[str, int]] = {}
"""The attributes that are classes of words: the name of their table, and the length of a prefix, 0 for the whole."""
TABLES: dict[str, dict[str, str]] = {}
"""The classes of words by the CRC-32 of a word's bytes, by the names of the tables."""


def items(words: Sequence[str], **columns: Sequence[str]) -> list[list[str]]:
    """Return the attributes of each word of a sentence.

    words: The tokens without those that are white space, which are no items and have no labels.
    columns: Attributes that other programs have given the words, by the name of a column, such as TAG; "" if unknown.
    RAISES ValueError: If a column of the templates is missing, or has another length.
    """
    values = {}
    for name in sorted({name for template in TEMPLATES for name, _ in template}):
        values[name] = columns[name] if name in columns else [] if name in COLUMNS else [*map(_function(name), words)]
        if len(values[name]) != len(words):
            raise ValueError(f"items: give {name}, one value for each of the {len(words)} words")
    result = []
    for i in range(len(words)):
        attributes = [START] * (i == 0) + [END] * (i == len(words) - 1)
        for template in TEMPLATES:
            several = len(template) > 1
            parts = [_value(values[name], name, i + offset, several) for name, offset in template]
            if all(parts):
                names = "|".join(f"{name}[{offset}]" for name, offset in template)
                attributes.append(f"{names}={'|'.join(map(str, parts))}")
        result.append(attributes)
    return result


def escaped(value: str, name: str, several: bool) -> str:
    """Return the value of an attribute as it stands in names, which differ if values do.

    A backslash stands before a word that looks like the value beyond an end of a sentence; of several values, also
    before each bar, which joins them, and each backslash.
    """
    if several:
        return re.sub(r"[\\|]|^(?=_B[+-]\d)", r"\\\g<0>", value)
    return re.sub(r"^(?=\\*_B[+-]\d)", r"\\", value) if name in PADDED else value


def _value(values: Sequence[str | None], name: str, place: int, several: bool) -> str | None:
    if 0 <= place < len(values):
        value = values[place]
        return value and escaped(value, name, several)
    beyond = f"_B{place}" if place < 0 else f"_B+{place - len(values) + 1}"
    return beyond if name in PADDED else None


def _function(name: str) -> Function:
    if name not in CLASSES:
        return LEXEME_FUNCTIONS.get(name) or TEXT_FUNCTIONS[name]
    table, length = CLASSES[name]
    if not TABLES:
        TABLES.update(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf8")))
    classes = TABLES[table]

    def class_of(word: str) -> str | None:
        class_name = classes.get(_key(word)) or classes.get(_key(word.lower()))
        return class_name[:length] if class_name and length else class_name

    return class_of


def _key(word: str) -> str:
    return str(zlib.crc32(word.encode("utf8", "surrogatepass")))
