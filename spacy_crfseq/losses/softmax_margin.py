"""Softmax-margin: ``sum_n log sum_y exp(score(y, x_n) + cost(y, y_n)) - score(y_n, x_n)``, the cost a sum over tokens.

Gimpel & Smith (2010), "Softmax-margin CRFs", eq. 6: the log-loss of a model whose wrong labels score more by their
cost, which is the same for all of them or depends on the correct and on the wrong label.  It is differentiable and
convex, and an upper bound of hinge and log-loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import kernels
from ..types import Batch, LossProperty, Scores
from ._costs import Costs
from .sequential_log import SequentialLog


@dataclass(frozen=True)
class SoftmaxMargin(Costs):
    """Log-loss with a margin for each wrong label (registered as ``spacy_crfseq.SoftmaxMargin.v1``).

    cost (float): Added to the score of each wrong label; 0 is the log-loss.
    false_negatives (dict | None): Class weights: costs of wrong labels where one of these is correct, such as
        {"IBAN": 8}.  A label of a scheme stands for all its tags; a tag, such as "O", can be listed instead.
    false_positives (dict | None): Costs of these labels where another is correct.  Where both settings name a cost, it
        is the higher one; where neither does, it is `cost`.
    If a gold label is missing, no label is wrong there, and the likelihood is that of all labellings that agree with
    the known labels.  With a candidate set, the labels outside the set are wrong, at the lowest cost for one of the
    set.
    RAISES ConfigError: If a cost is negative or not finite.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset(
        {"value_and_grad", "minibatches", "candidates", "softmax_margin"}
    )

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        return SequentialLog()(self.raised(scores, batch), batch, grad)
