"""The negative log-likelihood of texts and labels together: ``sum_n -log sum_y exp(score(y, x_n))``, y over the
labellings that agree with the known labels.

It is the loss of generative models, whose scores are log-probabilities: ``exp(score(y, x)) = P(x, y)`` (Sokolovska
2010, "Contributions to the estimation of probabilistic discriminative models", eq. 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import kernels
from ..types import Batch, Scores


@dataclass(frozen=True)
class JointLog:
    """Negative log-likelihood of texts and their known labels (registered as ``spacy_crfseq.JointLog.v1``).

    Its gradient is minus the expected counts of labels and label pairs given the known labels, the E-step of
    expectation-maximization.  A text without labels has the likelihood of its words.  Larger scores always lower the
    loss, so only methods that normalise the parameters can minimise it: HMM and NaiveBayes.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"joint"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        known = np.flatnonzero(batch.gold >= 0)
        emissions = scores.emissions.copy()
        emissions[known] = -np.inf
        emissions[known, batch.gold[known]] = scores.emissions[known, batch.gold[known]]
        clamped, nothing, log_z = scores._replace(emissions=emissions), batch.gold[:0], np.zeros(len(batch.weights))
        return kernels.lattice.log_loss(clamped, batch.offsets, nothing, -batch.weights, grad, log_z=log_z)
