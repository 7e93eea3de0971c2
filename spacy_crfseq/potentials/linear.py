"""The linear potential: scores are sums of weight rows.

    emissions[t, y]      = sum of W[a, y] over the features a of token t
    transitions[t, i, j] = A[i, j] + sum of V[b, i, j] over the bigram features b of token t

`layout` defines the positions of W, V, A, start and end scores in theta [D].  `assemble` combines the scores; the
strategies of `row_sums` sum the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..features.encoder import Encoded
from ..threads import cached_property, run
from ..types import Floats, RowBlock, RowGradient, Scores
from .layout import Layout, Views, shards
from .protocol import Part, tokens_of
from .row_sums import CachedSums, ListedSums, PassSums, listed

ROUND_FLOATS = 1 << 23
"""Number of gradients of scores, 32 MiB in float32, that threads compute before adding them to that of theta."""
LARGER = 2
"""Factor of the size of parts in training, because losses group sequences of similar lengths."""

Adder: TypeAlias = Callable[[Floats], None]
"""Adds the weight rows of some tokens to an array [T, C]."""


def assemble(views: Views, emissions: Floats, add_unigrams: Adder, add_bigrams: Adder | None) -> Scores:
    """Return the scores of some tokens: shared scores, and the rows of their features.

    emissions (Floats): [T, L] zeros, which become part of the result.
    add_pair (Adder | None): None without label-pair templates, when all positions share the transitions.
    """
    add_unigrams(emissions)
    transitions = views.transitions[None]
    if add_bigrams is not None:
        length, n = emissions.shape
        transitions = np.empty((length, n, n), emissions.dtype)
        transitions[:] = views.transitions
        add_bigrams(transitions.reshape(length, n * n))
    return Scores(emissions, transitions, views.start, views.end)


class Linear:
    """Implements `protocol.Potential` for a layout; the scores of a token are `score_width` numbers."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.n_labels, self.size = layout, layout.n_labels, layout.size
        self.score_width = layout.n_labels**2 if layout.bigrams.n_rows else layout.n_labels

    def blocks(self) -> list[RowBlock]:
        return self.layout.blocks()

    def zero_frozen(self, grad: Floats) -> None:
        self.layout.zero_frozen(grad)

    def passes(self, text: Encoded, n_threads: int) -> LinearPasses:
        return LinearPasses(self, text, n_threads)

    def batches(self) -> LinearBatches:
        return LinearBatches(self)

    def source(self, theta: Floats, text: Encoded) -> LinearSource:
        return WeightTables(self, theta).source(text)


class WeightTables:
    """The weights of a linear potential, with cached sums for prediction."""

    def __init__(self, potential: Linear, theta: Floats) -> None:
        self.potential, self.views = potential, potential.layout.views(theta)
        layout = potential.layout
        self._tables = CachedSums(layout.unigrams, self.views.unigrams), CachedSums(layout.bigrams, self.views.bigrams)

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the sums."""
        return sum(table.n_bytes for table in self._tables)

    def source(self, text: Encoded) -> LinearSource:
        """Return the scores of a text.  This extends the tables; the result does not, so threads can share it."""
        unigrams, bigrams = self._tables
        return LinearSource(self, text, unigrams, bigrams if self.potential.layout.bigrams.n_rows else None)


class LinearSource:
    """Implements `protocol.Source`; made by `WeightTables.source`."""

    def __init__(self, tables: WeightTables, text: Encoded, unigrams: CachedSums, bigrams: CachedSums | None) -> None:
        self._potential, self._views, self._text = tables.potential, tables.views, text
        self.n_labels, self.offsets = tables.potential.n_labels, text.offsets
        self._add_unigrams = unigrams.adder(text.unigrams)
        self._add_bigrams = None if bigrams is None else bigrams.adder(text.bigrams)

    def parts(self, n_threads: int = 1) -> Iterator[Part]:
        return shards(self.offsets, self._potential.score_width, n_threads=n_threads)

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], Floats]]:
        tokens = tokens_of(self.offsets, part)
        emissions = np.zeros((tokens.stop - tokens.start, self.n_labels), self._views.start.dtype)
        add_bigrams = None if self._add_bigrams is None else partial(self._add_bigrams, tokens)
        scores = assemble(self._views, emissions, partial(self._add_unigrams, tokens), add_bigrams)
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

    Threads first score different parts, then add the gradients to different columns of ids.  No two threads write to
    the same row, and results are identical for the same number of threads.
    """

    def __init__(self, potential: Linear, text: Encoded, n_threads: int) -> None:
        layout = potential.layout
        self._potential, self._offsets, self._n_threads = potential, text.offsets, n_threads
        self._unigrams = PassSums(layout.unigrams, text.unigrams, n_threads)
        self._bigrams = PassSums(layout.bigrams, text.bigrams, n_threads) if layout.bigrams.n_rows else None
        self._taken: dict[int, tuple[slice, Scores]] = {}
        self._free: list[Floats] = []
        self._used: list[Floats] = []

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        layout = self._potential.layout
        self._views = layout.views(theta)
        self._target = None if grad is None else layout.views(grad)
        self._unigrams.begin(self._views.unigrams, grad is not None)
        if self._bigrams:
            self._bigrams.begin(self._views.bigrams, grad is not None)

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
        shape = tokens.stop - tokens.start, self._potential.n_labels
        room, emissions = self._room(shape, self._views.start.dtype)
        add_bigrams = partial(self._bigrams.add, tokens) if self._bigrams else None

        def backprop(d: Scores) -> None:
            self._free.append(room)  # the scores have served
            self.take(part, d)

        return assemble(self._views, emissions, partial(self._unigrams.add, tokens), add_bigrams), backprop

    def take(self, part: Part, d: Scores) -> None:
        """Store the gradient of the scores of a part until `flush`."""
        self._taken[part[0]] = tokens_of(self._offsets, part), d

    def zeros(self, scores: Scores) -> Scores:
        rooms = [self._room(each.shape, each.dtype) for each in scores[: 2 if self._bigrams else 1]]
        self._used += [room for room, _ in rooms]
        return Scores(*(zeros for _, zeros in rooms), *map(np.zeros_like, scores[len(rooms) :]))

    def _room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
        """Return memory for reuse, because new pages cost as much as the arithmetic, and zeros in it."""
        size = prod(shape)
        try:  # several threads pop from the list
            room = self._free.pop()
        except IndexError:
            room = np.empty(size, dtype)
        if len(room) < size or room.dtype != dtype:
            room = np.empty(size, dtype)
        zeros = room[:size].reshape(shape)
        zeros.fill(0)
        return room, zeros

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
            self._unigrams.scatter(group, tokens, d.emissions, target.unigrams)
            if self._bigrams:
                flat = d.transitions.reshape(len(d.transitions), self._potential.n_labels**2)
                self._bigrams.scatter(group, tokens, flat, target.bigrams)

    def finish(self) -> None:
        if self._target is not None:
            self._unigrams.finish(self._target.unigrams)
            if self._bigrams:
                self._bigrams.finish(self._target.bigrams)


class LinearBatches:
    """Implements `protocol.Batches` in arrays that all batches share."""

    def __init__(self, potential: Linear) -> None:
        self._layout = potential.layout
        n_shared = potential.n_labels * (potential.n_labels + 2)
        self._shared_ptr, self._shared_ids = np.arange(n_shared + 1), np.arange(n_shared, dtype=np.int32)
        trainable = potential.layout.trainable()
        self._trainable = None if trainable.all() else trainable
        self._rows: Floats = np.zeros(0)
        self._theta: Floats | None = None

    def load(self, text: Encoded) -> None:
        self._offsets = text.offsets
        self._unigrams = listed(text.unigrams)
        self._bigrams = listed(text.bigrams) if self._layout.bigrams.n_rows else None

    def forward(
        self, part: Part, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if theta is not self._theta:
            self._theta, self._views = theta, self._layout.views(theta)
        layout, views = self._layout, self._views
        begin, end = int(self._offsets[part[0]]), int(self._offsets[part[1]])
        emissions, self._d_emissions = self._two_zeros(end - begin, theta.dtype)
        unigrams, bigrams, add_bigrams = self._unigrams.cut(begin, end), None, None
        if self._bigrams is not None:
            bigrams = self._bigrams.cut(begin, end)
            add_bigrams = partial(layout.bigrams.add_ragged, views.bigrams, *bigrams)
        scores = assemble(views, emissions, partial(layout.unigrams.add_ragged, views.unigrams, *unigrams), add_bigrams)
        if scale != 1.0:
            s = theta.dtype.type(scale)
            emissions *= s
            scores = Scores(emissions, scores.transitions * s, views.start * s, views.end * s)
        return scores, partial(self._backprop, unigrams, bigrams)

    def _two_zeros(self, length: int, dtype: np.dtype[Any]) -> Floats:
        """Return two arrays of zeros [length, L]."""
        n = self._layout.n_labels
        if self._rows.size < 2 * length * n or self._rows.dtype != dtype:
            self._rows = np.empty(4 * length * n, dtype)
        both = self._rows[: 2 * length * n].reshape(2, length, n)
        both.fill(0)
        return both

    @cached_property
    def _shared(self) -> tuple[Floats, Scores]:
        """The gradient of transitions, start and end scores as one array [L * (L + 2)], and views of it."""
        n, flat = self._layout.n_labels, np.zeros(len(self._shared_ids), self._rows.dtype)
        return flat, Scores(flat[:0], flat[: n * n].reshape(1, n, n), flat[n * n : -n], flat[-n:])

    def zeros(self, scores: Scores) -> Scores:
        if self._shared[0].dtype != scores.start.dtype:
            del self._shared
        flat, shared = self._shared
        flat.fill(0)
        d_transitions = shared.transitions if self._bigrams is None else np.zeros_like(scores.transitions)
        return Scores(self._d_emissions, d_transitions, shared.start, shared.end)

    def _backprop(self, unigrams: ListedSums, bigrams: ListedSums | None, d: Scores) -> list[RowGradient]:
        flat, shared = self._shared
        if d.start is not shared.start:  # not made by `zeros`
            shared.start[:], shared.end[:] = d.start, d.end
            if bigrams is None:
                shared.transitions[:] = d.transitions
        grads = [RowGradient(0, *unigrams, d.emissions)]
        if bigrams is not None:
            grads.append(RowGradient(1, *bigrams, d.transitions.reshape(len(d.emissions), shared.transitions.size)))
            shared.transitions[0] += d.transitions.sum(0)
        if self._trainable is not None:
            np.multiply(flat, self._trainable, out=flat)
        grads.append(RowGradient(2, self._shared_ptr, self._shared_ids, flat[:, None]))
        return grads
