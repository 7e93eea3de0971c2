"""Regularization paths: warm starts reach the same minima, sizes are counted, and the choice is as described."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.optimizers.lbfgs import OWLQN
from spacy_crfseq.papers.batch.fista import FISTA
from spacy_crfseq.papers.path import path
from spacy_crfseq.papers.path.path import PathStep, choose, follow, has_passed_its_best, schedule, sparse_start
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.types import Floats, Optimizer
from tests.problems import Training, training_problem

TIGHT = {"tolerance": 1e-10, "gradient_tolerance": 1e-7}


def problem() -> Training:
    return training_problem(6, n_sequences=30, templates=("LOWER", "TAG[0]"), bigram_templates=("TAG[0]",))


def density(theta: Floats) -> float:
    """A score that likes large models."""
    return np.count_nonzero(theta) / len(theta)


@pytest.mark.parametrize("optimizer", [OWLQN(**TIGHT), FISTA(**TIGHT)], ids=["OWLQN", "FISTA"])
def test_every_model_is_the_minimum_for_its_strength(optimizer: Optimizer) -> None:
    training, seen = problem(), list[PathStep]()
    theta = np.zeros(training.layout.size)
    strengths = schedule(4.0, 0.5, 4)
    keep = lambda steps: seen.append(steps[-1])  # noqa: E731
    result = follow(training.objective, optimizer, strengths, theta, density, rho2=0.1, callback=keep)
    assert result is not None
    assert not theta.any()
    assert result.steps == seen
    assert [step.rho1 for step in result.steps] == pytest.approx([4, 2, 1, 0.5])
    for step in result.steps:
        alone = follow(training.objective, OWLQN(**TIGHT), [step.rho1], theta, density, rho2=0.1)
        assert alone is not None
        assert step.objective == pytest.approx(alone.steps[0].objective, rel=1e-7)
        assert (step.unigrams, step.pairs) == (alone.steps[0].unigrams, alone.steps[0].pairs)
    last = training.objective.under(ElasticNet(0.5, 0.1))
    assert result.chosen == 3
    assert last.value(result.theta) == pytest.approx(result.steps[3].objective)
    views = training.layout.views(result.theta)
    pairs = np.count_nonzero(views.transitions) + np.count_nonzero(views.bigrams)
    assert result.steps[3].pairs == pairs
    assert result.steps[3].active == np.count_nonzero(result.theta)
    assert 0 < pairs < result.steps[3].active


def test_the_path_begins_where_few_weights_are_active() -> None:
    training = training_problem(6, n_sequences=60, n_labels=6)
    theta = np.zeros(training.layout.size)
    first = sparse_start(training.objective, OWLQN(**TIGHT), theta, rho2=0.1)
    result = follow(training.objective, OWLQN(**TIGHT), [first], theta, density, rho2=0.1)
    assert result is not None
    assert 0 < result.steps[0].active < 0.1 * len(theta)


def test_the_start_of_a_path_counts_the_active_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 101 weights, 11 may be active; 5 are after the few iterations, so the 6 largest gradients join them."""
    gradient = np.arange(101) / 100
    objective: Any = SimpleNamespace(value_and_grad=lambda theta: (0.0, 0.0, gradient.copy()))
    objective.under = lambda penalty: objective
    monkeypatch.setattr(path, "SHARE", 0.1)
    monkeypatch.setattr(path, "_minimise", lambda objective, optimizer, theta, *others: np.put(theta, range(5), 1.0))
    assert sparse_start(objective, OWLQN(), np.zeros(101)) == 0.95


@pytest.mark.parametrize(
    ("scores", "passed"),
    [
        ([0.5, 0.6], False),
        ([0.5, 0.6, 0.7], False),
        ([0.5, 0.7, 0.6], False),
        ([0.7, 0.6, 0.65], True),
        ([0.7, 0.7005, 0.7008], True),
        ([0.7, 0.6, 0.702], False),
        ([0.0, 0.0, 0.0, 0.0], False),
    ],
)
def test_a_path_has_passed_its_best(scores: list[float], passed: bool) -> None:
    assert has_passed_its_best(steps_of([(i, score) for i, score in enumerate(scores)])) == passed


def test_a_path_ends_when_that_is_enough() -> None:
    training, theta = problem(), np.zeros(problem().layout.size)
    result = follow(training.objective, OWLQN(), [4.0, 2.0, 1.0], theta, density, enough=lambda steps: len(steps) == 2)
    assert result is not None
    assert [step.rho1 for step in result.steps] == [4.0, 2.0]
    assert not result.interrupted


def test_another_penalty_leaves_the_objective_as_it_is() -> None:
    training = problem()
    theta = training.random_theta(np.random.default_rng(0))
    before = training.objective.value(theta)
    other = training.objective.under(ElasticNet(3.0, 0.0))
    expected = before - training.objective.regularizer.value(theta) + 3 * abs(theta).sum()
    assert other.value(theta) == pytest.approx(expected)
    assert training.objective.value(theta) == before


def test_schedules() -> None:
    assert schedule(8, 1, 4) == pytest.approx([8, 4, 2, 1])
    assert schedule(8, 1, 1) == [8]
    assert schedule(8, 8, 3) == [8]
    for first, last, steps in ((1, 2, 3), (1, 0, 3), (float("nan"), 1, 3), (2, 1, 0)):
        with pytest.raises(ConfigError, match=r"path (needs|goes)"):
            schedule(first, last, steps)


def steps_of(rows: Sequence[tuple[int, float]]) -> list[PathStep]:
    return [PathStep(1.0, 1.0, 1.0, active, 0, score, 1, 0.0) for active, score in rows]


@pytest.mark.parametrize(
    ("within", "chosen"), [(0.0, 3), (0.005, 3), (0.01, 2), (0.05, 1), (1.0, 0)], ids=lambda value: str(value)
)
def test_the_smallest_model_near_the_best_is_chosen(within: float, chosen: int) -> None:
    assert choose(steps_of([(0, 0.0), (10, 0.90), (20, 0.93), (30, 0.94), (40, 0.94), (50, 0.92)]), within) == chosen


def test_an_interrupt_keeps_what_is_finished() -> None:
    training = problem()

    def stop(steps: Sequence[PathStep]) -> None:
        if len(steps) == 2:
            raise KeyboardInterrupt

    theta = np.zeros(training.layout.size)
    result = follow(training.objective, OWLQN(), [4.0, 2.0, 1.0], theta, density, callback=stop)
    assert result is not None
    assert result.interrupted
    assert [step.rho1 for step in result.steps] == [4.0, 2.0]

    def stop_at_once(_: object) -> None:
        raise KeyboardInterrupt

    assert follow(training.objective, OWLQN(), [4.0], theta, density, watch=stop_at_once) is None


def test_of_equal_sizes_the_better_score_is_chosen() -> None:
    steps = [PathStep(1.0, 0.0, 0.0, 4, 1, score, 1, 0.0) for score in (0.80, 0.82, 0.81)]
    assert choose(steps, within=0.05) == 1
