"""Sums of weight rows times values, and their transposes.

Token t has the rows ``ids[ptr[t]:ptr[t + 1]]`` of weights [R, C], each with the value at the same place; -1 is no row.
"""

from __future__ import annotations

from numpy import float64
from numpy.typing import NDArray

from ..types import Floats, Ints, Offsets
from .jit import kernel


@kernel
def add_products(ptr: Offsets, ids: Ints, values: NDArray[float64], weights: Floats, out: Floats) -> None:
    """Add the sum of ``values[k] weights[ids[k]]`` to out[t], for out [T, C]."""
    for t in range(ptr.shape[0] - 1):
        for k in range(ptr[t], ptr[t + 1]):
            if ids[k] >= 0:
                for j in range(out.shape[1]):
                    out[t, j] += values[k] * weights[ids[k], j]


@kernel
def scatter_products(ptr: Offsets, ids: Ints, values: NDArray[float64], d: Floats, grad: Floats) -> None:
    """Transpose of `add_products`: d [T, C], grad [R, C]."""
    for t in range(ptr.shape[0] - 1):
        for k in range(ptr[t], ptr[t + 1]):
            if ids[k] >= 0:
                for j in range(d.shape[1]):
                    grad[ids[k], j] += values[k] * d[t, j]
