"""Pointwise log-loss: ``sum_n sum_t -log P(y_nt | x_n)``, of the label at each position whatever the others are.

Kakade, Teh & Roweis (2002); F3 of Altun, Johnson & Hofmann (2003), eq. 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._sums import Pointwise


@dataclass(frozen=True)
class PointwiseLog(Pointwise):
    """Negative log-likelihood of single labels (registered as ``spacy_crfseq.PointwiseLog.v1``).

    It asks for good labels one by one, as scores of single labels do, not for good sequences.  It is not convex: a run
    may end in a local optimum.  A position has the weight of its sequence; without a gold label it adds nothing.
    """
