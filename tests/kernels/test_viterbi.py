"""Best paths against the enumeration of all label sequences; ties leave the labels open, so scores are compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq.kernels import viterbi
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import DTYPES, sequences
from tests.problems import Problem, problems, random_problem


def best_paths(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    labels = np.zeros(len(problem.batch.gold), np.int32)
    scores = np.full(len(problem.batch.weights), np.nan)
    viterbi.best_paths(problem.scores, problem.batch.offsets, labels, scores)
    return labels, scores


@given(problems(scales=(0.0, 1.0, 1000.0), dtypes=DTYPES))
def test_best_score_and_its_path(problem: Problem) -> None:
    labels, scores = best_paths(problem)
    for n, (one, first, last) in enumerate(sequences(problem)):
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
    np.testing.assert_allclose(scores, [reference.best_score(one) for one, *_ in sequences(problem)])


def test_a_long_sequence_takes_its_own_best_labels_where_steps_are_free() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=5, lengths=[100_000], shared=True)
    for array in problem.scores[1:]:
        array[:] = 0
    labels, scores = best_paths(problem)
    assert (labels == problem.scores.emissions.argmax(1)).all()
    assert scores[0] == pytest.approx(problem.scores.emissions.max(1).sum())


def plain_path(problem: Problem) -> list[int]:
    """Return the best labels of a problem with one sequence and shared transitions, the first of equals."""
    emissions, (step,), start, end = problem.scores
    best, back = emissions[0] + start, []
    for here in emissions[1:]:
        sums = best[:, None] + step
        back.append(sums.argmax(0))
        best = sums.max(0) + here
    path = [int((best + end).argmax())]
    for previous in reversed(back):
        path.append(int(previous[path[-1]]))
    return path[::-1]


@pytest.mark.parametrize("forbidden", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("n_labels", [2, 17, 49])
def test_labels_that_are_left_out_are_on_no_best_path(n_labels: int, scale: float, forbidden: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        problem = random_problem(rng, n_labels=n_labels, lengths=[40], shared=True)
        problem.scores.emissions[:] *= scale
        problem.scores.transitions[0][rng.random((n_labels, n_labels)) < forbidden] = -np.inf
        labels, scores = best_paths(problem)
        if np.isfinite(scores[0]):
            assert labels.tolist() == plain_path(problem)


@pytest.mark.parametrize("n_labels", [1, 3, 8, 9])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_give_labels_in_range(n_labels: int, bad: float) -> None:
    emissions = np.zeros((6, n_labels), np.float32)
    emissions[2:4] = bad
    square, row = np.zeros((1, n_labels, n_labels), np.float32), np.zeros(n_labels, np.float32)
    labels, scores = np.full(6, -1, np.int32), np.empty(1)
    viterbi.best_paths(Scores(emissions, square, row, row), np.array([0, 6]), labels, scores)
    assert ((labels >= 0) & (labels < n_labels)).all()
