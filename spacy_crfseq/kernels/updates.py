"""Steps on rows of weights, at the rows that a mini-batch touches and nowhere else.

A gradient comes as `types.RowGradient` describes it: position t adds d[t] to each of its rows, the numbers
``ids[ptr[t]:ptr[t + 1]]``.  Row r lies at ``row_ptr[r]:row_ptr[r + 1]`` and has the columns ``cols`` of that range;
where both are empty, it lies at ``r * C`` and has all C columns of d.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import kernel, prefetch

STRIDE_CLOCK, STRIDE_POSITION = 0.7548776662466927, 0.5698402909980532
"""Multiples of these spread evenly over [0, 1) modulo 1 (the additive recurrence R2 of Roberts 2018)."""


@kernel
def add_rows(ptr: Offsets, ids: Ints, d: Floats, row_ptr: Offsets, cols: Ints, factor: float, out: Floats) -> None:
    """Add factor times the gradient to out: ptr [T + 1], ids [ptr[T]], d [T, C]."""
    width, f = d.shape[1], d.dtype.type(factor)
    for t in range(d.shape[0]):
        source = d[t]
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            if row_ptr.shape[0] == 0:
                row = out[r * width : (r + 1) * width]
                for c in range(width):
                    row[c] += f * source[c]
            else:
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    out[q] += f * source[cols[q]]


@kernel
def _choose(d: Floats, clock: float, least: float, used: Ints, factors: Floats) -> int:
    """Write the positions to be used to used [T] and how much each is stretched to factors [T]; return their number.

    A gradient d[t] shorter than `least` is used with a probability proportional to its length, as if it were so long.
    """
    n = 0
    for t in range(d.shape[0]):
        square = d.dtype.type(0)
        for c in range(d.shape[1]):
            square += d[t, c] * d[t, c]
        stretch = 1.0
        if square < least * least:
            length = np.sqrt(square)
            if (clock * STRIDE_CLOCK + t * STRIDE_POSITION) % 1 * least >= length:
                continue
            stretch = least / length
        used[n], factors[n] = t, stretch
        n += 1
    return n


@kernel
def adagrad(
    ptr: Offsets,
    ids: Ints,
    d: Floats,
    row_ptr: Offsets,
    cols: Ints,
    weights: Floats,
    sums: Floats,
    seen: Floats,
    clock: float,
    unit: float,
    rate: float,
    offset: float,
    least: float,
    decay: float,
) -> None:
    """Make AdaGrad steps with one accumulator for each row; `optimizers.adagrad` has the formulas.

    ptr [T + 1], ids [ptr[T]], d [T, C], weights and sums alike (sums empty: no average).
    seen [R, 2] float64: the sum of squares of each row, and the clock at its last visit.
    unit: The clock's unit for the weights of the average; decay: strength of the penalty per tick of the clock.
    """
    width, number, average = d.shape[1], d.dtype.type, sums.shape[0] > 0
    used, factors = np.empty(d.shape[0], np.int32), np.empty(d.shape[0])
    n = _choose(d, clock, least, used, factors)
    per_unit = 1 / unit
    now = (clock * per_unit) ** 4
    for u in range(n):
        t, later, stretch = used[u], used[min(u + 1, n - 1)], factors[u]
        source = d[t]
        square = 0.0
        for c in range(width):
            square += source[c] * source[c]
        square *= stretch * stretch
        for p in range(ptr[t], ptr[t + 1]):
            # rows of the next position are on their way into the cache while those of this one are changed
            ahead = np.int64(ids[max(0, min(p - ptr[t] + ptr[later], ptr[later + 1] - 1))])
            place = row_ptr[ahead] if row_ptr.shape[0] else ahead * width
            prefetch(seen, ahead, 0)
            prefetch(weights, place, 0)
            if average:
                prefetch(sums, place, 0)
            r = np.int64(ids[p])
            first, last = r * width, (r + 1) * width
            if row_ptr.shape[0]:
                first, last = row_ptr[r], row_ptr[r + 1]
            row, before = weights[first:last], seen[r, 1]
            seen[r, 0] += square
            seen[r, 1] = clock
            if average and before < clock:
                total, weight = sums[first:last], number(now - (before * per_unit) ** 4)
                for c in range(row.shape[0]):
                    total[c] += weight * row[c]
            step = rate / np.sqrt(offset + seen[r, 0])
            shrink = number(1 / (1 + step * decay * (clock - before)))
            f = number(step * stretch) * shrink
            if last - first == width:
                for c in range(width):
                    row[c] = row[c] * shrink - f * source[c]
            else:
                for q in range(np.uint64(first), np.uint64(last)):  # unsigned, so that nothing asks for its sign
                    weights[q] = weights[q] * shrink - f * source[np.uint32(cols[q])]


@kernel
def average_rows(
    n_rows: int,
    width: int,
    row_ptr: Offsets,
    weights: Floats,
    sums: Floats,
    seen: Floats,
    clock: float,
    unit: float,
    out: Floats,
) -> None:
    """Write the average that `adagrad` keeps to out: each row counts up to `clock`, also since its last visit."""
    now = (clock / unit) ** 4
    for r in range(n_rows):
        first, last = r * width, (r + 1) * width
        if row_ptr.shape[0]:
            first, last = row_ptr[r], row_ptr[r + 1]
        weight = weights.dtype.type(1 - (seen[r, 1] / clock) ** 4)
        share = weights.dtype.type(1 / now)
        for q in range(first, last):
            out[q] = weight * weights[q] + share * sums[q]
