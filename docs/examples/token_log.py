"""Each token's label by itself: the log-loss of a softmax over the token's own scores."""

from dataclasses import dataclass

import numpy as np

from spacy_crfseq import registry
from spacy_crfseq.types import Batch, Scores


@registry.losses("examples.TokenLog.v1")
@dataclass(frozen=True)
class TokenLog:
    """Negative log-likelihood of each label, as if tokens knew nothing of each other."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Return the weighted sum over tokens and add its gradient to `grad`."""
        weights = np.repeat(batch.weights, np.diff(batch.offsets)) * (batch.gold >= 0)
        best = scores.emissions.max(axis=1, keepdims=True)
        exponentials = np.exp(scores.emissions - best)
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        tokens, gold = np.arange(batch.n_tokens), np.maximum(batch.gold, 0)
        losses = -np.log(probabilities[tokens, gold], where=weights > 0, out=np.zeros(len(weights)))
        grad.emissions[:] += weights[:, None] * probabilities
        grad.emissions[tokens, gold] -= weights
        return float(weights @ losses)
