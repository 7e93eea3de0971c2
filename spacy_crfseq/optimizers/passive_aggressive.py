"""Passive-aggressive learning: after each sequence, the smallest step that corrects it, ``w -= tau g``.

Crammer, Dekel, Keshet, Shalev-Shwartz & Singer (2006), "Online passive-aggressive algorithms": with the hinge loss l of
a sequence and its gradient g, ``tau = l / ||g||^2`` (PA), ``min(C, l / ||g||^2)`` (PA-I) or
``l / (||g||^2 + 1 / 2C)`` (PA-II).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError
from .online import MarginSteps

VARIANTS = ("PA", "PA-I", "PA-II")


@dataclass(frozen=True)
class PassiveAggressive(MarginSteps):
    """Passive-aggressive steps (registered as ``spacy_crfseq.PassiveAggressive.v1``); takes the loss Hinge.

    variant (str): "PA", "PA-I" or "PA-II"; the latter two bear with noisy labels.
    aggressiveness (float): C, the larger the longer the steps; PA has none.
    RAISES ConfigError: On a setting out of range.
    """

    variant: str = "PA-I"
    aggressiveness: float = 1.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ConfigError(f"PassiveAggressive: variant must be one of {VARIANTS}, but {self.variant!r} was given.")
        if not self.aggressiveness > 0:
            raise ConfigError(f"PassiveAggressive: aggressiveness must be positive, not {self.aggressiveness}.")
        super().__post_init__()

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        if self.variant == "PA-II":
            return loss / (square + 0.5 / self.aggressiveness), 0.0
        return loss / square if self.variant == "PA" else min(self.aggressiveness, loss / square), 0.0
