"""Best paths against the enumeration of all label sequences; ties leave the labels open, so scores are compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq.kernels import viterbi
from tests import reference
from tests.problems import Problem, problems, random_problem

DTYPES = (np.float32, np.float64)


def best_paths(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    labels = np.zeros(len(problem.batch.gold), np.int32)
    scores = np.full(len(problem.batch.weights), np.nan)
    viterbi.best_paths(*problem.scores, problem.batch.offsets, labels, scores)
    return labels, scores


@given(problems(scales=(0.0, 1.0, 1000.0), dtypes=DTYPES))
def test_best_score_and_its_path(problem: Problem) -> None:
    labels, scores = best_paths(problem)
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        one = reference.sequence(problem.scores, first, last)
        limits = {"rel": 1e-5, "abs": 1e-2} if problem.scores.start.dtype == np.float32 else {"rel": 1e-12, "abs": 1e-9}
        assert scores[n] == pytest.approx(reference.best_score(one) if last > first else 0.0, **limits)
        assert reference.path_score(one, labels[first:last].tolist()) == pytest.approx(scores[n], **limits)


def test_a_forbidden_sequence_is_reported_and_the_others_are_found() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 1], shared=True)
    expected = best_paths(problem)[0]
    problem.scores.emissions[3] = -np.inf
    labels, scores = best_paths(problem)
    assert np.isneginf(scores).tolist() == [False, True, False]
    assert labels[[0, 1, 5]].tolist() == expected[[0, 1, 5]].tolist()


@pytest.mark.parametrize("n_labels", [1, 8, 9])
def test_label_counts_around_the_padding(n_labels: int) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=n_labels, lengths=[3, 1, 3], shared=False)
    _, scores = best_paths(problem)
    sequences = [reference.sequence(problem.scores, *bounds) for bounds in problem.sequence_bounds()]
    expected = [reference.best_score(one) for one in sequences]
    np.testing.assert_allclose(scores, expected)


def test_a_long_sequence_takes_its_own_best_labels_where_steps_are_free() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=5, lengths=[100_000], shared=True)
    for array in problem.scores[1:]:
        array[:] = 0
    labels, scores = best_paths(problem)
    assert (labels == problem.scores.emissions.argmax(1)).all()
    assert scores[0] == pytest.approx(problem.scores.emissions.max(1).sum())
