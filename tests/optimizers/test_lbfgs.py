"""Directions, histories and line searches of L-BFGS and OWL-QN, as their papers have them."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.optimizers.batch import OPTIMUM, Point
from spacy_crfseq.optimizers.lbfgs import DECREASE, LBFGS, MAX_EVALUATIONS, OWLQN, History, _Search, _Trial, search
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.types import Floats


def point(theta: list[float], gradient: list[float], value: float = 0.0) -> Point:
    return Point(np.array(theta, float), value, value, np.array(gradient, float))


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


def test_a_full_history_loses_the_pair_that_a_refused_one_overwrites() -> None:
    history = History.empty(np.zeros(2), 2, 2, 1.0)
    start = point([0, 0], [1, 0])
    history.begin(start.gradient, 1)
    for scale in (1.0, 2.0):
        up = point([scale, 0], [1 + scale, 0])
        history.remember(start, up, up.gradient, 1)
    assert (history.used, history.slot) == (2, 0)
    down = point([1, 0], [0.5, 0])
    history.remember(start, down, down.gradient, 1)
    assert (history.used, history.slot) == (1, 0)
    out = np.empty(2)
    assert history.direction(out, 1) < 0
    np.testing.assert_allclose(out, [-0.5, 0])  # the curvature of the pair that is left is 1


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
    result, _ = optimizer._search(objective, state, np.empty(3))  # type: ignore[arg-type]
    assert result is not None
    assert result.theta[1] == 1.0
    assert result.theta[0] > 1.0 > result.theta[2]


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


class Waves:
    """A smooth function of one variable with several minima, less flat than its line searches ask for."""

    n_threads = 1
    regularizer = ElasticNet(0.0, 0.0)

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.heights, self.lengths, self.shifts = rng.uniform(0.2, 2, 3), rng.uniform(0.5, 4, 3), rng.uniform(0, 6, 3)

    def value_and_grad(self, theta: Floats, out: Floats) -> tuple[float, float, Floats]:
        x = theta[0] * self.lengths + self.shifts
        out[0] = theta[0] / 5 + self.heights @ (self.lengths * np.cos(x))
        value = float(theta[0] ** 2 / 10 + self.heights @ np.sin(x))
        return value, value, out


def test_a_line_search_ends_where_the_strong_wolfe_conditions_hold() -> None:
    """Nocedal & Wright (2006), eq. 3.7, whatever the bracket looks like on the way."""
    for seed in range(300):
        objective, theta = Waves(seed), np.array([2.0])
        state = LBFGS().start(theta)
        value, loss, gradient = objective.value_and_grad(theta, np.empty(1))
        state.begin(Point(state.theta, value, loss, gradient))
        slope = -float(gradient @ gradient)
        result, step, count = search(objective, state, -gradient, slope, 3.0, 0.1)  # type: ignore[arg-type]
        assert result is not None
        assert result.value <= value + DECREASE * step * slope
        assert abs(result.gradient @ gradient) <= -0.1 * slope
        assert count < MAX_EVALUATIONS


@pytest.mark.parametrize("rho1", [0.0, 1e-9])
def test_a_step_of_owlqn_that_only_keeps_the_value_is_shortened(rho1: float) -> None:
    """To the other side of the minimum: the decrease is not in proportion to the step."""
    objective, optimizer = Quadratic([3.0], rho1), OWLQN()
    state = optimizer.start(np.array([1.0]))
    value, loss, gradient = objective.value_and_grad(state.theta, np.empty(1))
    state.begin(Point(state.theta, value, loss, gradient))

    def direction(out: Floats, n_threads: int) -> float:
        out[:] = 4.0 - 1e-4
        return float(out @ gradient)

    state.history = SimpleNamespace(direction=direction, gradient=gradient, used=1, gradient_norm=1.0)  # type: ignore[assignment]
    result, count = optimizer._search(objective, state, np.empty(1))  # type: ignore[arg-type]
    assert result is not None
    assert result.theta[0] == pytest.approx(3.0, abs=1e-3)
    assert count == 2


@dataclass(frozen=True)
class Lost(LBFGS):
    """Finds no better point."""

    def _search(self, objective: Any, state: Any, out: Floats) -> tuple[Point | None, int]:
        return None, 1


def test_without_a_better_point_the_history_is_forgotten_and_then_training_ends() -> None:
    objective, optimizer = Quadratic([3.0, 1.0]), Lost()
    state = optimizer.start(np.zeros(2))
    state.history.used = state.history.slot = 3
    assert not optimizer.iterate(objective, state).converged  # type: ignore[arg-type]
    assert (state.history.used, state.history.slot) == (0, 0)
    assert optimizer.iterate(objective, state).message == OPTIMUM  # type: ignore[arg-type]
