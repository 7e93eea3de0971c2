"""Data sets that share a table of candidate sets."""

from __future__ import annotations

import numpy as np

from spacy_crfseq.training.dataset import Dataset, join
from spacy_crfseq.types import MISSING, Candidates, IncorrectSpan
from tests.problems import ids_of_tokens, training_problem


def pairs(data: Dataset) -> set[tuple[int, int]]:
    """Return the attributes and labels that stand at one token."""
    attributes = ids_of_tokens(data.encoded.unigrams)
    return {(a, int(k)) for ids, k in zip(attributes, data.gold, strict=True) for a in ids if k >= 0}


def test_parts_see_sets_that_are_added_later() -> None:
    data = training_problem(1, candidates=0.5).objective.data
    part = join([data.slice(2, 5), data.take(np.array([7, 0]))])
    assert data.table is not None
    sets, incorrect = data.table.now
    data.table.now = Candidates(np.concatenate([sets, ~sets]), incorrect)
    for found in (part.batch(0, 5), part.sample(3).batch(0, 3), data.batch(1, 4)):
        assert found.candidates is data.table.now
    assert data.has_candidates
    assert not data._replace(gold=np.maximum(data.gold, MISSING)).has_candidates


def test_what_a_loss_has_read_stays_with_its_tokens() -> None:
    data = training_problem(1, candidates=0.5).objective.data
    data = data._replace(inputs=np.arange(data.encoded.n_tokens)[:, None] * [1, 10])
    begin = data.encoded.offsets[:-1]
    part = join([data.slice(2, 4), data.take(np.array([5, 0]))])
    assert part.inputs is not None
    assert part.inputs[part.encoded.offsets[:-1], 0].tolist() == begin[[2, 3, 5, 0]].tolist()
    found = part.batch(2, 4).inputs
    assert found is not None
    assert found[:, 1].tolist()[0] == 10 * begin[5]
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
    found = data._replace(gold=gold).observed()
    ids = ids_of_tokens(data.encoded.unigrams)
    labels = {first: {0, 3}, first + 1: {2}, first + 2: {2}, first + 3: {3}}
    assert pairs(found) == {(a, k) for token, those in labels.items() for a in ids[token] for k in those}
    assert found.n_sequences == data.n_sequences + 5
    np.testing.assert_array_equal(found.encoded.offsets[: data.n_sequences + 1], data.encoded.offsets)


def test_sequences_with_a_known_label() -> None:
    """A set of candidates is no known label."""
    data = training_problem(1, n_sequences=4).objective.data
    offsets, gold = data.encoded.offsets, np.full(data.encoded.n_tokens, MISSING, np.int32)
    full = np.flatnonzero(np.diff(offsets))
    gold[offsets[full[0]]], gold[offsets[full[1]]] = MISSING - 1, 0
    found = data._replace(gold=gold, weights=np.arange(4.0)).labelled()
    assert found.weights.tolist() == [float(full[1])]
