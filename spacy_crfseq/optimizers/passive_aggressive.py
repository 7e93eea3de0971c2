"""Passive-aggressive learning: after each sequence, the smallest step that mends it, ``w -= tau g``.

Crammer, Dekel, Keshet, Shalev-Shwartz & Singer (2006), "Online passive-aggressive algorithms": with the hinge loss l of
a sequence and its gradient g, ``tau = l / ||g||^2`` (PA), ``min(C, l / ||g||^2)`` (PA-I) or
``l / (||g||^2 + 1 / 2C)`` (PA-II).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..types import Floats, Objective, StepReport
from .mistakes import MistakeState, learn_from_mistakes

VARIANTS = ("PA", "PA-I", "PA-II")


@dataclass(frozen=True)
class PassiveAggressive:
    """Passive-aggressive steps (registered as ``spacy_crfseq.PassiveAggressive.v1``); takes the loss Hinge.

    variant (str): "PA", "PA-I" or "PA-II"; the latter two bear with noisy labels.
    aggressiveness (float): C, the larger the longer the steps; PA has none.
    average (bool): Predict with the average of the weights after each sequence.
    max_iterations (int): Epochs of a run.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    seed (int): Of the order of the sequences.
    RAISES ConfigError: On a setting out of range.
    """

    variant: str = "PA-I"
    aggressiveness: float = 1.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ConfigError(f"PassiveAggressive: variant must be one of {VARIANTS}, but {self.variant!r} was given.")
        if not self.aggressiveness > 0:
            raise ConfigError(f"PassiveAggressive: aggressiveness must be positive, not {self.aggressiveness}.")
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            raise ConfigError("PassiveAggressive: max_iterations must be at least 1, and 0 <= tolerance < 1.")

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
        return MistakeState(theta.copy(), sums, theta[:0].copy(), np.random.default_rng(self.seed))

    def export(self, state: MistakeState, theta: Floats) -> None:
        """Write the average, or the weights where none is kept."""
        state.average(theta)

    def iterate(self, objective: Objective, state: MistakeState) -> StepReport:
        """Pass once over the data of `objective`."""
        loss, mistakes = learn_from_mistakes(objective, state, self._step)
        return state.report(loss, mistakes, self.max_iterations, self.tolerance)

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        if self.variant == "PA-II":
            return loss / (square + 0.5 / self.aggressiveness), 0.0
        return loss / square if self.variant == "PA" else min(self.aggressiveness, loss / square), 0.0
