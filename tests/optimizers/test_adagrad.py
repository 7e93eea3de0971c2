"""AdaGrad against a plain implementation of its paper, on one thread and several."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq import threads
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.kernels import lockstep
from spacy_crfseq.losses.softmax_margin import SoftmaxMargin
from spacy_crfseq.optimizers import adagrad
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.training import objective as terms
from spacy_crfseq.training.objective import Objective
from spacy_crfseq.types import Floats
from tests.contracts.test_optimizers import run
from tests.optimizers.plain import CASES, L1_CASES, places, shrunk, visits
from tests.problems import Training, training_problem

COSTS = SoftmaxMargin(1.5, {"b": 4.0}, {"c": 0.1}).bind(["a", "b", "c"], None)


LIKELIHOODS = CASES | {
    "margin": {"weighted": True, "missing": 0.2, "loss": SoftmaxMargin(1.5)},
    "costs by label": {"weighted": True, "missing": 0.2, "loss": COSTS},
}


class PlainAdaGrad:
    """The algorithm in numpy: every step shrinks what it visits and adds the whole theta to the average."""

    def __init__(self, training: Training, theta: Floats, rate: float) -> None:
        self.training, self.rate, blocks = training, rate, training.objective.blocks
        self.rows = [(block.first + row, places(block, row)[0]) for block in blocks for row in range(block.n_rows)]
        self.theta, self.sums, self.clock = theta.copy(), np.zeros_like(theta), 0
        self.squares, self.last = np.zeros(len(self.rows)), np.zeros(len(self.rows))

    def epoch(self, rng: np.random.Generator, size: int) -> None:
        objective = self.training.objective
        for batch in objective.minibatches(size, rng):
            before, self.clock = self.clock, self.clock + batch.n_sequences
            gradients = batch.loss_and_grad(self.theta)[1]
            self.sums += self.theta * (self.clock**4 - before**4)
            for row, where, d, columns in itertools.chain(*(visits(self.training, gradient) for gradient in gradients)):
                self.squares[row] += d @ d
                self.theta[where] -= self.step(row) * d[columns]
                self.proximal(row, where)
        if objective.regularizer.strengths.l1:
            for row, where in self.rows:
                self.proximal(row, where)

    def step(self, row: int) -> float:
        return self.rate / np.sqrt(adagrad.OFFSET + self.squares[row])

    def proximal(self, row: int, where: np.ndarray) -> None:
        l1, l2 = (
            strength / self.training.objective.n_total for strength in self.training.objective.regularizer.strengths
        )
        late, self.last[row] = self.step(row) * (self.clock - self.last[row]), self.clock
        self.theta[where] = shrunk(self.theta[where], late * l1) / (1 + late * l2)


def check_adagrad(training: Training, average: bool, *, size: int, rate: float, epochs: int) -> Floats:
    """Compare with the plain implementation; return the weights to predict with."""
    start = training.random_theta(np.random.default_rng(1))
    optimizer = AdaGrad(rate, size, average, seed=5)
    state, plain, rng = optimizer.start(start), PlainAdaGrad(training, start, rate), np.random.default_rng(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adagrad, "LEAST", 0.0)
        for _ in range(epochs):
            optimizer.iterate(training.objective, state)
            plain.epoch(rng, size)
    exported = optimizer.export(state)
    np.testing.assert_allclose(state.weights, plain.theta, rtol=1e-8, atol=1e-10)
    averaged = average and not training.objective.regularizer.strengths.l1
    expected = plain.sums / plain.clock**4 if averaged else plain.theta
    np.testing.assert_allclose(exported, expected, rtol=1e-8, atol=1e-10)
    return exported


@pytest.mark.parametrize("case", LIKELIHOODS)
@pytest.mark.parametrize("average", [True, False])
def test_adagrad_equals_a_plain_implementation(case: str, average: bool) -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.0, 0.7), **LIKELIHOODS[case])
    check_adagrad(training, average, size=2, rate=0.3, epochs=3)


@pytest.mark.parametrize("case", L1_CASES)
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_adagrad_equals_composite_steps_on_plain_weights(case: str, l2: float) -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.8, l2), **L1_CASES[case])
    result = check_adagrad(training, True, size=2, rate=0.3, epochs=3)
    assert 0 < (result == 0).sum() < len(result)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 100), st.integers(1, 5), st.integers(1, 20), st.floats(0.01, 2),
    st.sampled_from(["all", "observed"]), st.integers(1, 3),
)  # fmt: skip
def test_batches_rates_and_sizes(
    seed: int, n_labels: int, size: int, rate: float, support: str, n_threads: int
) -> None:
    training = training_problem(seed, n_sequences=7, n_labels=n_labels, support=support)
    training.objective.n_threads = n_threads
    check_adagrad(training, True, size=size, rate=rate, epochs=2)


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_the_last_weights_have_all_proximal_steps(l1: float) -> None:
    """Also of rows that no sequence visited lately."""
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(l1, 0.7))
    start = training.random_theta(np.random.default_rng(1))
    optimizer, plain = AdaGrad(0.3, 2, seed=5), PlainAdaGrad(training, start, 0.3)
    state = optimizer.start(start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adagrad, "LEAST", 0.0)
        optimizer.iterate(training.objective, state)
        plain.epoch(np.random.default_rng(5), 2)
    assert bool((plain.last < plain.clock).any()) != bool(l1)
    for row, where in plain.rows:
        plain.proximal(row, where)
    np.testing.assert_allclose(optimizer.last(state, training.objective), plain.theta, rtol=1e-8, atol=1e-10)


def test_a_run_that_begins_again_owes_no_proximal_steps_of_the_time_before() -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.0, 0.7))
    optimizer = AdaGrad(0.3, 2, seed=5, runs=2)
    state = optimizer.start(training.random_theta(np.random.default_rng(1)))
    optimizer.iterate(training.objective, state)
    weights = state.weights.copy()
    again = optimizer.again(state, weights, 9.0)
    for run_ in (again, *again.others):
        np.testing.assert_array_equal(optimizer.last(run_, training.objective), weights)


def test_small_weights_are_trained_and_predict_as_zeros() -> None:
    training, result = training_problem(3, support="auto"), []
    for least in (0.0, 0.05):
        optimizer = AdaGrad(runs=2, seed=5, min_weight=least)
        state = optimizer.start(training.random_theta(np.random.default_rng(1)))
        for _ in range(2):
            optimizer.iterate(training.objective, state)
        result.append(optimizer.export(state))
    assert (result[1] == 0).sum() > (result[0] == 0).sum()
    np.testing.assert_array_equal(result[1], np.where(np.abs(result[0]) < 0.05, 0, result[0]))


def test_runs_are_averaged() -> None:
    training, method = training_problem(), AdaGrad(runs=3, seed=4)
    zeros = np.zeros(training.objective.potential.size)
    several, single = method.start(zeros), AdaGrad(seed=4).start(zeros)
    for _ in range(2):
        method.iterate(training.objective, several)
        AdaGrad(seed=4).iterate(training.objective, single)
    result = [method.export(state) for state in (single, *several.others, several)]
    np.testing.assert_allclose(result[-1], np.mean(result[:-1], axis=0), rtol=1e-12)
    assert len({theta.tobytes() for theta in result}) == 4
    with pytest.raises(ConfigError, match="runs at least 1"):
        AdaGrad(runs=0)


def test_it_stops_when_the_objective_has_settled() -> None:
    optimizer = AdaGrad()
    _, reports = run(optimizer, training_problem(3, n_sequences=40))
    falls = [(before.value - after.value) / after.value for before, after in itertools.pairwise(reports)]
    assert "fell by less than" in reports[-1].message
    assert falls[-1] < optimizer.tolerance
    assert all(fall >= optimizer.tolerance for fall in falls[:-1])


@pytest.mark.parametrize("case", LIKELIHOODS)
def test_threads_make_the_steps_of_one_thread(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(3, n_sequences=14, **LIKELIHOODS[case])
    start, results = training.random_theta(np.random.default_rng(1)), []
    workspace = lockstep.workspace
    for n_threads, cores, stop in ((1, 2, 0), (2, 1, 0), (2, 2, 0), (2, 2, 1)):

        def prepared(*arguments: Any, stop: int = stop) -> Any:
            work = workspace(*arguments)
            work.stop[:] = stop  # as if the threads had waited for a core during the first mini-batch
            return work

        monkeypatch.setattr(lockstep, "workspace", prepared)
        monkeypatch.setattr(threads, "available", lambda cores=cores: cores)
        monkeypatch.setattr(terms, "LOADED", 8)
        training.objective.n_threads, optimizer = n_threads, AdaGrad(seed=5)
        state = optimizer.start(start)
        reports = [optimizer.iterate(training.objective, state) for _ in range(2)]
        results.append((state.weights, [report.value for report in reports]))
    for weights, values in results[1:]:
        np.testing.assert_array_equal(weights, results[0][0])  # as many parts, whatever the cores
        assert values == results[0][1]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_stop_at_sequences_that_scaling_cannot_represent(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, results = training_problem(1, n_sequences=14, n_labels=3), []
    training.objective.n_threads = n_threads
    start = 400 * training.random_theta(np.random.default_rng(1))
    for _ in range(2):
        optimizer = AdaGrad(seed=5)
        state = optimizer.start(start)
        results.append((optimizer.iterate(training.objective, state).value, state.weights))
        monkeypatch.setattr(Objective, "chains", lambda *_: None)  # the mini-batches of other models
    assert results[0][0] == pytest.approx(results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-9, atol=1e-9)
