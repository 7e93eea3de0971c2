"""Covariances of labels with sums over positions, for pointwise losses and entropies, against all labellings."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import kernels
from spacy_crfseq.kernels import blocks, chain
from spacy_crfseq.kernels import covariances as in_blocks
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import DTYPES, assert_close, assert_finite, largest, one_by_one
from tests.kernels.test_blocks import many_sequences
from tests.problems import Problem, finite_differences, problems, random_problem

pytestmark = pytest.mark.skipif(kernels.UNCOMPILED, reason="blocks are written in LLVM")

ANY: dict[str, Any] = {"scales": (1.0, 30.0, 1000.0), "dtypes": DTYPES}
KINDS = ("sums", "entropy", "positions")
CAPS = st.sampled_from([0.0, 1.5, 8.0])


def arguments(kind: str, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return rows [T] of a table, and the table [R, L]; nothing for the entropy, gold labels for positions."""
    nothing = problem.scores.emissions[:0]
    if kind == "positions":
        return problem.batch.gold, nothing
    if kind == "entropy":
        return np.zeros(0, np.int32), nothing
    rng = np.random.default_rng(len(problem.batch.gold))
    table = rng.normal(size=(4, nothing.shape[1])).astype(nothing.dtype)
    return rng.integers(0, 4, len(problem.batch.gold)).astype(np.int32), table


def phi_of(cap: float) -> Callable[[float], tuple[float, float]]:
    return reference.capped_exponential(cap) if cap else reference.logarithmic


def oracle(kind: str, problem: Problem, cap: float) -> tuple[float, Scores]:
    if kind == "positions":
        return reference.pointwise_loss(problem.scores, problem.batch, phi_of(cap))
    rows, table = arguments(kind, problem)
    own = None if kind == "entropy" else table.astype(np.float64)[rows]
    return reference.covariance_loss(problem.scores, problem.batch, own)


def evaluate(kind: str, problem: Problem, cap: float = 0.0) -> tuple[float, Scores]:
    scores, gradient = problem.scores, problem.scores.zeros_like()
    offsets, gold, weights = problem.batch[:3]
    if kind == "positions":
        return chain.pointwise_loss(scores, offsets, gold, weights, gradient, cap), gradient
    if kind == "entropy":
        return chain.total_entropy(scores, offsets, weights, gradient), gradient
    return chain.expected_sum(scores, offsets, *arguments(kind, problem), weights, gradient), gradient


def as_chains(kind: str, problem: Problem, cap: float = 0.0) -> tuple[float, Scores]:
    """Return value and gradient in float64, whether or not scaling would do."""
    with one_by_one():
        return evaluate(kind, Problem(problem.scores.wide(), problem.batch), cap)


def left_by_blocks(kind: str, problem: Problem, cap: float = 0.0) -> np.ndarray:
    offsets, _, weights = problem.batch[:3]
    gradient = problem.scores.zeros_like()
    return in_blocks.covariances(problem.scores, offsets, *arguments(kind, problem), weights, gradient, cap)[1]


def rounding(problem: Problem) -> float:
    return 1e-9 if problem.scores.start.dtype == np.float64 else 1e-4 + 1e-5 * largest(problem.scores)


@pytest.mark.parametrize("kind", KINDS)
@given(problem=problems(), cap=CAPS)
def test_value_and_gradient_equal_the_enumeration(kind: str, problem: Problem, cap: float) -> None:
    expected, wanted = oracle(kind, problem, cap)
    for value, gradient in (evaluate(kind, problem, cap), as_chains(kind, problem, cap)):
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(problem=problems(**ANY), cap=CAPS)
def test_scores_of_any_size(kind: str, problem: Problem, cap: float) -> None:
    value, gradient = evaluate(kind, problem, cap)
    expected, wanted = oracle(kind, problem, cap)
    room = 10 * rounding(problem) * largest(problem.scores) * np.exp(cap)  # of S, or the slope of phi
    assert value == pytest.approx(expected, rel=1e-4, abs=room)
    assert_close(gradient, wanted, rtol=1e-4, atol=room)


@pytest.mark.parametrize("kind", KINDS)
@given(problem=problems(scales=(1.0, 30.0, 1000.0)), cap=CAPS)
def test_chains_equal_the_enumeration(kind: str, problem: Problem, cap: float) -> None:
    value, gradient = as_chains(kind, problem, cap)
    expected, wanted = oracle(kind, problem, cap)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert_close(gradient, wanted, rtol=1e-7, atol=1e-8 * np.exp(cap) if kind == "positions" else 1e-7)


@pytest.mark.parametrize("kind", KINDS)
@given(problem=many_sequences(), cap=CAPS)
def test_blocks_and_what_they_leave_make_up_the_whole(kind: str, problem: Problem, cap: float) -> None:
    value, gradient = evaluate(kind, problem, cap)
    expected, wanted = as_chains(kind, problem, cap)
    room = rounding(problem) * max(1, len(problem.batch.gold))
    room *= 10 * np.exp(cap) if kind == "positions" else largest(problem.scores)
    assert value == pytest.approx(expected, rel=1e-4, abs=room)
    assert_close(gradient, wanted, rtol=1e-4, atol=room)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [2, 5, 22])
def test_blocks_equal_chains(n_labels: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(n_labels)
    lengths = rng.integers(6, 12, 3 * blocks.LANES).tolist()
    masks = {"missing": 0.1} if kind == "positions" else {"masked": 0.1}
    problem = random_problem(rng, n_labels=n_labels, lengths=lengths, shared=True, dtype=dtype, **masks)
    problem.batch.weights[:] = rng.uniform(0.5, 2, len(lengths))
    expected, wanted = as_chains(kind, problem, 3.0)
    value, gradient = evaluate(kind, problem, 3.0)
    assert not left_by_blocks(kind, problem, 3.0).any()
    narrow = dtype == np.float32
    assert value == pytest.approx(expected, rel=1e-5 if narrow else 1e-11)
    assert_close(gradient, wanted, rtol=1e-3 if narrow else 1e-7, atol=1e-3 if narrow else 1e-9)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_the_entropy_of_a_long_sequence(shared: bool, scale: float) -> None:
    settings: dict[str, Any] = {"lengths": [600], "shared": shared, "scale": scale, "weighted": False}
    problem = random_problem(np.random.default_rng(3), n_labels=4, **settings)
    _, gradient = evaluate("entropy", problem)
    emissions = problem.scores.emissions[300:301]
    wanted = finite_differences(lambda: evaluate("entropy", problem)[0], emissions)
    np.testing.assert_allclose(gradient.emissions[300:301], wanted, atol=1e-6)


@lru_cache(maxsize=1)
def long_problem(scale: float, cap: float) -> tuple[Problem, float, np.ndarray]:
    """Return a problem in single precision, its loss and the gradient of its emissions."""
    settings: dict[str, Any] = {"n_labels": 4, "lengths": [1_000], "shared": cap > 0, "dtype": np.float32}
    problem = random_problem(np.random.default_rng(3), **settings, scale=scale, weighted=False)
    return problem, *reference.long_pointwise_loss(problem.scores.wide(), problem.batch.gold, phi_of(cap))


@pytest.mark.parametrize(("scale", "cap"), [(0.0, 0.0), (1.0, 5.0), (5.0, 0.0), (5.0, 5.0)])
def test_the_positions_of_a_long_sequence(scale: float, cap: float) -> None:
    problem, expected, wanted = long_problem(scale, cap)
    loss, gradient = evaluate("positions", problem, cap)
    assert loss == pytest.approx(expected, rel=1e-6)
    size = np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(gradient.emissions, wanted, atol=2e-6 * size)
    assert gradient.transitions.sum() == pytest.approx(0, abs=1e-2 * size)


@pytest.mark.parametrize("cap", [0.0, 5.0])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_long_sequences_in_blocks(cap: float, scale: float) -> None:
    rng = np.random.default_rng(4)
    settings: dict[str, Any] = {"shared": True, "dtype": np.float32, "scale": scale, "weighted": False}
    problem = random_problem(rng, n_labels=5, lengths=rng.integers(300, blocks.LONGEST, 20).tolist(), **settings)
    loss, gradient = evaluate("positions", problem, cap)
    expected, wanted = as_chains("positions", problem, cap)
    assert loss == pytest.approx(expected, rel=1e-5)
    size = np.abs(wanted.emissions).max(initial=1.0)
    np.testing.assert_allclose(gradient.emissions, wanted.emissions, atol=1e-5 * size)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_an_impossible_gold_label_costs_infinitely_much(shared: bool, cap: float) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[3], shared=shared, weighted=False)
    problem.scores.emissions[1, problem.batch.gold[1]] = -np.inf
    loss, gradient = evaluate("positions", problem, cap)
    assert loss == np.inf
    assert_finite(gradient)


@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_a_gold_label_too_improbable_to_divide_by_counts_beside_others(cap: float) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[3], shared=False)
    problem.scores.emissions[1, problem.batch.gold[1]] -= 500
    problem.batch.weights[:] = 1.5
    value, gradient = evaluate("positions", problem, cap)
    expected, wanted = oracle("positions", problem, cap)
    assert value == pytest.approx(expected, rel=1e-9)
    assert_close(gradient, wanted, rtol=1e-7, atol=1e-7)


def test_sequences_that_scaled_numbers_cannot_hold_are_skipped() -> None:
    n = blocks.LANES
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4] * n, shared=True, dtype=np.float32)
    problem.batch.weights[:] = 1
    problem.batch.gold[8] = -1  # no obstacle
    problem.scores.emissions[13, problem.batch.gold[13]] -= 60  # probability e^-60
    problem.scores.emissions[16:20] = -1e4 * np.eye(4, 3)
    problem.scores.emissions[20:24] = -np.inf
    assert np.flatnonzero(left_by_blocks("positions", problem, 5.0)).tolist() == [3, 4, 5]
    loss, gradient = evaluate("positions", problem, 5.0)
    assert loss == np.inf
    assert_finite(gradient)
    value, gradient = evaluate("entropy", problem)
    expected, wanted = reference.covariance_loss(problem.scores, problem.batch)
    assert value == pytest.approx(expected, rel=1e-4)
    assert_close(gradient, wanted, atol=1e-4)
