"""The template language.

A template is one or more parts joined by ``|``; a part is an attribute and an offset from the current token::

    LOWER[0]                 the word itself, lower-cased
    ORTH[-2..2]              a window: five templates, one for each offset
    TAG[-1]|TAG[0]           a conjunction: one attribute for each pair of values that occurs
    PREFIX3[0]|SHAPE[-1]     parts may differ in attribute and offset

You can omit ``[0]``.  Beyond the ends of a sequence, a part has the value ``_B-1``, ``_B-2``, ... before the
start and ``_B+1``, ``_B+2``, ... after the end, as in CRF++.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..errors import ConfigError, suggest
from .index import hash_of_name

MAX_OFFSET = 16
_PART = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\[\s*([+-]?\d+)\s*(?:\.\.\s*([+-]?\d+)\s*)?\])?\s*")


class Part(NamedTuple):
    """One attribute at one offset."""

    attribute: str
    offset: int


class Template(NamedTuple):
    """A conjunction of parts: one attribute per token, or none if a part has no value."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The canonical text, such as ``TAG[-1]|TAG[0]``."""
        return "|".join(f"{part.attribute}[{part.offset}]" for part in self.parts)

    @property
    def seed(self) -> int:
        """A 64-bit hash of the name, so that attribute keys do not depend on the order of templates."""
        return hash_of_name(self.name)


def parse(texts: Iterable[str], known: Collection[str]) -> list[Template]:
    """Return the templates of all `texts`, with expanded windows, in order and without repetition.

    known (Collection[str]): Attribute names that may be used.
    RAISES ConfigError: On a syntax error, an unknown attribute or an offset beyond `MAX_OFFSET`.
    """
    return list(dict.fromkeys(template for text in texts for template in _parse_one(text, known)))


def _parse_one(text: str, known: Collection[str]) -> list[Template]:
    if not isinstance(text, str):
        raise ConfigError(f"A template must be a string such as 'LOWER[-1]', but {text!r} was given.")
    windows = [_parse_part(part, text, known) for part in text.split("|")]
    if len(windows) == 1:
        return [Template((part,)) for part in windows[0]]
    if any(len(window) > 1 for window in windows):
        raise ConfigError(
            f"Template {text!r}: a window such as [-1..1] cannot be used in a conjunction. "
            "Write one conjunction for each offset."
        )
    return [Template(tuple(window[0] for window in windows))]


def _parse_part(part: str, text: str, known: Collection[str]) -> list[Part]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ConfigError(
            f"Template {text!r}: cannot read the part {part!r}. Write ATTRIBUTE[offset] or ATTRIBUTE[first..last], "
            "joined by '|', for example 'LOWER[-1]', 'ORTH[-2..2]' or 'TAG[-1]|TAG[0]'."
        )
    name, first, last = match[1], int(match[2] or 0), int(match[3] or match[2] or 0)
    if name not in known:
        raise ConfigError(f"Template {text!r}: unknown attribute {name!r}. {suggest(name, known)}")
    if first > last:
        raise ConfigError(f"Template {text!r}: the window [{first}..{last}] is empty; write the smaller offset first.")
    if max(abs(first), abs(last)) > MAX_OFFSET:
        raise ConfigError(f"Template {text!r}: offsets beyond {MAX_OFFSET} are not supported.")
    return [Part(name, offset) for offset in range(first, last + 1)]
