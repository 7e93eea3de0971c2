"""Where the parameters of a model lie in one flat array, and how rows of weights are added and scattered.

All parameters of a model live in theta [D]: the weights of the *state* block (attributes that score a label), those of
the *pair* block (attributes that score a label and the one before it), transitions, start and end scores.  Rows of
weights are dense (every label for every attribute, as in CRF++) or sparse (the attribute-label pairs seen in training,
as in CRFsuite); both offer the same operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .features.encoder import Encoded, Ids
from .features.index import BagStore
from .types import Bools, Floats, Ints, Offsets, RowBlock

SHARD_FLOATS = 1 << 18
"""Scores are computed for about this many numbers at a time, so that they stay in the cache."""
BLOCK_TOKENS = 1 << 18
"""Tokens of a training set that are looked at together where the numbers of all would take much memory."""
_EVERYWHERE: tuple[Offsets, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int32))


class DenseRows(NamedTuple):
    """Weights for every column of every row, stored row by row.

    n_rows (int): R, attributes.
    width (int): C, labels or label pairs.
    """

    n_rows: int
    width: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_rows * self.width

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """Where each row begins and its columns; both empty: every row has all columns."""
        return _EVERYWHERE

    def _matrix(self, weights: Floats) -> Floats:
        return weights.reshape(self.n_rows, self.width)

    def add(self, weights: Floats, ids: Ints, out: Floats) -> None:
        """Add the rows ids [T, S] (-1 for none) to out [T, C]."""
        from .kernels import rows

        rows.add_fixed(ids, self._matrix(weights), out)

    def scatter(self, ids: Ints, d: Floats, factor: float, grad: Floats) -> None:
        """Add factor * d [T, C] to the rows ids [T, S] of grad."""
        from .kernels import rows

        rows.scatter_fixed(ids, d, factor, self._matrix(grad))

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        """Add the rows ids[ptr[t]:ptr[t + 1]] to out[t]."""
        from .kernels import rows

        rows.add_ragged(ptr, ids, self._matrix(weights), out)

    def collect(self, rows_of: slice, ptr: Offsets, bags: Ints, d: Floats, grad: Floats) -> None:
        """Add to each row r in a range the lines bags[ptr[r]:ptr[r + 1]] of d [bags, C]: rows are the receivers."""
        from .kernels import rows

        rows.add_ragged(ptr[rows_of.start : rows_of.stop + 1], bags, d, self._matrix(grad)[rows_of])

    def columns(self, ids: Ints) -> DenseColumns:
        """Return the rows ids [T, S] prepared for many passes."""
        return DenseColumns(self, ids)

    def widened(self, old_columns: NDArray[np.int64], width: int) -> tuple[DenseRows, NDArray[np.int64]]:
        """Return rows of a larger width and the new place of each weight; column c moves to old_columns[c]."""
        places = np.arange(self.n_rows)[:, None] * width + old_columns
        return DenseRows(self.n_rows, width), places.ravel()


class SparseRows(NamedTuple):
    """Weights for some columns of each row.

    ptr (Offsets): [R + 1] where each row's weights begin.
    cols (Ints): [ptr[R]] their columns, ascending in each row.
    width (int): C, labels or label pairs.
    """

    ptr: Offsets
    cols: Ints
    width: int

    @property
    def n_rows(self) -> int:
        """R, attributes."""
        return len(self.ptr) - 1

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.cols)

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """Where each row begins, and its columns."""
        return self.ptr, self.cols

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        """Add the rows ids[ptr[t]:ptr[t + 1]] to out[t]."""
        from .kernels import rows

        rows.add_ragged_sparse(ptr, ids, self.ptr, self.cols, weights, out)

    def collect(self, rows_of: slice, ptr: Offsets, bags: Ints, d: Floats, grad: Floats) -> None:
        """Add to each row r in a range the lines bags[ptr[r]:ptr[r + 1]] of d [bags, C]: rows are the receivers."""
        from .kernels import rows

        bounds = slice(rows_of.start, rows_of.stop + 1)
        rows.collect_sparse(ptr[bounds], bags, self.ptr[bounds], self.cols, d, grad)

    def columns(self, ids: Ints) -> SparseColumns:
        """Return the rows ids [T, S] prepared for many passes."""
        return SparseColumns(self, ids)

    def widened(self, old_columns: NDArray[np.int64], width: int) -> tuple[SparseRows, NDArray[np.int64]]:
        """Return rows with all new columns in every row, and the new place of each weight."""
        new_columns = np.setdiff1d(np.arange(width), old_columns)
        owner = np.repeat(np.arange(self.n_rows), np.diff(self.ptr))
        rows = np.concatenate([owner, np.repeat(np.arange(self.n_rows), len(new_columns))])
        cols = np.concatenate([old_columns[self.cols], np.tile(new_columns, self.n_rows)])
        order = np.lexsort((cols, rows))
        ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_rows))]).astype(np.int64)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return SparseRows(ptr, cols[order].astype(np.int32), width), places[: self.size]


Rows: TypeAlias = DenseRows | SparseRows


def restricted_rows(rows: Rows, kept: Bools) -> SparseRows:
    """Return rows that have only the weights that kept [size] marks; a row may be left without any."""
    ends = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    if isinstance(rows, SparseRows):
        return SparseRows(ends[rows.ptr], rows.cols[kept], rows.width)
    ptr = ends[np.arange(rows.n_rows + 1) * rows.width]
    return SparseRows(ptr, (np.flatnonzero(kept) % rows.width).astype(np.int32), rows.width)


def used_rows(rows: Rows) -> Bools:
    """Return [R] which rows have a weight."""
    if isinstance(rows, DenseRows):
        return np.ones(rows.n_rows, np.bool_)
    used: Bools = np.diff(rows.ptr) > 0
    return used


def without_empty(rows: Rows) -> Rows:
    """Return the rows that have a weight; the weights stay where they are."""
    if isinstance(rows, DenseRows):
        return rows
    return rows._replace(ptr=rows.ptr[np.concatenate([[True], used_rows(rows)])])


class DenseColumns:
    """Dense rows that tokens switch on, for many passes over the same tokens with changing weights."""

    def __init__(self, rows: DenseRows, ids: Ints) -> None:
        self._rows, self._ids = rows, ids

    def begin(self, weights: Floats, training: bool) -> None:
        """Start a pass with these weights; `training` if gradients will be wanted."""
        self._weights = weights

    def add(self, tokens: slice, out: Floats) -> None:
        """Add the rows of some tokens to out [tokens, C]."""
        self._rows.add(self._weights, self._ids[tokens], out)

    def scatter(self, tokens: slice, d: Floats, grad: Floats) -> None:
        """Add d [tokens, C] to the rows of grad."""
        self._rows.scatter(self._ids[tokens], d, 1.0, grad)

    def finish(self, grad: Floats) -> None:
        """Complete grad at the end of a pass."""


class SparseColumns:
    """As `DenseColumns`, for sparse rows.

    Rows with several entries are written to a dense table at the beginning of a pass, where adding one is a matter of
    two or three vectors; the others, most of them with a single entry, are listed entry by entry for each token.
    """

    FEWEST = 3
    """Entries from which on a row goes to the table."""

    def __init__(self, rows: SparseRows, ids: Ints) -> None:
        from .kernels import rows as kernels

        self._rows = rows
        used = np.zeros(rows.n_rows, np.bool_)
        used[ids[ids >= 0]] = True  # others may belong to another thread
        self._tabled = np.flatnonzero((np.diff(rows.ptr) >= self.FEWEST) & used).astype(np.int32)
        tables = np.full(rows.n_rows, -1, np.int32)
        tables[self._tabled] = np.arange(len(self._tabled), dtype=np.int32)
        ptr = np.empty(len(ids) + 1, np.int64), np.empty(len(ids) + 1, np.int64)
        nothing = np.empty(0, np.int32)
        kernels.split(ids, tables, rows.ptr, rows.cols, (ptr[0], nothing), (ptr[1], nothing, nothing))
        sizes = int(ptr[0][-1]), int(ptr[1][-1])
        self._hot = ptr[0], np.empty(sizes[0], np.int32)
        self._cold = ptr[1], np.empty(sizes[1], np.int32), np.empty(sizes[1], np.int32)
        kernels.split(ids, tables, rows.ptr, rows.cols, self._hot, self._cold)

    def begin(self, weights: Floats, training: bool) -> None:
        """Start a pass with these weights; `training` if gradients will be wanted."""
        from .kernels import rows

        self._weights = weights
        self._table = np.empty((len(self._tabled), self._rows.width), weights.dtype)
        rows.to_table(self._tabled, self._rows.ptr, self._rows.cols, weights, self._table)
        self._d_table = np.zeros_like(self._table) if training else self._table

    def _bounds(self, tokens: slice) -> slice:
        return slice(tokens.start, tokens.stop + 1)

    def add(self, tokens: slice, out: Floats) -> None:
        """Add the rows of some tokens to out [tokens, C]."""
        from .kernels import rows

        here = self._bounds(tokens)
        rows.add_ragged(self._hot[0][here], self._hot[1], self._table, out)
        rows.add_entries(self._cold[0][here], *self._cold[1:], self._weights, out)

    def scatter(self, tokens: slice, d: Floats, grad: Floats) -> None:
        """Add d [tokens, C] to the rows of grad; those of the table follow in `finish`."""
        from .kernels import rows

        here = self._bounds(tokens)
        rows.scatter_ragged(self._hot[0][here], self._hot[1], d, 1.0, self._d_table)
        rows.scatter_entries(self._cold[0][here], *self._cold[1:], d, grad)

    def finish(self, grad: Floats) -> None:
        """Complete grad at the end of a pass."""
        from .kernels import rows

        rows.from_table(self._tabled, self._rows.ptr, self._rows.cols, self._d_table, grad)


RowColumns: TypeAlias = DenseColumns | SparseColumns


class Layout(NamedTuple):
    """Where each group of parameters lies in theta.

    n_labels (int): L.
    state (Rows): Rows of width L.
    pair (Rows): Rows of width L * L; no rows where no label-pair templates are used.
    steps (Bools | None): [L, L] transitions that are learnt; None for all.
    boundaries (bool): Whether start and end scores are learnt.
    """

    n_labels: int
    state: Rows
    pair: Rows
    steps: Bools | None
    boundaries: bool

    @property
    def size(self) -> int:
        """D, the number of parameters."""
        return self.state.size + self.pair.size + self.n_labels * (self.n_labels + 2)

    def blocks(self) -> list[RowBlock]:
        """Return the groups of rows: state, pair, and the scores that all positions share, each a row of its own."""
        pair, shared = self.state.size, self.state.size + self.pair.size
        n_state, n_pair = self.state.n_rows, self.pair.n_rows
        return [
            RowBlock(0, pair, 0, n_state, self.state.width, *self.state.places),
            RowBlock(pair, shared, n_state, n_pair, self.pair.width, *self.pair.places),
            RowBlock(shared, self.size, n_state + n_pair, self.size - shared, 1, *_EVERYWHERE),
        ]

    def views(self, theta: Floats) -> Views:
        """Cut theta [D] into its groups, without a copy."""
        n = self.n_labels
        pair = self.state.size
        transitions = pair + self.pair.size
        start = transitions + n * n
        end = start + n
        return Views(
            theta[:pair],
            theta[pair:transitions],
            theta[transitions:start].reshape(n, n),
            theta[start:end],
            theta[end:],
        )

    def restricted(self, kept: Bools) -> Layout:
        """Return a layout that has and learns only the parameters that kept [D] marks.

        Rows of attributes stay, though without weights; so do transitions, start and end scores.  Of these, transitions
        that are not kept are not learnt.  `move` takes parameters there.
        """
        views = self.views(kept)
        steps = views.transitions.copy() if self.steps is None else self.steps & views.transitions
        return Layout(
            self.n_labels,
            restricted_rows(self.state, views.state),
            restricted_rows(self.pair, views.pair),
            None if steps.all() else steps,
            self.boundaries,
        )

    def move(self, theta: Floats, kept: Bools) -> Floats:
        """Return the parameters theta [D] as `restricted` orders them; shared scores that are not kept become zero."""
        weights = self.state.size + self.pair.size
        shared = np.where(kept[weights:], theta[weights:], theta.dtype.type(0))
        return np.concatenate([theta[:weights][kept[:weights]], shared])

    def without_empty(self) -> Layout:
        """Return the layout without attributes that have no weight; all parameters stay where they are."""
        return self._replace(state=without_empty(self.state), pair=without_empty(self.pair))

    def learnt(self) -> Bools:
        """Return which of the L * (L + 2) scores that all positions share are learnt."""
        n = self.n_labels
        learnt = np.ones(n * (n + 2), np.bool_)
        if self.steps is not None:
            learnt[: n * n] = self.steps.ravel()
        if not self.boundaries:
            learnt[n * n :] = False
        return learnt

    def hold(self, grad: Floats) -> None:
        """Set the gradient of parameters that are not learnt to zero."""
        views = self.views(grad)
        if self.steps is not None:
            views.transitions[~self.steps] = 0
        if not self.boundaries:
            views.start[:] = 0
            views.end[:] = 0


class Views(NamedTuple):
    """Groups of parameters: weights of both blocks, transitions [L, L], start and end [L]."""

    state: Floats
    pair: Floats
    transitions: Floats
    start: Floats
    end: Floats


def shards(offsets: Offsets, floats_per_token: int, times: int = 1, n_threads: int = 1) -> Iterator[tuple[int, int]]:
    """Yield ranges of sequences whose scores take about `times` `SHARD_FLOATS` numbers, at least one sequence each.

    They are made smaller where their number would not be a multiple of n_threads.
    """
    tokens = max(1, times * SHARD_FLOATS // max(1, floats_per_token))
    if n_threads > 1 and len(offsets) > 1:
        each = -(-int(offsets[-1] - offsets[0]) // n_threads)
        tokens = max(1, -(-each // max(1, -(-each // tokens))))
    first, n = 0, len(offsets) - 1
    while first < n:
        last = int(np.searchsorted(offsets, offsets[first] + tokens, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


def observed_rows(ids: Ids, columns: Ints, n_rows: int, width: int) -> SparseRows:
    """Return rows that hold the columns [T] each attribute was seen with; negative columns are passed over."""
    from .kernels import rows

    words = (width + 63) // 64
    marks = np.zeros((n_rows, words), np.uint64)
    bag_marks = np.zeros((ids.store.size, words), np.uint64)
    rows.mark_columns(ids.attrs, columns, marks)
    rows.mark_columns(ids.bags, columns, bag_marks)
    rows.spread_marks(ids.store.ptr, ids.store.ids, bag_marks, marks)
    ptr = np.zeros(n_rows + 1, np.int64)
    size = rows.marks_to_rows(marks, width, ptr, np.empty(0, np.int32))
    cols = np.empty(size, np.int32)
    rows.marks_to_rows(marks, width, ptr, cols)
    return SparseRows(ptr, cols, width)


def pair_columns(gold: Ints, offsets: Offsets, n_labels: int) -> Ints:
    """Return ``previous * L + label`` for every token [T]; -1 where there is no previous label or one is missing."""
    columns = np.full(len(gold), -1, np.int32)
    for part in _blocks(1, len(gold)):
        before, here = gold[part.start - 1 : part.stop - 1], gold[part]
        columns[part] = np.where((before >= 0) & (here >= 0), before * n_labels + here, -1)
    columns[offsets[:-1][np.diff(offsets) > 0]] = -1
    return columns


def _blocks(begin: int, end: int) -> Iterator[slice]:
    """Cut a range of tokens, so that what is computed on the way stays small."""
    for first in range(begin, end, BLOCK_TOKENS):
        yield slice(first, min(first + BLOCK_TOKENS, end))


def make_layout(
    encoded: Encoded,
    gold: Ints,
    n_labels: int,
    n_attributes: tuple[int, int],
    *,
    support: str,
    boundaries: bool,
    transitions: bool = True,
) -> Layout:
    """Return the layout for a training set.

    gold (Ints): [T] gold labels, -1 where missing.
    n_attributes (tuple[int, int]): Attributes of the state and of the pair block.
    support (str): "observed" for the attribute-label pairs and transitions seen in `gold`, "all" for every one.
    transitions (bool): Whether the scores that all steps from one label to another share are learnt.
    """
    widths = n_labels, n_labels * n_labels
    if support == "all":
        state, pair = (DenseRows(n, width) for n, width in zip(n_attributes, widths, strict=True))
        steps = None if transitions else np.zeros((n_labels, n_labels), np.bool_)
        return Layout(n_labels, state, pair, steps, boundaries)
    pairs = pair_columns(gold, encoded.offsets, n_labels)
    seen = np.zeros(widths[1] + 1, np.bool_)  # the last is for -1
    for part in _blocks(0, len(pairs) if transitions else 0):
        seen[pairs[part]] = True
    return Layout(
        n_labels,
        observed_rows(encoded.state, gold, n_attributes[0], widths[0]),
        observed_rows(encoded.pair, pairs, n_attributes[1], widths[1]),
        seen[:-1].reshape(n_labels, n_labels),
        boundaries,
    )


class BagRows:
    """Summed weight rows of bags, kept as long as the weights do not change."""

    def __init__(self, rows: Rows, weights: Floats) -> None:
        self._rows, self._weights = rows, weights
        self._store: BagStore | None = None
        self._sums: Floats = np.zeros((0, rows.width), weights.dtype)
        self._done = 0

    @property
    def n_bytes(self) -> int:
        """The memory of the sums."""
        return self._sums[: self._done].nbytes

    def sums(self, store: BagStore) -> Floats:
        """Return [bags, C] sums of the weight rows of each bag of `store`."""
        if store is not self._store:
            self._store, self._done = store, 0
        if store.size > self._done:
            if store.size > len(self._sums):
                bigger = np.zeros((max(store.size, 2 * self._done), self._rows.width), self._weights.dtype)
                bigger[: self._done] = self._sums[: self._done]
                self._sums = bigger
            new = slice(self._done, store.size)
            self._sums[new] = 0
            ptr = np.ascontiguousarray(store.ptr[self._done :])
            self._rows.add_ragged(self._weights, ptr, store.ids, self._sums[new])
            self._done = store.size
        return self._sums[: store.size]
