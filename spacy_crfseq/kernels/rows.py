"""Sums of weight rows over the features of each token, ``out[t] = sum_{r in x_t} W[r]``, and their transposes.

The transpose of a sum is ``grad[r] += factor * d[t], r in x_t``.  Sets come with a fixed width (``ids`` [T, S], -1 for
nothing) or ragged (``ids[ptr[t]:ptr[t + 1]]``).  Weights come dense, W [R, C], or sparse: row r holds
``values[row_ptr[r]:row_ptr[r + 1]]`` at the columns ``cols`` of the same range.  Rows lie anywhere in memory, so most
of the time goes by waiting for them: those of later tokens are asked for ahead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Floats, Ints, Offsets
from .jit import kernel, light, llvm, prefetch

AHEAD_SPARSE = 8
"""Places in a list of sparse rows between the one that is read and the one that is fetched into the cache."""
LINE = 16
"""Numbers in a cache line (float32)."""
FAR, NEAR = 8, 4
"""How many tokens ahead `add_split` asks for memory: heads of rows, and rows themselves."""


@llvm
def add_token(ids: Ints, begin: int, end: int, weights: Floats, out: Floats, t: int) -> None:
    """Add the rows ids[begin:end] to out[t]; negative ids stand for nothing."""
    for p in range(begin, end):
        if ids[p] >= 0:
            for c in range(weights.shape[1]):
                out[t, c] += weights[ids[p], c]


@llvm
def scatter_token(ids: Ints, begin: int, end: int, grad: Floats, d: Floats, t: int) -> None:
    """Add d[t] to the rows ids[begin:end] of grad; negative ids stand for nothing."""
    for p in range(begin, end):
        if ids[p] >= 0:
            for c in range(grad.shape[1]):
                grad[ids[p], c] += d[t, c]


def add_fixed(ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ids [T, S], weights [R, C], out [T, C]."""
    add_ragged(np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1], ids.reshape(-1), weights, out)


def scatter_fixed(ids: Ints, d: Floats, grad: Floats) -> None:
    """Transpose of `add_fixed`: d [T, C], grad [R, C]."""
    scatter_ragged(np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1], ids.reshape(-1), d, grad)


def _add_rows(ptr: Offsets, ids: Ints, weights: Floats, out: Floats) -> None:
    for t in range(len(out)):
        for r in ids[ptr[t] : ptr[t + 1]]:
            if r >= 0:
                out[t] += weights[r]


@light(_add_rows)
def add_ragged(ptr: Offsets, ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ptr [T + 1], ids [ptr[T]], weights [R, C], out [T, C]."""
    for t in range(ptr.shape[0] - 1):
        add_token(ids, ptr[t], ptr[t + 1], weights, out, t)


@kernel
def scatter_ragged(ptr: Offsets, ids: Ints, d: Floats, grad: Floats) -> None:
    """Transpose of `add_ragged`: d [T, C], grad [R, C]."""
    for t in range(ptr.shape[0] - 1):
        scatter_token(ids, ptr[t], ptr[t + 1], grad, d, t)


def _add_sparse_rows(ptr: Offsets, ids: Ints, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats) -> None:
    for t in range(len(out)):
        for r in ids[ptr[t] : ptr[t + 1]]:
            row = slice(row_ptr[r], row_ptr[r + 1])
            out[t, cols[row]] += values[row]


@light(_add_sparse_rows)
def add_ragged_sparse(ptr: Offsets, ids: Ints, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats) -> None:
    """Add sparse rows of ragged sets: ptr [T + 1], ids [ptr[T]], out [T, C]."""
    n = out.shape[1]
    end = ptr[ptr.shape[0] - 1] - 1
    for t in range(ptr.shape[0] - 1):
        target = out[t]
        for p in range(ptr[t], ptr[t + 1]):
            # a row is found in two steps, and each is asked for before it is needed
            prefetch(row_ptr, ids[min(p + 2 * AHEAD_SPARSE, end)], 0)
            place = row_ptr[ids[min(p + AHEAD_SPARSE, end)]]
            prefetch(cols, place, 0)
            prefetch(values, place, 0)
            first, last = row_ptr[ids[p]], row_ptr[ids[p] + 1]
            if last - first == n:
                row = values[first:last]
                for c in range(n):
                    target[c] += row[c]
            else:
                for q in range(np.uint64(first), np.uint64(last)):  # unsigned, so that nothing asks for its sign
                    target[np.uint32(cols[q])] += values[q]


@light()
def add_split(
    ids: Ints, heads: Floats, dense: Floats, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats
) -> None:
    """Add rows that `potentials.linear.split_rows` has sorted: ids [T, S], -1 for none, out [T, C]."""
    length, n_slots = ids.shape
    n_dense, n = dense.shape
    for t in range(length):
        if t + FAR < length:
            for s in range(n_slots):
                prefetch(heads, max(ids[t + FAR, s], 0), 0)
        if t + NEAR < length:
            for s in range(n_slots):
                ahead = ids[t + NEAR, s]
                if ahead >= 0 and -1 - n_dense < heads[ahead, 0] < 0:
                    i = np.int64(-1 - heads[ahead, 0])
                    for k in range(0, n, LINE):
                        prefetch(dense, i, k)
        target = out[t]
        for s in range(n_slots):
            r = ids[t, s]
            if r >= 0:
                code = np.int64(heads[r, 0])
                if code >= 0:
                    target[code] += heads[r, 1]
                elif -1 - code < n_dense:
                    row = dense[-1 - code]
                    for k in range(n):
                        target[k] += row[k]
                else:
                    for q in range(row_ptr[r], row_ptr[r + 1]):
                        target[cols[q]] += values[q]


class Lists(NamedTuple):
    """The rows that T tokens use in G groups of columns, a group per thread: bags, rows of a table, single weights.

    bags (Ints): [T * S] the bags of each token; those of group g have the places bounds[g] to bounds[g + 1].
    bounds (Offsets): [G + 1].
    ptr (Offsets): [T * G + 1] group g of token t has the rows ``ids[ptr[t * G + g]:ptr[t * G + g + 1]]``.
    ids (Ints): Rows of the table, -1 for nothing.
    entries (Offsets): [T * G + 1] the same for weights, as places in theta and columns; empty without any.
    places, columns (Ints): Of each weight.
    """

    bags: Ints
    bounds: Offsets
    ptr: Offsets
    ids: Ints
    entries: Offsets
    places: Ints
    columns: Ints


@kernel
def add_lists(first: int, last: int, lists: Lists, sums: Floats, table: Floats, weights: Floats, out: Floats) -> None:
    """Add the rows of tokens to out [last - first, C]: rows of sums [B, C] and of table [H, C], and weights [D]."""
    bags, bounds, ptr, ids, entries, places, columns = lists
    groups = bounds.shape[0] - 1
    size = bounds[groups]
    # one loop after another: together, they would wait for memory more often; first the sums of bags
    for t in range(first, last if size > 0 else first):
        add_token(bags, t * size, (t + 1) * size, sums, out, t - first)
    # rows of features that are not in bags
    for t in range(first, last if ids.shape[0] > 0 else first):
        add_token(ids, ptr[t * groups], ptr[(t + 1) * groups], table, out, t - first)
    # weights of rows that have few
    for t in range(first, last if places.shape[0] > 0 else first):
        target = out[t - first]
        for p in range(np.uint64(entries[t * groups]), np.uint64(entries[(t + 1) * groups])):  # unsigned, as above
            target[np.uint32(columns[p])] += weights[np.uint32(places[p])]


@kernel
def scatter_lists(
    first: int, last: int, group: int, lists: Lists, d: Floats, d_sums: Floats, d_table: Floats, grad: Floats
) -> None:
    """Transpose of `add_lists` for one group: d [last - first, C]."""
    bags, bounds, ptr, ids, entries, places, columns = lists
    groups = bounds.shape[0] - 1
    size = bounds[groups]
    for t in range(first, last if size > 0 else first):
        scatter_token(bags, t * size + bounds[group], t * size + bounds[group + 1], d_sums, d, t - first)
    for t in range(first, last if ids.shape[0] > 0 else first):
        place = t * groups + group
        scatter_token(ids, ptr[place], ptr[place + 1], d_table, d, t - first)
    for t in range(first, last if places.shape[0] > 0 else first):
        place, source = t * groups + group, d[t - first]
        for p in range(np.uint64(entries[place]), np.uint64(entries[place + 1])):
            grad[np.uint32(places[p])] += source[np.uint32(columns[p])]


@kernel
def split(
    ptr: Offsets, ids: Ints, tables: Ints, row_ptr: Offsets, cols: Ints, hot: tuple[Offsets, Ints],
    cold: tuple[Offsets, Ints, Ints],
) -> None:  # fmt: skip
    """List the rows of each token that lie in a table, and the entries of its other rows.

    ptr [T + 1], ids [ptr[T]] (-1 for nothing); tables [R] number of a row in the table, -1 outside.  hot is
    (ptr [T + 1], ids), cold (ptr [T + 1], places, cols); lists too short are not written, so that a first call with
    empty ones counts.
    """
    hot_ptr, hot_ids = hot
    cold_ptr, cold_places, cold_cols = cold
    n_hot, n_cold = 0, 0
    hot_ptr[0] = cold_ptr[0] = 0
    # every row of a token goes to one of the two lists, and is counted where the list is too short
    for t in range(ptr.shape[0] - 1):
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            if r < 0:
                continue
            if tables[r] >= 0:
                if n_hot < hot_ids.shape[0]:
                    hot_ids[n_hot] = tables[r]
                n_hot += 1
            else:
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    if n_cold < cold_cols.shape[0]:
                        cold_places[n_cold] = q
                        cold_cols[n_cold] = cols[q]
                    n_cold += 1
        hot_ptr[t + 1] = n_hot
        cold_ptr[t + 1] = n_cold


@kernel
def to_table(rows: Ints, row_ptr: Offsets, cols: Ints, values: Floats, table: Floats) -> None:
    """Write sparse rows to table [H, C]: row rows[h] to table[h], zeros where it has no entry."""
    for h in range(rows.shape[0]):
        target = table[h]
        for c in range(target.shape[0]):
            target[c] = 0
        for q in range(row_ptr[rows[h]], row_ptr[rows[h] + 1]):
            target[cols[q]] = values[q]


@kernel
def from_table(rows: Ints, row_ptr: Offsets, cols: Ints, grad: Floats, table: Floats) -> None:
    """Add the entries of table [H, C] that `to_table` took from sparse rows to them."""
    for h in range(rows.shape[0]):
        source = table[h]
        for q in range(row_ptr[rows[h]], row_ptr[rows[h] + 1]):
            grad[q] += source[cols[q]]


@kernel
def transpose(ptr: Offsets, ids: Ints, out_ptr: Offsets, out: Ints) -> None:
    """Turn bags of features, ptr [B + 1] and ids, into the bags of each feature, out_ptr [F + 1] and out."""
    for f in range(out_ptr.shape[0]):
        out_ptr[f] = 0
    for p in range(ptr[ptr.shape[0] - 1]):
        out_ptr[ids[p] + 1] += 1
    for f in range(out_ptr.shape[0] - 1):
        out_ptr[f + 1] += out_ptr[f]
    for b in range(ptr.shape[0] - 1):
        for p in range(ptr[b], ptr[b + 1]):
            out[out_ptr[ids[p]]] = b
            out_ptr[ids[p]] += 1
    for f in range(out_ptr.shape[0] - 1, 0, -1):
        out_ptr[f] = out_ptr[f - 1]
    out_ptr[0] = 0


@kernel
def expand(bags: Ints, attrs: Ints, bag_ptr: Offsets, bag_attrs: Ints, ptr: Offsets, ids: Ints) -> int:
    """Write each token's feature ids as a ragged list and return their number.

    bags [T, B] and attrs [T, A] (-1 for nothing) are a token's bags and single features; ptr [T + 1] and ids, long
    enough for all, receive the list.
    """
    n = 0
    ptr[0] = 0
    for t in range(bags.shape[0]):
        for s in range(bags.shape[1]):
            b = bags[t, s]
            for p in range(bag_ptr[b], bag_ptr[b + 1]):
                ids[n] = bag_attrs[p]
                n += 1
        for s in range(attrs.shape[1]):
            if attrs[t, s] >= 0:
                ids[n] = attrs[t, s]
                n += 1
        ptr[t + 1] = n
    return n


@kernel
def mark_columns(ids: Ints, columns: Ints, marks: NDArray[np.uint64]) -> None:
    """Set bit ``columns[t]`` of ``marks[r]`` for every row r that t switches on.

    ids [T, S], columns [T] (negative: nothing is marked), marks [R, ceil(C / 64)] uint64.
    """
    for t in range(ids.shape[0]):
        c = columns[t]
        if c >= 0:
            word = c >> 6
            bit = np.uint64(1) << np.uint64(c & 63)
            for s in range(ids.shape[1]):
                r = ids[t, s]
                if r >= 0:
                    marks[r, word] |= bit


@kernel
def spread_marks(ptr: Offsets, ids: Ints, bag_marks: NDArray[np.uint64], marks: NDArray[np.uint64]) -> None:
    """Add the marks of each bag, bag_marks [B, W], to its features, marks [F, W]."""
    for b in range(ptr.shape[0] - 1):
        for p in range(ptr[b], ptr[b + 1]):
            for w in range(marks.shape[1]):
                marks[ids[p], w] |= bag_marks[b, w]


@kernel
def add_products(ptr: Offsets, ids: Ints, values: NDArray[np.float64], weights: Floats, out: Floats) -> None:
    """Add the rows ids [ptr[T]] of weights [R, C], each times its value [ptr[T]], to out [T, C]; -1 is no row."""
    for t in range(ptr.shape[0] - 1):
        for k in range(ptr[t], ptr[t + 1]):
            if ids[k] >= 0:
                for j in range(out.shape[1]):
                    out[t, j] += values[k] * weights[ids[k], j]


@kernel
def scatter_products(ptr: Offsets, ids: Ints, values: NDArray[np.float64], d: Floats, grad: Floats) -> None:
    """Transpose of `add_products`: d [T, C], grad [R, C]."""
    for t in range(ptr.shape[0] - 1):
        for k in range(ptr[t], ptr[t + 1]):
            if ids[k] >= 0:
                for j in range(d.shape[1]):
                    grad[ids[k], j] += values[k] * d[t, j]
