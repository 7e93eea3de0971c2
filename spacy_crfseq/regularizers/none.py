"""No penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..types import NONE, Floats, RowBlock, Strengths


@dataclass(frozen=True)
class NoRegularizer:
    """The zero function (registered as ``spacy_crfseq.NoRegularizer.v1``)."""

    @property
    def smooth(self) -> bool:
        """True: differentiable everywhere."""
        return True

    @property
    def strengths(self) -> Strengths:
        """Zero and zero."""
        return NONE

    def over(self, blocks: Sequence[RowBlock]) -> NoRegularizer:
        """Return itself."""
        return self

    def value(self, weights: Floats) -> float:
        """Return 0."""
        return 0.0

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add nothing."""

    def prox(self, weights: Floats, step: float) -> None:
        """Change nothing."""
