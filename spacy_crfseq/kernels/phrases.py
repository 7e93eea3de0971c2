"""Hashes of texts that can be joined, and the longest phrases that begin at each token.

The hash of a text is a polynomial in its characters modulo 2**64 (Karp & Rabin 1987): h(ab) = h(a) B**|b| + h(b).  So
the hash of several tokens comes from the hash h and the power B**length of each, however the text was split.  A *key*
is such a hash, mixed.  A bitmap, a Bloom filter with one hash function, holds the keys of all beginnings of all
phrases: a search stops where nothing in the lists begins like the tokens so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..types import Hashes, Ints, Offsets
from .hashing import _home, mix
from .jit import inlined, kernel, prefetch

BASE = np.uint64(0x5851F42D4C957F2D)
SEED = np.uint64(0x14057B7EF767814F)
AHEAD = 6
"""Tokens ahead whose place in the bitmap is asked for; most searches end there."""


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
    """Return the index of the first phrase with a key, -1 if there is none; slots are made by `hashing.rehash`."""
    mask = np.uint64(slots.shape[0] - 1)
    position = _home(key, mask)
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
def longest(
    words: Ints, offsets: Offsets, hashes: Hashes, powers: Hashes, first: Ints, bits: Hashes, slots: Ints, keys: Hashes,
    entries: Ints, values: Hashes, state: Offsets, sums: Hashes, ptr: Offsets, sets: Hashes,
) -> int:  # fmt: skip
    """Write the set of values of each token in the longest phrases of each of K lists, from left to right.

    words [T] are rows of hashes, powers and first [W] (see `first_words`), -1 for tokens without text; texts begin at
    offsets.  keys [P], sorted, and entries [P, 2] are the phrases: a list, and twice the fewest tokens of a match, plus
    1 if the next entry is the same phrase in another list.  values [4 K] are those of each list at the begin, inside
    and end of a phrase, and of a single token.  state [5, K] begins as zeros.  Token t gets
    ``sets[ptr[t]:ptr[t + 1]]``, whose sum goes to sums [T].  Returned is the number of values, of which those beyond
    the length of sets are left out.
    """
    ends, met, until, active, begins = state[0], state[1], state[2], state[3], state[4]
    n, n_active = 0, 0
    ptr[0] = 0
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if t + AHEAD + 1 < offsets[s + 1]:
                w, e = words[t + AHEAD], words[t + AHEAD + 1]
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
