"""Loss of a data set plus penalty, as a function of the flat parameters.

Batch optimizers ask for value and gradient on all data, which `full_pass` computes; online ones for mini-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property, partial

import numpy as np

from .. import threads
from ..layout import Layout
from ..tag_dictionary import EmissionMask, TagDictionary
from ..types import Batch, Bools, Floats, Loss, Occurrences, Regularizer, RowBlock, Strengths
from .dataset import SAMPLE_SEQUENCES, Dataset
from .full_pass import FullPass
from .minibatch import MiniBatch, Workspace, expand

EXPANDED_SEQUENCES = 2048
"""Sequences whose attribute ids are written out at a time in online training."""


class CRFObjective:
    """Implements `types.Objective` for a layout of parameters, a data set, a loss and a regularizer.

    n_total (int): Sequences of the whole training set, where `data` is a part of it.
    sample (Dataset | None): Data on which a learning rate may be tried; a part of `data` if not given.
    n_threads (int): Threads that passes over all data use, 0 for as many as there are cores.
    dictionary (TagDictionary | None): Restricts the labels of the words that ``data.encoded.words`` numbers.  A gold
        label that it forbids is allowed at its token, so that no loss is infinite.
    """

    def __init__(
        self,
        layout: Layout,
        data: Dataset,
        loss: Loss,
        regularizer: Regularizer,
        *,
        n_total: int = 0,
        sample: Dataset | None = None,
        n_threads: int = 1,
        dictionary: TagDictionary | None = None,
    ) -> None:
        self.layout, self.data, self._loss = layout, data, loss
        self.dictionary = dictionary
        self._mask = None if dictionary is None else EmissionMask(dictionary)
        self._regularizer = regularizer.over(layout.blocks())
        self._n_total, self._sample = n_total, sample
        self._n_threads = n_threads or threads.available()

    @cached_property
    def _pass(self) -> FullPass:
        return FullPass(self.layout, self.data, self._loss, self._n_threads, self._mask)

    def under(self, regularizer: Regularizer, loss: Loss | None = None) -> CRFObjective:
        """Return the objective with another penalty, and another loss if one is given.

        With the same loss both share what is prepared for passes over the data.
        """
        other = copy(self)
        other._regularizer = regularizer.over(self.layout.blocks())
        if loss is None:
            other._pass = self._pass
        else:
            other._loss = loss
            vars(other).pop("_pass", None)
        return other

    @property
    def loss(self) -> Loss:
        """The loss."""
        return self._loss

    @property
    def batch(self) -> Batch:
        """All sequences of the data at hand."""
        return self.data.batch(0, self.data.n_sequences)

    @property
    def allowed(self) -> Bools | None:
        """Labels that each token may have [T, L], gold ones included; None where all may have all."""
        words = self.data.encoded.words
        if self.dictionary is None or words is None:
            return None
        return self.dictionary.labels_of(words, self.data.gold)

    def occurrences(self, block: int) -> Occurrences:
        """Return which rows of a group (0 state, 1 pair) each token switches on, and which tokens each row."""
        from ..kernels import rows

        group, encoded = (self.layout.state, self.layout.pair)[block], (self.data.encoded.state, self.data.encoded.pair)
        ptr, ids = expand(encoded[block])
        row_ptr, tokens = np.empty(group.n_rows + 1, np.int64), np.empty(len(ids), np.int32)
        rows.transpose(ptr, ids, row_ptr, tokens)
        return Occurrences(ptr, ids, row_ptr, tokens)

    @property
    def regularizer(self) -> Regularizer:
        """The penalty."""
        return self._regularizer

    @property
    def n_sequences(self) -> int:
        """Sequences in the data at hand."""
        return self.data.n_sequences

    @property
    def n_threads(self) -> int:
        """Threads that passes over all data use."""
        return self._n_threads

    @property
    def n_total(self) -> int:
        """Sequences in the whole training set."""
        return max(self._n_total, self.n_sequences)

    @property
    def blocks(self) -> list[RowBlock]:
        """The groups of rows that theta consists of."""
        return self.layout.blocks()

    @property
    def learnt(self) -> Bools:
        """Which of the scores that all positions share, the last group, are learnt; the others stay zero."""
        return self.layout.learnt()

    def value(self, theta: Floats) -> float:
        """Return the objective at theta [D]."""
        return self._pass(theta, None) + self._regularizer.value(theta)

    def value_and_grad(self, theta: Floats, out: Floats | None = None) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the objective's gradient [D], written to `out` if given."""
        grad = np.empty_like(theta) if out is None else out
        pieces = threads.parts(len(theta), self._n_threads)
        threads.run([partial(grad[piece].fill, 0) for piece in pieces])
        loss = self._pass(theta, grad)
        if self._regularizer.strengths is None:  # its parts may hang together
            pieces = [slice(0, len(theta))]
        penalty = sum(threads.run([partial(self._penalise, theta[piece], grad[piece]) for piece in pieces]))
        self.layout.hold(grad)
        return loss + penalty, loss, grad

    def _penalise(self, theta: Floats, grad: Floats) -> float:
        """Return the penalty of some parameters and add its gradient."""
        self._regularizer.add_grad(theta, grad)
        return self._regularizer.value(theta)

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield all sequences once, `size` at a time, shuffled by `rng`."""
        n = self.data.n_sequences
        order = np.arange(n) if rng is None else rng.permutation(n)
        block = max(1, EXPANDED_SEQUENCES // size) * size
        work = Workspace(self.layout, self._mask)
        for start in range(0, n, block):
            part = self.data.take(order[start : start + block])
            state = expand(part.encoded.state)
            pair = expand(part.encoded.pair) if self.layout.pair.n_rows else None
            for first in range(0, part.n_sequences, size):
                last = min(first + size, part.n_sequences)
                yield MiniBatch(work, self._loss, part, state, pair, first, last)

    def sample(self) -> CRFObjective:
        """Return the objective on a fixed sample of the training data, the penalty scaled down in proportion."""
        data = (self._sample or self.data).sample(SAMPLE_SEQUENCES)
        scaled = _Scaled(self._regularizer, data.n_sequences / max(1, self.n_total))
        return CRFObjective(self.layout, data, self._loss, scaled, dictionary=self.dictionary)


class _Scaled:
    """A regularizer times a factor."""

    def __init__(self, regularizer: Regularizer, factor: float) -> None:
        self._regularizer, self._factor = regularizer, factor

    @property
    def smooth(self) -> bool:
        return self._regularizer.smooth

    @property
    def strengths(self) -> Strengths | None:
        strengths = self._regularizer.strengths
        return None if strengths is None else Strengths(*(self._factor * strength for strength in strengths))

    def over(self, blocks: Sequence[RowBlock]) -> _Scaled:
        return _Scaled(self._regularizer.over(blocks), self._factor)

    def value(self, weights: Floats) -> float:
        return self._factor * self._regularizer.value(weights)

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        unscaled = np.zeros_like(grad)
        self._regularizer.add_grad(weights, unscaled)
        grad += grad.dtype.type(self._factor) * unscaled

    def prox(self, weights: Floats, step: float) -> None:
        self._regularizer.prox(weights, step * self._factor)
