"""Word vectors of the pipeline as real-valued features: token t has the emissions sum of x(t + k) W_k, |k| <= window.

Turian, Ratinov & Bengio (2010), "Word representations: a simple and general method for semi-supervised learning".
x(t) [d] is the vector of token t, scaled.  A text is kept as the hashes of its words; the vectors of distinct words are
kept in a table, in training for all of its text, in prediction up to `MAX_FLOATS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError
from ...features.encoded import Encoded
from ...features.index import Growable, HashIndex
from ...potentials.sums import GradientAdder, RowScores
from ...threads import surviving
from ...types import Floats, Hashes, Ints, Offsets

MAX_FLOATS = 1 << 23
"""Numbers in the table of vectors in prediction, 32 MiB; it begins anew when they do not suffice."""


class _Table:
    """Vectors of distinct words; row 0 is zero, for what has none."""

    def __init__(self, vectors: Any) -> None:
        self.vectors, self.data = vectors, vectors.data
        self.index, self.rows = HashIndex(), Growable(np.float32, vectors.shape[1])
        self.rows.resize(1)


@dataclass
class Vectors:
    """The pipeline's word vectors, static or floret, as real-valued features (``spacy_crfseq.Vectors.v1``).

    They are those of ``nlp.vocab.vectors``, which ``[initialize] vectors`` of a config loads; a saved pipeline holds
    them.  A word without one has that of its lower case.  An attribute of a template is 1, so a vector of the length
    `scale` counts as much as ``scale ** 2`` of them under the same penalty.

    window (int): Tokens before and after, whose vectors have weights of their own.
    scale (float): Length that every vector is scaled to; 0 leaves them as they are.
    RAISES ConfigError: On a setting out of range; in use, if the pipeline has no vectors or others than in training.
    """

    window: int = 1
    scale: float = 2.0
    width: int = field(default=0, init=False)
    _least: int = field(default=0, init=False, repr=False)
    _table: _Table | None = field(default=None, init=False, repr=False, compare=False)
    _lock: Any = field(default_factory=lambda: surviving(Lock()), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.window <= 16 or not 0 <= self.scale < np.inf:
            raise ConfigError("Vectors: window must be from 0 to 16, and scale 0 or more.")

    def __reduce__(self) -> tuple[type[Vectors], tuple[int, float]]:
        return Vectors, (self.window, self.scale)  # a model holds its width, the vocab the vectors

    def read(self, docs: Sequence[Any]) -> Hashes:
        """Return the hash of each word [T].  RAISES ConfigError: If there are no vectors."""
        if not docs:
            return np.zeros(0, np.uint64)
        vectors, old = docs[0].vocab.vectors, self._table
        if not all(vectors.shape):
            raise ConfigError(
                "spacy_crfseq.Vectors.v1: this pipeline has no word vectors. Name a pipeline that has them as "
                "'vectors' under [initialize] (or --initialize.vectors); 'python -m spacy init vectors' makes one."
            )
        if old is None or vectors is not old.vectors or vectors.data is not old.data:
            self._table = _Table(vectors)
        return np.concatenate([doc.to_array(vectors.attr) for doc in docs])

    def bind(self, text: Encoded, number: int) -> None:
        self.width = self._table.rows.array.shape[1] if self._table else 0
        self._least = 2 * len(np.unique(text.inputs[number])) if text.inputs else 0

    def size(self, n_labels: int) -> int:
        return self.width * (2 * self.window + 1) * n_labels

    def potential(self, n_labels: int, number: int) -> VectorScores:
        return VectorScores(self, n_labels, number)

    def to_state(self) -> int:
        return self.width

    def from_state(self, state: Any) -> None:
        if not isinstance(state, int) or state < 0:
            raise ValueError(f"vectors of {state!r} dimensions")
        self.width = state

    def of(self, words: Hashes) -> Floats:
        """Return the scaled vectors [U, d] of distinct words.  RAISES ConfigError: If the dimension has changed."""
        with self._lock:
            table = self._table
            assert table is not None
            n, width = table.rows.array.shape
            if width != self.width:
                raise ConfigError(
                    f"spacy_crfseq.Vectors.v1: the vectors of this pipeline have {width} dimensions, those of the "
                    f"training {self.width}. Use the vectors of the training, or train again."
                )
            ids, n_unknown = table.index.find(words)
            if n_unknown and (n + n_unknown) * width > max(MAX_FLOATS, self._least * width):
                self._table = table = _Table(table.vectors)
                ids = np.full_like(ids, -1)
            if n_unknown:
                # looked up first: an error or Ctrl-C must not leave words without rows
                new = words[(ids < 0) & (words != 0)]
                rows = _look_up(table.vectors, new.tolist(), self.scale)
                ids, _ = table.index.add(words)
                table.rows.append(rows)
            rows_of: Floats = table.rows.array[ids + 1]
            return rows_of


def _look_up(vectors: Any, words: list[int], scale: float) -> Floats:
    """Return the vectors of some words [U, d], zeros for none, scaled to a length unless that is 0."""
    if vectors.mode == "default":
        rows = vectors.find(keys=words)
        missing = np.flatnonzero(rows < 0)
        rows[missing] = vectors.find(keys=[vectors.strings[words[i]].lower() for i in missing])
        values = vectors.data[rows]
        values[rows < 0] = 0
    else:
        values = vectors.get_batch(words)
    values = values.get() if hasattr(values, "get") else values  # from a GPU
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values * (scale / np.where(lengths > 0, lengths, 1)) if scale else values)


class VectorScores(RowScores):
    """Implements `protocol.Potential` with `Vectors`; the weights are [d, 2 window + 1, L]."""

    def emissions(self, weights: Floats, inputs: NDArray[Any], offsets: Offsets) -> tuple[Floats, GradientAdder]:
        words, places = np.unique(inputs, return_inverse=True)
        x = self.plugin.of(words).astype(weights.dtype, copy=False)
        ids, n = _windows(places, offsets, self.plugin.window), self.n_labels
        # of each word, the scores that it adds to the token at each offset; so words are multiplied once
        table = (x @ weights.reshape(x.shape[1], -1)).reshape(-1, n)
        out = np.zeros((len(inputs), n), weights.dtype)
        kernels.rows.add_fixed(ids, table, out)

        def add(d: Floats, grad: Floats) -> None:
            d_table = np.zeros_like(table)
            kernels.rows.scatter_fixed(ids, d, d_table)
            grad += (x.T @ d_table.reshape(len(x), -1)).reshape(-1, n)

        return out, add


def _windows(places: NDArray[np.int64], offsets: Offsets, window: int) -> Ints:
    """Return the rows [T, 2 window + 1] of (word, offset) that score each token, -1 beyond the ends of its sequence."""
    width, pads = 2 * window + 1, 2 * window
    ids, shifted = np.empty((len(places), width), np.int32), np.empty(len(places), np.int32)
    rows = (places + pads).astype(np.int32)  # lower numbers are for places beyond the ends
    for k in range(width):
        kernels.hashing.shift(rows, offsets, k - window, window, shifted)
        ids[:, k] = np.where(shifted < pads, -1, (shifted - pads) * width + k)
    return ids
