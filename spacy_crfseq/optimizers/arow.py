"""AROW, adaptive regularization of weight vectors: each weight has a variance, and steps are long where it is large.

Crammer, Kulesza & Dredze (2009), "Adaptive regularization of weight vectors", figure 1, with a diagonal covariance
Sigma: with the hinge loss l of a sequence and its gradient g::

    beta = 1 / (g' Sigma g + r)        w -= l beta Sigma g        Sigma_ii -= beta (Sigma_ii g_i)^2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..types import Floats
from .online import MarginSteps


@dataclass(frozen=True)
class AROW(MarginSteps):
    """Adaptive regularization of weights (registered as ``spacy_crfseq.AROW.v1``); takes the loss Hinge.

    variance (float): Of every weight at the start.
    regularization (float): r, the larger the shorter the steps, and the slower the variances fall.
    RAISES ConfigError: On a setting out of range.
    """

    variance: float = 1.0
    regularization: float = 10.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (self.variance > 0 and self.regularization > 0):
            raise ConfigError("AROW: variance and regularization must be positive.")
        super().__post_init__()

    def _variances(self, theta: Floats) -> Floats:
        return np.full_like(theta, self.variance)

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        share = 1 / (square + self.regularization)
        return loss * share, share
