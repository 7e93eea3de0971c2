"""Best paths against the enumeration of all labellings; ties leave their order open, so scores are compared first."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.inference.lattice import NBest
from spacy_crfseq.kernels import paths
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import DTYPES, sequences
from tests.problems import Problem, problems, random_problem


def best_paths(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    labels = np.zeros(len(problem.batch.gold), np.int32)
    scores = np.full(len(problem.batch.weights), np.nan)
    paths.best_paths((*problem.scores,), problem.batch.offsets, labels, scores)
    return labels, scores


@given(problems(scales=(0.0, 1.0, 1000.0), dtypes=DTYPES))
def test_best_score_and_its_path(problem: Problem) -> None:
    labels, scores = best_paths(problem)
    for n, (sequence, first, last) in enumerate(sequences(problem)):
        limits = {"rel": 1e-5, "abs": 1e-2} if problem.scores.start.dtype == np.float32 else {"rel": 1e-12, "abs": 1e-9}
        assert scores[n] == pytest.approx(reference.best_score(sequence) if last > first else 0.0, **limits)
        assert reference.path_score(sequence, labels[first:last].tolist()) == pytest.approx(scores[n], **limits)


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
    np.testing.assert_allclose(scores, [reference.best_score(sequence) for sequence, *_ in sequences(problem)])


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
    paths.best_paths((emissions, square, row, row), np.array([0, 6]), labels, scores)
    assert ((labels >= 0) & (labels < n_labels)).all()


# --- alternatives ---------------------------------------------------------------------------------------------------


def ranked_scores(sequence: Scores) -> np.ndarray:
    """Return the scores of all labellings, best first."""
    return reference.ranked(sequence)[1] + (reference.log_partition(sequence) if len(sequence.emissions) else 0.0)


def check(sequence: Scores, labels: np.ndarray, values: np.ndarray) -> None:
    """Compare the list of one sequence with the enumeration: labels [k, n], values [k]."""
    expected = ranked_scores(sequence)
    count = min(len(expected), len(values))
    size = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    np.testing.assert_allclose(values[:count], expected[:count], rtol=1e-9, atol=1e-11 * size)
    assert (np.diff(values[:count]) <= 0).all()
    assert np.isneginf(values[count:]).all()
    assert (labels[count:] == paths.NO_LABEL).all()
    actual = [tuple(path) for path in labels[:count].tolist()]
    assert len(set(actual)) == count
    for path, value in zip(actual, values, strict=False):
        assert reference.path_score(sequence, path) == pytest.approx(value, rel=1e-9, abs=1e-9)


def check_all(problem: Problem, k: int) -> None:
    labels, values = paths.best_labellings(problem.scores, problem.batch.offsets, k)
    for n, (sequence, first, last) in enumerate(sequences(problem)):
        check(sequence, labels[:, first:last], values[:, n])


@given(problems(scales=(0.0, 1.0, 1000.0)), st.sampled_from([1, 2, 7, 1100]))
def test_the_best_labellings_of_every_sequence(problem: Problem, k: int) -> None:
    check_all(problem, k)


@pytest.mark.parametrize("shared", [True, False])
def test_a_thousand_labellings_of_a_long_sequence(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=5, lengths=[2000], shared=shared)
    labels, values = paths.best_labellings(problem.scores, problem.batch.offsets, 1000)
    sequence = reference.sequence(problem.scores, 0, 2000)
    assert len(np.unique(labels, axis=0)) == 1000
    assert (np.diff(values[:, 0]) <= 0).all()
    np.testing.assert_allclose(reference.all_path_scores(sequence, labels), values[:, 0], rtol=1e-12)
    best, score = best_paths(problem)
    assert labels[0].tolist() == best.tolist()
    assert values[0, 0] == pytest.approx(score[0], rel=1e-12)


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=6, lengths=[30, 8], shared=True)
    shorter, longer = (paths.best_labellings(problem.scores, problem.batch.offsets, k) for k in (20, 500))
    np.testing.assert_array_equal(shorter[0], longer[0][:20])
    np.testing.assert_array_equal(shorter[1], longer[1][:20])


@pytest.mark.parametrize("shared", [True, False])
def test_equal_scores_give_the_same_list_each_time(shared: bool) -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(rng, n_labels=3, lengths=[4, 4], shared=shared)
    for array in problem.scores:
        array[:] = rng.integers(0, 2, array.shape)
    for array in problem.scores[: 1 if shared else 2]:
        array[4:] = array[:4]
    labels, values = paths.best_labellings(problem.scores, problem.batch.offsets, 81)
    check(reference.sequence(problem.scores, 0, 4), labels[:, :4], values[:, 0])
    np.testing.assert_array_equal(labels[:, :4], labels[:, 4:])
    np.testing.assert_array_equal(labels, paths.best_labellings(problem.scores, problem.batch.offsets, 81)[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_alternatives_of_scores_that_are_no_numbers_are_in_range(bad: float) -> None:
    emissions = np.zeros((6, 3))
    emissions[2:4] = bad
    scores = Scores(emissions, np.zeros((1, 3, 3)), np.zeros(3), np.zeros(3))
    labels, _ = paths.best_labellings(scores, np.array([0, 6]), 20)
    assert ((labels >= paths.NO_LABEL) & (labels < 3)).all()


# --- combinations ---------------------------------------------------------------------------------------------------


@given(problems(), st.sampled_from([1, 2, 6]), st.booleans())
def test_the_best_combinations_of_sequences(problem: Problem, k: int, two_groups: bool) -> None:
    offsets, bounds = problem.batch.offsets, problem.sequence_bounds()
    groups = np.array([0, min(2, len(bounds)), len(bounds)] if two_groups else [0, len(bounds)])
    labels, values = paths.best_labellings(problem.scores, offsets, k)
    merged = NBest(labels, values).merged(offsets, groups)
    labels_of = [sequence for sequence, *_ in sequences(problem)]
    for g, (first, last) in enumerate(itertools.pairwise(groups)):
        sums = reference.ranked_sums([ranked_scores(sequence)[:k] for sequence in labels_of[first:last]])
        tokens, result, count = slice(offsets[first], offsets[last]), merged.log_probabilities[:, g], min(k, len(sums))
        np.testing.assert_allclose(result[:count], sums[:count], rtol=1e-9, atol=1e-9)
        assert np.isneginf(result[count:]).all()
        assert (merged.labels[count:, tokens] == paths.NO_LABEL).all()
        rows = merged.labels[:count]
        assert len({tuple(row) for row in rows[:, tokens].tolist()}) == count
        for row, value in zip(rows, result, strict=False):
            parts = [reference.path_score(labels_of[s], row[slice(*bounds[s])].tolist()) for s in range(first, last)]
            assert sum(parts) == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_a_group_of_many_sequences() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=4, lengths=[5] * 300, shared=True)
    labels, values = paths.best_labellings(problem.scores, problem.batch.offsets, 10)
    merged = NBest(labels, values).merged(problem.batch.offsets, np.array([0, 300]))
    best, second = merged.log_probabilities[:2, 0]
    assert best == pytest.approx(values[0].sum())
    assert second - best == pytest.approx((values[1] - values[0]).max())  # one sequence has its second best labelling
    assert len(np.unique(merged.labels, axis=0)) == 10


@pytest.mark.parametrize("k", [1, 5])
def test_a_group_of_no_sequences_has_one_labelling(k: int) -> None:
    nothing = NBest(np.zeros((k, 0), np.int32), np.zeros((k, 0)))
    merged = nothing.merged(np.array([0]), np.array([0, 0]))
    assert merged.labels.shape == (k, 0)
    assert merged.log_probabilities[:, 0].tolist() == [0.0] + [-np.inf] * (k - 1)
