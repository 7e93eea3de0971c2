"""Encoded sequences with their labels, and the folds of a corpus for cross-validation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, DataError
from ..features.encoded import Encoded, concatenate, take_sequences
from ..features.index import BagStore
from ..potentials.protocol import tokens_of
from ..types import MISSING, NO_CANDIDATES, Batch, Ints, Offsets

SAMPLE_SEQUENCES = 1000
"""Number of sequences for choosing learning rates."""


class CandidateTable:
    """The candidate sets `now` of gold labels below `MISSING`, shared by all parts of a data set.

    Data sets contain only numbers, so they can be split and joined while the sets grow.
    """

    def __init__(self) -> None:
        self.now = NO_CANDIDATES


class Dataset(NamedTuple):
    """Encoded sequences with their labels.

    gold (Ints): [T] labels; `MISSING` if unknown, lower numbers for candidate sets; of any signed type.
    weights (NDArray): [N] weight of each sequence, float64.
    table (CandidateTable | None): The same object for all joined data sets.
    inputs (NDArray | None): [T, ...] what the loss read from the texts, see `types.TextLoss`.
    """

    encoded: Encoded
    gold: Ints
    weights: NDArray[np.float64]
    table: CandidateTable | None = None
    inputs: NDArray[Any] | None = None

    @property
    def n_sequences(self) -> int:
        """N."""
        return len(self.weights)

    @property
    def store(self) -> BagStore:
        """The bags of the ids; data sets that share them can be joined."""
        return self.encoded.unigrams.store

    def take(self, sequences: Offsets) -> Dataset:
        """Return some sequences, in the given order."""
        encoded, tokens = take_sequences(self.encoded, sequences)
        inputs = None if self.inputs is None else self.inputs[tokens]
        return Dataset(encoded, self.gold[tokens], self.weights[sequences], self.table, inputs=inputs)

    def labelled(self) -> Dataset:
        """Return the sequences in which a gold label is known."""
        n_labelled = np.append(0, np.cumsum(self.gold >= 0))[self.encoded.offsets]
        return self.take(np.flatnonzero(np.diff(n_labelled)))

    def known_gold(self) -> Ints:
        """Return the labels [T], `MISSING` for candidate sets and in sequences of weight 0."""
        weights = np.repeat(self.weights, np.diff(self.encoded.offsets))
        return np.where((weights > 0) & (self.gold >= 0), self.gold, MISSING)

    def slice(self, first: int, last: int) -> Dataset:
        """Return the sequences first..last-1, without a copy."""
        tokens = tokens_of(self.encoded.offsets, (first, last))
        inputs = None if self.inputs is None else self.inputs[tokens]
        encoded = self.encoded.slice(first, last)
        return Dataset(encoded, self.gold[tokens], self.weights[first:last], self.table, inputs=inputs)

    def sample(self, size: int) -> Dataset:
        """Return at most `size` sequences, always the same ones."""
        if self.n_sequences <= size:
            return self
        return self.take(np.sort(np.random.default_rng(0).choice(self.n_sequences, size, replace=False)))

    def batch(self, first: int, last: int) -> Batch:
        """Return the sequences first..last-1 as the input of a loss."""
        offsets, tokens = self.encoded.offsets[first : last + 1], tokens_of(self.encoded.offsets, (first, last))
        candidates = NO_CANDIDATES if self.table is None else self.table.now
        inputs = None if self.inputs is None else self.inputs[tokens]
        gold = self.gold[tokens].astype(np.int32, copy=False)
        return Batch(offsets - tokens.start, gold, self.weights[first:last], candidates, inputs=inputs)

    @property
    def has_candidates(self) -> bool:
        """Whether some gold labels are candidate sets."""
        return bool(self.gold.min(initial=0) < MISSING)

    @property
    def has_distributions(self) -> bool:
        """Whether some of them have probabilities."""
        numbers = MISSING - 1 - self.gold[self.gold < MISSING].astype(np.int64)
        return self.table is not None and bool(self.table.now.shares.has(numbers).any())

    def observed(self) -> Dataset:
        """Return the data, without `inputs`, with additional sequences for features that may need weights for a label.

        There is a one-token sequence for each label of a candidate set or incorrect span: the labels in the set or, if
        these are the majority and have no probabilities, the labels outside it.
        """
        plain = self if self.inputs is None else self._replace(inputs=None)
        if self.table is None or not self.has_candidates:
            return plain
        sets, incorrect, shares = self.table.now
        partly = np.flatnonzero(self.gold < MISSING)
        numbers = MISSING - 1 - self.gold[partly]
        marked = np.where(2 * sets.sum(1, keepdims=True) > sets.shape[1], ~sets, sets)
        marked = np.where(shares.has(np.arange(len(sets)))[:, None], sets, marked)
        places, labels = np.nonzero(marked[numbers])
        tokens, golds = [partly[places]], [labels]
        for span in incorrect:
            steps, labels = np.nonzero(span.labels[: span.n_tokens])
            begins = partly[(numbers == span.number) & (partly + span.n_tokens <= len(self.gold))]
            tokens.append((begins[:, None] + steps).ravel())
            golds.append(np.tile(labels, len(begins)))
        offsets = np.arange(len(self.gold) + 1)
        unigrams, bigrams = (ids.plain()._replace(offsets=offsets) for ids in self.encoded[:2])
        every_token = self.encoded._replace(unigrams=unigrams, bigrams=bigrams, offsets=offsets)
        encoded, chosen = take_sequences(every_token, np.concatenate(tokens))
        extra = Dataset(encoded, np.concatenate(golds).astype(np.int32), np.ones(len(chosen)), self.table)
        return join([plain, extra])


def join(parts: list[Dataset]) -> Dataset:
    """Return the sequences of all parts as one data set."""
    if len(parts) == 1:
        return parts[0]
    return Dataset(
        concatenate([part.encoded for part in parts]),
        np.concatenate([part.gold for part in parts]),
        np.concatenate([part.weights for part in parts]),
        parts[0].table,
        inputs=None if parts[0].inputs is None else np.concatenate([part.inputs for part in parts]),
    )


def check_folds(k: int) -> None:
    """RAISES ConfigError: If a number of folds is less than 2."""
    if k < 2:
        raise ConfigError(f"--cross-validate {k}: give a number of folds from 2 on; 5 and 10 are usual.")


def folds(keys: Sequence[Hashable], k: int, seed: int = 0) -> list[Offsets]:
    """Return the document numbers of each of k folds, in ascending order; each is held out once.

    Documents are shuffled, and folds have about the same number of them.
    keys: One for each document.  Documents with equal keys, such as copies of a text, share a fold, so that no model is
        tested on a text that it was trained on.
    RAISES ConfigError: If k is less than 2.
    RAISES DataError: If there are fewer different documents than folds.
    """
    check_folds(k)
    groups: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    if len(groups) < k:
        raise DataError(
            f"--cross-validate {k}: the training corpus has only {len(groups)} different documents or groups."
        )
    order = np.random.default_rng(seed).permutation(len(groups))
    numbers_of: list[list[int]] = [[] for _ in range(k)]
    copies = list(groups.values())
    for group in sorted((copies[i] for i in order), key=len, reverse=True):  # into the smallest fold so far
        min(numbers_of, key=len).extend(group)
    return [np.array(sorted(numbers), np.int64) for numbers in numbers_of]
