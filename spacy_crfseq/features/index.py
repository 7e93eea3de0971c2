"""Dense ids for 64-bit keys, and arrays that grow: the containers of the encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..types import Bools, Hashes, Ints, Offsets


class Growable:
    """An array that grows along its first axis at amortised constant cost."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        shape = (16,) if width is None else (16, width)
        self._array: NDArray[Any] = np.zeros(shape, dtype)
        self.size = 0

    @property
    def array(self) -> NDArray[Any]:
        """The used part, a view that a later growth may leave stale."""
        return self._array[: self.size]

    def resize(self, size: int, fill: int = 0) -> NDArray[Any]:
        """Make the array `size` long, new entries set to `fill`, and return it."""
        if size > len(self._array):
            bigger = np.empty((max(size, 2 * len(self._array)), *self._array.shape[1:]), self._array.dtype)
            bigger[: self.size] = self._array[: self.size]
            self._array = bigger
        self._array[self.size : size] = fill
        self.size = size
        return self.array

    def append(self, values: NDArray[Any]) -> None:
        """Add `values` at the end."""
        first = self.size
        self.resize(first + len(values))[first:] = values


class HashIndex:
    """Numbers distinct non-zero uint64 keys 0, 1, 2, ... in the order of their first appearance.

    keys (Hashes | None): Keys to begin with, already distinct.  They are hashed when first needed, so that loading a
        model does not start numba.
    """

    def __init__(self, keys: Hashes | None = None) -> None:
        self._keys = np.empty(16, np.uint64) if keys is None else np.array(keys, np.uint64)
        self._slots = np.zeros(0, np.int32)
        self.size = 0 if keys is None else len(keys)

    @property
    def keys(self) -> Hashes:
        """The key of every id."""
        return self._keys[: self.size]

    def add(self, keys: Hashes) -> tuple[Ints, Bools]:
        """Return the ids of `keys` [T], new ones made where needed, and where [T] a key came first.  Key 0 is -1."""
        from ..kernels import hashing

        ids, new = np.empty(len(keys), np.int32), np.empty(len(keys), np.bool_)
        chunk = 1 << 16  # bounds what must be reserved ahead of time
        for start in range(0, len(keys), chunk):
            part = slice(start, start + chunk)
            self._reserve(self.size + len(keys[part]))
            self.size = hashing.insert(keys[part], self._keys, self._slots, self.size, ids[part], new[part])
        return ids, new

    def find(self, keys: Hashes) -> tuple[Ints, int]:
        """Return the ids of `keys` [T], -1 where unknown, and the number of unknown non-zero keys."""
        from ..kernels import hashing

        ids = np.empty(len(keys), np.int32)
        self._reserve(self.size)
        return ids, hashing.look_up(keys, self._keys, self._slots, ids)

    def _reserve(self, size: int) -> None:
        """Make room for `size` keys, and slots of which at most half are taken."""
        from ..kernels import hashing

        if size > len(self._keys):
            bigger = np.empty(max(size, 2 * len(self._keys)), np.uint64)
            bigger[: self.size] = self.keys
            self._keys = bigger
        if 2 * max(size, 1) > len(self._slots):
            self._slots = np.zeros(max(64, 1 << (2 * size).bit_length()), np.int32)
            hashing.rehash(self._keys, self.size, self._slots)


class BagStore:
    """Attribute ids of numbered bags; bag 0 is empty."""

    def __init__(self) -> None:
        self._ptr, self._ids = Growable(np.int64), Growable(np.int32)
        self._ptr.resize(2)

    @property
    def size(self) -> int:
        """The number of bags."""
        return self._ptr.size - 1

    @property
    def ptr(self) -> Offsets:
        """[bags + 1] where each bag's ids begin."""
        return self._ptr.array

    @property
    def ids(self) -> Ints:
        """Attribute ids of all bags, one after another."""
        return self._ids.array

    def add(self, members: Ints) -> Ints:
        """Add one bag for each row of `members` [B, S] (-1 for nothing) and return the new bags' numbers [B]."""
        present = members >= 0
        ends = np.cumsum(present.sum(1, dtype=np.int64)) + self._ids.size
        first = self.size
        self._ids.append(members[present])
        self._ptr.append(ends)
        return np.arange(first, self.size, dtype=np.int32)

    def renumber(self, new_ids: Ints) -> None:
        """Replace every attribute id a by ``new_ids[a]``, dropping it where that is negative."""
        replaced = new_ids[self.ids]
        kept = np.concatenate([[0], np.cumsum(replaced >= 0)])
        ptr = kept[self.ptr]
        self._ids, self._ptr = Growable(np.int32), Growable(np.int64)
        self._ids.append(replaced[replaced >= 0])
        self._ptr.append(ptr)
