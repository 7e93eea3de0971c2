"""Vector arithmetic and steps within an orthant, against numpy in float64, over sizes around the block length."""

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
@pytest.mark.parametrize("pairs", [1, 3])
def test_steps_are_remembered_and_multiplied(size: int, dtype: type, limit: float, pairs: int) -> None:
    basis, slot, n = random(size, dtype, rows=2 * pairs + 1), pairs - 1, 2 * pairs
    old, new, after, gradient = (random(size, dtype, seed) for seed in (1, 2, 3, 4))
    expected = basis.copy()
    expected[slot], expected[pairs + slot], expected[n] = new - old, after - basis[n], gradient
    products, cut = np.full((3, n + 1), np.nan), size // 3
    halves = [np.empty((3, n + 1)) for _ in range(2)]
    again = basis.copy()
    vectors.remember(basis, slot, pairs, 0, size, (old, new, basis[n], after, gradient), products)
    for bounds, half in zip(((0, cut), (cut, size)), halves, strict=True):
        vectors.remember(again, slot, pairs, *bounds, (old, new, again[n], after, gradient), half)
    for history, actual in ((basis, products), (again, sum(halves))):
        np.testing.assert_array_equal(history, expected)
        wide = expected.astype(float)
        limits = {"rtol": limit, "atol": limit * max(size, 1)}
        np.testing.assert_allclose(actual, wide[[slot, pairs + slot, n]] @ wide.T, **limits)


@CASES
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_rows_are_combined(size: int, dtype: type, limit: float, rows: int) -> None:
    basis, coefficients, out = random(size, dtype, rows=rows), random(rows, dtype, 1), np.full(size, 7, dtype)
    first = size // 3
    vectors.combine(basis, first, size, coefficients, out)
    np.testing.assert_array_equal(out[:first], 7)
    np.testing.assert_allclose(out[first:], coefficients @ basis[:, first:], rtol=limit, atol=limit)


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_dot_and_l1_norm(size: int, dtype: type, limit: float) -> None:
    x, y = (random(size, dtype, seed) for seed in range(2))
    wide = x.astype(float)
    assert vectors.dot(x, y) == pytest.approx(wide @ y, rel=limit, abs=limit * max(size, 1))
    assert vectors.absolute_sum(x) == pytest.approx(np.abs(wide).sum(), rel=limit)


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


def with_zeros(size: int, dtype: type, seed: int) -> np.ndarray:
    return random(size, dtype, seed) * (np.random.default_rng(seed + 100).random(size) >= 0.3).astype(dtype)


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_the_pseudo_gradient_is_the_shortest_subgradient(size: int, dtype: type, limit: float) -> None:
    x, gradient, out = with_zeros(size, dtype, 3), with_zeros(size, dtype, 4), np.empty(size, dtype)
    vectors.pseudo_gradient(x, gradient, 0.5, out)
    least, most = gradient + 0.5 * np.sign(x) - 0.5 * (x == 0), gradient + 0.5 * np.sign(x) + 0.5 * (x == 0)
    np.testing.assert_allclose(out, np.clip(0, least, most), atol=1e-6)


@CASES
@pytest.mark.parametrize("size", SIZES)
def test_steps_stay_in_the_orthant(size: int, dtype: type, limit: float) -> None:
    x, pseudo, direction, out = (*(with_zeros(size, dtype, seed) for seed in (5, 6, 7)), np.empty(size, dtype))
    aligned = np.where(direction * pseudo < 0, direction, 0)
    slope = vectors.align(direction, pseudo)
    np.testing.assert_array_equal(direction, aligned)
    assert slope == pytest.approx(aligned.astype(float) @ pseudo, rel=limit)
    promised = vectors.orthant_step(x, 0.8, direction, pseudo, out)
    orthant = np.where(x != 0, np.sign(x), -np.sign(pseudo))
    straight = x + dtype(0.8) * direction
    np.testing.assert_allclose(out, np.where(np.sign(straight) == orthant, straight, 0), rtol=limit, atol=1e-7)
    assert promised == pytest.approx(pseudo.astype(float) @ (out - x), rel=limit, abs=limit * max(size, 1))
