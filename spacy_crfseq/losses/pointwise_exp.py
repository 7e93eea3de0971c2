"""Pointwise exponential loss: ``sum_n sum_t P(y_nt | x_n)^-1``.

F4 of Altun, Johnson & Hofmann (2003), eq. 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Batch, Scores
from ._sums import Pointwise


@dataclass(frozen=True)
class PointwiseExp(Pointwise):
    """Exponential loss of single labels (registered as ``spacy_crfseq.PointwiseExp.v1``).

    With u = -log P of a label, the loss is e^u for u <= cap and the tangent e^cap (1 + u - cap) beyond.  A label that
    the model considers impossible, perhaps an annotation error, has a weight of at most e^cap.  The loss is not convex,
    so a run may end in a local optimum.  A position has the weight of its sequence; one without a gold label
    contributes nothing.

    cap (float): In nats, from 0 (the log-loss plus one) to 30.
    RAISES ConfigError: On a cap out of range.
    """

    cap: float = 2.0

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        loss = super().__call__(scores, batch, grad)
        n_labelled = np.concatenate([[0], np.cumsum(batch.gold >= 0)])[batch.offsets]  # kernels sum P^-1 - 1
        return loss + float(batch.weights @ np.diff(n_labelled))
