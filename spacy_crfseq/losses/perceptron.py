"""The perceptron's loss: ``sum_n max_y score(y, x_n) - score(y_n, x_n)``, the Viterbi assumption in place of log Z.

Collins (2002), "Discriminative training methods for hidden Markov models"; a stochastic subgradient step of size 1 on
it is his algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import kernels
from ..types import Batch, Scores


@dataclass(frozen=True)
class Perceptron:
    """By how much the best labels exceed the gold ones (registered as ``spacy_crfseq.Perceptron.v1``).

    Where gold labels are missing, the best of all labellings that agree with the known ones takes their place (a latent
    perceptron, Sun et al. 2009); a sequence without any gold label contributes nothing.  Zero weights have no loss, but
    a gradient all the same, since some labels win the tie: minimise it with a method that takes every mistake as one.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"minibatches", "best_path"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        return float(kernels.viterbi.max_loss(scores, *batch[:3], 0.0, grad))
