"""The losses of this room as sums over sequences or positions: blocks of sequences first, the others one by one.

All are functions phi of negative log-likelihoods u: phi(u) = exp(u) - 1 up to a cap, and its tangent beyond.  With a
cap of zero that is u itself.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Batch, Ints, Scores
from ._candidates import over_partly_known, partly_known

MANY = 16
"""From this many sequences on, blocks of them are faster than one after another."""
HIGHEST = 30.0
"""A slope of e^30 leaves float32 room for a gradient over millions of sequences, and for its square."""
_ALL_KNOWN: Ints = np.zeros(0, np.int32)


def check_cap(name: str, cap: float) -> None:
    """RAISES ConfigError: Unless the cap is from 0 to `HIGHEST`."""
    if not 0 <= cap <= HIGHEST:
        raise ConfigError(
            f"spacy_crfseq.{name}.v1: cap must be from 0 to {HIGHEST:g}, but it is {cap}; beyond it the exponential "
            "is continued by its tangent, whose slope e^cap has to fit into float32. Leave it out for the default."
        )


def capped_exponential(u: NDArray[np.float64], cap: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return phi(u) and its derivative."""
    slope = np.exp(np.minimum(u, cap))
    return slope - 1 + slope * np.maximum(u - cap, 0), slope


def over_sequences(scores: Scores, batch: Batch, grad: Scores, cap: float) -> float:
    """Return the weighted sum of phi(-log P(y_n | x_n)) and add its gradient to `grad`."""
    partly = partly_known(batch)
    if not len(partly):
        return _over_known(scores, batch, grad, cap)
    weights = batch.weights.copy()
    weights[partly] = 0
    loss = _over_known(scores, batch._replace(weights=weights), grad, cap)
    return loss + over_partly_known(scores, batch, partly, grad, partial(capped_exponential, cap=cap) if cap else None)


def _over_known(scores: Scores, batch: Batch, grad: Scores, cap: float) -> float:
    """Do that for sequences each of whose labels is known or missing."""
    from ..kernels import blocks, lattice

    weights, loss = batch.weights, 0.0
    if len(weights) >= MANY and len(scores.transitions) == 1:
        order, left = np.empty(len(weights), np.int64), np.empty(len(weights), np.bool_)
        size = blocks.select(batch.offsets, batch.gold, weights, order, left)
        loss = blocks.log_loss(scores, batch.offsets, batch.gold, weights, grad, order[:size], left, cap)
        if not left.any():
            return float(loss)
        weights = np.where(left, weights, 0)
    return float(loss + lattice.log_loss(scores, batch.offsets, batch.gold, weights, grad, cap))


def over_positions(scores: Scores, batch: Batch, grad: Scores, cap: float) -> float:
    """Return the weighted sum of phi(-log P(y_t | x)) over known labels and add its gradient to `grad`."""
    from ..kernels import blocks, lattice

    weights, loss = batch.weights, 0.0
    if len(weights) >= MANY and len(scores.transitions) == 1:
        order, left = np.empty(len(weights), np.int64), np.empty(len(weights), np.bool_)
        size = blocks.select(batch.offsets, _ALL_KNOWN, weights, order, left)
        loss = blocks.pointwise(scores, batch.offsets, batch.gold, weights, grad, order[:size], left, cap)
        if not left.any():
            return float(loss)
        weights = np.where(left, weights, 0)
    return float(loss + lattice.pointwise(scores, batch.offsets, batch.gold, weights, grad, cap))
