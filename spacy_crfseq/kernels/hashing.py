"""64-bit mixing, and an open-addressing hash table from uint64 keys to dense ids.

A table is three arrays: ``slots`` [a power of two] int32 holds id + 1 or 0, ``keys`` [capacity] uint64 the key of
each id, and the number of ids lives with the caller.  Key 0 stands for "nothing" and gets the id -1.  Mixing is the
finaliser of MurmurHash3 (Appleby 2011), applied to a running value, so that the order of the parts matters.
"""

from __future__ import annotations

import numpy as np

from ..types import Bools, Hashes, Ints, Offsets
from ._jit import kernel


@kernel
def mix(a: np.uint64, b: np.uint64) -> np.uint64:
    """Mix b into the running value a; never 0."""
    h = (a ^ (b * np.uint64(0x9E3779B97F4A7C15))) + np.uint64(0x2545F4914F6CDD1D)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return h | np.uint64(h == 0)


@kernel
def _home(key: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the slot where the search for a key begins; multiplying spreads keys that share their low bits."""
    return ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask


@kernel
def mix_values(values: Hashes, keys: Hashes) -> None:
    """Mix values [T] into keys [T]; a value of 0 (absent) makes the key 0, which stays 0."""
    for t in range(keys.shape[0]):
        if keys[t] != 0:
            if values[t] == 0:
                keys[t] = 0
            else:
                keys[t] = mix(keys[t], values[t])


@kernel
def shift(values: Hashes, offsets: Offsets, distance: int, pads: Hashes, out: Hashes) -> None:
    """Write ``values[t + distance]`` to out [T], within each sequence.

    Positions k before the beginning get ``pads[k - 1]``, positions k after the end ``pads[K + k - 1]``, where pads
    has 2 K entries.
    """
    half = pads.shape[0] // 2
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        for t in range(b, e):
            p = t + distance
            if p < b:
                out[t] = pads[b - p - 1]
            elif p >= e:
                out[t] = pads[half + p - e]
            else:
                out[t] = values[p]


@kernel
def shift_ids(ids: Ints, offsets: Offsets, distance: int, first_pad: int, half: int, out: Ints) -> None:
    """As `shift`, for dense ids whose pads are ``first_pad + k - 1`` and ``first_pad + half + k - 1``."""
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        for t in range(b, e):
            p = t + distance
            if p < b:
                out[t] = first_pad + b - p - 1
            elif p >= e:
                out[t] = first_pad + half + p - e
            else:
                out[t] = ids[p]


@kernel
def rehash(keys: Hashes, n: int, slots: Ints) -> None:
    """Fill an empty `slots` with the first n keys."""
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(n):
        position = _home(keys[i], mask)
        while slots[position] != 0:
            position = (position + np.uint64(1)) & mask
        slots[position] = i + 1


@kernel
def look_up(wanted: Hashes, keys: Hashes, slots: Ints, ids: Ints) -> int:
    """Write the id of each wanted key [T] to ids [T], -1 where unknown; return the number of unknown non-zero keys."""
    mask = np.uint64(slots.shape[0] - 1)
    unknown = 0
    for t in range(wanted.shape[0]):
        key = wanted[t]
        ids[t] = -1
        if key == 0:
            continue
        position = _home(key, mask)
        while slots[position] != 0 and keys[slots[position] - 1] != key:
            position = (position + np.uint64(1)) & mask
        ids[t] = slots[position] - 1
        unknown += slots[position] == 0
    return unknown


@kernel
def insert(wanted: Hashes, keys: Hashes, slots: Ints, n: int, ids: Ints, new: Bools) -> int:
    """As `look_up`, but add unknown keys; return the new number of ids.

    new [T] is set where a key was seen for the first time.  The caller provides room: keys for n + T entries, slots
    at least half as many again.
    """
    mask = np.uint64(slots.shape[0] - 1)
    for t in range(wanted.shape[0]):
        key = wanted[t]
        ids[t] = -1
        new[t] = False
        if key == 0:
            continue
        position = _home(key, mask)
        while slots[position] != 0 and keys[slots[position] - 1] != key:
            position = (position + np.uint64(1)) & mask
        if slots[position] == 0:
            keys[n] = key
            n += 1
            slots[position] = n
            new[t] = True
        ids[t] = slots[position] - 1
    return n


@kernel
def count(ids: Ints, counts: Offsets) -> None:
    """Add 1 to ``counts[id]`` for every id that is not negative."""
    for t in range(ids.shape[0]):
        if ids[t] >= 0:
            counts[ids[t]] += 1
