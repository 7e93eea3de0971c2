"""Word classes: the exchange algorithm (Martin, Liermann & Ney 1998) and merging (Brown et al. 1992).

With ``h(n) = n log n``, counts of bigrams of classes M [K, K] and of classes N [K], the objective is
``sum_ab h(M_ab) - 2 sum_a h(N_a)``: the log-likelihood of a bigram model of classes but for a constant of the words.
The last classes, from C = K - 2 on, only serve as contexts: no word is moved to them, and they are never merged.
Arrays ``right`` and ``left`` are M and its transpose, so that both are read along rows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import inlined, kernel

Neighbours: TypeAlias = tuple[Offsets, Ints, Ints]
"""The words next to each word, rows in compressed form: bounds [V + 1], words, counts."""
CONTEXTS = 2
"""The classes that are no words: the ends of texts, and words without a class."""


@inlined
def _h(n: int, table: Floats) -> float:
    """Return n log n, from the table [*] of the first values where it has that."""
    return table[n] if n < table.shape[0] else n * np.log(np.float64(n))


@inlined
def _collect(word: int, neighbours: Neighbours, classes: Ints, counts: Ints, found: Ints) -> tuple[int, int]:
    """Add the neighbours of a word to the counts [K] of their classes, which are zero before.

    Return the number of these classes, which are written to found [K], and how often the word is next to itself.
    """
    bounds, words, times = neighbours
    n, itself = 0, 0
    for i in range(bounds[word], bounds[word + 1]):
        if words[i] == word:
            itself += times[i]
            continue
        c = classes[words[i]]
        if counts[c] == 0:
            found[n] = c
            n += 1
        counts[c] += times[i]
    return n, itself


@inlined
def _added(
    c: int, own: int, size: int, itself: int, after: Ints, n_after: int, before: Ints, n_before: int, follow: Ints,
    precede: Ints, right: Ints, left: Ints, sizes: Offsets, table: Floats,
) -> float:  # fmt: skip
    """Return what the objective gains when a word, taken out of its own class, is put into the class c.

    follow, precede [K]: How often words of each class stand after and before it; after, before list those above 0.
    """
    gain = 0.0
    for i in range(n_after):
        other = after[i]
        if other != c:
            # the counts still hold the word in its own class: take it away
            m = right[c, other] - (precede[c] if other == own else 0) - (follow[other] if c == own else 0)
            gain += _h(m + follow[other], table) - _h(m, table)
    for i in range(n_before):
        other = before[i]
        if other != c:
            m = left[c, other] - (follow[c] if other == own else 0) - (precede[other] if c == own else 0)
            gain += _h(m + precede[other], table) - _h(m, table)
    inside = follow[c] + precede[c] + itself
    m = right[c, c] - (inside if c == own else 0)
    rest = sizes[c] - (size if c == own else 0)
    gain += _h(m + inside, table) - _h(m, table)
    return gain - 2 * (_h(rest + size, table) - _h(rest, table))


@inlined
def _add_differences(row: Ints, k: int, table: Floats, gains: Floats) -> None:
    """Add ``h(row + k) - h(row)`` to gains [C]."""
    for c in range(gains.shape[0]):
        n = row[c]
        gains[c] += _h(n + k, table) - _h(n, table)


@kernel
def propose(
    words: Ints, following: Neighbours, preceding: Neighbours, counts: Offsets, classes: Ints, right: Ints, left: Ints,
    sizes: Offsets, table: Floats, proposed: Ints,
) -> None:  # fmt: skip
    """Write the best class for each of some words, all others staying where they are, to proposed [W].

    counts, classes [V + 2]: Of the words and the contexts.  sizes [K]: The counts of the classes, N.
    """
    width, n_classes = right.shape[0], right.shape[0] - CONTEXTS
    follow, precede = np.zeros(width, np.int32), np.zeros(width, np.int32)
    after, before = np.empty(width, np.int32), np.empty(width, np.int32)
    reduced, gains = np.empty(width, np.int32), np.empty(n_classes)
    for i in range(words.shape[0]):
        word = words[i]
        own, size = classes[word], counts[word]
        n_after, itself = _collect(word, following, classes, follow, after)
        n_before, _ = _collect(word, preceding, classes, precede, before)
        for c in range(n_classes):
            # the diagonal, of which the loops below add two parts that are not to be counted
            n, m = sizes[c], right[c, c]
            gains[c] = -2 * (_h(n + size, table) - _h(n, table))
            if itself + follow[c] + precede[c] > 0:
                gains[c] += _h(m + itself + follow[c] + precede[c], table) + _h(m, table)
                gains[c] -= _h(m + follow[c], table) + _h(m + precede[c], table)
        for j in range(n_after):
            other = after[j]
            if other == own:  # without the word in its own class
                reduced[:] = left[other] - precede
                _add_differences(reduced, follow[other], table, gains)
            else:
                _add_differences(left[other], follow[other], table, gains)
        for j in range(n_before):
            other = before[j]
            if other == own:
                reduced[:] = right[other] - follow
                _add_differences(reduced, precede[other], table, gains)
            else:
                _add_differences(right[other], precede[other], table, gains)
        if own < n_classes:
            gains[own] = _added(
                own, own, size, itself, after, n_after, before, n_before, follow, precede, right, left, sizes, table
            )
        proposed[i] = np.argmax(gains)
        follow[after[:n_after]] = 0
        precede[before[:n_before]] = 0


@kernel
def move(
    words: Ints, proposed: Ints, following: Neighbours, preceding: Neighbours, counts: Offsets, classes: Ints,
    right: Ints, left: Ints, sizes: Offsets, table: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Move words [W] to the proposed classes [W] if the objective still gains by it, and change all counts.

    A word whose own class is only a context is moved in any case.  Returns the number of moves and the gain.
    """
    width, n_classes = right.shape[0], right.shape[0] - CONTEXTS
    follow, precede = np.zeros(width, np.int32), np.zeros(width, np.int32)
    after, before = np.empty(width, np.int32), np.empty(width, np.int32)
    n_moved, total = 0, 0.0
    for i in range(words.shape[0]):
        word, c = words[i], proposed[i]
        own, size = classes[word], counts[word]
        if c == own:
            continue
        n_after, itself = _collect(word, following, classes, follow, after)
        n_before, _ = _collect(word, preceding, classes, precede, before)
        gain = _added(
            c, own, size, itself, after, n_after, before, n_before, follow, precede, right, left, sizes, table
        ) - _added(own, own, size, itself, after, n_after, before, n_before, follow, precede, right, left, sizes, table)
        # rounding must not move words in circles
        if own >= n_classes or gain > 1e-7:
            n_moved += 1
            total += gain
            for j in range(n_after):
                other, k = after[j], follow[after[j]]
                right[own, other] -= k
                left[other, own] -= k
                right[c, other] += k
                left[other, c] += k
            for j in range(n_before):
                other, k = before[j], precede[before[j]]
                right[other, own] -= k
                left[own, other] -= k
                right[other, c] += k
                left[c, other] += k
            right[own, own] -= itself
            left[own, own] -= itself
            right[c, c] += itself
            left[c, c] += itself
            sizes[own] -= size
            sizes[c] += size
            classes[word] = c
        follow[after[:n_after]] = 0
        precede[before[:n_before]] = 0
    return n_moved, total


@inlined
def _shared(u: int, v: int, table: Floats) -> float:
    """Return ``h(u + v) - h(u) - h(v)``, what two cells gain when they become one; 0 for most, where one is empty."""
    return _h(u + v, table) - _h(u, table) - _h(v, table) if u > 0 and v > 0 else 0.0


@inlined
def _gain(i: int, j: int, right: Ints, left: Ints, sizes: Offsets, table: Floats) -> float:
    """Return the change of the objective by the merging of the classes i and j; it is never positive."""
    gain = 0.0
    for x in range(right.shape[0]):
        if x != i and x != j:
            gain += _shared(right[i, x], right[j, x], table) + _shared(left[i, x], left[j, x], table)
    four = right[i, i] + right[i, j] + right[j, i] + right[j, j]
    gain += _h(four, table) - _h(right[i, i], table) - _h(right[i, j], table)
    gain -= _h(right[j, i], table) + _h(right[j, j], table)
    return gain - 2 * _shared(sizes[i], sizes[j], table)


@kernel
def merge_gains(first: int, step: int, right: Ints, left: Ints, sizes: Offsets, table: Floats, gains: Floats) -> None:
    """Write the change of the objective by the merging of each pair of classes to gains [C, C], above the diagonal.

    Only for the rows first, first + step, and so on: threads share the work.
    """
    for i in range(first, gains.shape[0], step):
        for j in range(i + 1, gains.shape[0]):
            gains[i, j] = _gain(i, j, right, left, sizes, table)


@inlined
def _beside(i: int, j: int, x: int, right: Ints, left: Ints, table: Floats) -> float:
    """Return what the cells beside the class x add to the change by the merging of i and j."""
    return _shared(right[i, x], right[j, x], table) + _shared(left[i, x], left[j, x], table)


@kernel
def merge(
    alive: Ints, a: int, b: int, right: Ints, left: Ints, sizes: Offsets, table: Floats, gains: Floats
) -> tuple[int, int]:
    """Merge the class b > a into a, and return the pair of classes to merge next.

    alive [A]: The classes left, a among them, in order.  With a = b, nothing is merged.
    """
    n = alive.shape[0]
    if a != b:
        for u in range(n):
            for v in range(u + 1, n):
                i, j = alive[u], alive[v]
                if i != a and j != a:
                    gains[i, j] -= _beside(i, j, a, right, left, table) + _beside(i, j, b, right, left, table)
        sizes[a] += sizes[b]
        right[a] += right[b]
        right[:, a] += right[:, b]
        left[a] += left[b]
        left[:, a] += left[:, b]
        right[b], left[b], right[:, b], left[:, b] = 0, 0, 0, 0
        for u in range(n):
            i = alive[u]
            if i != a:
                gains[min(i, a), max(i, a)] = _gain(i, a, right, left, sizes, table)
    best, first, second = -np.inf, -1, -1
    for u in range(n):
        for v in range(u + 1, n):
            i, j = alive[u], alive[v]
            if a != b and i != a and j != a:
                gains[i, j] += _beside(i, j, a, right, left, table)
            if gains[i, j] > best:
                best, first, second = gains[i, j], i, j
    return first, second
