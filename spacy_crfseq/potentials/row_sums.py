"""Sums of the weight rows of tokens' features: three strategies for one block of weights.

`PassSums` is for passes over one text: rows are summed once per distinct bag, and threads scatter gradients to
different columns of ids.  `ListedSums` is for mini-batches: the ids of every token in one list.  `CachedSums` is for
prediction: sums of bags are cached.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..features.encoder import AnyIds, Ids
from ..features.index import BagStore
from ..threads import over, parts, run
from ..types import Floats, Ints, Offsets
from .rows import DenseRows, Rows, SparseRows


class PassSums:
    """The rows of one block in many passes over the same tokens.

    Columns of ids are divided into one group per thread.  Each group has its own templates, so no two groups share a
    row, and additions to a row follow the order of the text.
    """

    def __init__(self, rows: Rows, ids: AnyIds, n_groups: int) -> None:
        ids = ids.plain()
        self._width, self._n = rows.width, n_groups
        self._bags = [np.ascontiguousarray(ids.bags[:, group::n_groups]) for group in range(n_groups)]
        # in reverse order, so that a group with fewer bags gets more single features
        columns = [ids.attrs[:, n_groups - 1 - group :: n_groups] for group in range(n_groups)]
        lists = [(np.arange(len(part) + 1) * part.shape[1], part.ravel()) for part in columns]
        members = ids.store.ptr, ids.store.ids
        *self._columns, self._members = over(lambda each: _lists(rows, *each), [*lists, members], n_groups)
        self._n_bags, self._has_attrs = ids.store.size if ids.bags.shape[1] else 0, ids.attrs.shape[1] > 0

    def begin(self, weights: Floats, training: bool) -> None:
        """Start a pass with these weights, with gradients if `training`."""
        run([partial(lists.begin, weights, training) for lists in (*self._columns, self._members)])
        if self._n_bags:
            self._sums = np.zeros((self._n_bags, self._width), weights.dtype)
            self._d_sums = np.zeros_like(self._sums) if training else self._sums
            run([partial(self._members.add, bags, self._sums[bags]) for bags in parts(self._n_bags, self._n)])

    def add(self, tokens: slice, out: Floats) -> None:
        """Add the rows of some tokens to out [tokens, C]."""
        for bags, columns in zip(self._bags, self._columns, strict=True):
            if self._n_bags:
                kernels.gather.add_fixed(bags[tokens], self._sums, out)
            if self._has_attrs:
                columns.add(tokens, out)

    def scatter(self, group: int, tokens: slice, d: Floats, grad: Floats) -> None:
        """Add d [tokens, C] to the sums of bags and to the rows of single features of one group."""
        if self._n_bags:
            kernels.rows.scatter_fixed(self._bags[group][tokens], d, self._d_sums)
        if self._has_attrs:
            self._columns[group].scatter(tokens, d, grad)

    def finish(self, grad: Floats) -> None:
        """Add the gradients of bags, and of rows in tables, to the gradients of their features."""
        run([partial(columns.finish, grad) for columns in self._columns])
        if self._n_bags:
            self._members.scatter(slice(0, self._n_bags), self._d_sums, grad)
            self._members.finish(grad)


class _DenseLists:
    """Dense rows listed for each token, or each bag: ptr [T + 1], ids [ptr[T]]."""

    def __init__(self, rows: DenseRows, ptr: Offsets, ids: Ints) -> None:
        self._rows, self._ptr, self._ids = rows, ptr, ids

    def begin(self, weights: Floats, training: bool) -> None:
        self._weights = weights

    def add(self, tokens: slice, out: Floats) -> None:
        self._rows.add_ragged(self._weights, self._ptr[tokens.start : tokens.stop + 1], self._ids, out)

    def scatter(self, tokens: slice, d: Floats, grad: Floats) -> None:
        here = self._ptr[tokens.start : tokens.stop + 1]
        kernels.rows.scatter_ragged(here, self._ids, d, self._rows.matrix(grad))

    def finish(self, grad: Floats) -> None:
        pass


class _SparseLists:
    """Sparse rows listed for each token, or each bag: ptr [T + 1], ids [ptr[T]].

    Rows with `FEWEST` or more entries are written to a dense table at the start of a pass, where adding one takes two
    or three vectors.  The entries of other rows, most often one, are listed for each token.
    """

    FEWEST = 3

    def __init__(self, rows: SparseRows, ptr: Offsets, ids: Ints) -> None:
        self._rows = rows
        used = np.zeros(rows.n_rows, np.bool_)
        used[ids[ids >= 0]] = True  # others may belong to another group
        self._tabled = np.flatnonzero((np.diff(rows.ptr) >= self.FEWEST) & used).astype(np.int32)
        tables = np.full(rows.n_rows, -1, np.int32)
        tables[self._tabled] = np.arange(len(self._tabled), dtype=np.int32)
        bounds, nothing = np.empty((2, len(ptr)), np.int64), np.empty(0, np.int32)
        listed = ptr, ids, tables, rows.ptr, rows.cols
        kernels.rows.split(*listed, (bounds[0], nothing), (bounds[1], nothing, nothing))
        self._hot = bounds[0], np.empty(int(bounds[0, -1]), np.int32)
        size = int(bounds[1, -1])
        self._cold = bounds[1], np.empty(size, np.int32), np.empty(size, np.int32)
        kernels.rows.split(*listed, self._hot, self._cold)

    def begin(self, weights: Floats, training: bool) -> None:
        self._weights = weights
        self._table = np.empty((len(self._tabled), self._rows.width), weights.dtype)
        kernels.rows.to_table(self._tabled, self._rows.ptr, self._rows.cols, weights, self._table)
        self._d_table = np.zeros_like(self._table) if training else self._table

    def add(self, tokens: slice, out: Floats) -> None:
        here = slice(tokens.start, tokens.stop + 1)
        kernels.rows.add_ragged(self._hot[0][here], self._hot[1], self._table, out)
        kernels.rows.add_entries(self._cold[0][here], *self._cold[1:], self._weights, out)

    def scatter(self, tokens: slice, d: Floats, grad: Floats) -> None:
        here = slice(tokens.start, tokens.stop + 1)
        kernels.rows.scatter_ragged(self._hot[0][here], self._hot[1], d, self._d_table)
        kernels.rows.scatter_entries(self._cold[0][here], *self._cold[1:], d, grad)

    def finish(self, grad: Floats) -> None:
        kernels.rows.from_table(self._tabled, self._rows.ptr, self._rows.cols, self._d_table, grad)


def _lists(rows: Rows, ptr: Offsets, ids: Ints) -> _DenseLists | _SparseLists:
    return _SparseLists(rows, ptr, ids) if isinstance(rows, SparseRows) else _DenseLists(rows, ptr, ids)


class ListedSums(NamedTuple):
    """The ids of each token in one list, with expanded bags: ptr [T + 1], ids [ptr[T]]."""

    ptr: Offsets
    ids: Ints

    def cut(self, begin: int, end: int) -> ListedSums:
        """Return the tokens begin..end-1."""
        return ListedSums(self.ptr[begin : end + 1], self.ids)


def listed(ids: AnyIds) -> ListedSums:
    """Return bags and single features as one list per token."""
    ids = ids.plain()
    room = int(np.diff(ids.store.ptr)[ids.bags].sum()) + ids.attrs.size
    ptr, out = np.empty(len(ids.attrs) + 1, np.int64), np.empty(room, np.int32)
    size = kernels.rows.expand(ids.bags, ids.attrs, ids.store.ptr, ids.store.ids, ptr, out)
    return ListedSums(ptr, out[:size])


class CachedSums:
    """The rows of one block in prediction, with sums of the weights."""

    DENSE_SHARE = 8
    """Sparse rows with at least one in this many weights are treated as dense; this limits memory."""

    def __init__(self, rows: Rows, weights: Floats) -> None:
        self._rows, self._weights = rows, weights
        self._store: BagStore | None = None
        self._sums, self._done = np.zeros((0, rows.width), weights.dtype), 0
        self._split: tuple[Floats, Floats] | None = None

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the sums of bags."""
        return self._sums[: self._done].nbytes

    def adder(self, ids: AnyIds) -> Callable[[slice, Floats], None]:
        """Return a function that adds the rows of some tokens to out [tokens, C]; later calls do not change it."""
        sums = self._bag_sums(ids.store)
        if self._split is None and isinstance(self._rows, SparseRows):
            least = max(2, -(-self._rows.width // self.DENSE_SHARE))
            self._split = split_rows(self._rows, self._weights, least)
        return partial(self._add, ids.plain(), sums)

    def _bag_sums(self, store: BagStore) -> Floats:
        """Return [bags, C] sums of the rows of each bag; only those of new bags are computed."""
        if store is not self._store:
            self._store, self._done = store, 0
            self._sums = np.zeros((0, self._rows.width), self._weights.dtype)
        if store.size > self._done:
            if store.size > len(self._sums):
                bigger = np.zeros((max(store.size, 2 * self._done), self._rows.width), self._weights.dtype)
                bigger[: self._done] = self._sums[: self._done]
                self._sums = bigger
            new = self._sums[self._done : store.size]
            new[:] = 0
            self._rows.add_ragged(self._weights, np.ascontiguousarray(store.ptr[self._done :]), store.ids, new)
            self._done = store.size
        return self._sums[: store.size]

    def _add(self, ids: Ids, sums: Floats, tokens: slice, out: Floats) -> None:
        if ids.bags.shape[1]:
            kernels.gather.add_fixed(ids.bags[tokens], sums, out)
        if not ids.attrs.shape[1]:
            return
        if isinstance(self._rows, SparseRows):
            assert self._split is not None
            kernels.gather.add_split(ids.attrs[tokens], *self._split, *self._rows[:2], self._weights, out)
        elif self._rows.n_rows:
            kernels.gather.add_fixed(ids.attrs[tokens], self._rows.matrix(self._weights), out)


def split_rows(rows: SparseRows, weights: Floats, least: int) -> tuple[Floats, Floats]:
    """Return sparse rows sorted for `kernels.gather.add_split`: heads [R, 2] and dense rows [n, C].

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
