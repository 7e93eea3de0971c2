"""Pointwise log-loss: ``sum_n sum_t -log P(y_nt | x_n)``, of the label at each position, with the others summed out.

Kakade, Teh & Roweis (2002); F3 of Altun, Johnson & Hofmann (2003), eq. 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._sums import Pointwise


@dataclass(frozen=True)
class PointwiseLog(Pointwise):
    """Negative log-likelihood of single labels (registered as ``spacy_crfseq.PointwiseLog.v1``).

    It optimizes single labels, like scores of single labels, and not whole sequences.  It is not convex, so a run may
    end in a local optimum.  A position has the weight of its sequence; one without a gold label contributes nothing.
    """
