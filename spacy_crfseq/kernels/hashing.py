"""64-bit mixing, and an open-addressing hash table from uint64 keys to dense ids.

A table is three arrays: ``slots`` [a power of two] int32 holds id + 1 or 0, ``keys`` [capacity] uint64 the key of
each id, and the number of ids lives with the caller.  Key 0 stands for "nothing" and gets the id -1.  Mixing is the
finaliser of MurmurHash3 (Appleby 2011), applied to a running value, so that the order of the parts matters.
"""

from __future__ import annotations

import numpy as np

from ..types import Bools, Hashes, Ints, Offsets
from .jit import inlined, internal, light, prefetch

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiples of it are far apart."""
AHEAD = 8
"""How many keys ahead memory is asked for."""


@internal
def mix(a: np.uint64, b: np.uint64) -> np.uint64:
    """Mix b into the running value a; never 0."""
    h = (a ^ (b * GOLDEN)) + np.uint64(0x2545F4914F6CDD1D)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return h | np.uint64(h == 0)


@internal
def _home(key: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the slot where the search for a key begins; multiplying spreads keys that share their low bits."""
    return ((key * GOLDEN) >> np.uint64(32)) & mask


@light()
def mix_values(values: Hashes, keys: Hashes) -> None:
    """Mix values into keys [T]; a value of 0 (absent) makes the key 0, which stays 0."""
    for t in range(keys.shape[0]):
        keys[t] = np.uint64(0) if keys[t] == 0 or values[t] == 0 else mix(keys[t], values[t])


@inlined
def _beyond(p: int, b: int, e: int, half: int) -> int:
    """Return the place of position p in lists of pads, -1 if p lies within the sequence b..e-1.

    The positions k before the beginning and after the end have the places k - 1 and half + k - 1.
    """
    return b - p - 1 if p < b else (half + p - e if p >= e else -1)


@light()
def lexeme_ids(
    words: Ints,
    offsets: Offsets,
    distances: Offsets,
    half: int,
    table: Ints,
    columns: Offsets,
    bags: Ints,
    attrs: Ints,
    unknown: int,
) -> int:
    """Write what the words around each token switch on; return how often that was `unknown`.

    words [T] are rows of table [W, S], whose column s holds ids for the word at ``distances[s]``; pads as in
    `shift`.  columns [S] says where they go: a column c of bags [T, *], or -1 - c for a column c of attrs [T, *].
    """
    n_unknown = 0
    n_slots = distances.shape[0]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        for t in range(b, e):
            if t + AHEAD < words.shape[0]:
                prefetch(table, words[t + AHEAD], 0)
            for i in range(n_slots):
                pad = _beyond(t + distances[i], b, e, half)
                found = table[np.int64(words[t + distances[i]]) if pad < 0 else pad, i]
                n_unknown += found == unknown
                if columns[i] >= 0:
                    bags[t, columns[i]] = found
                else:
                    attrs[t, -1 - columns[i]] = found
    return n_unknown


@light()
def shift(ids: Ints, offsets: Offsets, distance: int, half: int, out: Ints) -> None:
    """Write ``ids[t + distance]`` to out [T], within each sequence.

    Positions k before the beginning get ``k - 1``, positions k after the end ``half + k - 1``.
    """
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        for t in range(b, e):
            pad = _beyond(t + distance, b, e, half)
            out[t] = ids[t + distance] if pad < 0 else pad


def _rehash_at_once(n: int, keys: Hashes, slots: Ints) -> None:
    """Do the work of `rehash`: all keys try their first slots, those that lose the next ones, and so on."""
    ids = np.arange(n)
    places = (keys[:n] * GOLDEN >> np.uint64(32)).astype(np.int64) % len(slots)  # `_home` of each
    while len(ids):
        free = slots[places] == 0
        slots[places[free]] = ids[free] + 1  # one of those that try the same slot gets it
        lost = slots[places] != ids + 1
        ids, places = ids[lost], (places[lost] + 1) % len(slots)


@light(_rehash_at_once)
def rehash(n: int, keys: Hashes, slots: Ints) -> None:
    """Fill an empty `slots` with the first n keys."""
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(n):
        position = _home(keys[i], mask)
        while slots[position] != 0:
            position = (position + np.uint64(1)) & mask
        slots[position] = i + 1


@inlined
def _find(wanted: Hashes, t: int, keys: Hashes, slots: Ints) -> np.uint64:
    """Return the slot of key number t, or a free one, and fetch what later keys need."""
    mask, length = np.uint64(slots.shape[0] - 1), wanted.shape[0]
    if t + 2 * AHEAD < length:
        prefetch(slots, _home(wanted[t + 2 * AHEAD], mask), 0)
    if t + AHEAD < length:
        prefetch(keys, max(slots[_home(wanted[t + AHEAD], mask)] - 1, 0), 0)
    position = _home(wanted[t], mask)
    while wanted[t] != 0 and slots[position] != 0 and keys[slots[position] - 1] != wanted[t]:
        position = (position + np.uint64(1)) & mask
    return position


@light()
def look_up(wanted: Hashes, keys: Hashes, slots: Ints, ids: Ints) -> int:
    """Write the id of each wanted key [T] to ids [T], -1 where unknown; return the number of unknown non-zero keys."""
    unknown = 0
    for t in range(wanted.shape[0]):
        ids[t] = -1
        position = _find(wanted, t, keys, slots)
        if wanted[t] != 0:
            ids[t] = slots[position] - 1
            unknown += slots[position] == 0
    return unknown


@light()
def insert(wanted: Hashes, keys: Hashes, slots: Ints, n: int, ids: Ints, new: Bools) -> int:
    """As `look_up`, but add unknown keys; return the new number of ids.

    new [T] is set where a key was seen for the first time.  The caller provides room: keys for n + T entries, slots
    at least half as many again.
    """
    for t in range(wanted.shape[0]):
        ids[t] = -1
        new[t] = False
        position = _find(wanted, t, keys, slots)
        if wanted[t] == 0:
            continue
        if slots[position] == 0:
            keys[n] = wanted[t]
            n += 1
            slots[position] = n
            new[t] = True
        ids[t] = slots[position] - 1
    return n
