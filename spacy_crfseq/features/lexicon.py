"""One row of attribute values per distinct word.

A word is known by its spaCy hash (ORTH).  The first rows stand for positions beyond the ends of a sequence: with width
K, rows 0..K-1 are 1..K positions before the beginning and rows K..2K-1 as many after the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from ..types import Hashes, Ints, Offsets
from .attributes import PADDED
from .index import Growable, HashIndex

LexemeValues = Callable[[int], Sequence[int]]
"""Maps a word's hash to the values of the lexical attributes, 0 where one has no value."""


def pad_values(width: int) -> Hashes:
    """Return the hashes that stand for ``_B-1 ... _B-K, _B+1 ... _B+K``."""
    names = [f"_B{sign}{k}" for sign in "-+" for k in range(1, width + 1)]
    digests = [blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)


class Lexicon:
    """Numbers words and keeps their attribute values."""

    def __init__(self, attributes: Sequence[str], width: int, values_of: LexemeValues) -> None:
        self.attributes = list(attributes)
        self.width = width
        self._values_of = values_of
        self._orths = HashIndex()
        self._values = Growable(np.uint64, len(self.attributes))
        padded = np.array([name in PADDED for name in self.attributes], np.bool_)
        self._values.append(np.where(padded, pad_values(width)[:, None], np.uint64(0)))

    @property
    def size(self) -> int:
        """Rows, those of the padding positions included."""
        return self._values.size

    @property
    def values(self) -> Hashes:
        """[size, attributes] values of all rows."""
        return self._values.array

    def rows(self, orths: Hashes) -> Ints:
        """Return the rows of words given by their hashes [T], adding new words."""
        ids, new = self._orths.add(orths)
        if new.any():
            try:
                rows = [self._values_of(int(orth)) for orth in orths[new]]
            except BaseException:  # a user's function may raise: words must not be ahead of their values
                self._orths = HashIndex(self._orths.keys[: self.size - 2 * self.width])
                raise
            self._values.append(np.array(rows, np.uint64).reshape(len(rows), len(self.attributes)))
        return ids + np.int32(2 * self.width)

    def shifted(self, rows: Ints, offsets: Offsets, distance: int) -> Ints:
        """Return the row `distance` tokens further on, [T]; see the module's text for positions outside."""
        from ..kernels import hashing

        out = np.empty_like(rows)
        hashing.shift_ids(rows, offsets, distance, 0, self.width, out)
        return out
