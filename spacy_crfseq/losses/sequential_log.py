"""Sequential log-loss, the negative conditional log-likelihood: ``sum_n -log P(y_n | x_n)``.

Lafferty, McCallum & Pereira (2001); F1 of Altun, Johnson & Hofmann (2003), eq. 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import Batch, Scores

MANY = 16
"""From this many sequences on, blocks of them are faster than one after another."""


@dataclass(frozen=True)
class SequentialLog:
    """Negative log-likelihood of whole sequences (registered as ``spacy_crfseq.SequentialLog.v1``).

    Where gold labels are missing, the likelihood of the sequence is the sum over all labellings that agree with the
    known ones (Tsuboi et al. 2008); a sequence without any gold label contributes nothing.
    """

    @property
    def gives(self) -> frozenset[str]:
        """What an optimizer may build on."""
        return frozenset({"value_and_grad", "minibatches", "likelihood", "log_likelihood"})

    def link(self, nll: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the negative log-likelihoods [N] as they are, and ones."""
        return nll, np.ones_like(nll)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Return the weighted sum over sequences and add its gradient to `grad`."""
        from ..kernels import blocks, lattice

        weights, loss = batch.weights, 0.0
        if len(weights) >= MANY and len(scores.transitions) == 1:
            order, left = np.empty(len(weights), np.int64), np.empty(len(weights), np.bool_)
            size = blocks.select(batch.offsets, batch.gold, weights, order, left)
            loss = blocks.log_loss(*scores, batch.offsets, batch.gold, weights, *grad, order[:size], left)
            if not left.any():
                return float(loss)
            weights = np.where(left, weights, 0)
        return float(loss + lattice.log_loss(*scores, batch.offsets, batch.gold, weights, *grad))
