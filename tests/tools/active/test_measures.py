"""Measures of active learning: closed forms, limits, and that each is largest where nothing is known."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.tools.active import diverse

weights = st.lists(st.floats(1e-6, 1), min_size=1, max_size=6)


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
