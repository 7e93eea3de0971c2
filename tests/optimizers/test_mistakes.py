"""Perceptron, passive-aggressive and AROW against plain implementations: dense gradients, averages of all weights."""

from collections.abc import Callable

import numpy as np
import pytest

from spacy_crfseq.kernels import paths
from spacy_crfseq.losses.hinge import Hinge
from spacy_crfseq.losses.perceptron import Perceptron
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.mistakes import AROW, AveragedPerceptron, PassiveAggressive
from spacy_crfseq.optimizers.sgd import SGD
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import MiniBatch, Objective, Term
from spacy_crfseq.types import Floats, Loss, Optimizer, RowGradient
from tests.contracts.test_optimizers import run
from tests.optimizers.plain import CASES, dense
from tests.problems import plain_scores, training_problem

EVERY_CASE = pytest.mark.parametrize("case", CASES)


Step = Callable[[Floats, float], Floats]


def check(optimizer: Optimizer, loss: Loss, case: str, step: Step, average: bool = True) -> None:
    training = training_problem(3, n_sequences=12, loss=loss, regularizer=NoRegularizer(), **CASES[case])
    objective, theta = training.objective, training.random_theta(np.random.default_rng(1))
    means = []
    state, rng = optimizer.start(theta), np.random.default_rng(5)
    for _ in range(3):
        optimizer.iterate(objective, state)
        for batch in objective.minibatches(1, rng):
            value, gradients = batch.loss_and_grad(theta)
            theta = theta + step(dense(training, gradients), value)
            means.append(theta)
    exported = optimizer.export(state)
    np.testing.assert_allclose(state.weights, theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(exported, np.mean(means, axis=0) if average else theta, rtol=1e-8, atol=1e-10)


@EVERY_CASE
@pytest.mark.parametrize("loss", [Perceptron(), Hinge()])
def test_averaged_perceptron(case: str, loss: Loss) -> None:
    check(AveragedPerceptron(seed=5), loss, case, lambda gradient, value: -gradient)


LENGTHS: dict[str, Callable[[float, float], float]] = {
    "PA": lambda value, square: value / square,
    "PA-I": lambda value, square: min(0.07, value / square),
    "PA-II": lambda value, square: value / (square + 1 / 0.14),
}


@EVERY_CASE
@pytest.mark.parametrize("variant", LENGTHS)
@pytest.mark.parametrize("average", [True, False])
def test_passive_aggressive(case: str, variant: str, average: bool) -> None:
    def step(gradient: Floats, value: float) -> Floats:
        square = gradient @ gradient
        return -LENGTHS[variant](value, square) * gradient if square > 0 else 0 * gradient

    check(PassiveAggressive(variant, 0.07, average, seed=5), Hinge(), case, step, average)


def test_a_passive_aggressive_step_corrects_its_sequence() -> None:
    training = training_problem(3, n_sequences=1, n_labels=3, loss=Hinge(), regularizer=NoRegularizer())
    data = training.objective.data.take(np.array([0]))
    objective = Objective(Linear(training.layout), [Term(data, Hinge())], NoRegularizer())
    optimizer, theta = PassiveAggressive("PA"), np.zeros(training.layout.size)
    state = optimizer.start(theta)
    assert objective.batch.n_tokens
    (batch,) = objective.minibatches(1, None)
    value, gradients = batch.loss_and_grad(theta)
    gradient = dense(training, gradients)
    optimizer.iterate(objective, state)
    assert (state.weights - theta) @ gradient == pytest.approx(-value)


@EVERY_CASE
@pytest.mark.parametrize("average", [True, False])
def test_arow(case: str, average: bool) -> None:
    variances = np.full(1, 2.0)

    def step(gradient: Floats, value: float) -> Floats:
        nonlocal variances
        variances = np.broadcast_to(variances, gradient.shape)
        beta = 1 / (gradient @ (variances * gradient) + 3.0)
        change = -value * beta * variances * gradient
        if value > 0:
            variances = variances - beta * (variances * gradient) ** 2
        return change

    check(AROW(2.0, 3.0, average, seed=5), Hinge(), case, step, average)


@pytest.mark.parametrize("optimizer", [AveragedPerceptron(), PassiveAggressive(), AROW(regularization=0.01)])
def test_they_stop_where_the_loss_has_settled_or_nothing_is_wrong(optimizer: Optimizer) -> None:
    noisy = training_problem(3, n_sequences=60, templates=("SUFFIX2",), loss=Hinge(), regularizer=NoRegularizer())
    _, reports = run(optimizer, noisy)
    assert len(reports) <= optimizer.max_iterations
    assert "the loss fell by less than" in reports[-1].message
    two = Objective(Linear(noisy.layout), [Term(noisy.objective.data.slice(0, 2), Hinge())], NoRegularizer())
    _, reports = run(optimizer, noisy._replace(objective=two))
    assert reports[-1].message == "nothing is wrong any more"
    assert reports[-1].loss == 0


@pytest.mark.parametrize("optimizer", [SGD(), AdaGrad()])
def test_gradient_steps_on_the_perceptron_loss_halve_the_wrong_labels(optimizer: Optimizer) -> None:
    """The perceptron's loss is zero at zero weights, so what falls is the number of wrong labels."""
    training = training_problem(3, n_sequences=40, loss=Perceptron(), regularizer=NoRegularizer())
    theta = np.zeros(training.layout.size)
    state, wrong = optimizer.start(theta), []
    for _ in range(2):
        data = training.objective.data
        labels, best = np.empty(len(data.gold), np.int32), np.empty(data.n_sequences)
        scores = plain_scores(training.layout, theta, data.encoded)
        paths.best_paths((*scores,), data.encoded.offsets, labels, best)
        wrong.append((labels != data.gold).mean())
        for _ in range(8):
            optimizer.iterate(training.objective, state)
        theta = optimizer.export(state)
    assert wrong[1] < 0.5 * wrong[0]


@pytest.mark.parametrize("optimizer", [AveragedPerceptron(), PassiveAggressive(), AROW()])
def test_an_interrupt_within_an_epoch_leaves_an_average_of_what_was_seen(
    optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = training_problem(3, n_sequences=20, loss=Hinge(), regularizer=NoRegularizer())
    loss_and_grad, seen = MiniBatch.loss_and_grad, list[Floats]()

    def interrupted(batch: MiniBatch, theta: Floats, scale: float = 1.0) -> tuple[float, list[RowGradient]]:
        if len(seen) == 33:
            raise KeyboardInterrupt
        seen.append(theta.copy())
        return loss_and_grad(batch, theta, scale)

    monkeypatch.setattr(MiniBatch, "loss_and_grad", interrupted)
    start = np.zeros(training.layout.size)
    result = fit(training.objective, optimizer, start)
    state = optimizer.start(start)
    seen.clear()
    optimizer.iterate(training.objective, state)
    with pytest.raises(KeyboardInterrupt):
        optimizer.iterate(training.objective, state)
    after_each = np.array([*seen[1:], state.weights])
    assert result.reason == "interrupted"
    np.testing.assert_allclose(result.best, after_each.mean(0), atol=1e-9)
