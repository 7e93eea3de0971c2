"""Losses that are sums of a function of negative log-likelihoods, over sequences or positions.

With u = -log P, the function is phi(u) = e^u - 1 up to a cap and its tangent beyond; with a cap of 0, it is u itself.
Kernels process blocks of sequences with similar lengths first, and the others individually.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import Batch, Floats, Ints, Scores
from ._candidates import over_partly_known, partly_known

MANY = 16
"""The number of sequences from which blocks are faster than single sequences."""
HIGHEST = 30.0
"""With a slope of e^30, float32 can represent a gradient over millions of sequences and its square."""
_ALL_KNOWN: Ints = np.zeros(0, np.int32)


class _Capped:
    """A loss with a `cap`, which is 0 unless a derived class has it as a setting."""

    provides: ClassVar[frozenset[str]] = frozenset({"value_and_grad", "minibatches"})

    @property
    def cap(self) -> float:
        """In nats."""
        return 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cap <= HIGHEST:
            raise ConfigError(
                f"spacy_crfseq.{type(self).__name__}.v1: cap must be from 0 to {HIGHEST:g}, but it is {self.cap}; "
                "beyond it the exponential is continued by its tangent, whose slope e^cap has to fit into float32. "
                "Leave it out for the default."
            )


class Sequential(_Capped):
    """The weighted sum over sequences of phi(-log P(y_n | x_n)), y_n being the known labels."""

    provides: ClassVar[frozenset[str]] = _Capped.provides | {"likelihood", "candidates"}

    def phi(self, nll: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return phi and its derivative at some negative log-likelihoods [N]."""
        if not self.cap:
            return nll, np.ones_like(nll)
        slope = np.exp(np.minimum(nll, self.cap))
        return slope - 1 + slope * np.maximum(nll - self.cap, 0), slope

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        weights, partly, loss = batch.weights, partly_known(batch), 0.0
        if len(partly):
            loss = over_partly_known(scores, batch, partly, grad, self.phi if self.cap else None)
            weights = weights.copy()
            weights[partly] = 0
        batch = batch._replace(weights=weights)
        kernel, rest = kernels.blocks.log_loss, kernels.lattice.log_loss
        gold, cap = batch.gold, self.cap
        return loss + add_up(
            lambda weights, order, left: kernel(scores, batch.offsets, gold, weights, grad, order, left, cap),
            lambda weights: rest(scores, batch.offsets, gold, weights, grad, cap),
            scores, batch, gold,
        )  # fmt: skip


class Pointwise(_Capped):
    """The weighted sum over known labels of phi(-log P(y_nt | x_n))."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        return add_covariances(scores, batch, batch.gold, scores.emissions[:0], grad, self.cap)


def add_covariances(scores: Scores, batch: Batch, rows: Ints, table: Floats, grad: Scores, cap: float = 0.0) -> float:
    """Return the value of `kernels.lattice.covariances` and add its gradient."""
    kernel, rest = kernels.covariances.covariances, kernels.lattice.covariances
    return add_up(
        lambda weights, order, left: kernel(scores, batch.offsets, rows, table, weights, grad, order, left, cap),
        lambda weights: rest(scores, batch.offsets, rows, table, weights, grad, cap),
        scores, batch,
    )  # fmt: skip


def add_up(
    in_blocks: Callable[..., Any],
    one_by_one: Callable[..., Any],
    scores: Scores,
    batch: Batch,
    known: Ints = _ALL_KNOWN,
) -> float:
    """Return the sum of two kernels.

    in_blocks: Called with weights [N], the sequences for blocks and an array for the rest, see `kernels.blocks.select`.
    one_by_one: Called with weights, which are zero for sequences that are done.
    known [T]: Gold labels; blocks require all of them.  Empty if missing labels make no difference.
    """
    weights, total = batch.weights, 0.0
    if len(weights) >= MANY and len(scores.transitions) == 1:
        order, left = np.empty(len(weights), np.int64), np.empty(len(weights), np.bool_)
        size = kernels.blocks.select(batch.offsets, known, weights, order, left)
        total = in_blocks(weights, order[:size], left) or 0.0
        if not left.any():
            return float(total)
        weights = np.where(left, weights, 0)
    return float(total + (one_by_one(weights) or 0.0))
