"""Intervals against a slow bootstrap that counts text by text, and against what is known of them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.prf import rates as prf
from spacy_crfseq.reliability import SMALLEST, Bin, calibration_error, log_losses, reliability
from spacy_crfseq.tools._pages import bootstrap
from spacy_crfseq.tools._pages.bootstrap import compare, fewest_texts, interval, resampled
from spacy_crfseq.tools._pages.calibration import calibration


def slow_samples(counts, n_samples, seed):
    """Draw the texts of each sample and add their counts one by one."""
    rng, n = np.random.default_rng(seed), len(counts)
    drawn = rng.integers(n, size=(n_samples, n))
    return [[sum(counts[i][k] for i in sample) for k in range(len(counts[0]))] for sample in drawn]


def slow_f1(right, result, gold):
    precision, recall = right / result, right / gold
    return 2 * precision * recall / (precision + recall)


COUNTS = [[1, 1, 2], [0, 1, 1], [2, 2, 2], [1, 3, 1], [5, 6, 7]]


def test_samples_are_sums_over_texts_drawn_with_replacement():
    assert resampled(COUNTS, 20, seed=3).tolist() == slow_samples(COUNTS, 20, 3)


def test_large_data_are_drawn_in_parts(monkeypatch):
    counts = np.random.default_rng(0).integers(5, size=(40, 3))
    whole = resampled(counts, 300, seed=1)
    monkeypatch.setattr(bootstrap, "AT_A_TIME", 400)
    parts = resampled(counts, 300, seed=1)
    assert parts.shape == whole.shape == (300, 3)
    np.testing.assert_array_equal(parts[:10], slow_samples(counts.tolist(), 10, 1))


def test_an_interval_is_the_middle_of_the_sampled_scores():
    result = interval(COUNTS, prf, 200, seed=5)
    scores = sorted(slow_f1(*sums) for sums in slow_samples(COUNTS, 200, 5))
    assert result.value[2] == pytest.approx(slow_f1(9, 13, 13))
    assert result.low[2] == pytest.approx(np.quantile(scores, 0.025))
    assert result.high[2] == pytest.approx(np.quantile(scores, 0.975))


def test_labels_without_spans_have_no_score():
    result = interval([[0, 0, 0], [0, 0, 0]], prf, 10)
    assert np.isnan(result.value).all()
    assert np.isnan(result.low).all()
    assert prf(np.array([0.0, 3.0, 0.0])).tolist() == pytest.approx([0, np.nan, 0], nan_ok=True)


# Two systems


def accuracy(sums):
    return sums[..., 0] / sums[..., 1]


def test_one_text_tells_nothing_of_others():
    """All samples are that text: a difference of any size may be chance."""
    result = compare([[9, 10]], [[1, 10]], accuracy)
    assert result.value == pytest.approx(-0.8)
    assert result.p == 1
    assert np.isnan([result.low, result.high]).all()
    item = interval([[1, 1, 2]], prf)
    assert item.value[2] == pytest.approx(2 / 3)
    assert np.isnan([item.low, item.high]).all()
    assert "1 text only" in bootstrap.doubt(1)
    assert "19 texts only" in bootstrap.doubt(19)
    assert bootstrap.doubt(20) == ""


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=5, max_size=5),
)
def test_p_values_count_samples_one_by_one(first, others):
    """Also where texts, samples or all of them have no spans."""
    first = [(min(right, actual, gold), actual, gold) for right, actual, gold in first]
    second = [(min(right, actual, row[2]), actual, row[2]) for (right, actual), row in zip(others, first, strict=False)]

    def f1(counts):
        right, actual, gold = (sum(row[k] for row in counts) for k in range(3))
        return 2 * right / (actual + gold) if actual + gold else float("nan")

    rng, n = np.random.default_rng(0), len(first)
    observed = f1(second) - f1(first)
    drawn = rng.integers(n, size=(40, n))
    moved = [f1([second[i] for i in sample]) - f1([first[i] for i in sample]) for sample in drawn]
    far = sum(not abs(item - observed) < abs(observed) - 1e-12 for item in moved)
    result = compare(first, second, lambda counts: prf(counts)[..., 2], 40)
    np.testing.assert_allclose(result.value, observed)
    assert result.p == pytest.approx((1 + far) / 41)
    room = sorted((abs(item - observed) for item in moved), key=lambda item: (np.isnan(item), item))[-2]
    np.testing.assert_allclose([result.low, result.high], [observed - room, observed + room], atol=1e-12)


def test_the_interval_and_the_p_value_of_a_difference_agree():
    rng, answers = np.random.default_rng(9), set()
    for seed in range(150):
        tables = [np.stack([rng.random(60) < share, np.ones(60)], axis=1) for share in (0.5, 0.64)]
        result = compare(*tables, accuracy, 200, seed=seed)
        assert (result.low > 0 or result.high < 0) == (result.p <= 0.05)
        answers.add(bool(result.p <= 0.05))
    assert answers == {True, False}


def test_without_a_mistake_the_interval_is_that_of_as_many_trials():
    """Clopper & Pearson: the least share of which 6 of 6 is seen in 2.5 % of cases; texts without spans are none."""
    counts = [[1, 1, 1]] * 6 + [[0, 0, 0]] * 4
    result = interval(counts, prf, 200)
    assert (result.value[2], result.high[2]) == (1, 1)
    assert result.low[2] == pytest.approx(0.025 ** (1 / 6))
    wrong = interval([[0, 1]] * 6, accuracy, 200)
    assert (wrong.value, wrong.low, wrong.high) == pytest.approx((0, 0, 1 - 0.025 ** (1 / 6)))


def test_unusable_input_is_refused_with_its_reason():
    with pytest.raises(DataError, match="no texts"):
        interval(np.zeros((0, 3)), prf)
    with pytest.raises(ConfigError, match="1 or more"):
        interval(COUNTS, prf, 0)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        interval(COUNTS, prf, level=95)
    with pytest.raises(DataError, match="one shape"):
        compare(COUNTS, COUNTS[:2], prf)


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
    result = calibration(p, right, 2)
    assert result.error == pytest.approx((5 * 0.08 + 2 * 0.05) / 7)
    assert result.brier == pytest.approx((0.05**2 + 0.9**2 + 0.45**2 + 2 * 0.5**2 + 0.1**2) / 7)
    assert (result.total, result.correct) == (7, pytest.approx(4 / 7))
    assert result.predicted == pytest.approx(sum(p) / 7)
    losses = [-math.log(0.95), -math.log(0.1), -math.log(0.55), math.log(2), math.log(2), -math.log(0.9), 0]
    assert result.log_loss == pytest.approx(sum(losses) / 7, abs=1e-6)


def test_single_precision_may_reach_beyond_the_ends() -> None:
    assert reliability([1 + 1e-6, -1e-6], [True, False], 2) == [Bin(0.0, 0.5, 1, 0.0, 0.0), Bin(0.5, 1.0, 1, 1.0, 1.0)]
    assert log_losses([1.0, 0.0], [False, True]) == pytest.approx([-math.log(SMALLEST)] * 2)


@pytest.mark.parametrize(
    ("p", "right"), [([0.5], [True, False]), ([1.1], [True]), ([-0.1], [True]), ([math.nan], [True]), ([0.5], [2])]
)
def test_reliability_of_numbers_that_are_no_probabilities_is_refused(p: list[float], right: list[bool]) -> None:
    with pytest.raises(DataError, match="Probabilities"):
        reliability(p, right)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
def test_the_fewest_texts_without_a_mistake_whose_interval_begins_at_a_share(share: float) -> None:
    low = [interval(np.ones((n, 1)), lambda sums: sums[..., 0] / sums[..., 0]).low for n in range(2, 400)]
    assert next(n for n, value in enumerate(low, 2) if value >= share) == fewest_texts(share)
