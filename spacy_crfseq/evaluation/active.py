"""Measures of a model's uncertainty for active learning, larger for more informative texts; entropies are in nats.

Settles & Craven (2008), "An analysis of active learning strategies for sequence labeling tasks", section 3.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


def least_confidence(log_probability: ArrayLike) -> Values:
    """Return 1 - P(y*), the probability that the predicted labelling is wrong, given log P(y*) of any shape."""
    values: Values = -np.expm1(np.minimum(np.asarray(log_probability, np.float64), 0))
    return values


def margin(log_probabilities: ArrayLike) -> float:
    """Return 1 - (P(y1) - P(y2)) of the two best labellings (Scheffer et al. 2001).

    log_probabilities: [k] of the most probable labellings, best first; one if there is no other.
    """
    best = np.exp(np.asarray(log_probabilities, np.float64)[:2])
    return float(1 - best[0] + best[1:].sum())


def token_entropies(marginals: ArrayLike) -> Values:
    """Return the entropy of each token's label [T], of marginals [T, L]."""
    p = np.asarray(marginals, np.float64)
    terms = np.zeros_like(p)
    np.log(p, out=terms, where=p > 0)
    entropies: Values = np.maximum(-(p * terms).sum(1), 0)
    return entropies


def list_entropy(log_probabilities: ArrayLike) -> float:
    """Return the entropy of the most probable labellings [k] as if there were no others (N-best sequence entropy)."""
    logs = np.asarray(log_probabilities, np.float64)
    p = np.exp(logs - logs.max())
    p /= p.sum()
    return float(token_entropies(p[None])[0])
