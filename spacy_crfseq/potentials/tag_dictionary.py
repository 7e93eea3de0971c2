"""A tag dictionary: frequent words may only have their labels from the training data; other labels score minus
infinity.

Ratnaparkhi (1996), "A maximum entropy model for part-of-speech tagging", section "Search algorithm", for decoding;
Altun, Johnson & Hofmann (2003), "Investigating loss functions and optimization methods for discriminative learning of
label sequences", also for training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..features.index import HashIndex
from ..types import MISSING, Bools, Constraints, Floats, Hashes, Ints, Offsets

_BLOCK_TOKENS = 1 << 16
"""Number of tokens counted at a time."""


class TagDictionary(NamedTuple):
    """The allowed labels [W, L] of words with distinct hashes [W]."""

    words: Hashes
    allowed: Bools

    def word_index(self) -> HashIndex:
        """Return the index of words by their rows in `allowed`."""
        return HashIndex(self.words)

    def rows(self, hashes: Hashes) -> Ints:
        """Return the rows in `allowed` of words with these hashes, -1 for others, and a last -1 for the index -1."""
        return np.append(self.word_index().find(hashes)[0], np.int32(-1))

    def labels_of(self, words: Ints, gold: Ints | None = None) -> Bools:
        """Return the allowed labels [T, L] of the words with these indices [T], -1 for others.

        Gold labels [T] are always allowed, and all labels at tokens with candidate sets.
        """
        allowed = np.concatenate([self.allowed, np.ones((1, self.allowed.shape[1]), np.bool_)])[words]
        if gold is not None:
            labelled = np.flatnonzero(gold >= 0)
            allowed[labelled, gold[labelled]] = True
            allowed[gold < MISSING] = True
        return allowed

    def widened(self, old_labels: NDArray[np.int64], n_labels: int) -> TagDictionary:
        """Return a dictionary with additional labels, allowed for all words; label k becomes old_labels[k]."""
        allowed = np.ones((len(self.words), n_labels), np.bool_)
        allowed[:, old_labels] = self.allowed
        return TagDictionary(self.words, allowed)

    def united(self, old: TagDictionary, hashes: Hashes, numbers: Ints, gold: Ints) -> TagDictionary:
        """Return a dictionary with the words of an older one; these may also have their labels in the training set.

        hashes, numbers, gold: The training set as in `make_dictionary`.
        """
        new = ~np.isin(self.words, old.words)
        allowed, places = old.allowed.copy(), old.rows(hashes)[numbers]
        met = (places >= 0) & (gold >= 0)
        allowed[places[met], gold[met]] = True
        return TagDictionary(np.concatenate([old.words, self.words[new]]), np.concatenate([allowed, self.allowed[new]]))


class EmissionMask:
    """Zeros and minus infinities that a dictionary adds to emissions."""

    def __init__(self, dictionary: TagDictionary) -> None:
        # the last row, for index -1, allows all
        self._table: Floats = np.zeros((len(dictionary.words) + 1, dictionary.allowed.shape[1]), np.float32)
        self._table[:-1][~dictionary.allowed] = -np.inf

    def add(self, words: Ints, emissions: Floats, gold: Ints | None = None) -> None:
        """Add minus infinity to emissions [T, L] of forbidden labels; arguments as in `labels_of`."""
        if self._table.dtype != emissions.dtype:
            self._table = self._table.astype(emissions.dtype)
        mask = np.take(self._table, words, axis=0, mode="wrap")
        if gold is not None:
            labelled = np.flatnonzero(gold >= 0)
            mask[labelled, gold[labelled]] = 0
            mask[gold < MISSING] = 0
        emissions += mask


def free_standing(constraints: Constraints) -> Bools:
    """Return labels [L] that can form any sequence, such as "O" and "U-PER"."""
    alone = constraints.start & constraints.end
    step = constraints.step[np.ix_(alone, alone)]
    free = alone.copy()
    free[alone] = step.all(0) & step.all(1)
    return free


def without_restricted(words: Ints, allowed: Bools, constraints: Constraints) -> Ints:
    """Return words [T] with -1 for those that a dictionary must not restrict, given `allowed` [T, L].

    These are the tokens that `allowed` restricts, and the neighbours of a run of such tokens if one of them has no
    `free_standing` label but, for example, only "B-PER": there, a span continues regardless of the dictionary.
    """
    free: Bools = np.logical_and.reduce(allowed, axis=1)
    run = np.cumsum(free)  # the tokens between two free ones get the index of the first
    torn = run[~allowed[:, free_standing(constraints)].any(1)]
    places = np.flatnonzero(~free & np.isin(run, torn))
    looked_at = free.copy()
    looked_at[np.maximum(places - 1, 0)] = looked_at[np.minimum(places + 1, len(free) - 1)] = False
    left: Ints = np.where(looked_at, words, np.int32(-1))
    return left


def make_dictionary(
    hashes: Hashes,
    numbers: Ints,
    gold: Ints,
    constraints: Constraints,
    size: int,
    min_count: int,
    times: Offsets | None = None,
) -> tuple[TagDictionary, Ints]:
    """Return the dictionary of a training set, and the index in it of each token's word [T].

    hashes (Hashes): [V] hashes of all words.
    numbers (Ints): [T] index into `hashes` of each token's word, -1 for none.
    gold (Ints): [T] gold labels, -1 where missing.
    times (Offsets | None): [T] how many tokens each of these is; None for one.
    size, min_count (int): It contains the `size` most frequent words with at least `min_count` labelled tokens.
    Labels that no token has are allowed for all words.  Words without a `free_standing` label are left out, so that
    every text has a labelling.
    """
    counts = np.zeros(len(hashes) + 1, np.int64)  # the last one is for -1
    for words, labels in _labelled(numbers, gold if times is None else np.where(gold >= 0, times, MISSING)):
        np.add.at(counts, words, 1 if times is None else labels)
    frequent = np.flatnonzero(counts[:-1] >= max(min_count, 1))
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")]
    seen = np.zeros((len(frequent), len(constraints.start)), np.bool_)
    absent = np.ones(seen.shape[1], np.bool_)
    places = _places(frequent, len(hashes))
    for words, labels in _labelled(numbers, gold):
        absent[labels] = False
        rows = places[words]
        seen[rows[rows >= 0], labels[rows >= 0]] = True
    kept = np.flatnonzero(seen[:, free_standing(constraints)].any(1))[:size]
    seen[:, absent] = True
    return TagDictionary(hashes[frequent[kept]], seen[kept]), _places(frequent[kept], len(hashes))[numbers]


def _labelled(numbers: Ints, gold: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield words and labels of labelled tokens in blocks."""
    for first in range(0, len(gold), _BLOCK_TOKENS):
        words, labels = numbers[first : first + _BLOCK_TOKENS], gold[first : first + _BLOCK_TOKENS]
        labelled = labels >= 0
        yield words[labelled], labels[labelled]


def _places(words: NDArray[np.int64], n_words: int) -> Ints:
    """Return the index [n_words + 1] of each word in `words`, -1 for the others and for word -1."""
    places = np.full(n_words + 1, -1, np.int32)
    places[words] = np.arange(len(words), dtype=np.int32)
    return places
