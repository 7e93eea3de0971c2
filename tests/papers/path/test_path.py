"""Regularization paths: warm starts reach the same minima, sizes are counted, and the choice is as described."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.optimizers.lbfgs import OWLQN
from spacy_crfseq.papers.batch import FISTA
from spacy_crfseq.papers.path import PathStep, choose, follow, has_passed_its_best, schedule, sparse_start
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
    training, theta, strengths = problem(), np.zeros(problem().layout.size), schedule(4.0, 0.5, 4)
    path = follow(training.objective, optimizer, strengths, theta, density, rho2=0.1)
    steps, thetas = zip(*((step, found.copy()) for step, found in path), strict=True)
    assert not theta.any()
    assert [step.rho1 for step in steps] == pytest.approx([4, 2, 1, 0.5])
    for step in steps:
        ((alone, _),) = follow(training.objective, OWLQN(**TIGHT), [step.rho1], theta, density, rho2=0.1)
        assert step.objective == pytest.approx(alone.objective, rel=1e-7)
        assert (step.unigrams, step.pairs, step.score) == (alone.unigrams, alone.pairs, alone.score)
    last = training.objective.under(ElasticNet(0.5, 0.1))
    assert last.value(thetas[3]) == pytest.approx(steps[3].objective)
    views = training.layout.views(thetas[3])
    pairs = np.count_nonzero(views.transitions) + np.count_nonzero(views.bigrams)
    assert steps[3].pairs == pairs
    assert steps[3].active == np.count_nonzero(thetas[3])
    assert 0 < pairs < steps[3].active


def test_the_path_begins_where_few_weights_are_active() -> None:
    training = training_problem(6, n_sequences=60, n_labels=6)
    theta = np.zeros(training.layout.size)
    first = sparse_start(training.objective, OWLQN(**TIGHT), theta, rho2=0.1)
    ((step, _),) = follow(training.objective, OWLQN(**TIGHT), [first], theta, density, rho2=0.1)
    assert 0 < step.active < 0.1 * len(theta)


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
