"""Loss of a whole data set and its gradient, in shards and on several threads.

Weight rows are summed once per distinct bag.  Shard by shard of sequences, scores are gathered from those sums and from
the rows of single attributes, and the loss turns them into gradients of scores: threads take different shards.  Then
the gradients of scores are added back to bags and single attributes: threads take different columns of ids, which
templates keep apart, so that no two write to one row and every row is added to in the order of the text.  At the end
each attribute collects the gradients of its bags.  Only ids are kept for the whole corpus, scores for a few shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

import numpy as np

from ..features.encoder import Ids
from ..layout import Layout, RowColumns, Rows, Views, shards
from ..tag_dictionary import EmissionMask
from ..threads import over, parts, run
from ..types import Floats, Loss, Scores
from .dataset import Dataset

ROUND_FLOATS = 1 << 23
"""Gradients of scores that threads compute before they are added back: 32 MiB in float32."""


LARGER = 2
"""Shards are so many times larger than in tagging: losses work on sequences of like length, and want a choice."""

Gradients: TypeAlias = tuple[Floats, "Floats | None"]
"""Gradients of emissions [T, L], and of per-position transitions [T, L, L] where there are label-pair templates."""


class FullPass:
    """A function from parameters to the loss of `data` and its gradient.

    n_threads (int): Threads that share the work.  Results are the same for the same number, bit for bit.
    mask (EmissionMask | None): What emissions begin with where there is a tag dictionary.
    """

    def __init__(
        self, layout: Layout, data: Dataset, loss: Loss, n_threads: int, mask: EmissionMask | None = None
    ) -> None:
        self._layout, self._data, self._loss, self._n_threads = layout, data, loss, n_threads
        self._mask = mask
        encoded = data.encoded
        self._state = _Block(layout.state, encoded.state, n_threads)
        self._pair = _Block(layout.pair, encoded.pair, n_threads) if layout.pair.n_rows else None
        self._floats = layout.n_labels**2 if self._pair else layout.n_labels
        self._room: list[Floats] = []

    def __call__(self, theta: Floats, grad: Floats | None) -> float:
        """Return the loss at theta [D] and, unless `grad` is None, add its gradient to `grad` [D]."""
        views = self._layout.views(theta)
        target = None if grad is None else self._layout.views(grad)
        self._state.begin(views.state, target is not None)
        if self._pair:
            self._pair.begin(views.pair, target is not None)
        total = 0.0
        for round_ in self._rounds():
            begin, end = (int(self._data.encoded.offsets[i]) for i in (round_[0][0], round_[-1][1]))
            d = self._gradients(end - begin, theta)
            for loss, shared in over(partial(self._score, views, d, begin), round_, self._n_threads):
                total += loss
                if target is not None:
                    target.transitions[...] += shared.transitions[0]
                    target.start[...] += shared.start
                    target.end[...] += shared.end
            if target is not None:
                tokens = slice(begin, end)
                run([partial(self._scatter, group, tokens, d, target) for group in range(self._n_threads)])
        if target is not None:
            self._state.finish(target.state)
            if self._pair:
                self._pair.finish(target.pair)
        return total

    def _rounds(self) -> Iterator[list[tuple[int, int]]]:
        """Yield shards to be scored before their gradients are added back: one for a single thread, else many."""
        limit = ROUND_FLOATS if self._n_threads > 1 else 0
        round_: list[tuple[int, int]] = []
        offsets, size = self._data.encoded.offsets, 0
        for first, last in shards(offsets, self._floats, LARGER, self._n_threads):
            round_.append((first, last))
            size += int(offsets[last] - offsets[first]) * self._floats
            if size >= limit:
                yield round_
                round_, size = [], 0
        if round_:
            yield round_

    def _gradients(self, length: int, theta: Floats) -> Gradients:
        """Return arrays with any content for the gradients of some tokens; they are used again."""
        n = self._layout.n_labels
        sizes = [length * n, length * n * n if self._pair else 0]
        if not self._room or any(
            len(x) < size or x.dtype != theta.dtype for x, size in zip(self._room, sizes, strict=True)
        ):
            self._room = [np.empty(size, theta.dtype) for size in sizes]
        emissions, steps = (x[:size] for x, size in zip(self._room, sizes, strict=True))
        return emissions.reshape(length, n), steps.reshape(length, n, n) if self._pair else None

    def _score(self, views: Views, d: Gradients, begin: int, shard: tuple[int, int]) -> tuple[float, Scores]:
        """Return the loss of a shard and the gradient of what all share; fill `d`, whose first token is `begin`."""
        n, offsets = self._layout.n_labels, self._data.encoded.offsets
        dtype = views.start.dtype
        tokens = slice(int(offsets[shard[0]]), int(offsets[shard[1]]))
        here, length = slice(tokens.start - begin, tokens.stop - begin), tokens.stop - tokens.start
        batch = self._data.batch(*shard)
        emissions = np.zeros((length, n), dtype)
        words = self._data.encoded.words
        if self._mask is not None and words is not None:
            self._mask.write(words[tokens], emissions, batch.gold)
        self._state.add(tokens, emissions)
        transitions, d_transitions = views.transitions[None], np.zeros((1, n, n), dtype)
        if self._pair and d[1] is not None:
            transitions = np.broadcast_to(views.transitions, (length, n, n)).copy()
            self._pair.add(tokens, transitions.reshape(length, n * n))
            d_transitions = d[1][here]
            d_transitions.fill(0)
        d[0][here].fill(0)
        scores = Scores(emissions, transitions, views.start, views.end)
        gradient = Scores(d[0][here], d_transitions, np.zeros(n, dtype), np.zeros(n, dtype))
        loss = self._loss(scores, batch, gradient)
        return loss, gradient._replace(transitions=d_transitions.sum(0, keepdims=True))

    def _scatter(self, group: int, tokens: slice, d: Gradients, target: Views) -> None:
        self._state.scatter(group, tokens, d[0], target.state)
        if self._pair and d[1] is not None:
            self._pair.scatter(group, tokens, d[1].reshape(len(d[1]), self._layout.pair.width), target.pair)


class _Block:
    """Weights of one block on the way to the scores, and gradients on the way back.

    Columns of ids are dealt out to as many groups as there are threads; no two groups have a row in common.
    """

    def __init__(self, rows: Rows, ids: Ids, n_groups: int) -> None:
        self._rows, self._store, self._n = rows, ids.store, n_groups
        self._bags = [np.ascontiguousarray(ids.bags[:, group::n_groups]) for group in range(n_groups)]
        # dealt from the other end, so that a group with fewer bags gets more single attributes
        self._columns: list[RowColumns] = [
            rows.columns(np.ascontiguousarray(ids.attrs[:, n_groups - 1 - group :: n_groups]))
            for group in range(n_groups)
        ]
        self._has_bags, self._has_attrs = ids.bags.shape[1] > 0, ids.attrs.shape[1] > 0
        if self._has_bags:
            self._transpose()

    def _transpose(self) -> None:
        """List the bags of each attribute, so that gradients can be collected without two threads at one row."""
        from ..kernels import rows

        store = self._store
        self._bags_ptr = np.empty(self._rows.n_rows + 1, np.int64)
        self._bags_of = np.empty(int(store.ptr[-1]), np.int32)
        rows.transpose(store.ptr, store.ids, self._bags_ptr, self._bags_of)

    def begin(self, weights: Floats, training: bool) -> None:
        """Start a pass with these weights."""
        self._weights = weights
        if self._has_bags:
            self._sums = self._bag_sums(weights)
            self._d_sums = np.zeros_like(self._sums) if training else self._sums
        if self._has_attrs:
            run([partial(columns.begin, weights, training) for columns in self._columns])

    def _bag_sums(self, weights: Floats) -> Floats:
        """Return [bags, C] sums of the rows of each bag."""
        ptr, ids = self._store.ptr, self._store.ids  # of now: the store may grow
        sums = np.zeros((len(ptr) - 1, self._rows.width), weights.dtype)

        def fill(bags: slice) -> None:
            self._rows.add_ragged(weights, ptr[bags.start : bags.stop + 1], ids, sums[bags])

        run([partial(fill, bags) for bags in parts(len(sums), self._n)])
        return sums

    def add(self, tokens: slice, out: Floats) -> None:
        """Add the weights of some tokens to out [tokens, C]."""
        from ..kernels import rows

        for bags, columns in zip(self._bags, self._columns, strict=True):
            if self._has_bags:
                rows.add_fixed(bags[tokens], self._sums, out)
            if self._has_attrs:
                columns.add(tokens, out)

    def scatter(self, group: int, tokens: slice, d: Floats, grad: Floats) -> None:
        """Add d [tokens, C] to the sums of bags and the rows of attributes of one group."""
        from ..kernels import rows

        if self._has_bags:
            rows.scatter_fixed(self._bags[group][tokens], d, 1.0, self._d_sums)
        if self._has_attrs:
            self._columns[group].scatter(tokens, d, grad)

    def finish(self, grad: Floats) -> None:
        """Hand the gradients of bags to their attributes."""
        if self._has_attrs:
            run([partial(columns.finish, grad) for columns in self._columns])
        if self._has_bags:
            collect = partial(self._rows.collect, ptr=self._bags_ptr, bags=self._bags_of, d=self._d_sums, grad=grad)
            run([partial(collect, part) for part in parts(self._rows.n_rows, self._n)])
