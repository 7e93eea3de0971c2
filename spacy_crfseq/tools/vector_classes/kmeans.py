"""K-means of the rows of a matrix (Lloyd 1982, "Least squares quantization in PCM"), in steps of matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...types import Floats, Ints

ROWS = 4096
"""Rows whose distances to all centres are in memory at once."""
PASSES = 12
STILL = 0.01
"""Share of the rows below which so few change their cluster that the next pass brings nothing."""


def kmeans(
    rows: Floats, n_clusters: int, seed: int = 0, show: Callable[[int], object] = lambda n: None
) -> tuple[Ints, Floats]:
    """Return the cluster of each row [R], and the centres [C, d], which begin at rows drawn at random.

    A centre that loses all of its rows moves to one of the rows that are farthest from theirs.
    show: Called with the number of rows of each block.
    """
    centres = rows[np.random.default_rng(seed).choice(len(rows), n_clusters, replace=False)].copy()
    nearest, squares = np.full(len(rows), -1, np.int32), np.einsum("ij,ij->i", rows, rows)
    for number in range(PASSES):
        old, near, half = nearest, np.empty(len(rows), rows.dtype), np.einsum("ij,ij->i", centres, centres) / 2
        nearest = np.empty_like(old)
        for start in range(0, len(rows), ROWS):
            # half the squared distance is x.x / 2 minus this
            scores = rows[start : start + ROWS] @ centres.T - half
            nearest[start : start + ROWS], near[start : start + ROWS] = scores.argmax(axis=1), scores.max(axis=1)
            show(len(scores))
        if number == PASSES - 1 or np.count_nonzero(nearest != old) < STILL * len(rows):
            break
        sizes = np.bincount(nearest, minlength=n_clusters)
        full = sizes > 0
        first = (np.cumsum(sizes) - sizes)[full]
        centres[full] = np.add.reduceat(rows[np.argsort(nearest, kind="stable")], first, axis=0) / sizes[full, None]
        farthest = np.argsort(2 * near - squares, kind="stable")
        centres[~full] = rows[farthest[: n_clusters - len(first)]]
    return nearest, centres
