"""Losses that are sums of a function of negative log-likelihoods, over sequences or positions.

With u = -log P, the function is phi(u) = e^u - 1 up to a cap and its tangent beyond; with a cap of 0, it is u itself.
Kernels process blocks of sequences with similar lengths first, and the others individually.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import Batch, Scores
from ._candidates import over_partly_known, partly_known

HIGHEST = 30.0
"""With a slope of e^30, float32 can represent a gradient over millions of sequences and its square."""


class _Capped:
    """A loss with a `cap`, which is 0 unless a derived class has it as a setting."""

    provides: ClassVar[frozenset[str]] = frozenset({"value_and_grad", "minibatches"})
    cap: float = 0.0
    """In nats."""

    def __post_init__(self) -> None:
        if not 0 <= self.cap <= HIGHEST:
            raise ConfigError(
                f"spacy_crfseq.{type(self).__name__}.v1: cap must be from 0 to {HIGHEST:g}, but it is {self.cap}; "
                "beyond it the exponential is continued by its tangent, whose slope e^cap has to fit into float32. "
                "Leave it out for the default."
            )


class Sequential(_Capped):
    """The weighted sum over sequences of phi(-log P(y_n | x_n)), y_n being the known labels.

    A derived class may have any `phi`; those with a cap are computed in one pass, others take two more.
    """

    provides: ClassVar[frozenset[str]] = _Capped.provides | {"likelihood", "candidates"}

    def phi(self, nll: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return phi and its derivative at some negative log-likelihoods [N]."""
        return kernels.lattice.phi(nll, self.cap)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        weights, loss, is_capped = batch.weights, 0.0, type(self).phi is Sequential.phi
        if len(batch.candidates.sets) and len(partly := partly_known(batch)):
            loss = over_partly_known(scores, batch, partly, grad, None if is_capped and not self.cap else self.phi)
            weights = weights.copy()
            weights[partly] = 0
        if not is_capped:
            values, slopes = self.phi(log_losses(scores, batch))
            kernels.lattice.log_loss(scores, batch.offsets, batch.gold, weights * slopes, grad)
            return loss + float(weights @ values)
        return loss + kernels.lattice.log_loss(scores, batch.offsets, batch.gold, weights, grad, self.cap)


def log_losses(scores: Scores, batch: Batch) -> NDArray[np.float64]:
    """Return -log P of the known labels of each sequence [N], in float64."""
    gold = batch.gold[:, None]
    wrong = (gold >= 0) & (gold != np.arange(scores.emissions.shape[1]))
    agreeing = scores._replace(emissions=np.where(wrong, scores.emissions.dtype.type(-np.inf), scores.emissions))
    log_sums = [kernels.lattice.log_partitions(each, batch.offsets) for each in (scores, agreeing)]
    return np.maximum(log_sums[0] - log_sums[1], 0)  # rounding


class Pointwise(_Capped):
    """The weighted sum over known labels of phi(-log P(y_nt | x_n))."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        offsets, gold, weights = batch[:3]
        return kernels.chain.covariances(scores, offsets, gold, scores.emissions[:0], weights, grad, self.cap)
