"""Augmented-loss training against enumeration and against the averaged perceptron; schedules, seeds, interrupts."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.losses.perceptron import Perceptron
from spacy_crfseq.optimizers.mistakes import AveragedPerceptron
from spacy_crfseq.papers.augmented.training import (
    SetReport,
    Settings,
    TuningRun,
    TuningSet,
    gold_set,
    train,
)
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.schemes import transition_table
from spacy_crfseq.training.dataset import Dataset
from spacy_crfseq.types import MISSING, Bools, Floats, Ints, Scores
from tests import reference
from tests.problems import BIGRAM_TEMPLATES, Training, all_allowed, plain_scores, training_problem

LABELS = ["O", "B-A", "I-A"]
CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all"},
    "no boundaries": {"boundaries": False},
    "tag dictionary": {"dictionary_size": 4},
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def problem(seed: int = 3, **settings: Any) -> Training:
    return training_problem(seed, loss=Perceptron(), regularizer=NoRegularizer(), **settings)


def ranked(
    data: Dataset, costs: Sequence[Callable[[Ints], float]], examples: Sequence[int], allowed: Bools | None = None
) -> TuningSet:
    unlabelled = data._replace(gold=np.full_like(data.gold, MISSING), groups=np.array(examples))
    return TuningSet("ranked", unlabelled, costs, allowed)


def hamming_on(gold: Ints, tokens: Sequence[int]) -> Callable[[Ints], float]:
    return lambda labels: float(sum(labels[t] != gold[t] for t in tokens))


# The perceptron's part


@EVERY_CASE
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_gold_labels_alone_are_the_averaged_perceptron(case: str, missing: float) -> None:
    training = problem(missing=missing, weighted=True, **CASES[case])
    theta, expected = training.random_theta(np.random.default_rng(1)), np.empty(training.layout.size)
    optimizer, settings = AveragedPerceptron(seed=5), Settings(rate=1.0, rounds=3, seed=5)
    state = optimizer.start(theta)
    for _ in range(3):
        optimizer.iterate(training.objective, state)
    optimizer.export(state, expected)
    gold = gold_set("gold", training.objective.data)
    result = train(training.model(theta, LABELS), all_allowed(3), [gold], settings)
    np.testing.assert_allclose(result.last, expected, atol=1e-9)
    assert np.abs(expected - theta).max() > 0.05


@EVERY_CASE
@pytest.mark.parametrize("seed", range(4))
def test_a_step_of_the_perceptron_keeps_the_constraints(case: str, seed: int) -> None:
    training = problem(seed, n_sequences=20, templates=("ORTH[0]", "SUFFIX2"), **CASES[case])
    theta, constraints = training.random_theta(np.random.default_rng(seed)), transition_table(LABELS, "IOB2")
    whole = training.objective.data
    data = whole.take(np.flatnonzero(np.diff(whole.encoded.offsets) == 4)[:1])
    gold = np.array([1, 2, 2, 0], np.int32)
    data = data._replace(gold=gold)
    dictionary = training.objective.dictionary
    allowed = None if dictionary is None else dictionary.labels_of(data.encoded.words, gold)
    scores = plain_scores(training.layout, theta, data.encoded).constrained(constraints, allowed)
    best = slow_ranking(scores, data.encoded.offsets, 3)[0][1]
    expected = theta + 0.5 * (features_of(training, data, gold) - features_of(training, data, best))
    result = train(training.model(theta, LABELS), constraints, [gold_set("gold", data)], Settings(rate=0.5, rounds=1))
    np.testing.assert_allclose(result.last, expected, atol=1e-9)


def test_gold_labels_that_break_the_constraints_make_no_step() -> None:
    training = problem(n_sequences=6)
    theta = training.random_theta(np.random.default_rng(2))
    impossible = training.objective.data._replace(gold=np.full_like(training.objective.data.gold, 2))
    sets = [gold_set("gold", impossible)]
    result = train(training.model(theta, LABELS), transition_table(LABELS, "IOB2"), sets, Settings())
    assert result.reason == "no step changes anything any more"
    np.testing.assert_array_equal(result.last, theta)


# The ranker's part


def features_of(training: Training, data: Dataset, labels: Ints) -> Floats:
    """Return Phi [D]: how much each weight adds to the score of the labels."""
    size, offsets = training.layout.size, data.encoded.offsets
    phi = np.zeros(size)
    for i in range(size):
        unit = np.zeros(size)
        unit[i] = 1.0
        phi[i] = total_score(plain_scores(training.layout, unit, data.encoded), offsets, labels)
    training.objective.potential.zero_frozen(phi)
    return phi


def total_score(scores: Scores, offsets: np.ndarray, labels: Ints) -> float:
    return sum(
        reference.path_score(reference.sequence(scores, b, e), labels[b:e])
        for b, e in itertools.pairwise(offsets.tolist())
        if e > b
    )


def slow_ranking(scores: Scores, offsets: np.ndarray, n_labels: int) -> list[tuple[float, Ints]]:
    """Return all labellings of some sequences together with their scores, best first."""
    n_tokens = int(offsets[-1])
    found = [np.array(path, np.int32) for path in itertools.product(range(n_labels), repeat=n_tokens)]
    scored = [(total_score(scores, offsets, labels), labels) for labels in found]
    return sorted((pair for pair in scored if pair[0] > -np.inf), key=lambda pair: -pair[0])


@EVERY_CASE
@pytest.mark.parametrize("seed", range(6))
def test_a_step_of_the_ranker_equals_enumeration(case: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    training = problem(seed, n_sequences=30, templates=("ORTH[0]", "SUFFIX2"), **CASES[case])
    whole, theta = training.objective.data, training.random_theta(rng)
    sizes = np.diff(whole.encoded.offsets)
    chosen = np.concatenate([np.flatnonzero(sizes == size)[:1] for size in (2, 4)])
    data = whole.take(chosen)
    constraints, n_tokens = transition_table(LABELS, "IOB2"), data.encoded.n_tokens
    allowed = rng.random((n_tokens, 3)) < 0.9
    allowed[:, 0] = True
    dictionary = training.objective.dictionary
    restricted = allowed if dictionary is None else allowed & dictionary.labels_of(data.encoded.words)
    table = rng.permutation(3**n_tokens).astype(float)
    k, rate = 5, 0.3

    def cost(labels: Ints) -> float:
        return float(table[int("".join(map(str, labels)), 3)])

    scores = plain_scores(training.layout, theta, data.encoded).constrained(constraints, restricted)
    best = [labels for _, labels in slow_ranking(scores, data.encoded.offsets, 3)[:k]]
    target = min(best, key=cost)
    expected = theta.copy()
    if cost(target) < cost(best[0]):
        expected += rate * (features_of(training, data, target) - features_of(training, data, best[0]))
    source = ranked(data, [cost], [0, data.n_sequences], allowed)
    trainer = TuningRun(training.model(theta, LABELS), constraints, [source], Settings(k=k, rate=rate))
    trainer.iterate()
    found = np.empty_like(theta)
    trainer.export(trainer.start(found), found)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert trainer.reports == [SetReport("ranked", 1, int(cost(target) < cost(best[0])), cost(best[0]))]


def test_of_equally_cheap_labellings_the_most_probable_one_is_learnt() -> None:
    training = problem(n_sequences=3, templates=("ORTH[0]",))
    data, theta = training.objective.data.slice(0, 1), training.random_theta(np.random.default_rng(0))
    n_tokens = data.encoded.n_tokens
    scores = plain_scores(training.layout, theta, data.encoded)
    best = [labels for _, labels in slow_ranking(scores, data.encoded.offsets, 3)]

    def cost(labels: Ints) -> float:
        return float((labels == best[0]).all())

    assert n_tokens > 1
    trainer = TuningRun(
        training.model(theta, LABELS), all_allowed(3), [ranked(data, [cost], [0, 1])], Settings(k=9, rate=1.0)
    )
    trainer.iterate()
    found = np.empty_like(theta)
    trainer.export(trainer.start(found), found)
    expected = theta + features_of(training, data, best[1]) - features_of(training, data, best[0])
    np.testing.assert_allclose(found, expected, atol=1e-9)


# Whole runs


def half_known(training: Training, seed: int = 0) -> TuningSet:
    """Return a set of which every other token is known, and nothing else."""
    data = training.objective.data
    offsets, gold = data.encoded.offsets.tolist(), data.gold
    costs = [hamming_on(gold[b:e], range(0, e - b, 2)) for b, e in itertools.pairwise(offsets)]
    return ranked(data, costs, range(data.n_sequences + 1))


def test_the_schedule_says_how_many_examples_each_set_gives() -> None:
    training = problem(n_sequences=20)
    data, theta = training.objective.data, np.zeros(training.layout.size)
    sets = [gold_set("gold", data), half_known(training)]

    def examples(**settings: Any) -> list[int]:
        trainer = TuningRun(training.model(theta, LABELS), all_allowed(3), sets, Settings(**settings))
        trainer.iterate()
        assert Settings(**settings).steps_of(sets) == sum(report.examples for report in trainer.reports)
        return [report.examples for report in trainer.reports]

    assert examples() == [20, 20]
    assert examples(schedule={"ranked": 3}) == [20, 60]
    assert examples(schedule={"gold": 8, "ranked": 7}) == [24, 21]
    assert examples(schedule={"gold": 2, "ranked": 1}, turns=4) == [8, 4]


def test_every_example_is_taken_once_before_any_is_again() -> None:
    training = problem(n_sequences=10)
    taken: list[int] = []
    data = training.objective.data

    def cost(number: int) -> Callable[[Ints], float]:
        def of(labels: Ints) -> float:
            taken.append(number)
            return 0.0

        return of

    source = ranked(data, [cost(n) for n in range(10)], range(11))
    trainer = TuningRun(
        training.model(np.zeros(training.layout.size), LABELS), all_allowed(3), [source], Settings(turns=15)
    )
    assert trainer.iterate().message == "no step changes anything any more"
    trainer.iterate()
    assert [sorted(taken[first : first + 10]) for first in (0, 10, 20)] == [list(range(10))] * 3
    assert taken[:10] != taken[10:20]


def test_the_best_on_the_dev_corpus_is_kept_and_patience_ends_a_run() -> None:
    training = problem(n_sequences=10)
    theta = training.random_theta(np.random.default_rng(4))
    scores = iter([0.4, 0.5, 0.7, 0.6, 0.6])
    seen: list[Floats] = []

    def evaluate(parameters: Floats) -> float:
        seen.append(parameters.copy())
        return next(scores)

    crf, sets = training.model(theta, LABELS), [half_known(training)]
    result = train(crf, all_allowed(3), sets, Settings(rounds=20), evaluate=evaluate, patience=2)
    np.testing.assert_array_equal(result.best, seen[2])
    np.testing.assert_array_equal(result.last, seen[4])
    np.testing.assert_array_equal(seen[0], theta)
    assert result.reason == "no better score in 2 evaluations"
    unchanged = lambda parameters: float((parameters == theta).all())  # noqa: E731
    result = train(crf, all_allowed(3), sets, Settings(rounds=2), evaluate=unchanged)
    np.testing.assert_array_equal(result.best, theta)  # the model as it was is a candidate, too
    assert not any(progress.best for progress in result.history)


def test_an_interrupt_keeps_the_average_of_what_was_done() -> None:
    training = problem(n_sequences=20)
    theta = training.random_theta(np.random.default_rng(4))
    steps = itertools.count(1)

    def stop() -> None:
        if next(steps) == 25:
            raise KeyboardInterrupt

    crf, sets = training.model(theta, LABELS), [gold_set("gold", training.objective.data)]
    result = train(crf, all_allowed(3), sets, Settings(rounds=9, turns=20), watch=stop)
    expected = np.empty_like(theta)
    trainer = TuningRun(crf, all_allowed(3), sets, Settings(turns=24))  # the step that was under way is not made
    trainer.iterate()
    trainer.export(trainer.start(expected), expected)
    assert result.reason == "interrupted"
    assert len(result.history) == 1
    np.testing.assert_array_equal(result.last, expected)
    np.testing.assert_array_equal(crf.theta, theta)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 1}, "k = 1 must be at least 2"),
        ({"rate": 0.0}, "rate = 0.0 must be positive"),
        ({"rate": float("nan")}, "must be positive"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"turns": -1}, "turns"),
        ({"seed": -1}, "seed"),
        ({"schedule": {"gold": 0}}, "gold = 0 must be at least 1"),
        ({"schedule": {"golden": 2}}, "no data set 'golden'. Did you mean 'gold'"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    training = problem(n_sequences=5)
    crf = training.model(np.zeros(training.layout.size), LABELS)
    with pytest.raises(ConfigError, match=message):
        TuningRun(crf, all_allowed(3), [gold_set("gold", training.objective.data)], Settings(**settings))


def test_data_sets_that_teach_nothing() -> None:
    training = problem(n_sequences=5, missing=1.0)
    with pytest.raises(DataError, match="'gold' holds no gold labels"):
        gold_set("gold", training.objective.data)
    crf = training.model(np.zeros(training.layout.size), LABELS)
    empty = ranked(training.objective.data.slice(0, 0), [], [0])
    with pytest.raises(DataError, match="'ranked' is empty"):
        TuningRun(crf, all_allowed(3), [empty], Settings())
