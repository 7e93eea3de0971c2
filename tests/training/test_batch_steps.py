"""Single steps of batch methods: directions, histories, step lengths and line searches, as their papers have them."""

import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.batch import OPTIMUM, Point
from spacy_crfseq.optimizers.lbfgs import DECREASE, LBFGS, MAX_EVALUATIONS, OWLQN, History, _Search, _Trial, search
from spacy_crfseq.papers.batch import ConjugateGradient
from spacy_crfseq.papers.local import LocalViterbi
from spacy_crfseq.potentials.layout import DenseRows, Layout
from spacy_crfseq.registry import losses, optimizers, regularizers
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.compatibility import check_candidates, check_plugins, is_local, provided
from spacy_crfseq.types import Floats
from tests.problems import REQUIRED


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


# --- pairs of plug-ins that cannot work are refused, and the pair that the message recommends is not ----------------


def named(registry: Any, name: str) -> Any:
    return registry.get(name)(**REQUIRED.get(name, {}))


def check(loss: Any, regularizer: Any, optimizer: Any) -> None:
    decoder = LocalViterbi() if is_local(loss) else Viterbi()
    check_plugins("crf", loss=loss, regularizer=regularizer, optimizer=optimizer, decoder=decoder)


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_the_recommended_loss_is_accepted(name: str) -> None:
    optimizer = named(optimizers, name)
    for loss_name in sorted(losses.get_all()):
        try:
            check(named(losses, loss_name), NoRegularizer(), optimizer)
        except ConfigError as error:
            ((one, other),) = re.findall(r"A pair that works: \w+ with (\S+); or \w+ with (\S+)\.$", str(error))
            check(named(losses, one), NoRegularizer(), optimizer)
            check(named(losses, loss_name), NoRegularizer(), named(optimizers, other))


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_the_recommended_penalty_and_optimizer_are_accepted(name: str) -> None:
    optimizer = named(optimizers, name)
    loss = next(loss for key in sorted(losses.get_all()) if fits(loss := named(losses, key), optimizer))
    for penalty_name in sorted(regularizers.get_all()):
        penalty = named(regularizers, penalty_name)
        try:
            check(loss, penalty, optimizer)
        except ConfigError as error:
            ((one, other),) = re.findall(r"A pair that works: \w+ with (\S+); or \w+ with (\S+)\.$", str(error))
            check(loss, named(regularizers, one), optimizer)
            check(SequentialLog(), penalty, named(optimizers, other))


def fits(loss: Any, optimizer: Any) -> bool:
    return bool(optimizer.requires <= provided(loss))


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_candidate_sets_are_refused_where_they_cannot_be_learnt_from(name: str) -> None:
    """By losses that are not defined for them, and by methods that compute likelihoods themselves."""
    optimizer = named(optimizers, name)
    for loss_name in sorted(losses.get_all()):
        loss = named(losses, loss_name)
        if not fits(loss, optimizer):
            continue
        try:
            check_candidates("crf", loss, optimizer)
        except ConfigError as error:
            part, one, other = re.search(r"but the (\w+ \w+) learns only.*: (\S+) with (\S+)\.$", str(error)).groups()
            assert part in (f"loss {type(loss).__name__}", f"optimizer {type(optimizer).__name__}")
            check_candidates("crf", named(losses, one), named(optimizers, other))
        else:
            assert "candidates" in provided(loss)
            assert not {"likelihood", "log_likelihood"} & optimizer.requires


@dataclass(frozen=True)
class Strange(LBFGS):
    @property
    def penalties(self) -> frozenset[str]:
        return frozenset({"l3"})


def test_an_optimizer_of_unknown_penalties_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Strange can minimise the penalties \['l3'\], none of which is known.*l2"):
        check(SequentialLog(), L2(), Strange())


# --- the steps of L-BFGS and OWL-QN ---------------------------------------------------------------------------------


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
        found, step, count = search(objective, state, -gradient, slope, 3.0, 0.1)  # type: ignore[arg-type]
        assert found is not None
        assert found.value <= value + DECREASE * step * slope
        assert abs(found.gradient @ gradient) <= -0.1 * slope
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
    found, count = optimizer._search(objective, state, np.empty(1))  # type: ignore[arg-type]
    assert found is not None
    assert found.theta[0] == pytest.approx(3.0, abs=1e-3)
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
