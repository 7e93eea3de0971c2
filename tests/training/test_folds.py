"""Folds: every document once, copies together, sizes alike, the same for one seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.training.dataset import folds


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
