"""Corners and the steps that respect them: L1 norms, and moves within one orthant.

Everything works in place or writes to an array that is given, over millions of weights, and sums in float64.
"""

from __future__ import annotations

from ..types import Floats
from .jit import kernel

BLOCK = 8192
"""Elements summed in their own precision before the sum goes to float64."""


@kernel
def absolute_sum(x: Floats) -> float:
    """Return ||x||_1 of x [D]."""
    total = 0.0
    for b in range(0, x.shape[0], BLOCK):
        part, block = x.dtype.type(0), x[b : b + BLOCK]
        for i in range(block.shape[0]):
            part += abs(block[i])
        total += part
    return total


@kernel
def pseudo_gradient(x: Floats, gradient: Floats, l1: float, out: Floats) -> None:
    """Write the subgradient of least norm of ``f(x) + l1 ||x||_1`` to out [D], given the gradient of f at x."""
    t = x.dtype.type(l1)
    for i in range(x.shape[0]):
        g = gradient[i]
        at_corner = g - min(max(g, -t), t)
        beside = g + (t if x[i] > 0 else -t)
        out[i] = beside if x[i] != 0 else at_corner


@kernel
def align(direction: Floats, pseudo: Floats) -> float:
    """Set direction [D] to zero where it is none of descent; return its inner product with pseudo, the gradient."""
    total = 0.0
    for b in range(0, direction.shape[0], BLOCK):
        part, block, slopes = direction.dtype.type(0), direction[b : b + BLOCK], pseudo[b : b + BLOCK]
        for i in range(block.shape[0]):
            slope = block[i] * slopes[i]
            block[i] = block[i] if slope < 0 else 0
            part += min(slope, direction.dtype.type(0))
        total += part
    return total


@kernel
def orthant_step(x: Floats, step: float, direction: Floats, pseudo: Floats, out: Floats) -> float:
    """Write ``x + step * direction`` to out [D], zero where that leaves the orthant; return ``pseudo . (out - x)``.

    The orthant is that of x, and of -pseudo where x is zero.
    """
    s, zero = x.dtype.type(step), x.dtype.type(0)
    total = 0.0
    for b in range(0, x.shape[0], BLOCK):
        old, move, slopes, new = x[b : b + BLOCK], direction[b : b + BLOCK], pseudo[b : b + BLOCK], out[b : b + BLOCK]
        part = zero
        for i in range(old.shape[0]):
            sign = old[i] if old[i] != 0 else -slopes[i]
            there = old[i] + s * move[i]
            new[i] = max(there, zero) if sign > 0 else (min(there, zero) if sign < 0 else zero)
            part += slopes[i] * (new[i] - old[i])
        total += part
    return total
