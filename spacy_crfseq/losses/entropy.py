"""Entropy of the labellings of texts without labels: ``sum_n H(Y | x_n)``, which is small where a model is certain.

Jiao et al. (2006), "Semi-supervised conditional random fields for improved sequence segmentation and labeling";
Sokolovska (2010), eq. 4.9.  The gradient is that of Mann & McCallum (2007), "Efficient computation of entropy gradient
for semi-supervised conditional random fields".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import kernels
from ..types import Batch, LossProperty, Scores


@dataclass(frozen=True)
class Entropy:
    """Entropy of whole label sequences in nats (registered as ``spacy_crfseq.Entropy.v1``).

    It ignores gold labels.  Added to the loss of a labelled corpus, it moves the boundaries between labels to where
    texts are rare.  It is not convex.  Start with small weights, such as 0.0001 to 0.001: with larger ones, whole texts
    may get one label.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"value_and_grad", "minibatches", "unlabelled"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        return kernels.chain.total_entropy(scores, batch.offsets, batch.weights, grad)
