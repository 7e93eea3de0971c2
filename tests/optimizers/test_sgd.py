"""SGD against cumulative penalties on plain weights, its rates and means, and its optimum beside that of AdaGrad."""

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.sgd import EPOCH_DECAY, SGD
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.types import Floats
from tests.contracts.test_optimizers import run
from tests.optimizers.plain import L1_CASES, shrunk, visits
from tests.problems import Training, training_problem


def pay(theta: Floats, paid: Floats, debt: float, where: np.ndarray) -> None:
    """Apply the cumulative penalty as figure 2 of Tsuruoka et al. (2009) does."""
    for i in where:
        z = theta[i]
        if z > 0:
            theta[i] = max(0, z - (debt + paid[i]))
        elif z < 0:
            theta[i] = min(0, z + (debt - paid[i]))
        paid[i] += theta[i] - z


@pytest.mark.parametrize("case", L1_CASES)
@pytest.mark.parametrize(("l2", "schedule"), [(0.0, "penalty"), (0.5, "penalty"), (0.5, "epochs")])
def test_sgd_equals_cumulative_penalties_on_plain_weights(case: str, l2: float, schedule: str) -> None:
    l1, rate, size, epochs = 0.8, 0.2, 2, 3
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(l1, l2), **L1_CASES[case])
    start = training.random_theta(np.random.default_rng(1))
    optimizer = SGD(size, rate, seed=5, schedule=schedule)
    state = optimizer.start(start)
    theta, paid, debt, seen, rng, n = start.copy(), np.zeros_like(start), 0.0, 0, np.random.default_rng(5), 9
    for _ in range(epochs):
        optimizer.iterate(training.objective, state)
        for batch in training.objective.minibatches(size, rng):
            step = rate * EPOCH_DECAY ** (seen / n) if schedule == "penalty" else rate / (1 + seen / n)
            theta *= 1 - step * l2 / n * batch.n_sequences
            touched = [visit for g in batch.loss_and_grad(theta)[1] for visit in visits(training, g)]
            for _, where, d, columns in touched:
                theta[where] -= step * d[columns]
            debt += step * l1 / n * batch.n_sequences
            for _, where, *_ in touched:
                pay(theta, paid, debt, where)
            seen += batch.n_sequences
        pay(theta, paid, debt, np.arange(len(theta)))
    exported = optimizer.export(state)
    np.testing.assert_allclose(exported, theta, rtol=1e-8, atol=1e-10)
    assert 0 < (exported == 0).sum() < len(exported)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ConfigError, match='schedule must be "penalty" or "epochs", but \'days\' was given'):
        SGD(schedule="days")


def test_rates_and_means_of_sgd() -> None:
    sgd = SGD(average=True)
    state = sgd.start(np.zeros(3))
    state.rate, state.steps = 0.4, 200.0
    assert sgd._rate_at(state, 1.0, 0.0, 100) == pytest.approx(0.4 * EPOCH_DECAY**2)
    assert sgd._rate_at(state, 0.0, 2.0, 100) == pytest.approx(0.4 / (1 + 0.02 * 0.4 * 200) ** 0.75)
    assert SGD(average=False)._rate_at(state, 0.0, 2.0, 100) == pytest.approx(0.4 / (1 + 0.02 * 0.4 * 200))
    assert SGD(schedule="epochs")._rate_at(state, 1.0, 2.0, 100) == pytest.approx(0.4 / 3)
    state.steps = 100.0  # the first epoch is left out of the mean
    sgd._average(state, 10, 100)
    assert state.a_frac == 0
    state.steps = 110.0
    sgd._average(state, 10, 100)
    assert (state.a_div, state.a_frac) == (1.0, 1 / state.w_div)
    state.steps = 120.0
    sgd._average(state, 10, 100)
    assert state.a_frac / state.a_div == pytest.approx((0.5 + 0.5) / state.w_div)


def optimum(training: Training) -> tuple[Floats, float]:
    """Return the minimum by proximal gradient steps on everything (Daubechies, Defrise & De Mol 2004)."""
    objective, theta, step = training.objective, np.zeros(training.layout.size), 0.01
    for _ in range(1500):
        theta = shrunk(theta - step * objective.value_and_grad(theta)[2], step * objective.regularizer.strengths.l1)
    return theta, objective.value(theta)


@pytest.mark.parametrize(
    ("optimizer", "distance", "zeros"), [(SGD(max_iterations=60, tolerance=0), 0.02, 0.85), (AdaGrad(), 0.05, 0.0)]
)
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_they_come_close_to_the_optimum_and_its_zeros(
    optimizer: SGD | AdaGrad, distance: float, zeros: float, l2: float
) -> None:
    """AdaGrad's steps leave weights of frequent attributes beside zero that are zero at the optimum."""
    training = training_problem(3, n_sequences=40, templates=("LOWER", "TAG[-1..0]"), regularizer=ElasticNet(1.0, l2))
    best, value = optimum(training)
    theta, _ = run(optimizer, training)
    assert training.objective.value(theta) == pytest.approx(value, rel=distance)
    assert (theta == 0)[best == 0].mean() > zeros


@pytest.mark.parametrize("optimizer", [SGD(rate=0.1, max_iterations=2), AdaGrad(max_iterations=2)])
def test_weights_that_no_sequence_touches_go_to_zero(optimizer: SGD | AdaGrad) -> None:
    training = training_problem(3, n_sequences=9, support="all", regularizer=ElasticNet(300.0, 0.0))
    theta, _ = run(optimizer, training, start=np.full(training.layout.size, 0.01))
    assert not theta.any()
