"""The squared error of each token's probabilities: a function of the marginals of whole sequences."""

from dataclasses import dataclass

import numpy as np

from spacy_crfseq import Chain, registry
from spacy_crfseq.types import Batch, Scores


@registry.losses("examples.Brier.v1")
@dataclass(frozen=True)
class Brier:
    """The sum of (P(y_t = k | x) - [k is correct])^2 over labels k and tokens t with a gold label (Brier 1950)."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Return the weighted sum over tokens and add its gradient to `grad`."""
        chain = Chain(*scores, offsets=batch.offsets)
        weights = np.repeat(batch.weights, np.diff(batch.offsets)) * (batch.gold >= 0)
        errors = chain.marginals() - (batch.gold[:, None] == np.arange(len(scores.start)))
        _, d = chain.expectation_and_grad(2 * weights[:, None] * errors)
        for total, array in zip(grad, d, strict=True):
            total += array
        return float(weights @ (errors**2).sum(1))
