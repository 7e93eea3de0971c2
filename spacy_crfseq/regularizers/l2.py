"""Squared Euclidean norm: ``rho/2 ||w||^2``, a Gaussian prior of variance 1/rho on every weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..types import Floats, RowBlock, Strengths


@dataclass(frozen=True)
class L2:
    """rho/2 ||w||^2, added once to the loss summed over all sequences (registered as ``spacy_crfseq.L2.v1``).

    rho (float): Strength.  The same objective is reached by CRFsuite with ``c2 = rho / 2``, by Wapiti with
        ``--rho2 rho`` and by CRF++ with ``-c 1 / rho``.
    RAISES ConfigError: If rho is negative.
    """

    rho: float = 1.0

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise ConfigError(f"L2: rho must be 0 or more, but {self.rho} was given.")

    @property
    def smooth(self) -> bool:
        """True: differentiable everywhere."""
        return True

    @property
    def strengths(self) -> Strengths:
        """No L1 part, and rho."""
        return Strengths(0.0, self.rho)

    def over(self, blocks: Sequence[RowBlock]) -> L2:
        """Return itself: every weight is penalised alike."""
        return self

    def value(self, weights: Floats) -> float:
        """Return the penalty."""
        from ..kernels import vectors

        return self.rho / 2 * float(vectors.dot(weights, weights))

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add rho * weights to `grad`."""
        from ..kernels import vectors

        vectors.add_scaled(grad, self.rho, weights, grad)

    def prox(self, weights: Floats, step: float) -> None:
        """Do nothing: there is no non-smooth part."""
