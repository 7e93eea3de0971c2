"""Forward-backward for blocks of sequences in lockstep: the recursions of `lattice` as products of small matrices.

A block is `LANES` sequences of like length.  Every work array has its lane, the number of the sequence in the block, as
the last axis: at step t, alpha is a tile [P, LANES], P the labels padded to a multiple of `PANEL`.  The sum over
previous labels is then a product of the transition potentials with the tile, in which all lanes share each potential
once it is in a register, and sums over labels are sums of vectors.  With c_t = 1 / sum_j u_t(j) and u_0 = e_0::

    u_t(j) = e_t(j) c_{t-1} sum_i M(i, j) u_{t-1}(i)           alpha_t = c_t u_t
    g_{t-1}(i) = sum_j M(i, j) v_t(j)                          g_t = c_t beta_t, at the end c_t times the weight
    v_t(j) = e_t(j) g_t(j) c_{t-1}
    weight P(y_t = k | x) = u_t(k) g_t(k)
    weight P(y_{t-1} = i, y_t = j | x) = u_{t-1}(i) M(i, j) v_t(j)

so that nothing is normalised after the fact: each step of either recursion is one product whose results are finished in
registers.  Expected transitions are one more product for the whole block.

Pointwise losses need covariances with a sum over positions, S(y) = sum_t n_t(y_t), whose mean is zero (`lattice` says
why).  With the weight left out of g, a second pair of recursions adds it up::

    a_t(j) = e_t(j) c_{t-1} sum_i M(i, j) a_{t-1}(i) + u_t(j) n_t(j)
    h_{t-1}(i) = sum_j M(i, j) w_t(j)                          w_t(j) = e_t(j) c_{t-1} (h_t(j) + g_t(j) n_t(j))
    E[S 1(y_t = k)] = a_t(k) g_t(k) + u_t(k) h_t(k)
    E[S 1(y_{t-1} = i, y_t = j)] = M(i, j) (a_{t-1}(i) v_t(j) + u_{t-1}(i) w_t(j))

Only transitions shared by all positions are handled, and for the losses of whole sequences complete gold labels;
sequences that scaling cannot represent, and those too long or too different in length to share a block, are left to
`lattice`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from ..types import Bools, Floats, Ints, Offsets
from ._jit import VECTOR_BYTES, fetch, intrinsic, kernel

Four: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""Emissions, transitions, start and end scores, or their gradients."""
Tiles: TypeAlias = tuple[Floats, Floats, Floats]
"""Potentials e (later marginals), u and v, each [steps, P, LANES]."""
Sums: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats]
"""Potentials e (later the covariances), u, g (later v), a and w, each [steps, P, LANES]."""

LANES = VECTOR_BYTES // 2
"""Sequences in a block: two vectors of float32."""
PANEL = 4
"""Rows of a product that are held in registers together."""
AHEAD = 4
"""Steps between the scores that are read and those that are fetched into the cache: lanes are too many streams for
the processor to follow by itself."""
SQUARE = 8
"""Tokens and labels that are transposed together."""
LONGEST = 512
"""Steps that a block may have; longer sequences would take too much memory."""
FEWEST = 8
"""A block of fewer sequences is not worth its empty lanes."""
TINY, FAINT, LARGE = 1e-25, 1e-12, 1e18
"""As in `lattice`."""
LOG_EVERY = 8
"""Steps whose sums are multiplied before a logarithm is taken: eight numbers over `TINY` stay far from 1e-308."""


def _arrays(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Return the structs of those arguments that are arrays, None for the others."""
    pairs = zip(signature.args, args, strict=True)
    return [context.make_array(t)(context, builder, v) if isinstance(t, types.Array) else None for t, v in pairs]


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
    """Return the type of the vectors for an array's numbers, and how many of them make up the lanes."""
    size = VECTOR_BYTES // (array.dtype.bitwidth // 8)
    return ir.VectorType(ir.FloatType() if array.dtype.bitwidth == 32 else ir.DoubleType(), size), LANES // size


def _panel(builder: Any, matrix: Any, begin: Any, tile: Any, n: Any, kind: Any) -> Any:
    """Return PANEL rows ``sum_i matrix[begin + i * PANEL + r] * tile[i]``, i < n, as vectors kept in registers."""
    vector, vectors = kind
    zero = ir.Constant(vector, None)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(vectors)] for _ in range(PANEL)]
    for row in sums:
        for cell in row:
            builder.store(zero, cell)
    with cgutils.for_range(builder, n) as loop:
        first = builder.mul(loop.index, _number(LANES))
        places = [builder.add(first, _number(v * vector.count)) for v in range(vectors)]
        values = [_load(builder, tile, place, vector) for place in places]
        weights = builder.add(begin, builder.mul(loop.index, _number(PANEL)))
        for r in range(PANEL):
            weight = builder.load(builder.gep(matrix.data, [builder.add(weights, _number(r))]))
            splat = _splat(builder, weight, vector.count)
            for v in range(vectors):
                builder.store(_fma(builder, splat, values[v], builder.load(sums[r][v])), sums[r][v])
    return [[builder.load(cell) for cell in row] for row in sums]


def _finish_panel(builder: Any, arrays: Any, args: Any, kind: Any, total: int | None, finish: Any) -> None:
    """Hand PANEL rows of a product, as vectors, to `finish`, and add what it returns to the array number `total`.

    arrays and args are those of `_ahead` and its like.  finish is given the sum, the lanes of the arrays number 5 and
    6, and its place in a tile.
    """
    vector, vectors = kind
    begin = builder.mul(args[1], builder.extract_value(arrays[7].shape, 0))
    sums = _panel(builder, arrays[2], begin, arrays[3], args[4], kind)
    for v in range(vectors):
        lanes = _number(v * vector.count)
        five, six = (_load(builder, arrays[k], lanes, vector) for k in (5, 6))
        added = None if total is None else _load(builder, arrays[total], lanes, vector)
        for r in range(PANEL):
            place = builder.add(builder.mul(builder.add(args[1], _number(r)), _number(LANES)), lanes)
            finished = finish(sums[r][v], five, six, place)
            added = added and builder.fadd(added, finished)
        if total is not None:
            _store(builder, added, arrays[total], lanes)


@intrinsic
def _ahead(
    typing_context: Any, out: Any, row: Any, matrix: Any, tile: Any, n: Any, first: Any, scale: Any, e: Any, total: Any
) -> Any:
    """Write PANEL rows of u_t, from row `row` of out [P, LANES], and add them to total [LANES].

    u_t = e (first + sum over i < n of matrix and tile u_{t-1}) scale; first and scale [LANES], e [P, LANES], matrix as
    `_pack` writes it.
    """
    signature = types.void(out, types.intp, matrix, tile, types.intp, first, scale, e, total)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        kind = _vector_of(out)

        def finish(value: Any, first: Any, scale: Any, place: Any) -> Any:
            value = builder.fmul(builder.fadd(value, first), scale)
            value = builder.fmul(value, _load(builder, arrays[7], place, kind[0]))
            _store(builder, value, arrays[0], place)
            return value

        _finish_panel(builder, arrays, args, kind, 8, finish)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _back(
    typing_context: Any,
    out: Any,
    row: Any,
    matrix: Any,
    tile: Any,
    n: Any,
    first: Any,
    scale: Any,
    e: Any,
    u: Any,
    total: Any,
) -> Any:
    """Write PANEL rows of v_t, from row `row` of out [P, LANES], and marginals over e; add the marginals to total.

    g = first + sum over j < n of matrix and tile v_{t+1}; v_t = e g scale; marginals = u g.  Shapes as in `_ahead`.
    """
    signature = types.void(out, types.intp, matrix, tile, types.intp, first, scale, e, u, total)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        kind = _vector_of(out)

        def finish(value: Any, first: Any, scale: Any, place: Any) -> Any:
            g = builder.fadd(value, first)
            message = builder.fmul(builder.fmul(g, scale), _load(builder, arrays[7], place, kind[0]))
            marginal = builder.fmul(g, _load(builder, arrays[8], place, kind[0]))
            _store(builder, message, arrays[0], place)
            _store(builder, marginal, arrays[7], place)
            return marginal

        _finish_panel(builder, arrays, args, kind, 9, finish)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _back_only(
    typing_context: Any,
    out: Any,
    row: Any,
    matrix: Any,
    tile: Any,
    n: Any,
    first: Any,
    scale: Any,
    e: Any,
    u: Any,
    g: Any,
    total: Any,
) -> Any:
    """Do what `_back` does, but leave e as it is and write g to g [P, LANES]."""
    signature = types.void(out, types.intp, matrix, tile, types.intp, first, scale, e, u, g, total)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        kind = _vector_of(out)

        def finish(value: Any, first: Any, scale: Any, place: Any) -> Any:
            value = builder.fadd(value, first)
            message = builder.fmul(builder.fmul(value, scale), _load(builder, arrays[7], place, kind[0]))
            _store(builder, message, arrays[0], place)
            _store(builder, value, arrays[9], place)
            return builder.fmul(value, _load(builder, arrays[8], place, kind[0]))

        _finish_panel(builder, arrays, args, kind, 10, finish)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _sum_ahead(
    typing_context: Any, out: Any, row: Any, matrix: Any, tile: Any, n: Any, pull: Any, scale: Any, e: Any, u: Any
) -> Any:
    """Write PANEL rows of a_t, from row `row` of out [P, LANES], as if no label of step t were gold.

    a_t = e (sum over i < n of matrix and tile a_{t-1}) scale + u pull; pull [LANES], other shapes as in `_ahead`.
    """
    signature = types.void(out, types.intp, matrix, tile, types.intp, pull, scale, e, u)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        kind = _vector_of(out)

        def finish(value: Any, pull: Any, scale: Any, place: Any) -> None:
            value = builder.fmul(builder.fmul(value, scale), _load(builder, arrays[7], place, kind[0]))
            value = _fma(builder, _load(builder, arrays[8], place, kind[0]), pull, value)
            _store(builder, value, arrays[0], place)

        _finish_panel(builder, arrays, args, kind, None, finish)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _sum_back(
    typing_context: Any,
    out: Any,
    row: Any,
    matrix: Any,
    tile: Any,
    n: Any,
    pull: Any,
    scale: Any,
    e: Any,
    u: Any,
    g: Any,
    a: Any,
    total: Any,
) -> Any:
    """Write PANEL rows of w_t, from row `row` of out [P, LANES], as if no label of step t were gold.

    h = sum over j < n of matrix and tile w_{t+1}.  Write v_t = e g scale over g, E[S 1(y_t = k)] = a g + u h over e,
    and add the latter to total.  Shapes as in `_sum_ahead`.
    """
    signature = types.void(out, types.intp, matrix, tile, types.intp, pull, scale, e, u, g, a, total)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        kind = _vector_of(out)

        def finish(h: Any, pull: Any, scale: Any, place: Any) -> Any:
            e, u, g, a = (_load(builder, arrays[k], place, kind[0]) for k in (7, 8, 9, 10))
            potential = builder.fmul(e, scale)
            message = builder.fmul(potential, g)
            covariance = _fma(builder, u, h, builder.fmul(a, g))
            _store(builder, _fma(builder, message, pull, builder.fmul(potential, h)), arrays[0], place)
            _store(builder, message, arrays[9], place)
            _store(builder, covariance, arrays[7], place)
            return covariance

        _finish_panel(builder, arrays, args, kind, 11, finish)
        return context.get_dummy_value()

    return signature, generate


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose as many vectors as they have elements: each of log2(size) rounds interleaves two halves."""
    size = len(rows)
    kind = ir.VectorType(ir.IntType(32), size)
    halves = [ir.Constant(kind, [first + i // 2 + size * (i % 2) for i in range(size)]) for first in (0, size // 2)]
    for _ in range(size.bit_length() - 1):
        pairs = zip(rows[: size // 2], rows[size // 2 :], strict=True)
        rows = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in halves]
    return rows


@intrinsic
def _lay(typing_context: Any, source: Any, tokens: Any, column: Any, tile: Any, lane: Any) -> Any:
    """Write source[tokens[lane + i], column + k] to tile[column + k, lane + i] for i and k below SQUARE.

    source [T, L], tokens [LANES] int64, tile [P, LANES].
    """
    signature = types.void(source, tokens, types.intp, tile, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        vector = ir.VectorType(_vector_of(tile)[0].element, SQUARE)
        rows = [_load(builder, arrays[0], _cell(builder, arrays, args, i), vector) for i in range(SQUARE)]
        for k, row in enumerate(_transpose(builder, rows)):
            place = builder.mul(builder.add(args[2], _number(k)), _number(LANES))
            _store(builder, row, arrays[3], builder.add(place, args[4]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _lift(typing_context: Any, target: Any, tokens: Any, column: Any, tile: Any, lane: Any, skip: Any) -> Any:
    """Add tile[column + k, lane + i] to target[tokens[lane + i], column + k] for i below SQUARE and skip <= k < SQUARE.

    Tokens that occur more than once are added to one after another.  Shapes as in `_lay`.
    """
    signature = types.void(target, tokens, types.intp, tile, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        vector = ir.VectorType(_vector_of(tile)[0].element, SQUARE)
        columns = []
        for k in range(SQUARE):
            place = builder.mul(builder.add(args[2], _number(k)), _number(LANES))
            columns.append(_load(builder, arrays[3], builder.add(place, args[4]), vector))
        numbers = ir.Constant(ir.VectorType(ir.IntType(64), SQUARE), list(range(SQUARE)))
        wanted = builder.icmp_signed(">=", numbers, _splat(builder, args[5], SQUARE))
        for i, row in enumerate(_transpose(builder, columns)):
            place = _cell(builder, arrays, args, i)
            added = builder.select(wanted, row, ir.Constant(vector, None))
            _store(builder, builder.fadd(_load(builder, arrays[0], place, vector), added), arrays[0], place)
        return context.get_dummy_value()

    return signature, generate


def _cell(builder: Any, arrays: Any, args: Any, i: int) -> Any:
    """Return where the numbers of lane + i begin in the first array of `_lay` and `_lift`, and fetch later ones."""
    token = builder.load(builder.gep(arrays[1].data, [builder.add(args[4], _number(i))]))
    width = builder.extract_value(arrays[0].shape, 1)
    place = builder.add(builder.mul(token, width), args[2])
    fetch(builder, builder.gep(arrays[0].data, [builder.add(place, builder.mul(width, _number(AHEAD)))]))
    return place


@intrinsic
def _corner(typing_context: Any, out: Any, u: Any, v: Any, row: Any, column: Any, steps: Any) -> Any:
    """Add to `out` [P, P] the PANEL x PANEL corner at (row, column) of ``sum_t u[t] v[t + 1]'``, t < steps.

    u and v [more than steps, P, LANES]; the sum runs over lanes, too.
    """
    signature = types.void(out, u, v, types.intp, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        vector, _ = _vector_of(u)
        zero = ir.Constant(vector, None)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(PANEL)] for _ in range(PANEL)]
        for line in sums:
            for cell in line:
                builder.store(zero, cell)
        tile = builder.mul(builder.extract_value(arrays[1].shape, 1), _number(LANES))
        with cgutils.for_range(builder, args[5]) as loop:
            here = builder.mul(loop.index, tile)
            begins = builder.add(here, builder.mul(args[3], _number(LANES)))
            ends = builder.add(builder.add(here, tile), builder.mul(args[4], _number(LANES)))
            for lanes in range(0, LANES, vector.count):
                places = [_number(r * LANES + lanes) for r in range(PANEL)]
                left = [_load(builder, arrays[1], builder.add(begins, place), vector) for place in places]
                right = [_load(builder, arrays[2], builder.add(ends, place), vector) for place in places]
                for i in range(PANEL):
                    for j in range(PANEL):
                        builder.store(_fma(builder, left[i], right[j], builder.load(sums[i][j])), sums[i][j])
        kind = ir.FunctionType(vector.element, [vector.element, vector])
        name = f"llvm.vector.reduce.fadd.v{vector.count}f{u.dtype.bitwidth}"
        reduce = cgutils.get_or_insert_function(builder.module, kind, name)
        for i in range(PANEL):
            for j in range(PANEL):
                line = builder.mul(builder.add(args[3], _number(i)), builder.extract_value(arrays[0].shape, 1))
                place = builder.add(line, builder.add(args[4], _number(j)))
                pointer = builder.gep(arrays[0].data, [place])
                initial = [ir.Constant(vector.element, 0.0), builder.load(sums[i][j])]
                total = builder.call(reduce, initial, fastmath=["reassoc"])
                builder.store(builder.fadd(builder.load(pointer), total), pointer)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _maxima(typing_context: Any, tile: Any, n: Any, largest: Any) -> Any:
    """Write to largest [LANES] the maxima over the first n rows of tile [P, LANES]."""
    signature = types.void(tile, types.intp, largest)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = _arrays(context, builder, signature, args)
        vector, vectors = _vector_of(tile)
        lanes = [_number(v * vector.count) for v in range(vectors)]
        tops = [cgutils.alloca_once_value(builder, _load(builder, arrays[0], place, vector)) for place in lanes]
        for top, place in zip(tops, lanes, strict=True):
            builder.store(_load(builder, arrays[0], place, vector), top)
        with cgutils.for_range(builder, args[1]) as loop:
            first = builder.mul(loop.index, _number(LANES))
            for top, place in zip(tops, lanes, strict=True):
                x, best = _load(builder, arrays[0], builder.add(first, place), vector), builder.load(top)
                builder.store(builder.select(builder.fcmp_ordered(">", x, best), x, best), top)
        for top, place in zip(tops, lanes, strict=True):
            _store(builder, builder.load(top), arrays[2], place)
        return context.get_dummy_value()

    return signature, generate


POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of Cephes' ``expf``: e^r = 1 + r + r^2 p(r), relative error 2e-7 for |r| <= log(2) / 2."""


def _exp(builder: Any, given: Any) -> Any:
    """Return e to a vector of float32 that are not positive; 0 below -87 and for what is not a number.

    With x = m log 2 + r, a polynomial gives e^r, and 2^m is written into the exponent bits of a float.
    """
    vector, integers = given.type, ir.VectorType(ir.IntType(32), given.type.count)

    def constant(value: float, kind: Any = vector) -> Any:
        return ir.Constant(kind, [value] * vector.count)

    fits = builder.fcmp_ordered(">=", given, constant(-87.0))
    x = builder.select(fits, given, constant(-87.0))
    kind = ir.FunctionType(vector, [vector])
    floor = cgutils.get_or_insert_function(builder.module, kind, f"llvm.floor.v{vector.count}f32")
    m = builder.call(floor, [_fma(builder, x, constant(1.44269504), constant(0.5))])
    r = _fma(builder, m, constant(2.12194440e-4), _fma(builder, m, constant(-0.693359375), x))
    y = constant(POLYNOMIAL[0])
    for coefficient in POLYNOMIAL[1:]:
        y = _fma(builder, y, r, constant(coefficient))
    y = _fma(builder, builder.fmul(r, r), y, builder.fadd(r, constant(1.0)))
    exponent = builder.add(builder.fptosi(m, integers), constant(127, integers))
    power = builder.bitcast(builder.shl(exponent, constant(23, integers)), vector)
    return builder.select(fits, builder.fmul(y, power), constant(0.0))


@intrinsic
def _exponentials(typing_context: Any, tile: Any, n: Any, largest: Any) -> Any:
    """Replace the first n rows of tile [P, LANES] float32 by exp(row - largest), largest [LANES]."""
    signature = types.void(tile, types.intp, largest)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if tile.dtype.bitwidth == 32:
            arrays = _arrays(context, builder, signature, args)
            vector, vectors = _vector_of(tile)
            lanes = [_number(v * vector.count) for v in range(vectors)]
            tops = [_load(builder, arrays[2], place, vector) for place in lanes]
            with cgutils.for_range(builder, args[1]) as loop:
                first = builder.mul(loop.index, _number(LANES))
                for top, place in zip(tops, lanes, strict=True):
                    here = builder.add(first, place)
                    value = _exp(builder, builder.fsub(_load(builder, arrays[0], here, vector), top))
                    _store(builder, value, arrays[0], here)
        return context.get_dummy_value()

    return signature, generate


@kernel
def select(offsets: Offsets, gold: Ints, weights: Floats, order: Offsets, left: Bools) -> int:
    """Write the numbers of sequences that blocks can take to order [N], longest first; return how many they are.

    offsets [N + 1], weights [N].  gold [T] tells which sequences are not complete; it is empty where that does not
    matter.  left [N] is set for the others, except those that add nothing to the loss.
    """
    counts = np.zeros(LONGEST + 2, np.int64)
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        left[s] = False
        if e > b and weights[s] != 0:
            left[s] = e - b > LONGEST
            for t in range(b, min(e, gold.shape[0])):
                left[s] |= gold[t] < 0
            if not left[s]:
                counts[e - b] += 1
    total = 0
    for length in range(LONGEST, 0, -1):
        here = counts[length]
        counts[length] = total
        total += here
    for s in range(weights.shape[0]):
        length = offsets[s + 1] - offsets[s]
        if length > 0 and weights[s] != 0 and not left[s]:
            order[counts[length]] = s
            counts[length] += 1
    return total


@kernel
def log_loss(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    gold: Ints,
    weights: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
    order: Offsets,
    left: Bools,
    cap: float,
) -> float:
    """Return the weighted loss of most sequences and add its gradient; set left [N] for the others.

    Shapes and cap as in `lattice.log_loss`, transitions [1, L, L]; order holds the numbers that `select` wrote.
    """
    n = emissions.shape[1]
    padded = (n + PANEL - 1) // PANEL * PANEL
    dtype = emissions.dtype
    if order.shape[0] == 0:
        return 0.0
    shape = (offsets[order[0] + 1] - offsets[order[0]], padded, LANES)
    tiles = (np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, dtype))
    for t in range(shape[0]):
        for k in range(n, padded):
            for lane in range(LANES):
                tiles[0][t, k, lane] = 0  # from where the padding of the others gets its zeros
    forward, backward = np.zeros(padded * padded, dtype), np.zeros(padded * padded, dtype)
    base = _pack(transitions[0], forward, backward)
    counts = np.zeros((padded, padded), dtype)
    scales = np.empty((shape[0], LANES), dtype)
    lane_weights, log_z, values = np.zeros(LANES, dtype), np.zeros(LANES), np.zeros(LANES)
    lost = np.zeros(LANES, np.bool_)
    scores, grad = (emissions, transitions, start, end), (d_emissions, d_transitions, d_start, d_end)
    loss, first = 0.0, 0
    while first < order.shape[0]:
        size = _block_size(offsets, order[first : first + LANES])
        if size < FEWEST:
            left[order[first]] = True
            first += 1
            continue
        block = order[first : first + size]
        first += size
        steps = offsets[block[0] + 1] - offsets[block[0]]
        for lane in range(LANES):
            lost[lane] = False
            lane_weights[lane] = weights[block[lane]] if lane < size else 0
        _fill(scores, offsets, block, steps, tiles[0], log_z)
        _forward(forward, n, offsets, block, steps, tiles, scales, log_z, lost)
        _take_gold_off(scores, gold, offsets, block, log_z)
        for lane in range(size):
            length = offsets[block[lane] + 1] - offsets[block[lane]]
            values[lane], slope = _link(log_z[lane] + (length - 1) * base, cap)
            lane_weights[lane] *= slope
        _backward(backward, n, offsets, block, steps, tiles, scales, lane_weights, lost)
        _silence(steps, tiles, lost)
        for row in range(0, padded, PANEL):
            for column in range(0, padded, PANEL):
                _corner(counts, tiles[1], tiles[2], row, column, steps - 1)
        _spread(gold, offsets, block, steps, tiles[0], lane_weights, lost, grad)
        for lane in range(size):
            left[block[lane]] = lost[lane]
            if not lost[lane]:
                loss += weights[block[lane]] * values[lane]
    _add_counts(forward, counts, d_transitions)
    return loss


@kernel
def pointwise(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    gold: Ints,
    weights: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
    order: Offsets,
    left: Bools,
    cap: float,
) -> float:
    """Return the weighted loss of the positions of most sequences and add its gradient; set left [N] for the others.

    Shapes and cap as in `lattice.pointwise`, transitions [1, L, L]; order holds the numbers that `select` wrote.
    """
    n = emissions.shape[1]
    padded = (n + PANEL - 1) // PANEL * PANEL
    dtype = emissions.dtype
    if order.shape[0] == 0:
        return 0.0
    shape = (offsets[order[0] + 1] - offsets[order[0]], padded, LANES)
    e, u, g, a, w = (
        np.empty(shape, dtype),
        np.empty(shape, dtype),
        np.empty(shape, dtype),
        np.empty(shape, dtype),
        np.empty(shape, dtype),
    )
    tiles = (e, u, g, a, w)
    for t in range(shape[0]):
        for k in range(n, padded):
            for lane in range(LANES):
                e[t, k, lane] = 0  # from where the padding of the others gets its zeros
    forward, backward = np.zeros(padded * padded, dtype), np.zeros(padded * padded, dtype)
    _pack(transitions[0], forward, backward)
    counts = np.zeros((padded, padded), dtype)
    rows = (shape[0], LANES)
    scales, pulls, pushes = np.empty(rows, dtype), np.empty(rows, dtype), np.empty(rows, dtype)
    lane_weights, values, unused = np.zeros(LANES, dtype), np.zeros(LANES), np.zeros(LANES)
    lost = np.zeros(LANES, np.bool_)
    scores, grad = (emissions, transitions, start, end), (d_emissions, d_transitions, d_start, d_end)
    loss, first = 0.0, 0
    while first < order.shape[0]:
        size = _block_size(offsets, order[first : first + LANES])
        if size < FEWEST:
            left[order[first]] = True
            first += 1
            continue
        block = order[first : first + size]
        first += size
        steps = offsets[block[0] + 1] - offsets[block[0]]
        for lane in range(LANES):
            lost[lane] = False
            lane_weights[lane] = weights[block[lane]] if lane < size else 0
        _fill(scores, offsets, block, steps, e, unused)
        _forward(forward, n, offsets, block, steps, (e, u, g), scales, unused, lost)
        _only_backward(backward, n, offsets, block, steps, tiles, scales, pulls, lost)
        _weigh_positions(gold, offsets, block, steps, tiles, lane_weights, cap, pulls, pushes, values, lost)
        _sum_forward(forward, n, gold, offsets, block, steps, tiles, scales, pulls, pushes)
        _sum_backward(backward, n, gold, offsets, block, steps, tiles, scales, pulls, pushes, lost)
        _silence(steps, tiles, lost)
        for row in range(0, padded, PANEL):
            for column in range(0, padded, PANEL):
                _corner(counts, a, g, row, column, steps - 1)
                _corner(counts, u, w, row, column, steps - 1)
        _spread(gold[:0], offsets, block, steps, e, lane_weights, lost, grad)
        for lane in range(size):
            left[block[lane]] = lost[lane]
            if not lost[lane]:
                loss += weights[block[lane]] * values[lane]
    _add_counts(forward, counts, d_transitions)
    return loss


@kernel
def _link(nll: float, cap: float) -> tuple[float, float]:
    """Return phi of a negative log-likelihood, and its derivative; see `lattice.log_loss`."""
    if cap > 0 and nll < cap:
        power = np.exp(nll)
        return power - 1, power
    power = np.exp(cap)
    return power - 1 + power * (nll - cap), power


@kernel
def _block_size(offsets: Offsets, candidates: Offsets) -> int:
    """Return how many of the next sequences, longest first, are at least half as long as the first."""
    steps = offsets[candidates[0] + 1] - offsets[candidates[0]]
    size = 0
    while size < candidates.shape[0] and 2 * (offsets[candidates[size] + 1] - offsets[candidates[size]]) >= steps:
        size += 1
    return size


@kernel
def _pack(transitions: Floats, forward: Floats, backward: Floats) -> float:
    """Write exp(transitions - max) panel by panel, as `_panel` reads it, for both directions; return the max.

    Number i * PANEL + r of panel p, which begins at p * PANEL * P, is the potential from i to p * PANEL + r in forward,
    and from p * PANEL + r to i in backward.
    """
    n = transitions.shape[0]
    padded = (n + PANEL - 1) // PANEL * PANEL
    largest = transitions[0, 0]
    for i in range(n):
        for j in range(n):
            largest = max(largest, transitions[i, j])
    if largest == -np.inf:
        largest = transitions.dtype.type(0)
    for i in range(n):
        for j in range(n):
            potential = np.exp(transitions[i, j] - largest)
            forward[j // PANEL * PANEL * padded + i * PANEL + j % PANEL] = potential
            backward[i // PANEL * PANEL * padded + j * PANEL + i % PANEL] = potential
    return largest


@kernel
def _add_counts(forward: Floats, counts: Floats, d_transitions: Floats) -> None:
    """Add counts times potentials to d_transitions [1, L, L]."""
    n, padded = d_transitions.shape[1], counts.shape[0]
    for i in range(n):
        for j in range(n):
            potential = forward[j // PANEL * PANEL * padded + i * PANEL + j % PANEL]
            d_transitions[0, i, j] += counts[i, j] * potential


@kernel
def _running(offsets: Offsets, block: Offsets, t: int, before: int) -> int:
    """Return how many sequences of the block have a token t, given a number that is not too small."""
    while before > 0 and offsets[block[before - 1] + 1] - offsets[block[before - 1]] <= t:
        before -= 1
    return before


@kernel
def _token_numbers(offsets: Offsets, block: Offsets, t: int, running: int, tokens: Offsets) -> None:
    """Write the number of each lane's token t to tokens [LANES], that of the first lane where there is none."""
    for lane in range(LANES):
        tokens[lane] = offsets[block[lane if lane < running else 0]] + t


@kernel
def _fill(scores: Four, offsets: Offsets, block: Offsets, steps: int, potentials: Floats, log_z: Floats) -> None:
    """Write exp(score - max) of all tokens to potentials and the sum of the maxima to log_z [LANES].

    Lanes whose sequence has ended get numbers that do no harm.
    """
    emissions, _, start, end = scores
    n = emissions.shape[1]
    largest = np.empty(LANES, emissions.dtype)
    tokens = np.empty(LANES, np.int64)
    for lane in range(LANES):
        log_z[lane] = 0
    running = block.shape[0]
    for t in range(steps):
        tile = potentials[t]
        running = _running(offsets, block, t, running)
        _token_numbers(offsets, block, t, running, tokens)
        if n >= SQUARE:
            for lane in range(0, LANES, SQUARE):
                for column in range(0, n - SQUARE, SQUARE):
                    _lay(emissions, tokens, column, tile, lane)
                _lay(emissions, tokens, n - SQUARE, tile, lane)
        else:
            for lane in range(LANES):
                for k in range(n):
                    tile[k, lane] = emissions[tokens[lane], k]
        if t == 0:
            for k in range(n):
                for lane in range(LANES):
                    tile[k, lane] += start[k]
        for lane in range(running):
            if tokens[lane] + 1 == offsets[block[lane] + 1]:
                for k in range(n):
                    tile[k, lane] += end[k]
        _maxima(tile, n, largest)
        for lane in range(running):
            log_z[lane] += largest[lane]
        if emissions.itemsize == 4:
            _exponentials(tile, n, largest)
        else:
            for k in range(n):
                for lane in range(LANES):
                    given = tile[k, lane] - largest[lane]
                    tile[k, lane] = np.exp(given) if given >= -700 else 0


@kernel
def _forward(
    forward: Floats,
    n: int,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Tiles,
    scales: Floats,
    log_z: Floats,
    lost: Bools,
) -> None:
    """Fill u and the scales c, complete log_z up to the transitions' maximum; mark lanes whose sums get too small."""
    potentials, u, _ = tiles
    total, first = np.empty(LANES, u.dtype), np.ones(LANES, u.dtype)
    product = np.ones(LANES)
    before, scale = u[0], first
    used, running = 0, block.shape[0]
    for t in range(steps):
        running = _running(offsets, block, t, running)
        for lane in range(LANES):
            total[lane] = 0
        for row in range(0, u.shape[1], PANEL):
            _ahead(u[t], row, forward, before, used, first, scale, potentials[t], total)
        before, scale, used = u[t], scales[t], n
        for lane in range(LANES):
            first[lane] = 0
            scale[lane] = 1 / total[lane] if total[lane] > TINY else 0
        for lane in range(running):
            lost[lane] |= not total[lane] > TINY
            product[lane] *= total[lane]
        if t % LOG_EVERY == LOG_EVERY - 1 or t == steps - 1:
            for lane in range(LANES):
                log_z[lane] += np.log(product[lane])
                product[lane] = 1


@kernel
def _backward(
    backward: Floats,
    n: int,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Tiles,
    scales: Floats,
    weights: Floats,
    lost: Bools,
) -> None:
    """Fill v and replace potentials by marginals, both times the weights; mark lanes whose marginals do not sum to one.

    Lanes whose sequence has ended have a v of zero.
    """
    potentials, u, v = tiles
    total, first = np.empty(LANES, u.dtype), np.zeros(LANES, u.dtype)
    scale = np.ones(LANES, u.dtype)
    used, running, after = 0, 0, v[0]
    for t in range(steps - 1, -1, -1):
        for lane in range(LANES):
            first[lane] = total[lane] = 0
        while running < block.shape[0] and offsets[block[running] + 1] - offsets[block[running]] > t:
            first[running] = weights[running] * scales[t, running]
            running += 1
        if t > 0:
            scale = scales[t - 1]
        for row in range(0, u.shape[1], PANEL):
            _back(v[t], row, backward, after, used, first, scale, potentials[t], u[t], total)
        after, used = v[t], n
        for lane in range(running):
            lost[lane] |= not abs(total[lane] - weights[lane]) < 1e-2 * abs(weights[lane])


@kernel
def _only_backward(
    backward: Floats,
    n: int,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Sums,
    scales: Floats,
    totals: Floats,
    lost: Bools,
) -> None:
    """Fill g, and totals [steps, LANES] with the sums of the marginals, which are nearly one.

    Mark lanes where they are not, or in which what was rounded to zero could matter.  Lanes whose sequence has ended
    have a g of zero.
    """
    e, u, g, _, _ = tiles
    messages = np.empty((2, u.shape[1], LANES), u.dtype)
    first, largest = np.zeros(LANES, u.dtype), np.empty(LANES, u.dtype)
    scale = np.ones(LANES, u.dtype)
    used, running = 0, 0
    for t in range(steps - 1, -1, -1):
        total = totals[t]
        for lane in range(LANES):
            first[lane] = total[lane] = 0
        while running < block.shape[0] and offsets[block[running] + 1] - offsets[block[running]] > t:
            first[running] = scales[t, running]
            running += 1
        if t > 0:
            scale = scales[t - 1]
        here, after = messages[t % 2], messages[(t + 1) % 2]
        for row in range(0, u.shape[1], PANEL):
            _back_only(here, row, backward, after, used, first, scale, e[t], u[t], g[t], total)
        used = n
        _maxima(g[t], n, largest)
        for lane in range(running):
            lost[lane] |= not (abs(total[lane] - 1) < 1e-2 and largest[lane] <= LARGE)


@kernel
def _weigh_positions(
    gold: Ints,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Sums,
    weights: Floats,
    cap: float,
    pulls: Floats,
    pushes: Floats,
    values: Floats,
    lost: Bools,
) -> None:
    """Write the sums of phi to values [LANES], and n_t(j) = pulls - pushes [j is gold], [steps, LANES] each.

    pulls hold the sums of the marginals before, so that the mean of n_t is zero and not their rounding, which would add
    up.  Lanes whose gold labels are too improbable for scaled numbers are marked.
    """
    _, u, g, _, _ = tiles
    running = block.shape[0]
    for lane in range(LANES):
        values[lane] = 0
    for t in range(steps):
        running = _running(offsets, block, t, running)
        for lane in range(LANES):
            total = np.float64(pulls[t, lane])
            pulls[t, lane] = pushes[t, lane] = 0
            label = gold[offsets[block[lane]] + t] if lane < running else -1
            if label >= 0:
                p = np.float64(u[t, label, lane]) * g[t, label, lane] / total
                if p >= FAINT:
                    value, slope = _link(-np.log(p), cap)
                    values[lane] += value
                    pulls[t, lane] = weights[lane] * slope
                    pushes[t, lane] = weights[lane] * slope / p
                else:
                    lost[lane] = True


@kernel
def _sum_forward(
    forward: Floats,
    n: int,
    gold: Ints,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Sums,
    scales: Floats,
    pulls: Floats,
    pushes: Floats,
) -> None:
    """Fill a."""
    e, u, _, a, _ = tiles
    scale, before = scales[0], a[0]
    used, running = 0, block.shape[0]
    for t in range(steps):
        for row in range(0, u.shape[1], PANEL):
            _sum_ahead(a[t], row, forward, before, used, pulls[t], scale, e[t], u[t])
        running = _running(offsets, block, t, running)
        for lane in range(running):
            label = gold[offsets[block[lane]] + t]
            if label >= 0:
                a[t, label, lane] -= u[t, label, lane] * pushes[t, lane]
        before, scale, used = a[t], scales[t], n


@kernel
def _sum_backward(
    backward: Floats,
    n: int,
    gold: Ints,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    tiles: Sums,
    scales: Floats,
    pulls: Floats,
    pushes: Floats,
    lost: Bools,
) -> None:
    """Fill w, replace g by v and potentials by E[S 1(y_t = k)]; mark lanes where these do not sum to zero."""
    e, u, g, a, w = tiles
    total, limit = np.empty(LANES, u.dtype), np.zeros(LANES, u.dtype)
    for t in range(steps):
        for lane in range(LANES):
            limit[lane] += 1e-2 * abs(pulls[t, lane])
    after, scale = w[0], scales[0]
    used, running = 0, 0
    for t in range(steps - 1, -1, -1):
        for lane in range(LANES):
            total[lane] = 0
        while running < block.shape[0] and offsets[block[running] + 1] - offsets[block[running]] > t:
            running += 1
        if t > 0:
            scale = scales[t - 1]
        for row in range(0, u.shape[1], PANEL):
            _sum_back(w[t], row, backward, after, used, pulls[t], scale, e[t], u[t], g[t], a[t], total)
        for lane in range(running):
            label = gold[offsets[block[lane]] + t]
            if label >= 0:
                w[t, label, lane] -= g[t, label, lane] * pushes[t, lane]
            lost[lane] |= not abs(total[lane]) <= limit[lane]
        after, used = w[t], n


@kernel
def _silence(steps: int, tiles: tuple[Floats, ...], lost: Bools) -> None:
    """Set all numbers of lanes that are lost to zero."""
    for lane in range(LANES):
        if lost[lane]:
            for tile in tiles:
                for t in range(steps):
                    for k in range(tile.shape[1]):
                        tile[t, k, lane] = 0


@kernel
def _take_gold_off(scores: Four, gold: Ints, offsets: Offsets, block: Offsets, log_z: Floats) -> None:
    """Subtract the scores of the gold labels from log_z [LANES]."""
    emissions, transitions, start, end = scores
    for lane in range(block.shape[0]):
        first, last = offsets[block[lane]], offsets[block[lane] + 1] - 1
        score = np.float64(start[gold[first]]) + end[gold[last]]
        for t in range(first, last + 1):
            score += emissions[t, gold[t]]
            if t > first:
                score += transitions[0, gold[t - 1], gold[t]]
        log_z[lane] -= score


@kernel
def _spread(
    gold: Ints,
    offsets: Offsets,
    block: Offsets,
    steps: int,
    counts: Floats,
    weights: Floats,
    lost: Bools,
    grad: Four,
) -> None:
    """Add expected counts [steps, P, LANES] less gold counts, if gold is not empty, to `grad`.

    Expected transitions are added apart.
    """
    d_emissions, d_transitions, d_start, d_end = grad
    n = d_start.shape[0]
    tokens = np.empty(LANES, np.int64)
    running = block.shape[0]
    for t in range(steps):
        tile = counts[t]
        running = _running(offsets, block, t, running)
        _token_numbers(offsets, block, t, running, tokens)
        if n >= SQUARE:
            for lane in range(0, LANES, SQUARE):
                for column in range(0, n - SQUARE, SQUARE):
                    _lift(d_emissions, tokens, column, tile, lane, 0)
                _lift(d_emissions, tokens, n - SQUARE, tile, lane, (SQUARE - n % SQUARE) % SQUARE)
        else:
            for lane in range(running):
                for k in range(n):
                    d_emissions[tokens[lane], k] += tile[k, lane]
        if t == 0:
            for k in range(n):
                for lane in range(LANES):
                    d_start[k] += tile[k, lane]
        for lane in range(running):
            if not lost[lane]:
                here, weight = tokens[lane], weights[lane]
                ends = here + 1 == offsets[block[lane] + 1]
                if ends:
                    for k in range(n):
                        d_end[k] += tile[k, lane]
                if gold.shape[0] > 0:
                    label = gold[here]
                    d_emissions[here, label] -= weight
                    if t == 0:
                        d_start[label] -= weight
                    else:
                        d_transitions[0, gold[here - 1], label] -= weight
                    if ends:
                        d_end[label] -= weight
