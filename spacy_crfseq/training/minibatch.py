"""Mini-batches of a data set: a few sequences, for steps that touch only their own weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..features.encoder import Ids
from ..layout import Layout, Views
from ..tag_dictionary import EmissionMask
from ..types import Floats, Ints, Loss, Offsets, RowGradient, Scores
from .dataset import Dataset


class Expanded(NamedTuple):
    """Attribute ids of each token, ragged."""

    ptr: Offsets
    ids: Ints

    def cut(self, begin: int, end: int) -> Expanded:
        """Return the tokens begin..end-1."""
        return Expanded(self.ptr[begin : end + 1], self.ids)


def expand(ids: Ids) -> Expanded:
    """Return bags and single attributes as one list for each token."""
    from ..kernels import rows

    room = int(np.diff(ids.store.ptr)[ids.bags].sum()) + ids.attrs.size
    ptr, out = np.empty(len(ids.attrs) + 1, np.int64), np.empty(room, np.int32)
    size = rows.expand(ids.bags, ids.attrs, ids.store.ptr, ids.store.ids, ptr, out)
    return Expanded(ptr, out[:size])


class SharedGradient(NamedTuple):
    """The gradient of transitions, start and end scores: one array, and parts of it.

    flat: [L * (L + 2)].
    steps, transitions: Its first L * L numbers, and the same as [1, L, L].
    start, end: [L] each.
    rows (RowGradient): All of it, for an optimizer.
    """

    flat: Floats
    steps: Floats
    transitions: Floats
    start: Floats
    end: Floats
    rows: RowGradient


class Workspace:
    """What the mini-batches of one pass share: views, numbers and arrays that are used again and again.

    mask (EmissionMask | None): What emissions begin with where there is a tag dictionary.
    """

    def __init__(self, layout: Layout, mask: EmissionMask | None = None) -> None:
        self.layout, self.mask = layout, mask
        n_shared = layout.n_labels * (layout.n_labels + 2)
        self._shared_ptr, self._shared_ids = np.arange(n_shared + 1), np.arange(n_shared, dtype=np.int32)
        learnt = layout.learnt()
        self.learnt = None if learnt.all() else learnt
        self._shared: SharedGradient | None = None
        self._rows: Floats = np.zeros(0)
        self._theta: Floats | None = None

    def views(self, theta: Floats) -> Views:
        """Return the groups of theta."""
        if theta is not self._theta:
            self._theta, self._views = theta, self.layout.views(theta)
        return self._views

    def shared(self, dtype: np.dtype[Any]) -> SharedGradient:
        """Return a gradient of zeros for the scores that all positions share."""
        if self._shared is None or self._shared.flat.dtype != dtype:
            n = self.layout.n_labels
            flat = np.zeros(n * (n + 2), dtype)
            rows = RowGradient(2, self._shared_ptr, self._shared_ids, flat[:, None])
            d_steps, d_start, d_end = flat[: n * n], flat[n * n : -n], flat[-n:]
            self._shared = SharedGradient(flat, d_steps, d_steps.reshape(1, n, n), d_start, d_end, rows)
        self._shared.flat.fill(0)
        return self._shared

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
    state, pair (Expanded): Attribute ids of all tokens of `data`; pair is None without label-pair templates.
    """

    __slots__ = ("_batch", "_loss", "_n_tokens", "_pair", "_state", "_words", "_work")

    def __init__(
        self,
        work: Workspace,
        loss: Loss,
        data: Dataset,
        state: Expanded,
        pair: Expanded | None,
        first: int,
        last: int,
    ) -> None:
        begin, end = int(data.encoded.offsets[first]), int(data.encoded.offsets[last])
        self._work, self._loss = work, loss
        self._batch = data.batch(first, last)
        self._n_tokens = end - begin
        self._state = state.cut(begin, end)
        self._pair = pair.cut(begin, end) if pair is not None else None
        words = data.encoded.words
        self._words = words[begin:end] if work.mask is not None and words is not None else None

    @property
    def n_sequences(self) -> int:
        """Sequences in the batch."""
        return len(self._batch.weights)

    def loss_and_grad(self, theta: Floats, scale: float = 1.0) -> tuple[float, list[RowGradient]]:
        """See `types.OnlineBatch`."""
        work = self._work
        scores, d_emissions = self._scores(theta, scale)
        shared = work.shared(theta.dtype)
        d_transitions = shared.transitions if self._pair is None else np.zeros_like(scores.transitions)
        loss = self._loss(scores, self._batch, Scores(d_emissions, d_transitions, shared.start, shared.end))
        grads = [RowGradient(0, *self._state, d_emissions)]
        if self._pair is not None:
            flat = d_transitions.reshape(self._n_tokens, len(shared.steps))
            grads.append(RowGradient(1, *self._pair, flat))
            np.add(shared.steps, flat.sum(0), out=shared.steps)
        if work.learnt is not None:
            np.multiply(shared.flat, work.learnt, out=shared.flat)
        grads.append(shared.rows)
        return loss, grads

    def _scores(self, theta: Floats, scale: float) -> tuple[Scores, Floats]:
        """Return the scores of the batch, and zeros for the gradient of its emissions."""
        layout, length = self._work.layout, self._n_tokens
        views, s = self._work.views(theta), theta.dtype.type(scale)
        emissions, d_emissions = self._work.emissions(length, theta.dtype)
        if self._work.mask is not None and self._words is not None:
            self._work.mask.write(self._words, emissions, self._batch.gold)
        layout.state.add_ragged(views.state, *self._state, emissions)
        transitions = views.transitions[None]
        if self._pair is not None:
            transitions = np.broadcast_to(views.transitions, (length, *views.transitions.shape)).copy()
            layout.pair.add_ragged(views.pair, *self._pair, transitions.reshape(length, layout.pair.width))
        if scale == 1.0:
            return Scores(emissions, transitions, views.start, views.end), d_emissions
        emissions *= s
        return Scores(emissions, transitions * s, views.start * s, views.end * s), d_emissions
