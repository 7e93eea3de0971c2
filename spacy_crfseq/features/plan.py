"""Group templates into slots, so that weights are summed only once per distinct set of attributes.

Templates of the word at one offset form a *lexeme slot*: the word determines their attributes, a *bag*.  Templates that
use only token columns, such as tags, share a *column slot* if their parts all occur in a larger template, whose key
determines the bag.  A token function is a *set slot*: the whole set of names determines its bag.  Other templates are
*single slots* with one attribute per token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..errors import ConfigError
from .attributes import TOKEN_COLUMNS
from .templates import Template


class LexemeSlot(NamedTuple):
    """Templates of the word at `offset`."""

    offset: int
    templates: tuple[int, ...]


class ColumnSlot(NamedTuple):
    """Templates whose parts all occur in the template `key`, which is one of them."""

    key: int
    templates: tuple[int, ...]


class Plan(NamedTuple):
    """Slots of a list of templates; a template is identified by its position in the list."""

    templates: tuple[Template, ...]
    lexeme_slots: tuple[LexemeSlot, ...]
    column_slots: tuple[ColumnSlot, ...]
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

    @property
    def width(self) -> int:
        """The largest offset, at least 1."""
        return max([1, *(abs(part.offset) for template in self.templates for part in template.parts)])

    def _attributes(self) -> set[str]:
        return {part.attribute for template in self.templates for part in template.parts}


def lexical_names(*plans: Plan) -> list[str]:
    """Return the attributes of words that any of the plans uses, sorted."""
    return sorted({name for plan in plans for name in plan.lexical})


def column_names(*plans: Plan) -> list[str]:
    """Return the token columns that any of the plans uses, each once."""
    return list(dict.fromkeys(name for plan in plans for name in plan.columns))


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
        tuple(LexemeSlot(offset, tuple(by_offset[offset])) for offset in sorted(by_offset)),
        tuple(ColumnSlot(key, tuple(members)) for key, members in groups.items() if len(members) > 1),
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
