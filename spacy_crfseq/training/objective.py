"""Loss of a data set plus penalty, as a function of the flat parameters.

The data's way through one pass: weight rows are summed once per distinct bag; shard by shard of sequences, scores are
gathered from those sums, the loss turns them into gradients of scores, and these are added back to the bags and single
attributes; at the end each bag's gradient goes to its attributes.  Only ids are kept for the whole corpus, scores for
one shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..features.encoder import Encoded, Ids, concatenate, take_sequences
from ..features.index import BagStore
from ..layout import BagRows, Layout, Rows, Views, shards
from ..types import Batch, Floats, Ints, Loss, Offsets, Regularizer, RowBlock, RowGradient, Scores

SAMPLE_SEQUENCES = 1000
EXPANDED_SEQUENCES = 2048
"""Sequences whose attribute ids are written out at a time in online training."""


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
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        state, pair = self.encoded.state.take(tokens), self.encoded.pair.take(tokens)
        return Dataset(Encoded(state, pair, offsets - offsets[0]), self.gold[tokens], self.weights[first:last])

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


class _Workspace:
    """What the mini-batches of one pass share: views, numbers and arrays that are used again and again."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        n_shared = layout.n_labels * (layout.n_labels + 2)
        self.shared_ptr, self.shared_ids = np.arange(n_shared + 1), np.arange(n_shared, dtype=np.int32)
        self.learnt = self._learnt(n_shared)
        self._rows: Floats = np.zeros(0)
        self._theta: Floats | None = None

    def _learnt(self, n_shared: int) -> NDArray[np.bool_] | None:
        """Return which of the shared scores are learnt, None for all."""
        n, steps = self.layout.n_labels, self.layout.steps
        learnt = np.ones(n_shared, np.bool_)
        if steps is not None:
            learnt[: n * n] = steps.ravel()
        if not self.layout.boundaries:
            learnt[n * n :] = False
        return None if learnt.all() else learnt

    def views(self, theta: Floats) -> Views:
        """Return the groups of theta."""
        if theta is not self._theta:
            self._theta, self._views = theta, self.layout.views(theta)
        return self._views

    def emissions(self, length: int, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
        """Return two arrays of zeros [length, L]."""
        n = self.layout.n_labels
        if self._rows.size < 2 * length * n or self._rows.dtype != dtype:
            self._rows = np.empty(4 * length * n, dtype)
        both = self._rows[: 2 * length * n].reshape(2, length, n)
        both.fill(0)
        return both[0], both[1]


class MiniBatch:
    """A few sequences, for steps that touch only their own weights.

    data (Dataset): Sequences among which those of the batch lie, from number `first` to `last` - 1.
    state, pair (_Expanded): Attribute ids of all tokens of `data`; pair is None without label-pair templates.
    """

    __slots__ = ("_batch", "_loss", "_n_tokens", "_pair", "_state", "_work")

    def __init__(
        self,
        work: _Workspace,
        loss: Loss,
        data: Dataset,
        state: _Expanded,
        pair: _Expanded | None,
        first: int,
        last: int,
    ) -> None:
        begin, end = int(data.encoded.offsets[first]), int(data.encoded.offsets[last])
        self._work, self._loss = work, loss
        self._batch = data.batch(first, last)
        self._n_tokens = end - begin
        self._state = state.cut(begin, end)
        self._pair = pair.cut(begin, end) if pair is not None else None

    @property
    def n_sequences(self) -> int:
        """Sequences in the batch."""
        return len(self._batch.weights)

    def loss_and_grad(self, theta: Floats, scale: float = 1.0) -> tuple[float, list[RowGradient]]:
        """See `types.OnlineBatch`."""
        work, n = self._work, self._work.layout.n_labels
        scores, d_emissions = self._scores(theta, scale)
        d_shared = np.zeros(n * (n + 2), theta.dtype)
        d_steps, d_start, d_end = d_shared[: n * n], d_shared[n * n : -n], d_shared[-n:]
        d_transitions = d_steps.reshape(1, n, n) if self._pair is None else np.zeros_like(scores.transitions)
        loss = self._loss(scores, self._batch, Scores(d_emissions, d_transitions, d_start, d_end))
        grads = [RowGradient(0, *self._state, d_emissions)]
        if self._pair is not None:
            flat = d_transitions.reshape(self._n_tokens, n * n)
            grads.append(RowGradient(1, *self._pair, flat))
            d_steps += flat.sum(0)
        if work.learnt is not None:
            d_shared *= work.learnt
        grads.append(RowGradient(2, work.shared_ptr, work.shared_ids, d_shared[:, None]))
        return loss, grads

    def _scores(self, theta: Floats, scale: float) -> tuple[Scores, Floats]:
        """Return the scores of the batch, and zeros for the gradient of its emissions."""
        layout, length = self._work.layout, self._n_tokens
        views, s = self._work.views(theta), theta.dtype.type(scale)
        emissions, d_emissions = self._work.emissions(length, theta.dtype)
        layout.state.add_ragged(views.state, *self._state, emissions)
        transitions = views.transitions[None]
        if self._pair is not None:
            transitions = np.broadcast_to(views.transitions, (length, *views.transitions.shape)).copy()
            layout.pair.add_ragged(views.pair, *self._pair, transitions.reshape(length, layout.pair.width))
        if scale == 1.0:
            return Scores(emissions, transitions, views.start, views.end), d_emissions
        emissions *= s
        return Scores(emissions, transitions * s, views.start * s, views.end * s), d_emissions


class CRFObjective:
    """Implements `types.Objective` for a layout of parameters, a data set, a loss and a regularizer.

    n_total (int): Sequences of the whole training set, where `data` is a part of it.
    sample (Dataset | None): Data on which a learning rate may be tried; a part of `data` if not given.
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
    ) -> None:
        self.layout, self.data, self.loss = layout, data, loss
        self._regularizer = regularizer
        self._n_total, self._sample = n_total, sample

    @property
    def regularizer(self) -> Regularizer:
        """The penalty."""
        return self._regularizer

    @property
    def n_sequences(self) -> int:
        """Sequences in the data at hand."""
        return self.data.n_sequences

    @property
    def n_total(self) -> int:
        """Sequences in the whole training set."""
        return max(self._n_total, self.n_sequences)

    @property
    def blocks(self) -> list[RowBlock]:
        """The groups of rows that theta consists of."""
        return self.layout.blocks()

    def value(self, theta: Floats) -> float:
        """Return the objective at theta [D]."""
        return self._loss(theta, None) + self._regularizer.value(theta)

    def value_and_grad(self, theta: Floats) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the objective's gradient [D]."""
        grad = np.zeros_like(theta)
        loss = self._loss(theta, grad)
        self._regularizer.add_grad(theta, grad)
        self.layout.hold(grad)
        return loss + self._regularizer.value(theta), loss, grad

    def _loss(self, theta: Floats, grad: Floats | None) -> float:
        """Return the loss at theta and, unless `grad` is None, add its gradient."""
        layout, encoded = self.layout, self.data.encoded
        views = layout.views(theta)
        target = layout.views(grad) if grad is not None else None
        state = _Pass(layout.state, views.state, encoded.state, target.state if target else None)
        pair = _Pass(layout.pair, views.pair, encoded.pair, target.pair if target else None)
        n, per_position = layout.n_labels, layout.pair.n_rows > 0
        d_shared = np.zeros((1, n, n), theta.dtype)
        d_start, d_end = np.zeros(n, theta.dtype), np.zeros(n, theta.dtype)
        total = 0.0
        for first, last in shards(encoded.offsets, n * n if per_position else n):
            tokens = slice(int(encoded.offsets[first]), int(encoded.offsets[last]))
            length = tokens.stop - tokens.start
            emissions = np.zeros((length, n), theta.dtype)
            state.gather(tokens, emissions)
            transitions, d_transitions = views.transitions[None], d_shared
            if per_position:
                transitions = np.broadcast_to(views.transitions, (length, n, n)).copy()
                pair.gather(tokens, transitions.reshape(length, n * n))
                d_transitions = np.zeros_like(transitions)
            scores = Scores(emissions, transitions, views.start, views.end)
            d = Scores(np.zeros_like(emissions), d_transitions, d_start, d_end)
            total += self.loss(scores, self.data.batch(first, last), d)
            state.scatter(tokens, d.emissions)
            if per_position:
                pair.scatter(tokens, d_transitions.reshape(length, n * n))
                d_shared[0] += d_transitions.sum(0)
        state.finish()
        pair.finish()
        if target is not None:
            target.transitions[...] += d_shared[0]
            target.start[...] += d_start
            target.end[...] += d_end
        return total

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield all sequences once, `size` at a time, shuffled by `rng`."""
        n = self.data.n_sequences
        order = np.arange(n) if rng is None else rng.permutation(n)
        block = max(1, EXPANDED_SEQUENCES // size) * size
        work = _Workspace(self.layout)
        for start in range(0, n, block):
            part = self.data.take(order[start : start + block])
            state = _expand(part.encoded.state)
            pair = _expand(part.encoded.pair) if self.layout.pair.n_rows else None
            for first in range(0, part.n_sequences, size):
                last = min(first + size, part.n_sequences)
                yield MiniBatch(work, self.loss, part, state, pair, first, last)

    def sample(self) -> CRFObjective:
        """Return the objective on a fixed sample of the training data, the penalty scaled down in proportion."""
        data = (self._sample or self.data).sample(SAMPLE_SEQUENCES)
        scaled = _Scaled(self._regularizer, data.n_sequences / self.n_total)
        return CRFObjective(self.layout, data, self.loss, scaled)


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


class _Pass:
    """One pass over a block: sums of bags on the way to the scores, gradients of bags on the way back."""

    def __init__(self, rows: Rows, weights: Floats, ids: Ids, grad: Floats | None) -> None:
        self._rows, self._weights, self._ids, self._grad = rows, weights, ids, grad
        store = ids.store if ids.bags.shape[1] else BagStore()
        self._sums = BagRows(rows, weights).sums(store)
        self._d_sums = np.zeros_like(self._sums)

    def gather(self, tokens: slice, out: Floats) -> None:
        from ..kernels import rows

        if self._ids.bags.shape[1]:
            rows.add_fixed(self._ids.bags[tokens], self._sums, out)
        if self._ids.attrs.shape[1]:
            self._rows.add(self._weights, self._ids.attrs[tokens], out)

    def scatter(self, tokens: slice, d: Floats) -> None:
        from ..kernels import rows

        if self._grad is None:
            return
        if self._ids.bags.shape[1]:
            rows.scatter_fixed(self._ids.bags[tokens], d, 1.0, self._d_sums)
        if self._ids.attrs.shape[1]:
            self._rows.scatter(self._ids.attrs[tokens], d, 1.0, self._grad)

    def finish(self) -> None:
        """Hand each bag's gradient to its attributes."""
        if self._grad is not None and self._ids.bags.shape[1]:
            store = self._ids.store
            self._rows.scatter_ragged(store.ptr, store.ids, self._d_sums, 1.0, self._grad)
