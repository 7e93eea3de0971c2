"""Sums of sparse weight rows for prediction, over tables made for reading.

Rows lie anywhere in memory and each is used once a token, so most of the time goes by waiting for it: the rows of a
token are asked for some tokens ahead.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from .jit import light, prefetch, stand_in

LINE = 16
"""Numbers in a cache line (float32)."""
FAR, NEAR = 8, 4
"""How many tokens ahead memory is asked for: heads of rows, and rows themselves."""


@light()
def add_split(
    ids: Ints, heads: Floats, dense: Floats, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats
) -> None:
    """Add rows that `potentials.linear.split_rows` has sorted: ids [T, S], -1 for none, out [T, C]."""
    length, n_slots = ids.shape
    n_dense, n = dense.shape
    for t in range(length):
        if t + FAR < length:
            for s in range(n_slots):
                prefetch(heads, max(ids[t + FAR, s], 0), 0)
        if t + NEAR < length:
            for s in range(n_slots):
                ahead = ids[t + NEAR, s]
                if ahead >= 0 and -1 - n_dense < heads[ahead, 0] < 0:
                    i = np.int64(-1 - heads[ahead, 0])
                    for k in range(0, n, LINE):
                        prefetch(dense, i, k)
        target = out[t]
        for s in range(n_slots):
            r = ids[t, s]
            if r >= 0:
                code = np.int64(heads[r, 0])
                if code >= 0:
                    target[code] += heads[r, 1]
                elif -1 - code < n_dense:
                    row = dense[-1 - code]
                    for k in range(n):
                        target[k] += row[k]
                else:
                    for q in range(row_ptr[r], row_ptr[r + 1]):
                        target[cols[q]] += values[q]


def add_fixed(ids: Ints, weights: Floats, out: Floats) -> None:
    """Add dense rows: ids [T, S], weights [R, C], out [T, C]."""
    add_ragged(np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1], ids.reshape(-1), weights, out)


@stand_in
def add_ragged(ptr: Offsets, ids: Ints, weights: Floats, out: Floats) -> None:
    """See `rows.add_ragged`."""
    for t in range(len(out)):
        for r in ids[ptr[t] : ptr[t + 1]]:
            if r >= 0:
                out[t] += weights[r]


@stand_in
def add_ragged_sparse(ptr: Offsets, ids: Ints, row_ptr: Offsets, cols: Ints, values: Floats, out: Floats) -> None:
    """See `rows.add_ragged_sparse`."""
    for t in range(len(out)):
        for r in ids[ptr[t] : ptr[t + 1]]:
            row = slice(row_ptr[r], row_ptr[r + 1])
            out[t, cols[row]] += values[row]
