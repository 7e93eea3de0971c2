"""Queries of single sequences, on scores with forbidden labels and steps, and where sums of products vanish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq.kernels import chain, lattice
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import sequences
from tests.problems import Problem, problems, random_problem

ANY = {"scales": (1.0, 100.0, 1000.0), "missing": False}
"""Large scores make the sums of products vanish, masked ones the rows of labels that nothing follows."""


@given(problems(**ANY))
def test_log_probability_of_the_gold_labels(problem: Problem) -> None:
    gold, offsets = problem.batch.gold, problem.batch.offsets
    found = chain.path_scores(problem.scores, offsets, gold) - lattice.log_partitions(problem.scores, offsets)
    expected = [reference.log_probability(one, gold[first:last].tolist()) for one, first, last in sequences(problem)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@given(problems(**ANY))
def test_normalised_scores_are_those_of_the_same_labellings(problem: Problem) -> None:
    for one, first, last in sequences(problem):
        if last > first:
            chained, log_z = lattice.normalised(one)
            assert log_z == pytest.approx(reference.log_partition(one), rel=1e-12, abs=1e-9)
            for found, expected in zip(reference.probabilities(chained), reference.probabilities(one), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@given(problems(**ANY))
def test_entropy(problem: Problem) -> None:
    found = chain.entropies(problem.scores, problem.batch.offsets)
    np.testing.assert_allclose(found, [reference.entropy(one) for one, *_ in sequences(problem)], atol=1e-9)


@given(problems(**ANY))
def test_samples_are_possible(problem: Problem) -> None:
    uniforms, offsets = np.array([[0.0, 0.5, 1 - 2**-53]]).repeat(problem.batch.n_tokens, 0), problem.batch.offsets
    samples, log_z = chain.sample(problem.scores, offsets, uniforms)
    expected = [reference.log_partition(one) if len(one.emissions) else 0.0 for one, *_ in sequences(problem)]
    np.testing.assert_allclose(log_z, expected, rtol=1e-12, atol=1e-9)
    for labels in samples:
        assert (chain.path_scores(problem.scores, offsets, labels) > -np.inf).all()


@pytest.mark.parametrize("shared", [True, False])
def test_a_sequence_without_any_labelling(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 0, 1], shared=shared)
    problem.scores.emissions[3] = -np.inf
    offsets = problem.batch.offsets
    _, log_z = chain.sample(problem.scores, offsets, np.zeros((6, 1)))
    for values in (lattice.log_partitions(problem.scores, offsets), chain.entropies(problem.scores, offsets), log_z):
        assert np.isneginf(values).tolist() == [False, True, False, False]
        assert values[2] == 0


def test_labels_of_a_sample_are_drawn_one_by_one() -> None:
    """Without transitions, all pairs of labels are equally likely."""
    scores = Scores(np.zeros((4, 2)), np.zeros((1, 2, 2)), np.zeros(2), np.zeros(2))
    found, _ = chain.sample(scores, np.array([0, 4]), np.random.default_rng(0).random((4, 4000)))
    shares = np.bincount((found * [[1, 2, 4, 8]]).sum(1), minlength=16) / len(found)
    np.testing.assert_allclose(shares, 1 / 16, atol=0.02)
