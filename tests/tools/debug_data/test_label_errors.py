"""Stretches where gold and predicted spans differ, and their order."""

from __future__ import annotations

import math

import pytest

from spacy_crfseq.schemes import Span
from spacy_crfseq.tools.debug_data.label_errors import Stretch, Suspect, context, shown, stretches, worst

PER, LOC = Span(0, 2, "PER"), Span(4, 5, "LOC")


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([PER, LOC], [PER, LOC], []),
        ([PER, LOC], [PER], [Stretch(4, 5, (LOC,), ())]),
        ([], [LOC], [Stretch(4, 5, (), (LOC,))]),
        ([PER], [Span(0, 2, "ORG")], [Stretch(0, 2, (PER,), (Span(0, 2, "ORG"),))]),
        ([PER, Span(2, 3, "LOC")], [Span(1, 4, "ORG")],
         [Stretch(0, 4, (PER, Span(2, 3, "LOC")), (Span(1, 4, "ORG"),))]),
        ([Span(0, 1, "A"), Span(1, 2, "A")], [], [Stretch(0, 1, (Span(0, 1, "A"),), ()),
                                                 Stretch(1, 2, (Span(1, 2, "A"),), ())]),
    ],
)  # fmt: skip
def test_stretches(gold: list[Span], predicted: list[Span], expected: list[Stretch]) -> None:
    assert stretches(gold, predicted, [True] * 6) == expected


def test_what_is_not_annotated_is_no_mistake() -> None:
    assert stretches([LOC], [PER], [True, False, True, True, True]) == [Stretch(4, 5, (LOC,), ())]


def test_order_and_words() -> None:
    cases = ((0.4, 0.5, 1), (0.01, 0.9, 2), (0.3, 0.2, 1), (0.5, 0.5, 1), (0.1, 0.8, 1), (0.0, 0.9, 1))
    some = [Suspect("f:1", "", "", "", p, q, n) for p, q, n in cases]
    first = worst(some, 9)
    assert [some.index(one) for one in first] == [5, 1, 4, 0]
    assert first[1].log_odds == pytest.approx(math.log(90) / 2)
    assert worst(some, 1) == [some[5]]
    words = list("abcdefghijklmnop")
    assert (shown([PER, LOC], words), shown([], words)) == ("[a b PER] [e LOC]", "O")
    assert context(words, Stretch(8, 9, (), ()), 2) == "... g h i j k ..."
