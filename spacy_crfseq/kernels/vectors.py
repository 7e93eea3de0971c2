"""Long-vector arithmetic in few passes over memory, summed in float64; L1 norms, and moves within one orthant."""

from __future__ import annotations

from ..types import Floats
from .jit import inlined, internal, kernel

BLOCK = 8192
"""Elements handled at a time: a block of the vectors at hand fits the level-2 cache."""


@internal
def _block_dot(x: Floats, y: Floats) -> float:
    """Return ``x . y`` of short vectors; loops from 0 over whole slices are what the compiler vectorises."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@inlined
def _six_dots(x: Floats, y: Floats, a: Floats, b: Floats, c: Floats) -> tuple[float, float, float, float, float, float]:
    """Return the inner products of x and of y with a, b and c: six sums at a time keep the arithmetic units busy."""
    xa, xb, xc = x.dtype.type(0), x.dtype.type(0), x.dtype.type(0)
    ya, yb, yc = x.dtype.type(0), x.dtype.type(0), x.dtype.type(0)
    for i in range(x.shape[0]):
        xa += x[i] * a[i]
        xb += x[i] * b[i]
        xc += x[i] * c[i]
        ya += y[i] * a[i]
        yb += y[i] * b[i]
        yc += y[i] * c[i]
    return xa, xb, xc, ya, yb, yc


@kernel
def remember(
    basis: Floats, slot: int, pairs: int, begin: int, end: int, step: tuple[Floats, Floats, Floats, Floats, Floats],
    products: Floats,
) -> None:  # fmt: skip
    """Put a step into an L-BFGS history and multiply what is new with all of it, in the elements begin..end-1.

    basis [2m + 1, D] holds m steps, m gradient changes and the last gradient.  step: old and new weights, the gradients
    before and after it, and the one to keep, gradient, all [D].  ``new - old`` goes to row slot, ``after
    - before`` to row m + slot, gradient [D] to the last row, which may be `before`; products [3, 2m + 1] float64
    receive the inner products of these three rows with all rows, zeros for some of the rows from pair `pairs` on.
    """
    (old, new, before, after, gradient), n = step, basis.shape[0]
    m = n // 2
    for k in range(n):
        products[0, k] = products[1, k] = products[2, k] = 0
    for b in range(begin, end, BLOCK):
        e = min(b + BLOCK, end)
        s, y, g = basis[slot, b:e], basis[m + slot, b:e], basis[n - 1, b:e]
        old_values, there, last, fresh, next_ = old[b:e], new[b:e], before[b:e], after[b:e], gradient[b:e]
        for i in range(s.shape[0]):
            s[i] = there[i] - old_values[i]
        for i in range(s.shape[0]):
            y[i] = fresh[i] - last[i]
        for i in range(s.shape[0]):
            g[i] = next_[i]
        for k in range(0, n - 1, 2):
            if min(k % m, (k + 1) % m) >= pairs:  # they hold nothing yet
                continue
            xs, xy, xg, zs, zy, zg = _six_dots(basis[k, b:e], basis[k + 1, b:e], s, y, g)
            products[0, k] += xs
            products[1, k] += xy
            products[2, k] += xg
            products[0, k + 1] += zs
            products[1, k + 1] += zy
            products[2, k + 1] += zg
        products[0, n - 1] += _block_dot(g, s)
        products[1, n - 1] += _block_dot(g, y)
        products[2, n - 1] += _block_dot(g, g)


@inlined
def _add_four(out: Floats, a: Floats, b: Floats, c: Floats, d: Floats, factors: Floats) -> None:
    f, g, h, i = factors[0], factors[1], factors[2], factors[3]
    for k in range(out.shape[0]):
        out[k] += f * a[k] + g * b[k] + h * c[k] + i * d[k]


@kernel
def combine(basis: Floats, begin: int, end: int, coefficients: Floats, out: Floats) -> None:
    """Write ``sum_k coefficients[k] * basis[k]`` to the elements begin..end-1 of out [D].

    basis [K, D], coefficients [K] of its dtype.
    """
    for b in range(begin, end, BLOCK):
        e = min(b + BLOCK, end)
        target = out[b:e]
        for i in range(target.shape[0]):
            target[i] = 0
        k = 0
        while k + 4 <= basis.shape[0]:
            f = coefficients[k : k + 4]
            if f[0] != 0 or f[1] != 0 or f[2] != 0 or f[3] != 0:
                first, second, third, fourth = basis[k, b:e], basis[k + 1, b:e], basis[k + 2, b:e], basis[k + 3, b:e]
                _add_four(target, first, second, third, fourth, f)
            k += 4
        while k < basis.shape[0]:
            row, factor = basis[k, b:e], coefficients[k]
            for i in range(target.shape[0]):
                target[i] += factor * row[i]
            k += 1


@kernel
def add_scaled(x: Floats, factor: float, y: Floats, out: Floats) -> None:
    """Write ``x + factor * y`` to out [D]."""
    f = x.dtype.type(factor)
    for i in range(x.shape[0]):
        out[i] = x[i] + f * y[i]


@kernel
def dot(x: Floats, y: Floats) -> float:
    """Return ``x . y``, summed in float64 over blocks."""
    total = 0.0
    for b in range(0, x.shape[0], BLOCK):
        total += _block_dot(x[b : b + BLOCK], y[b : b + BLOCK])
    return total


@kernel
def average(x: Floats, x_factor: float, sums: Floats, sums_factor: float, out: Floats) -> None:
    """Write ``x_factor * x + sums_factor * sums`` to out [D]."""
    fx, fs = x.dtype.type(x_factor), x.dtype.type(sums_factor)
    for i in range(x.shape[0]):
        out[i] = fx * x[i] + fs * sums[i]


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
