"""AROW, adaptive regularization of weight vectors: each weight has a variance, and steps are long where it is large.

Crammer, Kulesza & Dredze (2009), "Adaptive regularization of weight vectors", figure 1, with a diagonal covariance
Sigma: with the hinge loss l of a sequence and its gradient g::

    beta = 1 / (g' Sigma g + r)        w -= l beta Sigma g        Sigma_ii -= beta (Sigma_ii g_i)^2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..types import Floats, Objective, StepReport
from .mistakes import MistakeState, learn_from_mistakes


@dataclass(frozen=True)
class AROW:
    """Adaptive regularization of weights (registered as ``spacy_crfseq.AROW.v1``); takes the loss Hinge.

    variance (float): Of every weight at the start.
    regularization (float): r, the larger the shorter the steps, and the slower the variances fall.
    average (bool): Predict with the average of the weights after each sequence.
    max_iterations (int): Epochs of a run.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    seed (int): Of the order of the sequences.
    RAISES ConfigError: On a setting out of range.
    """

    variance: float = 1.0
    regularization: float = 10.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.variance > 0 and self.regularization > 0):
            raise ConfigError("AROW: variance and regularization must be positive.")
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            raise ConfigError("AROW: max_iterations must be at least 1, and 0 <= tolerance < 1.")

    @property
    def needs(self) -> frozenset[str]:
        """What is asked of the objective."""
        return frozenset({"minibatches", "best_path", "margin"})

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: none."""
        return frozenset({"none"})

    @property
    def online(self) -> bool:
        """True: a pass over part of the data is a valid iteration."""
        return True

    def start(self, theta: Floats) -> MistakeState:
        """Return the state of a run that begins at `theta`."""
        sums = np.zeros_like(theta) if self.average else theta[:0].copy()
        variances = np.full_like(theta, self.variance)
        return MistakeState(theta.copy(), sums, variances, np.random.default_rng(self.seed))

    def export(self, state: MistakeState, theta: Floats) -> None:
        """Write the average, or the weights where none is kept."""
        state.average(theta)

    def iterate(self, objective: Objective, state: MistakeState) -> StepReport:
        """Pass once over the data of `objective`."""
        loss, mistakes = learn_from_mistakes(objective, state, self._step)
        return state.report(loss, mistakes, self.max_iterations, self.tolerance)

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        share = 1 / (square + self.regularization)
        return loss * share, share
