"""The contract of every potential: three plans, one meaning; gradients that go back to where the scores came from."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from spacy_crfseq import threads
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.features.encoded import Encoded
from spacy_crfseq.inference.posterior import Posterior
from spacy_crfseq.kernels import updates
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.papers.boosting.optimizer import Boosting
from spacy_crfseq.papers.vectors import Vectors
from spacy_crfseq.potentials.layout import DenseRows, Layout, rows_of
from spacy_crfseq.potentials.linear import Linear, add_scores
from spacy_crfseq.potentials.protocol import Potential, tokens_of
from spacy_crfseq.potentials.sums import SmallPotential, Sum, TokenScores
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.dataset import Dataset
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import Batch, Floats, Offsets, Scores
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    all_allowed,
    finite_differences,
    newton_optimum,
    plain_scores,
    source_of,
    training_problem,
)

L, WIDTH = 3, 2


class FixedTable:
    """Scores that are there already: a table of emissions, and no parameters."""

    def read(self, docs: Any) -> Any:
        raise NotImplementedError

    def size(self, n_labels: int) -> int:
        return 0

    def forward(self, theta: Floats, inputs: Any, offsets: Offsets, n_labels: int) -> tuple[Scores, Any]:
        nothing = np.zeros(n_labels, theta.dtype)
        scores = Scores(inputs.astype(theta.dtype), np.zeros((1, n_labels, n_labels), theta.dtype), nothing, nothing)
        return scores, lambda d: np.zeros(0, theta.dtype)


class Dense:
    """Emissions X W of inputs X [T, WIDTH], and scores of the last label: theta is W and these."""

    def read(self, docs: Any) -> Any:
        raise NotImplementedError

    def size(self, n_labels: int) -> int:
        return (WIDTH + 1) * n_labels

    def forward(self, theta: Floats, inputs: Any, offsets: Offsets, n_labels: int) -> tuple[Scores, Any]:
        weights, values = theta.reshape(WIDTH + 1, n_labels), inputs[:, :WIDTH].astype(theta.dtype)
        transitions = np.zeros((1, n_labels, n_labels), theta.dtype)
        scores = Scores(values @ weights[:WIDTH], transitions, np.zeros(n_labels, theta.dtype), weights[WIDTH].copy())
        return scores, lambda d: np.concatenate([(values.T @ d.emissions).ravel(), d.end])


VECTORS = {101: (3.0, 4.0), 102: (0.0, 1.0), 103: (-2.0, 0.0), 104: (0.0, 0.0)}


def make_vectors(encoded: Encoded) -> Vectors:
    """Return a plug-in that has read a Doc with vectors for these words, and knows its training text."""
    table = np.array(list(VECTORS.values()), np.float32)
    vectors = SimpleNamespace(shape=table.shape, data=table, mode="default", attr="ORTH")
    vectors.find = lambda keys: np.array([list(VECTORS).index(key) for key in keys], np.int32)
    plugin = Vectors(window=1, scale=2.0)
    plugin.read([SimpleNamespace(vocab=SimpleNamespace(vectors=vectors), to_array=lambda _: encoded.inputs[1])])
    plugin.bind(encoded, 1)
    return plugin


def vector_columns(encoded: Encoded) -> Floats:
    """Return the real-valued features [T, 3 * WIDTH] that are the vectors, one token and neighbour at a time."""
    columns = np.zeros((encoded.n_tokens, WIDTH, 3))
    for begin, end in pairwise(encoded.offsets.tolist()):
        for t in range(begin, end):
            for s in range(max(begin, t - 1), min(end, t + 2)):
                x = np.array(VECTORS[int(encoded.inputs[1][s])])
                columns[t, :, s - t + 1] = (2 * x / max(np.linalg.norm(x), 1)).astype(np.float32)
    return columns.reshape(-1, 3 * WIDTH)


def emission_scores(columns: Floats, theta: Floats) -> Scores:
    """Return the scores of real-valued features [T, C] with the weights [C, L]."""
    return Scores(columns @ theta.reshape(-1, L), np.zeros((1, L, L)), np.zeros(L), np.zeros(L))


class Oracle:
    """The loss of real-valued features by enumeration of all labellings, with a squared norm."""

    def __init__(self, columns: Floats, batch: Batch) -> None:
        self.columns, self.batch, self.potential = columns, batch, SimpleNamespace(size=columns.shape[1] * L)

    def value_and_grad(self, theta: Floats) -> tuple[float, float, Floats]:
        loss, d = reference.log_loss(emission_scores(self.columns, theta), self.batch)
        return loss + theta @ theta / 2, loss, (self.columns.T @ d.emissions).ravel() + theta

    def value(self, theta: Floats) -> float:
        return self.value_and_grad(theta)[0]


class Case(NamedTuple):
    """A potential, a text with gold labels, and the scores that it should have at theta."""

    potential: Any
    data: Dataset
    theta: Floats
    expected: Scores


def make_case(kinds: str, seed: int = 5) -> Case:
    """Return a linear potential (l, p with label pairs), and small ones: t a fixed table, d dense, v vectors."""
    rng = np.random.default_rng(seed)
    pairs = {"bigram_templates": BIGRAM_TEMPLATES} if "p" in kinds else {}
    training = training_problem(seed, n_sequences=7, n_labels=L, weighted=True, **pairs)
    n_tokens = training.encoded.n_tokens
    inputs = rng.standard_normal((n_tokens, L)), rng.choice(sorted(VECTORS), n_tokens).astype(np.uint64)
    encoded = training.encoded._replace(inputs=inputs)
    no_weights = rows_of([np.zeros(0, np.int64)], training.layout.unigrams.n_rows, L)
    nothing = Layout(L, no_weights, DenseRows(0, L * L), np.zeros((L, L), np.bool_), False)
    linear = Linear(training.layout if kinds[0] in "lp" else nothing)
    theta, small = [rng.standard_normal(linear.size)], list[SmallPotential]()
    linear.zero_frozen(theta[0])
    total = plain_scores(linear.layout, theta[0], encoded)
    for kind in kinds.lstrip("lp"):
        potential: Any = TokenScores(FixedTable() if kind == "t" else Dense(), L)
        if kind == "v":
            potential = make_vectors(encoded).potential(L, 1)
        part = rng.standard_normal(potential.size)
        small.append(potential)
        theta.append(part)
        if kind == "v":
            more = emission_scores(vector_columns(encoded), part)
        else:
            more = potential.plugin.forward(part, encoded.inputs[0], encoded.offsets, L)[0]
        total = add_scores(total, more)
    data = training.objective.data._replace(encoded=encoded)
    return Case(Sum(linear, small) if small else linear, data, np.concatenate(theta), total)


EVERY_KIND = pytest.mark.parametrize("kinds", ["l", "p", "t", "d", "v", "lt", "pd", "ldt", "lv"])


def cut(scores: Scores, offsets: Offsets, part: tuple[int, int]) -> Scores:
    tokens = tokens_of(offsets, part)
    transitions = scores.transitions if len(scores.transitions) == 1 else scores.transitions[tokens]
    return scores._replace(emissions=scores.emissions[tokens], transitions=transitions)


def assert_same_scores(actual: Scores, expected: Scores) -> None:
    inner = slice(1, None) if len(expected.transitions) > 1 else slice(None)  # before the first token there is none
    for name, a, b in zip(Scores._fields, actual, expected, strict=True):
        rows = inner if name == "transitions" and len(b) > 1 else slice(None)
        np.testing.assert_allclose(a[rows], b[rows], atol=1e-12, err_msg=name)


def objective(case: Case, **more: Any) -> Objective:
    return Objective(case.potential, [Term(case.data, SequentialLog())], NoRegularizer(), **more)


@EVERY_KIND
def test_it_is_a_potential(kinds: str) -> None:
    potential = make_case(kinds).potential
    assert isinstance(potential, Potential)
    blocks = potential.blocks()
    assert [block.begin for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    assert blocks[-1].end == potential.size
    firsts = np.cumsum([0, *(block.n_rows for block in blocks)])
    assert [block.first for block in blocks] == firsts[:-1].tolist()


@EVERY_KIND
def test_all_plans_give_the_same_scores(kinds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SHARD_FLOATS", 24)
    case = make_case(kinds)
    text, offsets = case.data.encoded, case.data.encoded.offsets
    source, passes = source_of(case.potential, case.theta, text), case.potential.passes(text, 2)
    batches = case.potential.batches()
    assert source.n_labels == case.potential.n_labels == L
    passes.begin(case.theta, None)
    batches.load(text)
    for parts, forward in (
        (list(threads.shards(offsets, source.score_width)), source.scores),
        ([part for round_ in passes.rounds for part in round_], lambda part: passes.forward(part)[0]),
        (
            [(n, n + 1) for n in range(case.data.n_sequences)],
            lambda part: batches.forward(part, case.theta / 2, 2.0)[0],
        ),
    ):
        bounds = [first for first, _ in parts] + [parts[-1][1]]
        assert bounds == sorted(set(bounds))
        assert (bounds[0], bounds[-1]) == (0, case.data.n_sequences)
        for part in parts:
            if offsets[part[0]] < offsets[part[1]] or len(case.expected.transitions) == 1:
                assert_same_scores(forward(part), cut(case.expected, offsets, part))


@EVERY_KIND
def test_backprops_give_the_gradient(kinds: str) -> None:
    case = make_case(kinds)
    rng, text = np.random.default_rng(0), case.data.encoded
    whole = (0, case.data.n_sequences)
    d = Scores(*(rng.standard_normal(array.shape) for array in case.expected))
    d.transitions[text.offsets[:-1][text.offsets[:-1] < len(d.transitions)] if len(d.transitions) > 1 else []] = 0

    def value() -> float:
        scores = source_of(case.potential, case.theta, text).scores(whole)
        return sum(float((a * b).sum()) for a, b in zip(scores, d, strict=True))

    expected = finite_differences(value, case.theta)
    case.potential.zero_frozen(expected)
    passes, sums = case.potential.passes(text, 1), np.zeros_like(case.theta)
    passes.begin(case.theta, sums)
    passes.forward(whole)[1](d)
    passes.flush()
    passes.finish()
    case.potential.zero_frozen(sums)
    np.testing.assert_allclose(sums, expected, atol=1e-7)

    batches, stepped = case.potential.batches(), np.zeros_like(case.theta)
    batches.load(text)
    for number, ptr, ids, rows in batches.forward(whole, case.theta)[1](d):
        block = case.potential.blocks()[number]
        updates.add_rows(ptr, ids, rows, block.ptr, block.cols, 1.0, block.of(stepped))
    np.testing.assert_allclose(stepped, expected, atol=1e-7)


@EVERY_KIND
@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_objective_over_it(kinds: str, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SHARD_FLOATS", 24)
    case = make_case(kinds)
    made, batch = objective(case, n_threads=n_threads), case.data.batch(0, case.data.n_sequences)
    value, loss, gradient = made.value_and_grad(case.theta)
    assert value == loss == pytest.approx(reference.log_loss(case.expected, batch)[0])
    expected = finite_differences(lambda: made.value(case.theta), case.theta)
    case.potential.zero_frozen(expected)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)
    again = made.value_and_grad(case.theta)
    assert again[0] == value
    np.testing.assert_array_equal(again[2], gradient)


@EVERY_KIND
def test_a_posterior_over_it(kinds: str) -> None:
    case = make_case(kinds)
    text, batch = case.data.encoded, case.data.batch(0, case.data.n_sequences)
    posterior = Posterior(source_of(case.potential, case.theta, text), text.offsets, all_allowed(L))
    labels = np.where(batch.gold < 0, 0, batch.gold).astype(np.int32)
    log_p = posterior.log_probabilities(labels)
    unweighted = batch._replace(gold=labels, weights=np.ones(len(batch.weights)))
    assert -log_p.sum() == pytest.approx(reference.log_loss(case.expected, unweighted)[0])
    np.testing.assert_allclose(posterior.marginals().sum(1), 1, atol=1e-9)


@pytest.mark.parametrize("kinds", ["pd", "ldt", "lv"])
def test_training_finds_the_optimum_of_the_sum(kinds: str) -> None:
    case = make_case(kinds)
    made = Objective(case.potential, [Term(case.data, SequentialLog())], L2(1.0))
    start = np.zeros(case.potential.size)
    exact = fit(made, LBFGS(tolerance=0, gradient_tolerance=1e-9), start)
    made_again, _, gradient = made.value_and_grad(exact.best)
    assert np.linalg.norm(gradient) < 1e-7  # it is convex
    online = fit(made, AdaGrad(max_iterations=30, tolerance=0), start)
    assert made.value(online.best) < made.value(start) - 0.7 * (made.value(start) - made_again)


def test_real_values_reach_the_optimum_of_an_enumeration() -> None:
    case = make_case("v")
    oracle: Any = Oracle(vector_columns(case.data.encoded), case.data.batch(0, case.data.n_sequences))
    expected, value = newton_optimum(oracle)
    made = Objective(case.potential, [Term(case.data, SequentialLog())], L2(1.0))
    actual = fit(made, LBFGS(tolerance=0, gradient_tolerance=1e-12), np.zeros(case.potential.size)).best
    assert oracle.value(actual[-len(expected) :]) == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(actual[-len(expected) :], expected, atol=1e-7)


def test_methods_that_work_on_single_weights_refuse_sums() -> None:
    case = make_case("ld")
    with pytest.raises(ConfigError, match="scores come from Sum here"):
        fit(objective(case), Boosting(), np.zeros(case.potential.size))
