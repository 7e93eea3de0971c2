"""Covariances of labels with sums over positions, against the enumeration of all label sequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import blocks, covariances, lattice, log_space
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import DTYPES, assert_close, assert_finite, largest, sequences, wide
from tests.kernels.test_blocks import many_sequences
from tests.problems import Problem, finite_differences, problems, random_problem

ENTROPY = st.booleans()


def weights_of(problem: Problem, entropy: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows [T] of a table, and the table [R, L]; nothing for the entropy."""
    n_tokens, n_labels = problem.scores.emissions.shape
    dtype = problem.scores.start.dtype
    if entropy:
        return np.zeros(0, np.int32), np.zeros((0, n_labels), dtype)
    rng = np.random.default_rng(n_tokens)
    table = rng.normal(size=(4, n_labels)).astype(dtype)
    return rng.integers(0, 4, n_tokens).astype(np.int32), table


def oracle(problem: Problem, entropy: bool) -> tuple[float, Scores]:
    rows, table = weights_of(problem, entropy)
    return reference.covariance_loss(problem.scores, problem.batch, None if entropy else wide_table(table)[rows])


def wide_table(table: np.ndarray) -> np.ndarray:
    return table.astype(np.float64)


def one_by_one(problem: Problem, entropy: bool, gradient: Scores | None = None) -> tuple[float, Scores]:
    gradient = problem.scores.zeros_like() if gradient is None else gradient
    offsets, _, weights = problem.batch[:3]
    value = lattice.covariances(problem.scores, offsets, *weights_of(problem, entropy), weights, gradient)
    return float(value), gradient


def with_blocks(problem: Problem, entropy: bool) -> tuple[float, Scores, np.ndarray]:
    """Return value and gradient of blocks and what they leave, and which sequences that are."""
    offsets, gold, weights = problem.batch[:3]
    gradient = problem.scores.zeros_like()
    order, left = np.full(len(weights), -1, np.int64), np.ones(len(weights), np.bool_)
    size = blocks.select(offsets, gold[:0], weights, order, left)
    chosen = weights_of(problem, entropy)
    value = covariances.covariances(problem.scores, offsets, *chosen, weights, gradient, order[:size], left, 0.0)
    rest = problem.batch._replace(weights=np.where(left, weights, 0))
    return value + one_by_one(Problem(problem.scores, rest), entropy, gradient)[0], gradient, left


def in_log_space(problem: Problem, entropy: bool) -> tuple[float, Scores]:
    total, gradient = 0.0, problem.scores.zeros_like()
    rows, table = weights_of(problem, entropy)
    for (one, first, last), weight in zip(sequences(problem), problem.batch.weights, strict=True):
        if last > first and weight:
            own = wide_table(table)[rows[first:last]]
            total += weight * log_space.covariances(one, own, weight, reference.sequence(gradient, first, last))
    return total, gradient


def rounding(problem: Problem) -> float:
    return 1e-9 if problem.scores.start.dtype == np.float64 else 1e-4 + 1e-5 * largest(problem.scores)


@given(problems(), ENTROPY)
def test_value_and_gradient_equal_the_enumeration(problem: Problem, entropy: bool) -> None:
    value, gradient = one_by_one(problem, entropy)
    expected, wanted = oracle(problem, entropy)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert_close(gradient, wanted, rtol=0, atol=1e-9)


@given(problems(scales=(1.0, 30.0, 1000.0), dtypes=DTYPES), ENTROPY)
def test_scores_of_any_size(problem: Problem, entropy: bool) -> None:
    value, gradient = one_by_one(problem, entropy)
    expected, wanted = oracle(problem, entropy)
    room = 10 * rounding(problem) * largest(problem.scores)  # of S, which may have the size of the scores
    assert value == pytest.approx(expected, rel=1e-4, abs=room)
    assert_close(gradient, wanted, rtol=1e-4, atol=room)


@given(problems(scales=(1.0, 30.0, 1000.0)), ENTROPY)
def test_log_space_equals_the_enumeration(problem: Problem, entropy: bool) -> None:
    value, gradient = in_log_space(problem, entropy)
    expected, wanted = oracle(problem, entropy)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert_close(gradient, wanted, rtol=1e-7, atol=1e-7)


@given(many_sequences(), ENTROPY)
def test_blocks_and_what_they_leave_make_up_the_whole(problem: Problem, entropy: bool) -> None:
    value, gradient, _ = with_blocks(problem, entropy)
    expected, wanted = one_by_one(problem, entropy)
    room = rounding(problem) * largest(problem.scores) * max(1, len(problem.batch.gold))
    assert value == pytest.approx(expected, rel=1e-4, abs=room)
    assert_close(gradient, wanted, rtol=1e-4, atol=room)


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [2, 5, 22])
def test_blocks_equal_the_log_space(n_labels: int, dtype: type, entropy: bool) -> None:
    rng = np.random.default_rng(n_labels)
    lengths = rng.integers(6, 12, 3 * blocks.LANES).tolist()
    problem = random_problem(rng, n_labels=n_labels, lengths=lengths, shared=True, dtype=dtype, masked=0.1)
    problem.batch.weights[:] = rng.uniform(0.5, 2, len(lengths))
    expected, wanted = in_log_space(Problem(wide(problem.scores), problem.batch), entropy)
    value, gradient, left = with_blocks(problem, entropy)
    assert not left.any()
    narrow = dtype == np.float32
    assert value == pytest.approx(expected, rel=1e-5 if narrow else 1e-11)
    assert_close(gradient, wanted, atol=1e-3 if narrow else 1e-9)


@given(many_sequences())
def test_totals_are_those_of_the_posterior(problem: Problem) -> None:
    offsets, gold, weights = problem.batch[:3]
    kinds, _ = weights_of(problem, False)
    marginals = np.zeros(problem.scores.emissions.shape)
    lattice.posterior(Scores(*wide(problem.scores)), offsets, marginals, np.zeros(len(weights)))
    expected = np.zeros((4, marginals.shape[1]))
    np.add.at(expected, kinds, np.repeat(weights, np.diff(offsets))[:, None] * marginals)
    expected[0] = 0
    order, left = np.full(len(weights), -1, np.int64), np.ones(len(weights), np.bool_)
    size = blocks.select(offsets, gold[:0], weights, order, left)
    found, alone = np.zeros_like(expected), np.zeros_like(expected)
    covariances.totals(problem.scores, offsets, kinds, weights, found, order[:size], left)
    lattice.totals(problem.scores, offsets, kinds, np.where(left, weights, 0), found)
    lattice.totals(problem.scores, offsets, kinds, weights, alone)
    room = rounding(problem) * max(1, len(gold))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=room)
    np.testing.assert_allclose(alone, expected, rtol=1e-4, atol=room)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_the_entropy_of_a_long_sequence(shared: bool, scale: float) -> None:
    problem = random_problem(
        np.random.default_rng(3), n_labels=4, lengths=[2_000], shared=shared, scale=scale, weighted=False
    )
    value, gradient = one_by_one(problem, True)
    assert value == pytest.approx(in_log_space(problem, True)[0], rel=1e-11)
    for array, slope in ((problem.scores.start, gradient.start), (problem.scores.emissions[990:992], None)):
        wanted = finite_differences(lambda: one_by_one(problem, True)[0], array)
        found = gradient.emissions[990:992] if slope is None else slope
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    narrow = Problem(Scores(*(array.astype(np.float32) for array in problem.scores)), problem.batch)
    rough, rough_gradient = one_by_one(narrow, True)
    assert rough == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(rough_gradient.emissions, gradient.emissions, atol=1e-4 * scale)


def test_what_scaled_numbers_cannot_hold_is_left() -> None:
    n = blocks.LANES
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4] * n, shared=True, dtype=np.float32)
    problem.batch.weights[:] = 1
    problem.scores.emissions[20:24] = -np.inf
    value, gradient, left = with_blocks(problem, True)
    assert np.flatnonzero(left).tolist() == [5]
    expected, wanted = reference.covariance_loss(problem.scores, problem.batch)
    assert value == pytest.approx(expected, rel=1e-4)
    assert_finite(gradient)
    assert_close(gradient, wanted, atol=1e-4)
