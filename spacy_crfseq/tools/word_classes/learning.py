"""Word classes learnt from raw text: counts of bigrams, the exchange algorithm, and a binary tree over the classes.

The classes maximise the likelihood of a bigram model, ``p(w | v) = p(w | c(w)) p(c(w) | c(v))``: Brown et al. (1992),
"Class-based n-gram models of natural language".  Single words are moved from class to class as long as that helps:
Martin, Liermann & Ney (1998), "Algorithms for bigram and trigram word clustering".
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from ... import threads
from ...errors import DataError
from ...types import Hashes, Ints, Offsets
from . import kernels

END, RARE = 0, 1
"""The contexts that are no words: the ends of texts, and words without a class."""
BUFFER = 1 << 21
"""The fewest bigrams that are counted at once."""
BLOCK = 1 << 13
"""How many rows of counts are read for words whose classes are chosen at the same time."""
TABLE = 1 << 16
STOPS = 25
"""Classes for each part of the work before the first merging; Ctrl-C takes effect between two parts."""


class Bigrams(NamedTuple):
    """Counts of a text of T tokens with a vocabulary of V words; the ids V + END and V + RARE are contexts.

    words [V], counts [V + 2]: By falling counts, then by the alphabet; at the end, those of the contexts.
    pairs [P, 2], times [P]: Each bigram and how often it occurs, ordered by the first word.
    coverage: How much of the text is in the vocabulary.
    """

    words: list[str]
    counts: Offsets
    pairs: Ints
    times: Ints
    coverage: Coverage


class Coverage(NamedTuple):
    """The numbers of tokens and types of a text, and of those that are known."""

    tokens: int
    known_tokens: int
    types: int
    known_types: int


def covered(texts: Iterable[Iterable[str]], classed: Iterable[str]) -> Coverage:
    """Return how much of some texts, given by their words, is known."""
    counts = Counter(word for words in texts for word in words)
    shared = counts.keys() & set(classed)
    return Coverage(counts.total(), sum(counts[word] for word in shared), len(counts), len(shared))


class BigramCounter:
    """Counts the bigrams of texts, which are streamed; memory grows with the number of different ones."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": END}
        self._counts = np.zeros(1, np.int64)
        self._buffer = array("I")
        self._keys, self._times = np.empty(0, np.uint64), np.empty(0, np.int64)

    def add(self, words: Iterable[str]) -> None:
        """Count the words of a text."""
        ids = self._ids
        self._buffer.extend(ids.setdefault(word, len(ids)) for word in words)
        self._buffer.append(END)
        if len(self._buffer) > max(BUFFER, len(self._keys)):
            self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        ids = np.r_[np.uint64(END), np.frombuffer(self._buffer, np.uint32)]  # texts begin and end with one context
        self._buffer = array("I")
        counts = np.bincount(ids[1:], minlength=len(self._ids))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        keys = np.concatenate([self._keys, ids[:-1] << np.uint64(32) | ids[1:]])
        self._keys, self._times = _summed(keys, np.concatenate([self._times, np.ones(len(ids) - 1, np.int64)]))

    def bigrams(self, min_count: int, max_words: int) -> Bigrams:
        """Return the counts, with a vocabulary of the words that occur often enough, at most `max_words`.

        RAISES DataError: If there is no such word, or a count is too large for 32 bits.
        """
        self._flush()
        texts = list(self._ids)
        counts = self._counts.tolist()
        kept = [i for i in range(1, len(texts)) if counts[i] >= min_count]
        kept = sorted(kept, key=lambda i: (-counts[i], texts[i]))[:max_words]
        if not kept:
            raise DataError(f"no word occurs {min_count} times or more; there are {len(texts) - 1:,} different words.")
        if max(counts) >= np.iinfo(np.int32).max:
            raise DataError("a word occurs more often than 2,147,483,647 times; give less text.")
        new = np.full(len(texts), len(kept) + RARE, np.uint64)
        new[END], new[kept] = len(kept) + END, np.arange(len(kept))
        keys, times = _summed(
            new[self._keys >> np.uint64(32)] << np.uint64(32) | new[self._keys & np.uint64(2**32 - 1)], self._times
        )
        pairs = np.stack([keys >> np.uint64(32), keys & np.uint64(2**32 - 1)], axis=1).astype(np.int32)
        totals = np.bincount(pairs[:, 1], times, len(kept) + 2).astype(np.int64)
        coverage = Coverage(sum(counts[1:]), sum(counts[i] for i in kept), len(texts) - 1, len(kept))
        return Bigrams([texts[i] for i in kept], totals, pairs, times.astype(np.int32), coverage)


def _summed(keys: Hashes, times: Offsets) -> tuple[Hashes, Offsets]:
    """Return the different keys, ordered, and the sums of their values."""
    order = np.argsort(keys, kind="stable")
    keys, times = keys[order], times[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    return keys[starts], np.add.reduceat(times, starts)


class Exchange:
    """Classes of the words of a text, and the moves of words between them.

    n_classes: C, at most the number of words.
    start [V]: Classes to begin with.  By default, each of the C most frequent words has its own, and the first pass
        puts the other words into these, the most frequent first.
    """

    def __init__(self, bigrams: Bigrams, n_classes: int, start: Ints | None = None) -> None:
        n_words = len(bigrams.words)
        self.bigrams, self.n_classes = bigrams, min(n_classes, n_words)
        if start is None:
            numbers = np.arange(n_words)
            start = np.where(numbers < self.n_classes, numbers, self.n_classes + RARE)
        self.classes: Ints = np.r_[start, self.n_classes + END, self.n_classes + RARE].astype(np.int32)
        a, b = self.classes[bigrams.pairs].T
        width = self.n_classes + 2
        cells = np.bincount(a * np.int64(width) + b, bigrams.times, width**2).astype(np.int32).reshape(width, width)
        self.both: Ints = np.stack([cells, cells.T])
        self.sizes: Offsets = cells.sum(axis=1, dtype=np.int64)
        numbers = np.arange(1, TABLE)
        self.table = np.r_[0.0, numbers * np.log(numbers)]
        order = np.argsort(bigrams.pairs[:, 1], kind="stable")
        before = _rows(bigrams.pairs[order, ::-1], bigrams.times[order], n_words)
        self.neighbours = _rows(bigrams.pairs, bigrams.times, n_words), before

    @property
    def objective(self) -> float:
        """The log-likelihood of the text by the model of classes."""
        return _h(self.both[0]) - 2 * _h(self.sizes) + _h(self.bigrams.counts)

    @property
    def perplexity(self) -> float:
        """Of the model of classes, of a token of the text or an end."""
        return float(np.exp(-self.objective / self.sizes.sum()))

    def pass_over(self, n_threads: int, show: Callable[[int], object] = lambda n: None) -> int:
        """Move each word to the class where it fits best, the most frequent words first; return the number of moves.

        Words of one block choose their classes at the same time and move one after the other, if that still helps, so
        the result does not depend on the number of threads.
        """
        counts = (self.neighbours, self.bigrams.counts, self.classes, self.both, self.sizes, self.table)
        work = sum(np.minimum(np.diff(bounds), self.n_classes + 2) for bounds, _, _ in self.neighbours)
        ends = np.flatnonzero(np.diff(np.cumsum(work) // BLOCK)) + 1
        n_moved, propose = 0, kernels.propose
        for block in np.split(np.arange(len(self.bigrams.words), dtype=np.int32), ends):
            proposed = np.empty(len(block), np.int32)
            threads.run(
                [partial(propose, block[p], proposed[p], *counts) for p in threads.parts(len(block), n_threads)]
            )
            n_moved += kernels.move(block, proposed, *counts)[0]
            show(len(block))
        return n_moved


def _rows(pairs: Ints, times: Ints, n_words: int) -> tuple[Offsets, Ints, Ints]:
    bounds = np.searchsorted(pairs[:, 0], np.arange(n_words + 1))
    return bounds, np.ascontiguousarray(pairs[:, 1]), times


def _h(counts: Ints | Offsets) -> float:
    positive = counts[counts > 0].astype(np.float64)
    return float(positive @ np.log(positive))


def paths_of(tree: Ints) -> list[str]:
    """Return the path of each class from the root of a tree, see `merge`, in bits."""
    n = len(tree) + 1
    paths = [""] * (2 * n - 1)
    for node in range(2 * n - 2, n - 1, -1):
        for bit, child in zip("01", tree[node - n], strict=True):
            paths[child] = paths[node] + bit
    return paths[:n]


def cut(tree: Ints, n_classes: int) -> Ints:
    """Return, for each class, the number of the class that it is part of when `n_classes` are left."""
    n = len(tree) + 1
    parent = np.arange(2 * n - 1)
    for m in range(n - n_classes - 1, -1, -1):
        parent[tree[m]] = parent[n + m]
    return np.unique(parent[:n], return_inverse=True)[1].astype(np.int32)


def merge(exchange: Exchange, n_threads: int, show: Callable[[int], object] = lambda n: None) -> Ints:
    """Merge the two classes whose merging costs least, until one is left (Brown et al. 1992, section 3).

    Returned is a binary tree over the C classes, [C - 1, 2]: the merge number m makes the node C + m of two nodes.
    """
    n = exchange.n_classes
    counts, gains = (exchange.both.copy(), exchange.sizes.copy(), exchange.table), np.zeros((n, n))
    parts = n_threads * (1 + n // STOPS)
    threads.over(lambda i: kernels.merge_gains(i, parts, *counts, gains), range(parts), n_threads)
    children, alive, nodes = np.empty((n - 1, 2), np.int32), np.arange(n, dtype=np.int32), np.arange(n)
    a, b = 0, 0
    for m in range(n - 1):
        a, b = kernels.merge(alive, a, b, *counts, gains)
        children[m] = nodes[a], nodes[b]
        nodes[a], alive = n + m, alive[alive != b]
        show(1)
    return children
