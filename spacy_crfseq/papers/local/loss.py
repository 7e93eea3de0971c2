"""Local log-loss: ``sum_n sum_t -log P(y_t | y_{t-1}, x_n)``, each factor a softmax over the labels of one token.

The maximum entropy Markov model of McCallum, Freitag & Pereira (2000), trained with the gold label of the previous
token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...types import Batch, Scores
from . import kernels


@dataclass(frozen=True)
class LocalLog:
    """Negative log-likelihood of a chain of softmaxes (registered as ``spacy_crfseq.LocalLog.v1``).

    The cost per token is linear in the number of labels; that of the sequential loss is quadratic.  Missing gold labels
    are summed out exactly.  The probabilities differ from those of a CRF, so decode with LocalViterbi.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"value_and_grad", "minibatches", "local"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        return float(kernels.log_loss(scores, *batch[:3], grad))
