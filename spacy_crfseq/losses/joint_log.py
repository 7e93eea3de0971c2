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
from ..types import Batch, Bools, Scores


@dataclass(frozen=True)
class JointLog:
    """Negative log-likelihood of texts and their known labels (registered as ``spacy_crfseq.JointLog.v1``).

    Its gradient is minus the expected counts of labels and label pairs given the known labels, the E-step of
    expectation-maximization.  A text without labels has the likelihood of its words.  Larger scores always lower the
    loss, so only methods that normalise the parameters can minimise it: HMM and NaiveBayes.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"joint"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        n_known = np.diff(np.append(0, np.cumsum(batch.gold >= 0))[batch.offsets])
        all_known = n_known == np.diff(batch.offsets)
        loss = -_add_up(scores, batch, all_known, grad)
        if all_known.all():
            return loss
        known = np.flatnonzero(batch.gold >= 0)
        emissions = scores.emissions.copy()
        emissions[known] = -np.inf
        emissions[known, batch.gold[known]] = scores.emissions[known, batch.gold[known]]
        clamped, nothing = scores._replace(emissions=emissions), np.zeros(0, np.int32)
        weights, log_z = np.where(all_known, 0, -batch.weights), np.zeros(len(batch.weights))
        arguments = (*clamped,), batch.offsets, nothing, weights, (*grad,), 0.0, log_z
        return loss + float(kernels.lattice.expectations(*arguments))


def _add_up(scores: Scores, batch: Batch, chosen: Bools, grad: Scores) -> float:
    """Return the weighted sum of the gold scores of the chosen sequences; subtract its gradient from `grad`."""
    lengths = np.diff(batch.offsets)
    weights, chosen = np.repeat(batch.weights, lengths), chosen & (lengths > 0)
    first, last = batch.offsets[:-1][chosen], batch.offsets[1:][chosen] - 1
    tokens = np.flatnonzero(np.repeat(chosen, lengths))
    following = np.setdiff1d(tokens, first, assume_unique=True)
    place = following if len(scores.transitions) == len(batch.gold) > 1 else np.zeros_like(following)
    counted = (
        (tokens, (tokens, batch.gold[tokens])),
        (following, (place, batch.gold[following - 1], batch.gold[following])),
        (first, (batch.gold[first],)),
        (last, (batch.gold[last],)),
    )
    total = 0.0
    for (where, cells), array, target in zip(counted, scores, grad, strict=True):
        total += float(weights[where] @ array[cells])
        np.subtract.at(target, cells, weights[where].astype(target.dtype))
    return total
