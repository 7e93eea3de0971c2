"""The elastic net: a sum of the L1 norm and the squared Euclidean norm.

Zou & Hastie (2005), "Regularization and variable selection via the elastic net"; Lavergne, Cappe & Yvon (2010) use it
for CRFs.  It is given by two strengths, or, as Friedman, Hastie & Tibshirani (2010) do, by one and a mixing proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from ..types import Floats, RowBlock, Strengths


@dataclass(frozen=True)
class ElasticNet:
    """rho1 ||w||_1 + rho2/2 ||w||^2, added once to the summed loss (registered as ``spacy_crfseq.ElasticNet.v1``).

    rho1 (float): Strength of the L1 norm, which sets weights to exactly zero.  The same objective is reached by
        CRFsuite with ``c1 = rho1`` and ``c2 = rho2 / 2``, by Wapiti with ``--rho1`` and ``--rho2``.
    rho2 (float): Strength of the squared norm, which makes attributes that occur together share their weight.
    RAISES ConfigError: If one of them is negative.
    """

    rho1: float = 1.0
    rho2: float = 0.0

    def __post_init__(self) -> None:
        for name, rho in (("rho1", self.rho1), ("rho2", self.rho2)):
            if not rho >= 0:
                raise ConfigError(f"ElasticNet: {name} must be 0 or more, but {rho} was given.")

    @property
    def smooth(self) -> bool:
        """True where there is no L1 norm."""
        return self.rho1 == 0

    @property
    def strengths(self) -> Strengths:
        """rho1 and rho2."""
        return Strengths(self.rho1, self.rho2)

    def over(self, blocks: Sequence[RowBlock]) -> ElasticNet:
        """Return itself: every weight is penalised alike."""
        return self

    def value(self, weights: Floats) -> float:
        """Return the penalty."""
        from ..kernels import penalties, vectors

        squared = self.rho2 / 2 * float(vectors.dot(weights, weights)) if self.rho2 else 0.0
        return squared + (self.rho1 * float(penalties.absolute_sum(weights)) if self.rho1 else 0.0)

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add rho2 * weights to `grad`."""
        from ..kernels import vectors

        if self.rho2:
            vectors.add_scaled(grad, self.rho2, weights, grad)

    def prox(self, weights: Floats, step: float) -> None:
        """Shrink every weight by step * rho1 (soft thresholding)."""
        from ..kernels import penalties

        if self.rho1:
            penalties.shrink(weights, step * self.rho1)


def elastic_net_mix(alpha: float = 0.5, gamma: float = 1.0) -> ElasticNet:
    """Return gamma (alpha ||w||_1 + (1 - alpha)/2 ||w||^2) (registered as ``spacy_crfseq.ElasticNetMix.v1``).

    Friedman, Hastie & Tibshirani (2010), eq. 2 and 3, "Regularization paths for generalized linear models via
    coordinate descent".

    alpha (float): From 0, the squared norm alone, to 1, the L1 norm alone.
    gamma (float): Strength.
    RAISES ConfigError: If alpha lies outside of 0 to 1, or gamma is negative.
    """
    if not 0 <= alpha <= 1:
        raise ConfigError(f"ElasticNetMix: alpha must lie between 0 and 1, but {alpha} was given.")
    if not gamma >= 0:
        raise ConfigError(f"ElasticNetMix: gamma must be 0 or more, but {gamma} was given.")
    return ElasticNet(gamma * alpha, gamma * (1 - alpha))
