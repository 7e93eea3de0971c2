"""What every registered regularizer must do; a new one is tested by being registered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacy_crfseq import registry
from spacy_crfseq.types import Floats, Regularizer
from tests.problems import finite_differences

ARGUMENTS: dict[str, dict[str, Any]] = {}
"""Arguments of regularizers that cannot be made without."""
REGULARIZERS = registry.regularizers.get_all()
EVERY_REGULARIZER = pytest.mark.parametrize(
    "penalty", [make(**ARGUMENTS.get(name, {})) for name, make in REGULARIZERS.items()], ids=REGULARIZERS
)
WEIGHTS = np.random.default_rng(0).standard_normal(7)


def smooth_gradient(penalty: Regularizer, weights: Floats) -> Floats:
    gradient = np.zeros_like(weights)
    penalty.add_grad(weights, gradient)
    return gradient


def non_smooth_value(penalty: Regularizer, weight: float) -> float:
    """Return the penalty of one weight less its smooth part, the integral of a gradient that is linear."""
    weights = np.array([weight])
    smooth = weight * (smooth_gradient(penalty, weights) + smooth_gradient(penalty, np.zeros(1)))[0] / 2
    return float(penalty.value(weights) - penalty.value(np.zeros(1)) - smooth)


@EVERY_REGULARIZER
def test_a_smooth_gradient_equals_finite_differences(penalty: Regularizer) -> None:
    if not penalty.smooth:
        pytest.skip("it has a non-smooth part, which the proximal map covers")
    weights = WEIGHTS.copy()
    numerical = finite_differences(lambda: penalty.value(weights), weights)
    np.testing.assert_allclose(smooth_gradient(penalty, WEIGHTS), numerical, rtol=1e-6, atol=1e-8)


@EVERY_REGULARIZER
def test_the_gradient_is_added_and_weights_are_left_alone(penalty: Regularizer) -> None:
    weights, gradient = WEIGHTS.copy(), np.full_like(WEIGHTS, 1.5)
    penalty.add_grad(weights, gradient)
    np.testing.assert_allclose(gradient - 1.5, smooth_gradient(penalty, WEIGHTS), atol=1e-12)
    np.testing.assert_array_equal(weights, WEIGHTS)


@EVERY_REGULARIZER
@pytest.mark.parametrize("step", [0.1, 1.0])
def test_prox_equals_a_grid_search(penalty: Regularizer, step: float) -> None:
    """prox(w) = argmin_z 1/2 (z - w)^2 + step * nonsmooth(z)."""
    grid = np.linspace(-3, 3, 6001)
    costs = np.array([non_smooth_value(penalty, z) for z in grid])
    for weight in (-2.0, -0.05, 0.0, 0.3, 1.7):
        moved = np.array([weight])
        penalty.prox(moved, step)
        best = grid[np.argmin((grid - weight) ** 2 / 2 + step * costs)]
        assert moved[0] == pytest.approx(best, abs=1.01e-3)


@EVERY_REGULARIZER
def test_prox_of_a_smooth_penalty_changes_nothing(penalty: Regularizer) -> None:
    if not penalty.smooth:
        pytest.skip("it has a non-smooth part")
    weights = WEIGHTS.copy()
    penalty.prox(weights, 0.7)
    np.testing.assert_array_equal(weights, WEIGHTS)


@EVERY_REGULARIZER
def test_strengths_are_those_of_the_elastic_net_that_it_is(penalty: Regularizer) -> None:
    samples = [WEIGHTS, 2 * WEIGHTS, WEIGHTS[:3], WEIGHTS[3:]]
    norms = np.array([(abs(w).sum(), w @ w / 2) for w in samples])
    values = np.array([penalty.value(w) for w in samples])
    fitted = np.linalg.lstsq(norms, values, rcond=None)[0]
    is_elastic = np.allclose(norms @ fitted, values, rtol=1e-9)
    assert penalty.strengths == (pytest.approx(fitted, abs=1e-9) if is_elastic else None)
    if penalty.strengths is not None:
        assert penalty.smooth == (penalty.strengths.l1 == 0)


@EVERY_REGULARIZER
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_plain_numbers_and_dtypes_stay(penalty: Regularizer, dtype: type) -> None:
    weights = WEIGHTS.astype(dtype)
    value = penalty.value(weights)
    assert isinstance(value, float)
    assert value == pytest.approx(penalty.value(WEIGHTS), rel=1e-5)
    assert penalty.value(np.zeros(3, dtype)) == 0
    penalty.prox(weights, 0.1)
    assert weights.dtype == smooth_gradient(penalty, weights).dtype == dtype
