"""The posterior as a Markov chain, on scores with forbidden labels and steps, and where sums of products vanish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import chain
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import sequences
from tests.problems import Problem, problems, random_problem

ANY = {"scales": (1.0, 100.0, 1000.0), "missing": False}
"""Large scores make the sums of products vanish, masked ones the rows of labels that nothing follows."""


def random_spans(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which labels go on with each other's spans, and which are in none."""
    rng, n = np.random.default_rng(seed), len(problem.scores.start)
    inside, outside = rng.random((n, n)) < 0.4, rng.random(n) < 0.3
    inside[outside] = inside[:, outside] = False
    return inside, outside


@given(problems(**ANY))
def test_log_z(problem: Problem) -> None:
    found = chain.make_chain(problem.scores, problem.batch.offsets).log_z
    expected = [reference.log_partition(one) if len(one.emissions) else 0.0 for one, *_ in sequences(problem)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@given(problems(**ANY))
def test_log_probability_of_the_gold_labels(problem: Problem) -> None:
    model = chain.make_chain(problem.scores, problem.batch.offsets)
    found = np.empty(len(model.log_z))
    chain.log_probabilities(model, problem.batch.gold, found)
    gold = problem.batch.gold
    expected = [reference.log_probability(one, gold[first:last].tolist()) for one, first, last in sequences(problem)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@given(problems(**ANY))
def test_entropy(problem: Problem) -> None:
    model = chain.make_chain(problem.scores, problem.batch.offsets)
    found = np.empty(len(model.log_z))
    chain.entropies(model, found)
    np.testing.assert_allclose(found, [reference.entropy(one) for one, *_ in sequences(problem)], atol=1e-9)


@given(problems(**ANY), st.integers(0, 2**32 - 1))
def test_spans_that_begin_and_end(problem: Problem, seed: int) -> None:
    inside, _ = random_spans(problem, seed)
    spans = chain.make_span_chain(chain.make_chain(problem.scores, problem.batch.offsets), inside)
    marginals = np.zeros(problem.scores.emissions.shape)
    opens, ends = np.zeros_like(marginals), np.zeros_like(marginals)
    for one, first, last in sequences(problem):
        marginals[first:last] = reference.marginals(one)
        for path, share in zip(*reference.probabilities(one), strict=True):
            for begin, labels in reference.spans_of(path, inside, np.zeros(len(inside), np.bool_)):
                opens[first + begin, labels[0]] += share
                ends[first + begin + len(labels) - 1, labels[-1]] += share
    np.testing.assert_allclose(spans.opens, opens, atol=1e-9)
    np.testing.assert_allclose(spans.closes * marginals, ends, atol=1e-9)


@given(problems(**ANY), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.8]))
def test_the_best_spans(problem: Problem, seed: int, cost: float) -> None:
    inside, outside = random_spans(problem, seed)
    model = chain.make_chain(problem.scores, problem.batch.offsets)
    labels = chain.best_spans(model, chain.make_span_chain(model, inside), outside, 2.0, cost)
    for one, first, last in sequences(problem):
        values = reference.span_values(one, inside, outside, 2.0, cost)
        assert values[tuple(labels[first:last].tolist())] == pytest.approx(max(values.values()), abs=1e-8)


@given(problems(**ANY))
def test_samples_are_possible(problem: Problem) -> None:
    model = chain.make_chain(problem.scores, problem.batch.offsets)
    samples = np.empty((3, problem.batch.n_tokens), np.int32)
    uniforms = np.array([[0.0, 0.5, 1 - 2**-53]]).repeat(problem.batch.n_tokens, 0)
    chain.sample(model, uniforms, samples)
    found = np.empty(len(model.log_z))
    for labels in samples:
        chain.log_probabilities(model, labels, found)
        assert (found > -np.inf).all()


@pytest.mark.parametrize("shared", [True, False])
def test_a_sequence_without_any_labelling(shared: bool) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 3, 0, 1], shared=shared)
    problem.scores.emissions[3] = -np.inf
    log_z = chain.make_chain(problem.scores, problem.batch.offsets).log_z
    assert np.isneginf(log_z).tolist() == [False, True, False, False]
    assert log_z[2] == 0


def test_a_span_as_long_as_the_text() -> None:
    """Label 1 goes on with 0 and with itself; everything is one span, of a probability that can be told."""
    n = 3_000
    step = np.log([[1e-9, 1 - 1e-9], [1e-6, 1 - 1e-6]])
    scores = Scores(np.zeros((n, 2)), step[None], np.array([0.0, -np.inf]), np.zeros(2))
    inside = np.array([[False, True], [False, True]])
    model = chain.make_chain(scores, np.array([0, n]))
    assert model.log_z[0] == pytest.approx(0, abs=1e-9)
    labels = chain.best_spans(model, chain.make_span_chain(model, inside), np.zeros(2, np.bool_), 2.0, 0.8)
    assert labels.tolist() == [0] + [1] * (n - 1)


def test_labels_of_a_sample_are_drawn_one_by_one() -> None:
    """Without transitions, all pairs of labels are equally likely."""
    scores = Scores(np.zeros((4, 2)), np.zeros((1, 2, 2)), np.zeros(2), np.zeros(2))
    offsets = np.array([0, 4])
    found = np.empty((4000, 4), np.int32)
    chain.sample(chain.make_chain(scores, offsets), np.random.default_rng(0).random((4, 4000)), found)
    shares = np.bincount((found * [[1, 2, 4, 8]]).sum(1), minlength=16) / len(found)
    np.testing.assert_allclose(shares, 1 / 16, atol=0.02)
