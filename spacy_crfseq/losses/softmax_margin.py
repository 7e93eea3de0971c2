"""Softmax-margin: ``sum_n log sum_y exp(score(y, x_n) + cost * Hamming(y, y_n)) - score(y_n, x_n)``.

Gimpel & Smith (2010), "Softmax-margin CRFs", eq. 6: the log-loss of a model whose wrong labels score `cost` more.
It is differentiable and convex, and an upper bound of hinge and log-loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import MISSING, Batch, LossProperty, Scores
from .sequential_log import SequentialLog


@dataclass(frozen=True)
class SoftmaxMargin:
    """Log-loss with a margin for each wrong label (registered as ``spacy_crfseq.SoftmaxMargin.v1``).

    cost (float): Added to the score of each wrong label; 0 is the log-loss.
    If a gold label is missing, no label is wrong there, and the likelihood is that of all labellings that agree with
    the known labels.  With a candidate set, the labels outside the set are wrong.
    RAISES ConfigError: If the cost is negative.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset(
        {"value_and_grad", "minibatches", "candidates", "softmax_margin"}
    )
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not self.cost >= 0:
            raise ConfigError(f"SoftmaxMargin: cost must be 0 or more, but {self.cost} was given.")

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        raised = scores.emissions.copy()
        known = np.flatnonzero(batch.gold >= 0)
        gold, cost = batch.gold[known], raised.dtype.type(self.cost)
        raised[known] += cost
        raised[known, gold] = scores.emissions[known, gold]
        partly = np.flatnonzero(batch.gold < MISSING)
        if len(partly):
            raised[partly] += cost * ~batch.candidates.sets[MISSING - 1 - batch.gold[partly]]
        return SequentialLog()(scores._replace(emissions=raised), batch, grad)
