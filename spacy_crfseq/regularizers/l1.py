"""L1 norm: ``rho ||w||_1``, a Laplacian prior on every weight, which leaves most of them exactly zero.

Tibshirani (1996), "Regression shrinkage and selection via the lasso".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Strengths
from ._shared import WeightByWeight


@dataclass(frozen=True)
class L1(WeightByWeight):
    """rho ||w||_1, added once to the loss summed over all sequences (registered as ``spacy_crfseq.L1.v1``).

    rho (float): Strength.  A weight stays zero as long as the loss would fall by less than rho for each unit of it.
        The same objective is reached by CRFsuite with ``c1 = rho``, by Wapiti with ``--rho1 rho``.
    RAISES ConfigError: If rho is negative.
    """

    rho: float = 1.0

    @property
    def strengths(self) -> Strengths:
        return Strengths(self.rho, 0.0)
