"""The contract of every registered optimizer; a new one is tested by being registered."""

import itertools
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np
import pytest
import srsly

from spacy_crfseq import registry
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.compatibility import provided
from spacy_crfseq.training.fit import fit
from spacy_crfseq.types import Floats, Optimizer, Resumable, StepReport
from tests.problems import Training, made_losses, newton_optimum, training_problem

TIGHT = {"tolerance": 1e-13, "gradient_tolerance": 1e-8, "max_iterations": 500}
"""Settings, where an optimizer has them, that let it run until it can do no better."""


def make(name: str, **settings: Any) -> Optimizer:
    """Return a registered optimizer with those of `settings` that it has; boosting's searches take long."""
    constructor = registry.optimizers.get(name)
    parameters = signature(constructor).parameters
    return constructor(**{key: value for key, value in ({"rounds": 10} | settings).items() if key in parameters})


def minimising(penalties: set[str], *, online: bool) -> list[str]:
    """Return the optimizers that minimise the log-loss with one of these kinds of penalty."""
    optimizers = {name: make(name) for name in registry.optimizers.get_all()}
    return [
        name
        for name, optimizer in optimizers.items()
        if optimizer.online == online
        and optimizer.requires <= SequentialLog().provides
        and optimizer.penalties & penalties
    ]


EVERY_OPTIMIZER = pytest.mark.parametrize("name", list(registry.optimizers.get_all()))
FREE = [name for name in registry.optimizers.get_all() if "joint" not in make(name).requires]
EVERY_MINIMISER = pytest.mark.parametrize("name", FREE)
"""Those whose parameters are no probabilities, see tests/papers/generative/test_generative.py for the others."""
EXACT, ONLINE = (minimising({"l2", "elastic", "smooth", "prox"}, online=online) for online in (False, True))


def declared(name: str) -> dict[str, Any]:
    """Return a loss and a regularizer that it says it can minimise: SequentialLog and L2 where it can."""
    optimizer = make(name)
    losses = [SequentialLog(), *(loss for _, loss in sorted(made_losses().items()))]  # Hinge before Perceptron
    loss = next(loss for loss in losses if optimizer.requires <= provided(loss))
    regularizer = L2(1.0) if optimizer.penalties != {"none"} else NoRegularizer()
    return {"loss": loss, "regularizer": regularizer, "support": "observed" if name in FREE else "all"}


@lru_cache(maxsize=100)
def problem_for(name: str) -> Training:
    """Return a problem of a kind that an optimizer says it can do."""
    return training_problem(3, n_sequences=24, templates=("LOWER", "TAG[-1..0]"), **declared(name))


@lru_cache(maxsize=2)
def problem(rho: float = 1.0) -> tuple[Training, float]:
    """Return a convex problem and the value of its minimum."""
    training = training_problem(3, n_sequences=24, templates=("LOWER", "TAG[-1..0]"), regularizer=L2(rho))
    return training, newton_optimum(training.objective)[1]


def taken_up_again(optimizer: Optimizer, training: Training, state: Any, theta: Floats) -> Any:
    """Return the state of a run as a new process has it, from a checkpoint."""
    stored, new = srsly.msgpack_dumps(state.to_state()), optimizer.start(theta)
    assert isinstance(new, Resumable)
    new.from_state(srsly.msgpack_loads(stored), training.objective.blocks)
    return new


def run(
    optimizer: Optimizer,
    training: Training,
    dtype: type = np.float64,
    start: Floats | None = None,
    stored_after: int | None = None,
) -> tuple[Floats, list[StepReport]]:
    """Iterate until convergence; return the parameters to predict with and the reports.

    start: Parameters to begin at, else zeros.
    stored_after: Number of iterations after which the run is stored and taken up again.
    """
    theta = np.zeros(training.layout.size, dtype) if start is None else start.copy()
    state, reports = optimizer.start(theta), []
    while not reports or not reports[-1].converged:
        if len(reports) == stored_after:
            state = taken_up_again(optimizer, training, state, theta)
        reports.append(optimizer.iterate(training.objective, state))
        assert len(reports) <= optimizer.max_iterations + 1
    return optimizer.export(state), reports


def assert_learnt_alone(training: Training, theta: Floats) -> None:
    """Check that parameters that are not learnt, transitions and boundaries, are zero."""
    views, steps = training.layout.views(theta), training.layout.steps
    assert not steps.all()
    assert not views.transitions[~steps].any()
    assert not views.start.any()
    assert not views.end.any()


def never_rises(reports: list[StepReport]) -> bool:
    return all(later.value <= earlier.value * (1 + 1e-9) for earlier, later in itertools.pairwise(reports))


@EVERY_MINIMISER
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_lowers_the_objective(name: str, dtype: type) -> None:
    training = problem_for(name)
    optimizer = make(name, max_iterations=30)
    result = fit(training.objective, optimizer, np.zeros(training.layout.size, dtype))
    theta, reports = result.last, [progress.report for progress in result.history]
    assert theta.dtype == dtype
    assert training.objective.value(theta) < 0.8 * training.objective.value(np.zeros_like(theta))
    assert all(np.isfinite(report.value) and report.loss <= report.value for report in reports)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("rho", [0.1, 1.0])
def test_exact_ones_reach_the_optimum(name: str, rho: float) -> None:
    training, optimum = problem(rho)
    theta, reports = run(make(name, **TIGHT), training)
    value, loss, gradient = training.objective.value_and_grad(theta)
    assert value == pytest.approx(optimum, rel=1e-6)
    assert np.linalg.norm(gradient) < 1e-3 * max(1, np.linalg.norm(theta))
    assert (reports[-1].value, reports[-1].loss) == pytest.approx((value, loss))
    assert reports[-1].grad_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-6, abs=1e-12)
    assert never_rises(reports)


@pytest.mark.parametrize("name", ONLINE)
def test_online_ones_come_close_to_the_optimum(name: str) -> None:
    training, optimum = problem()
    theta, _ = run(make(name, **{**TIGHT, "max_iterations": 60}), training)
    assert training.objective.value(theta) == pytest.approx(optimum, rel=0.02)


@EVERY_OPTIMIZER
def test_runs_are_reproduced_bitwise_and_may_be_stored_in_between(name: str) -> None:
    training, optimizer = problem_for(name), make(name, max_iterations=6)
    (first, reports), (second, again) = (run(optimizer, training, stored_after=n) for n in (None, 3))
    assert first.tobytes() == second.tobytes()
    assert [report.value for report in reports] == [report.value for report in again]


@EVERY_OPTIMIZER
def test_starting_parameters_are_taken_up_and_left_alone(name: str) -> None:
    training = problem_for(name)
    theta = training.random_theta(np.random.default_rng(0))
    before = theta.copy()
    optimizer = make(name)
    state = optimizer.start(theta)
    np.testing.assert_array_equal(optimizer.export(state), before)
    optimizer.iterate(training.objective, state)
    np.testing.assert_array_equal(theta, before)


@EVERY_OPTIMIZER
@pytest.mark.parametrize("limit", [1, 3])
def test_the_number_of_iterations_is_bounded(name: str, limit: int) -> None:
    _, reports = run(make(name, tolerance=0.0, gradient_tolerance=0.0, max_iterations=limit), problem_for(name))
    assert reports[-1].converged
    if str(limit) not in reports[-1].message:  # it cannot improve: expectation-maximization takes few steps with labels
        assert reports[-1].value == pytest.approx(reports[-2].value, rel=1e-12)
        assert len(reports) < limit
    else:
        assert len(reports) == limit
    assert [report.message for report in reports[:-1]] == [""] * (len(reports) - 1)


@EVERY_OPTIMIZER
def test_iterations_after_convergence_change_nothing_unless_online(name: str) -> None:
    training = problem_for(name)
    optimizer = make(name, max_iterations=4)
    state = optimizer.start(np.zeros(training.layout.size))
    while not (last := optimizer.iterate(training.objective, state)).converged:
        pass
    theta = optimizer.export(state).copy()
    again = optimizer.iterate(training.objective, state)
    assert np.array_equal(optimizer.export(state), theta) != optimizer.online
    if not optimizer.online:
        assert (again.converged, again.message) == (True, last.message)
        assert again.value == pytest.approx(last.value, rel=1e-12)  # sums that were kept are computed anew


@EVERY_MINIMISER
def test_parameters_that_are_not_learnt_stay_zero(name: str) -> None:
    training = training_problem(4, n_sequences=8, n_labels=4, boundaries=False, **declared(name))
    theta, _ = run(make(name, max_iterations=3), training)
    assert_learnt_alone(training, theta)


@EVERY_MINIMISER
@pytest.mark.parametrize(
    "change",
    [
        {"boundaries": False},
        {"support": "all"},
        {"transitions": False},
        {"bigram_templates": ("TAG[0]",)},
        {"missing": 0.3},
        {"weighted": True},
        {"dictionary_size": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_kind_of_problem_is_refused(name: str, change: dict[str, Any]) -> None:
    training = training_problem(5, n_sequences=6, **{**declared(name), **change})
    optimizer = make(name, max_iterations=3)
    theta, reports = run(optimizer, training)
    value = training.objective.value(theta)
    assert value < training.objective.value(np.zeros_like(theta))
    assert optimizer.online or reports[-1].value == pytest.approx(value, rel=1e-9)


@EVERY_OPTIMIZER
def test_it_says_what_it_needs(name: str) -> None:
    optimizer = make(name)
    assert optimizer.requires
    assert set() < optimizer.penalties <= {"none", "l2", "elastic", "smooth", "prox"}
    assert isinstance(optimizer.online, bool)
    assert optimizer.max_iterations >= 1


@pytest.mark.parametrize("name", ["spacy_crfseq.LBFGS.v1", "spacy_crfseq.OWLQN.v1"])
def test_epochs_before_exact_training_lead_to_the_same_optimum(name: str) -> None:
    training, minimum = problem()
    plain, near = (make(name, epochs=epochs, **TIGHT) for epochs in (0, 3))
    reports = [run(optimizer, training)[1] for optimizer in (plain, near)]
    assert reports[1][0].value < reports[0][0].value
    assert [report[-1].value for report in reports] == pytest.approx([minimum] * 2, rel=1e-9)
    start = np.full(training.layout.size, 0.01)
    assert run(plain, training, start=start)[1] == run(near, training, start=start)[1]
