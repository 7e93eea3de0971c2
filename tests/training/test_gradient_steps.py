"""SGD and AdaGrad against plain implementations of the papers, and near the optimum."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq import threads
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.kernels import lockstep, paths
from spacy_crfseq.losses.hinge import Hinge
from spacy_crfseq.losses.perceptron import Perceptron
from spacy_crfseq.losses.softmax_margin import SoftmaxMargin
from spacy_crfseq.optimizers import adagrad
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.mistakes import AROW, AveragedPerceptron, PassiveAggressive
from spacy_crfseq.optimizers.sgd import EPOCH_DECAY, SGD
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training import objective as terms
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import MiniBatch, Objective, Term
from spacy_crfseq.types import Floats, Loss, Optimizer, RowBlock, RowGradient
from tests.contracts.test_optimizers import run
from tests.problems import BIGRAM_TEMPLATES, Training, plain_scores, training_problem

L1_CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "pairs": {"bigram_templates": BIGRAM_TEMPLATES},
}
CASES = L1_CASES | {
    "no boundaries": {"boundaries": False},
    "no transitions": {"transitions": False, "bigram_templates": BIGRAM_TEMPLATES},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all"},
    "weights and missing labels": {"weighted": True, "missing": 0.2},
}
COSTS = SoftmaxMargin(1.5, {"b": 4.0}, {"c": 0.1}).bind(["a", "b", "c"], None)
LIKELIHOODS = CASES | {
    "margin": {"weighted": True, "missing": 0.2, "loss": SoftmaxMargin(1.5)},
    "costs by label": {"weighted": True, "missing": 0.2, "loss": COSTS},
}


def places(block: RowBlock, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the weights of a row lie in theta, and their columns."""
    if not len(block.ptr):
        columns = np.arange(block.width)
        return block.begin + row * block.width + columns, columns
    here = np.arange(block.ptr[row], block.ptr[row + 1])
    return block.begin + here, block.cols[here]


def visits(training: Training, gradient: RowGradient) -> Iterator[tuple[int, np.ndarray, Floats, np.ndarray]]:
    """Yield row, places, its position's gradient and columns of each visit, in the order of positions."""
    block = training.objective.blocks[gradient.block]
    for t, d in enumerate(gradient.d):
        for row in gradient.ids[gradient.ptr[t] : gradient.ptr[t + 1]]:
            where, columns = places(block, int(row))
            yield block.first + int(row), where, d, columns


def shrunk(weights: Floats, by: float) -> Floats:
    """Return the proximal map of an L1 norm."""
    return np.sign(weights) * np.maximum(np.abs(weights) - by, 0)


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
    found = optimizer.export(state)
    np.testing.assert_allclose(state.weights, plain.theta, rtol=1e-8, atol=1e-10)
    averaged = average and not training.objective.regularizer.strengths.l1
    expected = plain.sums / plain.clock**4 if averaged else plain.theta
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    return found


@pytest.mark.parametrize("case", LIKELIHOODS)
@pytest.mark.parametrize("average", [True, False])
def test_adagrad_equals_a_plain_implementation(case: str, average: bool) -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.0, 0.7), **LIKELIHOODS[case])
    check_adagrad(training, average, size=2, rate=0.3, epochs=3)


def test_small_weights_are_trained_and_predict_as_zeros() -> None:
    training, found = training_problem(3, support="auto"), []
    for least in (0.0, 0.05):
        optimizer = AdaGrad(runs=2, seed=5, min_weight=least)
        state = optimizer.start(training.random_theta(np.random.default_rng(1)))
        for _ in range(2):
            optimizer.iterate(training.objective, state)
        found.append(optimizer.export(state))
    assert (found[1] == 0).sum() > (found[0] == 0).sum()
    np.testing.assert_array_equal(found[1], np.where(np.abs(found[0]) < 0.05, 0, found[0]))


@pytest.mark.parametrize("case", L1_CASES)
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_adagrad_equals_composite_steps_on_plain_weights(case: str, l2: float) -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.8, l2), **L1_CASES[case])
    found = check_adagrad(training, True, size=2, rate=0.3, epochs=3)
    assert 0 < (found == 0).sum() < len(found)


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


def test_short_gradients_are_used_in_proportion_to_their_length() -> None:
    from spacy_crfseq.kernels import updates

    n, least = 40_000, 0.05
    ptr, ids = np.arange(n + 1), np.arange(n, dtype=np.int32)
    lengths = np.random.default_rng(0).uniform(0, 2 * least, n)
    weights, seen = np.zeros(n), np.zeros((n, 2))
    empty = (np.zeros(0, np.int64), np.zeros(0, np.int32))
    settings = 1.0, 1.0, 1.0, least, 0.0, 0.0
    updates.adagrad((ptr, ids, lengths[:, None]), (*empty, weights, np.zeros(0), seen), 1.0, settings, 0)
    used = seen[:, 1] > 0
    gradients = -weights * np.sqrt(1 + seen[:, 0])
    assert used[lengths >= least].all()
    np.testing.assert_allclose(gradients[used], np.maximum(lengths, least)[used])
    for low in np.arange(0, least, least / 4):
        some = (lengths >= low) & (lengths < low + least / 4)
        assert gradients[some].mean() == pytest.approx(lengths[some].mean(), rel=0.1)


def test_it_stops_when_the_objective_has_settled() -> None:
    optimizer = AdaGrad()
    _, reports = run(optimizer, training_problem(3, n_sequences=40))
    falls = [(before.value - after.value) / after.value for before, after in itertools.pairwise(reports)]
    assert "fell by less than" in reports[-1].message
    assert falls[-1] < optimizer.tolerance
    assert all(fall >= optimizer.tolerance for fall in falls[:-1])


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
    found = optimizer.export(state)
    np.testing.assert_allclose(found, theta, rtol=1e-8, atol=1e-10)
    assert 0 < (found == 0).sum() < len(found)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ConfigError, match='schedule must be "penalty" or "epochs", but \'days\' was given'):
        SGD(schedule="days")


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


def test_a_run_that_begins_again_owes_no_proximal_steps_of_the_time_before() -> None:
    training = training_problem(3, n_sequences=9, regularizer=ElasticNet(0.0, 0.7))
    optimizer = AdaGrad(0.3, 2, seed=5, runs=2)
    state = optimizer.start(training.random_theta(np.random.default_rng(1)))
    optimizer.iterate(training.objective, state)
    weights = state.weights.copy()
    again = optimizer.again(state, weights, 9.0)
    for run_ in (again, *again.others):
        np.testing.assert_array_equal(optimizer.last(run_, training.objective), weights)


@pytest.mark.parametrize("optimizer", [SGD(rate=0.1, max_iterations=2), AdaGrad(max_iterations=2)])
def test_weights_that_no_sequence_touches_go_to_zero(optimizer: SGD | AdaGrad) -> None:
    training = training_problem(3, n_sequences=9, support="all", regularizer=ElasticNet(300.0, 0.0))
    theta, _ = run(optimizer, training, start=np.full(training.layout.size, 0.01))
    assert not theta.any()


def test_runs_are_averaged() -> None:
    training, method = training_problem(), AdaGrad(runs=3, seed=4)
    zeros = np.zeros(training.objective.potential.size)
    several, single = method.start(zeros), AdaGrad(seed=4).start(zeros)
    for _ in range(2):
        method.iterate(training.objective, several)
        AdaGrad(seed=4).iterate(training.objective, single)
    found = [method.export(state) for state in (single, *several.others, several)]
    np.testing.assert_allclose(found[-1], np.mean(found[:-1], axis=0), rtol=1e-12)
    assert len({theta.tobytes() for theta in found}) == 4
    with pytest.raises(ConfigError, match="runs at least 1"):
        AdaGrad(runs=0)


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


# --- perceptron, passive-aggressive and AROW against plain implementations: dense gradients, averages of all weights


EVERY_CASE = pytest.mark.parametrize("case", CASES)
Step = Callable[[Floats, float], Floats]


def dense(training: Training, gradients: list[RowGradient]) -> Floats:
    """Return a gradient over all parameters."""
    out = np.zeros(training.layout.size)
    for gradient in gradients:
        for _, where, d, columns in visits(training, gradient):
            out[where] += d[columns]
    return out


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
    found = optimizer.export(state)
    np.testing.assert_allclose(state.weights, theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found, np.mean(means, axis=0) if average else theta, rtol=1e-8, atol=1e-10)


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


@pytest.mark.parametrize("optimizer", [AveragedPerceptron(), SGD(), AdaGrad()])
def test_with_the_perceptron_loss_they_tell_labels_apart(optimizer: Optimizer) -> None:
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
