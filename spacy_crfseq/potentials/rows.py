"""Rows of weights: dense ones for every label, as in CRF++, or sparse ones for those of the training, as in CRFsuite.

Both offer the same operations: ``add_ragged`` adds the rows ``ids[ptr[t]:ptr[t + 1]]`` to out[t]; ``widened`` returns
rows of a larger width, where column c is ``old_columns[c]``, and the new place of each weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Bools, Floats, Ints, Offsets

EVERYWHERE: tuple[Offsets, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int32))


class DenseRows(NamedTuple):
    """Weights for every column (label or label pair) of every row (feature), stored row by row."""

    n_rows: int
    width: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_rows * self.width

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """See `RowBlock`."""
        return EVERYWHERE

    def matrix(self, weights: Floats) -> Floats:
        return weights.reshape(self.n_rows, self.width)

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        kernels.gather.add_ragged(ptr, ids, self.matrix(weights), out)

    def widened(self, old_columns: NDArray[np.int64], width: int) -> tuple[DenseRows, NDArray[np.int64]]:
        places = np.arange(self.n_rows)[:, None] * width + old_columns
        return DenseRows(self.n_rows, width), places.ravel()


class SparseRows(NamedTuple):
    """Weights for some columns of each row: row r has the columns ``cols[ptr[r]:ptr[r + 1]]``, ascending."""

    ptr: Offsets
    cols: Ints
    width: int

    @property
    def n_rows(self) -> int:
        """R, features."""
        return len(self.ptr) - 1

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.cols)

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """See `RowBlock`."""
        return self.ptr, self.cols

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        kernels.gather.add_ragged_sparse(ptr, ids, self.ptr, self.cols, weights, out)

    def widened(self, old_columns: NDArray[np.int64], width: int) -> tuple[SparseRows, NDArray[np.int64]]:
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
    """Return rows with only the weights that kept [size] marks; a row may have none."""
    ends = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    if isinstance(rows, SparseRows):
        return SparseRows(ends[rows.ptr], rows.cols[kept], rows.width)
    ptr = ends[np.arange(rows.n_rows + 1) * rows.width]
    return SparseRows(ptr, (np.flatnonzero(kept) % rows.width).astype(np.int32), rows.width)


def used_rows(rows: Rows) -> Bools:
    """Return which rows [R] have a weight."""
    if isinstance(rows, DenseRows):
        return np.ones(rows.n_rows, np.bool_)
    used: Bools = np.diff(rows.ptr) > 0
    return used


def active_rows(rows: Rows, weights: Floats) -> tuple[Bools, Bools]:
    """Return which rows [R] have a weight other than zero, and which weights [size] belong to such rows."""
    if isinstance(rows, DenseRows):
        active = (weights.reshape(rows.n_rows, rows.width) != 0).any(1)
        return active, np.repeat(active, rows.width)
    ends = np.concatenate([[0], np.cumsum(weights != 0)])[rows.ptr]
    active = np.diff(ends) > 0
    return active, np.repeat(active, np.diff(rows.ptr))


def cells(rows: Rows) -> NDArray[np.int64]:
    """Return ``row * width + column`` of each weight [size]."""
    if isinstance(rows, SparseRows):
        return np.repeat(np.arange(rows.n_rows, dtype=np.int64), np.diff(rows.ptr)) * rows.width + rows.cols
    return np.arange(rows.size, dtype=np.int64)


def united(rows: Rows, first: Rows) -> Rows:
    """Return rows that also have the weights of other rows, which are the first ones, of the same width."""
    return rows if isinstance(rows, DenseRows) else rows_of([cells(rows), cells(first)], rows.n_rows, rows.width)


def rows_of(places: Sequence[Offsets], n_rows: int, width: int) -> SparseRows:
    """Return rows with the weights whose `cells` are in one of some arrays, each of which is sorted."""
    both = np.sort(np.concatenate(places), kind="stable")
    both = both[np.append(True, both[1:] > both[:-1])[: len(both)]]
    bounds = np.arange(n_rows + 1, dtype=np.int64) * width
    return SparseRows(np.searchsorted(both, bounds), (both % max(1, width)).astype(np.int32), width)


def without_empty(rows: Rows) -> Rows:
    """Return the rows that have a weight; the weights stay where they are."""
    if isinstance(rows, DenseRows):
        return rows
    return rows._replace(ptr=rows.ptr[np.concatenate([[True], used_rows(rows)])])
