"""L1 norm: ``rho ||w||_1``, a Laplacian prior on every weight, which sets most of them to exactly zero.

Tibshirani (1996), "Regression shrinkage and selection via the lasso".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..threads import cached_property
from ..types import Strengths
from ._shared import WeightByWeight


@dataclass(frozen=True)
class L1(WeightByWeight):
    """rho ||w||_1, added once to the loss summed over all sequences (registered as ``spacy_crfseq.L1.v1``).

    rho (float): Strength.  A weight stays zero if the loss would decrease by less than rho per unit of the weight.
        CRFsuite has the same objective with ``c1 = rho``, Wapiti with ``--rho1 rho``.
    RAISES ConfigError: If rho is negative.
    """

    rho: float = 1.0

    @cached_property
    def strengths(self) -> Strengths:
        return Strengths(self.rho, 0.0)
