"""Forward-backward against the enumeration of all label sequences."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_crfseq import kernels
from spacy_crfseq.errors import DataError
from spacy_crfseq.kernels import chain, lattice
from spacy_crfseq.types import Batch, Scores
from tests import reference
from tests.kernels.helpers import DTYPES, assert_close, largest, sequences
from tests.problems import Problem, problems, random_problem

ANY = {"scales": (1.0, 30.0, 1000.0), "dtypes": DTYPES}


def tolerance(problem: Problem) -> dict[str, float]:
    """Rounding of the scores themselves is amplified by the exponential, so that large scores need more room."""
    if problem.scores.emissions.dtype == np.float64:
        return {"rtol": 1e-9, "atol": 1e-9}
    return {"rtol": 1e-4, "atol": 1e-4 + 1e-6 * largest(problem.scores)}


def log_loss(problem: Problem, gradient: Scores | None = None, cap: float = 0.0) -> tuple[float, Scores]:
    gradient = problem.scores.zeros_like() if gradient is None else gradient
    return float(lattice.log_loss(problem.scores, *problem.batch[:3], gradient, cap)), gradient


def posterior(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    marginals = np.full_like(problem.scores.emissions, np.nan)
    log_z = np.full(len(problem.batch.weights), np.nan)
    lattice.posterior(problem.scores, problem.batch.offsets, marginals, log_z)
    return marginals, log_z


# its betas times their scale are infinite in float32, and only the potential of exp(-44) makes the product finite
NEARLY_OVERFLOWS = random_problem(
    np.random.default_rng(1_182_550_886),
    n_labels=4, lengths=[4, 3], shared=False, dtype=np.float32, scale=30.0, masked=0.3, missing=0.3, weighted=False,
)  # fmt: skip


@given(problems(**ANY))
@example(NEARLY_OVERFLOWS)
def test_loss_and_gradient_equal_the_enumeration(problem: Problem) -> None:
    loss, gradient = log_loss(problem)
    expected_loss, expected = reference.log_loss(problem.scores, problem.batch)
    size = 1 + sum(abs(reference.log_partition(sequence)) for sequence, *_ in sequences(problem))
    limits = tolerance(problem)
    assert loss == pytest.approx(expected_loss, rel=limits["rtol"], abs=3 * limits["rtol"] * size)
    assert_close(gradient, expected, rtol=limits["rtol"], atol=10 * limits["atol"])


@given(problems(**ANY), st.sampled_from([1.5, 8.0]))
def test_the_exponential_loss_equals_the_enumeration(problem: Problem, cap: float) -> None:
    loss, gradient = log_loss(problem, cap=cap)
    expected_loss, expected = reference.sequential_loss(
        problem.scores, problem.batch, reference.capped_exponential(cap)
    )
    narrow = problem.scores.start.dtype == np.float32
    room = (1e-3 + 1e-4 * largest(problem.scores) if narrow else 1e-7) * np.exp(cap)  # the slope of phi multiplies it
    assert loss == pytest.approx(expected_loss, rel=1e-4, abs=room)
    assert_close(gradient, expected, rtol=1e-4, atol=room)


@given(problems(scales=(1.0, 30.0, 1000.0)), st.sampled_from([0.0, 1.5]))
def test_chains_equal_the_enumeration(problem: Problem, cap: float) -> None:
    """The recursion in logarithms, which is used where scaling would not do, for all sequences."""
    offsets, gold, weights = problem.batch[:3]
    left = np.zeros(len(weights), np.int32)
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        left[n] = (gold[first:last] >= 0).any() and weights[n] != 0
    gradient = problem.scores.zeros_like()
    nothing: np.ndarray = np.zeros(0)
    loss = lattice.exact_expectations(problem.scores, offsets, gold, weights, gradient, nothing, cap, left)
    phi = reference.capped_exponential(cap) if cap else reference.logarithmic
    expected_loss, expected = reference.sequential_loss(problem.scores, problem.batch, phi)
    assert loss == pytest.approx(expected_loss, rel=1e-9, abs=1e-9)
    assert_close(gradient, expected, rtol=1e-8, atol=1e-8)


@given(problems(**ANY))
def test_posterior_equals_the_enumeration(problem: Problem) -> None:
    marginals, log_z = posterior(problem)
    for n, (sequence, first, last) in enumerate(sequences(problem)):
        expected = reference.log_partition(sequence) if last > first else 0.0
        assert log_z[n] == pytest.approx(expected, rel=tolerance(problem)["rtol"], abs=tolerance(problem)["atol"])
        np.testing.assert_allclose(marginals[first:last], reference.marginals(sequence), **tolerance(problem))


@given(problems(scales=(1.0, 100.0, 1000.0), missing=False))
def test_normalised_scores_are_those_of_the_same_labellings(problem: Problem) -> None:
    for sequence, first, last in sequences(problem):
        if last > first:
            chained, log_z = lattice.normalised(sequence)
            assert log_z == pytest.approx(reference.log_partition(sequence), rel=1e-12, abs=1e-9)
            for actual, expected in zip(
                reference.probabilities(chained), reference.probabilities(sequence), strict=True
            ):
                np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_a_forbidden_sequence_has_no_posterior(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 1], shared=shared)
    problem.scores.emissions[3] = -np.inf
    marginals, log_z = posterior(problem)
    entropies = chain.entropies(problem.scores, problem.batch.offsets)
    _, of_samples = chain.sample(problem.scores, problem.batch.offsets, np.zeros((6, 1)))
    for values in (log_z, lattice.log_partitions(problem.scores, problem.batch.offsets), entropies, of_samples):
        assert np.isneginf(values).tolist() == [False, True, False]
    assert not marginals[2:5].any()
    np.testing.assert_allclose(marginals[[0, 1, 5]].sum(1), 1)


def test_a_gold_path_that_is_forbidden_costs_infinitely_much() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[3], shared=True, weighted=False)
    problem.scores.emissions[1, problem.batch.gold[1]] = -np.inf
    loss, gradient = log_loss(problem)
    assert loss == np.inf
    assert all(np.isfinite(array).all() for array in gradient)


@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_known_labels_may_be_too_improbable_for_scaled_numbers_alone(cap: float) -> None:
    """The sum over all labellings is added, only that over those with the known labels is done again."""
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4], shared=True, dtype=np.float32)
    problem.batch.gold[:], problem.batch.weights[:] = [0, 1, -1, 2], 1.5
    problem.scores.transitions[0, 0, 1] = -80
    loss, gradient = log_loss(problem, cap=cap)
    phi = reference.capped_exponential(cap) if cap else reference.logarithmic
    expected_loss, expected = reference.sequential_loss(problem.scores, problem.batch, phi)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    assert_close(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [7, 8, 9, 20])
def test_label_counts_around_the_padding(n_labels: int, dtype: type) -> None:
    rng = np.random.default_rng(n_labels)
    problem = random_problem(rng, n_labels=n_labels, lengths=[2, 3, 1], shared=True, dtype=dtype)
    loss, gradient = log_loss(problem)
    expected_loss, expected = reference.log_loss(problem.scores, problem.batch)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert_close(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [5_000, 100_000])
def test_long_sequences_stay_exact(length: int, dtype: type) -> None:
    """Without transition scores the tokens are independent: log Z = sum_t log sum_k exp(emissions_t(k))."""
    if kernels.UNCOMPILED and dtype is np.float32 and length > 5_000:
        pytest.skip("Python adds logarithms in float32, numba in float64")
    rng = np.random.default_rng(length)
    problem = random_problem(rng, n_labels=4, lengths=[length], shared=True, dtype=dtype, scale=3.0, weighted=False)
    for array in problem.scores[1:]:
        array[:] = 0
    scores = problem.scores.emissions.astype(float)
    exact = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    marginals, log_z = posterior(problem)
    assert log_z[0] == pytest.approx(np.log(np.exp(scores).sum(1)).sum(), rel=1e-6)
    np.testing.assert_allclose(marginals, exact, atol=1e-5)
    loss, gradient = log_loss(problem)
    assert loss == pytest.approx(-np.log(exact[np.arange(length), problem.batch.gold]).sum(), rel=1e-5)
    assert gradient.transitions.sum() == pytest.approx(0, abs=1e-7 * length if dtype == np.float64 else 1e-2 * length)


@pytest.mark.parametrize("shared", [True, False])
def test_long_sequences_equal_the_log_space_recursion(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(1), n_labels=3, lengths=[5_000], shared=shared, scale=4.0)
    _, log_z = posterior(problem)
    assert log_z[0] == pytest.approx(reference.slow_log_partition(problem.scores), rel=1e-10)


def test_long_sequences_are_additive() -> None:
    """Two copies that a neutral step joins have twice the log Z of one."""
    problem = random_problem(np.random.default_rng(2), n_labels=3, lengths=[50_000], shared=False, scale=2.0)
    emissions, steps, start, end = problem.scores
    joined = np.concatenate([steps, steps])
    joined[50_000] = end[:, None] + start
    two = Problem(
        Scores(np.concatenate([emissions, emissions]), joined, start, end),
        Batch(np.array([0, 100_000]), np.tile(problem.batch.gold, 2), np.ones(1)),
    )
    assert posterior(two)[1][0] == pytest.approx(2 * posterior(problem)[1][0], rel=1e-12)
    assert np.isfinite(log_loss(two)[0])


def test_steep_slopes_do_not_overflow() -> None:
    """Backward scores up to 1e30 times a slope of e^30 would be more than float32 can hold."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = random_problem(
            rng, n_labels=9, lengths=rng.integers(1, 40, 20), shared=True, dtype=np.float32, scale=10, weighted=False
        )
        sums = problem.scores.zeros_like()
        lattice.log_loss(problem.scores, *problem.batch[:3], sums, 30.0)
        exact = problem.scores.wide()
        wanted = exact.zeros_like()
        lattice.log_loss(exact, *problem.batch[:3], wanted, 30.0)
        assert_close(sums, wanted, rtol=0, atol=1e-3 * np.exp(30))


@pytest.mark.parametrize("n_places", [0, 1, 3])
def test_log_z_with_no_place_for_each_sequence_is_refused(n_places: int) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=np.array([2, 3]), shared=True)
    grad = problem.scores.zeros_like()
    with pytest.raises(DataError, match=f"a place for each of 2 sequences, not {n_places}"):
        lattice.log_loss(
            problem.scores, problem.batch.offsets, lattice.NO_LABELS, np.ones(2), grad, log_z=np.zeros(n_places)
        )
