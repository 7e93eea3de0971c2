"""No penalty."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Floats


@dataclass(frozen=True)
class NoRegularizer:
    """The zero function (registered as ``spacy_crfseq.NoRegularizer.v1``)."""

    @property
    def smooth(self) -> bool:
        """True: differentiable everywhere."""
        return True

    @property
    def decay(self) -> float:
        """Zero."""
        return 0.0

    def value(self, weights: Floats) -> float:
        """Return 0."""
        return 0.0

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add nothing."""

    def prox(self, weights: Floats, step: float) -> None:
        """Change nothing."""
