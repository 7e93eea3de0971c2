"""The linear potential: scores are sums of weight rows.

    emissions[t, y]      = sum of W[a, y] over the attributes a of token t
    transitions[t, i, j] = A[i, j] + sum of V[b, i, j] over the pair attributes b of token t

`layout` says where W, V, A, start and end scores lie in theta [D].  `assemble` puts scores together; the strategies of
`row_sums` sum the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..features.encoder import Encoded
from ..threads import run
from ..types import Floats, RowBlock, RowGradient, Scores
from .layout import Layout, Views, shards
from .protocol import Part, tokens_of
from .row_sums import CachedSums, ListedSums, PassSums, listed

ROUND_FLOATS = 1 << 23
"""Gradients of scores, 32 MiB in float32, that threads compute before these are added back."""
LARGER = 2
"""Factor of the size of parts in training: losses group sequences of like length, and need a choice."""

Adder: TypeAlias = Callable[[Floats], None]
"""Adds the weight rows of some tokens to an array [T, C]."""


def assemble(views: Views, emissions: Floats, add_state: Adder, add_pair: Adder | None) -> Scores:
    """Return the scores of some tokens: shared scores, and the rows of their attributes.

    emissions (Floats): [T, L] zeros, which become part of the scores.
    add_pair (Adder | None): None without label-pair templates: all positions share the transitions then.
    """
    add_state(emissions)
    transitions = views.transitions[None]
    if add_pair is not None:
        length, n = emissions.shape
        transitions = np.empty((length, n, n), emissions.dtype)
        transitions[:] = views.transitions
        add_pair(transitions.reshape(length, n * n))
    return Scores(emissions, transitions, views.start, views.end)


class Linear:
    """Implements `protocol.Potential` for a layout; the scores of a token are `score_width` numbers."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.n_labels, self.size = layout, layout.n_labels, layout.size
        self.score_width = layout.n_labels**2 if layout.pair.n_rows else layout.n_labels

    def blocks(self) -> list[RowBlock]:
        return self.layout.blocks()

    def hold(self, grad: Floats) -> None:
        self.layout.hold(grad)

    def passes(self, text: Encoded, n_threads: int) -> LinearPasses:
        return LinearPasses(self, text, n_threads)

    def batches(self) -> LinearBatches:
        return LinearBatches(self)

    def source(self, theta: Floats, text: Encoded) -> LinearSource:
        return WeightTables(self, theta).source(text)


class WeightTables:
    """The weights of a linear potential, with sums of them for prediction."""

    def __init__(self, potential: Linear, theta: Floats) -> None:
        self.potential, self.views = potential, potential.layout.views(theta)
        layout = potential.layout
        self._tables = CachedSums(layout.state, self.views.state), CachedSums(layout.pair, self.views.pair)

    @property
    def n_bytes(self) -> int:
        """Memory of the sums."""
        return sum(table.n_bytes for table in self._tables)

    def source(self, text: Encoded) -> LinearSource:
        """Return the scores of a text.  This adds to the tables; the result does not, so that threads may share it."""
        state, pair = self._tables
        return LinearSource(self, text, state, pair if self.potential.layout.pair.n_rows else None)


class LinearSource:
    """Implements `protocol.Source`; made by `WeightTables.source`."""

    def __init__(self, tables: WeightTables, text: Encoded, state: CachedSums, pair: CachedSums | None) -> None:
        self._potential, self._views, self._text = tables.potential, tables.views, text
        self.n_labels, self.offsets = tables.potential.n_labels, text.offsets
        self._add_state = state.adder(text.state)
        self._add_pair = None if pair is None else pair.adder(text.pair)

    def parts(self, n_threads: int = 1) -> Iterator[Part]:
        return shards(self.offsets, self._potential.score_width, n_threads=n_threads)

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], Floats]]:
        tokens = tokens_of(self.offsets, part)
        emissions = np.zeros((tokens.stop - tokens.start, self.n_labels), self._views.start.dtype)
        add_pair = None if self._add_pair is None else partial(self._add_pair, tokens)
        scores = assemble(self._views, emissions, partial(self._add_state, tokens), add_pair)
        return scores, partial(self._backprop, part)

    def _backprop(self, part: Part, d: Scores) -> Floats:
        grad = np.zeros(self._potential.size, d.start.dtype)
        passes = self._potential.passes(self._text.slice(*part), 1)
        passes.begin(np.zeros_like(grad), grad)
        passes.take((0, part[1] - part[0]), d)
        passes.flush()
        passes.finish()
        return grad


class LinearPasses:
    """Implements `protocol.Passes`.

    Threads first score different parts, then add the gradients to different columns of ids, so that no two write to one
    row and results are the same for the same number of threads.
    """

    def __init__(self, potential: Linear, text: Encoded, n_threads: int) -> None:
        layout = potential.layout
        self._potential, self._offsets, self._n_threads = potential, text.offsets, n_threads
        self._state = PassSums(layout.state, text.state, n_threads)
        self._pair = PassSums(layout.pair, text.pair, n_threads) if layout.pair.n_rows else None
        self._taken: dict[int, tuple[slice, Scores]] = {}
        self._free: list[Floats] = []
        self._used: list[Floats] = []

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        layout = self._potential.layout
        self._views = layout.views(theta)
        self._target = None if grad is None else layout.views(grad)
        self._state.begin(self._views.state, grad is not None)
        if self._pair:
            self._pair.begin(self._views.pair, grad is not None)

    def rounds(self) -> Iterator[list[Part]]:
        limit = ROUND_FLOATS if self._n_threads > 1 else 0
        round_: list[Part] = []
        size, width = 0, self._potential.score_width
        for part in shards(self._offsets, width, LARGER, self._n_threads):
            round_.append(part)
            tokens = tokens_of(self._offsets, part)
            size += (tokens.stop - tokens.start) * width
            if size >= limit:
                yield round_
                round_, size = [], 0
        if round_:
            yield round_

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], None]]:
        tokens = tokens_of(self._offsets, part)
        emissions = np.zeros((tokens.stop - tokens.start, self._potential.n_labels), self._views.start.dtype)
        add_pair = partial(self._pair.add, tokens) if self._pair else None
        return assemble(self._views, emissions, partial(self._state.add, tokens), add_pair), partial(self.take, part)

    def take(self, part: Part, d: Scores) -> None:
        """Keep the gradient of the scores of a part until `flush`."""
        self._taken[part[0]] = tokens_of(self._offsets, part), d

    def zeros(self, scores: Scores) -> Scores:
        transitions = self._room(scores.transitions) if self._pair else np.zeros_like(scores.transitions)
        shared = np.zeros_like(scores.start), np.zeros_like(scores.end)
        return Scores(self._room(scores.emissions), transitions, *shared)

    def _room(self, like: Floats) -> Floats:
        """Return zeros in memory that every round uses again: fresh pages cost as much as the arithmetic."""
        size = like.size
        try:  # several threads take from the list
            room = self._free.pop()
        except IndexError:
            room = np.empty(size, like.dtype)
        if len(room) < size or room.dtype != like.dtype:
            room = np.empty(size, like.dtype)
        self._used.append(room)
        zeros = room[:size].reshape(like.shape)
        zeros.fill(0)
        return zeros

    def flush(self) -> None:
        taken = [self._taken[first] for first in sorted(self._taken)]
        self._taken.clear()
        if self._target is not None:
            for _, d in taken:
                self._target.transitions[...] += d.transitions.sum(0)
                self._target.start[...] += d.start
                self._target.end[...] += d.end
            run([partial(self._scatter, group, taken, self._target) for group in range(self._n_threads)])
        self._free += self._used
        self._used.clear()

    def _scatter(self, group: int, taken: list[tuple[slice, Scores]], target: Views) -> None:
        for tokens, d in taken:
            self._state.scatter(group, tokens, d.emissions, target.state)
            if self._pair:
                flat = d.transitions.reshape(len(d.transitions), self._potential.n_labels**2)
                self._pair.scatter(group, tokens, flat, target.pair)

    def finish(self) -> None:
        if self._target is not None:
            self._state.finish(self._target.state)
            if self._pair:
                self._pair.finish(self._target.pair)


class _SharedGradient(NamedTuple):
    """The gradient of transitions, start and end scores: one array [L * (L + 2)], views of it, and all of it as rows.

    steps, transitions: Its first L * L numbers, and the same as [1, L, L].
    """

    flat: Floats
    steps: Floats
    transitions: Floats
    start: Floats
    end: Floats
    rows: RowGradient


class LinearBatches:
    """Implements `protocol.Batches` in arrays that all batches use."""

    def __init__(self, potential: Linear) -> None:
        self._layout = potential.layout
        n_shared = potential.n_labels * (potential.n_labels + 2)
        self._shared_ptr, self._shared_ids = np.arange(n_shared + 1), np.arange(n_shared, dtype=np.int32)
        learnt = potential.layout.learnt()
        self._learnt = None if learnt.all() else learnt
        self._rows: Floats = np.zeros(0)
        self._theta: Floats | None = None

    def load(self, text: Encoded) -> None:
        self._offsets = text.offsets
        self._state = listed(text.state)
        self._pair = listed(text.pair) if self._layout.pair.n_rows else None

    def forward(
        self, part: Part, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if theta is not self._theta:
            self._theta, self._views = theta, self._layout.views(theta)
        layout, views = self._layout, self._views
        begin, end = int(self._offsets[part[0]]), int(self._offsets[part[1]])
        emissions, self._d_emissions = self._two_zeros(end - begin, theta.dtype)
        state, pair, add_pair = self._state.cut(begin, end), None, None
        if self._pair is not None:
            pair = self._pair.cut(begin, end)
            add_pair = partial(layout.pair.add_ragged, views.pair, *pair)
        scores = assemble(views, emissions, partial(layout.state.add_ragged, views.state, *state), add_pair)
        if scale != 1.0:
            s = theta.dtype.type(scale)
            emissions *= s
            scores = Scores(emissions, scores.transitions * s, views.start * s, views.end * s)
        return scores, partial(self._backprop, state, pair)

    def _two_zeros(self, length: int, dtype: np.dtype[Any]) -> Floats:
        """Return two arrays of zeros [length, L]."""
        n = self._layout.n_labels
        if self._rows.size < 2 * length * n or self._rows.dtype != dtype:
            self._rows = np.empty(4 * length * n, dtype)
        both = self._rows[: 2 * length * n].reshape(2, length, n)
        both.fill(0)
        return both

    @cached_property
    def _shared(self) -> _SharedGradient:
        n, dtype = self._layout.n_labels, self._rows.dtype
        flat = np.zeros(n * (n + 2), dtype)
        rows = RowGradient(2, self._shared_ptr, self._shared_ids, flat[:, None])
        d_steps, d_start, d_end = flat[: n * n], flat[n * n : -n], flat[-n:]
        return _SharedGradient(flat, d_steps, d_steps.reshape(1, n, n), d_start, d_end, rows)

    def zeros(self, scores: Scores) -> Scores:
        if self._shared.flat.dtype != scores.start.dtype:
            del self._shared
        shared = self._shared
        shared.flat.fill(0)
        d_transitions = shared.transitions if self._pair is None else np.zeros_like(scores.transitions)
        return Scores(self._d_emissions, d_transitions, shared.start, shared.end)

    def _backprop(self, state: ListedSums, pair: ListedSums | None, d: Scores) -> list[RowGradient]:
        shared = self._shared
        if d.start is not shared.start:  # not made by `zeros`
            shared.start[:], shared.end[:] = d.start, d.end
            if pair is None:
                shared.transitions[:] = d.transitions
        grads = [RowGradient(0, *state, d.emissions)]
        if pair is not None:
            flat = d.transitions.reshape(len(d.emissions), len(shared.steps))
            grads.append(RowGradient(1, *pair, flat))
            np.add(shared.steps, flat.sum(0), out=shared.steps)
        if self._learnt is not None:
            np.multiply(shared.flat, self._learnt, out=shared.flat)
        grads.append(shared.rows)
        return grads
