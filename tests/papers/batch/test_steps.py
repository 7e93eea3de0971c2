"""Steps of RPROP by the signs of the gradient, and those of conjugate gradients."""

from typing import Any

import numpy as np
import pytest

from spacy_crfseq.optimizers.batch import Point
from spacy_crfseq.papers import batch
from spacy_crfseq.papers.batch import ConjugateGradient
from spacy_crfseq.regularizers.l2 import L2
from tests.contracts.test_optimizers import TIGHT, run
from tests.problems import newton_optimum, training_problem


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_by_signs(dtype: type) -> None:
    x, pseudo, signs = (np.array(values, dtype) for values in ([1, -1, 0, 2, 1], [3, -2, 1, 0, 5], [1, 1, 0, -1, 1]))
    steps, out = np.array([45, 4, 0.5, 0.5, 2], dtype), np.empty(5, dtype)
    batch._adapt_steps(pseudo, signs, steps)
    np.testing.assert_allclose(steps, [50, 2, 0.5, 0.5, 2.4])  # at most 50; those at or after a zero rest
    np.testing.assert_array_equal(signs, [1, 0, 1, 0, 1])
    steps[0] = 1.5
    for stop, expected in ((False, [-0.5, -1, -0.5, 2, -1.4]), (True, [0, -1, -0.5, 2, 0])):
        batch._sign_step(x, signs, steps, stop, out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert batch._retreat(x, out, np.array([-1, 1, 1, 1, 1], dtype), steps)
    np.testing.assert_allclose(steps, [0.75, 2, 0.5, 0.5, 2.4])


@pytest.mark.parametrize(("new", "direction"), [([0.0, 1.0], [-0.5, -1.0]), ([1.0, 0.2], [-1.0, -0.2])])
def test_conjugate_gradients_restart_where_gradients_are_not_orthogonal(
    new: list[float], direction: list[float]
) -> None:
    """Powell's restart: |g1.g0| >= 0.2 g1.g1; else beta = g1.(g1 - g0) / g0.g0, times the direction before."""
    optimizer = ConjugateGradient()
    state: Any = optimizer.start(np.zeros(2))
    state.direction, state.gradient_norm = np.array([-0.5, 0.0]), 1.0
    optimizer._turn(state, *(Point(np.zeros(2), 0.0, 0.0, np.array(g)) for g in ([1.0, 0.0], new)), 1)
    np.testing.assert_allclose(state.direction, direction)


def test_the_update_of_fletcher_and_reeves_reaches_the_optimum() -> None:
    training = training_problem(3, n_sequences=40, templates=("LOWER", "TAG[-1..0]"), regularizer=L2(1.0))
    reports = run(ConjugateGradient(**TIGHT, update="FR"), training)[1]
    assert reports[-1].value == pytest.approx(newton_optimum(training.objective)[1], rel=1e-9)
    assert len(reports) < 150
