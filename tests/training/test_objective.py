"""The objective of a whole data set: gradients, mini-batches, sparse against dense weights."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import threads
from spacy_crfseq.kernels import updates
from spacy_crfseq.losses.entropy import Entropy
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.losses.softmax_margin import SoftmaxMargin
from spacy_crfseq.optimizers.sgd import SGD
from spacy_crfseq.papers.labelled_features.expectation import Expectation
from spacy_crfseq.potentials import linear
from spacy_crfseq.potentials.layout import SparseRows
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.l1 import L1
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training import objective as objective_module
from spacy_crfseq.training.dataset import Dataset, join
from spacy_crfseq.training.objective import Objective, Term
from tests import reference
from tests.problems import BIGRAM_TEMPLATES, Training, finite_differences, ids_of_tokens, plain_scores, training_problem

CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "no boundaries": {"boundaries": False},
    "no transitions": {"transitions": False, "bigram_templates": BIGRAM_TEMPLATES},
    "no transitions, dense": {"transitions": False, "support": "all"},
    "pairs": {"bigram_templates": BIGRAM_TEMPLATES},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all", "boundaries": False},
    "missing labels": {"missing": 0.3},
    "weights": {"weighted": True, "missing": 0.2, "bigram_templates": BIGRAM_TEMPLATES},
    "only single attributes": {"templates": ("LOWER[0]", "TAG[0]")},
    "only pairs": {"templates": (), "bigram_templates": BIGRAM_TEMPLATES},
    "one label": {"n_labels": 1},
    "tag dictionary": {"dictionary_size": 5, "missing": 0.2, "bigram_templates": BIGRAM_TEMPLATES},
    "candidates": {"candidates": 0.3, "missing": 0.2, "weighted": True, "bigram_templates": BIGRAM_TEMPLATES},
    "candidates and a tag dictionary": {"candidates": 0.3, "dictionary_size": 5},
    "no tokens": {"n_sequences": 0},
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def make(case: str, **more: Any) -> Training:
    return training_problem(11, **{"n_sequences": 8, **CASES[case], **more})


def with_threads(objective: Objective, n_threads: int) -> Objective:
    plan, data, dictionary = objective.layout, objective.data, objective.dictionary
    return Objective(Linear(plan), [Term(data, objective.loss)], L2(1.0), n_threads=n_threads, dictionary=dictionary)


@EVERY_CASE
def test_gradient_equals_finite_differences(case: str) -> None:
    training = make(case)
    theta = training.random_theta(np.random.default_rng(0))
    value, loss, gradient = training.objective.value_and_grad(theta)
    assert value == pytest.approx(training.objective.value(theta), abs=1e-12)
    assert value == pytest.approx(loss + theta @ theta / 2)
    numerical = finite_differences(lambda: training.objective.value(theta), theta)
    Linear(training.layout).zero_frozen(numerical)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-6, atol=1e-7)


@EVERY_CASE
def test_loss_equals_the_enumeration(case: str) -> None:
    training = make(case)
    theta, data = training.random_theta(np.random.default_rng(0)), training.objective.data
    scores = plain_scores(training.layout, theta, data.encoded)
    if training.objective.allowed is not None:
        scores.emissions[~training.objective.allowed] = -np.inf
    batch = data.batch(0, data.n_sequences)
    expected = float(batch.weights @ reference.partial_nll(scores, batch))
    if not data.has_candidates:
        assert reference.log_loss(scores, batch)[0] == pytest.approx(expected)
    assert training.objective.value_and_grad(theta)[1] == pytest.approx(expected, rel=1e-10)


@EVERY_CASE
@pytest.mark.parametrize("size", [1, 3, 100])
def test_minibatches_sum_to_the_whole(case: str, size: int) -> None:
    training = make(case, regularizer=NoRegularizer())
    theta = training.random_theta(np.random.default_rng(0))
    _, loss, gradient = training.objective.value_and_grad(theta)
    for rng in (None, np.random.default_rng(3)):
        stepped, doubled, total, n_sequences = np.zeros_like(theta), np.ones_like(theta), 0.0, 0
        for batch in training.objective.minibatches(size, rng):
            assert batch.n_sequences <= size
            batch_loss, gradients = batch.loss_and_grad(theta / 4, 4.0)
            total += batch_loss
            for number, ptr, ids, d in gradients:
                block = training.objective.blocks[number]
                for target, factor in ((stepped, 1.0), (doubled, -2.0)):
                    updates.add_rows(ptr, ids, d, block.ptr, block.cols, factor, block.of(target))
            n_sequences += batch.n_sequences
        assert n_sequences == training.objective.n_sequences
        assert total == pytest.approx(loss, abs=1e-9)
        np.testing.assert_allclose(stepped, gradient, atol=1e-9)
        np.testing.assert_allclose(doubled, 1 - 2 * gradient, atol=1e-9)


@EVERY_CASE
@pytest.mark.parametrize("round_floats", [1, 1 << 23])
def test_threads_share_the_work(case: str, round_floats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SHARD_FLOATS", 12)
    monkeypatch.setattr(linear, "ROUND_FLOATS", round_floats)
    training = make(case)
    theta, objective = training.random_theta(np.random.default_rng(0)), training.objective
    value, loss, gradient = objective.value_and_grad(theta)
    for n_threads in (2, 3, 9):
        shared = with_threads(objective, n_threads)
        result = shared.value_and_grad(theta)
        assert result[:2] == pytest.approx((value, loss))
        np.testing.assert_allclose(result[2], gradient, atol=1e-12)
        again = shared.value_and_grad(theta, np.full_like(theta, np.nan))
        assert again[0] == result[0]
        np.testing.assert_array_equal(again[2], result[2])


def test_no_two_threads_have_a_row_in_common() -> None:
    training = training_problem(3, n_sequences=40, templates=("LOWER[-2..2]", "TAG[-1..1]"))
    block = linear.LinearPasses(Linear(training.layout), training.encoded, 3)._sums[0]
    _, bounds, ptr, ids, *_ = block.lists
    lists, n_groups = np.split(ids, ptr[1:-1]), len(bounds) - 1
    tabled = [set(np.concatenate(lists[group::n_groups]).tolist()) for group in range(n_groups)]
    assert sum(map(bool, tabled)) > 1
    assert len(set.union(*tabled)) == sum(map(len, tabled))


@pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES])
def test_sparse_weights_equal_dense_ones_that_are_masked(bigram_templates: tuple[str, ...]) -> None:
    sparse, dense = (
        training_problem(5, support=support, bigram_templates=bigram_templates, boundaries=False)
        for support in ("observed", "all")
    )
    theta = sparse.random_theta(np.random.default_rng(0))
    wide, here = np.zeros(dense.layout.size), sparse.layout.views(theta)
    there = dense.layout.views(wide)
    there.transitions[:] = here.transitions
    places = []
    for block in ("unigrams", "bigrams"):
        rows = getattr(sparse.layout, block)
        assert isinstance(rows, SparseRows)
        places.append(np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr)) * rows.width + rows.cols)
        getattr(there, block)[places[-1]] = getattr(here, block)
    value, _, gradient = sparse.objective.value_and_grad(theta)
    wide_value, _, wide_gradient = dense.objective.value_and_grad(wide)
    assert wide_value == pytest.approx(value)
    narrow, full = sparse.layout.views(gradient), dense.layout.views(wide_gradient)
    np.testing.assert_allclose(full.unigrams[places[0]], narrow.unigrams, atol=1e-12)
    np.testing.assert_allclose(full.bigrams[places[1]], narrow.bigrams, atol=1e-12)
    steps = sparse.layout.steps
    np.testing.assert_allclose(full.transitions[steps], narrow.transitions[steps], atol=1e-12)


def test_observed_support_is_what_was_seen() -> None:
    training = training_problem(5, templates=("LOWER", "TAG[0]"), missing=0.3)
    rows, data = training.layout.unigrams, training.objective.data
    ids = data.encoded.unigrams.expanded()[1]
    seen = {(a, k) for attrs, k in zip(ids, data.gold, strict=True) for a in attrs if a >= 0 <= k}
    owners = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
    assert set(zip(owners.tolist(), rows.cols.tolist(), strict=True)) == seen
    pairs = {
        (data.gold[t - 1], data.gold[t])
        for first, last in zip(data.encoded.offsets, data.encoded.offsets[1:], strict=False)
        for t in range(first + 1, last)
        if min(data.gold[t - 1], data.gold[t]) >= 0
    }
    assert set(zip(*np.nonzero(training.layout.steps), strict=True)) == pairs


def test_float32_gives_the_same_up_to_rounding() -> None:
    training = make("weights")
    theta = training.random_theta(np.random.default_rng(0))
    value, _, gradient = training.objective.value_and_grad(theta)
    narrow_value, _, narrow_gradient = training.objective.value_and_grad(theta.astype(np.float32))
    assert narrow_gradient.dtype == np.float32
    assert narrow_value == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(narrow_gradient, gradient, atol=1e-4)


@pytest.mark.parametrize("case", ["weights", "candidates"])
def test_data_sets_can_be_joined_and_taken_apart(case: str) -> None:
    training = make(case)
    data, layout, loss = training.objective.data, training.layout, training.objective.loss
    theta = training.random_theta(np.random.default_rng(0))
    parts = [data.take(np.array(numbers, np.int64)) for numbers in ([5, 1], [0, 2, 7], [], [3, 4, 6])]
    whole = join(parts)
    assert whole.n_sequences == data.n_sequences
    assert whole.weights.tolist() == data.weights[[5, 1, 0, 2, 7, 3, 4, 6]].tolist()

    def loss_of(part: Dataset) -> float:
        return Objective(Linear(layout), [Term(part, loss)], NoRegularizer()).value(theta)

    assert loss_of(whole) == pytest.approx(loss_of(data))
    assert sum(loss_of(part) for part in parts) == pytest.approx(loss_of(data))


def test_a_sample_scales_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(2, n_sequences=20, regularizer=L2(3.0))
    objective = training.objective
    theta = training.random_theta(np.random.default_rng(0))
    assert objective.sample().value(theta) == pytest.approx(objective.value(theta))
    monkeypatch.setattr(objective_module, "SAMPLE_SEQUENCES", 5)
    sample, again = objective.sample(), objective.sample()
    assert sample.n_sequences == 5
    assert sample.regularizer.strengths.l2 == pytest.approx(3.0 * 5 / 20)
    assert sample.value(theta) == again.value(theta)
    numerical = finite_differences(lambda: sample.value(theta), theta)
    Linear(training.layout).zero_frozen(numerical)
    np.testing.assert_allclose(sample.value_and_grad(theta)[2], numerical, rtol=1e-6, atol=1e-7)


def two_terms() -> Objective:
    """Return an objective with 10 sequences, and 20 others at half their weight; all weights differ."""
    training = training_problem(2, n_sequences=30, regularizer=L2(3.0))
    data = training.objective.data
    data = data._replace(weights=1 + np.arange(30) / 100)
    few, many = data.slice(0, 10), join([data.take(np.arange(25, 30)), data.slice(10, 25)])
    terms = [Term(few, SequentialLog()), Term(many, SequentialLog(), 0.5, name="more", sample=many)]
    return Objective(Linear(training.layout), terms, L2(3.0))


def test_an_epoch_visits_all_sequences_of_all_terms_evenly() -> None:
    objective = two_terms()
    theta = np.random.default_rng(0).normal(size=objective.potential.size)
    _, loss, _ = objective.value_and_grad(theta)
    orders = []
    for _ in range(2):
        rng, order, total = np.random.default_rng(1), [], 0.0
        for batch in objective.minibatches(1, rng):
            order.append(round(100 * batch._batch.weights[0]))
            total += batch.loss_and_grad(theta)[0]
        assert total == pytest.approx(loss)
        assert sorted(order) == sorted(round(100 * weight) for term in objective.terms for weight in term.data.weights)
        for first in range(0, 30, 6):
            assert sum(number >= 100 for number in order[first : first + 6]) == 2
        orders.append(order)
    assert orders[0] == orders[1]
    assert sum(batch.n_sequences for batch in objective.minibatches(4, rng)) == 30


def test_a_sample_of_terms_is_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = two_terms()
    theta = np.random.default_rng(0).normal(size=objective.potential.size)
    assert objective.sample().value(theta) == pytest.approx(objective.value(theta))
    monkeypatch.setattr(objective_module, "SAMPLE_SEQUENCES", 5)
    sample = objective.sample()
    assert sample.regularizer.strengths.l2 == pytest.approx(3.0 / 2)
    assert [term.data.n_sequences for term in sample.terms] == [5, 5]
    assert set(sample.terms[1].data.weights) < set(0.5 / 2 * 20 / 5 * (1 + np.arange(10, 30) / 100))
    parts = [objective.terms[0]._replace(data=objective.terms[0].data.slice(0, 2), sample=objective.terms[0].data)]
    parts.append(objective.terms[1]._replace(data=objective.terms[1].data.slice(0, 4)))
    step = Objective(objective.potential, parts, L2(3.0), n_total=30)
    assert step.sample().value(theta) == pytest.approx(sample.value(theta))


def test_the_total_may_exceed_the_data_at_hand() -> None:
    training = make("sparse")
    part = Objective(
        Linear(training.layout), [Term(training.objective.data, training.objective.loss)], L2(1.0), n_total=80
    )
    assert (part.n_sequences, part.n_total) == (8, 80)
    assert part.sample().regularizer.strengths.l2 == pytest.approx(0.1)


@pytest.mark.parametrize("block", [0, 1])
def test_occurrences_list_rows_of_tokens_and_tokens_of_rows(block: int) -> None:
    training = training_problem(7, bigram_templates=BIGRAM_TEMPLATES)
    ptr, ids, row_ptr, tokens = training.objective.occurrences(block)
    expected = ids_of_tokens((training.encoded.unigrams, training.encoded.bigrams)[block])
    assert [sorted(part.tolist()) for part in np.split(ids, ptr[1:-1])] == expected
    rows = [
        [t for t, rows_of_token in enumerate(expected) for a in rows_of_token if a == r]
        for r in range(len(row_ptr) - 1)
    ]
    assert [part.tolist() for part in np.split(tokens, row_ptr[1:-1])] == rows


def test_a_sample_of_no_sequences_is_one_of_none() -> None:
    training = training_problem(3)
    nothing = Objective(Linear(training.layout), [Term(training.objective.data.slice(0, 0), SequentialLog())], L2(1.0))
    theta = np.ones(training.layout.size)
    assert nothing.sample().n_sequences == 0
    assert nothing.sample().value(theta) == 0
    optimizer = SGD()
    assert optimizer.iterate(nothing, optimizer.start(np.zeros_like(theta))).loss == 0


@pytest.mark.parametrize("case", ["sparse", "pairs", "tag dictionary"])
def test_terms_of_unlabelled_text(case: str) -> None:
    """Their gradient is that of the whole, with any number of threads; a loss of sums takes two passes."""
    training = make(case, weighted=True)
    data, layout, dictionary = training.objective.data, training.layout, training.objective.dictionary
    shares = Expectation({"A": 0.3, "B": 0.2}).bind(["A", "B", "C"], None)
    half = data.take(np.arange(0, data.n_sequences, 2))
    terms = [
        Term(data, SequentialLog()), Term(half, Entropy(), 0.3, name="raw"), Term(data, shares, 5.0, name="shares"),
    ]  # fmt: skip
    objectives = [
        Objective(Linear(layout), terms, L2(1.0), n_threads=n_threads, dictionary=dictionary) for n_threads in (1, 3)
    ]
    theta = training.random_theta(np.random.default_rng(0))
    value, loss, gradient = objectives[0].value_and_grad(theta)
    parts = [Objective(Linear(layout), [term], NoRegularizer(), dictionary=dictionary).value(theta) for term in terms]
    assert loss == pytest.approx(sum(parts), rel=1e-12)
    assert objectives[0].value(theta) == pytest.approx(value, rel=1e-12)
    wanted = finite_differences(lambda: objectives[0].value(theta), theta)
    Linear(layout).zero_frozen(wanted)
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)
    same, _, same_gradient = objectives[1].value_and_grad(theta)
    assert same == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(same_gradient, gradient, atol=1e-12)


def test_candidates_have_no_chains() -> None:
    """Their tokens do not have one label each."""
    objective = training_problem(2, n_sequences=8).objective
    [term] = objective.terms
    for data, simple in (
        (term.data, True),
        (term.data._replace(gold=np.full_like(term.data.gold, -2)), False),
    ):
        assert (objective.on([term._replace(data=data)]).chains(1, None, 1) is not None) == simple


def test_the_proximal_step_of_a_sample_is_that_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective_module, "SAMPLE_SEQUENCES", 5)
    objective = training_problem(2, n_sequences=20, regularizer=L1(2.0)).objective
    actual, expected = np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)
    objective.sample().regularizer.prox(actual, 0.5)
    L1(2.0).prox(expected, 0.5 * 5 / 20)
    np.testing.assert_allclose(actual, expected)


def test_an_objective_under_another_loss_passes_over_the_data_with_it() -> None:
    training = training_problem(2, n_sequences=8)
    theta, loss = training.random_theta(np.random.default_rng(0)), SoftmaxMargin(cost=3.0)
    value = training.objective.value(theta)
    other = training.objective.under(NoRegularizer(), loss)
    expected = Objective(Linear(training.layout), [Term(training.objective.data, loss)], NoRegularizer())
    assert other.value(theta) == pytest.approx(expected.value(theta))
    assert other.value(theta) > value
    assert training.objective.under(L2(5.0)).losses(theta, None) == training.objective.losses(theta, None)


def test_parts_of_a_pass_take_longer_than_their_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of labels, a gradient of transitions for every few tokens would be most of the work."""
    for module in (threads, linear):
        monkeypatch.setattr(module, "SHARD_FLOATS", 16)
    for n_labels in (2, 30):
        training = training_problem(2, n_sequences=60, n_labels=n_labels)
        data, potential = training.objective.data, Linear(training.layout)
        starts = data.encoded.offsets[[part[0] for parts in potential.passes(data.encoded, 1).rounds for part in parts]]
        floats = 16 * linear.LARGER if n_labels == 2 else n_labels**2
        longest = int(np.diff(data.encoded.offsets).max())
        assert (np.diff(starts) >= floats // n_labels - longest).all()


def test_epochs_of_many_labels_and_few_transitions_approach_nothing() -> None:
    """A mini-batch changes all transitions, a pass over sequences of one token needs none."""
    for length, n_labels, short in ((1, 3, True), (1, 1000, False), (8, 1000, True)):
        training = training_problem(2, n_sequences=40)
        data = training.objective.data
        encoded = data.encoded._replace(offsets=np.arange(0, 41 * length, length))
        objective = training.objective.on([training.objective.terms[0]._replace(data=data._replace(encoded=encoded))])
        objective.potential = SimpleNamespace(n_labels=n_labels)
        assert objective.approachable == short
