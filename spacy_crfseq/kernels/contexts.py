"""The words around the other occurrences of a word in its document.

A table of the last occurrence of each word, the hash table of `hashing` with tokens for ids, links each occurrence to
the one before and the one after it.  So the nearest ones are reached without sorting.
"""

from __future__ import annotations

import numpy as np

from ..types import Bools, Hashes, Ints, Offsets
from .hashing import home, mix
from .jit import light


@light()
def link(lower: Hashes, docs: Offsets, counts: Bools, slots: Ints, links: Offsets) -> None:
    """Write to links [T, 2] the occurrence before and the one after each word in its document, -1 where there is none.

    lower, docs, counts [T] are words, numbers of documents, and which words count.  slots, empty, is a power of two
    above T.
    """
    mask = np.uint64(slots.shape[0] - 1)
    # each token finds the last occurrence of its word, and takes its place
    for t in range(lower.shape[0]):
        links[t, 0] = links[t, 1] = -1
        if counts[t]:
            slot = home(mix(lower[t], np.uint64(docs[t] + 1)), mask)
            last = slots[slot] - 1
            while last >= 0 and (lower[last] != lower[t] or docs[last] != docs[t]):
                slot = (slot + np.uint64(1)) & mask
                last = slots[slot] - 1
            slots[slot] = t + 1
            if last >= 0:
                links[t, 0], links[last, 1] = last, t


@light()
def words_elsewhere(
    lower: Hashes, begins: Bools, links: Offsets, window: int, most: int, row: Hashes,
    out: tuple[Hashes, Offsets, Hashes],
) -> int:  # fmt: skip
    """Write the set of each token: the words on both sides of the nearest other occurrences, within their sentences.

    lower, begins [T] are words, and where sentences begin; links [T, 2] is of `link`.  window is the words on each
    side, most the occurrences that count, in turn after and before the token.  A word k places on is `mix` of it and
    window + k + 1.  row has room for 2 * window * most values.  Of out, sums [T], ptr and sets, token t gets
    ``sets[ptr[t]:ptr[t + 1]]``, sorted, and their sum in sums.  Returned is the number of values, of which those of
    tokens that do not fit into sets are left out.
    """
    sums, ptr, sets = out
    n = 0
    ptr[0] = 0
    for t in range(lower.shape[0]):
        after, before, size = t, t, 0
        # the nearest other occurrences
        for i in range(most):
            if i % 2 == 0:
                after = after if after < 0 else links[after, 1]
                other = after
            else:
                before = before if before < 0 else links[before, 0]
                other = before
            if other < 0:
                if after < 0 and before < 0:
                    break
                continue
            # the words to the left and to the right of one
            for side in range(2):
                place = other
                for k in range(1, window + 1):
                    if side == 0:
                        if begins[place]:
                            break
                        place -= 1
                    else:
                        place += 1
                        if place == lower.shape[0] or begins[place]:
                            break
                    value = mix(lower[place], np.uint64((window - k if side == 0 else window + k) + 1))
                    # the row stays sorted, and has no value twice
                    j = size
                    while j > 0 and row[j - 1] > value:
                        j -= 1
                    if j == 0 or row[j - 1] != value:
                        for m in range(size, j, -1):
                            row[m] = row[m - 1]
                        row[j] = value
                        size += 1
        total = np.uint64(0)
        for j in range(size):
            total += row[j]
            if n + size <= sets.shape[0]:
                sets[n + j] = row[j]
        n += size
        sums[t] = np.uint64(size > 0) if total == 0 else total
        ptr[t + 1] = n
    return n
