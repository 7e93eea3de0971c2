"""Measures of active learning: closed forms, limits, and that each is largest where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.tools.active import diverse, least_confidence, list_entropy, margin, token_entropies

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


def slowly(values: list[float], words: list[list[int]], number: int, weight: float) -> list[int]:
    sets = [set(of_text) for of_text in words]
    weights = {w: math.log1p(len(sets) / sum(w in one for one in sets)) for one in sets for w in one}

    def cosine(a: set[int], b: set[int]) -> float:
        norms = (math.sqrt(sum(weights[w] ** 2 for w in one)) for one in (a, b))
        return min(1.0, sum(weights[w] ** 2 for w in a & b) / math.prod(norms))

    chosen: list[int] = []
    while len(chosen) < min(number, len(sets)):
        nearest = [max((cosine(one, sets[i]) for i in chosen), default=0.0) for one in sets]
        gains = [-1 if i in chosen else value * (1 - nearest[i]) ** weight for i, value in enumerate(values)]
        chosen.append(max(range(len(gains)), key=gains.__getitem__))
    return chosen


@given(
    st.lists(
        st.tuples(st.integers(1, 1000), st.lists(st.integers(0, 9), min_size=1, max_size=6)), min_size=1, max_size=9
    ),
    st.integers(1, 10),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_greedy_choice_of_different_texts(texts: list[tuple[int, list[int]]], number: int, weight: float) -> None:
    values = [value + i / 17 for i, (value, _) in enumerate(texts)]  # no ties
    words = [of_text for _, of_text in texts]
    found = diverse(values, [np.array(one, np.uint64) for one in words], number, weight)
    assert len(set(found)) == len(found) == min(number, len(texts))
    expected = slowly(values, words, number, weight)
    distinct = len({frozenset(one) for one in words})
    assert found[: min(distinct, number)] == expected[: min(distinct, number)]  # copies are worth nothing, in any order
    by_value = sorted(range(len(values)), key=lambda i: -values[i])
    assert diverse(values, [np.array(one, np.uint64) for one in words], number, 0) == by_value[:number]
