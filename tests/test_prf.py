"""Scores of counts and sets where nothing is there, and numbers that JSON lacks."""

import math

import pytest

from spacy_crfseq.prf import PRF, f1_of, finite, for_json, prf


def test_nothing_found_and_nothing_to_find() -> None:
    assert prf(0, 0, 0) == (0.0, 0.0, 0.0)
    assert f1_of(set(), set()) == 1.0
    assert f1_of({1}, set()) == f1_of(set(), {1}) == 0.0
    assert f1_of({1, 2}, {2, 3, 4}) == pytest.approx(2 / 5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_none(value: float) -> None:
    assert finite(value) is None
    assert for_json(PRF(value, 0.5, 1.0)) == {"precision": None, "recall": 0.5, "f1": 1.0}
