"""Long-vector arithmetic in few passes over memory, summed in float64."""

from __future__ import annotations

from ..types import Floats, Ints
from ._jit import kernel

BLOCK = 2048
"""Elements handled at a time: a block of all vectors of an L-BFGS history fits the level-2 cache."""


@kernel
def products(basis: Floats, rows: Ints, out: Floats) -> None:
    """Write ``basis[r] . basis[k]`` for r in rows [R] and all k to out [R, K] float64; basis [K, D]."""
    size = basis.shape[1]
    out[:] = 0
    for b in range(0, size, BLOCK):
        e = min(b + BLOCK, size)
        for r in range(rows.shape[0]):
            vector = basis[rows[r]]
            for k in range(basis.shape[0]):
                row = basis[k]
                total = vector.dtype.type(0)
                for i in range(b, e):
                    total += row[i] * vector[i]
                out[r, k] += total


@kernel
def combine(basis: Floats, used: int, coefficients: Floats, out: Floats) -> None:
    """Write ``sum_k coefficients[k] * basis[k]``, k < used, to out [D]; coefficients have the dtype of out."""
    size = out.shape[0]
    for b in range(0, size, BLOCK):
        e = min(b + BLOCK, size)
        for i in range(b, e):
            out[i] = 0
        for k in range(used):
            row, c = basis[k], coefficients[k]
            for i in range(b, e):
                out[i] += c * row[i]


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
        part = x.dtype.type(0)
        for i in range(b, min(b + BLOCK, x.shape[0])):
            part += x[i] * y[i]
        total += part
    return total


@kernel
def add_decay(x: Floats, c: float, grad: Floats) -> float:
    """Add ``c * x`` to grad [D] and return ``x . x``."""
    f = x.dtype.type(c)
    total = 0.0
    for b in range(0, x.shape[0], BLOCK):
        part = x.dtype.type(0)
        for i in range(b, min(b + BLOCK, x.shape[0])):
            grad[i] += f * x[i]
            part += x[i] * x[i]
        total += part
    return total


@kernel
def average(x: Floats, x_factor: float, sums: Floats, sums_factor: float, out: Floats) -> None:
    """Write ``x_factor * x + sums_factor * sums`` to out [D]."""
    fx, fs = x.dtype.type(x_factor), x.dtype.type(sums_factor)
    for i in range(x.shape[0]):
        out[i] = fx * x[i] + fs * sums[i]
