"""Feature selection against plain counts of one token at a time."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.potentials.layout import DenseRows, Rows
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import Objective
from spacy_crfseq.training.selection import Counts, count_features, most_informative, mutual_information, thresholded
from tests.problems import BIGRAM_TEMPLATES, Training, ids_of_tokens, plain_scores, training_problem

each_kind = pytest.mark.parametrize(
    ("support", "bigram_templates"), [("observed", ()), ("observed", BIGRAM_TEMPLATES), ("all", BIGRAM_TEMPLATES)]
)


def make(support: str, bigram_templates: tuple[str, ...], **kinds: object) -> Training:
    return training_problem(5, n_sequences=10, support=support, bigram_templates=bigram_templates, **kinds)  # type: ignore[arg-type]


def features(rows: Rows) -> list[tuple[int, int]]:
    """Return attribute and column of every weight."""
    if isinstance(rows, DenseRows):
        return [(row, column) for row in range(rows.n_rows) for column in range(rows.width)]
    return [(row, int(c)) for row in range(rows.n_rows) for c in rows.cols[rows.ptr[row] : rows.ptr[row + 1]]]


def occurrences(training: Training) -> tuple[list[tuple[float, list[int], int]], list[tuple[float, list[int], int]]]:
    """Return weight, attributes and column of each labelled token, and of each labelled pair of neighbours."""
    data = training.objective.data
    unigrams, bigrams = ids_of_tokens(data.encoded.unigrams), ids_of_tokens(data.encoded.bigrams)
    singles, pairs = [], []
    for n, (first, last) in enumerate(zip(data.encoded.offsets[:-1], data.encoded.offsets[1:], strict=True)):
        for t in range(first, last):
            label, before = int(data.gold[t]), int(data.gold[t - 1])
            if label >= 0:
                singles.append((float(data.weights[n]), unigrams[t], label))
            if t > first and label >= 0 and before >= 0:
                pairs.append((float(data.weights[n]), bigrams[t], before * training.layout.n_labels + label))
    return singles, pairs


@each_kind
@pytest.mark.parametrize("kinds", [{}, {"missing": 0.3, "weighted": True}])
def test_information_equals_its_definition(
    support: str, bigram_templates: tuple[str, ...], kinds: dict[str, object]
) -> None:
    training = make(support, bigram_templates, **kinds)
    layout = training.layout
    found = count_features(layout, training.objective.data)
    for rows, counts, tokens in zip((layout.unigrams, layout.bigrams), found, occurrences(training), strict=True):
        information = mutual_information(counts)
        total = sum(weight for weight, _, _ in tokens)
        for i, (attribute, column) in enumerate(features(rows)):
            cells = {(a, y): 0.0 for a in (False, True) for y in (False, True)}
            for weight, attributes, gold in tokens:
                n = layout.n_labels  # of a pair, the previous label is part of what predicts
                present = attribute in attributes and gold // n == column // n
                cells[present, gold % n == column % n] += weight / total
            share = {a: cells[a, False] + cells[a, True] for a in (False, True)}
            label = {y: cells[False, y] + cells[True, y] for y in (False, True)}
            expected = sum(p * log(p / (share[a] * label[y])) for (a, y), p in cells.items() if p > 0)
            assert information[i] == pytest.approx(expected, abs=1e-12)
            assert counts.both[i] == pytest.approx(cells[True, True] * total)


def test_of_what_never_or_always_happens_nothing_is_learnt() -> None:
    both, attribute, label = (np.array(values, np.float64) for values in ([0, 4, 2], [0, 4, 2], [3, 4, 4]))
    assert mutual_information(Counts(both, attribute, label, 4.0)).tolist() == [0, 0, 0]
    nothing = np.zeros(2)
    assert mutual_information(Counts(nothing, nothing, nothing, 0.0)).tolist() == [0, 0]


@each_kind
@pytest.mark.parametrize("size", [0, 7, 10_000])
def test_the_most_informative_weights_stay(support: str, bigram_templates: tuple[str, ...], size: int) -> None:
    training = make(support, bigram_templates)
    layout, data = training.layout, training.objective.data
    small = most_informative(layout, data, size)
    weights = layout.unigrams.size + layout.bigrams.size
    assert small.unigrams.size + small.bigrams.size == min(size, weights)
    information = [mutual_information(counts) for counts in count_features(layout, data)]
    left, right = ({*features(rows)} for rows in (small.unigrams, small.bigrams))
    kept = np.array([f in left for f in features(layout.unigrams)] + [f in right for f in features(layout.bigrams)])
    everything = np.concatenate(information)
    assert everything[kept].min(initial=np.inf) >= everything[~kept].max(initial=-np.inf)
    assert kept.sum() == min(size, weights)
    np.testing.assert_array_equal(small.steps, layout.steps)


@each_kind
def test_a_selected_layout_is_trained_on_the_same_data(support: str, bigram_templates: tuple[str, ...]) -> None:
    training = make(support, bigram_templates)
    small = most_informative(training.layout, training.objective.data, 15)
    objective = Objective(Linear(small), training.objective.terms, training.objective.regularizer)
    result = fit(objective, LBFGS(), np.zeros(small.size))
    assert result.history[-1].report.converged
    assert objective.value(result.best) < objective.value(np.zeros(small.size))


@each_kind
def test_thresholding_sets_small_weights_to_zero(support: str, bigram_templates: tuple[str, ...]) -> None:
    training = make(support, bigram_templates)
    theta = training.random_theta(np.random.default_rng(0))
    small, moved = thresholded(training.layout, theta, 0.3)
    expected = plain_scores(training.layout, np.where(np.abs(theta) > 0.3, theta, 0), training.encoded)
    assert moved.size == small.size < theta.size
    for found, wanted in zip(plain_scores(small, moved, training.encoded), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    free = np.ones(small.size)
    small.zero_frozen(free)
    transitions = training.layout.views(theta).transitions
    np.testing.assert_array_equal(small.views(free).transitions > 0, np.abs(transitions) > 0.3)


def test_thresholding_and_training_again_lowers_the_objective() -> None:
    training = training_problem(5, n_sequences=30)
    objective = training.objective
    theta = fit(objective, LBFGS(), np.zeros(training.layout.size)).best
    layout, start = thresholded(training.layout, theta, 0.1)
    small = Objective(Linear(layout), objective.terms, objective.regularizer)
    again = fit(small, LBFGS(), start).best
    assert objective.value(theta) <= small.value(again) < small.value(start)
    np.testing.assert_array_equal(layout.views(again).transitions[layout.steps == False], 0)  # noqa: E712
