"""Corners and the steps that respect them: L1 norms, norms of groups, and moves within one orthant.

Everything works in place or writes to an array that is given, over millions of weights, and sums in float64.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Offsets
from ._jit import inlined, kernel

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
def shrink(x: Floats, threshold: float) -> None:
    """Move every element of x [D] towards zero by `threshold`, and no farther than zero."""
    t = x.dtype.type(threshold)
    for i in range(x.shape[0]):
        x[i] -= min(max(x[i], -t), t)


@inlined
def _norm(row: Floats) -> float:
    square = 0.0
    for c in range(row.shape[0]):
        square += np.float64(row[c]) * row[c]
    return np.sqrt(square)


@kernel
def group_norms(x: Floats, ptr: Offsets) -> float:
    """Return ``sum_r sqrt(n_r) ||x_r||_2`` over the groups ``x[ptr[r]:ptr[r + 1]]`` of n_r elements, ptr [R + 1]."""
    total = 0.0
    for r in range(ptr.shape[0] - 1):
        row = x[ptr[r] : ptr[r + 1]]
        total += np.sqrt(row.shape[0]) * _norm(row)
    return total


@kernel
def shrink_groups(x: Floats, ptr: Offsets, threshold: float) -> None:
    """Move every group of x towards zero by ``threshold * sqrt(n_r)``, and no farther than zero."""
    for r in range(ptr.shape[0] - 1):
        row = x[ptr[r] : ptr[r + 1]]
        norm, least = _norm(row), threshold * np.sqrt(row.shape[0])
        factor = x.dtype.type(1 - least / norm if norm > least else 0)
        for c in range(row.shape[0]):
            row[c] *= factor


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


@kernel
def adapt_steps(pseudo: Floats, signs: Floats, steps: Floats, up: float, down: float, longest: float) -> None:
    """Let steps [D] grow where the sign of pseudo, the gradient, is that of signs, and shrink where it is the other.

    signs [D] receives the gradient's signs, and zero where they changed: such an element rests for once.
    """
    zero, one = pseudo.dtype.type(0), pseudo.dtype.type(1)
    u, d, most = pseudo.dtype.type(up), pseudo.dtype.type(down), pseudo.dtype.type(longest)
    for i in range(pseudo.shape[0]):
        sign = one if pseudo[i] > 0 else (-one if pseudo[i] < 0 else zero)
        same = sign * signs[i]
        steps[i] = min(steps[i] * u, most) if same > 0 else (steps[i] * d if same < 0 else steps[i])
        signs[i] = zero if same < 0 else sign


@kernel
def sign_step(x: Floats, signs: Floats, steps: Floats, stop: bool, out: Floats) -> None:
    """Write ``x - signs * steps`` to out [D]; with `stop`, elements stop at zero where they would cross it."""
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        there = x[i] - signs[i] * steps[i]
        crosses = stop and ((x[i] > 0 and there < 0) or (x[i] < 0 and there > 0))
        out[i] = zero if crosses else there


@kernel
def retreat(x: Floats, there: Floats, pseudo: Floats, steps: Floats, down: float) -> int:
    """Shorten the steps [D] that went from x too far, to where the gradient, pseudo, points ahead; return how many."""
    d, n = x.dtype.type(down), 0
    for i in range(x.shape[0]):
        if pseudo[i] * (there[i] - x[i]) > 0:
            steps[i] *= d
            n += 1
    return n
