"""Steps on rows of weights, at the rows that a mini-batch touches and nowhere else.

A gradient comes as `types.RowGradient` describes it: position t adds d[t] to each of its rows, the numbers
``ids[ptr[t]:ptr[t + 1]]``.  Row r lies at ``row_ptr[r]:row_ptr[r + 1]`` and has the columns ``cols`` of that range;
where both are empty, it lies at ``r * C`` and has all C columns of d.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..types import Floats, Ints, Offsets
from .jit import inlined, internal, kernel, prefetch

STRIDE_CLOCK, STRIDE_POSITION = 0.7548776662466927, 0.5698402909980532
"""Multiples of these spread evenly over [0, 1) modulo 1 (the additive recurrence R2 of Roberts 2018)."""


RowArrays: TypeAlias = tuple[Offsets, Ints, Floats, Floats, Floats]
"""row_ptr, cols, weights, sums of weights for their average (empty: none), and seen [R, 2], float64: the sum of squares
of each row, and the clock at its last visit."""
ListedPlaces: TypeAlias = tuple[Offsets, Floats, int]
"""places [n], values [n], in longer arrays, and n, as `collect` lists them."""
UpdateSettings: TypeAlias = tuple[float, float, float, float, float, float]
"""The clock's unit for the weights of the average; rate, offset and least of `optimizers.adagrad`; strengths of the
squared norm and of the L1 norm per tick of the clock."""


@inlined
def _bounds(row_ptr: Offsets, r: Any, width: int) -> tuple[int, int]:
    """Return where row r begins and ends."""
    first, last = r * width, (r + 1) * width
    if row_ptr.shape[0]:
        first, last = row_ptr[r], row_ptr[r + 1]
    return first, last


@inlined
def _is_zero(row: Floats) -> bool:
    zero = True
    for c in range(row.shape[0]):
        zero &= row[c] == 0
    return zero


@kernel
def add_rows(ptr: Offsets, ids: Ints, d: Floats, row_ptr: Offsets, cols: Ints, factor: float, out: Floats) -> None:
    """Add factor times the gradient to out: ptr [T + 1], ids [ptr[T]], d [T, C]."""
    width, f = d.shape[1], d.dtype.type(factor)
    for t in range(d.shape[0]):
        source = d[t]
        if _is_zero(source):
            continue
        for p in range(ptr[t], ptr[t + 1]):
            r = ids[p]
            if row_ptr.shape[0] == 0:
                row = out[r * width : (r + 1) * width]
                for c in range(width):
                    row[c] += f * source[c]
            else:
                for q in range(row_ptr[r], row_ptr[r + 1]):
                    out[q] += f * source[cols[q]]


@internal
def _choose(d: Floats, clock: float, least: float, begin: int, used: Ints, factors: Floats) -> int:
    """Write the positions to be used to used [T] and how much each is stretched to factors [T]; return their number.

    begin: The number of the first position in its mini-batch.
    A gradient d[t] shorter than `least` is used with a probability proportional to its length, as if it were so long.
    """
    n = 0
    for t in range(d.shape[0]):
        square = d.dtype.type(0)
        for c in range(d.shape[1]):
            square += d[t, c] * d[t, c]
        stretch = 1.0
        if square < least * least:
            length, place = np.sqrt(square), clock * STRIDE_CLOCK + (begin + t) * STRIDE_POSITION
            if square == 0 or (place - np.floor(place)) * least >= length:
                continue
            stretch = least / length
        used[n], factors[n] = t, stretch
        n += 1
    return n


@kernel
def adagrad(
    gradient: tuple[Offsets, Ints, Floats], rows: RowArrays, clock: float, settings: UpdateSettings, begin: int
) -> None:
    """Make AdaGrad steps with one accumulator for each row; `optimizers.adagrad` has the formulas.

    gradient: ptr [T + 1], ids [ptr[T]], d [T, C].  begin: The number of the first position in its mini-batch.
    """
    (ptr, ids, d), (row_ptr, cols, weights, sums, seen), (unit, rate, offset, least, decay, lasso) = (
        gradient,
        rows,
        settings,
    )
    width, number, average = d.shape[1], d.dtype.type, sums.shape[0] > 0
    used, factors = np.empty(d.shape[0], np.int32), np.empty(d.shape[0])
    n = _choose(d, clock, least, begin, used, factors)
    per_unit = 1 / unit
    now = (clock * per_unit) ** 4
    # each position whose gradient is not zero changes the rows that it has
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
            first, last = _bounds(row_ptr, r, width)
            row, before = weights[first:last], seen[r, 1]
            seen[r, 0] += square
            seen[r, 1] = clock
            # the sum for averaging counts the row as it was from its last visit until now
            if average and before < clock:
                total, weight = sums[first:last], number(now - (before * per_unit) ** 4)
                for c in range(row.shape[0]):
                    total[c] += weight * row[c]
            # shrinkage and the cut of L1 for all mini-batches since the last visit, in one step
            step = rate / np.sqrt(offset + seen[r, 0])
            shrink = number(1 / (1 + step * decay * (clock - before)))
            f = number(step * stretch) * shrink
            if lasso > 0:
                cut = number(step * lasso * (clock - before))
                for q in range(first, last):
                    w = weights[q] - number(step * stretch) * source[cols[q] if row_ptr.shape[0] else q - first]
                    weights[q] = (max(w - cut, 0) + min(w + cut, 0)) * shrink
            elif last - first == width:
                for c in range(width):
                    row[c] = row[c] * shrink - f * source[c]
            else:
                for q in range(np.uint64(first), np.uint64(last)):  # unsigned, so that nothing asks for its sign
                    weights[q] = weights[q] * shrink - f * source[np.uint32(cols[q])]


@kernel
def average_rows(n_rows: int, width: int, rows: RowArrays, clock: float, unit: float, out: Floats) -> None:
    """Write the average that `adagrad` keeps to out: each row counts up to `clock`, also since its last visit."""
    row_ptr, _, weights, sums, seen = rows
    now = (clock / unit) ** 4
    for r in range(n_rows):
        first, last = _bounds(row_ptr, r, width)
        weight = weights.dtype.type(1 - (seen[r, 1] / clock) ** 4)
        share = weights.dtype.type(1 / now)
        for q in range(first, last):
            out[q] = weight * weights[q] + share * sums[q]


@kernel
def catch_up(n_rows: int, width: int, rows: RowArrays, clock: float, settings: UpdateSettings) -> None:
    """Make the proximal steps that `adagrad` still owes to each row, as if all were visited now; arguments as there."""
    (row_ptr, _, weights, _, seen), (_, rate, offset, _, decay, lasso) = rows, settings
    for r in range(n_rows):
        first, last = _bounds(row_ptr, r, width)
        late = rate / np.sqrt(offset + seen[r, 0]) * (clock - seen[r, 1])
        shrink, cut = weights.dtype.type(1 / (1 + late * decay)), weights.dtype.type(late * lasso)
        seen[r, 1] = clock
        for q in range(first, last):
            w = weights[q]
            weights[q] = (max(w - cut, 0) + min(w + cut, 0)) * shrink


@inlined
def _paid_weight(weight: float, debt: float, paid: float) -> float:
    if weight > 0:
        return max(0.0, weight - (debt + paid))
    return min(0.0, weight + (debt - paid))


@kernel
def pay_rows(
    ptr: Offsets, ids: Ints, width: int, row_ptr: Offsets, debt: float, scale: float, weights: Floats, paid: Floats
) -> None:
    """Let the weights of some rows pay their L1 penalty; `optimizers.sgd` has the formulas.

    ptr, ids: The rows, as in `add_rows`.  scale: The weights are stored times this.
    """
    for p in range(ptr[0], ptr[-1]):
        r = np.int64(ids[p])
        first, last = _bounds(row_ptr, r, width)
        pay(debt, scale, weights[first:last], paid[first:last])


@kernel
def pay(debt: float, scale: float, weights: Floats, paid: Floats) -> None:
    """Let weights [n] pay their L1 penalty; arguments as in `pay_rows`."""
    for q in range(weights.shape[0]):
        if weights[q] != 0:
            before = weights[q] / scale
            after = _paid_weight(before, debt, paid[q])
            weights[q] = after * scale
            paid[q] += after - before


@kernel
def collect(
    gradient: tuple[Offsets, Ints, Floats], rows: tuple[Offsets, Ints], begin: int, scratch: Floats, places: Offsets,
    values: Floats, n: int,
) -> int:  # fmt: skip
    """Append a gradient to the list places [n], values [n], each parameter once; return how long it is then.

    gradient: ptr [T + 1], ids [ptr[T]], d [T, C].  rows: row_ptr, cols; their parameters lie from `begin` on.  scratch
    [D] is zero before and after.  Where the lists are too short, nothing is appended, and minus the length they need is
    returned.
    """
    (ptr, ids, d), (row_ptr, cols) = gradient, rows
    width, room = d.shape[1], n
    # the most that may be appended: columns that are not zero, times rows
    for t in range(d.shape[0]):
        columns = 0
        for c in range(width):
            columns += d[t, c] != 0
        room += columns * (ptr[t + 1] - ptr[t])
    if room > places.shape[0]:
        return -room
    # sums in `scratch`, and a list of places where there are any
    touched = n
    for t in range(d.shape[0]):
        source = d[t]
        if _is_zero(source):
            continue
        for p in range(ptr[t], ptr[t + 1]):
            r = np.int64(ids[p])
            first, last = _bounds(row_ptr, r, width)
            for q in range(first, last):
                change = source[cols[q] if row_ptr.shape[0] else q - first]
                if change != 0:
                    if scratch[begin + q] == 0:
                        places[touched] = begin + q
                        touched += 1
                    scratch[begin + q] += change
    for k in range(n, touched):  # a sum that was zero on its way is in the list twice, and counts once
        q = places[k]
        if scratch[q] != 0:
            places[n], values[n] = q, scratch[q]
            scratch[q] = 0
            n += 1
    return n


@kernel
def weighted_square(listed: ListedPlaces, factors: Floats) -> float:
    """Return the sum of the squares of values [n], times their factors [D] unless these are empty; in float64."""
    (places, values, n), total = listed, 0.0
    for k in range(n):
        square = np.float64(values[k]) * values[k]
        total += square * factors[places[k]] if factors.shape[0] else square
    return total


@kernel
def step_at(
    listed: ListedPlaces, step: float, shrink: float, clock: float, weights: Floats, variances: Floats, sums: Floats
) -> None:
    """Step against the gradient that `collect` has listed, ``step * variance * value`` long at each parameter.

    The variance, then, loses shrink times the square of variance times value.  variances [D]: empty where all are 1 and
    stay so.  sums [D]: loses `clock` times the step; empty where no average is kept.
    """
    (places, values, n), late = listed, weights.dtype.type(clock)
    for k in range(n):
        q = places[k]
        change = weights.dtype.type(step) * values[k]
        if variances.shape[0]:
            change *= variances[q]
            scaled = variances[q] * values[k]
            variances[q] -= weights.dtype.type(shrink) * scaled * scaled
        weights[q] -= change
        if sums.shape[0]:
            sums[q] -= late * change
