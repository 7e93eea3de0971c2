"""Squared Euclidean norm: ``rho/2 ||w||^2``, a Gaussian prior of variance 1/rho on every weight."""

from __future__ import annotations

from dataclasses import dataclass

from ..threads import cached_property
from ..types import Strengths
from ._shared import WeightByWeight


@dataclass(frozen=True)
class L2(WeightByWeight):
    """rho/2 ||w||^2, added once to the loss summed over all sequences (registered as ``spacy_crfseq.L2.v1``).

    rho (float): Strength.  CRFsuite has the same objective with ``c2 = rho / 2``, Wapiti with ``--rho2 rho``, and
        CRF++ with ``-c 1 / rho``.
    RAISES ConfigError: If rho is negative.
    """

    rho: float = 1.0

    @cached_property
    def strengths(self) -> Strengths:
        return Strengths(0.0, self.rho)
