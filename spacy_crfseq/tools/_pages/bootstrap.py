"""Variation of scores between samples of texts: the bootstrap over sentences or documents.

Many samples of N texts are drawn from the N texts with replacement, and each is scored.  The middle 95 % of these
scores are the percentile interval (Efron & Tibshirani 1993, section 13.3).  Where no text has a mistake, all samples
are equal; then the interval is the exact one of n successes in n trials (Clopper & Pearson 1934), n being the texts
that count for the score.  Two systems are compared on the same samples (Koehn 2004, "Statistical significance tests
for machine translation evaluation").  The p value is that of Berg-Kirkpatrick, Burkett & Klein (2012, "An empirical
investigation of statistical significance in NLP", section 2.2) in both directions: the share of samples whose
difference is as far from the observed one, d, as 0 is, p = (1 + #{|d* - d| >= |d|}) / (1 + samples), with 1 added so
that it is never 0 (Davison & Hinkley 1997, section 4.2).  The interval of a difference has all values that this test
does not reject, so it is without 0 just where p is at most 0.05.

N texts, K counts, R samples; nan after a division by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError, DataError
from ...prf import Values

Score = Callable[[Values], Values]
"""Maps counts [..., K] to scores with the same leading dimensions."""

SAMPLES = 1000
LEVEL = 0.95
TEXTS = 2
"""With fewer texts, all samples are equal: no interval, and p values of 1."""
FEW = 20
"""Below this number of texts, samples are too similar for reliable intervals and p values."""
AT_A_TIME = 2_000_000
"""Number of random numbers drawn at a time, so that memory does not grow with the data."""


class Interval(NamedTuple):
    """A score and its interval, all of one shape."""

    value: Values
    low: Values
    high: Values


class Difference(NamedTuple):
    """Advantage of the second of two systems over the first, with its interval and p value, all of one shape."""

    value: Values
    low: Values
    high: Values
    p: Values


def resampled(counts: ArrayLike, n_samples: int = SAMPLES, seed: int = 0) -> Values:
    """Return the sums of counts [N, K] over samples of texts [R, K].

    RAISES DataError: If there are no texts.
    RAISES ConfigError: If there are no samples.
    """
    table = np.asarray(counts, np.float64)
    n_texts = len(table)
    if not n_texts:
        raise DataError("There are no texts to draw samples from.")
    if n_samples < 1:
        raise ConfigError(f"The number of samples must be 1 or more, but {n_samples} was given.")
    rng, sums = np.random.default_rng(seed), np.empty((n_samples, table.shape[1]))
    step = max(1, AT_A_TIME // n_texts)
    for first in range(0, n_samples, step):
        rows = min(step, n_samples - first)
        drawn = rng.integers(n_texts, size=(rows, n_texts)) + n_texts * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * n_texts).reshape(rows, n_texts)
        sums[first : first + rows] = times.astype(np.float64) @ table
    return sums


def interval(
    counts: ArrayLike, score: Score, n_samples: int = SAMPLES, *, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Return a score of all texts together, and its percentile interval; counts [N, K] of each text."""
    table = np.asarray(counts, np.float64)
    low, high = _percentiles(score(resampled(table, n_samples, seed)), level, len(table))
    value, least = score(table.sum(0)), ((1 - level) / 2) ** (1 / np.maximum(1, (~np.isnan(score(table))).sum(0)))
    low, high = np.where((low == 1) & (high == 1), least, low), np.where((low == 0) & (high == 0), 1 - least, high)
    return Interval(value, low, high)


def fewest_texts(share: float, level: float = LEVEL) -> int:
    """Return the number of texts without a mistake whose interval begins at a share above 0 and below 1, or higher."""
    return math.ceil(math.log((1 - level) / 2) / math.log(share))


def compare(
    first: ArrayLike, second: ArrayLike, score: Score, n_samples: int = SAMPLES, *, seed: int = 0
) -> Difference:
    """Return the advantage of the second of two systems on the same texts; counts [N, K] of each text.

    RAISES DataError: If the counts are not of the same texts, or there are none.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape:
        raise DataError(
            f"Counts of two systems on the same texts must have one shape, but have {a.shape} and {b.shape}."
        )
    sums = resampled(np.concatenate([a, b], axis=1), n_samples, seed)
    moved = score(sums[:, a.shape[1] :]) - score(sums[:, : a.shape[1]])
    observed = score(b.sum(0)) - score(a.sum(0))
    # differences of equal scores are equal only up to rounding; a sample without a score is no evidence against chance
    far = ~(np.abs(moved - observed) < np.abs(observed) - 1e-12) | (len(a) < TEXTS)
    rejected = int((1 - LEVEL) * (1 + n_samples) + 1e-9)  # samples as far as a difference that is just not rejected
    moves = np.sort(np.abs(moved - observed), 0)  # those without a score come last
    room = moves[-rejected] if rejected and len(a) >= TEXTS else np.full(np.shape(observed), np.nan)
    return Difference(observed, observed - room, observed + room, (1 + far.sum(0)) / (1 + n_samples))


def doubt(n_texts: int) -> str:
    """Return a warning about too few texts, or an empty string."""
    if n_texts >= FEW:
        return ""
    how_many = "there is 1 text" if n_texts == 1 else f"there are {n_texts} texts"
    return (
        f"{how_many} only, and samples are drawn of whole texts: intervals and p values cannot be relied on. Give "
        "more, or cut documents into sentences."
    )


def _percentiles(values: Values, level: float, n_texts: int) -> tuple[Values, Values]:
    # samples without a value are left out; nan if there are fewer than `TEXTS` texts
    if not 0 < level < 1:
        raise ConfigError(f"The level of an interval must be between 0 and 1, but {level} was given.")
    ends = np.full((2, *values.shape[1:]), np.nan)
    some = ~np.isnan(values).all(0) & (n_texts >= TEXTS)
    ends[:, some] = np.nanquantile(values[:, some], [(1 - level) / 2, (1 + level) / 2], axis=0)
    return ends[0], ends[1]
