"""Loss of a data set plus penalty, as a function of the flat parameters.

Batch optimizers ask for value and gradient on all data, which `full_pass` computes; online ones for mini-batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import threads
from ..features.encoder import Ids
from ..layout import Layout, Views
from ..types import Floats, Ints, Loss, Offsets, Regularizer, Scores
from .dataset import SAMPLE_SEQUENCES, Dataset
from .full_pass import FullPass

EXPANDED_SEQUENCES = 2048
"""Sequences whose attribute ids are written out at a time in online training."""


class _Expanded(NamedTuple):
    """Attribute ids of each token, ragged."""

    ptr: Offsets
    ids: Ints

    def cut(self, begin: int, end: int) -> _Expanded:
        """Return the tokens begin..end-1."""
        return _Expanded(self.ptr[begin : end + 1], self.ids)


def _expand(ids: Ids) -> _Expanded:
    from ..kernels import rows

    room = int(np.diff(ids.store.ptr)[ids.bags].sum()) + ids.attrs.size
    ptr, out = np.empty(len(ids.attrs) + 1, np.int64), np.empty(room, np.int32)
    size = rows.expand(ids.bags, ids.attrs, ids.store.ptr, ids.store.ids, ptr, out)
    return _Expanded(ptr, out[:size])


class MiniBatch:
    """A few sequences, for steps that touch only their own weights.

    data (Dataset): Sequences among which those of the batch lie, from number `first` to `last` - 1.
    state, pair (_Expanded): Attribute ids of all tokens of `data`; pair is None without label-pair templates.
    """

    def __init__(
        self,
        objective: CRFObjective,
        data: Dataset,
        state: _Expanded,
        pair: _Expanded | None,
        first: int,
        last: int,
    ) -> None:
        begin, end = int(data.encoded.offsets[first]), int(data.encoded.offsets[last])
        self._objective = objective
        self._batch = data.batch(first, last)
        self._n_tokens = end - begin
        self._state = state.cut(begin, end)
        self._pair = pair.cut(begin, end) if pair is not None else None

    @property
    def n_sequences(self) -> int:
        """Sequences in the batch."""
        return len(self._batch.weights)

    def loss_and_step(self, theta: Floats, scale: float, targets: list[tuple[Floats, float]]) -> float:
        """See `types.OnlineBatch`."""
        layout, length = self._objective.layout, self._n_tokens
        views = layout.views(theta)
        s = theta.dtype.type(scale)
        emissions = np.zeros((length, layout.n_labels), theta.dtype)
        layout.state.add_ragged(views.state, *self._state, emissions)
        emissions *= s
        transitions = views.transitions[None] * s
        if self._pair is not None:
            transitions = np.broadcast_to(views.transitions, (length, *views.transitions.shape)).copy()
            layout.pair.add_ragged(views.pair, *self._pair, transitions.reshape(length, layout.pair.width))
            transitions *= s
        scores = Scores(emissions, transitions, views.start * s, views.end * s)
        grad = scores.zeros_like()
        loss = self._objective.loss(scores, self._batch, grad)
        for array, factor in targets:
            self._step(layout.views(array), grad, factor)
        return loss

    def _step(self, target: Views, grad: Scores, factor: float) -> None:
        layout = self._objective.layout
        f = grad.emissions.dtype.type(factor)
        layout.state.scatter_ragged(*self._state, grad.emissions, factor, target.state)
        if self._pair is not None:
            flat = grad.transitions.reshape(self._n_tokens, layout.pair.width)
            layout.pair.scatter_ragged(*self._pair, flat, factor, target.pair)
        steps = grad.transitions.sum(0) * f
        if layout.steps is not None:
            steps *= layout.steps
        target.transitions[...] += steps
        if layout.boundaries:
            target.start[...] += grad.start * f
            target.end[...] += grad.end * f


class CRFObjective:
    """Implements `types.Objective` for a layout of parameters, a data set, a loss and a regularizer.

    n_total (int): Sequences of the whole training set, where `data` is a part of it.
    sample (Dataset | None): Data on which a learning rate may be tried; a part of `data` if not given.
    n_threads (int): Threads that passes over all data use, 0 for as many as there are cores.
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
    ) -> None:
        self.layout, self.data, self.loss = layout, data, loss
        self._regularizer = regularizer
        self._n_total, self._sample = n_total, sample
        self._n_threads = n_threads or threads.available()

    @cached_property
    def _pass(self) -> FullPass:
        return FullPass(self.layout, self.data, self.loss, self._n_threads)

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

    def value(self, theta: Floats) -> float:
        """Return the objective at theta [D]."""
        return self._pass(theta, None) + self._regularizer.value(theta)

    def value_and_grad(self, theta: Floats, out: Floats | None = None) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the objective's gradient [D], written to `out` if given."""
        grad = np.zeros_like(theta) if out is None else out
        grad[:] = 0
        loss = self._pass(theta, grad)
        self._regularizer.add_grad(theta, grad)
        self.layout.hold(grad)
        return loss + self._regularizer.value(theta), loss, grad

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield all sequences once, `size` at a time, shuffled by `rng`."""
        n = self.data.n_sequences
        order = np.arange(n) if rng is None else rng.permutation(n)
        block = max(1, EXPANDED_SEQUENCES // size) * size
        for start in range(0, n, block):
            part = self.data.take(order[start : start + block])
            state = _expand(part.encoded.state)
            pair = _expand(part.encoded.pair) if self.layout.pair.n_rows else None
            for first in range(0, part.n_sequences, size):
                yield MiniBatch(self, part, state, pair, first, min(first + size, part.n_sequences))

    def sample(self) -> CRFObjective:
        """Return the objective on a fixed sample of the training data, the penalty scaled down in proportion."""
        data = (self._sample or self.data).sample(SAMPLE_SEQUENCES)
        scaled = _Scaled(self._regularizer, data.n_sequences / self.n_total)
        return CRFObjective(self.layout, data, self.loss, scaled, n_threads=1)


class _Scaled:
    """A regularizer times a factor."""

    def __init__(self, regularizer: Regularizer, factor: float) -> None:
        self._regularizer, self._factor = regularizer, factor

    @property
    def smooth(self) -> bool:
        return self._regularizer.smooth

    @property
    def decay(self) -> float | None:
        decay = self._regularizer.decay
        return None if decay is None else decay * self._factor

    def value(self, weights: Floats) -> float:
        return self._factor * self._regularizer.value(weights)

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        unscaled = np.zeros_like(grad)
        self._regularizer.add_grad(weights, unscaled)
        grad += grad.dtype.type(self._factor) * unscaled

    def prox(self, weights: Floats, step: float) -> None:
        self._regularizer.prox(weights, step * self._factor)
