"""SGD and AdaGrad with an L1 norm: against plain implementations of the papers, and near the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from spacy_crfseq.optimizers import adagrad
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.sgd import EPOCH_DECAY, SGD
from spacy_crfseq.types import Floats, RowBlock, RowGradient, Strengths
from tests.problems import PAIR_TEMPLATES, Training, training_problem

CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "pairs": {"pair_templates": PAIR_TEMPLATES},
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


class Elastic(NamedTuple):
    """An elastic net of given strengths."""

    l1: float
    l2: float
    smooth: bool = False

    @property
    def strengths(self) -> Strengths:
        return Strengths(self.l1, self.l2)

    def over(self, blocks: Sequence[RowBlock]) -> Elastic:
        return self

    def value(self, weights: Floats) -> float:
        return float(self.l1 * np.abs(weights).sum() + self.l2 / 2 * (weights @ weights))

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        grad += self.l2 * weights

    def prox(self, weights: Floats, step: float) -> None:
        weights[:] = np.sign(weights) * np.maximum(np.abs(weights) - step * self.l1, 0)


def places(block: RowBlock, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the weights of a row lie in theta, and their columns."""
    if not len(block.ptr):
        columns = np.arange(block.width)
        return block.begin + row * block.width + columns, columns
    here = np.arange(block.ptr[row], block.ptr[row + 1])
    return block.begin + here, block.cols[here]


def visits(training: Training, gradient: RowGradient) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return row, places and gradient of each visit, in the order of positions."""
    block = training.objective.blocks[gradient.block]
    out = []
    for t, d in enumerate(gradient.d):
        for row in gradient.ids[gradient.ptr[t] : gradient.ptr[t + 1]]:
            where, columns = places(block, int(row))
            out.append((block.first + int(row), where, d[columns]))
    return out


def pay(theta: Floats, paid: Floats, debt: float, where: np.ndarray) -> None:
    """Apply the cumulative penalty as figure 2 of Tsuruoka et al. (2009) does."""
    for i in where:
        z = theta[i]
        if z > 0:
            theta[i] = max(0, z - (debt + paid[i]))
        elif z < 0:
            theta[i] = min(0, z + (debt - paid[i]))
        paid[i] += theta[i] - z


@EVERY_CASE
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_sgd_equals_cumulative_penalties_on_plain_weights(case: str, l2: float) -> None:
    penalty, rate, size, epochs = Elastic(0.8, l2), 0.2, 2, 3
    training = training_problem(3, n_sequences=9, regularizer=penalty, **CASES[case])
    start = training.random_theta(np.random.default_rng(1))
    optimizer, found = SGD(size, rate, seed=5), np.empty_like(start)
    state = optimizer.start(start)
    theta, paid, debt, seen, rng, n = start.copy(), np.zeros_like(start), 0.0, 0, np.random.default_rng(5), 9
    for _ in range(epochs):
        optimizer.iterate(training.objective, state)
        for batch in training.objective.minibatches(size, rng):
            step = rate * EPOCH_DECAY ** (seen / n)
            theta *= 1 - step * l2 / n * batch.n_sequences
            touched = [visit for g in batch.loss_and_grad(theta)[1] for visit in visits(training, g)]
            for _, where, d in touched:
                theta[where] -= step * d
            debt += step * penalty.l1 / n * batch.n_sequences
            for _, where, _ in touched:
                pay(theta, paid, debt, where)
            seen += batch.n_sequences
        pay(theta, paid, debt, np.arange(len(theta)))
    optimizer.export(state, found)
    np.testing.assert_allclose(found, theta, rtol=1e-8, atol=1e-10)
    assert 0 < (found == 0).sum() < len(found)


@EVERY_CASE
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_adagrad_equals_composite_steps_on_plain_weights(case: str, l2: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adagrad, "LEAST", 0.0)
    rate, size, epochs, n = 0.3, 2, 3, 9
    training = training_problem(3, n_sequences=n, regularizer=Elastic(0.8, l2), **CASES[case])
    start = training.random_theta(np.random.default_rng(1))
    optimizer, found = AdaGrad(rate, size, seed=5), np.empty_like(start)
    state = optimizer.start(start)
    theta, clock, rng = start.copy(), 0, np.random.default_rng(5)
    rows = [
        (block.first + row, places(block, row)[0]) for block in training.objective.blocks for row in range(block.n_rows)
    ]
    squares, last = np.zeros(len(rows)), np.zeros(len(rows))

    def proximal(row: int, where: np.ndarray) -> None:
        late = rate / np.sqrt(adagrad.OFFSET + squares[row]) * (clock - last[row])
        Elastic(0.8 / n, l2).prox(part := theta[where], late)
        theta[where], last[row] = part / (1 + late * l2 / n), clock

    for _ in range(epochs):
        optimizer.iterate(training.objective, state)
        for batch in training.objective.minibatches(size, rng):
            gradients = batch.loss_and_grad(theta)[1]
            clock += batch.n_sequences
            for gradient in gradients:
                for t, d in enumerate(gradient.d):
                    for row, where, part in visits(training, gradient._replace(ptr=gradient.ptr[t:], d=d[None])):
                        squares[row] += d @ d
                        theta[where] -= rate / np.sqrt(adagrad.OFFSET + squares[row]) * part
                        proximal(row, where)
        for row, where in rows:
            proximal(row, where)
    optimizer.export(state, found)
    np.testing.assert_allclose(found, theta, rtol=1e-8, atol=1e-10)
    assert 0 < (found == 0).sum() < len(found)


def optimum(training: Training) -> tuple[Floats, float]:
    """Return the minimum by proximal gradient steps on everything (Daubechies, Defrise & De Mol 2004)."""
    objective, theta, step = training.objective, np.zeros(training.layout.size), 0.01
    for _ in range(1500):
        theta = theta - step * objective.value_and_grad(theta)[2]
        objective.regularizer.prox(theta, step)
    return theta, objective.value(theta)


@pytest.mark.parametrize(
    ("optimizer", "distance", "zeros"), [(SGD(max_iterations=60, tolerance=0), 0.02, 0.85), (AdaGrad(), 0.05, 0.0)]
)
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_they_come_close_to_the_optimum_and_its_zeros(
    optimizer: SGD | AdaGrad, distance: float, zeros: float, l2: float
) -> None:
    """AdaGrad's steps leave weights of frequent attributes beside zero that are zero at the optimum."""
    training = training_problem(3, n_sequences=40, templates=("LOWER", "TAG[-1..0]"), regularizer=Elastic(1.0, l2))
    best, value = optimum(training)
    theta = np.zeros_like(best)
    state = optimizer.start(theta)
    while not optimizer.iterate(training.objective, state).converged:
        pass
    optimizer.export(state, theta)
    assert training.objective.value(theta) == pytest.approx(value, rel=distance)
    assert (theta == 0)[best == 0].mean() > zeros


@pytest.mark.parametrize("optimizer", [SGD(rate=0.1, max_iterations=2), AdaGrad(max_iterations=2)])
def test_weights_that_no_sequence_touches_go_to_zero(optimizer: SGD | AdaGrad) -> None:
    training = training_problem(3, n_sequences=9, support="all", regularizer=Elastic(300.0, 0.0))
    theta = np.full(training.layout.size, 0.01)
    state = optimizer.start(theta)
    for _ in range(2):
        optimizer.iterate(training.objective, state)
    optimizer.export(state, theta)
    assert not theta.any()
