"""Vector arithmetic against numpy in float64, over sizes around the block length."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_crfseq.kernels import vectors

SIZES = (0, 1, 7, vectors.BLOCK - 1, vectors.BLOCK, 2 * vectors.BLOCK + 5)
CASES = pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-4), (np.float64, 1e-10)])


def random(size: int, dtype: type, seed: int = 0, rows: int | None = None) -> np.ndarray:
    shape = size if rows is None else (rows, size)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_products(size: int, dtype: type, limit: float) -> None:
    basis, out = random(size, dtype, rows=4), np.full((2, 4), np.nan)
    vectors.products(basis, np.array([2, 0], np.int32), out)
    wide = basis.astype(float)
    np.testing.assert_allclose(out, wide[[2, 0]] @ wide.T, rtol=limit, atol=limit * max(size, 1))


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_combine_uses_the_first_rows(size: int, dtype: type, limit: float) -> None:
    basis, coefficients, out = random(size, dtype, rows=4), random(4, dtype, 1), np.full(size, np.nan, dtype)
    vectors.combine(basis, 3, coefficients, out)
    np.testing.assert_allclose(out, coefficients[:3] @ basis[:3], rtol=limit, atol=limit)


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_dot(size: int, dtype: type, limit: float) -> None:
    x, y = (random(size, dtype, seed) for seed in range(2))
    wide = x.astype(float)
    assert vectors.dot(x, y) == pytest.approx(wide @ y, rel=limit, abs=limit * max(size, 1))


@CASES
def test_sums_of_two(dtype: type, limit: float) -> None:
    x, y = random(50, dtype), random(50, dtype, 1)
    out = np.empty_like(x)
    vectors.add_scaled(x, -0.7, y, out)
    np.testing.assert_allclose(out, x - 0.7 * y, rtol=limit, atol=limit)
    vectors.average(x, 0.2, y, 3.0, out)
    np.testing.assert_allclose(out, 0.2 * x + 3.0 * y, rtol=limit, atol=limit)
    vectors.add_scaled(x, 2.0, y, x)  # in place, as regularizers use it
    np.testing.assert_allclose(x, random(50, dtype) + 2.0 * y, rtol=limit, atol=limit)
