"""Word classes: the exchange algorithm (Martin, Liermann & Ney 1998) and merging (Brown et al. 1992).

With ``h(n) = n log n``, counts of bigrams of classes M [K, K] and of classes N [K], the objective is
``sum_ab h(M_ab) - 2 sum_a h(N_a)``: the log-likelihood of a bigram model of classes but for a constant of the words.
The last classes, from C = K - 2 on, only serve as contexts: no word is moved to them, and they are never merged.
``both`` [2, K, K] is M and its transpose, so that counts of what stands after (side 0) and before (side 1) a class lie
in rows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ...kernels.jit import inlined, kernel
from ...types import Floats, Ints, Offsets

Neighbours: TypeAlias = tuple[tuple[Offsets, Ints, Ints], tuple[Offsets, Ints, Ints]]
"""The words after and before each word, rows in compressed form: bounds [V + 1], words, counts."""
CONTEXTS = 2
"""The classes that are no words: the ends of texts, and words without a class."""


@inlined
def _h(n: int, table: Floats) -> float:
    """Return n log n, from the table [*] of the first values where it has that."""
    return table[n] if n < table.shape[0] else n * np.log(np.float64(n))


@inlined
def _collect(word: int, neighbours: Neighbours, classes: Ints, near: Ints, classes_near: Ints, n_found: Ints) -> int:
    """Write the counts of the classes of a word's neighbours to near [2, K]; return how often it follows itself.

    found [2, K] lists the n_found [2] classes above 0, now and before.
    """
    itself = 0
    for side in range(2):
        for c in classes_near[side, : n_found[side]]:
            near[side, c] = 0
        n_found[side] = 0
        bounds, words, times = neighbours[side]
        for i in range(bounds[word], bounds[word + 1]):
            if words[i] == word:
                itself = times[i]
                continue
            c = classes[words[i]]
            if near[side, c] == 0:
                classes_near[side, n_found[side]] = c
                n_found[side] += 1
            near[side, c] += times[i]
    return itself


@inlined
def _added(
    c: int, own: int, size: int, itself: int, near: Ints, classes_near: Ints, n_found: Ints, both: Ints, sizes: Offsets,
    table: Floats,
) -> float:  # fmt: skip
    """Return the gain of the objective when a word, taken out of its own class, is put into the class c."""
    gain = 0.0
    for side in range(2):
        for other in classes_near[side, : n_found[side]]:
            if other != c:
                # the counts still hold the word in its own class: take it away
                m = both[side, c, other] - (near[1 - side, c] if other == own else 0)
                m -= near[side, other] if c == own else 0
                gain += _h(m + near[side, other], table) - _h(m, table)
    inside = near[0, c] + near[1, c] + itself
    m, rest = both[0, c, c] - (inside if c == own else 0), sizes[c] - (size if c == own else 0)
    return gain + _h(m + inside, table) - _h(m, table) - 2 * (_h(rest + size, table) - _h(rest, table))


@inlined
def _add_differences(row: Ints, k: int, table: Floats, gains: Floats) -> None:
    """Add ``h(row + k) - h(row)`` to gains [C]."""
    for c in range(gains.shape[0]):
        gains[c] += _h(row[c] + k, table) - _h(row[c], table)


@kernel
def propose(
    words: Ints, proposed: Ints, neighbours: Neighbours, counts: Offsets, classes: Ints, both: Ints, sizes: Offsets,
    table: Floats,
) -> None:  # fmt: skip
    """Write the best class for each of some words, all others staying where they are, to proposed [W].

    counts, classes [V + 2]: Of the words and the contexts.  sizes [K]: The counts of the classes, N.
    """
    width = both.shape[1]
    near, classes_near, n_found = np.zeros((2, width), np.int32), np.empty((2, width), np.int32), np.zeros(2, np.int32)
    reduced, gains = np.empty(width, np.int32), np.empty(width - CONTEXTS)
    for i in range(words.shape[0]):
        own, size = classes[words[i]], counts[words[i]]
        itself = _collect(words[i], neighbours, classes, near, classes_near, n_found)
        for c in range(gains.shape[0]):
            gains[c] = -2 * (_h(sizes[c] + size, table) - _h(sizes[c], table))
            if itself + near[0, c] + near[1, c] > 0:
                # the diagonal, once for both sides: take away what the loops below add for each of them
                m = both[0, c, c]
                gains[c] += _h(m + itself + near[0, c] + near[1, c], table) + _h(m, table)
                gains[c] -= _h(m + near[0, c], table) + _h(m + near[1, c], table)
        for side in range(2):
            for other in classes_near[side, : n_found[side]]:
                if other == own:  # the counts still hold the word in its own class
                    reduced[:] = both[1 - side, other] - near[1 - side]
                    _add_differences(reduced, near[side, other], table, gains)
                else:
                    _add_differences(both[1 - side, other], near[side, other], table, gains)
        if own < gains.shape[0]:
            gains[own] = _added(own, own, size, itself, near, classes_near, n_found, both, sizes, table)
        proposed[i] = np.argmax(gains)


@kernel
def move(
    words: Ints, proposed: Ints, neighbours: Neighbours, counts: Offsets, classes: Ints, both: Ints, sizes: Offsets,
    table: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Move words [W] to their classes in proposed [W] if the objective still gains by it, and change all counts.

    A word whose own class is only a context is moved in any case.  Returns the number of moves and the gain.
    """
    width = both.shape[1]
    near, classes_near, n_found = np.zeros((2, width), np.int32), np.empty((2, width), np.int32), np.zeros(2, np.int32)
    n_moved, total = 0, 0.0
    for i in range(words.shape[0]):
        c, own, size = proposed[i], classes[words[i]], counts[words[i]]
        if c == own:
            continue
        itself = _collect(words[i], neighbours, classes, near, classes_near, n_found)
        gain = _added(c, own, size, itself, near, classes_near, n_found, both, sizes, table)
        gain -= _added(own, own, size, itself, near, classes_near, n_found, both, sizes, table)
        moves = own >= width - CONTEXTS or gain > 1e-7  # rounding must not move words in circles
        for side in range(2):
            for other in classes_near[side, : n_found[side]]:
                k = near[side, other] if moves else 0
                both[side, own, other] -= k
                both[1 - side, other, own] -= k
                both[side, c, other] += k
                both[1 - side, other, c] += k
        if moves:
            both[:, own, own] -= itself
            both[:, c, c] += itself
            sizes[own] -= size
            sizes[c] += size
            classes[words[i]] = c
            n_moved += 1
            total += gain
    return n_moved, total


@inlined
def _shared(u: int, v: int, table: Floats) -> float:
    """Return ``h(u + v) - h(u) - h(v)``, what two counts gain when they become one; 0 for most, where one is 0."""
    return _h(u + v, table) - _h(u, table) - _h(v, table) if u > 0 and v > 0 else 0.0


@inlined
def _beside(i: int, j: int, x: int, both: Ints, table: Floats) -> float:
    """Return the share of the counts of bigrams with the class x in the change by the merging of i and j."""
    return _shared(both[0, i, x], both[0, j, x], table) + _shared(both[1, i, x], both[1, j, x], table)


@inlined
def _gain(i: int, j: int, both: Ints, sizes: Offsets, table: Floats) -> float:
    """Return the change of the objective by the merging of the classes i and j; it is never positive."""
    gain, m = -2 * _shared(sizes[i], sizes[j], table), both[0]
    for x in range(m.shape[0]):
        if x != i and x != j:
            gain += _beside(i, j, x, both, table)
    gain -= _h(m[i, i], table) + _h(m[i, j], table) + _h(m[j, i], table) + _h(m[j, j], table)
    return gain + _h(m[i, i] + m[i, j] + m[j, i] + m[j, j], table)


@kernel
def merge_gains(first: int, step: int, both: Ints, sizes: Offsets, table: Floats, gains: Floats) -> None:
    """Write the change of the objective by the merging of each pair of classes to gains [C, C], above the diagonal.

    Only for the rows first, first + step, and so on: threads share the work.
    """
    for i in range(first, gains.shape[0], step):
        for j in range(i + 1, gains.shape[0]):
            gains[i, j] = _gain(i, j, both, sizes, table)


@kernel
def merge(
    alive: Ints, a: int, b: int, both: Ints, sizes: Offsets, table: Floats, gains: Floats
) -> tuple[int, int]:  # fmt: skip
    """Merge the class b > a into a, and return the pair of classes to merge next.

    alive [A]: The classes left, a among them, in order.  With a = b, nothing is merged.
    """
    n = alive.shape[0]
    if a != b:
        for u in range(n):
            for v in range(u + 1, n):
                i, j = alive[u], alive[v]
                gains[i, j] -= _beside(i, j, a, both, table) + _beside(i, j, b, both, table)
        sizes[a] += sizes[b]
        for side in range(2):
            both[side, a] += both[side, b]
            both[side, :, a] += both[side, :, b]
            both[side, b], both[side, :, b] = 0, 0
    best, first, second = -np.inf, -1, -1
    for u in range(n):
        for v in range(u + 1, n):
            i, j = alive[u], alive[v]
            if i == a or j == a:
                gains[i, j] = _gain(i, j, both, sizes, table)
            elif a != b:
                gains[i, j] += _beside(i, j, a, both, table)
            if gains[i, j] > best:
                best, first, second = gains[i, j], i, j
    return first, second
