"""Single steps of batch methods: directions, histories, step lengths and line searches, as their papers have them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.optimizers.batch import Point
from spacy_crfseq.optimizers.lbfgs import OWLQN, History
from spacy_crfseq.optimizers.line_search import DECREASE, _Search, _Trial
from spacy_crfseq.papers.batch import DOWN, UP, ConjugateGradient, _adapt_steps
from spacy_crfseq.potentials.layout import DenseRows, Layout
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.types import Floats


def point(theta: list[float], gradient: list[float], value: float = 0.0) -> Point:
    return Point(np.array(theta), value, value, np.array(gradient))


class Quadratic:
    """Half the squared distance from a centre [D], with an L1 norm of strength `rho1`."""

    n_threads = 1
    approachable = False

    def __init__(self, centre: list[float], rho1: float = 0.0) -> None:
        self.centre, self.regularizer = np.array(centre), ElasticNet(rho1, 0.0)

    def value_and_grad(self, theta: Floats, out: Floats) -> tuple[float, float, Floats]:
        out[:] = theta - self.centre
        value = 0.5 * float(out @ out)
        return value + self.regularizer.value(theta), value, out


def test_a_pair_of_negative_curvature_is_not_remembered() -> None:
    """L-BFGS directions go downhill only as long as s.y is positive (Nocedal & Wright 2006, section 7.2)."""
    history = History.empty(np.zeros(2), 3, 3, 1.0)
    start, up, down = point([0, 0], [1, 0]), point([1, 0], [2, 0]), point([1, 0], [0.5, 0])
    history.begin(start.gradient, 1)
    history.remember(start, down, down.gradient, 1)
    assert (history.used, history.slot) == (0, 0)
    history.remember(start, up, up.gradient, 1)
    assert (history.used, history.slot) == (1, 1)
    history.remember(start, point([1e-9, 0], [1, 1]), np.ones(2), 1)  # a tiny one counts as none
    assert (history.used, history.slot) == (1, 1)


def test_with_corners_only_descent_directions_move() -> None:
    """Andrew & Gao (2007): the direction is set to zero where its sign is that of the pseudo-gradient."""
    objective, optimizer = Quadratic([3.0, 3.0, 0.0], 0.1), OWLQN()
    state = optimizer.start(np.array([1.0, 1.0, 1.0]))
    theta = state.theta
    value, loss, gradient = objective.value_and_grad(theta, np.empty(3))
    state.begin(Point(theta, value, loss, gradient))
    pseudo = gradient + 0.1

    def direction(out: Floats, n_threads: int) -> float:
        out[:] = [1.0, -0.5, -0.5]  # the second goes uphill
        return float(out @ pseudo)

    state.history = SimpleNamespace(direction=direction, gradient=pseudo, used=1, gradient_norm=1.0)  # type: ignore[assignment]
    found, _ = optimizer._search(objective, state, np.empty(3))  # type: ignore[arg-type]
    assert found is not None
    assert found.theta[1] == 1.0
    assert found.theta[0] > 1.0 > found.theta[2]


@pytest.mark.parametrize(("new", "direction"), [([0.0, 1.0], [-0.5, -1.0]), ([1.0, 0.2], [-1.0, -0.2])])
def test_conjugate_gradients_restart_where_gradients_are_not_orthogonal(
    new: list[float], direction: list[float]
) -> None:
    """Powell's restart: |g1.g0| >= 0.2 g1.g1; else beta = g1.(g1 - g0) / g0.g0, times the direction before."""
    optimizer = ConjugateGradient()
    state: Any = optimizer.start(np.zeros(2))
    state.direction, state.gradient_norm = np.array([-0.5, 0.0]), 1.0
    optimizer._turn(state, point([0, 0], [1.0, 0.0]), point([0, 0], new), 1)
    np.testing.assert_allclose(state.direction, direction)


def test_steps_of_rprop_rest_once_after_a_change_of_sign() -> None:
    signs, steps = np.array([1.0, 1.0, 0.0]), np.full(3, 0.1)
    _adapt_steps(np.array([2.0, -2.0, -2.0]), signs, steps)
    assert signs.tolist() == [1.0, 0.0, -1.0]
    assert steps.tolist() == pytest.approx([0.1 * UP, 0.1 * DOWN, 0.1])
    _adapt_steps(np.array([2.0, -2.0, -2.0]), signs, steps)
    assert signs.tolist() == [1.0, -1.0, -1.0]
    assert steps.tolist() == pytest.approx([0.1 * UP**2, 0.1 * DOWN, 0.1 * UP])


def test_a_layout_united_with_another_has_the_steps_of_both() -> None:
    rows = DenseRows(2, 2)
    one, other = np.array([[True, False], [False, False]]), np.array([[False, True], [False, False]])
    layouts = [Layout(2, rows, rows, steps, True) for steps in (one, other, None)]
    found = layouts[0].united(layouts[1])
    assert found.steps is not None
    assert found.steps.tolist() == [[True, True], [False, False]]
    assert layouts[0].united(layouts[2]).steps is None
    assert layouts[2].united(layouts[0]).steps is None


def test_a_decrease_is_in_proportion_to_the_step() -> None:
    """Armijo's condition; where values are too close to compare, the slope decides."""
    search = _Search.__new__(_Search)
    search.origin, search.noise = _Trial(0.0, -1.0, point([0], [0], 10.0)), 1e-9
    limit = 10.0 - DECREASE * 2.0
    assert search.decreases(_Trial(2.0, 0.5, point([0], [0], limit - 1e-12)))
    assert not search.decreases(_Trial(2.0, 1.0, point([0], [0], limit + 1e-6)))
    assert search.decreases(_Trial(1e-9, -1.0, point([0], [0], 10.0 + 1e-10)))
    assert not search.decreases(_Trial(1e-9, 1.0, point([0], [0], 10.0 + 1e-10)))
    assert not search.decreases(_Trial(1e-9, -1.0, point([0], [0], 10.0 + 1e-8)))
