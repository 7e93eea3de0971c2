"""The contract of every registered regularizer; a new one is tested by being registered."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import registry
from spacy_crfseq.papers.batch import GroupLasso
from spacy_crfseq.types import Floats, Regularizer, RowBlock
from tests.problems import finite_differences

WEIGHTS = np.random.default_rng(0).standard_normal(7)
BLOCKS = [
    RowBlock(0, 3, 0, 2, 3, np.array([0, 2, 3]), np.array([0, 2, 1], np.int32)),
    RowBlock(3, 5, 2, 1, 2, np.zeros(0, np.int64), np.zeros(0, np.int32)),
    RowBlock(5, 7, 3, 2, 1, np.zeros(0, np.int64), np.zeros(0, np.int32)),
]
"""The weights lie in five rows: two sparse ones, a dense one, and two of the kind that all positions share."""
ROWS = [slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6), slice(6, 7)]
REGULARIZERS = {name: make().over(BLOCKS) for name, make in registry.regularizers.get_all().items()}
EVERY_REGULARIZER = pytest.mark.parametrize("penalty", REGULARIZERS.values(), ids=REGULARIZERS)
PARTED = [
    {name: penalty for name, penalty in REGULARIZERS.items() if penalty.smooth == smooth} for smooth in (True, False)
]
SMOOTH, NON_SMOOTH = (pytest.mark.parametrize("penalty", part.values(), ids=part) for part in PARTED)


def smooth_gradient(penalty: Regularizer, weights: Floats) -> Floats:
    gradient = np.zeros_like(weights)
    penalty.add_grad(weights, gradient)
    return gradient


def non_smooth_value(penalty: Regularizer, weights: Floats) -> float:
    """Return the penalty less its smooth part, which is a quadratic form where there is another part."""
    return penalty.value(weights) - (
        penalty.value(weights) if penalty.smooth else float(weights @ smooth_gradient(penalty, weights)) / 2
    )


@SMOOTH
def test_a_smooth_gradient_equals_finite_differences(penalty: Regularizer) -> None:
    weights = WEIGHTS.copy()
    numerical = finite_differences(lambda: penalty.value(weights), weights)
    np.testing.assert_allclose(smooth_gradient(penalty, WEIGHTS), numerical, rtol=1e-6, atol=1e-8)


@EVERY_REGULARIZER
def test_the_gradient_is_added_and_weights_are_left_alone(penalty: Regularizer) -> None:
    weights, gradient = WEIGHTS.copy(), np.full_like(WEIGHTS, 1.5)
    penalty.add_grad(weights, gradient)
    np.testing.assert_allclose(gradient - 1.5, smooth_gradient(penalty, WEIGHTS), atol=1e-12)
    np.testing.assert_array_equal(weights, WEIGHTS)


@NON_SMOOTH
@pytest.mark.parametrize("step", [0.1, 1.0])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_prox_equals_a_grid_search(penalty: Regularizer, step: float, row: slice) -> None:
    """prox(w) = argmin_z 1/2 ||z - w||^2 + step * nonsmooth(z), searched over a row while the others are zero."""
    size = row.stop - row.start
    for scale in (0.05, 1.0, 3.0):
        weights = np.zeros(len(WEIGHTS))
        weights[row] = scale * WEIGHTS[row]
        moved = weights.copy()
        penalty.prox(moved, step)

        def cost(part: Floats, weights: Floats = weights) -> float:
            candidate = np.zeros(len(WEIGHTS))
            candidate[row] = part
            return float(np.sum((candidate - weights) ** 2) / 2 + step * non_smooth_value(penalty, candidate))

        np.testing.assert_allclose(moved[row], grid_search(cost, size), atol=2e-4)
        np.testing.assert_array_equal(np.delete(moved, np.r_[row]), 0)


def grid_search(cost: Callable[[Floats], float], size: int, points: int = 9) -> Floats:
    """Return the minimum of a convex function of one or two numbers, by grids that become finer around the best."""
    centre, width = np.zeros(size), 4.0
    while width > 1e-5:
        axis = np.linspace(-width, width, points)
        grid = centre + np.array(list(itertools.product(axis, repeat=size)))
        centre = grid[np.argmin([cost(part) for part in grid])]
        width *= 0.4
    return centre


@EVERY_REGULARIZER
def test_prox_lowers_its_objective_more_than_any_small_change(penalty: Regularizer) -> None:
    """All rows at once: no random step from prox(w) is better, though the penalty may hang rows together."""
    rng, step = np.random.default_rng(1), 0.3
    moved = WEIGHTS.copy()
    penalty.prox(moved, step)

    def cost(z: Floats) -> float:
        return float((z - WEIGHTS) @ (z - WEIGHTS) / 2 + step * non_smooth_value(penalty, z))

    least = cost(moved)
    for _ in range(200):
        change = rng.standard_normal(7) * (rng.random(7) < 0.5) * rng.choice([1e-3, 0.1])
        assert cost(moved + change) >= least - 1e-12


@SMOOTH
def test_prox_of_a_smooth_penalty_changes_nothing(penalty: Regularizer) -> None:
    weights = WEIGHTS.copy()
    penalty.prox(weights, 0.7)
    np.testing.assert_array_equal(weights, WEIGHTS)


@EVERY_REGULARIZER
def test_strengths_are_those_of_the_elastic_net_that_it_is(penalty: Regularizer) -> None:
    samples = [*np.random.default_rng(2).standard_normal((6, 7)), WEIGHTS, 2 * WEIGHTS]
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
    assert penalty.value(np.zeros(7, dtype)) == 0
    penalty.prox(weights, 0.1)
    assert weights.dtype == smooth_gradient(penalty, weights).dtype == dtype


def test_the_rows_of_a_layout_are_the_groups() -> None:
    """Sparse rows, dense ones and scores that all positions share, as `Layout.blocks` lists them."""
    everywhere = (np.zeros(0, np.int64), np.zeros(0, np.int32))
    blocks = [
        RowBlock(0, 3, 0, 3, 3, np.array([0, 2, 2, 3]), np.array([0, 2, 1], np.int32)),
        RowBlock(3, 7, 3, 2, 2, *everywhere),
        RowBlock(7, 9, 5, 2, 1, *everywhere),
    ]
    x = np.random.default_rng(2).standard_normal(9)
    groups = [x[:2], x[2:3], x[3:5], x[5:7], x[7:8], x[8:]]
    expected = 0.7 * sum(np.sqrt(len(group)) * np.linalg.norm(group) for group in groups)
    assert GroupLasso(0.7).over(blocks).value(x) == pytest.approx(expected)
    assert GroupLasso(0.7).value(x) == pytest.approx(0.7 * 3 * np.linalg.norm(x))


@pytest.mark.parametrize(("name", "settings", "value"), [
    ("L1", {"rho": 2.0}, lambda w: 2 * abs(w).sum()),
    ("L2", {"rho": 2.0}, lambda w: w @ w),
    ("ElasticNet", {"rho1": 3.0, "rho2": 0.5}, lambda w: 3 * abs(w).sum() + 0.25 * (w @ w)),
    ("ElasticNetMix", {"alpha": 0.25, "gamma": 2.0}, lambda w: 2 * (0.25 * abs(w).sum() + 0.75 / 2 * (w @ w))),
    ("ElasticNetMix", {"alpha": 0.25, "gamma": 0.0}, lambda w: 0.0),
    ("NoRegularizer", {}, lambda w: 0.0),
])  # fmt: skip
def test_values_are_those_of_the_formulas(name: str, settings: dict[str, float], value: Any) -> None:
    penalty = registry.regularizers.get(f"spacy_crfseq.{name}.v1")(**settings)
    assert penalty.value(WEIGHTS) == pytest.approx(value(WEIGHTS))
