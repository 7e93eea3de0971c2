"""One row of attribute values per distinct word, known by its spaCy hash (ORTH).

The first rows are padding: with width K, rows 0..K-1 are 1..K positions before the start of a sequence, and rows
K..2K-1 are 1..K positions after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import kernels
from ..types import Hashes, Ints, Offsets
from .attributes import PADDED
from .index import Growable, HashIndex, hash_of_name

LexemeValues = Callable[[int], Sequence[int]]
"""Maps a word's hash to the values of the lexical attributes, 0 for attributes without a value."""


def pad_names(width: int) -> list[str]:
    """Return ``_B-1 ... _B-K, _B+1 ... _B+K``."""
    return [f"_B{sign}{k}" for sign in "-+" for k in range(1, width + 1)]


def pad_values(width: int) -> Hashes:
    """Return the hashes of `pad_names`."""
    return np.array([hash_of_name(name) for name in pad_names(width)], np.uint64)


class Lexicon:
    """Numbers words and keeps their attribute values; `size` counts all rows, padding included."""

    def __init__(self, attributes: Sequence[str], width: int, values_of: LexemeValues) -> None:
        self.attributes = list(attributes)
        self.width = width
        self._values_of = values_of
        self._orths = HashIndex()
        self._columns = {name: Growable(np.uint64) for name in self.attributes}
        self.size = 2 * width
        pads = pad_values(width)
        for name, column in self._columns.items():
            column.append(pads if name in PADDED else np.zeros_like(pads))

    @property
    def n_bytes(self) -> int:
        """Memory of all rows."""
        return self._orths.n_bytes + sum(column.n_bytes for column in self._columns.values())

    def column(self, attribute: str) -> Hashes:
        """Return the values [size] of an attribute in all rows."""
        return self._columns[attribute].array

    def rows(self, orths: Hashes) -> Ints:
        """Return the rows of words given by their hashes [T], adding new words."""
        ids, unknown = self._orths.find(orths)
        if unknown:
            ids, new = self._orths.add(orths)
            self._add(orths[new])
        return ids + np.int32(2 * self.width)

    def _add(self, orths: Hashes) -> None:
        try:
            rows = [self._values_of(orth) for orth in orths.tolist()]
        except BaseException:  # if a user's function raises, words and values must stay in step
            self._orths = HashIndex(self._orths.keys[: self.size - 2 * self.width])
            raise
        table = np.array(rows, np.uint64).reshape(len(rows), len(self.attributes))
        for name, values in zip(self.attributes, table.T, strict=True):
            self._columns[name].append(values)
        self.size += len(rows)

    def shifted(self, rows: Ints, offsets: Offsets, distance: int) -> Ints:
        """Return the rows [T] of the words `distance` tokens later, including padding."""
        out = np.empty_like(rows)
        kernels.hashing.shift(rows, offsets, distance, self.width, out)
        return out
