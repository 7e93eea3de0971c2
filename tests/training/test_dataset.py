"""Data sets that share a table of candidate sets; folds: every document once, copies together, sizes alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.training.dataset import Dataset, folds, join
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


@given(st.lists(st.integers(0, 30), min_size=40, max_size=80), st.integers(2, 5), st.integers(0, 3))
def test_each_document_is_held_out_once_and_copies_together(keys: list[int], k: int, seed: int) -> None:
    if len(set(keys)) < k:
        return
    found = folds(keys, k, seed)
    assert np.sort(np.concatenate(found)).tolist() == list(range(len(keys)))
    homes = {key: {i for i, fold in enumerate(found) for n in fold.tolist() if keys[n] == key} for key in keys}
    assert all(len(home) == 1 for home in homes.values())
    assert [fold.tolist() for fold in found] == [fold.tolist() for fold in folds(keys, k, seed)]


def test_sizes_seeds_and_what_cannot_be() -> None:
    found = folds(range(103), 5, 1)
    assert sorted(map(len, found)) == [20, 20, 21, 21, 21]
    assert found[0].tolist() != folds(range(103), 5, 2)[0].tolist()
    with pytest.raises(ConfigError, match="--cross-validate 1: give a number of folds from 2 on"):
        folds(range(9), 1)
    with pytest.raises(DataError, match="has only 2 different documents"):
        folds(["a", "a", "b"], 3)


def test_folds_of_groups_of_many_sizes_are_of_equal_size() -> None:
    keys = [*"aaaaaaaabbbbcccdddee"]
    for seed in range(5):
        assert [len(part) for part in folds(keys, 2, seed)] == [10, 10]
