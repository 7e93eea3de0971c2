"""The posterior as a Markov chain, on scores with forbidden labels and steps, and where sums of products vanish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq.kernels import chain
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import sequences
from tests.problems import Problem, problems, random_problem

ANY = {"scales": (1.0, 100.0, 1000.0), "missing": False}
"""Large scores make the sums of products vanish, masked ones the rows of labels that nothing follows."""


@given(problems(**ANY))
def test_log_z(problem: Problem) -> None:
    found = chain.make_chain(problem.scores, problem.batch.offsets).log_z
    expected = [reference.log_partition(one) if len(one.emissions) else 0.0 for one, *_ in sequences(problem)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@given(problems(**ANY))
def test_log_probability_of_the_gold_labels(problem: Problem) -> None:
    gold = problem.batch.gold
    found = chain.log_probabilities(chain.make_chain(problem.scores, problem.batch.offsets), gold)
    expected = [reference.log_probability(one, gold[first:last].tolist()) for one, first, last in sequences(problem)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@given(problems(**ANY))
def test_entropy(problem: Problem) -> None:
    found = chain.entropies(chain.make_chain(problem.scores, problem.batch.offsets))
    np.testing.assert_allclose(found, [reference.entropy(one) for one, *_ in sequences(problem)], atol=1e-9)


@given(problems(**ANY))
def test_samples_are_possible(problem: Problem) -> None:
    model = chain.make_chain(problem.scores, problem.batch.offsets)
    uniforms = np.array([[0.0, 0.5, 1 - 2**-53]]).repeat(problem.batch.n_tokens, 0)
    for labels in chain.sample(model, uniforms):
        assert (chain.log_probabilities(model, labels) > -np.inf).all()


@pytest.mark.parametrize("shared", [True, False])
def test_a_sequence_without_any_labelling(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 0, 1], shared=shared)
    problem.scores.emissions[3] = -np.inf
    log_z = chain.make_chain(problem.scores, problem.batch.offsets).log_z
    assert np.isneginf(log_z).tolist() == [False, True, False, False]
    assert log_z[2] == 0


def test_labels_of_a_sample_are_drawn_one_by_one() -> None:
    """Without transitions, all pairs of labels are equally likely."""
    scores = Scores(np.zeros((4, 2)), np.zeros((1, 2, 2)), np.zeros(2), np.zeros(2))
    offsets = np.array([0, 4])
    found = chain.sample(chain.make_chain(scores, offsets), np.random.default_rng(0).random((4, 4000)))
    shares = np.bincount((found * [[1, 2, 4, 8]]).sum(1), minlength=16) / len(found)
    np.testing.assert_allclose(shares, 1 / 16, atol=0.02)
