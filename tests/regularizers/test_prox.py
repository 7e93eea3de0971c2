"""The L1 norm, groups and shrinkage, against their definitions in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacy_crfseq.kernels import vectors
from spacy_crfseq.regularizers.group_lasso import GroupLasso
from spacy_crfseq.regularizers.l1 import L1
from spacy_crfseq.types import RowBlock

SIZES = pytest.mark.parametrize("size", [0, 1, 7, vectors.BLOCK, 2 * vectors.BLOCK + 5])
DTYPES = pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-5), (np.float64, 1e-12)])


def random(size: int, dtype: type, seed: int, zeros: float = 0.3) -> np.ndarray:
    """Return random numbers, some of them zero."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(size) * (rng.random(size) >= zeros)).astype(dtype)


@SIZES
@DTYPES
def test_l1_norm_and_soft_thresholding(size: int, dtype: type, limit: float) -> None:
    x = random(size, dtype, 0)
    assert vectors.absolute_sum(x) == pytest.approx(abs(x.astype(float)).sum(), rel=limit)
    shrunk = x.copy()
    L1(0.8).prox(shrunk, 0.5)
    np.testing.assert_allclose(shrunk, np.sign(x) * np.maximum(abs(x) - 0.4, 0), atol=1e-7)
    np.testing.assert_array_equal(shrunk == 0, abs(x) <= dtype(0.4))


@DTYPES
def test_groups(dtype: type, limit: float) -> None:
    x = random(9, dtype, 1)
    x[7:] = 0
    ptr = np.array([0, 3, 3, 4, 7, 9])
    rows = [slice(0, 3), slice(3, 4), slice(4, 7), slice(7, 9)]
    norms = [np.sqrt(np.sum(x[row].astype(float) ** 2)) for row in rows]
    sizes = [row.stop - row.start for row in rows]
    expected = sum(np.sqrt(n) * norm for n, norm in zip(sizes, norms, strict=True))
    penalty = GroupLasso(0.5).over([RowBlock(0, 9, 0, 5, 3, ptr, np.zeros(9, np.int32))])
    assert penalty.value(x) == pytest.approx(0.5 * expected, rel=limit)
    shrunk = x.copy()
    penalty.prox(shrunk, 1.0)
    for row, n, norm in zip(rows, sizes, norms, strict=True):
        factor = max(0.0, 1 - 0.5 * np.sqrt(n) / norm) if norm else 0.0
        np.testing.assert_allclose(shrunk[row], factor * x[row], rtol=10 * limit)


def test_the_rows_of_a_layout_are_the_groups() -> None:
    """Sparse rows, dense ones and scores that all positions share, as `Layout.blocks` lists them."""
    everywhere: Any = (np.zeros(0, np.int64), np.zeros(0, np.int32))
    blocks = [
        RowBlock(0, 3, 0, 3, 3, np.array([0, 2, 2, 3]), np.array([0, 2, 1], np.int32)),
        RowBlock(3, 7, 3, 2, 2, *everywhere),
        RowBlock(7, 9, 5, 2, 1, *everywhere),
    ]
    x = random(9, np.float64, 2, zeros=0)
    groups = [x[:2], x[2:3], x[3:5], x[5:7], x[7:8], x[8:]]
    expected = 0.7 * sum(np.sqrt(len(group)) * np.linalg.norm(group) for group in groups)
    assert GroupLasso(0.7).over(blocks).value(x) == pytest.approx(expected)
    assert GroupLasso(0.7).value(x) == pytest.approx(0.7 * 3 * np.linalg.norm(x))
