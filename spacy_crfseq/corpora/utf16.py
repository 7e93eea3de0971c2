"""Positions in UTF-16, in which Java and JavaScript count: a character above U+FFFF takes two units."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


def units_of(text: str) -> Sequence[int]:
    """Return the position of each character and of the end, in units of UTF-16 [characters + 1]."""
    if not text or max(text) <= "\uffff":
        return range(len(text) + 1)
    return list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


def character_at(units: Sequence[int], position: int) -> int | None:
    """Return the character at a position in UTF-16; None inside a character or outside of the text.

    units: Those of the text, see `units_of`.
    """
    character = bisect_left(units, position)
    return character if character < len(units) and units[character] == position else None
