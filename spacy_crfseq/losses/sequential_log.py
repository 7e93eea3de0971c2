"""Sequential log-loss, the negative conditional log-likelihood: ``sum_n -log P(y_n | x_n)``.

Lafferty, McCallum & Pereira (2001); F1 of Altun, Johnson & Hofmann (2003), eq. 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..types import LossProperty
from ._sums import Sequential


@dataclass(frozen=True)
class SequentialLog(Sequential):
    """Negative log-likelihood of whole sequences (registered as ``spacy_crfseq.SequentialLog.v1``).

    If gold labels are missing, the likelihood of the sequence is the sum over all labellings that agree with the known
    labels (Tsuboi et al. 2008); a sequence without any gold label contributes nothing.  With candidate sets, the sum is
    over the labellings with one of the candidates at each such token.  Each span known to be wrong adds
    -log(1 - P(span | other known labels)).  With one such span in a sequence, the loss is exactly -log P of all known
    facts; with several, it treats them as independent.
    """

    provides: ClassVar[frozenset[LossProperty]] = Sequential.provides | {"log_likelihood"}

    def __init_subclass__(cls) -> None:
        """Let a derived class that computes something else not provide the log-likelihood."""
        if {"__call__", "phi"} & vars(cls).keys():
            cls.provides = cls.provides - {"log_likelihood"}
