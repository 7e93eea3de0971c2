"""Sums of weight rows for prediction against the plain kernels of `rows`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import gather, rows
from spacy_crfseq.potentials.layout import SparseRows
from spacy_crfseq.potentials.linear import split_rows

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_ids(rng: np.random.Generator, n_rows: int, length: int, n_slots: int) -> np.ndarray:
    return rng.integers(-1, n_rows, (length, n_slots)).astype(np.int32)


@DTYPES
@given(st.integers(0, 12), st.integers(0, 5), st.integers(1, 20), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_sparse_rows(dtype: type, length: int, n_slots: int, width: int, least: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = [np.flatnonzero(rng.random(width) < rng.random()) for _ in range(rng.integers(0, 9))]
    row_ptr = np.cumsum([0, *(len(columns) for columns in held)]).astype(np.int64)
    cols = np.concatenate([np.zeros(0, np.int64), *held]).astype(np.int32)
    values = rng.normal(size=len(cols)).astype(dtype)
    heads, dense = split_rows(SparseRows(row_ptr, cols, width), values, least)
    assert len(dense) == sum(len(columns) >= least for columns in held)
    ids, out = random_ids(rng, len(held), length, n_slots), rng.normal(size=(length, width)).astype(dtype)
    expected = out.copy()
    flat = np.where(ids >= 0)
    rows.add_ragged_sparse(np.searchsorted(flat[0], np.arange(length + 1)), ids[flat], row_ptr, cols, values, expected)
    gather.add_split(ids, heads, dense, row_ptr, cols, values, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
