"""Data sets that share a table of candidate sets; folds: every document once, copies together, sizes alike."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.potentials.layout import DenseRows, WeightRows
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.training.dataset import Dataset, folds, join
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import Objective
from spacy_crfseq.training.selection import Counts, count_features, most_informative, mutual_information
from spacy_crfseq.types import MISSING, Candidates, IncorrectSpan
from tests.problems import BIGRAM_TEMPLATES, Training, ids_of_tokens, plain_scores, training_problem


def pairs(data: Dataset) -> set[tuple[int, int]]:
    """Return the attributes and labels that stand at one token."""
    attributes = ids_of_tokens(data.encoded.unigrams)
    return {(a, int(k)) for ids, k in zip(attributes, data.gold, strict=True) for a in ids if k >= 0}


def test_parts_see_sets_that_are_added_later() -> None:
    data = training_problem(1, candidates=0.5).objective.data
    part = join([data.slice(2, 5), data.take(np.array([7, 0]))])
    assert data.table is not None
    sets, incorrect, _ = data.table.now
    data.table.now = Candidates(np.concatenate([sets, ~sets]), incorrect)
    for result in (part.batch(0, 5), part.sample(3).batch(0, 3), data.batch(1, 4)):
        assert result.candidates is data.table.now
    assert data.has_candidates
    assert not data._replace(gold=np.maximum(data.gold, MISSING)).has_candidates


def test_inputs_of_a_loss_stay_with_their_tokens() -> None:
    data = training_problem(1, candidates=0.5).objective.data
    data = data._replace(inputs=np.arange(data.encoded.n_tokens)[:, None] * [1, 10])
    begin = data.encoded.offsets[:-1]
    part = join([data.slice(2, 4), data.take(np.array([5, 0]))])
    assert part.inputs is not None
    assert part.inputs[part.encoded.offsets[:-1], 0].tolist() == begin[[2, 3, 5, 0]].tolist()
    result = part.batch(2, 4).inputs
    assert result is not None
    assert result[:, 1].tolist()[0] == 10 * begin[5]
    sample = data.sample(3)
    assert sample.inputs is not None
    assert len(sample.inputs) == sample.encoded.n_tokens
    assert data.observed().inputs is None


def test_attributes_are_observed_with_the_labels_that_sets_and_spans_tell_of() -> None:
    data = training_problem(2, n_labels=5).objective.data
    assert data.observed() is data
    assert data.table is not None
    few, many = np.array([1, 0, 0, 1, 0], np.bool_), np.array([1, 1, 0, 1, 1], np.bool_)
    span = IncorrectSpan(2, 2, np.array([[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 0]], np.bool_))
    data.table.now = Candidates(np.stack([few, many, np.ones(5, np.bool_)]), (span,))
    first = int(data.encoded.offsets[np.flatnonzero(np.diff(data.encoded.offsets) > 3)[0]])
    gold = np.full_like(data.gold, MISSING)
    gold[[first, first + 1]] = MISSING - 1, MISSING - 2
    gold[first + 2] = MISSING - 3
    result = data._replace(gold=gold).observed()
    ids = ids_of_tokens(data.encoded.unigrams)
    labels = {first: {0, 3}, first + 1: {2}, first + 2: {2}, first + 3: {3}}
    assert pairs(result) == {(a, k) for token, those in labels.items() for a in ids[token] for k in those}
    assert result.n_sequences == data.n_sequences + 5
    np.testing.assert_array_equal(result.encoded.offsets[: data.n_sequences + 1], data.encoded.offsets)


def test_sequences_with_a_known_label() -> None:
    """A set of candidates is no known label."""
    data = training_problem(1, n_sequences=4).objective.data
    offsets, gold = data.encoded.offsets, np.full(data.encoded.n_tokens, MISSING, np.int32)
    full = np.flatnonzero(np.diff(offsets))
    gold[offsets[full[0]]], gold[offsets[full[1]]] = MISSING - 1, 0
    result = data._replace(gold=gold, weights=np.arange(4.0)).labelled()
    assert result.weights.tolist() == [float(full[1])]


@given(st.lists(st.integers(0, 30), min_size=40, max_size=80), st.integers(2, 5), st.integers(0, 3))
def test_each_document_is_held_out_once_and_copies_together(keys: list[int], k: int, seed: int) -> None:
    if len(set(keys)) < k:
        return
    parts = folds(keys, k, seed)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(keys)))
    homes = {key: {i for i, fold in enumerate(parts) for n in fold.tolist() if keys[n] == key} for key in keys}
    assert all(len(home) == 1 for home in homes.values())
    assert [fold.tolist() for fold in parts] == [fold.tolist() for fold in folds(keys, k, seed)]


def test_sizes_seeds_and_what_cannot_be() -> None:
    parts = folds(range(103), 5, 1)
    assert sorted(map(len, parts)) == [20, 20, 21, 21, 21]
    assert parts[0].tolist() != folds(range(103), 5, 2)[0].tolist()
    with pytest.raises(ConfigError, match="--cross-validate 1: give a number of folds from 2 on"):
        folds(range(9), 1)
    with pytest.raises(DataError, match="has only 2 different documents"):
        folds(["a", "a", "b"], 3)


def test_folds_of_groups_of_many_sizes_are_of_equal_size() -> None:
    keys = [*"aaaaaaaabbbbcccdddee"]
    for seed in range(5):
        assert [len(part) for part in folds(keys, 2, seed)] == [10, 10]


# --- feature selection against plain counts of one token at a time --------------------------------------------------


each_kind = pytest.mark.parametrize(
    ("support", "bigram_templates"), [("observed", ()), ("observed", BIGRAM_TEMPLATES), ("all", BIGRAM_TEMPLATES)]
)


def make(support: str, bigram_templates: tuple[str, ...], **kinds: object) -> Training:
    return training_problem(5, n_sequences=10, support=support, bigram_templates=bigram_templates, **kinds)  # type: ignore[arg-type]


def features(rows: WeightRows) -> list[tuple[int, int]]:
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
    actual = count_features(layout, training.objective.data)
    for rows, counts, tokens in zip((layout.unigrams, layout.bigrams), actual, occurrences(training), strict=True):
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
def test_a_layout_without_small_weights_scores_them_as_zeros(support: str, bigram_templates: tuple[str, ...]) -> None:
    training = make(support, bigram_templates)
    theta = training.random_theta(np.random.default_rng(0))
    kept = np.abs(theta) > 0.3
    small, moved = training.layout.restricted(kept), training.layout.move(theta, kept)
    expected = plain_scores(training.layout, np.where(np.abs(theta) > 0.3, theta, 0), training.encoded)
    assert moved.size == small.size < theta.size
    for actual, wanted in zip(plain_scores(small, moved, training.encoded), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-12)
    free = np.ones(small.size)
    Linear(small).zero_frozen(free)
    transitions = training.layout.views(theta).transitions
    np.testing.assert_array_equal(small.views(free).transitions > 0, np.abs(transitions) > 0.3)


def test_training_without_small_weights_lowers_the_objective() -> None:
    training = training_problem(5, n_sequences=30)
    objective = training.objective
    theta = fit(objective, LBFGS(), np.zeros(training.layout.size)).best
    kept = np.abs(theta) > 0.1
    layout, start = training.layout.restricted(kept), training.layout.move(theta, kept)
    small = Objective(Linear(layout), objective.terms, objective.regularizer)
    again = fit(small, LBFGS(), start).best
    assert objective.value(theta) <= small.value(again) < small.value(start)
    np.testing.assert_array_equal(layout.views(again).transitions[layout.steps == False], 0)  # noqa: E712


def test_an_incorrect_span_may_end_with_the_text() -> None:
    data = training_problem(2, n_labels=5).objective.data
    assert data.table is not None
    span = IncorrectSpan(0, 2, np.array([[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 0]], np.bool_))
    data.table.now = Candidates(np.ones((1, 5), np.bool_), (span,))
    for begin, labels in ((-2, 2), (-1, 0)):  # the second would end behind it
        gold = np.full_like(data.gold, MISSING)
        gold[begin] = MISSING - 1
        assert data._replace(gold=gold).observed().n_sequences == data.n_sequences + labels
