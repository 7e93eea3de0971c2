"""Active learning: measures of how uncertain a model is about a text, and a choice of texts that differ.

Entropies are in nats.  Settles & Craven (2008), "An analysis of active learning strategies for sequence labeling
tasks", section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


def least_confidence(log_probability: ArrayLike) -> Values:
    """Return 1 - P(y*), the probability that the predicted labelling is wrong, given log P(y*) of any shape."""
    values: Values = -np.expm1(np.minimum(np.asarray(log_probability, np.float64), 0))
    return values


def margin(log_probabilities: ArrayLike) -> float:
    """Return 1 - (P(y1) - P(y2)) of the two best labellings (Scheffer et al. 2001).

    log_probabilities: [k] of the most probable labellings, best first; k is 1 if there is only one labelling.
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
    """Return the entropy of the k most probable labellings, renormalised to sum to one (N-best sequence entropy)."""
    logs = np.asarray(log_probabilities, np.float64)
    p = np.exp(logs - logs.max())
    p /= p.sum()
    return float(token_entropies(p[None])[0])


def diverse(values: ArrayLike, words: Sequence[NDArray[np.uint64]], number: int, weight: float) -> list[int]:
    """Return texts of large values that differ from each other, in the order of their choice.

    Each step takes the text with the largest ``value * (1 - similarity) ** weight``, where similarity is the largest
    cosine with a text already chosen.  This is maximal marginal relevance (Carbonell & Goldstein 1998) with a product
    instead of a sum, so that values need no common scale.  Time is proportional to `number` times the words of all
    texts.

    values: [N] measures, at least 0.
    words: [N] hashes of the words of each text, not empty; the cosine weights them by inverse document frequency.
    weight: 0 ignores similarity.
    """
    bags = [np.unique(of_text) for of_text in words]
    sizes = np.array([len(bag) for bag in bags])
    _, columns, counts = np.unique(np.concatenate(bags), return_inverse=True, return_counts=True)
    starts, rarity = np.cumsum(sizes) - sizes, np.log1p(len(bags) / counts)[columns]
    rarity /= np.repeat(np.sqrt(np.add.reduceat(rarity**2, starts)), sizes)
    left, nearest, chosen = np.maximum(np.asarray(values, np.float64), 0), np.zeros(len(bags)), list[int]()
    row = np.zeros(len(counts))
    for _ in range(min(number, len(bags))):
        gains = left * (1 - nearest) ** weight
        gains[chosen] = -1
        best = int(np.argmax(gains))
        chosen.append(best)
        here = slice(starts[best], starts[best] + sizes[best])
        row[columns[here]] = rarity[here]
        nearest = np.clip(np.maximum(nearest, np.add.reduceat(row[columns] * rarity, starts)), 0, 1)
        row[columns[here]] = 0
    return chosen
