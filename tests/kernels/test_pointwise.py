"""Losses of single labels, and exponential ones, against the enumeration of all label sequences."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import blocks, covariances, lattice, log_space
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import DTYPES, assert_close, assert_finite, largest, sequences, wide
from tests.kernels.test_blocks import many_sequences
from tests.problems import Problem, problems, random_problem

ANY = {"scales": (1.0, 30.0, 1000.0), "dtypes": DTYPES}
CAPS = st.sampled_from([0.0, 1.5, 8.0])
KINDS = st.sampled_from(["sequences", "positions"])


def phi_of(cap: float) -> Callable[[float], tuple[float, float]]:
    return reference.capped_exponential(cap) if cap else reference.logarithmic


def one_by_one(kind: str, problem: Problem, cap: float, gradient: Scores | None = None) -> tuple[float, Scores]:
    gradient = problem.scores.zeros_like() if gradient is None else gradient
    (offsets, gold, weights), table = problem.batch[:3], problem.scores.emissions[:0]
    if kind == "sequences":
        return lattice.log_loss(problem.scores, offsets, gold, weights, gradient, cap), gradient
    return lattice.covariances(problem.scores, offsets, gold, table, weights, gradient, cap), gradient


def with_blocks(kind: str, problem: Problem, cap: float) -> tuple[float, Scores, np.ndarray]:
    """Return loss and gradient of blocks and what they leave, and which sequences that are."""
    offsets, gold, weights = problem.batch[:3]
    gradient = problem.scores.zeros_like()
    order, left = np.full(len(weights), -1, np.int64), np.ones(len(weights), np.bool_)
    size = blocks.select(offsets, gold if kind == "sequences" else gold[:0], weights, order, left)
    if kind == "sequences":
        loss = blocks.log_loss(problem.scores, offsets, gold, weights, gradient, order[:size], left, cap)
    else:
        table = problem.scores.emissions[:0]
        loss = covariances.covariances(problem.scores, offsets, gold, table, weights, gradient, order[:size], left, cap)
    rest = problem.batch._replace(weights=np.where(left, weights, 0))
    return loss + one_by_one(kind, Problem(problem.scores, rest), cap, gradient)[0], gradient, left


def in_log_space(problem: Problem, cap: float) -> tuple[float, Scores]:
    """Return loss and gradient sequence by sequence, whether or not scaling would do."""
    loss, gradient = 0.0, problem.scores.zeros_like()
    for (one, first, last), weight in zip(sequences(problem), problem.batch.weights, strict=True):
        if last > first and weight:
            target = reference.sequence(gradient, first, last)
            loss += weight * log_space.pointwise(one, problem.batch.gold[first:last], weight, cap, target)
    return loss, gradient


def rounding(problem: Problem) -> float:
    """Return how much the scores' rounding may change a log-likelihood."""
    return 1e-9 if problem.scores.start.dtype == np.float64 else 1e-5 + 1e-6 * largest(problem.scores)


@given(problems(**ANY), KINDS, CAPS)
def test_loss_and_gradient_equal_the_enumeration(problem: Problem, kind: str, cap: float) -> None:
    loss, gradient = one_by_one(kind, problem, cap)
    oracle = reference.sequential_loss if kind == "sequences" else reference.pointwise_loss
    expected_loss, expected = oracle(problem.scores, problem.batch, phi_of(cap))
    room = rounding(problem) * np.exp(cap)  # the slope of phi multiplies it
    assert loss == pytest.approx(expected_loss, rel=1e-4, abs=100 * room)
    assert_close(gradient, expected, rtol=1e-4, atol=100 * room)


@given(problems(scales=(1.0, 30.0, 1000.0)), CAPS)
def test_log_space_equals_the_enumeration(problem: Problem, cap: float) -> None:
    expected_loss, expected = reference.pointwise_loss(problem.scores, problem.batch, phi_of(cap))
    loss, gradient = in_log_space(problem, cap)
    assert loss == pytest.approx(expected_loss, rel=1e-8, abs=1e-8)
    assert_close(gradient, expected, rtol=1e-7, atol=1e-8 * np.exp(cap))


@given(many_sequences(), KINDS, CAPS)
def test_blocks_and_what_they_leave_make_up_the_whole(problem: Problem, kind: str, cap: float) -> None:
    loss, gradient, _ = with_blocks(kind, problem, cap)
    expected, expected_gradient = one_by_one(kind, problem, cap)
    n_tokens = max(1, len(problem.batch.gold))
    room = 10 * rounding(problem) * np.exp(cap) * n_tokens
    assert loss == pytest.approx(expected, rel=1e-4, abs=room)
    assert_close(gradient, expected_gradient, rtol=1e-4, atol=room)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [2, 5, 22])
def test_positions_in_blocks_equal_the_log_space(n_labels: int, dtype: type) -> None:
    rng = np.random.default_rng(n_labels)
    lengths = rng.integers(6, 12, 3 * blocks.LANES).tolist()
    problem = random_problem(rng, n_labels=n_labels, lengths=lengths, shared=True, dtype=dtype, missing=0.1)
    problem.batch.weights[:] = rng.uniform(0.5, 2, len(lengths))
    expected, wanted = in_log_space(Problem(wide(problem.scores), problem.batch), 3.0)
    loss, gradient, left = with_blocks("positions", problem, 3.0)
    assert not left.any()
    assert loss == pytest.approx(expected, rel=1e-5)
    assert_close(gradient, wanted, rtol=1e-3, atol=1e-3 if dtype == np.float32 else 1e-9)


@lru_cache(maxsize=1)
def long_problem(scale: float, cap: float) -> tuple[Problem, float, np.ndarray]:
    """Return a problem in single precision, its loss and the gradient of its emissions."""
    settings: dict[str, Any] = {"n_labels": 4, "lengths": [2_000], "shared": cap > 0, "dtype": np.float32}
    problem = random_problem(np.random.default_rng(3), **settings, scale=scale, weighted=False)
    return problem, *reference.long_pointwise_loss(wide(problem.scores), problem.batch.gold, phi_of(cap))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_a_long_sequence(dtype: type, scale: float, cap: float) -> None:
    problem, expected, wanted = long_problem(scale, cap)
    if dtype == np.float64:
        problem = Problem(wide(problem.scores), problem.batch)
    loss, gradient = one_by_one("positions", problem, cap)
    narrow = dtype == np.float32
    assert loss == pytest.approx(expected, rel=1e-4 if narrow else 1e-9)
    size = np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(gradient.emissions, wanted, atol=(1e-5 if narrow else 1e-6) * size)
    assert gradient.transitions.sum() == pytest.approx(0, abs=1e-2 * size)
    loss, gradient = one_by_one("sequences", problem, cap)
    assert np.isfinite(loss)
    assert_finite(gradient)


@pytest.mark.parametrize("cap", [0.0, 5.0])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_long_sequences_in_blocks(cap: float, scale: float) -> None:
    rng = np.random.default_rng(4)
    lengths = rng.integers(300, blocks.LONGEST, 20).tolist()
    problem = random_problem(
        rng, n_labels=5, lengths=lengths, shared=True, dtype=np.float32, scale=scale, weighted=False
    )
    loss, gradient, _ = with_blocks("positions", problem, cap)
    expected, wanted = one_by_one("positions", Problem(wide(problem.scores), problem.batch), cap)
    assert loss == pytest.approx(expected, rel=1e-5)
    size = np.abs(wanted.emissions).max(initial=1.0)
    np.testing.assert_allclose(gradient.emissions, wanted.emissions, atol=1e-5 * size)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_an_impossible_gold_label_costs_infinitely_much(shared: bool, cap: float) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[3], shared=shared, weighted=False)
    problem.scores.emissions[1, problem.batch.gold[1]] = -np.inf
    for kind in ("sequences", "positions"):
        loss, gradient = one_by_one(kind, problem, cap)
        assert loss == np.inf
        assert_finite(gradient)


def test_what_scaled_numbers_cannot_hold_is_left() -> None:
    n = blocks.LANES
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4] * n, shared=True, dtype=np.float32)
    problem.batch.weights[:] = 1
    problem.batch.gold[8] = -1  # no obstacle
    problem.scores.emissions[13, problem.batch.gold[13]] -= 60  # probability e^-60
    problem.scores.emissions[16:20] = -1e4 * np.eye(4, 3)
    problem.scores.emissions[20:24] = -np.inf
    loss, gradient, left = with_blocks("positions", problem, 5.0)
    assert np.flatnonzero(left).tolist() == [3, 4, 5]
    assert loss == np.inf
    assert_finite(gradient)
