"""The elastic net: a sum of the L1 norm and the squared Euclidean norm.

Zou & Hastie (2005), "Regularization and variable selection via the elastic net"; Lavergne, Cappe & Yvon (2010) use it
for CRFs.  It has two strengths or, as in Friedman, Hastie & Tibshirani (2010), one strength and a mixing proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError
from ..threads import cached_property
from ..types import Strengths
from ._shared import WeightByWeight


@dataclass(frozen=True)
class ElasticNet(WeightByWeight):
    """rho1 ||w||_1 + rho2/2 ||w||^2, added once to the summed loss (registered as ``spacy_crfseq.ElasticNet.v1``).

    rho1 (float): Strength of the L1 norm, which sets weights to exactly zero.  CRFsuite has the same
        objective with ``c1 = rho1`` and ``c2 = rho2 / 2``, Wapiti with ``--rho1`` and ``--rho2``.
    rho2 (float): Strength of the squared norm, which distributes weight over features that occur together.
    RAISES ConfigError: If one of them is negative.
    """

    rho1: float = 1.0
    rho2: float = 0.0

    @cached_property
    def strengths(self) -> Strengths:
        return Strengths(self.rho1, self.rho2)


def elastic_net_mix(alpha: float = 0.5, gamma: float = 1.0) -> ElasticNet:
    """Return gamma (alpha ||w||_1 + (1 - alpha)/2 ||w||^2) (registered as ``spacy_crfseq.ElasticNetMix.v1``).

    Friedman, Hastie & Tibshirani (2010), eq. 2 and 3, "Regularization paths for generalized linear models via
    coordinate descent".

    alpha (float): From 0, only the squared norm, to 1, only the L1 norm.
    gamma (float): Strength.
    RAISES ConfigError: If alpha is not between 0 and 1, or gamma is negative.
    """
    if not 0 <= alpha <= 1:
        raise ConfigError(f"ElasticNetMix: alpha must be between 0 and 1, but {alpha} was given.")
    if not gamma >= 0:
        raise ConfigError(f"ElasticNetMix: gamma must be 0 or more, but {gamma} was given.")
    return ElasticNet(gamma * alpha, gamma * (1 - alpha))
