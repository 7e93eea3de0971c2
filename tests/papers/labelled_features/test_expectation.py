"""The loss that knows shares of labels, against the enumeration of all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.papers.labelled_features.expectation import Expectation
from tests import reference
from tests.problems import Problem, problems

NAMES = ["A", "B", "C", "D"]


@pytest.mark.parametrize("shares", [{}, {"A": 2}, {"A": "x"}, {"A": 0.7, "B": 0.4}, {"A": True}, [0.1]])
def test_shares_that_are_refused(shares: object) -> None:
    with pytest.raises(ConfigError, match="proportions"):
        Expectation(shares)  # type: ignore[arg-type]


def test_rounded_shares_are_scaled() -> None:
    totals = np.array([[0.0, 0], [0.25, 0.75]])
    exact, rounded = (
        Expectation(shares).bind(["A", "B"], None) for shares in ({"A": 0.4, "B": 0.6}, {"A": 0.402, "B": 0.603})
    )
    assert rounded.value_at(totals)[0] == pytest.approx(exact.value_at(totals)[0], rel=1e-12)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"PER": 0.1, "B-PER": 0.1}, "'PER' and 'B-PER' both contain 'B-PER'"),
        ({"LOCC": 0.1}, r"Did you mean 'LOC'\?"),
        ({"PER": 0.5, "LOC": 0.2, "O": 0.2}, "must add up to 1"),
    ],
)
def test_labels_that_are_refused(shares: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Expectation(shares).bind(["B-PER", "I-PER", "B-LOC", "O"], "IOB2")


def test_a_temperature_that_is_refused() -> None:
    with pytest.raises(ConfigError, match="temperature"):
        Expectation({"A": 0.5}, temperature=0)


@given(problems(scales=(1.0, 3.0)), st.sampled_from([1.0, 0.5, 2.0]))
def test_expectation_equals_the_enumeration(problem: Problem, temperature: float) -> None:
    n_labels = problem.scores.emissions.shape[1]
    if n_labels < 3:
        return
    annealed = type(problem.scores)(*(array / temperature for array in problem.scores))
    kinds = np.ones(problem.batch.n_tokens, np.int32)
    totals = reference.expected_labels(annealed, problem.batch, kinds, 2)[1]
    loss = Expectation({"A": 0.3, "C": 0.5}, temperature).bind(NAMES[:n_labels], None)
    gradient = problem.scores.zeros_like()
    value = loss(problem.scores, problem.batch, gradient)
    if totals.sum() == 0:
        assert value == 0
        return
    expected, slope = reference.kl_divergence({(0,): 0.3, (2,): 0.5}, totals)
    own = np.tile(slope / totals.sum() / temperature, (problem.batch.n_tokens, 1))
    _, wanted = reference.covariance_loss(annealed, problem.batch, own)
    assert value == pytest.approx(expected, abs=1e-9)
    for array, other in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-9)
