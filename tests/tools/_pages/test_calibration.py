"""Calibration: tables counted by hand, and errors in closed form."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import DataError
from spacy_crfseq.tools._pages.calibration import (
    SMALLEST,
    Bin,
    calibration,
    calibration_error,
    log_losses,
    reliability,
)

Predictions = tuple[np.ndarray, np.ndarray]


def predictions(smallest: int = 1) -> st.SearchStrategy[Predictions]:
    """Draw probabilities, many of them equal or on the limits of bins, and what is right."""
    probability = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]))
    rows = st.lists(st.tuples(probability, st.booleans()), min_size=smallest, max_size=60)
    return rows.map(lambda pairs: (np.array([p for p, _ in pairs], float), np.array([r for _, r in pairs], bool)))


def in_order(bins: list[Bin]) -> bool:
    return all(a.high <= b.low for a, b in pairwise(bins))


@given(predictions(), st.integers(1, 20), st.booleans())
def test_tables_hold_each_prediction_once(drawn: Predictions, n_bins: int, equal_mass: bool) -> None:
    p, right = drawn
    bins = reliability(p, right, n_bins, equal_mass=equal_mass)
    assert 1 <= len(bins) <= n_bins
    assert in_order(bins)
    seen = np.zeros(len(p), int)
    for part in bins:
        here = (p > part.low) & (p <= part.high)
        if part is bins[0]:
            here |= p == part.low
        seen += here
        assert part.total == here.sum()
        assert part.predicted == pytest.approx(p[here].mean())
        assert part.correct == pytest.approx(right[here].mean())
    assert (seen == 1).all()
    assert calibration_error(bins) <= np.abs(p - right).mean() + 1e-12
    assert calibration_error(bins) >= abs(p.mean() - right.mean()) - 1e-12


def test_a_table_by_hand() -> None:
    p = [0.05, 0.1, 0.45, 0.5, 0.5, 0.9, 1.0]
    right = [False, True, False, True, False, True, True]
    assert reliability(p, right, 2) == [
        Bin(0.0, 0.5, 5, pytest.approx(0.32), pytest.approx(0.4)),
        Bin(0.5, 1.0, 2, pytest.approx(0.95), 1.0),
    ]
    # equal probabilities stay together: two bins of three and four become one of five and one of two
    assert [part.total for part in reliability(p, right, 2, equal_mass=True)] == [3, 4]
    assert [part.total for part in reliability(sorted([*p, 0.5]), [*right, True], 2, equal_mass=True)] == [6, 2]
    found = calibration(p, right, 2)
    assert found.error == pytest.approx((5 * 0.08 + 2 * 0.05) / 7)
    assert found.brier == pytest.approx((0.05**2 + 0.9**2 + 0.45**2 + 2 * 0.5**2 + 0.1**2) / 7)
    assert (found.total, found.correct) == (7, pytest.approx(4 / 7))
    assert found.predicted == pytest.approx(sum(p) / 7)
    losses = [-math.log(0.95), -math.log(0.1), -math.log(0.55), math.log(2), math.log(2), -math.log(0.9), 0]
    assert found.log_loss == pytest.approx(sum(losses) / 7, abs=1e-6)


def test_single_precision_may_reach_beyond_the_ends() -> None:
    assert reliability([1 + 1e-6, -1e-6], [True, False], 2) == [Bin(0.0, 0.5, 1, 0.0, 0.0), Bin(0.5, 1.0, 1, 1.0, 1.0)]
    assert log_losses([1.0, 0.0], [False, True]) == pytest.approx([-math.log(SMALLEST)] * 2)


@pytest.mark.parametrize(
    ("p", "right"), [([0.5], [True, False]), ([1.1], [True]), ([-0.1], [True]), ([math.nan], [True]), ([0.5], [2])]
)
def test_what_is_no_prediction(p: list[float], right: list[bool]) -> None:
    with pytest.raises(DataError, match="Probabilities"):
        reliability(p, right)
