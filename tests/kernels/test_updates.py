"""The gradient of a sequence as a list of parameters, against adding up one number after another."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_crfseq.kernels import updates

BEGIN, WIDTH, N_ROWS = 3, 4, 6


def random_gradient(rng: np.random.Generator, sparse: bool) -> tuple[np.ndarray, ...]:
    """Return ptr, ids, d, row_ptr and cols; gradients are small integers, so that many sums are zero."""
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 7))])
    ids = rng.integers(0, N_ROWS, ptr[-1]).astype(np.int32)
    d = rng.integers(-1, 2, (7, WIDTH)) * (rng.random((7, 1)) < 0.8)
    if not sparse:
        return ptr, ids, d.astype(np.float32), np.zeros(0, np.int64), np.zeros(0, np.int32)
    has = rng.random((N_ROWS, WIDTH)) < 0.6
    row_ptr = np.concatenate([[0], np.cumsum(has.sum(1))])
    return ptr, ids, d.astype(np.float32), row_ptr, np.nonzero(has)[1].astype(np.int32)


def added(ptr: np.ndarray, ids: np.ndarray, d: np.ndarray, row_ptr: np.ndarray, cols: np.ndarray) -> np.ndarray:
    out = np.zeros(BEGIN + N_ROWS * WIDTH)
    for t in range(len(d)):
        for row in ids[ptr[t] : ptr[t + 1]]:
            first = row_ptr[row] if len(row_ptr) else row * WIDTH
            columns = cols[first : row_ptr[row + 1]] if len(row_ptr) else range(WIDTH)
            for k, column in enumerate(columns):
                out[BEGIN + first + k] += d[t, column]
    return out


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_each_parameter_is_listed_once_with_its_sum(sparse: bool, seed: int) -> None:
    gradient = random_gradient(np.random.default_rng(seed), sparse)
    expected = added(*gradient)
    scratch = np.zeros(len(expected), np.float32)
    places, values = np.full(500, -1), np.full(500, 9, np.float32)
    n = updates.collect(gradient[:3], gradient[3:], BEGIN, scratch, places, values, 2)
    assert places[:2].tolist() == [-1, -1]
    assert sorted(places[2:n]) == np.flatnonzero(expected).tolist()
    np.testing.assert_array_equal(values[2:n], expected[places[2:n]])
    assert not scratch.any()
    factors = np.arange(len(expected), dtype=np.float32)
    listed = places[2:n], values[2:n], n - 2
    assert updates.weighted_square(listed, factors[:0]) == pytest.approx((expected**2).sum())
    assert updates.weighted_square(listed, factors) == pytest.approx((factors * expected**2).sum())


def test_a_list_that_is_too_short_is_left_alone() -> None:
    gradient = random_gradient(np.random.default_rng(0), False)
    scratch, places, values = np.zeros(99, np.float32), np.full(3, -1), np.zeros(3, np.float32)
    needed = -updates.collect(gradient[:3], gradient[3:], BEGIN, scratch, places, values, 1)
    assert needed > 3
    assert places.tolist() == [-1, -1, -1]
    assert not scratch.any()
    assert (
        updates.collect(
            gradient[:3], gradient[3:], BEGIN, scratch, np.zeros(needed, np.int64), np.zeros(needed, np.float32), 1
        )
        > 1
    )
