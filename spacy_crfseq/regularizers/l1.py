"""L1 norm: ``rho ||w||_1``, a Laplacian prior on every weight, which leaves most of them exactly zero.

Tibshirani (1996), "Regression shrinkage and selection via the lasso".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..types import Floats, RowBlock, Strengths


@dataclass(frozen=True)
class L1:
    """rho ||w||_1, added once to the loss summed over all sequences (registered as ``spacy_crfseq.L1.v1``).

    rho (float): Strength.  A weight stays zero as long as the loss would fall by less than rho for each unit of it.
        The same objective is reached by CRFsuite with ``c1 = rho``, by Wapiti with ``--rho1 rho``.
    RAISES ConfigError: If rho is negative.
    """

    rho: float = 1.0

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise ConfigError(f"L1: rho must be 0 or more, but {self.rho} was given.")

    @property
    def smooth(self) -> bool:
        """False, unless rho is 0."""
        return self.rho == 0

    @property
    def strengths(self) -> Strengths:
        """rho, and no squared norm."""
        return Strengths(self.rho, 0.0)

    def over(self, blocks: Sequence[RowBlock]) -> L1:
        """Return itself: every weight is penalised alike."""
        return self

    def value(self, weights: Floats) -> float:
        """Return the penalty."""
        from ..kernels import penalties

        return self.rho * float(penalties.absolute_sum(weights))

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add nothing: there is no smooth part."""

    def prox(self, weights: Floats, step: float) -> None:
        """Shrink every weight by step * rho (soft thresholding)."""
        from ..kernels import penalties

        penalties.shrink(weights, step * self.rho)
