"""The loops that are written in LLVM, since plain numba cannot keep their sums in vector registers.

Products of a small matrix with a tile [P, LANES] are what `blocks` spends its time on.  PANEL rows of a product stay in
registers until they are finished, and tokens are transposed eight at a time: loops in plain numba took 3.5 times as
long for the products, 1.6 times for the corners and 2.7 times for the squares.  Sums of rows of weights took 2.4 times
as long and their transposes 1.6 times.  (22 labels, float32, AVX-512, each alone and from warm caches.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding
import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils, types

from ..types import Floats, Ints
from ._compile import compile_internal

intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.extending.intrinsic
"""Lets a function write the LLVM code of a call.

It takes numba's typing context and the types of the arguments, and returns a signature and a code generator.
"""


def _vector_bytes() -> int:
    """Return the length in bytes of the vectors of the processor that numba compiles for, 32 where it is unknown."""
    features: str | None = getattr(numba.config, "CPU_FEATURES", None)
    if features is not None:  # set by NUMBA_CPU_FEATURES, or by NUMBA_CPU_NAME=generic
        return 64 if "+avx512f" in features else 32
    try:
        return 64 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 32
    except RuntimeError:  # LLVM cannot tell
        return 32


VECTOR_BYTES = _vector_bytes()
LANES = VECTOR_BYTES // 2
"""Sequences in a block: two vectors of float32."""
PANEL = 4
"""Rows of a product that are held in registers together."""
AHEAD = 4
"""Steps between the scores that are read and those that are fetched into the cache: lanes are too many streams for
the processor to follow by itself."""
SQUARE = 8
"""Tokens and labels that are transposed together."""

WIDE, NARROW = VECTOR_BYTES // 4, 8
"""Numbers in a vector where a row has as many, and where it has fewer."""
ROWS_AHEAD = 32
"""Places in a list of rows between the one that is read and the one that is fetched into the cache."""


def fetch(builder: Any, pointer: Any) -> None:
    """Write the instruction that asks for the cache line of a pointer, which may lie outside of its array."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [builder.bitcast(pointer, byte), number(0), number(3), number(1)])  # to read, keep, data


@intrinsic
def prefetch(typing_context: Any, array: Any, i: Any, j: Any) -> Any:
    """See `jit.prefetch`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        struct = context.make_array(kind)(context, builder, arguments[0])
        indices = [
            context.cast(builder, value, given, types.intp)
            for value, given in zip(arguments[1:], signature.args[1:], strict=True)
        ][: kind.ndim]
        fetch(builder, cgutils.get_item_pointer(context, builder, kind, struct, indices, wraparound=False))

    return types.void(array, i, j), generate


Finish = Callable[[Any, Any, list[Any], list[Any]], tuple[list[Any], Any]]
"""The use of a vector of a product, given (builder, vector, numbers of its lanes, numbers at its place in tiles):
the numbers that are written to its place in out and in the first tiles, and what is added to the totals of its lanes.
"""


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the struct of an array, or a list of those of a tuple of arrays."""
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        parts = cgutils.unpack_tuple(builder, value, len(kinds))
        return [_array(context, builder, kind_, part) for kind_, part in zip(kinds, parts, strict=True)]
    return context.make_array(kind)(context, builder, value)


def _place(builder: Any, array: Any, offset: Any, vector: Any) -> Any:
    """Return a pointer to a vector in the data of an array, `offset` numbers from its beginning."""
    return builder.bitcast(builder.gep(array.data, [offset]), vector.as_pointer())


def _load(builder: Any, array: Any, offset: Any, vector: Any) -> Any:
    return builder.load(_place(builder, array, offset, vector), align=4)


def _store(builder: Any, value: Any, array: Any, offset: Any) -> None:
    builder.store(value, _place(builder, array, offset, value.type), align=4)


def _splat(builder: Any, value: Any, size: int) -> Any:
    vector, number = ir.VectorType(value.type, size), ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(number, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(number, size), [0] * size))


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return builder.fadd(builder.fmul(x, y, flags=["contract"]), z, flags=["contract"])


def _number(value: int) -> Any:
    return ir.Constant(ir.IntType(64), value)


def _vector_of(array: Any) -> Any:
    """Return the type of the vectors for an array's numbers."""
    number = ir.FloatType() if array.dtype.bitwidth == 32 else ir.DoubleType()
    return ir.VectorType(number, VECTOR_BYTES // (array.dtype.bitwidth // 8))


def _zeros(builder: Any, vector: Any, columns: int) -> list[list[Any]]:
    """Return PANEL rows of vectors of zero, which LLVM keeps in registers."""
    rows = [[cgutils.alloca_once(builder, vector) for _ in range(columns)] for _ in range(PANEL)]
    for cell in (cell for row in rows for cell in row):
        builder.store(ir.Constant(vector, None), cell)
    return rows


def _panel(
    builder: Any, matrices: list[Any], begin: Any, tiles: list[Any], sizes: list[Any], vector: Any
) -> list[list[Any]]:
    """Return PANEL rows ``sum_i matrix[begin + i * PANEL + r] * tile[i]``, i < n, as vectors kept in registers.

    That is the sum over all matrices with their tiles and n.
    """
    vectors = range(LANES // vector.count)
    sums = _zeros(builder, vector, len(vectors))
    for matrix, tile, n in zip(matrices, tiles, sizes, strict=True):
        with cgutils.for_range(builder, n) as loop:
            first = builder.mul(loop.index, _number(LANES))
            values = [_load(builder, tile, builder.add(first, _number(v * vector.count)), vector) for v in vectors]
            weights = builder.add(begin, builder.mul(loop.index, _number(PANEL)))
            for r in range(PANEL):
                weight = builder.load(builder.gep(matrix.data, [builder.add(weights, _number(r))]))
                splat = _splat(builder, weight, vector.count)
                for v in vectors:
                    builder.store(_fma(builder, splat, values[v], builder.load(sums[r][v])), sums[r][v])
    return [[builder.load(cell) for cell in row] for row in sums]


def _product(finish: Finish) -> Any:
    """Return a function that computes PANEL rows of the product of a matrix and a tile, and finishes them.

    It takes (out [P, LANES], number of the first row, matrix as `blocks` packs it, tile [P, LANES], rows n of the tile
    that count, a tuple of arrays [LANES], a tuple of tiles [P, LANES], totals [LANES]).  Tuples of matrices, of their
    tiles and of n make a sum of products.
    """

    @intrinsic
    def rows(typing: Any, out: Any, row: Any, matrix: Any, tile: Any, n: Any, lanes: Any, tiles: Any, sums: Any) -> Any:
        several = isinstance(n, types.BaseTuple)
        signature = types.void(out, types.intp, matrix, tile, n if several else types.intp, lanes, tiles, sums)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = _vector_of(out)
            target, tables, sources, by_lane, by_place, totals = (
                _array(context, builder, signature.args[k], args[k]) for k in (0, 2, 3, 5, 6, 7)
            )
            begin = builder.mul(args[1], builder.extract_value(target.shape, 0))
            if several:
                product = _panel(builder, tables, begin, sources, cgutils.unpack_tuple(builder, args[4]), vector)
            else:
                product = _panel(builder, [tables], begin, [sources], [args[4]], vector)
            for v in range(LANES // vector.count):
                lane = _number(v * vector.count)
                numbers = [_load(builder, array, lane, vector) for array in by_lane]
                total = _load(builder, totals, lane, vector)
                for r in range(PANEL):
                    place = builder.add(builder.mul(builder.add(args[1], _number(r)), _number(LANES)), lane)
                    there = [_load(builder, array, place, vector) for array in by_place]
                    written, added = finish(builder, product[r][v], numbers, there)
                    for value, array in zip(written, [target, *by_place], strict=False):
                        _store(builder, value, array, place)
                    total = builder.fadd(total, added)
                _store(builder, total, totals, lane)
            return context.get_dummy_value()

        return signature, generate

    return rows


def _next_u(builder: Any, value: Any, lanes: list[Any], tiles: list[Any]) -> tuple[list[Any], Any]:
    """Of (first, scale) and (e,): u = (first + product) scale e; totals of u."""
    (first, scale), (e,) = lanes, tiles
    u = builder.fmul(builder.fmul(builder.fadd(value, first), scale), e)
    return [u], u


def _next_v(builder: Any, value: Any, lanes: list[Any], tiles: list[Any]) -> tuple[list[Any], Any]:
    """Of (first, scale) and (e, u): g = first + product, v = e g scale; u g goes over e; totals of that."""
    (first, scale), (e, u) = lanes, tiles
    g = builder.fadd(value, first)
    marginal = builder.fmul(g, u)
    return [builder.fmul(builder.fmul(g, scale), e), marginal], marginal


def _next_v_and_g(builder: Any, value: Any, lanes: list[Any], tiles: list[Any]) -> tuple[list[Any], Any]:
    """As `_next_v`, of (first, scale) and (g, e, u), but g is written to its tile and e stays."""
    (first, scale), (_, e, u) = lanes, tiles
    g = builder.fadd(value, first)
    return [builder.fmul(builder.fmul(g, scale), e), g], builder.fmul(g, u)


def _next_a(builder: Any, value: Any, lanes: list[Any], tiles: list[Any]) -> tuple[list[Any], Any]:
    """Of (scale,) and (e, u, g, n): a = e product scale + u n; totals of a g."""
    (scale,), (e, u, g, n) = lanes, tiles
    a = _fma(builder, u, n, builder.fmul(builder.fmul(value, scale), e))
    return [a], builder.fmul(a, g)


def _next_w(builder: Any, h: Any, lanes: list[Any], tiles: list[Any]) -> tuple[list[Any], Any]:
    """Of (mean, scale) and (e, g, u, a, n), with the product h: w = e scale (h + g (n - mean)).

    E[S 1(y_t = k)] = a g + u h goes over e, and to the totals; v = e g scale goes over g.
    """
    (mean, scale), (e, g, u, a, n) = lanes, tiles
    potential = builder.fmul(e, scale)
    v = builder.fmul(potential, g)
    covariance = _fma(builder, u, h, builder.fmul(a, g))
    return [_fma(builder, v, builder.fsub(n, mean), builder.fmul(potential, h)), covariance, v], covariance


next_u, next_v, next_v_and_g, next_a, next_w = map(_product, (_next_u, _next_v, _next_v_and_g, _next_a, _next_w))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose as many vectors as they have elements: each of log2(size) rounds interleaves two halves."""
    size = len(rows)
    kind = ir.VectorType(ir.IntType(32), size)
    halves = [ir.Constant(kind, [first + i // 2 + size * (i % 2) for i in range(size)]) for first in (0, size // 2)]
    for _ in range(size.bit_length() - 1):
        pairs = zip(rows[: size // 2], rows[size // 2 :], strict=True)
        rows = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in halves]
    return rows


def _cell(builder: Any, scores: Any, tokens: Any, column: Any, lane: Any) -> Any:
    """Return where the numbers of a lane begin in scores [T, L], and fetch those of a later token."""
    token = builder.load(builder.gep(tokens.data, [lane]))
    width = builder.extract_value(scores.shape, 1)
    place = builder.add(builder.mul(token, width), column)
    fetch(builder, builder.gep(scores.data, [builder.add(place, builder.mul(width, _number(AHEAD)))]))
    return place


def _square(builder: Any, scores: Any, tokens: Any, column: Any, lane: Any) -> tuple[list[Any], list[Any]]:
    """Return where SQUARE lanes begin in scores [T, L], as functions, and where SQUARE rows begin in a tile."""
    lanes = [builder.add(lane, _number(i)) for i in range(SQUARE)]
    rows = [builder.add(builder.mul(builder.add(column, _number(k)), _number(LANES)), lane) for k in range(SQUARE)]
    return [partial(_cell, builder, scores, tokens, column, lane) for lane in lanes], rows


@intrinsic
def load_square(typing_context: Any, source: Any, tokens: Any, column: Any, tile: Any, lane: Any) -> Any:
    """Write source[tokens[lane + i], column + k] to tile[column + k, lane + i] for i and k below SQUARE.

    source [T, L], tokens [LANES] int64, tile [P, LANES].
    """
    signature = types.void(source, tokens, types.intp, tile, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scores, numbers, target = (_array(context, builder, signature.args[k], args[k]) for k in (0, 1, 3))
        vector = ir.VectorType(_vector_of(tile).element, SQUARE)
        cells, places = _square(builder, scores, numbers, args[2], args[4])
        rows = _transpose(builder, [_load(builder, scores, cell(), vector) for cell in cells])
        for row, place in zip(rows, places, strict=True):
            _store(builder, row, target, place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_square(typing_context: Any, target: Any, tokens: Any, column: Any, tile: Any, lane: Any, skip: Any) -> Any:
    """Add tile[column + k, lane + i] to target[tokens[lane + i], column + k] for i below SQUARE and skip <= k < SQUARE.

    Tokens that occur more than once are added to one after another.  Shapes as in `load_square`.
    """
    signature = types.void(target, tokens, types.intp, tile, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scores, numbers, source = (_array(context, builder, signature.args[k], args[k]) for k in (0, 1, 3))
        vector = ir.VectorType(_vector_of(tile).element, SQUARE)
        cells, places = _square(builder, scores, numbers, args[2], args[4])
        labels = ir.Constant(ir.VectorType(ir.IntType(64), SQUARE), list(range(SQUARE)))
        wanted = builder.icmp_signed(">=", labels, _splat(builder, args[5], SQUARE))
        rows = _transpose(builder, [_load(builder, source, place, vector) for place in places])
        for row, cell in zip(rows, cells, strict=True):
            added, place = builder.select(wanted, row, ir.Constant(vector, None)), cell()
            _store(builder, builder.fadd(_load(builder, scores, place, vector), added), scores, place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def lane_maxima(typing_context: Any, tile: Any, n: Any, tops: Any) -> Any:
    """Write to tops [LANES] the maxima over the first n rows of tile [P, LANES]."""
    signature = types.void(tile, types.intp, tops)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = (_array(context, builder, signature.args[k], args[k]) for k in (0, 2))
        vector = _vector_of(tile)
        lanes = [_number(lane) for lane in range(0, LANES, vector.count)]
        largest = [cgutils.alloca_once(builder, vector) for _ in lanes]
        for top, lane in zip(largest, lanes, strict=True):
            builder.store(_load(builder, source, lane, vector), top)
        with cgutils.for_range(builder, args[1]) as loop:
            row = builder.mul(loop.index, _number(LANES))
            for top, lane in zip(largest, lanes, strict=True):
                value, best = _load(builder, source, builder.add(row, lane), vector), builder.load(top)
                builder.store(builder.select(builder.fcmp_ordered(">", value, best), value, best), top)
        for top, lane in zip(largest, lanes, strict=True):
            _store(builder, builder.load(top), target, lane)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_corner(typing_context: Any, out: Any, u: Any, v: Any, row: Any, column: Any, steps: Any) -> Any:
    """Add to `out` [P, P] the PANEL x PANEL corner at (row, column) of ``sum_t u[t] v[t + 1]'``, t < steps.

    u and v [more than steps, P, LANES]; the sum runs over lanes, too.
    """
    signature = types.void(out, u, v, types.intp, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, left, right = (_array(context, builder, signature.args[k], args[k]) for k in range(3))
        vector, panel = _vector_of(u), range(PANEL)
        sums = _zeros(builder, vector, PANEL)
        tile = builder.mul(builder.extract_value(left.shape, 1), _number(LANES))
        with cgutils.for_range(builder, args[5]) as loop:
            corner = builder.mul(loop.index, tile)
            begins = builder.add(corner, builder.mul(args[3], _number(LANES)))
            ends = builder.add(builder.add(corner, tile), builder.mul(args[4], _number(LANES)))
            for lanes in range(0, LANES, vector.count):
                places = [_number(r * LANES + lanes) for r in panel]
                before = [_load(builder, left, builder.add(begins, place), vector) for place in places]
                after = [_load(builder, right, builder.add(ends, place), vector) for place in places]
                for i in panel:
                    for j in panel:
                        builder.store(_fma(builder, before[i], after[j], builder.load(sums[i][j])), sums[i][j])
        kind = ir.FunctionType(vector.element, [vector.element, vector])
        name = f"llvm.vector.reduce.fadd.v{vector.count}f{u.dtype.bitwidth}"
        reduce = cgutils.get_or_insert_function(builder.module, kind, name)
        for i in panel:
            for j in panel:
                line = builder.mul(builder.add(args[3], _number(i)), builder.extract_value(target.shape, 1))
                pointer = builder.gep(target.data, [builder.add(line, builder.add(args[4], _number(j)))])
                initial = [ir.Constant(vector.element, 0.0), builder.load(sums[i][j])]
                total = builder.call(reduce, initial, fastmath=["reassoc"])
                builder.store(builder.fadd(builder.load(pointer), total), pointer)
        return context.get_dummy_value()

    return signature, generate


def _pair(size: int, scatter: bool) -> Any:
    """Return a function on a pair of vectors of `size` neighbours in each row, which begin at columns a and b.

    It adds the rows ids[begin:end] of a table [R, C] to row t of out [T, C], or if `scatter` that row to those.  The
    vectors of a pair may overlap, even coincide, since both are read before one is written; so rows of any length from
    `size` on can be cut into pairs.  The sums of a token stay in registers, which a loop over columns inside a loop
    over rows would write to memory for every row.
    """

    @intrinsic
    def rows(typing_context: Any, ids: Any, begin: Any, end: Any, table: Any, a: Any, b: Any, out: Any, t: Any) -> Any:
        index = types.intp
        signature = types.void(ids, index, index, table, index, index, out, index)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers, source, target = (_array(context, builder, signature.args[k], args[k]) for k in (0, 3, 6))
            kind = ir.VectorType(context.get_value_type(table.dtype), size).as_pointer()

            def cells(array: Any, row: Any, columns: Any) -> list[Any]:
                first = builder.mul(row, builder.extract_value(array.shape, 1))
                return [builder.bitcast(builder.gep(array.data, [builder.add(first, c)]), kind) for c in columns]

            def row_at(place: Any) -> Any:
                return builder.sext(builder.load(builder.gep(numbers.data, [place])), ir.IntType(64))

            columns, step = args[4:6], _number(1)
            own = cells(target, args[7], columns)
            sums = [cgutils.alloca_once_value(builder, builder.load(cell, align=4)) for cell in own]
            last = builder.sub(builder.extract_value(numbers.shape, 0), step)
            with cgutils.for_range_slice(builder, args[1], args[2], step, inc=True) as (place, _):
                later = builder.add(place, _number(ROWS_AHEAD))
                ahead = row_at(builder.select(builder.icmp_signed("<", later, last), later, last))
                for cell in cells(source, ahead, [*columns, builder.add(columns[1], _number(size - 1))]):
                    fetch(builder, cell)
                row = row_at(place)
                with cgutils.if_likely(builder, builder.icmp_signed(">=", row, _number(0))):
                    theirs = cells(source, row, columns)
                    pairs = zip(sums, theirs, strict=True)
                    new = [builder.fadd(builder.load(x), builder.load(y, align=4)) for x, y in pairs]
                    for value, cell in zip(new, theirs if scatter else sums, strict=True):
                        builder.store(value, cell, align=4 if scatter else None)
            for total, cell in zip(sums, () if scatter else own, strict=not scatter):
                builder.store(builder.load(total), cell, align=4)
            return context.get_dummy_value()

        return signature, generate

    return rows


def _on_rows(scatter: bool) -> Any:
    """Return the code of `rows.add_token`, or of `rows.scatter_token`."""
    wide, narrow = _pair(WIDE, scatter), _pair(NARROW, scatter)

    @compile_internal
    def on_rows(ids: Ints, begin: int, end: int, table: Floats, out: Floats, t: int) -> None:
        n = table.shape[1]
        if n >= WIDE:
            # pairs, so laid that only the vectors of the last one overlap; the first stands alone where they are odd
            column = 0
            if (n + WIDE - 1) // WIDE % 2 == 1:
                wide(ids, begin, end, table, 0, 0, out, t)
                column = WIDE
            while column < n:
                wide(ids, begin, end, table, column, min(column + WIDE, n - WIDE), out, t)
                column += 2 * WIDE
        elif n >= NARROW:
            narrow(ids, begin, end, table, 0, n - NARROW, out, t)
        else:
            for p in range(begin, end):
                for c in range(n if ids[p] >= 0 else 0):
                    if scatter:
                        table[ids[p], c] += out[t, c]
                    else:
                        out[t, c] += table[ids[p], c]

    return on_rows


add_token, scatter_token = _on_rows(scatter=False), _on_rows(scatter=True)


@intrinsic
def fetch_add(typing_context: Any, array: Any, number: Any) -> Any:
    """See `lockstep.fetch_add`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(array, types.int64), generate
