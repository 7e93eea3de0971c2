"""Sums of weight rows and their transposes, against plain loops over one-hot matrices."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import rows, updates
from spacy_crfseq.potentials.layout import SparseRows, marked_rows
from spacy_crfseq.potentials.linear import split_rows


class Case(NamedTuple):
    """Rows that T positions switch on: `ids` [T, S] with -1 for nothing; a mask tells which weights are stored."""

    ids: np.ndarray
    weights: np.ndarray
    stored: np.ndarray
    d: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """[T, R], how often each position switches on each row."""
        counts = np.zeros((len(self.ids), len(self.weights)))
        for t, row in np.argwhere(self.ids >= 0):
            counts[t, self.ids[t, row]] += 1
        return counts

    @property
    def ragged(self) -> tuple[np.ndarray, np.ndarray]:
        ptr = np.concatenate([[0], np.cumsum((self.ids >= 0).sum(1))]).astype(np.int64)
        return ptr, self.ids[self.ids >= 0]

    @property
    def sparse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ptr = np.concatenate([[0], np.cumsum(self.stored.sum(1))]).astype(np.int64)
        return ptr, np.nonzero(self.stored)[1].astype(np.int32), self.weights[self.stored]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_tokens, n_slots, n_rows = (draw(st.integers(low, 5)) for low in (0, 0, 1))
    n_columns = draw(st.integers(1, 9) | st.sampled_from([15, 16, 17, 22, 32, 33, 40, 48, 49, 65]))
    return Case(
        rng.integers(-1, n_rows, (n_tokens, n_slots)).astype(np.int32),
        rng.standard_normal((n_rows, n_columns)),
        rng.random((n_rows, n_columns)) < 0.6,
        rng.standard_normal((n_tokens, n_columns)),
    )


@given(cases())
def test_dense_rows_are_added_and_scattered(case: Case) -> None:
    fixed, ragged = np.ones_like(case.d), np.ones_like(case.d)
    rows.add_fixed(case.ids, case.weights, fixed)
    rows.add_ragged(*case.ragged, case.weights, ragged)
    np.testing.assert_allclose([fixed, ragged], [1 + case.counts @ case.weights] * 2)
    fixed, ragged = np.ones_like(case.weights), np.ones_like(case.weights)
    rows.scatter_fixed(case.ids, case.d, fixed)
    rows.scatter_ragged(*case.ragged, case.d, ragged)
    np.testing.assert_allclose([fixed, ragged], [1 + case.counts.T @ case.d] * 2)


@given(cases())
def test_sparse_rows_are_added(case: Case) -> None:
    out = np.ones_like(case.d)
    rows.add_ragged_sparse(*case.ragged, *case.sparse, out)
    np.testing.assert_allclose(out, 1 + case.counts @ np.where(case.stored, case.weights, 0))


@given(cases(), st.integers(2, 6), st.sampled_from([np.float32, np.float64]))
def test_sparse_rows_sorted_for_reading_are_added(case: Case, least: int, dtype: type) -> None:
    ptr, cols, values = case.sparse
    values = values.astype(dtype)
    heads, dense = split_rows(SparseRows(ptr, cols, case.weights.shape[1]), values, least)
    assert len(dense) == (np.diff(ptr) >= least).sum()
    out = np.ones(case.d.shape, dtype)
    rows.add_split(case.ids, heads, dense, ptr, cols, values, out)
    np.testing.assert_allclose(out, 1 + case.counts @ np.where(case.stored, case.weights, 0), rtol=1e-4, atol=1e-5)


@given(cases(), st.integers(1, 4))
def test_bags_rows_in_a_table_and_single_entries_make_up_rows(case: Case, fewest: int) -> None:
    """In two groups of columns, of bags and of single features."""
    n_tokens, n_slots = case.ids.shape
    ptr, cols, values = case.sparse
    tabled = np.flatnonzero(np.diff(ptr) >= fewest).astype(np.int32)
    tables = np.full(len(case.weights), -1, np.int32)
    tables[tabled] = np.arange(len(tabled))
    ends = np.append(0, np.cumsum(np.tile([n_slots // 2, n_slots - n_slots // 2], n_tokens)))
    bags, bounds = case.ids[:, :2].clip(0), np.array([0, min(1, n_slots), min(2, n_slots)])
    lists = rows.Lists(bags.ravel(), bounds, *split(case.ids.ravel(), ends, tables, ptr, cols))
    table = np.full((len(tabled), case.weights.shape[1]), np.nan)
    rows.to_table(tabled, ptr, cols, values, table)
    of_bags, stored = case._replace(ids=bags).counts, np.where(case.stored, case.weights, 0)
    out = np.ones_like(case.d)
    for first, last in ((0, n_tokens // 2), (n_tokens // 2, n_tokens)):
        rows.add_lists(first, last, lists, case.weights, table, values, out[first:last])
    np.testing.assert_allclose(out, 1 + case.counts @ stored + of_bags @ case.weights)
    d_table, grad, d_sums = np.zeros_like(table), np.ones_like(values), np.zeros_like(case.weights)
    for group in range(2):
        rows.scatter_lists(0, n_tokens, group, lists, case.d, d_sums, d_table, grad)
        np.testing.assert_allclose(d_sums, of_bags_of(case, bags[:, : bounds[group + 1]]))
    rows.from_table(tabled, ptr, cols, grad, d_table)
    np.testing.assert_allclose(grad, (1 + case.counts.T @ case.d)[case.stored])


def of_bags_of(case: Case, bags: np.ndarray) -> np.ndarray:
    """Return the gradient of the sums of bags."""
    return case._replace(ids=bags).counts.T @ case.d


def split(ids: np.ndarray, ends: np.ndarray, tables: np.ndarray, ptr: np.ndarray, cols: np.ndarray) -> Any:
    """Return the rows that lie in the table, and the entries of the others."""
    nothing = np.empty(0, np.int32)
    hot, cold = np.empty((2, len(ends)), np.int64)
    rows.split(ends, ids, tables, ptr, cols, (hot, nothing), (cold, nothing, nothing))
    numbers, places, columns = (np.empty(int(size), np.int32) for size in (hot[-1], cold[-1], cold[-1]))
    rows.split(ends, ids, tables, ptr, cols, (hot, numbers), (cold, places, columns))
    return hot, numbers, cold, places, columns


@given(cases())
def test_bags_become_the_bags_of_each_attribute(case: Case) -> None:
    bag_ptr, bag_attrs = case.ragged
    ptr, bags = np.empty(len(case.weights) + 1, np.int64), np.empty(len(bag_attrs), np.int32)
    rows.transpose(bag_ptr, bag_attrs, ptr, bags)
    for attribute in range(len(case.weights)):
        expected = [bag for bag, ids in enumerate(case.ids) for i in ids if i == attribute]
        assert bags[ptr[attribute] : ptr[attribute + 1]].tolist() == expected


@given(cases())
def test_bags_and_single_attributes_expand_to_one_list(case: Case) -> None:
    bag_ptr, bag_attrs = case.ragged  # each position's rows, taken as the contents of a bag
    n_bags = len(case.ids)
    rng = np.random.default_rng(0)
    bags = rng.integers(0, n_bags, (4, 2)).astype(np.int32) if n_bags else np.empty((4, 0), np.int32)
    attrs = rng.integers(-1, 3, (4, 2)).astype(np.int32)
    ptr, ids = np.empty(5, np.int64), np.empty(1000, np.int32)
    size = rows.expand(bags, attrs, bag_ptr, bag_attrs, ptr, ids)
    assert size == ptr[-1]
    for t in range(4):
        expected = [a for bag in bags[t] for a in bag_attrs[bag_ptr[bag] : bag_ptr[bag + 1]]]
        assert ids[ptr[t] : ptr[t + 1]].tolist() == expected + attrs[t][attrs[t] >= 0].tolist()


@given(cases(), st.sampled_from([1, 63, 64, 65, 200]))
def test_marks_become_sparse_rows(case: Case, n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    columns = rng.integers(-1, n_columns, len(case.ids)).astype(np.int32)
    marks = np.zeros((len(case.weights), (n_columns + 63) // 64), np.uint64)
    rows.mark_columns(case.ids, columns, marks)
    ptr, cols, width = marked_rows(marks, n_columns)
    assert width == n_columns
    for row in range(len(marks)):
        seen = columns[(case.ids == row).any(1)]
        assert cols[ptr[row] : ptr[row + 1]].tolist() == sorted(set(seen[seen >= 0].tolist()))


@given(cases())
def test_marks_of_bags_go_to_their_attributes(case: Case) -> None:
    rng = np.random.default_rng(1)
    bag_marks = rng.integers(0, 2**63, (len(case.ids), 2), np.uint64)
    marks = np.zeros((len(case.weights), 2), np.uint64)
    rows.spread_marks(*case.ragged, bag_marks, marks)
    for row in range(len(marks)):
        expected = np.bitwise_or.reduce(bag_marks[(case.ids == row).any(1)], axis=0, initial=0)
        assert marks[row].tolist() == expected.tolist()


# --- the gradient of a sequence as a list of parameters, against adding up one number after another -----------------


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
