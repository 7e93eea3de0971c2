"""Blocks of sequences in lockstep against `lattice`, which does one sequence after another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import kernels
from spacy_crfseq.kernels import blocks, lattice
from spacy_crfseq.types import Scores
from tests.kernels.helpers import largest, one_by_one
from tests.problems import Problem, random_problem

pytestmark = pytest.mark.skipif(kernels.UNCOMPILED, reason="blocks are written in LLVM")


def in_blocks(problem: Problem, gradient: Scores) -> tuple[float, np.ndarray]:
    """Return the loss of what blocks can take, and which sequences they leave."""
    offsets, gold, weights = problem.batch[:3]
    order, _ = blocks.select(offsets, gold, weights)
    assert (np.diff(np.diff(offsets)[order]) <= 0).all()
    nothing = 0.0, np.zeros(0)
    loss, left, some_left = blocks.log_loss((*problem.scores,), offsets, gold, weights, (*gradient,), *nothing)
    assert some_left == left.any()
    return loss, left


@st.composite
def many_sequences(draw: st.DrawFn, **kinds: object) -> Problem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 9) | st.sampled_from([12, 17, 22]))
    lengths = rng.integers(0, draw(st.sampled_from([2, 9, 30])), draw(st.integers(0, 90)))
    return random_problem(
        rng,
        n_labels=n_labels,
        lengths=lengths.tolist(),
        shared=True,
        dtype=draw(st.sampled_from([np.float32, np.float64])),
        scale=draw(st.sampled_from([1.0, 30.0, 1000.0])),
        masked=draw(st.sampled_from([0.0, 0.3])),
        missing=draw(st.sampled_from([0.0, 0.02])),
        weighted=draw(st.booleans()),
    )


@given(many_sequences(), st.sampled_from([0.0, 1.5, 8.0]))
def test_blocks_and_what_they_leave_make_up_the_whole(problem: Problem, cap: float) -> None:
    gradient, wanted = (Scores(*(np.full_like(array, 0.5) for array in problem.scores)) for _ in range(2))
    loss = lattice.log_loss(problem.scores, *problem.batch[:3], gradient, cap)
    with one_by_one():
        expected = lattice.log_loss(problem.scores, *problem.batch[:3], wanted, cap)
    check(problem, (loss, gradient), (expected, wanted), np.exp(cap))


def check(problem: Problem, actual: tuple[float, Scores], expected: tuple[float, Scores], steep: float = 1.0) -> None:
    narrow = problem.scores.start.dtype == np.float32
    limit = (2e-4 + 1e-5 * largest(problem.scores) if narrow else 1e-9) * steep
    n_tokens = max(1, len(problem.batch.gold))
    assert actual[0] == pytest.approx(expected[0], rel=1e-5 if narrow else 1e-9, abs=limit * n_tokens)
    for name, array, wanted in zip(Scores._fields, actual[1], expected[1], strict=True):
        room = limit if name == "emissions" else limit * n_tokens
        np.testing.assert_allclose(array, wanted, rtol=1e-4 if narrow else 1e-8, atol=room)


@given(many_sequences())
def test_expected_labels_and_log_z_are_those_of_the_posterior(problem: Problem) -> None:
    """Weights may be negative; transitions whose gradient is not wanted are left out."""
    offsets, gold, weights = problem.batch[:3]
    weights = weights * np.where(np.arange(len(weights)) % 2, -1, 1)
    marginals, log_z = np.zeros(problem.scores.emissions.shape), np.zeros(len(weights))
    lattice.posterior(problem.scores.wide(), offsets, marginals, log_z)
    counts, sums = problem.scores.zeros_like(), np.zeros(len(weights))
    counts = counts._replace(transitions=counts.transitions[:0])
    value = lattice.log_loss(problem.scores, offsets, gold[:0], weights, counts, log_z=sums)
    log_z *= (weights != 0) & (np.diff(offsets) > 0)
    wanted = counts._replace(emissions=marginals * np.repeat(weights, np.diff(offsets))[:, None])
    check(problem, (value, counts), (float(weights @ log_z), wanted))
    np.testing.assert_allclose(sums, log_z, rtol=1e-5, atol=1e-3)


def test_plain_sequences_are_all_taken() -> None:
    lengths = [length for length in (3, 4, 5, 6) for _ in range(40)]
    problem = random_problem(np.random.default_rng(0), n_labels=5, lengths=lengths, shared=True, weighted=False)
    _, left = in_blocks(problem, problem.scores.zeros_like())
    assert not left.any()


def test_sequences_that_fit_into_no_block_are_skipped() -> None:
    short = 2 * blocks.LANES + 1  # of which one is not complete
    lengths = [4] * short + [blocks.LONGEST + 1, 60]  # too long, and too different from the others
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=lengths, shared=True, weighted=False)
    problem.batch.gold[5] = -1  # in the second sequence
    problem.scores.emissions[8:12] = -1e4 * np.eye(4, 3)
    problem.scores.emissions[12:16, :] = -np.inf
    _, left = in_blocks(problem, problem.scores.zeros_like())
    assert np.flatnonzero(left).tolist() == [1, 3, short, short + 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forbidden_labels_are_no_reason_to_leave_a_sequence(dtype: type) -> None:
    rng = np.random.default_rng(0)
    lengths = [length for length in (3, 4, 5, 6) for _ in range(40)]
    problem = random_problem(rng, n_labels=9, lengths=lengths, shared=True, weighted=False, dtype=dtype)
    gold, emissions = problem.batch.gold, problem.scores.emissions
    forbidden = rng.random(emissions.shape) < np.array([0.0, 0.5, 1.0])[rng.integers(0, 3, len(gold))][:, None]
    forbidden[np.arange(len(gold)), gold] = False
    emissions[forbidden] = -np.inf
    gradient, expected_gradient = problem.scores.zeros_like(), problem.scores.zeros_like()
    loss, left = in_blocks(problem, gradient)
    assert not left.any()
    with one_by_one():
        expected = lattice.log_loss(problem.scores, *problem.batch[:3], expected_gradient)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient.emissions, expected_gradient.emissions, atol=1e-5)
    assert not gradient.emissions[forbidden].any()
