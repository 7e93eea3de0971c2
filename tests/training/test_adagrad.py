"""AdaGrad by rows against a plain implementation: loops over positions and rows, an average of the whole theta."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.optimizers import adagrad
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.types import Floats, RowBlock, RowGradient
from tests.problems import PAIR_TEMPLATES, Training, training_problem

CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "no boundaries": {"boundaries": False},
    "no transitions": {"transitions": False, "pair_templates": PAIR_TEMPLATES},
    "pairs": {"pair_templates": PAIR_TEMPLATES},
    "dense pairs": {"pair_templates": PAIR_TEMPLATES, "support": "all"},
    "weights and missing labels": {"weighted": True, "missing": 0.2},
}


def entries(block: RowBlock, row: int) -> tuple[slice, Any]:
    """Return where a row lies in theta, and its columns."""
    if not len(block.ptr):
        return slice(block.begin + row * block.width, block.begin + (row + 1) * block.width), slice(None)
    first, last = block.ptr[row], block.ptr[row + 1]
    return slice(block.begin + first, block.begin + last), block.cols[first:last]


class Plain:
    """The algorithm in numpy: every step shrinks what it visits and adds the whole theta to the average."""

    def __init__(self, training: Training, theta: Floats, rate: float) -> None:
        self.objective, self.blocks, self.rate = training.objective, training.objective.blocks, rate
        self.theta, self.sums, self.clock = theta.copy(), np.zeros_like(theta), 0
        self.squares = [np.zeros(block.n_rows) for block in self.blocks]
        self.visits = [np.zeros(block.n_rows) for block in self.blocks]

    def epoch(self, rng: np.random.Generator, size: int) -> None:
        n, decay = self.objective.n_total, self.objective.regularizer.strengths.l2
        for batch in self.objective.minibatches(size, rng):
            before, self.clock = self.clock, self.clock + batch.n_sequences
            gradients = batch.loss_and_grad(self.theta)[1]
            self.sums += self.theta * (self.clock**4 - before**4)
            for gradient in gradients:
                self.step(gradient, decay / n)

    def step(self, gradient: RowGradient, decay: float) -> None:
        block, squares = self.blocks[gradient.block], self.squares[gradient.block]
        visits = self.visits[gradient.block]
        for t, d in enumerate(gradient.d):
            for row in gradient.ids[gradient.ptr[t] : gradient.ptr[t + 1]]:
                where, columns = entries(block, row)
                squares[row] += d @ d
                step = self.rate / np.sqrt(adagrad.OFFSET + squares[row])
                gap, visits[row] = self.clock - visits[row], self.clock
                self.theta[where] = (self.theta[where] - step * d[columns]) / (1 + step * decay * gap)


@pytest.fixture(autouse=True)
def all_gradients_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adagrad, "LEAST", 0.0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("average", [True, False])
def test_updates_equal_a_plain_implementation(case: str, average: bool) -> None:
    training = training_problem(3, n_sequences=9, regularizer=L2(0.7), **CASES[case])
    check(training, average, size=2, rate=0.3, epochs=3)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 100), st.integers(1, 5), st.integers(1, 12), st.floats(0.01, 2), st.sampled_from(["all", "observed"])
)
def test_batches_rates_and_sizes(seed: int, n_labels: int, size: int, rate: float, support: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adagrad, "LEAST", 0.0)
        training = training_problem(seed, n_sequences=7, n_labels=n_labels, support=support)
        check(training, True, size=size, rate=rate, epochs=2)


def check(training: Training, average: bool, *, size: int, rate: float, epochs: int) -> None:
    start = training.random_theta(np.random.default_rng(1))
    optimizer = AdaGrad(rate, size, average, seed=5)
    state, plain, rng = optimizer.start(start), Plain(training, start, rate), np.random.default_rng(5)
    for _ in range(epochs):
        optimizer.iterate(training.objective, state)
        plain.epoch(rng, size)
    found = np.empty_like(start)
    optimizer.export(state, found)
    np.testing.assert_allclose(state.weights, plain.theta, rtol=1e-8, atol=1e-10)
    expected = plain.sums / plain.clock**4 if average else plain.theta
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_short_gradients_are_used_in_proportion_to_their_length() -> None:
    from spacy_crfseq.kernels import updates

    n, least = 40_000, 0.05
    ptr, ids = np.arange(n + 1), np.arange(n, dtype=np.int32)
    lengths = np.random.default_rng(0).uniform(0, 2 * least, n)
    weights, seen = np.zeros(n), np.zeros((n, 2))
    empty = (np.zeros(0, np.int64), np.zeros(0, np.int32))
    updates.adagrad(
        ptr, ids, lengths[:, None], *empty, weights, np.zeros(0), seen, 1.0, 1.0, 1.0, 1.0, least, 0.0, 0.0
    )  # fmt: skip
    used = seen[:, 1] > 0
    gradients = -weights * np.sqrt(1 + seen[:, 0])
    assert used[lengths >= least].all()
    np.testing.assert_allclose(gradients[used], np.maximum(lengths, least)[used])
    for low in np.arange(0, least, least / 4):
        some = (lengths >= low) & (lengths < low + least / 4)
        assert gradients[some].mean() == pytest.approx(lengths[some].mean(), rel=0.1)


def test_it_stops_when_the_objective_has_settled() -> None:
    training = training_problem(3, n_sequences=40)
    optimizer = AdaGrad()
    state, values = optimizer.start(np.zeros(training.layout.size)), []
    while True:
        report = optimizer.iterate(training.objective, state)
        values.append(report.value)
        if report.converged:
            break
    falls = [(before - after) / after for before, after in itertools.pairwise(values)]
    assert "fell by less than" in report.message
    assert falls[-1] < optimizer.tolerance
    assert all(fall >= optimizer.tolerance for fall in falls[:-1])
