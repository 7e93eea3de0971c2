"""Kinds of errors against a slow pairing that looks at all pairs again and again."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.schemes import Span
from spacy_crfseq.tools.report.findings import (
    BOTH,
    BOUNDARY,
    LABEL,
    MISSED,
    NOTHING,
    RIGHT,
    SPURIOUS,
    Pair,
    confusion,
    kinds_by_label,
    pair_spans,
    span_confusion,
)
from tests.evaluation.test_spans import span_lists


def slow_kind(gold, found):
    shared = set(range(gold.start, gold.end)) & set(range(found.start, found.end))
    if gold == found:
        return 0, RIGHT, shared
    if (gold.start, gold.end) == (found.start, found.end):
        return 1, LABEL, shared
    if shared and gold.label == found.label:
        return 2, BOUNDARY, shared
    return (3, BOTH, shared) if shared else None


def slow_pairs(gold, found):
    """Take the best pair that is left until there is none."""
    gold, found, pairs = list(gold), list(found), []
    while True:
        all_pairs = [(g, f, slow_kind(g, f)) for g in gold for f in found]
        possible = [(k[0], -len(k[2]), gold.index(g), found.index(f), k[1], g, f) for g, f, k in all_pairs if k]
        if not possible:
            break
        *_, kind, g, f = min(possible)
        pairs.append(Pair(kind, g, f))
        gold.remove(g)
        found.remove(f)
    return pairs + [Pair(MISSED, g, None) for g in gold] + [Pair(SPURIOUS, None, f) for f in found]


@given(span_lists(), span_lists())
def test_pairs_are_those_of_the_slow_search(gold, found):
    pairs = pair_spans(gold, found)
    assert Counter(pairs) == Counter(slow_pairs(gold, found))
    assert [pair.gold for pair in pairs if pair.gold] == gold
    assert Counter(pair.found for pair in pairs if pair.found) == Counter(found)


def test_one_of_each_kind():
    gold = [Span(0, 2, "A"), Span(3, 5, "A"), Span(6, 9, "A"), Span(10, 12, "A"), Span(13, 14, "B")]
    found = [Span(0, 2, "A"), Span(3, 5, "B"), Span(7, 9, "A"), Span(11, 13, "B"), Span(15, 16, "B")]
    pairs = pair_spans(gold, found)
    assert [pair.kind for pair in pairs] == [RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS]
    assert kinds_by_label(pairs) == {"A": {RIGHT: 1, LABEL: 1, BOUNDARY: 1, BOTH: 1}, "B": {MISSED: 1, SPURIOUS: 1}}
    assert span_confusion(pairs) == {("A", "A"): 2, ("A", "B"): 2, ("B", NOTHING): 1, (NOTHING, "B"): 1}


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=20))
def test_confusion(pairs):
    table = confusion([a for a, _ in pairs], [b for _, b in pairs], 4)
    expected = np.zeros((4, 4), int)
    for a, b in pairs:
        if a >= 0:
            expected[a, b] += 1
    np.testing.assert_array_equal(table, expected)
