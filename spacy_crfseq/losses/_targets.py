"""Distances between wanted and expected shares of labels among some tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..types import Bools

Values = NDArray[np.float64]
ROUNDING = 0.01
"""How far a sum of shares may be from 1 because they were rounded; they are scaled then."""
LEAST = 1e-30
"""Share at which the divergence ends, so that it stays finite where constraints forbid a wanted label everywhere."""


def kl_divergence(wanted: Values, tags: Bools, totals: Values) -> tuple[float, Values]:
    """Return ``sum_g wanted_g log(wanted_g / p_g)`` and its derivatives with respect to the totals [L].

    wanted [G]: Shares of groups of tags, given by tags [G, L]; all other tags make up one more group with the rest.
    totals [L]: Expected numbers of tags; without a token, the distance is zero.
    """
    n_tokens = totals.sum()
    slope = np.zeros_like(totals)
    if n_tokens <= 0:
        return 0.0, slope
    rest = ~tags.any(0)
    wanted, tags = np.append(wanted, max(0.0, 1 - wanted.sum()) if rest.any() else 0.0), np.vstack([tags, rest])
    wanted = wanted / wanted.sum()
    expected, listed = tags @ totals / n_tokens, wanted > 0
    value = float(wanted[listed] @ np.log(wanted[listed] / np.maximum(expected[listed], LEAST)))
    shares = np.divide(wanted, expected, out=np.zeros_like(wanted), where=expected > LEAST)
    return value, -(shares @ tags) / n_tokens


def squared_distance(low: Values, high: Values, tags: Bools, totals: Values) -> tuple[float, Values]:
    """Return the sum of squared distances of expected shares from intervals, and its derivatives; see `kl_divergence`.

    low, high [G]: Bounds of the shares of groups of tags; other tags have no wanted share.
    """
    n_tokens = totals.sum()
    if n_tokens <= 0:
        return 0.0, np.zeros_like(totals)
    expected = tags @ totals / n_tokens
    excess = np.maximum(expected - high, 0) - np.maximum(low - expected, 0)
    return float(excess @ excess), 2 * (excess @ tags) / n_tokens
