"""Long-vector arithmetic in few passes over memory, summed in float64."""

from __future__ import annotations

from ..types import Floats, Ints
from ._jit import kernel

BLOCK = 2048
"""Elements handled at a time: a block of all vectors of an L-BFGS history fits the level-2 cache."""


@kernel
def _block_dot(x: Floats, y: Floats) -> float:
    """Return ``x . y`` of short vectors; loops from 0 over whole slices are what the compiler vectorises."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@kernel
def products(basis: Floats, rows: Ints, out: Floats) -> None:
    """Write ``basis[r] . basis[k]`` for r in rows [R] and all k to out [R, K] float64; basis [K, D]."""
    out[:] = 0
    for b in range(0, basis.shape[1], BLOCK):
        for r in range(rows.shape[0]):
            vector = basis[rows[r], b : b + BLOCK]
            for k in range(basis.shape[0]):
                out[r, k] += _block_dot(basis[k, b : b + BLOCK], vector)


@kernel
def combine(basis: Floats, used: int, coefficients: Floats, out: Floats) -> None:
    """Write ``sum_k coefficients[k] * basis[k]``, k < used, to out [D]; coefficients have the dtype of out."""
    for b in range(0, out.shape[0], BLOCK):
        target = out[b : b + BLOCK]
        target[:] = 0
        for k in range(used):
            row, c = basis[k, b : b + BLOCK], coefficients[k]
            for i in range(target.shape[0]):
                target[i] += c * row[i]


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
