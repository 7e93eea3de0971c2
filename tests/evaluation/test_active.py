"""Measures of active learning: closed forms, limits, and that each is largest where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.evaluation.active import least_confidence, list_entropy, margin, token_entropies

weights = st.lists(st.floats(1e-6, 1), min_size=1, max_size=6)


def distribution(numbers: list[float]) -> np.ndarray:
    p = np.sort(np.array(numbers))[::-1]
    return p / p.sum()


@given(weights)
def test_closed_forms(numbers: list[float]) -> None:
    p = distribution(numbers)
    logs = np.log(p)
    entropy = -sum(x * math.log(x) for x in p)
    assert least_confidence(logs[0]) == pytest.approx(1 - p[0], abs=1e-12)
    assert margin(logs) == pytest.approx(1 - p[0] + (p[1] if len(p) > 1 else 0))
    assert list_entropy(logs) == pytest.approx(entropy, abs=1e-12)
    assert token_entropies(np.array([p, p[::-1]])) == pytest.approx([entropy, entropy], abs=1e-12)
    # of a list, only the ratios count: there may be others
    assert list_entropy(logs - 5.0) == pytest.approx(entropy, abs=1e-9)


@given(weights)
def test_larger_where_less_is_known(numbers: list[float]) -> None:
    p = distribution(numbers)
    even = np.full(len(p), 1 / len(p))
    assert least_confidence(np.log(p[0])) <= least_confidence(np.log(even[0])) + 1e-12
    assert margin(np.log(p)) <= margin(np.log(even)) + 1e-12
    assert list_entropy(np.log(p)) <= list_entropy(np.log(even)) + 1e-12
    assert list_entropy(np.log(even)) == pytest.approx(math.log(len(p)), abs=1e-12)


def test_certainty_teaches_nothing() -> None:
    # single precision may carry probabilities a little beyond one
    assert least_confidence([0.0, 1e-7]).tolist() == [0.0, 0.0]
    assert margin([0.0]) == 0.0
    assert list_entropy([-800.0]) == 0.0
    assert list_entropy([0.0, -math.inf]) == 0.0
    assert token_entropies(np.array([[1.0 + 1e-7, 0.0], [0.5, 0.5]])) == pytest.approx([0.0, math.log(2)])
    assert token_entropies(np.zeros((0, 3))).shape == (0,)
    # a tiny doubt is not lost
    assert least_confidence(-1e-12) == pytest.approx(1e-12)
