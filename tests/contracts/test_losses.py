"""The contract of every registered loss; a new one is tested by being registered."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.losses.hinge import Hinge
from spacy_crfseq.losses.pointwise_exp import PointwiseExp
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.losses.softmax_margin import SoftmaxMargin
from spacy_crfseq.training.compatibility import needs_labels, provided
from spacy_crfseq.types import MISSING, Batch, Candidates, CorpusLoss, Loss, NamedLoss, Scores, TextLoss
from tests import reference
from tests.problems import Problem, made_losses, one_sided_differences, problems, random_problem, text_of
from tests.test_extreme_scores import PROBLEMS as EXTREME_PROBLEMS


class Undeclared:
    """A loss that does not say what it provides."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        return SequentialLog()(scores, batch, grad)


COSTS: dict[str, Any] = {"false_negatives": {"A": 3.0}, "false_positives": {"B": 0.2, "A": 0.0}}
BY_LABEL = {f"{kind.__name__}, costs by label": kind(0.7, **COSTS) for kind in (SoftmaxMargin, Hinge)}
LOSSES: dict[str, Any] = {**made_losses(), "undeclared": Undeclared(), **BY_LABEL}


def every_loss(
    *capabilities: str, sums: bool | None = None, when: Callable[[Loss], bool] = lambda _: True
) -> pytest.MarkDecorator:
    """Run a test over the registered losses that give all of `capabilities`.

    sums: Only those that are sums over sequences, or only those that are not.
    when: Only those for which this is true.
    """
    chosen = {
        name: loss
        for name, loss in LOSSES.items()
        if provided(loss).issuperset(capabilities) and sums in (None, not isinstance(loss, CorpusLoss)) and when(loss)
    }
    return pytest.mark.parametrize("loss", chosen.values(), ids=chosen)


PROBLEMS = problems(candidates=True)
KINK = 1e-2
"""Slopes that differ by more over 2e-5 belong to two pieces of a piecewise linear loss."""


def evaluate(loss: Loss, problem: Problem) -> tuple[float, Scores]:
    """Return the loss and its gradient, without the candidate sets that not every loss is defined for."""
    return called(*ready(loss, problem))


def called(loss: Loss, problem: Problem) -> tuple[float, Scores]:
    """Return the loss and its gradient of a problem that the loss can read."""
    gradient = problem.scores.zeros_like()
    return loss(problem.scores, problem.batch, gradient), gradient


def ready(loss: Loss, problem: Problem) -> tuple[Loss, Problem]:
    """Return the loss for the problem's labels, and the problem as the loss can read it."""
    if "candidates" not in provided(loss):
        problem = problem.without_candidates()
    if isinstance(loss, TextLoss):
        text = text_of(problem.batch.n_tokens)
        problem = Problem(problem.scores, problem.batch._replace(inputs=loss.read([text], [text])))
    if isinstance(loss, NamedLoss):
        labels = ["A", "B", "C", "D"][: problem.scores.emissions.shape[1]]
        if len(labels) < 2:
            assume(False)
        loss = loss.bind(labels, None)
    return loss, problem


@every_loss()
@given(PROBLEMS)
def test_gradient_equals_finite_differences(loss: Loss, problem: Problem) -> None:
    """Where a loss has a kink within the step, any slope between those on its two sides is a subgradient."""
    loss, problem = ready(loss, problem)
    _, gradient = called(loss, problem)
    for array, scores in zip(gradient, problem.scores, strict=True):
        below, above = one_sided_differences(lambda: called(loss, problem)[0], scores)
        central = (below + above) / 2
        kink = (np.abs(above - below) > KINK) & ("value_and_grad" not in provided(loss))
        inside = (np.minimum(below, above) - 1e-6 <= array) & (array <= np.maximum(below, above) + 1e-6)
        assert inside[kink].all()
        np.testing.assert_allclose(array[~kink], central[~kink], rtol=1e-6, atol=1e-7)


@every_loss()
@given(PROBLEMS)
def test_the_gradient_is_added_and_scores_and_batch_are_left_alone(loss: Loss, problem: Problem) -> None:
    arrays = (*problem.scores, *problem.batch[:3], problem.batch.candidates.sets)
    before = [array.copy() for array in arrays]
    _, fresh = evaluate(loss, problem)
    filled = Scores(*(np.full_like(array, 1.5) for array in problem.scores))
    bound, read = ready(loss, problem)
    bound(read.scores, read.batch, filled)
    for array, fresh_array in zip(filled, fresh, strict=True):
        np.testing.assert_allclose(array - 1.5, fresh_array, atol=1e-10)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every_loss(sums=True)
@given(PROBLEMS)
def test_a_sum_over_sequences(loss: Loss, problem: Problem) -> None:
    whole, gradient = evaluate(loss, problem)
    assert isinstance(whole, float)
    total, start, end = 0.0, np.zeros_like(gradient.start), np.zeros_like(gradient.end)
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        part, part_gradient = evaluate(loss, problem.only(n))
        total += part
        start += part_gradient.start
        end += part_gradient.end
        np.testing.assert_allclose(gradient.emissions[first:last], part_gradient.emissions, atol=1e-10)
    assert whole == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(gradient.start, start, atol=1e-10)
    np.testing.assert_allclose(gradient.end, end, atol=1e-10)


@every_loss(sums=True)
@given(PROBLEMS, st.floats(0, 5))
def test_weights_multiply(loss: Loss, problem: Problem, factor: float) -> None:
    value, gradient = evaluate(loss, problem)
    batch = problem.batch._replace(weights=factor * problem.batch.weights)
    weighted, weighted_gradient = evaluate(loss, Problem(problem.scores, batch))
    assert weighted == pytest.approx(factor * value, abs=1e-9)
    for array, unweighted in zip(weighted_gradient, gradient, strict=True):
        np.testing.assert_allclose(array, factor * unweighted, atol=1e-9)


@every_loss("unlabelled")
@given(problems(candidates=True))
def test_a_loss_of_unlabelled_text_ignores_gold_labels(loss: Loss, problem: Problem) -> None:
    value, gradient = evaluate(loss, problem)
    unknown = problem.batch._replace(gold=np.full_like(problem.batch.gold, MISSING))
    same, same_gradient = evaluate(loss, Problem(problem.scores, unknown))
    assert same == value
    for array, wanted in zip(same_gradient, gradient, strict=True):
        np.testing.assert_array_equal(array, wanted)


@every_loss(sums=False)
@given(problems(), st.floats(0.1, 5))
def test_totals_of_parts_add_up_and_give_the_loss_of_the_whole(loss: Any, problem: Problem, factor: float) -> None:
    """Only the ratios of weights matter."""
    value, gradient = evaluate(loss, problem)
    bound, read = ready(loss, problem)
    assert isinstance(bound, CorpusLoss)
    totals: Any = 0.0
    parts = []
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        text = read.only(n)
        parts.append(Problem(text.scores, text.batch._replace(inputs=read.batch.inputs[first:last])))
        totals = totals + bound.totals(*parts[-1])
    bounded, slope = bound.at(totals if parts else bound.totals(*read), 3.0)
    assert bounded == pytest.approx(3 * value, abs=1e-9)
    for part, (first, last) in zip(parts, problem.sequence_bounds(), strict=True):
        part_gradient = part.scores.zeros_like()
        slope(*part, part_gradient)
        np.testing.assert_allclose(part_gradient.emissions, 3 * gradient.emissions[first:last], atol=1e-9)
    weighted = problem.batch._replace(weights=factor * problem.batch.weights)
    assert evaluate(loss, Problem(problem.scores, weighted))[0] == pytest.approx(value, abs=1e-9)


def check_float32_against_float64(loss: Loss, problem: Problem, precision: float) -> None:
    """Compare values and gradients of scores that float32 holds exactly, up to `precision` per unit of weight."""
    narrow = Scores(*(array.astype(np.float32) for array in problem.scores))
    value, gradient = evaluate(loss, Problem(narrow, problem.batch))
    expected, wide_gradient = evaluate(loss, Problem(narrow.wide(), problem.batch))
    limit = precision * max(1.0, problem.batch.weights.sum())
    assert value == pytest.approx(expected, rel=1e-4, abs=limit)
    for array, wide in zip(gradient, wide_gradient, strict=True):
        np.testing.assert_allclose(array, wide, rtol=1e-4, atol=limit)


@every_loss()
@given(PROBLEMS)
def test_float32_gives_the_value_and_the_gradient_of_float64(loss: Loss, problem: Problem) -> None:
    check_float32_against_float64(loss, problem, 1e-5)


@every_loss(sums=True)
@given(EXTREME_PROBLEMS)
def test_float32_gives_the_gradient_of_float64_where_scores_differ_by_thousands(loss: Loss, problem: Problem) -> None:
    """Not of losses of a whole corpus, which see expected shares: the logarithm of one may be lost in float32."""
    check_float32_against_float64(loss, problem, 1e-3)


@every_loss(sums=True, when=lambda loss: "evidence" not in provided(loss))
@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_a_label_in_place_of_a_missing_one_never_lowers_the_loss(loss: Loss, problem: Problem, seed: int) -> None:
    problem = problem.without_candidates()
    labels = np.random.default_rng(seed).integers(0, problem.scores.emissions.shape[1], problem.batch.n_tokens)
    filled = np.where(problem.batch.gold == MISSING, labels, problem.batch.gold).astype(np.int32)
    value, _ = evaluate(loss, problem)
    more, _ = evaluate(loss, Problem(problem.scores, problem.batch._replace(gold=filled)))
    assert value <= more + 1e-9


@every_loss(when=needs_labels)
@given(PROBLEMS)
def test_a_text_without_any_label_costs_nothing(loss: Loss, problem: Problem) -> None:
    unknown = problem.without_candidates().batch._replace(gold=np.full_like(problem.batch.gold, MISSING))
    value, gradient = evaluate(loss, Problem(problem.scores, unknown))
    assert value == pytest.approx(0, abs=1e-9)
    for array in gradient:
        np.testing.assert_allclose(array, 0, atol=1e-9)


@every_loss()
@given(PROBLEMS)
def test_a_small_step_against_the_gradient_lowers_it(loss: Loss, problem: Problem) -> None:
    value, gradient = evaluate(loss, problem)
    slope = sum(float((array**2).sum()) for array in gradient)
    assume(slope > 1e-6)
    step = 1e-4 / (1 + slope)
    scores = Scores(*(array - step * d for array, d in zip(problem.scores, gradient, strict=True)))
    lowered, _ = evaluate(loss, Problem(scores, problem.batch))
    assert lowered < value


@every_loss()
@given(PROBLEMS)
def test_both_kinds_of_transitions_agree(loss: Loss, problem: Problem) -> None:
    """Transitions shared by all positions score as their copies at every position."""
    n_tokens = len(problem.batch.gold)
    assume(len(problem.scores.transitions) == 1 and n_tokens != 1)
    value, gradient = evaluate(loss, problem)
    copies = problem.scores._replace(transitions=np.repeat(problem.scores.transitions, n_tokens, axis=0))
    copied_value, copied = evaluate(loss, Problem(copies, problem.batch))
    assert copied_value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(copied.transitions.sum(0), gradient.transitions[0], atol=1e-9)
    np.testing.assert_allclose(copied.emissions, gradient.emissions, atol=1e-9)


@every_loss("likelihood")
@given(problems(missing=False))
def test_a_loss_that_gives_likelihood_is_a_sum_of_phi(loss: Any, problem: Problem) -> None:
    nll = np.zeros(len(problem.batch.weights))
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        sequence, gold = reference.sequence(problem.scores, first, last), problem.batch.gold[first:last]
        nll[n] = reference.log_partition(sequence) - reference.log_partition(sequence, gold)
    phi, slope = loss.phi(nll)
    value, _ = evaluate(loss, problem)
    assert value == pytest.approx(float(problem.batch.weights @ phi), rel=1e-9, abs=1e-9)
    assert (slope > 0).all()
    above, below = loss.phi(nll + 1e-6)[0], loss.phi(nll - 1e-6)[0]
    np.testing.assert_allclose((above - below) / 2e-6, slope, rtol=1e-4)


@every_loss("likelihood", "candidates")
@given(problems(candidates=True, missing=False))
def test_the_likelihood_of_candidate_sets_is_that_of_all_labellings_that_agree(loss: Any, problem: Problem) -> None:
    nll = reference.partial_nll(problem.scores, problem.batch)
    value, _ = evaluate(loss, problem)
    assert value == pytest.approx(float(problem.batch.weights @ loss.phi(nll)[0]), rel=1e-9, abs=1e-9)


class Squared(SequentialLog):
    """A derived class with another function of -log P."""

    def phi(self, nll: Any) -> tuple[Any, Any]:
        return nll + nll**2, 1 + 2 * nll


@settings(max_examples=20)
@given(PROBLEMS)
def test_any_function_of_the_likelihood(problem: Problem) -> None:
    loss: Any = Squared()
    assert loss.provides == SequentialLog().provides - {"log_likelihood"}
    nll = reference.partial_nll(problem.scores, problem.batch)
    value, _ = evaluate(loss, problem)
    assert value == pytest.approx(problem.batch.weights @ (nll + nll**2), rel=1e-9, abs=1e-9)
    plain = problem.without_candidates()
    _, gradient = evaluate(loss, plain)
    _, slopes = reference.sequential_loss(plain.scores, plain.batch, lambda u: (u + u**2, 1 + 2 * u))
    for array, slope in zip(gradient, slopes, strict=True):
        np.testing.assert_allclose(array, slope, rtol=1e-6, atol=1e-8)


@every_loss("candidates")
@given(problems(candidates=True))
def test_a_set_of_all_labels_is_a_missing_one_and_a_set_of_one_a_label(loss: Loss, problem: Problem) -> None:
    n_labels = problem.scores.emissions.shape[1]
    definite = problem.without_candidates().batch
    sets = np.concatenate([np.eye(n_labels, dtype=np.bool_), np.ones((1, n_labels), np.bool_)])
    numbers = np.where(definite.gold >= 0, definite.gold, n_labels)
    gold = np.where(numbers % 2, definite.gold, MISSING - 1 - numbers).astype(np.int32)
    same = Problem(problem.scores, definite._replace(gold=gold, candidates=Candidates(sets)))
    value, gradient = evaluate(loss, Problem(problem.scores, definite))
    same_value, same_gradient = evaluate(loss, same)
    assert same_value == pytest.approx(value, rel=1e-9, abs=1e-9)
    for array, wanted in zip(same_gradient, gradient, strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "cost"),
    [("Perceptron", 0.0), ("Hinge", 1.0), ("Hinge", 0.3), ("SoftmaxMargin", 1.0), ("SoftmaxMargin", 0.3)],
)
@given(problems(scales=(1.0, 10.0), dtypes=(np.float32, np.float64)))
def test_losses_of_best_paths_and_margins_equal_their_definitions(name: str, cost: float, problem: Problem) -> None:
    loss = registry.losses.get(f"spacy_crfseq.{name}.v1")(**({"cost": cost} if cost else {}))
    expected, defined = 0.0, reference.softmax_margin if name == "SoftmaxMargin" else reference.max_loss
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        gold = problem.batch.gold[first:last].tolist()
        if any(label >= 0 for label in gold):
            sequence = reference.sequence(problem.scores, first, last)
            expected += problem.batch.weights[n] * defined(sequence, gold, cost)
    value, gradient = evaluate(loss, problem)
    assert value == pytest.approx(expected, rel=1e-4, abs=1e-3)
    assert all(np.isfinite(array).all() for array in gradient)


@pytest.mark.parametrize("kind", [SoftmaxMargin, Hinge])
@given(problems(scales=(1.0, 10.0)), st.integers(0, 2**32 - 1))
def test_losses_with_costs_by_label_equal_their_definitions(kind: Any, problem: Problem, seed: int) -> None:
    """The sum, or the maximum, over all labellings, each with the cost of its labels in place of the correct ones."""
    labels, rng = ["A", "B", "C", "D"][: problem.scores.emissions.shape[1]], np.random.default_rng(seed)
    missed, invented = ({label: float(rng.exponential(2)) for label in labels if rng.random() < 0.5} for _ in range(2))
    table = np.zeros((len(labels), len(labels)))
    for (g, gold), (k, wrong) in itertools.permutations(enumerate(labels), 2):
        named = [costs[label] for costs, label in ((missed, gold), (invented, wrong)) if label in costs]
        table[g, k] = max(named, default=0.5)
    value = 0.0
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        sequence, gold_labels = reference.sequence(problem.scores, first, last), problem.batch.gold[first:last].tolist()
        paths, scores = reference.completions(sequence)
        costs = sum((table[g, paths[:, t]] for t, g in enumerate(gold_labels) if g >= 0), start=np.zeros(len(paths)))
        agreeing = reference.completions(sequence, gold_labels)[1]
        if kind is SoftmaxMargin:
            value += problem.batch.weights[n] * (reference.log_sum(scores + costs) - reference.log_sum(agreeing))
        elif any(label >= 0 for label in gold_labels):
            value += problem.batch.weights[n] * ((scores + costs).max() - agreeing.max())
    loss = kind(0.5, missed, invented).bind(labels, None)
    assert loss(*problem, problem.scores.zeros_like()) == pytest.approx(value, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize(
    ("missed", "invented", "expected"),
    [
        ({}, {}, [[0, 2, 2], [2, 0, 2], [2, 2, 0]]),
        ({"PER": 5}, {}, [[0, 2, 2], [5, 0, 5], [5, 5, 0]]),
        ({}, {"PER": 1}, [[0, 1, 1], [2, 0, 1], [2, 1, 0]]),
        ({"PER": 5}, {"PER": 1}, [[0, 1, 1], [5, 0, 5], [5, 5, 0]]),
        ({"O": 9, "I-PER": 0.5}, {}, [[0, 9, 9], [2, 0, 2], [0.5, 0.5, 0]]),
    ],
)
def test_costs_are_named_by_types_or_tags(missed: Any, invented: Any, expected: Any) -> None:
    bound = SoftmaxMargin(2.0, missed, invented).bind(["O", "B-PER", "I-PER"], "IOB2")
    np.testing.assert_array_equal(bound.costs(3), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_negatives": {"PRE": 5.0}}, "false_negatives: the component has no label 'PRE'. Did you mean 'PER'?"),
        ({"false_positives": {"PER": 5.0, "B-PER": 1.0}}, "false_positives: 'PER' and 'B-PER' both contain 'B-PER'"),
        ({"false_negatives": {"PER": -1.0}}, "the cost of 'PER' in false_negatives must be a number, 0 or more"),
        ({"false_negatives": {"PER": float("nan")}}, "the cost of 'PER' in false_negatives must be a number"),
        ({"false_negatives": {"PER": "5"}}, "the cost of 'PER' in false_negatives must be a number"),
        ({"false_positives": 5.0}, "false_positives must map labels to costs"),
        ({"cost": -1.0}, "cost must be a number, 0 or more, but -1.0 was given"),
    ],
)
def test_costs_that_cannot_be_used_are_refused(settings: Any, message: str) -> None:
    for kind in (SoftmaxMargin, Hinge):
        with pytest.raises(ConfigError, match=re.escape(message)):
            kind(**settings).bind(["O", "B-PER", "I-PER"], "IOB2")


def test_costs_by_label_need_the_names_of_labels() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2], shared=True)
    for loss in BY_LABEL.values():
        with pytest.raises(ConfigError, match="needs the names of labels"):
            loss(*problem, problem.scores.zeros_like())


@given(problems())
def test_hinge_bounds_the_perceptron_and_softmax_margin_both(problem: Problem) -> None:
    names = ("Perceptron", "Hinge", "SoftmaxMargin")
    values = [evaluate(registry.losses.get(f"spacy_crfseq.{name}.v1")(), problem)[0] for name in names]
    log_loss = evaluate(registry.losses.get("spacy_crfseq.SequentialLog.v1")(), problem)[0]
    labelled = (problem.batch.gold >= 0).all()
    assert values[0] <= values[1] + 1e-9
    assert log_loss <= values[2] + 1e-9
    assert not labelled or values[1] <= values[2] + 1e-9


@given(problems(dtypes=(np.float32, np.float64)))
def test_the_joint_log_loss_sums_over_the_labellings_that_agree(problem: Problem) -> None:
    value, gradient = evaluate(LOSSES["spacy_crfseq.JointLog.v1"], problem)
    expected, counts = 0.0, np.zeros_like(problem.scores.emissions)
    for n, (first, last) in enumerate(problem.sequence_bounds()):
        sequence, gold, weight = (
            reference.sequence(problem.scores, first, last),
            problem.batch.gold[first:last],
            problem.batch.weights[n],
        )
        if last > first:
            expected -= weight * reference.log_partition(sequence, gold)
            counts[first:last] = weight * reference.expectations(sequence, gold).emissions
    assert value == pytest.approx(expected, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(gradient.emissions, -counts, atol=1e-5)


def test_the_pointwise_exponential_loss_counts_known_labels_only() -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[4], shared=True, weighted=False)
    scores = problem.scores._replace(emissions=np.zeros((4, 3)), transitions=np.zeros((1, 3, 3)))
    scores = scores._replace(start=np.zeros(3), end=np.zeros(3))
    gold = np.array([0, MISSING, MISSING, 1], np.int32)
    loss = PointwiseExp()(scores, problem.batch._replace(gold=gold), scores.zeros_like())
    assert loss == pytest.approx(2 * 3)  # 1 / P of each known label


@pytest.mark.parametrize("name", ["SequentialExp", "PointwiseExp"])
def test_caps_go_up_to_thirty(name: str) -> None:
    make: Any = registry.losses.get(f"spacy_crfseq.{name}.v1")
    assert make(cap=30.0).cap == 30.0
    with pytest.raises(ConfigError, match=r"cap must be from 0 to 30, but it is 30\.1"):
        make(cap=30.1)


@every_loss("candidates")
def test_sequences_without_weight_cost_nothing_even_if_they_are_impossible(loss: Loss) -> None:
    """Two sequences of one token; the candidates of the second have a score of minus infinity, but its weight is 0."""
    scores = Scores(np.array([[0.5, 1.0], [0.0, -np.inf]]), np.zeros((1, 2, 2)), np.zeros(2), np.zeros(2))
    sets = Candidates(np.array([[False, True]]), ())
    gold, weights = np.array([0, MISSING - 1], np.int32), np.array([1.0, 0.0])
    batch = Batch(np.array([0, 1, 2]), gold, weights, sets)
    alone = Batch(np.array([0, 1]), gold[:1], weights[:1], sets)
    gradient, first = scores.zeros_like(), scores._replace(emissions=scores.emissions[:1])
    loss, _ = ready(loss, Problem(scores, batch))
    expected = first.zeros_like()
    assert loss(scores, batch, gradient) == loss(first, alone, expected)
    np.testing.assert_array_equal(gradient.emissions, [*expected.emissions, [0, 0]])
