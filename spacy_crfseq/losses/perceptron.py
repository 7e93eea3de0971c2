"""The perceptron's loss: ``sum_n max_y score(y, x_n) - score(y_n, x_n)``, with the Viterbi approximation instead of log
Z.

Collins (2002), "Discriminative training methods for hidden Markov models"; a stochastic subgradient step of size 1 on
it is his algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import kernels
from ..types import Batch, LossProperty, Scores


@dataclass(frozen=True)
class Perceptron:
    """Difference in score between the best labels and the gold labels (registered as ``spacy_crfseq.Perceptron.v1``).

    If gold labels are missing, the best labelling that agrees with the known labels replaces them (a latent perceptron,
    Sun et al. 2009).  A sequence without any gold label contributes nothing.  With zero weights, the loss is zero but
    the gradient is not, because ties are broken.  Minimise the loss with a method that updates on every mistake.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"minibatches", "best_path"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        return float(kernels.paths.max_loss(scores, *batch[:3], 0.0, grad))
