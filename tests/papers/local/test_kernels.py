"""Chains normalised at each token against the enumeration of all label sequences."""

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq.papers.local import kernels as local
from spacy_crfseq.papers.local import normalised
from tests import reference
from tests.kernels.helpers import DTYPES, assert_finite, sequences
from tests.problems import Problem, finite_differences, problems, random_problem


def log_loss(problem: Problem) -> tuple[float, tuple[np.ndarray, ...]]:
    grad = problem.scores.zeros_like()
    return local.log_loss(problem.scores, *problem.batch[:3], grad), grad


def expected_loss(problem: Problem) -> float:
    total = 0.0
    for (sequence, first, last), weight in zip(sequences(problem), problem.batch.weights, strict=True):
        if weight:
            total += weight * reference.local_log_loss(sequence, problem.batch.gold[first:last])
    return total


@given(problems(maskable=False, scales=(1.0, 30.0), dtypes=DTYPES))
def test_loss(problem: Problem) -> None:
    tolerance = 1e-4 if problem.scores.start.dtype == np.float32 else 1e-10
    assert log_loss(problem)[0] == pytest.approx(expected_loss(problem), rel=tolerance, abs=tolerance)


@given(problems(missing=False, dtypes=DTYPES))
def test_loss_with_forbidden_labels(problem: Problem) -> None:
    loss, grad = log_loss(problem)
    assert loss == pytest.approx(expected_loss(problem), rel=1e-4, abs=1e-4)
    assert_finite(grad)


@given(problems(maskable=False))
def test_float32_gradient_equals_finite_differences(problem: Problem) -> None:
    single = Problem(type(problem.scores)(*(a.astype(np.float32) for a in problem.scores)), problem.batch)
    for array, scores in zip(log_loss(single)[1], problem.scores, strict=True):
        numerical = finite_differences(lambda: log_loss(problem)[0], scores)
        np.testing.assert_allclose(array, numerical, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_labels", [1, 7, 8, 9, 40])
def test_label_counts_around_the_padding(n_labels: int) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=n_labels, lengths=[2, 1, 2], shared=True)
    assert log_loss(problem)[0] == pytest.approx(expected_loss(problem))


def test_a_forbidden_gold_label_costs_infinitely_much() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4], shared=True)
    problem.scores.emissions[1, problem.batch.gold[1]] = -np.inf
    assert log_loss(problem)[0] == np.inf


def test_a_long_stretch_of_missing_labels_before_an_unlikely_one() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[300], shared=True, scale=30.0)
    problem.batch.gold[1:-1] = -1
    loss, grad = log_loss(problem)
    assert np.isfinite(loss)
    assert_finite(grad)


@given(problems(missing=False, scales=(1.0, 100.0), dtypes=DTYPES))
def test_normalised_scores_are_log_probabilities_but_for_a_constant(problem: Problem) -> None:
    new_scores = problem.scores._replace(emissions=normalised(problem.scores, problem.batch.offsets))
    for first, last in problem.sequence_bounds():
        if first == last:
            continue
        item, new = (reference.sequence(scores, first, last) for scores in (problem.scores, new_scores))
        paths = reference.all_paths(*item.emissions.shape)
        with np.errstate(invalid="ignore"):  # minus infinity less itself, on paths that are forbidden
            expected, actual = reference.local_log_probabilities(item, paths), reference.all_path_scores(new, paths)
            differences = actual - expected
        possible = np.isfinite(reference.all_path_scores(item, paths))
        constants = differences[possible]
        scale = 1e-5 * max(1.0, float(np.abs(actual[possible]).max(initial=0)))
        np.testing.assert_allclose(constants, constants[0], atol=scale, rtol=0)
        assert not np.isfinite(actual[~possible]).any()
