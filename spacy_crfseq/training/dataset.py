"""Encoded sequences with their labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..features.encoder import Encoded, concatenate, take_sequences
from ..features.index import BagStore
from ..types import Batch, Ints, Offsets

SAMPLE_SEQUENCES = 1000
"""Sequences on which learning rates are tried."""


class Dataset(NamedTuple):
    """Encoded sequences with their labels.

    encoded (Encoded): Ids of N sequences.
    gold (Ints): [T] labels, -1 where missing.
    weights (NDArray): [N] weight of each sequence, float64.
    """

    encoded: Encoded
    gold: Ints
    weights: NDArray[np.float64]

    @property
    def n_sequences(self) -> int:
        """N."""
        return len(self.weights)

    @property
    def store(self) -> BagStore:
        """The bags that the ids refer to; data sets can be joined where they share it."""
        return self.encoded.state.store

    def take(self, sequences: Offsets) -> Dataset:
        """Return some sequences, in the given order."""
        encoded, tokens = take_sequences(self.encoded, sequences)
        return Dataset(encoded, self.gold[tokens], self.weights[sequences])

    def slice(self, first: int, last: int) -> Dataset:
        """Return the sequences first..last-1, without a copy."""
        offsets = self.encoded.offsets[first : last + 1]
        gold = self.gold[int(offsets[0]) : int(offsets[-1])]
        return Dataset(self.encoded.slice(first, last), gold, self.weights[first:last])

    def sample(self, size: int) -> Dataset:
        """Return at most `size` sequences, always the same ones."""
        if self.n_sequences <= size:
            return self
        return self.take(np.sort(np.random.default_rng(0).choice(self.n_sequences, size, replace=False)))

    def batch(self, first: int, last: int) -> Batch:
        """Return the sequences first..last-1 as a loss sees them."""
        offsets = self.encoded.offsets[first : last + 1]
        gold = self.gold[offsets[0] : offsets[-1]]
        return Batch(offsets - offsets[0], gold, self.weights[first:last])


def join(parts: list[Dataset]) -> Dataset:
    """Return the sequences of all parts as one data set."""
    if len(parts) == 1:
        return parts[0]
    return Dataset(
        concatenate([part.encoded for part in parts]),
        np.concatenate([part.gold for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )
