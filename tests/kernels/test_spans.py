"""How spans begin and end, and the best choice of them, where labels are forbidden and sums of products vanish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.kernels import spans
from spacy_crfseq.types import Scores
from tests import reference
from tests.kernels.helpers import sequences
from tests.problems import Problem, problems

ANY = {"scales": (1.0, 100.0, 1000.0), "missing": False}
"""Large scores make the sums of products vanish, masked ones the rows of labels that nothing follows."""


def random_spans(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which labels go on with each other's spans, and which are in none."""
    rng, n = np.random.default_rng(seed), len(problem.scores.start)
    inside, outside = rng.random((n, n)) < 0.4, rng.random(n) < 0.3
    inside[outside] = inside[:, outside] = False
    return inside, outside


@given(problems(**ANY), st.integers(0, 2**32 - 1))
def test_spans_that_begin_and_end(problem: Problem, seed: int) -> None:
    inside, _ = random_spans(problem, seed)
    found, log_z = spans.make_span_chain(problem.scores, problem.batch.offsets, inside)
    marginals = np.zeros(problem.scores.emissions.shape)
    opens, ends = np.zeros_like(marginals), np.zeros_like(marginals)
    for number, (one, first, last) in enumerate(sequences(problem)):
        marginals[first:last] = reference.marginals(one)
        for path, share in zip(*reference.probabilities(one), strict=True):
            for begin, labels in reference.spans_of(path, inside, np.zeros(len(inside), np.bool_)):
                opens[first + begin, labels[0]] += share
                ends[first + begin + len(labels) - 1, labels[-1]] += share
        expected = reference.log_partition(one) if last > first else 0.0
        assert log_z[number] == pytest.approx(expected, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(found.opens, opens, atol=1e-9)
    np.testing.assert_allclose(found.closes * marginals, ends, atol=1e-9)


@given(problems(**ANY), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.8]))
def test_the_best_spans(problem: Problem, seed: int, cost: float) -> None:
    inside, outside = random_spans(problem, seed)
    found, _ = spans.make_span_chain(problem.scores, problem.batch.offsets, inside)
    labels = spans.best_spans(found, problem.batch.offsets, outside, 2.0, cost)
    for one, first, last in sequences(problem):
        values = reference.span_values(one, inside, outside, 2.0, cost)
        assert values[tuple(labels[first:last].tolist())] == pytest.approx(max(values.values()), abs=1e-8)


def test_a_span_as_long_as_the_text() -> None:
    """Label 1 goes on with 0 and with itself; everything is one span, of a probability that can be told."""
    n = 3_000
    step = np.log([[1e-9, 1 - 1e-9], [1e-6, 1 - 1e-6]])
    scores = Scores(np.zeros((n, 2)), step[None], np.array([0.0, -np.inf]), np.zeros(2))
    inside = np.array([[False, True], [False, True]])
    offsets = np.array([0, n])
    found, log_z = spans.make_span_chain(scores, offsets, inside)
    assert log_z[0] == pytest.approx(0, abs=1e-9)
    labels = spans.best_spans(found, offsets, np.zeros(2, np.bool_), 2.0, 0.8)
    assert labels.tolist() == [0] + [1] * (n - 1)
