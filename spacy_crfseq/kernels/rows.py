"""Sums of weight rows, and their transposes.

With x_t the set of rows that position t switches on, the forward kernels compute ``out[t] += sum of W[r], r in x_t``
and the backward kernels ``G[r] += factor * d[t], r in x_t``.  Sets come with a fixed width (``ids`` [T, S], -1 for
nothing) or ragged (``ids[ptr[t]:ptr[t + 1]]``).  Weights come dense, W [R, C], or sparse: row r holds
``values[row_ptr[r]:row_ptr[r + 1]]`` at the columns ``cols`` of the same range.

Dense rows are added in LLVM: with loops in plain numba that prefetch as far ahead, sums took 2.4 times as long and
their transposes 1.6 times (22 columns, float32, AVX-512), and both are most of an iteration over all data.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ..types import Floats, Ints, Offsets
from ._compile import VECTOR_BYTES, fetch, intrinsic
from .jit import internal, kernel, prefetch

WIDE = VECTOR_BYTES // 4
"""Numbers in a vector where a row has as many."""
NARROW = 8
"""Numbers in a vector where a row has fewer than `WIDE`."""
AHEAD = 32
"""Places in a list of rows between the one that is read and the one that is fetched into the cache."""
AHEAD_SPARSE = 8
"""The same for sparse rows."""


# Long, since it holds the types and the code generators of two builtins that share their address arithmetic.
def _pair_kernels(size: int) -> tuple[Any, Any]:
    """Return two functions on a pair of vectors of `size` neighbours in each row, which begin at columns a and b.

    The vectors of a pair may overlap, even coincide, since both are read before one is written; so rows of any length
    from `size` on can be cut into pairs.  The sums of a token stay in registers, which a loop over columns inside a
    loop over rows would write to memory for every row.
    """

    def cells(context: Any, builder: Any, array: Any, dtype: Any, row: Any, columns: Any) -> list[Any]:
        kind = ir.VectorType(context.get_value_type(dtype), size).as_pointer()
        begin = builder.mul(row, builder.extract_value(array.shape, 1))
        return [builder.bitcast(builder.gep(array.data, [builder.add(begin, c)]), kind) for c in columns]

    def arrays(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
        return [context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 3, 6)]

    def over_rows(builder: Any, ids: Any, begin: Any, end: Any, ahead: Any, body: Any) -> None:
        one = ir.Constant(begin.type, 1)
        last = builder.sub(builder.extract_value(ids.shape, 0), one)
        with cgutils.for_range_slice(builder, begin, end, one, inc=True) as (place, _):
            later = builder.add(place, ir.Constant(begin.type, AHEAD))
            later = builder.select(builder.icmp_signed("<", later, last), later, last)
            ahead(builder.sext(builder.load(builder.gep(ids.data, [later])), ir.IntType(64)))
            row = builder.sext(builder.load(builder.gep(ids.data, [place])), ir.IntType(64))
            with cgutils.if_likely(builder, builder.icmp_signed(">=", row, ir.Constant(row.type, 0))):
                body(row)

    def fetch_row(context: Any, builder: Any, array: Any, dtype: Any, row: Any, columns: Any) -> None:
        last = builder.add(columns[1], ir.Constant(columns[1].type, size - 1))
        for cell in cells(context, builder, array, dtype, row, [*columns, last]):
            fetch(builder, cell)

    @intrinsic
    def add(typing_context: Any, ids: Any, begin: Any, end: Any, weights: Any, a: Any, b: Any, out: Any, t: Any) -> Any:
        """Add the rows ids[begin:end] of weights [R, C] to row t of out [T, C], in both vectors."""
        index = types.intp
        signature = types.void(ids, index, index, weights, index, index, out, index)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers, table, target = arrays(context, builder, signature, args)
            outs = cells(context, builder, target, weights.dtype, args[7], args[4:6])
            sums = [cgutils.alloca_once(builder, out.type.pointee) for out in outs]
            for total, out in zip(sums, outs, strict=True):
                builder.store(builder.load(out, align=4), total)

            def body(row: Any) -> None:
                sources = cells(context, builder, table, weights.dtype, row, args[4:6])
                for total, source in zip(sums, sources, strict=True):
                    builder.store(builder.fadd(builder.load(total), builder.load(source, align=4)), total)

            ahead = partial(fetch_row, context, builder, table, weights.dtype, columns=args[4:6])
            over_rows(builder, numbers, args[1], args[2], ahead, body)
            for total, out in zip(sums, outs, strict=True):
                builder.store(builder.load(total), out, align=4)
            return context.get_dummy_value()

        return signature, generate

    @intrinsic
    def scatter(typing_context: Any, ids: Any, begin: Any, end: Any, grad: Any, a: Any, b: Any, d: Any, t: Any) -> Any:
        """Add row t of d [T, C] to the rows ids[begin:end] of grad [R, C], in both vectors."""
        index = types.intp
        signature = types.void(ids, index, index, grad, index, index, d, index)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers, table, source = arrays(context, builder, signature, args)
            places = cells(context, builder, source, grad.dtype, args[7], args[4:6])
            added = [builder.load(place, align=4) for place in places]

            def body(row: Any) -> None:
                targets = cells(context, builder, table, grad.dtype, row, args[4:6])
                new = [builder.fadd(builder.load(x, align=4), y) for x, y in zip(targets, added, strict=True)]
                for target, value in zip(targets, new, strict=True):
                    builder.store(value, target, align=4)

            ahead = partial(fetch_row, context, builder, table, grad.dtype, columns=args[4:6])
            over_rows(builder, numbers, args[1], args[2], ahead, body)
            return context.get_dummy_value()

        return signature, generate

    return add, scatter


_add_wide, _scatter_wide = _pair_kernels(WIDE)
_add_narrow, _scatter_narrow = _pair_kernels(NARROW)


@internal
def _add_token(ids: Ints, begin: int, end: int, weights: Floats, out: Floats, t: int) -> None:
    """Add the rows ids[begin:end] to out[t]; negative ids stand for nothing."""
    n = weights.shape[1]
    if n >= WIDE:
        # pairs, so laid that only the vectors of the last one overlap; the first stands alone where the count is odd
        column = 0
        if (n + WIDE - 1) // WIDE % 2 == 1:
            _add_wide(ids, begin, end, weights, 0, 0, out, t)
            column = WIDE
        while column < n:
            _add_wide(ids, begin, end, weights, column, min(column + WIDE, n - WIDE), out, t)
            column += 2 * WIDE
    elif n >= NARROW:
        _add_narrow(ids, begin, end, weights, 0, n - NARROW, out, t)
    else:
        for p in range(begin, end):
            if ids[p] >= 0:
                for c in range(n):
                    out[t, c] += weights[ids[p], c]


@internal
def _scatter_token(ids: Ints, begin: int, end: int, grad: Floats, d: Floats, t: int) -> None:
    """Add d[t] to the rows ids[begin:end] of grad, cut into vectors as in `_add_token`."""
    n = grad.shape[1]
    if n >= WIDE:
        column = 0
        if (n + WIDE - 1) // WIDE % 2 == 1:
            _scatter_wide(ids, begin, end, grad, 0, 0, d, t)
            column = WIDE
        while column < n:
            _scatter_wide(ids, begin, end, grad, column, min(column + WIDE, n - WIDE), d, t)
            column += 2 * WIDE
    elif n >= NARROW:
        _scatter_narrow(ids, begin, end, grad, 0, n - NARROW, d, t)
    else:
        for p in range(begin, end):
            if ids[p] >= 0:
                for c in range(n):
                    grad[ids[p], c] += d[t, c]


def scatter_fixed(ids: Ints, d: Floats, grad: Floats) -> None:
    """Transpose of `gather.add_fixed`: d [T, C], grad [R, C]."""
    scatter_ragged(np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1], ids.reshape(-1), d, grad)


@kernel
def add_ragged(ptr: Offsets, ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ptr [T + 1], ids [ptr[T]], weights [R, C], out [T, C]."""
    for t in range(ptr.shape[0] - 1):
        _add_token(ids, ptr[t], ptr[t + 1], weights, out, t)


@kernel
def scatter_ragged(ptr: Offsets, ids: Ints, d: Floats, grad: Floats) -> None:
    """Transpose of `add_ragged`: d [T, C], grad [R, C]."""
    for t in range(ptr.shape[0] - 1):
        _scatter_token(ids, ptr[t], ptr[t + 1], grad, d, t)


@kernel
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


@kernel
def add_entries(ptr: Offsets, places: Ints, cols: Ints, values: Floats, out: Floats) -> None:
    """Add single weights: ``out[t, cols[p]] += values[places[p]]`` for p from ptr[t] to ptr[t + 1]; out [T, C]."""
    for t in range(ptr.shape[0] - 1):
        target = out[t]
        for p in range(np.uint64(ptr[t]), np.uint64(ptr[t + 1])):  # unsigned, as in `add_ragged_sparse`
            target[np.uint32(cols[p])] += values[np.uint32(places[p])]


@kernel
def scatter_entries(ptr: Offsets, places: Ints, cols: Ints, d: Floats, grad: Floats) -> None:
    """Transpose of `add_entries`: d [T, C]."""
    for t in range(ptr.shape[0] - 1):
        source = d[t]
        for p in range(np.uint64(ptr[t]), np.uint64(ptr[t + 1])):  # unsigned, as in `add_ragged_sparse`
            grad[np.uint32(places[p])] += source[np.uint32(cols[p])]


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
def from_table(rows: Ints, row_ptr: Offsets, cols: Ints, table: Floats, grad: Floats) -> None:
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
    """Add the marks of each bag, bag_marks [B, W], to its features, marks [F, W]."""
    for b in range(ptr.shape[0] - 1):
        for p in range(ptr[b], ptr[b + 1]):
            for w in range(marks.shape[1]):
                marks[ids[p], w] |= bag_marks[b, w]
