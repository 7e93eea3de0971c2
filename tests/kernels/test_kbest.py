"""The k best labellings against the enumeration of all; ties leave their order open, so scores are compared first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.inference.posterior import NBest
from spacy_crfseq.kernels import kbest, viterbi
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import sequences
from tests.problems import Problem, problems, random_constraints, random_problem

SEEDS = st.integers(0, 2**32 - 1)


def best_labellings(scores: Scores, offsets: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels [k, T], scores [k, N] and log Z [N], from arrays that hold something else before."""
    n = len(offsets) - 1
    labels, values, log_z = np.full((k, len(scores.emissions)), 99, np.int32), np.full((k, n), 99.0), np.full(n, 99.0)
    kbest.best_labellings(scores, offsets, labels, values, log_z)
    return labels, values, log_z


def check(one: Scores, labels: np.ndarray, values: np.ndarray, log_z: float) -> None:
    """Compare the list of one sequence with the enumeration: labels [k, n], values [k]."""
    paths, expected = reference.ranked(one)
    count = min(len(paths), len(values))
    size = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    np.testing.assert_allclose(values[:count] - log_z, expected[:count], rtol=1e-9, atol=1e-11 * size)
    assert (np.diff(values[:count]) <= 0).all()
    assert np.isneginf(values[count:]).all()
    assert (labels[count:] == kbest.NONE).all()
    found = [tuple(path) for path in labels[:count].tolist()]
    assert len(set(found)) == count
    for path, value in zip(found, values, strict=False):
        assert reference.path_score(one, path) == pytest.approx(value, rel=1e-9, abs=1e-9)


def check_all(problem: Problem, k: int) -> None:
    labels, values, log_z = best_labellings(problem.scores, problem.batch.offsets, k)
    for n, (one, first, last) in enumerate(sequences(problem)):
        check(one, labels[:, first:last], values[:, n], log_z[n])


@given(problems(scales=(0.0, 1.0, 1000.0)), st.sampled_from([1, 2, 7, 1100]))
def test_the_best_labellings_of_every_sequence(problem: Problem, k: int) -> None:
    check_all(problem, k)


@given(problems(maskable=False), SEEDS, st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([3, 1100]))
def test_only_labellings_that_the_constraints_allow(problem: Problem, seed: int, share: float, k: int) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, share)
    check_all(problem._replace(scores=problem.scores.constrained(constraints, allowed)), k)


@pytest.mark.parametrize("n_labels", [1, 8, 9])
def test_label_counts_around_the_padding(n_labels: int) -> None:
    check_all(random_problem(np.random.default_rng(0), n_labels=n_labels, lengths=[3, 0, 1], shared=False), 1000)


@pytest.mark.parametrize("shared", [True, False])
def test_a_thousand_labellings_of_a_long_sequence(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=5, lengths=[2000], shared=shared)
    labels, values, log_z = best_labellings(problem.scores, problem.batch.offsets, 1000)
    one = reference.sequence(problem.scores, 0, 2000)
    assert len(np.unique(labels, axis=0)) == 1000
    assert (np.diff(values[:, 0]) <= 0).all()
    np.testing.assert_allclose(reference.all_path_scores(one, labels), values[:, 0], rtol=1e-12)
    assert log_z[0] == pytest.approx(reference.slow_log_partition(one), rel=1e-12)
    best, score = np.empty(2000, np.int32), np.empty(1)
    viterbi.best_paths(problem.scores, problem.batch.offsets, best, score)
    assert labels[0].tolist() == best.tolist()
    assert values[0, 0] == pytest.approx(score[0], rel=1e-12)


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=6, lengths=[30, 8], shared=True)
    shorter, longer = (best_labellings(problem.scores, problem.batch.offsets, k) for k in (20, 500))
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
    labels, values, log_z = best_labellings(problem.scores, problem.batch.offsets, 81)
    check(reference.sequence(problem.scores, 0, 4), labels[:, :4], values[:, 0], log_z[0])
    np.testing.assert_array_equal(labels[:, :4], labels[:, 4:])
    np.testing.assert_array_equal(labels, best_labellings(problem.scores, problem.batch.offsets, 81)[0])


def test_a_forbidden_sequence_has_no_labelling_and_the_others_have() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 1], shared=True)
    expected, _, _ = best_labellings(problem.scores, problem.batch.offsets, 3)
    problem.scores.emissions[3] = -np.inf
    labels, values, log_z = best_labellings(problem.scores, problem.batch.offsets, 3)
    assert np.isneginf(values).all(0).tolist() == np.isneginf(log_z).tolist() == [False, True, False]
    assert (labels[:, 2:5] == kbest.NONE).all()
    np.testing.assert_array_equal(labels[:, [0, 1, 5]], expected[:, [0, 1, 5]])


@pytest.mark.parametrize("gap", [30.0, 200.0, 650.0, 800.0, 1e5])
@pytest.mark.parametrize("shared", [True, False])
def test_sums_far_apart_are_added_up_exactly(shared: bool, gap: float) -> None:
    """Labels that seem impossible at first are the only ones in the end."""
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[6], shared=shared)
    problem.scores.emissions[:3, 2] -= gap
    problem.scores.emissions[3:, :2] -= 2 * gap
    for step in problem.scores.transitions:
        step[:2, 2] = -np.inf
    _, _, log_z = best_labellings(problem.scores, problem.batch.offsets, 1)
    assert log_z[0] == pytest.approx(reference.log_partition(problem.scores), rel=1e-12)


def test_sums_that_change_places_slowly_are_added_up_exactly() -> None:
    """A label is lost at the first token, and the others at each later one lose less than a single step would show."""
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[40], shared=True)
    problem.scores.emissions[0, 2] -= 800
    problem.scores.emissions[1:, :2] -= 40
    problem.scores.transitions[0, :2, 2] = -np.inf
    _, _, log_z = best_labellings(problem.scores, problem.batch.offsets, 1)
    assert log_z[0] == pytest.approx(reference.slow_log_partition(problem.scores), rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_give_labels_in_range(bad: float) -> None:
    emissions = np.zeros((6, 3))
    emissions[2:4] = bad
    scores = Scores(emissions, np.zeros((1, 3, 3)), np.zeros(3), np.zeros(3))
    labels, _, _ = best_labellings(scores, np.array([0, 6]), 20)
    assert ((labels >= kbest.NONE) & (labels < 3)).all()


# --- combinations ---------------------------------------------------------------------------------------------------


@given(problems(), st.sampled_from([1, 2, 6]), st.booleans())
def test_the_best_combinations_of_sequences(problem: Problem, k: int, two_groups: bool) -> None:
    offsets, bounds = problem.batch.offsets, problem.sequence_bounds()
    groups = np.array([0, min(2, len(bounds)), len(bounds)] if two_groups else [0, len(bounds)])
    labels, values, log_z = best_labellings(problem.scores, offsets, k)
    merged = NBest(labels, values - log_z).merged(offsets, groups)
    ones = [one for one, *_ in sequences(problem)]
    for g, (first, last) in enumerate(itertools.pairwise(groups)):
        sums = reference.ranked_sums([reference.ranked(one)[1][:k] for one in ones[first:last]])
        tokens, found, count = slice(offsets[first], offsets[last]), merged.log_probabilities[:, g], min(k, len(sums))
        np.testing.assert_allclose(found[:count], sums[:count], rtol=1e-9, atol=1e-9)
        assert np.isneginf(found[count:]).all()
        assert (merged.labels[count:, tokens] == kbest.NONE).all()
        rows = merged.labels[:count]
        assert len({tuple(row) for row in rows[:, tokens].tolist()}) == count
        for row, value in zip(rows, found, strict=False):
            parts = [reference.path_score(ones[s], row[slice(*bounds[s])].tolist()) for s in range(first, last)]
            assert sum(parts) - log_z[first:last].sum() == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_a_group_of_many_sequences() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=4, lengths=[5] * 300, shared=True)
    labels, values, log_z = best_labellings(problem.scores, problem.batch.offsets, 10)
    merged = NBest(labels, values - log_z).merged(problem.batch.offsets, np.array([0, 300]))
    best, second = merged.log_probabilities[:2, 0]
    assert best == pytest.approx((values[0] - log_z).sum())
    assert second - best == pytest.approx((values[1] - values[0]).max())  # one sequence has its second best labelling
    assert len(np.unique(merged.labels, axis=0)) == 10


@pytest.mark.parametrize("k", [1, 5])
def test_a_group_of_no_sequences_has_one_labelling(k: int) -> None:
    nothing = NBest(np.zeros((k, 0), np.int32), np.zeros((k, 0)))
    merged = nothing.merged(np.array([0]), np.array([0, 0]))
    assert merged.labels.shape == (k, 0)
    assert merged.log_probabilities[:, 0].tolist() == [0.0] + [-np.inf] * (k - 1)
