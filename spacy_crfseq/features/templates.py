"""The template language.

A template is one or more parts joined by ``|``; a part is an attribute and an offset from the current token::

    LOWER[0]                 the word itself, lower-cased
    ORTH[-2..2]              a window: five templates, one for each offset
    TAG[-1]|TAG[0]           a conjunction: one attribute for each pair of values that occurs
    PREFIX3[0]|SHAPE[-1]     parts may differ in attribute and offset

You can omit ``[0]``.  Beyond the ends of a sequence, a part has the value ``_B-1``, ``_B-2``, ... before the
start and ``_B+1``, ``_B+2``, ... after the end, as in CRF++.

Templates are grouped into *slots*, so that weights are summed only once per distinct set of features.  Templates of the
word at one offset form a *lexeme slot*: the word determines their features, a *bag*.  Templates that use only token
columns, such as tags, share a *column slot* if their parts all occur in a larger template, whose key determines the
bag.  A token function is a *set slot*: the whole set of names determines its bag.  Other templates are *single slots*
with one feature per token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import ConfigError, suggest
from ..types import Hashes
from .attributes import TOKEN_COLUMNS
from .index import hash_of_name
from .items import escaped

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


def parse(texts: Iterable[str], attributes: Collection[str]) -> list[Template]:
    """Return the templates of all `texts`, with expanded windows, in order and without repetition.

    attributes (Collection[str]): Names of attributes that may be used.
    RAISES ConfigError: On a syntax error, an unknown attribute or an offset beyond `MAX_OFFSET`.
    """
    return list(dict.fromkeys(template for text in texts for template in _parse_one(text, attributes)))


def _parse_one(text: str, attributes: Collection[str]) -> list[Template]:
    if not isinstance(text, str):
        raise ConfigError(f"A template must be a string such as 'LOWER[-1]', but {text!r} was given.")
    windows = [_parse_part(part, text, attributes) for part in text.split("|")]
    if len(windows) == 1:
        return [Template((part,)) for part in windows[0]]
    if any(len(window) > 1 for window in windows):
        raise ConfigError(
            f"Template {text!r}: a window such as [-1..1] cannot be used in a conjunction. "
            "Write one conjunction for each offset."
        )
    return [Template(tuple(window[0] for window in windows))]


def _parse_part(part: str, text: str, attributes: Collection[str]) -> list[Part]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ConfigError(
            f"Template {text!r}: cannot read the part {part!r}. Write ATTRIBUTE[offset] or ATTRIBUTE[first..last], "
            "joined by '|', for example 'LOWER[-1]', 'ORTH[-2..2]' or 'TAG[-1]|TAG[0]'."
        )
    name, first, last = match[1], int(match[2] or 0), int(match[3] or match[2] or 0)
    if name not in attributes:
        raise ConfigError(f"Template {text!r}: unknown attribute {name!r}. {suggest(name, attributes)}")
    if first > last:
        raise ConfigError(f"Template {text!r}: the window [{first}..{last}] is empty; write the smaller offset first.")
    if max(abs(first), abs(last)) > MAX_OFFSET:
        raise ConfigError(f"Template {text!r}: offsets beyond {MAX_OFFSET} are not supported.")
    return [Part(name, offset) for offset in range(first, last + 1)]


def pad_names(width: int) -> list[str]:
    """Return ``_B-1 ... _B-K, _B+1 ... _B+K``, the values beyond the ends of sequences."""
    return [f"_B{sign}{k}" for sign in "-+" for k in range(1, width + 1)]


@cache
def pad_values(width: int) -> Hashes:
    """Return the hashes of `pad_names`; not to be changed."""
    return np.array([hash_of_name(name) for name in pad_names(width)], np.uint64)


class Slot(NamedTuple):
    """Templates with common bags.

    key (int): The offset of their word; or the number of the template that has the parts of all.
    """

    key: int
    templates: tuple[int, ...]


class Plan(NamedTuple):
    """Slots of a list of templates; a template is identified by its position in the list.

    width (int): The largest offset, at least 1.
    """

    templates: tuple[Template, ...]
    width: int
    lexeme_slots: tuple[Slot, ...]
    column_slots: tuple[Slot, ...]
    single_slots: tuple[int, ...]
    set_slots: tuple[int, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The token columns in use."""
        return [name for name in TOKEN_COLUMNS if name in self._attributes()]

    @property
    def lexical(self) -> list[str]:
        """The attributes of words in use, sorted."""
        return sorted(self._attributes() - set(TOKEN_COLUMNS) - self.functions)

    @property
    def functions(self) -> set[str]:
        """The token functions in use."""
        return {self.templates[number].parts[0].attribute for number in self.set_slots}

    def _attributes(self) -> set[str]:
        return {part.attribute for template in self.templates for part in template.parts}


@lru_cache(maxsize=64)
def lexical_names(*plans: Plan) -> tuple[str, ...]:
    """Return the attributes of words that any of the plans uses, sorted."""
    return tuple(sorted({name for plan in plans for name in plan.lexical}))


@lru_cache(maxsize=64)
def column_names(*plans: Plan) -> tuple[str, ...]:
    """Return the token columns that the plans use, without repetition."""
    return tuple(dict.fromkeys(name for plan in plans for name in plan.columns))


@lru_cache(maxsize=64)
def seeds_of(plan: Plan) -> tuple[int, ...]:
    """Return hashes of the names of templates, so that the keys of features do not depend on their order."""
    return tuple(hash_of_name(template.name) for template in plan.templates)


@lru_cache(maxsize=64)
def plan_of(texts: tuple[str, ...], attributes: frozenset[str], functions: frozenset[str]) -> Plan:
    """Return the plan of templates; arguments and errors as of `parse` and `make_plan`."""
    return make_plan(parse(texts, attributes), functions)


def make_plan(templates: Iterable[Template], functions: Collection[str] = ()) -> Plan:
    """Assign every template to exactly one slot.

    functions (Collection[str]): Names of token functions.
    RAISES ConfigError: If such a name is in a conjunction.
    """
    templates = tuple(templates)
    by_offset: dict[int, list[int]] = {}
    over_columns, singles, sets = list[int](), list[int](), list[int]()
    for number, template in enumerate(templates):
        if any(part.attribute in functions for part in template.parts):
            if len(template.parts) > 1:
                raise ConfigError(
                    f"Template {template.name!r}: a token function returns several values for a token and cannot be "
                    "used in a conjunction. Let the function return the joint value, for example "
                    '"word+tag=" + sentence[i].text + "/" + sentence[i].tag_.'
                )
            sets.append(number)
            continue
        kinds = {part.attribute in TOKEN_COLUMNS for part in template.parts}
        offsets = {part.offset for part in template.parts}
        if kinds == {False} and len(offsets) == 1:
            by_offset.setdefault(offsets.pop(), []).append(number)
        elif kinds == {True}:
            over_columns.append(number)
        else:
            singles.append(number)
    groups = _cover(templates, over_columns)
    return Plan(
        templates,
        max([1, *(abs(part.offset) for template in templates for part in template.parts)]),
        tuple(Slot(offset, tuple(by_offset[offset])) for offset in sorted(by_offset)),
        tuple(Slot(key, tuple(members)) for key, members in groups.items() if len(members) > 1),
        (*(key for key, members in groups.items() if len(members) == 1), *singles),
        tuple(sets),
    )


def _cover(templates: tuple[Template, ...], numbers: Collection[int]) -> dict[int, list[int]]:
    """Assign each template to the first of the largest ones that has all of its parts."""
    largest_first = sorted(numbers, key=lambda number: -len(templates[number].parts))
    groups: dict[int, list[int]] = {}
    for number in largest_first:
        parts = set(templates[number].parts)
        home = next((key for key in groups if parts <= set(templates[key].parts)), number)
        groups.setdefault(home, []).append(number)
    return groups


def names_of(plan: Plan, template: int, values: Hashes, text_of: Callable[[int], str]) -> list[str]:
    """Return the names [M] of features of a template, given the values [parts, M] behind them."""
    pads = dict(zip(pad_values(plan.width).tolist(), pad_names(plan.width), strict=True))
    name, parts = plan.templates[template].name, plan.templates[template].parts

    def text(value: int, part: Part) -> str:
        return pads.get(value) or escaped(text_of(value), part.attribute, len(parts) > 1)

    return [f"{name}={'|'.join(map(text, column, parts))}" for column in values.T.tolist()]
