"""Sums of weight rows, and their transposes.

With x_t the set of rows that position t switches on, the forward kernels compute ``out[t] += sum of W[r], r in x_t``
and the backward kernels ``G[r] += factor * d[t], r in x_t``.  Sets come with a fixed width (``ids`` [T, S], -1 for
nothing) or ragged (``ids[ptr[t]:ptr[t + 1]]``).  Weights come dense, W [R, C], or sparse: row r holds
``values[row_ptr[r]:row_ptr[r + 1]]`` at the columns ``cols`` of the same range.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import kernel


@kernel
def add_fixed(ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ids [T, S], weights [R, C], out [T, C]."""
    n_columns = weights.shape[1]
    for t in range(ids.shape[0]):
        target = out[t]
        for s in range(ids.shape[1]):
            r = ids[t, s]
            if r >= 0:
                row = weights[r]
                for c in range(n_columns):
                    target[c] += row[c]


@kernel
def scatter_fixed(ids: Ints, d: Floats, factor: float, grad: Floats) -> None:
    """Transpose of `add_fixed`: d [T, C], grad [R, C]."""
    n_columns = grad.shape[1]
    f = d.dtype.type(factor)
    for t in range(ids.shape[0]):
        source = d[t]
        for s in range(ids.shape[1]):
            r = ids[t, s]
            if r >= 0:
                row = grad[r]
                for c in range(n_columns):
                    row[c] += f * source[c]


@kernel
def add_ragged(ptr: Offsets, ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ptr [T + 1], ids [ptr[T]], weights [R, C], out [T, C]."""
    n_columns = weights.shape[1]
    for t in range(ptr.shape[0] - 1):
        target = out[t]
        for p in range(ptr[t], ptr[t + 1]):
            row = weights[ids[p]]
            for c in range(n_columns):
                target[c] += row[c]


@kernel
def scatter_ragged(ptr: Offsets, ids: Ints, d: Floats, factor: float, grad: Floats) -> None:
    """Transpose of `add_ragged`: d [T, C], grad [R, C]."""
    n_columns = grad.shape[1]
    f = d.dtype.type(factor)
    for t in range(ptr.shape[0] - 1):
        source = d[t]
        for p in range(ptr[t], ptr[t + 1]):
            row = grad[ids[p]]
            for c in range(n_columns):
                row[c] += f * source[c]


@kernel
def add_fixed_sparse(ids: Ints, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats) -> None:
    """Add sparse rows: ids [T, S], row_ptr [R + 1], cols and values [row_ptr[R]], out [T, C]."""
    for t in range(ids.shape[0]):
        target = out[t]
        for s in range(ids.shape[1]):
            r = ids[t, s]
            if r >= 0:
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    target[cols[q]] += values[q]


@kernel
def scatter_fixed_sparse(ids: Ints, row_ptr: Offsets, cols: Ints, d: Floats, factor: float, grad: Floats) -> None:
    """Transpose of `add_fixed_sparse`: d [T, C], grad [row_ptr[R]]."""
    f = d.dtype.type(factor)
    for t in range(ids.shape[0]):
        source = d[t]
        for s in range(ids.shape[1]):
            r = ids[t, s]
            if r >= 0:
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    grad[q] += f * source[cols[q]]


@kernel
def add_ragged_sparse(ptr: Offsets, ids: Ints, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats) -> None:
    """Add sparse rows of ragged sets: ptr [T + 1], ids [ptr[T]], out [T, C]."""
    for t in range(ptr.shape[0] - 1):
        target = out[t]
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            for q in range(row_ptr[r], row_ptr[r + 1]):
                target[cols[q]] += values[q]


@kernel
def scatter_ragged_sparse(
    ptr: Offsets, ids: Ints, row_ptr: Offsets, cols: Ints, d: Floats, factor: float, grad: Floats
) -> None:
    """Transpose of `add_ragged_sparse`: d [T, C], grad [row_ptr[R]]."""
    f = d.dtype.type(factor)
    for t in range(ptr.shape[0] - 1):
        source = d[t]
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            for q in range(row_ptr[r], row_ptr[r + 1]):
                grad[q] += f * source[cols[q]]


@kernel
def expand(bags: Ints, attrs: Ints, bag_ptr: Offsets, bag_attrs: Ints, ptr: Offsets, ids: Ints) -> int:
    """Write each token's attribute ids as a ragged list and return their number.

    bags [T, B] and attrs [T, A] (-1 for nothing) are a token's bags and single attributes; ptr [T + 1] and ids, long
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
def mark_columns(ids: Ints, columns: Ints, marks: Floats) -> None:
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
def spread_marks(ptr: Offsets, ids: Ints, bag_marks: Floats, marks: Floats) -> None:
    """Add the marks of each bag, bag_marks [B, W], to its attributes, marks [F, W]."""
    for b in range(ptr.shape[0] - 1):
        for p in range(ptr[b], ptr[b + 1]):
            for w in range(marks.shape[1]):
                marks[ids[p], w] |= bag_marks[b, w]


@kernel
def marks_to_rows(marks: Floats, n_columns: int, row_ptr: Offsets, cols: Ints) -> int:
    """Turn bit marks [R, W] into sparse rows; return the number of entries.

    row_ptr [R + 1] is always written; cols only where it is long enough, so a first call with an empty array counts.
    """
    n = 0
    row_ptr[0] = 0
    for r in range(marks.shape[0]):
        for c in range(n_columns):
            if marks[r, c >> 6] & (np.uint64(1) << np.uint64(c & 63)):
                if n < cols.shape[0]:
                    cols[n] = c
                n += 1
        row_ptr[r + 1] = n
    return n
