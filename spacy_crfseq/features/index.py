"""64-bit keys, dense ids for them, and arrays that grow: the containers of the encoder."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import kernels
from ..types import Bools, Hashes, Ints, Offsets


def hash_of_name(name: str) -> int:
    """Return the hash of the name, never 0."""
    return int.from_bytes(blake2b(name.encode("utf8", "surrogatepass"), digest_size=8).digest(), "little") or 1


class Growable:
    """An array that grows along its first axis at amortised constant cost, by an eighth at a time.

    room (NDArray): The whole array, of which the first `size` entries are used.
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        shape = (16,) if width is None else (16, width)
        self.room: NDArray[Any] = np.zeros(shape, dtype)
        self.size = 0

    @property
    def array(self) -> NDArray[Any]:
        """The used part; a view that becomes stale when the array grows."""
        return self.room[: self.size]

    @property
    def n_bytes(self) -> int:
        """Number of bytes, including reserved space."""
        return self.room.nbytes

    def reserve(self, size: int) -> NDArray[Any]:
        """Return the whole array, with space for at least `size` entries."""
        capacity = len(self.room)
        if size > capacity:
            self._reallocate(max(size, capacity + max(capacity >> 3, 16)))
        return self.room

    def resize(self, size: int, fill: int = 0) -> NDArray[Any]:
        """Make the array `size` long, new entries set to `fill`, and return it."""
        self.reserve(size)[self.size : size] = fill
        self.size = size
        return self.array

    def append(self, values: NDArray[Any]) -> None:
        """Append `values`."""
        end = self.size + len(values)
        self.reserve(end)[self.size : end] = values
        self.size = end

    def copy(self) -> Growable:
        """Return an array with the same entries."""
        other = self.shared()
        other.room = other.room.copy()
        return other

    def shared(self) -> Growable:
        """Return an array with the same entries, in the same memory as long as neither grows or changes one."""
        other = Growable(self.room.dtype)
        other.room, other.size = self.array, self.size
        return other

    def trim(self) -> None:
        """Free the memory beyond the used part."""
        if self.size < len(self.room):
            self._reallocate(self.size)

    def _reallocate(self, capacity: int) -> None:
        try:  # large arrays move without a copy
            self.room.resize((capacity, *self.room.shape[1:]))
        except ValueError:  # a view of the array exists
            other = np.zeros((capacity, *self.room.shape[1:]), self.room.dtype)
            used = min(self.size, capacity, len(self.room))
            other[:used] = self.room[:used]
            self.room = other


class Packed:
    """Rows [n, C] of whole numbers from -1 on, each column in as many bytes as its largest number needs."""

    def __init__(self, width: int) -> None:
        self.shape, self._places = (0, width), 4 * np.arange(width)  # of the bytes that are kept, among all of a row
        self.bytes = Growable(np.uint8, width)

    def append(self, rows: Ints) -> None:
        """Append rows."""
        numbers = (rows + 1).astype("<u4")
        used = ((numbers.max(0, initial=0)[:, None] >> np.arange(0, 32, 8, dtype=np.uint32)) > 0).ravel()
        used[self._places] = True
        if used.sum() > len(self._places):
            places, old = np.flatnonzero(used), self.bytes
            self.bytes = Growable(np.uint8, len(places))
            self.bytes.resize(old.size)[:, np.searchsorted(places, self._places)] = old.array
            self._places = places
        self.bytes.append(numbers.view(np.uint8)[:, self._places])
        self.shape = self.bytes.size, self.shape[1]

    def __getitem__(self, rows: Any) -> Ints:
        """Return some rows, given by their numbers or a slice."""
        array = self.bytes.array
        chosen = array[rows] if isinstance(rows, slice) else np.take(array, rows, axis=0)
        numbers = np.zeros((len(chosen), 4 * self.shape[1]), np.uint8)
        numbers[:, self._places] = chosen
        out: Ints = numbers.view("<i4")
        out -= 1
        return out

    def copy(self) -> Packed:
        """Return the same rows, to which others can be appended."""
        other = Packed(self.shape[1])
        other.shape, other._places, other.bytes = self.shape, self._places, self.bytes.copy()
        return other


class HashIndex:
    """Numbers distinct non-zero uint64 keys 0, 1, 2, ... in the order of their first appearance.

    keys (Hashes | None): Distinct keys to begin with.  They are hashed at the first use.
    """

    def __init__(self, keys: Hashes | None = None) -> None:
        self._keys, self._slots = Growable(np.uint64), np.zeros(0, np.int32)
        if keys is not None:
            self._keys.append(keys)

    @property
    def size(self) -> int:
        """The number of ids."""
        return self._keys.size

    @property
    def n_bytes(self) -> int:
        """Memory of keys and slots."""
        return self._keys.n_bytes + self._slots.nbytes

    @property
    def keys(self) -> Hashes:
        """The key of every id; a view that becomes stale when the index grows."""
        return self._keys.array

    def copy(self) -> HashIndex:
        """Return an index of the same keys, to which others can be added."""
        other = HashIndex()
        other._keys = self._keys.shared()
        return other

    def add(self, keys: Hashes) -> tuple[Ints, Bools]:
        """Return the ids of `keys` [T], -1 for key 0 and new ids as needed, and a mask [T] of new keys."""
        ids, new = np.empty(len(keys), np.int32), np.empty(len(keys), np.bool_)
        chunk = 1 << 16  # limits the reserved memory
        for start in range(0, len(keys), chunk):
            part = slice(start, start + chunk)
            self._reserve(self._keys.size + len(keys[part]))
            table = self._keys.room, self._slots, self._keys.size
            self._keys.size = kernels.hashing.insert(keys[part], *table, ids[part], new[part])
        return ids, new

    def find(self, keys: Hashes) -> tuple[Ints, int]:
        """Return the ids of `keys` [T], -1 if unknown, and the number of unknown non-zero keys."""
        ids = np.empty(len(keys), np.int32)
        if not len(self._slots):
            self._reserve(self._keys.size)
        return ids, kernels.hashing.look_up(keys, self._keys.room, self._slots, ids)

    def _reserve(self, size: int) -> None:
        """Make space for `size` keys, with at most half of the slots in use."""
        self._keys.reserve(size)
        if 2 * max(size, 1) > len(self._slots):
            self._slots = np.zeros(0, np.int32)  # free the old slots before allocating new ones
            slots = np.zeros(max(64, 1 << (2 * size).bit_length()), np.int32)
            kernels.hashing.rehash(self._keys.size, self._keys.room, slots)
            self._slots = slots


class BagStore:
    """Feature ids of numbered bags, and the numbers of those that are looked up by keys; bag 0 is empty.

    size (int): The number of bags.
    """

    def __init__(self) -> None:
        self.size, self._ptr, self._ids = 1, Growable(np.int64), Growable(np.int32)
        self._ptr.resize(2)
        self._index, self._numbers = HashIndex(), Growable(np.int32)
        self._numbers.resize(1)

    @property
    def n_bytes(self) -> int:
        """Memory of all bags and keys."""
        return self._ptr.n_bytes + self._ids.n_bytes + self._index.n_bytes + self._numbers.n_bytes

    @property
    def ptr(self) -> Offsets:
        """[bags + 1] the start of each bag's ids."""
        return self._ptr.array

    @property
    def ids(self) -> Ints:
        """Concatenated feature ids of all bags."""
        return self._ids.array

    def add(self, members: Ints, sizes: Offsets | None = None) -> Ints:
        """Add bags and return their numbers [B].

        members (Ints): [B, S], -1 for none; or, with sizes [B], the members of all bags one after another.
        """
        if sizes is None:
            sizes = np.full(len(members), members.shape[-1], np.int64)
            members = members.ravel()
        first, present = self.size, members >= 0
        self._ptr.append(np.append(0, np.cumsum(present))[np.cumsum(sizes)] + self._ids.size)
        self._ids.append(members[present])
        self.size = first + len(sizes)
        return np.arange(first, self.size, dtype=np.int32)

    def of(self, keys: Hashes, members: Callable[[Bools], tuple[Any, ...]]) -> Ints:
        """Return the numbers [T] of the bags with these keys, 0 for key 0.

        members (Callable): Returns the bags of the keys that a mask [T] marks, as `add` takes them.  It is called if
            some are new, with the first place of each.
        """
        places, n_unknown = self._index.find(keys)
        if n_unknown:
            places, new = self._index.add(keys)
            self._numbers.append(self.add(*members(new)))
        bags: Ints = self._numbers.room[places + 1]
        return bags

    def copy(self) -> BagStore:
        """Return a store of the same bags, to which others can be added."""
        other = BagStore()
        other.size, other._ptr, other._ids = self.size, self._ptr.shared(), self._ids.shared()
        other._index, other._numbers = self._index.copy(), self._numbers.shared()
        return other

    def renumbered(self, new_ids: Ints) -> BagStore:
        """Return a store in which every feature id a is ``new_ids[a]``, or left out if that is negative."""
        other, replaced = self.copy(), new_ids[self.ids]
        ptr = np.append(0, np.cumsum(replaced >= 0))[self.ptr]
        other._ids, other._ptr = Growable(np.int32), Growable(np.int64)
        other._ids.append(replaced[replaced >= 0])
        other._ptr.append(ptr)
        return other
