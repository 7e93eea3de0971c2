"""Calibration: whether a share p of predictions with probability p is correct, and numbers that make it so.

The expected calibration error is the sum over bins b of n_b / n |share correct_b - mean probability_b| (Naeini, Cooper
& Hauskrecht 2015; Guo, Pleiss, Sun & Weinberger 2017, equation 3).

A temperature divides the scores (Guo, Pleiss, Sun & Weinberger 2017, "On calibration of modern neural networks",
section 4.2), and the best labelling stays the same.  Spans may be right more often than any temperature says, some
probabilities of them in other ways than others.  They get curves over the log-odds, as in Platt (1999), "Probabilistic
outputs for support vector machines", but of straight pieces, since a line is drawn away by wrong spans that are all but
certain.  Names recur in a text, so spans are no independent samples.  So cross-validation by texts decides between
none, a stiff curve, which a prior keeps near the one that changes nothing, and, by two standard errors, a loose one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ConfigError, DataError
from .types import Bools

Values: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.int64]
Curve: TypeAlias = tuple[float, ...]
"""The log-odds [K] that it has at `POINTS`; these numbers themselves change nothing."""

SMALLEST = 1e-7
"""Minimum distance of probabilities from 0 and 1 in logarithms, because scores have single precision."""
SLACK = 1e-4
"""Maximum rounding error of a probability beyond 0 and 1 in single precision."""
FEW = 100
"""Fewer predictions leave a temperature uncertain: its standard error is a tenth of it or more."""
FOLDS = 20
"""Parts of a corpus for cross-validation."""
SPREAD = 1.0
"""Standard deviation of the normal prior on log T.  It has less weight than one prediction, and keeps the temperature
of a small sample finite if all predictions are correct or all are wrong."""
HOTTEST, COARSE = 3.0, 0.5
"""Temperatures are from about exp(-3) to exp(3), and are looked for downhill from 1 in steps of their logarithm."""
FINE = np.linspace(-0.5, 0.5, 9)
"""Further temperatures around the best one; between these, a parabola has the minimum."""
POINTS = np.array([-4.0, -1.5, 0.0, 1.5, 3.0, 5.0, 8.0])
"""The K log-odds at which a curve has its numbers; it is straight between them, and goes on straight beyond."""
SPREADS = np.array([0.5, 0.3, *[0.3] * (len(POINTS) - 2)])
"""Standard deviations of the normal prior on the shape of a loose curve around that which changes nothing."""
STIFF, LOOSE = (0.25, 0), (1.0, 2)
"""Kinds of curves: the factor of these deviations, and the standard errors by which they must do better."""
FLATTEST = 0.05
"""The least slope of a curve, so that a larger probability stays larger."""
STEPS, CLOSE = 50, 1e-3
"""Newton steps at most for a curve, and the gain in nats below which another one is not made."""
DRAWS = 1000
"""Samples of outcomes that show the error of perfect probabilities."""


class Bin(NamedTuple):
    """Predictions, at least 1, of probability low < p <= high; the first bin also contains its low end.

    predicted (float): Mean probability.
    correct (float): Share of correct predictions.
    """

    low: float
    high: float
    total: int
    predicted: float
    correct: float


class PerfectError(NamedTuple):
    """The expected calibration error of perfect probabilities, which is above 0 in any sample.

    mean (float): Over samples.
    low, high (float): The middle 95 % of samples.
    """

    mean: float
    low: float
    high: float


class Temperature(NamedTuple):
    """A temperature of S predictions.

    value (float): Fitted to all of them.
    held_out (Values): [S] probabilities at temperatures that were fitted to the other folds.
    """

    value: float
    held_out: Values


class Curves(NamedTuple):
    """Curves of groups of predictions, none if they do not do clearly better.

    curves (dict): By the name of a group.
    gain, error (float): By how many nats all held-out predictions became more likely, and its standard error.
    tried (int): Number of groups with enough predictions for a curve.
    """

    curves: dict[str, Curve]
    gain: float
    error: float
    tried: int


# How reliable probabilities are


def reliability(
    probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 10, *, equal_mass: bool = False
) -> list[Bin]:
    """Return the bins with predictions, in ascending order.

    probabilities, correct: [S] of S predictions, between 0 and 1, and whether they are correct.
    equal_mass (bool): Bins of about S / n_bins predictions each, equal probabilities together; else of equal width.
    RAISES ConfigError: If `n_bins` is not positive.
    RAISES DataError: If the arrays do not match or have invalid values.
    """
    if n_bins < 1:
        raise ConfigError(f"A reliability table needs at least 1 bin, but {n_bins} was given.")
    p, right = checked(probabilities, correct)
    if not len(p):
        return []
    edges = _equal_mass_edges(p, n_bins) if equal_mass else np.arange(n_bins + 1) / n_bins
    numbers = np.searchsorted(edges[1:-1], p, side="left")
    counts = np.bincount(numbers, minlength=len(edges) - 1)
    sums, hits = (np.bincount(numbers, values, len(counts)) for values in (p, right))
    b = np.flatnonzero(counts)
    columns = edges[b], edges[b + 1], counts[b], sums[b] / counts[b], hits[b] / counts[b]
    return list(map(Bin, *(column.tolist() for column in columns)))


def _equal_mass_edges(p: Values, n_bins: int) -> Values:
    ordered = np.sort(p)
    lasts = np.arange(1, n_bins) * len(p) // n_bins - 1  # the last prediction of each bin but the highest
    inner: Values = np.unique(ordered[lasts[lasts >= 0]])
    return np.concatenate([[0.0], inner, [1.0]])


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error of a reliability table; nan if it is empty."""
    total = sum(part.total for part in bins)
    return sum(part.total * abs(part.correct - part.predicted) for part in bins) / total if total else float("nan")


def perfect_error(bins: Sequence[Bin]) -> PerfectError:
    """Return the error of a table if its probabilities were perfect; nan if it is empty.

    The outcomes are drawn from the probabilities, always by the same seed (Broecker & Smith 2007, "Increasing the
    reliability of reliability diagrams"), here independently and from the mean probability of their bin.
    """
    if not bins:
        return PerfectError(*[float("nan")] * 3)
    totals, p = (np.array([getattr(part, name) for part in bins]) for name in ("total", "predicted"))
    correct = np.random.default_rng(0).binomial(totals, p, (DRAWS, len(bins)))
    errors = np.abs(correct - totals * p).sum(axis=1) / totals.sum()
    return PerfectError(float(errors.mean()), *np.quantile(errors, (0.025, 0.975)).tolist())


def log_losses(probabilities: ArrayLike, correct: ArrayLike) -> Values:
    """Return the log loss [S] of each prediction: -log p if correct, -log(1 - p) if wrong."""
    p, right = checked(probabilities, correct)
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    losses: Values = -np.log(np.where(right > 0, p, 1 - p))
    return losses


def checked(probabilities: ArrayLike, correct: ArrayLike) -> tuple[Values, Values]:
    """Return probabilities of predictions, and whether these are correct, as numbers [S].

    RAISES DataError: If the arrays do not match or have invalid values.
    """
    p, right = np.asarray(probabilities, np.float64), np.asarray(correct, np.float64)
    if p.ndim != 1 or p.shape != right.shape:
        raise DataError(f"Probabilities {p.shape} and what is correct {right.shape} must be two lists of one length.")
    inside = (p > -SLACK) & (p < 1 + SLACK)
    if not inside.all() or not np.isin(right, (0, 1)).all():
        raise DataError("Probabilities must lie between 0 and 1, and what is correct be 0 or 1.")
    return np.clip(p, 0, 1), right


# A temperature


def fit_temperature(probabilities_at: Callable[[float], ArrayLike], correct: ArrayLike, fold: ArrayLike) -> Temperature:
    """Return the temperature that minimises the log loss of S predictions.

    probabilities_at (Callable): Maps a temperature to their probabilities [S].
    correct: [S] whether they are correct.
    fold: [S] numbers of the parts for cross-validation, from 0, see `folds_of`.
    RAISES DataError: If there are no predictions.
    """
    right, n = np.asarray(correct, np.float64), np.size(correct)
    if not n:
        raise DataError("There are no predictions to fit a temperature to.")
    home = np.asarray(fold, np.int64)

    @cache
    def at(point: float) -> tuple[Values, Values]:
        """Return probabilities [S] and losses of folds at a temperature's logarithm."""
        p = np.asarray(probabilities_at(float(np.exp(point))), np.float64)
        return p, np.bincount(home, log_losses(p, right)).astype(np.float64)

    def cost(point: float) -> float:
        return float(at(point)[1].sum() + 0.5 * (point / SPREAD) ** 2)

    middle = 0.0
    while (lower := min((middle - COARSE, middle, middle + COARSE), key=cost)) != middle and abs(lower) <= HOTTEST:
        middle = lower
    points = middle + FINE
    p, losses = [at(point)[0] for point in points.tolist()], np.array([at(point)[1] for point in points.tolist()])
    costs, odds = losses.sum(axis=1) + 0.5 * (points / SPREAD) ** 2, [_log_odds(values) for values in p]
    held_out = np.empty(n)
    for number in range(losses.shape[1]):
        own, best = home == number, _lowest(points, costs - losses[:, number])
        after = min(max(int(np.searchsorted(points, best)), 1), len(points) - 1)
        share = (best - points[after - 1]) / (points[after] - points[after - 1])
        held_out[own] = _sigmoid((1 - share) * odds[after - 1][own] + share * odds[after][own])
    return Temperature(float(np.exp(_lowest(points, costs))), held_out)


def _lowest(points: Values, costs: Values) -> float:
    """Return where costs at equidistant points are lowest, by a parabola through the lowest one and its neighbours."""
    i = int(np.argmin(costs))
    if 0 < i < len(points) - 1:
        before, here, after = costs[i - 1 : i + 2]
        bend = before - 2 * here + after
        shift = 0.5 * (before - after) / bend if bend > 0 else 0.0
        return float(points[i] + shift * (points[1] - points[0]))
    return float(points[i])


def _log_odds(probabilities: Values) -> Values:
    p = np.clip(probabilities, SMALLEST, 1 - SMALLEST)
    return np.log(p) - np.log1p(-p)


def _sigmoid(values: Values) -> Values:
    out: Values = 1 / (1 + np.exp(-values))
    return out


# Curves


def tempered(probabilities: Values, temperature: float) -> Values:
    """Return probabilities [S] with their log-odds divided by a temperature; 0 and 1 stay."""
    p = np.clip(probabilities, 0, 1)  # rounding in float32
    larger = np.maximum(p, 1 - p)  # powers of both may be too small for a float
    yes, no = (p / larger) ** (1 / temperature), ((1 - p) / larger) ** (1 / temperature)
    out: Values = yes / (yes + no)
    return out


def curved(probabilities: Values, curve: Sequence[float]) -> Values:
    """Return probabilities [S] with the log-odds of a curve; 0 and 1 stay."""
    p = np.clip(probabilities, 0, 1)
    new = _sigmoid(_tents(_log_odds(p)) @ np.asarray(curve, np.float64))
    return np.where((p > 0) & (p < 1), new, p)


def _tents(odds: Values) -> Values:
    """Return the weights [S, K] of the numbers of a curve in its values at log-odds [S]."""
    after = np.clip(np.searchsorted(POINTS, odds), 1, len(POINTS) - 1)
    share, rows = (odds - POINTS[after - 1]) / (POINTS[after] - POINTS[after - 1]), np.arange(len(odds))
    out = np.zeros((len(odds), len(POINTS)))
    out[rows, after - 1], out[rows, after] = 1 - share, share
    return out


def fit_curves(
    probabilities: Values,
    correct: Bools,
    fold: Numbers,
    groups: NDArray[np.str_],
    rival: Values | None = None,
    kinds: Sequence[tuple[float, int]] = (LOOSE,),
) -> tuple[Curves, Values]:
    """Fit curves to all groups with enough predictions, and keep them if they do better on other folds.

    Returns them, and probabilities [S] by curves that were fitted to other folds; without curves, those of the rival.

    probabilities, correct, fold, groups: [S] of each prediction: its probability, whether it is correct, its part for
        cross-validation, from 0 to `FOLDS`, and the name of its group.
    rival (Values | None): [S] held-out probabilities that the curves must beat; None for those given.
    kinds (Sequence): `STIFF`, `LOOSE` or both in this order; each must do better than the one before.
    """
    p, rival = probabilities, probabilities if rival is None else rival
    names, totals = np.unique(groups, return_counts=True)
    chosen = names[totals >= FEW].tolist()
    kept, best, gain, error = dict[str, Curve](), rival, 0.0, 0.0
    for spread, clear in kinds:
        held_out = best.copy()
        for name in chosen:
            for number in range(FOLDS):
                own, rest = ((groups == name) & part for part in (fold == number, fold != number))
                held_out[own] = curved(p[own], fit_curve(p[rest], correct[rest], spread))
        gain, error = _gain(best, held_out, correct, fold)
        if gain > clear * error:
            of_group = {name: groups == name for name in chosen}
            kept = {name: fit_curve(p[own], correct[own], spread) for name, own in of_group.items()}
            best = held_out
    if kept:
        gain, error = _gain(rival, best, correct, fold)
    return Curves(kept, gain, error, len(chosen)), best


def _gain(rival: Values, held_out: Values, correct: Bools, fold: Numbers) -> tuple[float, float]:
    """Return by how many nats predictions [S] are more likely than those of a rival, and its standard error."""
    gains = np.bincount(fold, log_losses(rival, correct) - log_losses(held_out, correct), FOLDS)
    return float(gains.sum()), float(gains.std(ddof=1)) * FOLDS**0.5


def fit_curve(probabilities: Values, correct: Bools, spread: float = 1.0) -> Curve:
    """Return the curve that minimises the log loss of S predictions with the prior, by Newton's method.

    spread (float): Factor of the standard deviations of the prior.
    """
    inputs = _tents(_log_odds(np.asarray(probabilities, np.float64)))
    # the coordinates of the prior: the value in the middle, the first slope, the change of slope at inner points
    slopes = np.diff(np.eye(len(POINTS)), axis=0) / np.diff(POINTS)[:, None]
    shape = np.vstack([_tents(np.zeros(1)), slopes[:1], np.diff(slopes, axis=0)])
    prior = shape.T * (spread * SPREADS) ** -2.0 @ shape

    def cost(curve: Values) -> float:
        values = inputs @ curve
        change = curve - POINTS
        return float(np.logaddexp(0, values).sum() - values @ correct + 0.5 * change @ prior @ change)

    curve, least = POINTS.copy(), cost(POINTS)
    for _ in range(STEPS):
        p = _sigmoid(inputs @ curve)
        slope = inputs.T @ (p - correct) + prior @ (curve - POINTS)
        step, size = np.linalg.solve((inputs.T * (p * (1 - p))) @ inputs + prior, slope), 1.0
        while (value := cost(curve - size * step)) > least and size > 1e-6:
            size /= 2  # where a whole step goes too far
        curve = curve - size * step
        if least - value < CLOSE:
            break
        least = value
    rises = np.maximum(np.diff(curve), FLATTEST * np.diff(POINTS))
    return tuple(np.round(curve[0] + np.append(0, np.cumsum(rises)), 4).tolist())


def folds_of(text: ArrayLike, n_texts: int) -> Numbers:
    """Return the part for cross-validation of each prediction [S], given the number of its text, from 0."""
    folds: Numbers = np.asarray(text, np.int64) * FOLDS // max(1, n_texts)
    return folds
