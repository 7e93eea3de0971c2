"""Sequential log-loss, the negative conditional log-likelihood: ``sum_n -log P(y_n | x_n)``.

Lafferty, McCallum & Pereira (2001); F1 of Altun, Johnson & Hofmann (2003), eq. 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Batch, Scores


@dataclass(frozen=True)
class SequentialLog:
    """Negative log-likelihood of whole sequences (registered as ``spacy_crfseq.SequentialLog.v1``).

    Where gold labels are missing, the likelihood of the sequence is the sum over all labellings that agree with the
    known ones (Tsuboi et al. 2008); a sequence without any gold label contributes nothing.
    """

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Return the weighted sum over sequences and add its gradient to `grad`."""
        from ..kernels import lattice

        return float(lattice.log_loss(*scores, batch.offsets, batch.gold, batch.weights, *grad))
