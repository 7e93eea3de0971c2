"""Texts in which equal votes come once: most tokens are in no span of any source, and many short texts are alike.

EM gives tokens with the same votes the same scores, and sequences of such tokens the same expected counts.  So scores
are computed for each distinct token, and counts for each distinct sequence, which counts as often as it comes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...types import Ints, Offsets
from ...votes import Votes
from .label_model import Array


class DistinctTexts(NamedTuple):
    """N distinct sequences of G distinct tokens, the shortest first: those of like length are computed together.

    votes (Votes): Of the distinct tokens, each of which is a sequence.
    cells (Ints): [V] the rows of these votes in the table of a label model.
    gold (Ints | None): [G] true labels, negative where unknown.
    tokens (Offsets): [T] the distinct token at each place of the sequences.
    offsets (Offsets): [N + 1] of the sequences.
    weights (Array): [N] how often each sequence comes.
    numbers (Offsets): [N] the first of these sequences among all texts.
    """

    votes: Votes
    cells: Ints
    gold: Ints | None
    tokens: Offsets
    offsets: Offsets
    weights: Array
    numbers: Offsets

    def without_order(self) -> DistinctTexts:
        """Return the tokens as sequences of their own, with the number of the first text that has each."""
        lengths = np.diff(self.offsets)
        of_tokens = np.repeat(self.weights, lengths)
        every = self.votes.offsets
        weights = np.bincount(self.tokens, of_tokens, len(every) - 1).astype(np.float64)
        numbers = np.full(len(every) - 1, self.numbers.max(initial=0))
        np.minimum.at(numbers, self.tokens, np.repeat(self.numbers, lengths))
        return self._replace(tokens=every[:-1], offsets=every, weights=weights, numbers=numbers)


def distinct_texts(votes: Votes, cells: Ints, gold: Ints | None) -> DistinctTexts:
    """Return the distinct sequences of votes.

    cells (Ints): [V] rows in the table of a label model; votes with the same row are equal.
    gold (Ints | None): [T] true labels, negative where unknown; tokens with different ones differ.
    """
    kinds = _kinds(votes.ptr, cells, gold)
    _, firsts, kinds = np.unique(kinds, return_index=True, return_inverse=True)
    lengths = np.diff(votes.ptr)[firsts]
    ptr = np.append(0, np.cumsum(lengths))
    chosen = np.arange(ptr[-1]) + np.repeat(votes.ptr[firsts] - ptr[:-1], lengths)
    every = np.arange(len(firsts) + 1)
    of_tokens = votes._replace(offsets=every, ptr=ptr, sources=votes.sources[chosen], labels=votes.labels[chosen])
    seen = dict[bytes, int]()  # a sequence by its tokens
    of_sequence = [
        seen.setdefault(kinds[begin:end].tobytes(), number)
        for number, (begin, end) in enumerate(pairwise(votes.offsets.tolist()))
    ]
    numbers = np.array([*seen.values()], np.int64)
    numbers = numbers[np.argsort(np.diff(votes.offsets)[numbers], kind="stable")]
    n_tokens = np.diff(votes.offsets)[numbers]
    offsets = np.append(0, np.cumsum(n_tokens))
    places = np.arange(offsets[-1]) + np.repeat(votes.offsets[numbers] - offsets[:-1], n_tokens)
    weights = np.bincount(of_sequence, minlength=len(of_sequence))[numbers].astype(np.float64)
    true = None if gold is None else gold[firsts]
    return DistinctTexts(of_tokens, cells[chosen], true, kinds[places], offsets, weights, numbers)


def _kinds(ptr: Offsets, cells: Ints, gold: Ints | None) -> NDArray[np.int64]:
    """Return a number for each token [T], the same for those with the same votes and true label.

    Tokens are split by the true label, by the first vote, by the second one, and so on.
    """
    n_votes, width = np.diff(ptr), int(cells.max(initial=-1)) + 1
    kinds = np.zeros(len(n_votes), np.int64) if gold is None else gold.astype(np.int64) - gold.min(initial=0)
    left, place = np.flatnonzero(n_votes), 0
    while len(left):
        _, split = np.unique(kinds[left] * width + cells[ptr[left] + place], return_inverse=True)
        kinds[left] = kinds.max() + 1 + split
        place += 1
        left = left[n_votes[left] > place]
    return kinds
