"""Temperatures and curves: what they find again, that they are the best, rise, and stay sober in small samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import DataError
from spacy_crfseq.reliability import (
    FEW,
    FLATTEST,
    FOLDS,
    LOOSE,
    POINTS,
    STIFF,
    calibration_error,
    curved,
    fit_curve,
    fit_curves,
    fit_temperature,
    folds_of,
    log_losses,
    perfect_error,
    reliability,
    tempered,
)


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
        self.fold = folds_of(np.arange(size), size)

    def at(self, temperature: float) -> np.ndarray:
        return softmax(self.scores / temperature).max(1)


@pytest.mark.parametrize("truth", [0.2, 0.7, 1.0, 1.6, 6.0])
def test_a_temperature_is_found_again(truth: float) -> None:
    drawn = Drawn(truth)
    temperature = fit_temperature(drawn.at, drawn.right, drawn.fold)
    assert temperature.value == pytest.approx(truth, rel=0.05)
    before = calibration_error(reliability(drawn.at(1.0), drawn.right))
    for probabilities in (drawn.at(temperature.value), temperature.held_out):
        assert calibration_error(reliability(probabilities, drawn.right)) < 0.02
    if not 0.5 < truth < 1.5:
        assert before > 0.1
    costs = [log_losses(drawn.at(temperature.value * factor), drawn.right).sum() for factor in (1.0, 0.9, 1.1)]
    assert costs[0] < min(costs[1:])


def test_held_out_probabilities_are_those_of_a_temperature_that_the_other_parts_have() -> None:
    drawn = Drawn(2.0, 2000)
    held_out = fit_temperature(drawn.at, drawn.right, drawn.fold).held_out
    own = drawn.fold == 3
    rest = fit_temperature(lambda t: drawn.at(t)[~own], drawn.right[~own], np.zeros(int((~own).sum()))).value
    np.testing.assert_allclose(held_out[own], drawn.at(rest)[own], atol=0.002)


def test_without_predictions_there_is_no_temperature() -> None:
    with pytest.raises(DataError, match="no predictions"):
        fit_temperature(lambda _: [], [], [])


@given(st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=8))
def test_small_samples_give_sober_temperatures(pairs: list[tuple[float, bool]]) -> None:
    """All right, all wrong, or sure and wrong: the temperature stays in range."""
    scores, right = (np.array(column, float) for column in zip(*pairs, strict=True))
    at = lambda temperature: 0.5 + 0.5 * np.tanh(scores / temperature / 2)  # noqa: E731
    fitted = fit_temperature(at, right, np.arange(len(right)) % FOLDS)
    assert math.exp(-3.5) <= fitted.value <= math.exp(3.5)
    assert ((fitted.held_out >= 0) & (fitted.held_out <= 1)).all()


@given(st.lists(st.tuples(st.floats(-12, 12), st.booleans()), max_size=8), st.floats(-14, 14), st.floats(0.01, 5))
def test_a_curve_rises_and_small_samples_change_it_little(
    pairs: list[tuple[float, bool]], low: float, step: float
) -> None:
    p, right = np.array([1 / (1 + math.exp(-x)) for x, _ in pairs]), np.array([y for _, y in pairs], bool)
    curve = fit_curve(p, right)
    assert (np.diff(curve) >= FLATTEST * np.diff(POINTS) - 1e-3).all()
    first, last = curved(1 / (1 + np.exp(-np.array([low, low + step]))), curve)
    assert first <= last
    assert pairs or curve == tuple(POINTS)


def test_a_curve_has_the_shape_of_what_was_drawn() -> None:
    """Spans that are all but certain are wrong in three of a hundred cases, which no line can say."""
    rng = np.random.default_rng(0)
    odds = rng.uniform(-2, 9, 20000)
    truth = np.minimum(1 / (1 + np.exp(-1.5 * odds)), 0.97)
    p, right = 1 / (1 + np.exp(-odds)), rng.random(20000) < truth
    curves, held_out = fit_curves(p, right, folds_of(np.arange(20000), 20000), np.full(20000, "*"))
    assert curves.gain > 10 * curves.error
    assert calibration_error(reliability(held_out, right)) < 0.01 < calibration_error(reliability(p, right))
    chance, held_out = fit_curves(truth, right, folds_of(np.arange(20000), 20000), np.full(20000, "*"))
    assert (chance.curves, held_out is truth) == ({}, True)


def test_a_curve_is_kept_if_its_gain_is_twice_the_standard_error_over_parts_and_not_before() -> None:
    kinds = set[str]()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(-rng.uniform(-2, 5, 400)))
        right, fold = rng.random(400) < p**1.3, folds_of(np.arange(400), 400)
        fitted, held_out = fit_curves(p, right, fold, np.full(400, "*"))
        if fitted.gain <= 2 * fitted.error:
            assert (fitted.curves, held_out is p) == ({}, True)
            kinds.add("uncertain" if fitted.gain > 0 else "worse")
            continue
        kinds.add("better")
        gains = [(log_losses(p, right) - log_losses(held_out, right))[fold == part].sum() for part in range(FOLDS)]
        assert fitted.gain == pytest.approx(sum(gains))
        assert fitted.error == pytest.approx(np.std(gains, ddof=1) * math.sqrt(FOLDS))
    assert kinds == {"worse", "uncertain", "better"}


def test_a_stiff_curve_is_kept_if_it_gains_at_all_and_a_loose_one_if_it_clearly_does_better() -> None:
    chosen = set[str]()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(-rng.uniform(-2, 5, 400)))
        right, fold, groups = rng.random(400) < p ** (0.9 + seed / 10), folds_of(np.arange(400), 400), np.full(400, "*")
        fitted, held_out = fit_curves(p, right, fold, groups, kinds=(STIFF, LOOSE))
        stiff, of_stiff = fit_curves(p, right, fold, groups, kinds=(STIFF,))
        loose, of_loose = fit_curves(p, right, fold, groups, of_stiff)
        assert bool(stiff.curves) == (stiff.gain > 0)
        assert fitted.curves == (loose.curves or stiff.curves)
        np.testing.assert_array_equal(held_out, of_loose)
        if fitted.curves:
            assert fitted.gain == pytest.approx((log_losses(p, right) - log_losses(held_out, right)).sum())
        chosen.add("loose" if loose.curves else "stiff" if stiff.curves else "none")
    assert chosen == {"none", "stiff", "loose"}


def test_perfect_probabilities_have_the_error_of_outcomes_that_are_drawn_from_them() -> None:
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(-rng.normal(1, 2, 500)))
    errors = [calibration_error(reliability(p, rng.random(500) < p)) for _ in range(1000)]
    mean, low, high = perfect_error(reliability(p, np.ones(500)))
    assert mean == pytest.approx(np.mean(errors), rel=0.05)
    assert (low, high) == pytest.approx(tuple(np.quantile(errors, (0.025, 0.975))), rel=0.1)
    assert perfect_error(reliability(p, np.zeros(500))) == (mean, low, high), "whatever was correct"
    assert np.isnan(perfect_error([])).all()


@pytest.mark.parametrize("spread", [1.0, 0.25])
def test_a_curve_has_the_lowest_log_loss_with_a_prior_on_its_shape(spread: float) -> None:
    rng = np.random.default_rng(0)
    odds = rng.uniform(-3.5, 7.5, 150)
    right = rng.random(150) < 1 / (1 + np.exp(-1.5 * odds))

    def cost(curve: np.ndarray) -> float:
        change = curve - POINTS
        slopes = np.diff(change) / np.diff(POINTS)
        shape = np.array([np.interp(0, POINTS, change) / 0.5, slopes[0] / 0.3, *np.diff(slopes) / 0.3])
        values = np.interp(odds, POINTS, curve)
        return float(np.logaddexp(0, values).sum() - values @ right + 0.5 * shape @ shape / spread**2)

    curve = np.array(fit_curve(1 / (1 + np.exp(-odds)), right, spread))
    for step in 0.1 * np.concatenate([np.eye(len(POINTS)), -np.eye(len(POINTS))]):
        assert cost(curve + step) > cost(curve)


@pytest.mark.parametrize("size", [FEW - 1, FEW, FEW + 1])
def test_a_group_has_a_curve_from_enough_predictions_on(size: int) -> None:
    right = np.arange(size) % 10 > 0
    curves, _ = fit_curves(np.full(size, 0.3), right, folds_of(np.arange(size), size), np.full(size, "PER"))
    assert (curves.tried, bool(curves.curves)) == ((0, False) if size < FEW else (1, True))


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 60), st.sampled_from([0.1, 1.0, 4.0, 40.0])
)  # fmt: skip
def test_curves_of_any_predictions(seed: int, size: int, n_texts: int, scale: float) -> None:
    """Reported probabilities are probabilities, and in the order of the exact ones of their group."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-np.clip(scale * rng.standard_normal(size), -700, 700)))
    right, labels = rng.random(size) < rng.choice([0.0, 0.5, 1.0, 2.0]) * p, rng.choice(["A", "B"], size)
    curves, held_out = fit_curves(p, right, folds_of(np.sort(rng.integers(0, n_texts, size)), n_texts), labels)
    assert np.isfinite([curves.gain, curves.error]).all()
    assert ((held_out >= 0) & (held_out <= 1)).all()
    for curve in curves.curves.values():
        grid = curved(np.linspace(0, 1, 101), curve)
        assert (np.diff(grid) >= 0).all()
        assert ((grid >= 0) & (grid <= 1)).all()
    assert (held_out is p) == (not curves.curves)


def test_impossible_and_certain_predictions_stay() -> None:
    ends = np.array([0, 1 + 1e-9])
    np.testing.assert_array_equal(tempered(ends, 3.0), [0, 1])
    np.testing.assert_array_equal(curved(ends, [-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0]), [0, 1])
    np.testing.assert_allclose(tempered(np.array([0.9]), 0.5), [81 / 82])
