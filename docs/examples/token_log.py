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
        tokens, gold = np.arange(batch.n_tokens), np.maximum(batch.gold, 0)
        above = scores.emissions - scores.emissions.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(above).sum(axis=1))
        grad.emissions[:] += weights[:, None] * np.exp(above - log_sums[:, None])
        grad.emissions[tokens, gold] -= weights
        known = weights > 0
        return float(weights[known] @ (log_sums - above[tokens, gold])[known])
