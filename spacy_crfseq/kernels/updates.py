"""Steps on rows of weights, at the rows that a mini-batch touches and nowhere else.

A gradient comes as `types.RowGradient` describes it: position t adds d[t] to each of its rows, the numbers
``ids[ptr[t]:ptr[t + 1]]``.  Row r lies at ``row_ptr[r]:row_ptr[r + 1]`` and has the columns ``cols`` of that range;
where both are empty, it lies at ``r * C`` and has all C columns of d.
"""

from __future__ import annotations

from ..types import Floats, Ints, Offsets
from ._jit import kernel

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
    width, number = d.shape[1], d.dtype.type
    now = (clock / unit) ** 4
    for t in range(d.shape[0]):
        source = d[t]
        square = number(0)
        for c in range(width):
            square += source[c] * source[c]
        stretch = 1.0
        if square < least * least:
            length = square**0.5
            if (clock * STRIDE_CLOCK + t * STRIDE_POSITION) % 1 * least >= length:
                continue
            stretch, square = least / length, number(least * least)
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            seen[r, 0] += square
            step = rate / (offset + seen[r, 0]) ** 0.5
            before, seen[r, 1] = seen[r, 1], clock
            shrink = number(1 / (1 + step * decay * (clock - before)))
            weight = number(now - (before / unit) ** 4)
            f = number(step * stretch) * shrink
            if row_ptr.shape[0] == 0:
                row = weights[r * width : (r + 1) * width]
                if sums.shape[0] and before < clock:
                    total = sums[r * width : (r + 1) * width]
                    for c in range(width):
                        total[c] += weight * row[c]
                for c in range(width):
                    row[c] = row[c] * shrink - f * source[c]
            else:
                if sums.shape[0] and before < clock:
                    for q in range(row_ptr[r], row_ptr[r + 1]):
                        sums[q] += weight * weights[q]
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    weights[q] = weights[q] * shrink - f * source[cols[q]]


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
