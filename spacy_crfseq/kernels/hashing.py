"""64-bit mixing, an open-addressing hash table from uint64 keys to dense ids, and the longest phrases at each token.

A table is three arrays: ``slots`` [a power of two] int32 holds id + 1 or 0, ``keys`` [capacity] uint64 the key of
each id, and the number of ids lives with the caller.  Key 0 stands for "nothing" and gets the id -1.  Mixing is the
finaliser of MurmurHash3 (Appleby 2011), applied to a running value, so that the order of the parts matters.

The hash of a text is a polynomial in its characters modulo 2**64 (Karp & Rabin 1987): h(ab) = h(a) B**|b| + h(b).  So
the hash of several tokens comes from the hash h and the power B**length of each, however the text was split.  A *key*
of a phrase is such a hash, mixed.  A bitmap, a Bloom filter with one hash function, holds the keys of all beginnings of
all phrases: a search stops where nothing in the lists begins like the tokens so far.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Hashes, Ints, Offsets
from .jit import inlined, internal, kernel, light, prefetch

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiples of it are far apart."""
AHEAD = 8
"""How many keys ahead memory is asked for."""
BASE = np.uint64(0x5851F42D4C957F2D)
SEED = np.uint64(0x14057B7EF767814F)
Known: TypeAlias = tuple[Hashes, Hashes, Ints, Hashes, Ints, Hashes, Ints]
"""The tables of a search for phrases: hashes, powers and first [W] of words, see `first_words`; the bitmap; slots, keys
[P], sorted, and entries [P, 2] of the phrases: a list, and twice the fewest tokens of a match, plus 1 if the next entry
is the same phrase in another list."""
PHRASES_AHEAD = 6
"""Tokens ahead whose place in the bitmap is asked for; most searches of phrases end there."""


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
def home(key: np.uint64, mask: np.uint64) -> np.uint64:
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
    words: Ints, offsets: Offsets, distances: Offsets, half: int, table: Ints, columns: Offsets, bags: Ints,
    attrs: Ints, unknown: int,
) -> int:  # fmt: skip
    """Write the features that the words around each token switch on; return how many were `unknown`.

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
                id_ = table[np.int64(words[t + distances[i]]) if pad < 0 else pad, i]
                n_unknown += id_ == unknown
                if columns[i] >= 0:
                    bags[t, columns[i]] = id_
                else:
                    attrs[t, -1 - columns[i]] = id_
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
    places = (keys[:n] * GOLDEN >> np.uint64(32)).astype(np.int64) % len(slots)  # `home` of each
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
        position = home(keys[i], mask)
        while slots[position] != 0:
            position = (position + np.uint64(1)) & mask
        slots[position] = i + 1


@inlined
def _find(wanted: Hashes, t: int, keys: Hashes, slots: Ints) -> np.uint64:
    """Return the slot of key number t, or a free one, and fetch what later keys need."""
    mask, length = np.uint64(slots.shape[0] - 1), wanted.shape[0]
    if t + 2 * AHEAD < length:
        prefetch(slots, home(wanted[t + 2 * AHEAD], mask), 0)
    if t + AHEAD < length:
        prefetch(keys, max(slots[home(wanted[t + AHEAD], mask)] - 1, 0), 0)
    position = home(wanted[t], mask)
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


@inlined
def _is_set(bits: Hashes, key: np.uint64) -> np.uint64:
    # the lowest 6 bits of a key are a place in a word, the next ones the word; a bitmap has a power of two of words
    word = bits[(key >> np.uint64(6)) & np.uint64(bits.shape[0] - 1)]
    return (word >> (key & np.uint64(63))) & np.uint64(1)


@kernel
def hash_texts(codes: NDArray[np.uint32], ptr: Offsets, hashes: Hashes, powers: Hashes) -> None:
    """Write the hash and B**length of N texts [N]; text i has the characters ``codes[ptr[i]:ptr[i + 1]]``."""
    for i in range(ptr.shape[0] - 1):
        h, power = np.uint64(0), np.uint64(1)
        for j in range(ptr[i], ptr[i + 1]):
            h = h * BASE + mix(SEED, np.uint64(codes[j]))
            power *= BASE
        hashes[i], powers[i] = h, power


@kernel
def add_phrases(codes: NDArray[np.uint32], ptr: Offsets, bits: Hashes, keys: Hashes) -> int:
    """Write the keys of N phrases [N], and mark all their beginnings; return the number of bits newly set."""
    n_new = 0
    for i in range(ptr.shape[0] - 1):
        h, key = np.uint64(0), np.uint64(0)
        for j in range(ptr[i], ptr[i + 1]):
            h = h * BASE + mix(SEED, np.uint64(codes[j]))
            key = mix(h, SEED)
            n_new += _is_set(bits, key) == 0
            bits[(key >> np.uint64(6)) & np.uint64(bits.shape[0] - 1)] |= np.uint64(1) << (key & np.uint64(63))
        keys[i] = key
    return n_new


@inlined
def _phrase(key: np.uint64, slots: Ints, keys: Hashes) -> int:
    """Return the index of the first phrase with a key, -1 if there is none; slots are made by `rehash`."""
    mask = np.uint64(slots.shape[0] - 1)
    position = home(key, mask)
    while slots[position] != 0 and keys[slots[position] - 1] != key:
        position = (position + np.uint64(1)) & mask
    return slots[position] - 1


@kernel
def first_words(hashes: Hashes, powers: Hashes, bits: Hashes, slots: Ints, keys: Hashes, first: Ints) -> None:
    """Write to first [W] the phrase that is the word itself, -1 for none, -2 if no phrase begins with the word."""
    for i in range(hashes.shape[0]):
        key = mix(hashes[i], SEED)
        first[i] = -2
        if powers[i] != np.uint64(1) and _is_set(bits, key) != 0:
            first[i] = _phrase(key, slots, keys)


@kernel
def longest_phrases(
    words: Ints, offsets: Offsets, tables: Known, values: Hashes, state: Offsets, out: tuple[Hashes, Offsets, Hashes]
) -> int:
    """Write the set of values of each token in the longest phrases of each of K lists, from left to right.

    words [T] are rows of words that are known, -1 for tokens without text; texts begin at offsets.  values [4 K] are
    those of each list at the begin, inside and end of a phrase, and of a single token.  state [5, K] begins as zeros.
    Of out, sums [T], ptr and sets, token t gets ``sets[ptr[t]:ptr[t + 1]]``, and their sum in sums.  Returned is the
    number of values, of which those beyond the length of sets are left out.
    """
    (hashes, powers, first, bits, slots, keys, entries), (sums, ptr, sets) = tables, out
    ends, met, until, active, begins = state[0], state[1], state[2], state[3], state[4]
    n, n_active = 0, 0
    ptr[0] = 0
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if t + PHRASES_AHEAD + 1 < offsets[s + 1]:
                w, e = words[t + PHRASES_AHEAD], words[t + PHRASES_AHEAD + 1]
                if w >= 0 and e >= 0 and first[w] != -2:
                    key = mix(hashes[w] * powers[e] + hashes[e], SEED)
                    prefetch(bits, (key >> np.uint64(6)) & np.uint64(bits.shape[0] - 1), 0)
            w, n_met = words[t], 0
            if w >= 0 and first[w] != -2:
                # all phrases that begin at t: the end of each list's longest one
                h, i = hashes[w], np.int64(first[w])
                key = mix(h, SEED)
                e = t + 1
                while True:
                    while i >= 0:
                        which, code = entries[i, 0], entries[i, 1]
                        if e - t >= code >> 1:
                            if ends[which] == 0:
                                met[n_met] = which
                                n_met += 1
                            ends[which] = e
                        i = np.int64(i + 1 if code & 1 else -1)
                    # white space: a phrase neither ends with it nor differs by it
                    while e < offsets[s + 1] and (words[e] < 0 or powers[words[e]] == np.uint64(1)):
                        e += 1
                    if e == offsets[s + 1]:
                        break
                    h = h * powers[words[e]] + hashes[words[e]]
                    key = mix(h, SEED)
                    if _is_set(bits, key) == 0:
                        break
                    i = np.int64(_phrase(key, slots, keys))
                    e += 1
            for k in range(n_met):
                which = met[k]
                if until[which] <= t:  # not within an earlier match of the same list
                    begins[which], until[which] = t, ends[which]
                    active[n_active] = which
                    n_active += 1
                ends[which] = 0
            # the values of t, and which phrases go on
            total, going = np.uint64(0), 0
            for k in range(n_active):
                which = active[k]
                last = until[which] == t + 1
                place = (3 if last else 0) if begins[which] == t else (2 if last else 1)
                value = values[4 * which + place]
                total += value
                if n < sets.shape[0]:
                    sets[n] = value
                n += 1
                if not last:
                    active[going] = which
                    going += 1
            n_active = going
            sums[t], ptr[t + 1] = total, n
    return n
