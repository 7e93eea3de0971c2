"""Bounds on what the loss gains by a step of one weight, for boosting: their least values, and the best steps."""

from __future__ import annotations

import numpy as np

from ..types import Ints, Offsets
from ._jit import inlined, kernel
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


@kernel
def best_step(a: float, low: float, b: float, high: float, limit: float) -> float:
    """Return the x of at most +-limit that minimises ``a exp(-x low) + b exp(x high)``, all numbers positive or 0."""
    down, up = a * low, b * high
    if down <= 0 and up <= 0:
        return 0.0
    if down <= 0:
        return -limit
    if up <= 0:
        return limit
    return max(-limit, min(limit, np.log(down / up) / (low + high)))


@kernel
def rank(local: bool, limit: float, rows: Rows, sums: Sums, reach: Reach, gains: Numbers, best: Offsets) -> None:
    """Note the largest guaranteed decrease of each dirty row in gains [R], its parameter in best [R]; clean the rows.

    local: by the bound on positions; else by the loose one on sequences.  reach: low, high and length of `reach`.
    """
    low, high, length = reach
    for r in range(gains.shape[0]):
        if not sums.dirty[r]:
            continue
        sums.dirty[r] = False
        gains[r] = 0
        for k in range(rows.begin[r], rows.begin[r + 1]):
            plus, minus = max(sums.both[k, 0], 0.0), max(sums.both[k, 1], 0.0)
            if local:
                down = up = max(length[r], 1.0)
                a, b = minus / down, plus / down
            else:
                down, up = low[k], high[k]
                if down + up == 0:
                    continue
                a = max(up * sums.mass[r] - plus + minus, 0.0) / (down + up)
                b = max(plus - minus + down * sums.mass[r], 0.0) / (down + up)
            x = best_step(a, down, b, up, limit)
            gain = a + b - a * np.exp(-x * down) - b * np.exp(x * up)
            if gain > gains[r]:
                gains[r] = gain
                best[r] = k


@inlined
def _slope(a: Numbers, low: Numbers, b: Numbers, high: Numbers, x: float) -> tuple[float, float]:
    """Return the first and second derivative of what `minimise` minimises."""
    slope, bend = 0.0, 0.0
    for n in range(a.shape[0]):
        down, up = a[n] * low[n] * np.exp(-x * low[n]), b[n] * high[n] * np.exp(x * high[n])
        slope += up - down
        bend += up * high[n] + down * low[n]
    return slope, bend


@kernel
def minimise(a: Numbers, low: Numbers, b: Numbers, high: Numbers, limit: float) -> tuple[float, float]:
    """Return the x of at most +-limit that minimises ``sum_n a (exp(-x low) - 1) + b (exp(x high) - 1)``, and the fall.

    Newton's method inside an interval that holds the minimum, which is halved where a step would leave it.
    """
    left, right, x = -limit, limit, 0.0
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
