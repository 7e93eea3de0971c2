"""Exponentials, sums of exponentials and the outer function of losses, for all recursions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import Floats, Offsets
from .jit import inlined, internal

LANES = 8
"""Rows of work arrays are padded to a multiple of this, so that loops over labels need no remainder."""


@inlined
def padded(n: int) -> int:
    """Return the next multiple of `LANES`."""
    return (n + LANES - 1) // LANES * LANES


@inlined
def longest(offsets: Offsets) -> int:
    """Return the length of the longest sequence."""
    found = 0
    for s in range(offsets.shape[0] - 1):
        found = max(found, offsets[s + 1] - offsets[s])
    return found


@inlined
def exp32(x: Any) -> Any:
    """Return the exponential of a float32 that is not positive; 0 below -87 and for what is not a number.

    x = m log 2 + r with a polynomial for e^r (Cephes, ``expf``, relative error 2e-7) and 2^m written into the exponent
    bits of a float; unlike a call of the library, that is vectorised.
    """
    bounded = max(x, np.float32(-87))
    m = np.floor(bounded * np.float32(1.44269504) + np.float32(0.5))
    r = bounded - m * np.float32(0.693359375) + m * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    y = y * r + np.float32(8.3334519073e-3)
    y = y * r + np.float32(4.1665795894e-2)
    y = y * r + np.float32(1.6666665459e-1)
    y = y * r + np.float32(5.0000001201e-1)
    power = np.int32((np.int32(m) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (y * r * r + r + np.float32(1)) * power if x >= np.float32(-87) else np.float32(0)


@inlined
def exponentiate(row: Floats) -> None:
    """Replace a row of numbers that are not positive by their exponentials."""
    if row.itemsize == 4:
        for k in range(row.shape[0]):
            row[k] = exp32(row[k])
    else:
        for k in range(row.shape[0]):
            row[k] = np.exp(row[k])


@inlined
def largest(values: Floats) -> float:
    """Return the largest number."""
    found = values[0]
    for k in range(1, values.shape[0]):
        found = max(found, values[k])
    return found


@internal
def log_sum(values: Floats) -> float:
    """Return ``log sum_k exp(values_k)``, in float64; minus infinity for no values."""
    top, total = -np.inf, 0.0
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return -np.inf
    for value in values:
        total += np.exp(value - top)
    return top + np.log(total)


@internal
def row_potentials(step: Floats, powers: Floats, tops: Floats) -> None:
    """Write exp(step - top) to powers [L, L], zeros for rows of minus infinity, and the largest of each to tops [L]."""
    n = step.shape[0]
    for i in range(n):
        tops[i] = step[i, 0]
        for j in range(1, n):
            tops[i] = max(tops[i], step[i, j])
        top = tops[i] if tops[i] > -np.inf else 0.0
        for j in range(n):
            powers[i, j] = np.exp(step[i, j] - top)


@inlined
def log_add(x: float, y: float) -> float:
    """Return ``log(exp(x) + exp(y))``."""
    larger, smaller = max(x, y), min(x, y)
    return larger if smaller == -np.inf else larger + np.log1p(np.exp(smaller - larger))


@internal
def capped(nll: float, cap: float) -> tuple[float, float]:
    """Return phi(nll) and its derivative.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where the cap is 0.
    """
    if cap > 0 and nll < cap:
        power = np.exp(nll)
        return power - 1, power
    power = np.exp(cap)
    return power - 1 + power * (nll - cap), power
