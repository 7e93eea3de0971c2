"""Temperatures are recovered from predictions of a model whose scores are too large, and stay sober on few of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import DataError
from spacy_crfseq.tools._pages.calibration import calibration
from spacy_crfseq.tools.calibrate import fit_temperature, golden_section


def softmax(scores: np.ndarray) -> np.ndarray:
    exp = np.exp(scores - scores.max(1, keepdims=True))
    return exp / exp.sum(1, keepdims=True)


class Drawn:
    """Predictions of a model whose scores are `truth` times too large."""

    def __init__(self, truth: float, size: int = 20000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.scores = truth * rng.normal(size=(size, 4))
        labels = (softmax(self.scores / truth).cumsum(1) > rng.random((size, 1))).argmax(1)
        self.right = labels == self.scores.argmax(1)

    def at(self, temperature: float) -> np.ndarray:
        return softmax(self.scores / temperature).max(1)


@pytest.mark.parametrize("truth", [0.2, 0.7, 1.0, 1.6, 6.0])
def test_a_temperature_is_found_again(truth: float) -> None:
    drawn = Drawn(truth)
    found = fit_temperature(drawn.at, drawn.right)
    assert found == pytest.approx(truth, rel=0.05)
    before, after = (calibration(drawn.at(t), drawn.right) for t in (1.0, found))
    assert after.error < 0.02
    assert after.log_loss <= before.log_loss
    if not 0.5 < truth < 1.5:
        assert before.error > 0.1


@given(st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=8))
def test_small_samples_give_sober_temperatures(pairs: list[tuple[float, bool]]) -> None:
    """All right, all wrong, or sure and wrong: the temperature stays in range."""
    scores, right = (np.array(column, float) for column in zip(*pairs, strict=True))
    found = fit_temperature(lambda temperature: 0.5 + 0.5 * np.tanh(scores / temperature / 2), right)
    assert math.exp(-3) <= found <= math.exp(3)


@given(st.floats(-3, 3), st.floats(0.1, 4))
def test_golden_section(lowest: float, width: float) -> None:
    found = golden_section(lambda x: abs(x - lowest) ** 1.5, lowest - width, lowest + 2 * width, 1e-6)
    assert found == pytest.approx(lowest, abs=1e-5)


def test_nothing_to_fit_to() -> None:
    with pytest.raises(DataError, match="no predictions"):
        fit_temperature(lambda _: [], [])
