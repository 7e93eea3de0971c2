"""Results of token functions as sets of hashes.

Such a function, ``word2features(sentence, i)`` in sklearn-crfsuite, returns a list of feature names or a dictionary.
The dictionary is interpreted as in python-crfsuite.  Numbers are for the potential `potentials.values.Values`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..types import Hashes, Offsets


class TokenSets(NamedTuple):
    """The sets of T tokens: hashes of names, ``values[ptr[t]:ptr[t + 1]]``.

    keys (Hashes): [T] a key for each distinct set, 0 for the empty one.
    """

    keys: Hashes
    ptr: Offsets
    values: Hashes

    def take(self, tokens: Offsets) -> tuple[Offsets, Hashes]:
        """Return the sizes of some tokens' sets, and their concatenated values."""
        sizes = np.diff(self.ptr)[tokens]
        first = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(self.ptr[:-1][tokens] - first, sizes)
        return sizes, self.values[places]


def make_token_sets(sizes: Sequence[int], values: Sequence[int] | array[int]) -> TokenSets:
    """Return sets of these sizes [T] from concatenated distinct 64-bit hashes.

    The key of a set is the sum of its values, so that their order does not matter.
    """
    ptr, hashes = np.zeros(len(sizes) + 1, np.int64), np.array(values, np.uint64)
    np.cumsum(sizes, out=ptr[1:])
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    keys = sums[ptr[1:]] - sums[ptr[:-1]]
    keys[(keys == 0) & (np.diff(ptr) > 0)] = 1
    return TokenSets(keys, ptr, hashes)
