"""Sequential log-loss, the negative conditional log-likelihood: ``sum_n -log P(y_n | x_n)``.

Lafferty, McCallum & Pereira (2001); F1 of Altun, Johnson & Hofmann (2003), eq. 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ._sums import Sequential


@dataclass(frozen=True)
class SequentialLog(Sequential):
    """Negative log-likelihood of whole sequences (registered as ``spacy_crfseq.SequentialLog.v1``).

    Where gold labels are missing, the likelihood of the sequence is the sum over all labellings that agree with the
    known ones (Tsuboi et al. 2008); a sequence without any gold label contributes nothing.  Where candidate sets are
    known instead, those labellings count that have one of the candidates at each such token.  Of spans known to be
    wrong, each adds -log(1 - P(span | what else is known)): with one of them in a sequence, the whole is -log P of all
    that is known, exactly; with several, as if they were independent of each other.
    """

    provides: ClassVar[frozenset[str]] = Sequential.provides | {"log_likelihood"}
