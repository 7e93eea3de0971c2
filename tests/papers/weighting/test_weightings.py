"""What every registered weighting must do; a new one is tested by being registered.  Then each against its formula."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.papers.weighting.weightings import (
    Clusters,
    DensityRatio,
    ExactCounts,
    Logistic,
    Weighting,
    fit_mixture,
    length_class,
    make_bags,
    normalised,
)

WEIGHTINGS: dict[str, Callable[..., Weighting]] = registry.weightings.get_all()
EVERY = pytest.mark.parametrize("make", WEIGHTINGS.values(), ids=WEIGHTINGS)
SPORT = [["GENOA", "2", "LAZIO", str(n)] for n in range(3)]
PROSE = [["the", "minister", "said", "so"], ["a", "minister", "spoke", "again"], ["he", "said", "the", "same", "again"]]


@EVERY
def test_texts_like_the_target_get_more_weight(make: Callable[..., Weighting]) -> None:
    labelled = SPORT * 8 + PROSE * 2
    found = make()(labelled, SPORT * 2 + PROSE * 8)
    assert len(found.values) == len(labelled)
    assert found.values.mean() == pytest.approx(1)
    assert (found.values >= 0).all()
    assert found.values[24:].mean() > 1.1 * found.values[:24].mean()
    assert 0 < found.effective_size < len(labelled)
    assert found.note
    of_text: dict[tuple[str, ...], set[float]] = {}
    for text, weight in zip(labelled, found.values.tolist(), strict=True):
        of_text.setdefault(tuple(text), set()).add(weight)
    assert all(len(weights) == 1 for weights in of_text.values())
    np.testing.assert_array_equal(found.values, make()(labelled, SPORT * 2 + PROSE * 8).values)


@EVERY
def test_the_same_texts_get_nearly_equal_weights(make: Callable[..., Weighting]) -> None:
    np.testing.assert_allclose(make()(SPORT + PROSE, SPORT + PROSE).values, 1, atol=0.02)


@EVERY
@pytest.mark.parametrize("settings", [{"flatten": 1.5}, {"flatten": -1.0}, {"cap": 1.0}, {"cap": float("nan")}])
def test_settings_out_of_range_are_refused(make: Callable[..., Weighting], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make(**settings)


@EVERY
@pytest.mark.parametrize("sides", [([], SPORT), (SPORT, [])])
def test_a_side_without_texts_is_refused(make: Callable[..., Weighting], sides: Any) -> None:
    with pytest.raises(DataError, match="there are no"):
        make()(*sides)


@EVERY
def test_texts_without_words_have_weights_too(make: Callable[..., Weighting]) -> None:
    assert np.isfinite(make()([[], *PROSE], [[], *SPORT, *PROSE]).values).all()


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (ExactCounts, {"observation": "words"}),
        (Clusters, {"k": 0}),
        (Clusters, {"k": []}),
        (Clusters, {"k": [2, 0.5]}),
        (Clusters, {"restarts": 0}),
        (Clusters, {"smoothing": 0.0}),
        (DensityRatio, {"rho": 0.0}),
        (DensityRatio, {"folds": 1}),
    ],
)
def test_own_settings_out_of_range_are_refused(make: Callable[..., Weighting], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make(**settings)


def test_exact_counts_are_those_of_the_formula() -> None:
    """(4.18), times the number of labelled texts: q(X_i) N / #{j: X_j = X_i}; the target alone has d."""
    a, b, c, d = ([letter] for letter in "abcd")
    found = ExactCounts()([a, a, a, b, c], [a, b, b, d])
    ratio = np.array([0.25 / 3, 0.25 / 3, 0.25 / 3, 0.5, 0])
    np.testing.assert_allclose(found.values, ratio / ratio.mean())
    assert "25.0% of the target" in found.note
    assert "20.0% of the labelled texts" in found.note
    np.testing.assert_allclose(ExactCounts(flatten=0.0)([a, a, b, c], [a, b]).values, [4 / 3, 4 / 3, 4 / 3, 0])
    assert ExactCounts(observation="length")([a, [*"ab"]], [b, c, [*"xy"]]).values.tolist() == pytest.approx(
        [4 / 3, 2 / 3]
    )
    with pytest.raises(DataError, match="All weights are 0"):
        ExactCounts()([a], [b])


def test_weights_are_flattened_and_capped() -> None:
    ratio = np.array([1.0, 4.0, 16.0, 0.0])
    root = np.array([1.0, 2.0, 4.0, 0.0])
    np.testing.assert_allclose(normalised(ratio, 0.5, 0.0, "").values, root / root.mean())
    capped = np.minimum(ratio / ratio.mean(), 2)
    np.testing.assert_allclose(normalised(ratio, 1.0, 2.0, "").values, capped / capped.mean())
    found = normalised(ratio, 1.0, 0.0, "")
    assert found.effective_size == pytest.approx(21**2 / 273)


def test_em_raises_the_likelihood_and_finds_the_kinds() -> None:
    bags = make_bags(SPORT * 5 + PROSE * 5)
    runs = [fit_mixture(bags, 2, 1e-3, np.random.default_rng(1), n, 0.0)[1] for n in range(1, 12)]
    assert all(after >= before - 1e-9 for before, after in pairwise(runs))
    found = Clusters(k=[1, 2])(SPORT * 9 + PROSE, SPORT + PROSE * 9)
    assert "k = 2 of 1, 2" in found.note
    np.testing.assert_allclose(found.values, [1 / 9] * 27 + [9.0] * 3)


def test_the_density_ratio_minimises_its_objective() -> None:
    rng = np.random.default_rng(0)
    bags = make_bags(SPORT + PROSE)
    objective = Logistic(bags, np.array([-1.0] * 3 + [1.0] * 3), rng.random(6), 0.7)
    theta = rng.normal(size=bags.n_words + 1)
    value, _, slope = objective.value_and_grad(theta, np.empty_like(theta))
    for i in range(len(theta)):
        step = np.eye(len(theta))[i] * 1e-6
        after = objective.value_and_grad(theta + step, np.empty_like(theta))[0]
        assert (after - value) / 1e-6 == pytest.approx(slope[i], abs=1e-5)


def test_the_number_of_clusters_is_chosen_on_texts_held_out() -> None:
    rng = np.random.default_rng(0)
    texts = [[f"w{chr(97 + i)}" for i in rng.integers(0, 20, 6)] for _ in range(60)]  # of one kind
    assert "k = 1 of 1, 12" in Clusters(k=[1, 12], restarts=1)(texts[:40], texts[40:]).note


def test_density_ratios_are_those_of_a_logistic_regression() -> None:
    """Newton's method on a dense table of words and classes of length; both sides have the same mass."""
    rng = np.random.default_rng(1)

    def text(most: int) -> list[str]:
        return [f"w{chr(97 + i)}" for i in rng.integers(0, 5, rng.integers(1, most))]

    labelled, target = [text(30) for _ in range(40)], [text(8) for _ in range(20)]
    texts, rho, folds = [*labelled, *target], 0.5, 3
    words = sorted({word for one in texts for word in one})
    classes = sorted({length_class(one) for one in texts})
    table = np.array([
        [*(word in one for word in words), *(length_class(one) == c for c in classes), True] for one in texts
    ], float)  # fmt: skip
    sign = np.repeat([-1.0, 1.0], [40, 20])
    mass = np.repeat([60 / 80, 60 / 40], [40, 20])
    parts = np.array([zlib.crc32("\0".join(one).encode()) % folds for one in texts])
    penalty = np.diag([rho] * (table.shape[1] - 1) + [0.0])
    odds = np.zeros(60)
    for part in range(folds):
        x, y, m = table[parts != part], sign[parts != part], mass[parts != part]
        theta = np.zeros(table.shape[1])
        for _ in range(50):
            p = 1 / (1 + np.exp(-y * (x @ theta)))
            slope = x.T @ (-m * y * (1 - p)) + penalty @ theta
            theta -= np.linalg.lstsq((x.T * (m * p * (1 - p))) @ x + penalty, slope, rcond=None)[0]
        odds[parts == part] = table[parts == part] @ theta
    expected = np.exp(odds[:40])
    found = DensityRatio(rho=rho, folds=folds)(labelled, target)
    np.testing.assert_allclose(found.values, expected / expected.mean(), rtol=0.02)
