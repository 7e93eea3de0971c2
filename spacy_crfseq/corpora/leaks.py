"""Sentences of a development corpus that are in the training corpus, too: scores on them say nothing of other texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

COMPARED = 5
"""Tokens; shorter sentences are the same, and annotated differently, for good reasons."""
LEAK, MOST = 0.01, 0.5
"""Shares of development sentences in the training part from which scores are unreliable, and are of known texts."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = [(np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB))]
"""The steps of SplitMix64 (Steele et al. 2014): words at other places give other numbers."""


class Leak(NamedTuple):
    """How many development sentences of `COMPARED` tokens or more, `compared` in all, are training sentences, too."""

    same: int
    compared: int

    @property
    def share(self) -> float:
        """Their share, 0 if none were compared."""
        return self.same / max(1, self.compared)

    @property
    def matters(self) -> bool:
        """Whether scores are unreliable."""
        return self.share > LEAK

    def __str__(self) -> str:
        text = f"{self.same:,} of {self.compared:,} dev sentences of {COMPARED} tokens or more are in train, too"
        return (
            f"{text} ({100 * self.share:.1f} %): scores will be too good. Take them out of one."
            if self.matters
            else text
        )


def sentence_keys(words: ArrayLike, offsets: ArrayLike) -> NDArray[np.uint64]:
    """Return a number for each sentence of `COMPARED` words or more, the same for the same words.

    words: [T] hashes of words in 64 bits.
    offsets: [N + 1] of the sentences.
    """
    words, offsets = np.asarray(words, np.uint64), np.asarray(offsets, np.int64)
    lengths = np.diff(offsets)
    places = np.arange(len(words), dtype=np.int64) - np.repeat(offsets[:-1], lengths)
    mixed = words + places.astype(np.uint64) * _STEP  # wraps around, as products and sums do
    for shift, factor in _MIX:
        mixed = (mixed ^ (mixed >> shift)) * factor
    sums = np.append(np.uint64(0), np.cumsum(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64))
    keys: NDArray[np.uint64] = (sums[offsets[1:]] - sums[offsets[:-1]])[lengths >= COMPARED]
    return keys


def leak(train: NDArray[np.uint64], dev: NDArray[np.uint64]) -> Leak:
    """Compare the keys of the sentences of two parts."""
    return Leak(int(np.isin(dev, train).sum()), len(dev))
