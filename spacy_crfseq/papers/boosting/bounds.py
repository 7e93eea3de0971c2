"""Bounds on the change of the loss by a step of one weight, for boosting: their minima, and the steps there."""

from __future__ import annotations

import numpy as np

from ...kernels.jit import inlined, internal, kernel
from ...types import Ints, Offsets
from .memory import Numbers, Rows, Sums

Reach = tuple[Numbers, Numbers, Numbers]


@kernel
def reach(
    first_row: int, row_ptr: Offsets, tokens: Ints, columns: Ints, owner: Ints, rows: Rows,
    low: Numbers, high: Numbers, length: Numbers,
) -> None:  # fmt: skip
    """Say how far the counts of each feature of a group can be from the gold ones in one sequence.

    row_ptr [R + 1] and tokens: where each row is on.  columns [T]: the gold column, -1 where missing.  owner [T]: the
    sequence, -1 for tokens that are passed over.  low [D]: most positions with a row and the feature's column in the
    gold labels or missing ones.  high [D]: most that do not have it for certain.  length [R]: positions with the row in
    a sequence, the mean over such positions.
    """
    width = 0
    for k in range(rows.begin[first_row], rows.begin[first_row + row_ptr.shape[0] - 1]):
        width = max(width, rows.cols[k] + 1)
    counts = np.zeros(width)
    for r in range(row_ptr.shape[0] - 1):
        a = first_row + r
        total, squares = 0.0, 0.0
        i, end = row_ptr[r], row_ptr[r + 1]
        while i < end:
            n, begin, missing = owner[tokens[i]], i, 0
            while i < end and owner[tokens[i]] == n:
                column = columns[tokens[i]]
                missing += column < 0
                if 0 <= column < width:
                    counts[column] += 1
                i += 1
            size = i - begin
            for k in range(rows.begin[a], rows.begin[a + 1] if n >= 0 else 0):
                known = counts[rows.cols[k]]
                low[k] = max(low[k], known + missing)
                high[k] = max(high[k], size - known)
            for column in columns[tokens[begin:i]]:
                if 0 <= column < width:
                    counts[column] = 0
            if n >= 0:
                total += size
                squares += size * size
        length[a] = squares / max(total, 1.0)


POSITION, LOOSE, OPTIMISTIC = 0, 1, 2
"""What `rank` compares features by."""
LARGEST_EXPONENT = 600.0


@internal
def best_step(a: float, low: float, b: float, high: float, limit: float, clip: bool) -> float:
    """Return the x that minimises ``a exp(-x low) + b exp(x high)``, all numbers positive or 0.

    limit: An infinite step becomes +-limit.  clip: Finite steps are limited, too.
    """
    down, up = a * low, b * high
    if down <= 0 and up <= 0:
        return 0.0
    if down <= 0:
        return -limit
    if up <= 0:
        return limit
    x = np.log(down / up) / (low + high)
    return max(-limit, min(limit, x)) if clip else x


@kernel
def rank(
    kind: int, mass: float, limit: float, clip: bool, rows: Rows, sums: Sums, reach: Reach, gains: Numbers,
    best: Offsets,
) -> None:  # fmt: skip
    """Write the largest guaranteed decrease of each row to gains [R], its parameter to best [R]; clean the rows.

    kind: `POSITION` and `LOOSE` for these bounds.  `OPTIMISTIC` for a number that the tight bound of a weight does not
    exceed if all labels are known: let a labelling have the feature at p wrong positions and lack it at m gold ones.
    For x > 0 the chord over [-l, h] at p - m exceeds 1 by ``m (e^-x - 1) + p x`` or more.  The decrease is therefore
    at most ``minus - plus - plus log(minus / plus)``; plus and minus are exchanged for x < 0.
    mass: Sum of slope (1 - P(gold)) over all sequences, which makes every row dirty for `LOOSE`.
    reach: low, high and length of `reach`.
    """
    low, high, length = reach
    for r in range(gains.shape[0]):
        if not (sums.dirty[r] or kind == LOOSE):
            continue
        sums.dirty[r] = False
        gains[r] = 0
        for k in range(rows.begin[r], rows.begin[r + 1]):
            plus, minus = max(sums.both[k, 0], 0.0), max(sums.both[k, 1], 0.0)
            if kind == OPTIMISTIC:
                small, large = min(plus, minus), max(plus, minus)
                gain = large - small
                if small > 0:
                    gain -= small * np.log(large / small)
            else:
                if kind == POSITION:
                    down = up = max(length[r], 1.0)
                    a, b = minus / down, plus / up
                else:
                    down, up = low[k], high[k]
                    if down + up == 0:
                        continue
                    a = max(up * mass - plus + minus, 0.0) / (down + up)
                    b = max(plus - minus + down * mass, 0.0) / (down + up)
                x = best_step(a, down, b, up, limit, clip)
                gain = a + b - a * np.exp(-x * down) - b * np.exp(x * up)
            if gain > gains[r]:
                gains[r] = gain
                best[r] = k


@inlined
def _slope(a: Numbers, low: Numbers, b: Numbers, high: Numbers, x: float) -> tuple[float, float]:
    """Return the first and second derivative of the function that `minimise` minimises."""
    slope, bend = 0.0, 0.0
    for n in range(a.shape[0]):
        down = a[n] * low[n] * np.exp(min(-x * low[n], LARGEST_EXPONENT))
        up = b[n] * high[n] * np.exp(min(x * high[n], LARGEST_EXPONENT))
        slope += up - down
        bend += up * high[n] + down * low[n]
    return slope, bend


@kernel
def minimise(
    a: Numbers, low: Numbers, b: Numbers, high: Numbers, limit: float, clip: bool
) -> tuple[float, float]:  # fmt: skip
    """Return the x that minimises ``sum_n a (exp(-x low) - 1) + b (exp(x high) - 1)``, and the decrease there.

    limit, clip: As in `best_step`.  Newton's method inside an interval with the minimum; a step that would leave it
    becomes a bisection.
    """
    left, right, x = -limit, limit, 0.0
    if not clip:  # intervals grow until they contain a finite minimum
        downs, ups = 0.0, 0.0
        for n in range(a.shape[0]):
            downs, ups = max(downs, a[n] * low[n]), max(ups, b[n] * high[n])
        if downs > 0 and ups > 0:
            while left > -LARGEST_EXPONENT and _slope(a, low, b, high, left)[0] >= 0:
                left *= 2
            while right < LARGEST_EXPONENT and _slope(a, low, b, high, right)[0] <= 0:
                right *= 2
    if _slope(a, low, b, high, left)[0] >= 0:
        x, right = left, left
    elif _slope(a, low, b, high, right)[0] <= 0:
        x, left = right, right
    while right - left > 1e-10:
        slope, bend = _slope(a, low, b, high, x)
        if slope > 0:
            right = x
        else:
            left = x
        following = x - slope / bend
        if not left < following < right:
            following = (left + right) / 2
        if abs(following - x) < 1e-10:
            break
        x = following
    value = 0.0
    for n in range(a.shape[0]):
        value += a[n] * np.expm1(-x * low[n]) + b[n] * np.expm1(x * high[n])
    return x, -value
