"""The linear potential: scores are sums of weight rows.

    emissions[t, y]      = sum of W[a, y] over the features a of token t
    transitions[t, i, j] = A[i, j] + sum of V[b, i, j] over the bigram features b of token t

`layout` defines the positions of W, V, A, start and end scores in theta [D].  Rows are summed in three ways: in passes
over one text, once per distinct bag (`PassSums`); in mini-batches, from one list of ids per token (`listed`); in
prediction, with cached sums of bags (`CachedSums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..features.encoded import Encoded, Ids
from ..features.index import BagStore
from ..threads import SHARD_FLOATS, cached_property, over, parts, shards
from ..types import Bools, Constraints, Floats, Ints, Offsets, RowGradient, Scores
from .layout import DenseRows, Layout, SparseRows, Views, WeightRows
from .protocol import Addend, SequenceRange
from .tag_dictionary import EmissionMask, without_restricted

ROUND_FLOATS = 1 << 23
"""Number of gradients of scores, 32 MiB in float32, that threads compute before adding them to that of theta."""
MUCH = 1 << 13
"""Number of rows that justify threads, which take as long to start as a thousand rows take."""
LARGER = 2
"""Factor of the size of parts in training, because losses group sequences of similar lengths."""
Adder: TypeAlias = Callable[[Floats], None]
"""Adds the weight rows of some tokens to an array [T, C]."""


class Linear:
    """Implements `protocol.Potential` for a layout; the scores of a token are `score_width` numbers."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.n_labels, self.size = layout, layout.n_labels, layout.size
        self.rows: tuple[WeightRows, ...] = (layout.unigrams, layout.bigrams)[: 2 if layout.bigrams.n_rows else 1]
        self.score_width = self.rows[-1].width
        self.blocks = layout.blocks
        trainable = layout.trainable()
        self._frozen = layout.size - len(trainable) + np.flatnonzero(~trainable)

    def zero_frozen(self, grad: Floats) -> None:
        grad[self._frozen] = 0

    def passes(self, text: Encoded, n_threads: int) -> LinearPasses:
        return LinearPasses(self, text, n_threads)

    def batches(self) -> LinearBatches:
        return LinearBatches(self)


def assemble(views: Views, emissions: Floats, adders: Sequence[Adder]) -> Scores:
    """Return the scores of some tokens: shared scores, and the rows of their features.

    emissions (Floats): [T, L] zeros, which become part of the result.
    adders (Sequence[Adder]): For unigrams and, with label-pair templates, for bigrams; without them all positions share
        the transitions.
    """
    adders[0](emissions)
    transitions = views.transitions[None]
    if len(adders) > 1:
        length, n = emissions.shape
        transitions = np.empty((length, n, n), emissions.dtype)
        transitions[:] = views.transitions
        adders[1](transitions.reshape(length, n * n))
    return Scores(emissions, transitions, views.start, views.end)


def add_scores(first: Scores, second: Scores) -> Scores:
    """Return the sum of two scores; transitions are per position if those of either are."""
    return Scores(*(a + b for a, b in zip(first, second, strict=True)))


class Listed(NamedTuple):
    """The ids of each token in one list, with expanded bags: ptr [T + 1], ids [ptr[T]]."""

    ptr: Offsets
    ids: Ints


def listed(ids: Ids) -> Listed:
    """Return bags and single features as one list per token."""
    bags, attrs = ids.expanded()
    room = int(np.diff(ids.store.ptr)[bags].sum()) + attrs.size
    ptr, out = np.empty(len(attrs) + 1, np.int64), np.empty(room, np.int32)
    size = kernels.rows.expand(bags, attrs, ids.store.ptr, ids.store.ids, ptr, out)
    return Listed(ptr, out[:size])


class PassSums:
    """The rows of one block in many passes over the same tokens, summed once per distinct bag.

    Columns of ids are divided into one group per thread.  Each group has its own templates, so no two groups share a
    row, and additions to a row follow the order of the text.  Dense rows are read from the weights.  Sparse rows with
    `FEWEST` or more entries are written to a dense table at the start of a pass, where adding one takes two or three
    vectors.  The entries of other rows, most often one, are listed for each token.

    source, target (tuple): Of the present pass, what `kernels.rows.add_lists` reads, and `scatter_lists` adds to.
    """

    FEWEST = 3

    def __init__(self, rows: WeightRows, ids: Ids, n_groups: int) -> None:
        bags, attrs = ids.expanded()
        self.rows, self.n_groups, self.n_bags = rows, n_groups, ids.store.size if bags.shape[1] else 0
        # in reverse order, so that a group with fewer bags gets more single features
        of_bags, of_attrs = _divided(bags, range(n_groups)), _divided(attrs, range(n_groups)[::-1])
        self._tabled = np.zeros(0, np.int32)
        if isinstance(rows, SparseRows):  # the rows of each group together: threads should not write to the same line
            many, tabled = np.append(np.diff(rows.ptr) >= self.FEWEST, False), []  # the last one for -1
            for numbers in (*of_attrs, ids.store.ids):
                used = np.zeros_like(many)
                used[numbers] = True
                tabled.append(np.flatnonzero(used & many))
            self._tabled = np.concatenate(tabled).astype(np.int32)
        ends = np.append(0, np.cumsum(np.tile([ids.shape[1] for ids in of_attrs], len(attrs))))
        self.lists = self._listed(of_bags, ends, np.concatenate(of_attrs, axis=1).ravel())
        self._members = self._listed([np.zeros((0, 0), np.int32)], ids.store.ptr, ids.store.ids)
        self._bag_pieces, self._row_pieces = (
            parts(size, n_groups if size >= MUCH else 1) for size in (self.n_bags, len(self._tabled))
        )

    def _listed(self, groups: list[Ints], ptr: Offsets, ids: Ints) -> kernels.rows.Lists:
        """Return the arrays that kernels read of rows, given as ids [ptr[-1]], and of the bags of each group."""
        rows, nothing = self.rows, np.zeros(0, np.int32)
        bags = np.concatenate(groups, axis=1).ravel(), np.append(0, np.cumsum([ids.shape[1] for ids in groups]))
        if isinstance(rows, DenseRows):
            return kernels.rows.Lists(*bags, ptr, ids, np.zeros(0, np.int64), nothing, nothing)
        tables = np.full(rows.n_rows, -1, np.int32)
        tables[self._tabled] = np.arange(len(self._tabled), dtype=np.int32)
        # the first call counts rows in the table and listed entries, the second writes them
        source, (hot, cold) = (ptr, ids, tables, rows.ptr, rows.cols), np.empty((2, len(ptr)), np.int64)
        kernels.rows.split(*source, (hot, nothing), (cold, nothing, nothing))
        hot_ids, places, columns = (np.empty(int(size), np.int32) for size in (hot[-1], cold[-1], cold[-1]))
        kernels.rows.split(*source, (hot, hot_ids), (cold, places, columns))
        return kernels.rows.Lists(*bags, ptr=hot, ids=hot_ids, entries=cold, places=places, columns=columns)

    def begin(self, weights: Floats, grad: Floats | None) -> None:
        """Start a pass with these weights; their gradient is added to `grad`, if given."""
        rows, width = self.rows, self.rows.width
        if isinstance(rows, DenseRows):
            table, d_table = rows.matrix(weights), rows.matrix(weights if grad is None else grad)
        else:
            table = np.empty((len(self._tabled), width), weights.dtype)
            d_table = np.zeros_like(table[: 0 if grad is None else None])
            over(partial(self._move_rows, kernels.rows.to_table, weights, table), self._row_pieces, self.n_groups)
        sums = np.zeros((self.n_bags, width), weights.dtype)
        self.source = self.lists, sums, table, weights
        self.target: Any = np.zeros_like(sums[: 0 if grad is None else None]), d_table, grad
        add, source = kernels.rows.add_lists, (self._members, *self.source[1:])
        over(lambda of: add(of.start, of.stop, *source, sums[of]), self._bag_pieces, self.n_groups)

    def _move_rows(self, move: Callable[..., None], weights: Floats, table: Floats, some: slice) -> None:
        """Call a kernel that moves some rows between weights and table."""
        rows: Any = self.rows
        move(self._tabled[some], rows.ptr, rows.cols, weights, table[some])

    def finish(self) -> None:
        """Add the gradients of bags, and of rows in tables, to the gradients of their features."""
        d_sums, d_table, grad = self.target
        if self.n_bags:
            kernels.rows.scatter_lists(0, self.n_bags, 0, self._members, d_sums, *self.target)
        if isinstance(self.rows, SparseRows):
            over(partial(self._move_rows, kernels.rows.from_table, grad, d_table), self._row_pieces, self.n_groups)


def _divided(ids: Ints, groups: range) -> list[Ints]:
    """Return the columns of ids [T, S] that belong to each group."""
    return [ids[:, group :: len(groups)] for group in groups]


class LinearPasses:
    """Implements `protocol.Passes`.

    Threads first score different parts, then add the gradients to different columns of ids.  No two threads write to
    the same row, and results are identical for the same number of threads.
    """

    def __init__(self, potential: Linear, text: Encoded, n_threads: int) -> None:
        self._potential, self._offsets, self._n_threads = potential, text.offsets, n_threads
        self._sums = [PassSums(rows, ids, n_threads) for rows, ids in zip(potential.rows, text[:2], strict=False)]
        self._taken: dict[int, tuple[int, int, Scores]] = {}
        self._free: list[Floats] = []
        self._used: list[Floats] = []
        self.rounds: list[list[SequenceRange]] = []
        room = 0  # for scores of the last round
        n_steps = potential.n_labels**2  # each part has their gradient, which should take no longer than its tokens
        for part in shards(text.offsets, potential.score_width, max(LARGER, n_steps // SHARD_FLOATS), n_threads):
            if room <= 0:
                self.rounds.append([])
                room = max(ROUND_FLOATS, n_threads * n_steps) if n_threads > 1 else 1
            self.rounds[-1].append(part)
            room -= int(text.offsets[part[1]] - text.offsets[part[0]]) * potential.score_width

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        layout = self._potential.layout
        self._views, self._target = layout.views(theta), None if grad is None else layout.views(grad)
        for number, sums in enumerate(self._sums):
            sums.begin(self._views[number], None if self._target is None else self._target[number])

    def forward(self, part: SequenceRange) -> tuple[Scores, Callable[[Scores], None]]:
        first, last = int(self._offsets[part[0]]), int(self._offsets[part[1]])
        room, emissions = self._room((last - first, self._potential.n_labels), self._views.start.dtype)

        def backprop(d: Scores) -> None:
            self._free.append(room)  # the scores have served
            self._taken[part[0]] = first, last, d  # until `flush`

        adders = [partial(kernels.rows.add_lists, first, last, *sums.source) for sums in self._sums]
        return assemble(self._views, emissions, adders), backprop

    def zeros(self, scores: Scores) -> Scores:
        arrays = list(scores)
        for number, array in enumerate(scores):
            if number < len(self._sums):
                room, arrays[number] = self._room(array.shape, array.dtype)
                self._used.append(room)
            else:
                arrays[number] = np.zeros_like(array)
        return Scores(*arrays)

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
        taken = [self._taken.pop(place) for place in sorted(self._taken)]
        if self._target is not None:
            for _, _, d in taken:
                self._target.transitions[...] += d.transitions.sum(0)
                self._target.start[...] += d.start
                self._target.end[...] += d.end
            over(partial(self._scatter, taken), range(self._n_threads), self._n_threads)
        self._free += self._used
        self._used.clear()

    def _scatter(self, taken: list[tuple[int, int, Scores]], group: int) -> None:
        for first, last, d in taken:
            for sums, gradient in zip(self._sums, d, strict=False):
                d_rows = gradient.reshape(last - first, sums.rows.width)
                kernels.rows.scatter_lists(first, last, group, sums.lists, d_rows, *sums.target)

    def finish(self) -> None:
        if self._target is not None:
            for sums in self._sums:
                sums.finish()


class LinearBatches:
    """Implements `protocol.Batches` in arrays that all batches share."""

    def __init__(self, potential: Linear) -> None:
        self._layout, self._block_rows = potential.layout, potential.rows
        n_shared = potential.n_labels * (potential.n_labels + 2)
        self._shared_ptr, self._shared_ids = np.arange(n_shared + 1), np.arange(n_shared, dtype=np.int32)
        trainable = potential.layout.trainable()
        self._trainable = None if trainable.all() else trainable
        self._rows: Floats = np.zeros(0)
        self._theta: Floats | None = None

    def load(self, text: Encoded) -> None:
        self._offsets = text.offsets
        self._lists = [listed(ids) for _, ids in zip(self._block_rows, text[:2], strict=False)]

    def forward(
        self, part: SequenceRange, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if theta is not self._theta:
            self._theta, self._views = theta, self._layout.views(theta)
        views, begin, end = self._views, int(self._offsets[part[0]]), int(self._offsets[part[1]])
        emissions, self._d_emissions = self._two_zeros(end - begin, theta.dtype)
        lists = [(ragged.ptr[begin : end + 1], ragged.ids) for ragged in self._lists]
        blocks = zip(self._block_rows, views, lists, strict=False)
        adders = [partial(rows.add_ragged, weights, *ragged) for rows, weights, ragged in blocks]
        scores = assemble(views, emissions, adders)
        if scale != 1.0:
            s = theta.dtype.type(scale)
            emissions *= s
            scores = Scores(emissions, scores.transitions * s, views.start * s, views.end * s)
        return scores, partial(self._backprop, lists)

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
        d_transitions = shared.transitions if len(self._lists) == 1 else np.zeros_like(scores.transitions)
        return Scores(self._d_emissions, d_transitions, shared.start, shared.end)

    def _backprop(self, lists: Sequence[tuple[Offsets, Ints]], d: Scores) -> list[RowGradient]:
        flat, shared = self._shared
        if d.start is not shared.start:  # not made by `zeros`
            shared.start[:], shared.end[:] = d.start, d.end
            if len(lists) == 1:
                shared.transitions[:] = d.transitions
        if len(lists) > 1:
            shared.transitions[0] += d.transitions.sum(0)
        grads = [
            RowGradient(number, *listed, gradient.reshape(len(gradient), self._block_rows[number].width))
            for number, (listed, gradient) in enumerate(zip(lists, d, strict=False))
        ]
        if self._trainable is not None:
            np.multiply(flat, self._trainable, out=flat)
        grads.append(RowGradient(2, self._shared_ptr, self._shared_ids, flat[:, None]))
        return grads


class CachedSums:
    """The rows of one block in prediction, with sums of the weights."""

    DENSE_SHARE = 8
    """Sparse rows with at least one in this many weights are treated as dense; this limits memory."""

    def __init__(self, rows: WeightRows, weights: Floats) -> None:
        self._rows, self._weights = rows, weights
        self._store: BagStore | None = None
        self._sums, self._done = np.zeros((0, rows.width), weights.dtype), 0
        self._split: tuple[Floats, Floats] | None = None

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the sums of bags."""
        return self._sums[: self._done].nbytes

    def of(self, store: BagStore) -> Floats:
        """Return [bags, C] sums of the rows of each bag; only those of new bags are computed."""
        size, width = store.size, self._rows.width
        if store is not self._store:
            self._store, self._done, self._sums = store, 0, np.zeros((0, width), self._weights.dtype)
        if self._split is None and isinstance(self._rows, SparseRows):
            self._split = split_rows(self._rows, self._weights, max(2, -(-width // self.DENSE_SHARE)))
        if size > self._done:
            if size > len(self._sums):
                bigger = np.zeros((max(size, 2 * self._done), width), self._weights.dtype)
                bigger[: self._done] = self._sums[: self._done]
                self._sums = bigger
            new = self._sums[self._done : size]
            new[:] = 0
            self._rows.add_ragged(self._weights, np.ascontiguousarray(store.ptr[self._done :]), store.ids, new)
            self._done = size
        return self._sums[:size]

    def add(self, ids: Ids, sums: Floats, part: SequenceRange, out: Floats) -> None:
        """Add the rows of some sequences to out [T, C], given the sums of their bags."""
        bags, attrs = ids.expanded(part)
        if bags.shape[1]:
            kernels.rows.add_fixed(bags, sums, out)
        if attrs.shape[1] and self._split is not None and isinstance(self._rows, SparseRows):
            kernels.rows.add_split(attrs, *self._split, *self._rows[:2], self._weights, out)
        elif attrs.shape[1] and isinstance(self._rows, DenseRows) and self._rows.n_rows:
            kernels.rows.add_fixed(attrs, self._rows.matrix(self._weights), out)


def split_rows(rows: SparseRows, weights: Floats, least: int) -> tuple[Floats, Floats]:
    """Return sparse rows sorted for `kernels.rows.add_split`: heads [R, 2] and dense rows [n, C].

    The head of a row of one weight is its column and the weight; of a row of at least `least` weights -1 - i, where i
    is its number among the dense rows; of any other -1 - n.
    """
    sizes = np.diff(rows.ptr)
    single, many = sizes == 1, sizes >= least
    numbers = np.cumsum(many) - 1
    heads = np.zeros((rows.n_rows, 2), weights.dtype)
    heads[:, 0] = -1 - np.where(many, numbers, many.sum())
    heads[single, 0], heads[single, 1] = (values[rows.ptr[:-1][single]] for values in (rows.cols, weights))
    dense, inside = np.zeros((int(many.sum()), rows.width), weights.dtype), np.repeat(many, sizes)
    dense[np.repeat(numbers, sizes)[inside], rows.cols[inside]] = weights[inside]
    return heads, dense


class Source:
    """The scores of one text under fixed parameters, for prediction by several threads.

    This extends the sums that `tables` keep; later calls do not change it, so threads can share it.
    score_width (int): Number of scores of a token.
    tables (Sequence[CachedSums]): The weights of the unigram and, with label-pair templates, of the bigram block.
    views (Views): The parameters of the linear potential.
    small (Sequence): Potentials whose scores are added, with their parameters.
    mask (EmissionMask | None): Of a tag dictionary, for the words of the text, if these are given.
    """

    def __init__(
        self,
        tables: Sequence[CachedSums],
        views: Views,
        text: Encoded,
        small: Sequence[tuple[Addend, Floats]] = (),
        mask: EmissionMask | None = None,
    ) -> None:
        self.n_labels, self.offsets, self.small = len(views.start), text.offsets, small
        self.dictionary_ids = None if mask is None else text.dictionary_ids
        self._text, self._views, self._mask = text, views, mask
        self._adders = list[Callable[..., None]]()
        for table, ids in zip(tables, text[:2], strict=False):
            self._adders.append(partial(table.add, ids, table.of(ids.store)))
        self.score_width = self.n_labels ** len(self._adders)

    def without_restricted(self, allowed: Bools, constraints: Constraints) -> Source:
        """Return the scores where the dictionary does not further restrict tokens that `allowed` [T, L] restricts."""
        if self.dictionary_ids is None:
            return self
        other = copy(self)
        other.dictionary_ids = without_restricted(self.dictionary_ids, allowed, constraints)
        return other

    def add(self, potential: Addend, theta: Floats, inputs: NDArray[Any]) -> None:
        """Add the scores of a potential that is not the model's, with its only inputs [T, ...]."""
        self._text, self.small = self._text._replace(inputs=(inputs,)), [*self.small, (potential, theta)]

    def added_scores(self, part: SequenceRange) -> Scores | None:
        """Return the scores of a part that small potentials add, if there are any."""
        total = None
        for potential, theta in self.small:
            scores = potential.forward(theta, self._text, part)[0]
            total = scores if total is None else add_scores(total, scores)
        return total

    def scores(self, part: SequenceRange) -> Scores:
        """Return the scores of a part."""
        begin, end = int(self.offsets[part[0]]), int(self.offsets[part[1]])
        emissions = np.zeros((end - begin, self.n_labels), self._views.start.dtype)
        adders = [partial(add, part) for add in self._adders]
        scores, small = assemble(self._views, emissions, adders), self.added_scores(part) if self.small else None
        if small is not None:
            scores = add_scores(scores, small)
        if self._mask is not None and self.dictionary_ids is not None:
            self._mask.add(self.dictionary_ids[begin:end], scores.emissions)
        return scores
