"""A potential: scores from a number that a template cannot express, the logarithm of a word's length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.types import Floats, Offsets, Scores


@registry.potentials("examples.LengthScores.v1")
class LengthScores:
    """Add theta [L] times the logarithm of the word's length to the emissions."""

    def read(self, docs: Sequence[Doc]) -> Floats:
        """Return one number per token [T]."""
        return np.array([np.log(len(token)) for doc in docs for token in doc], np.float32)

    def size(self, n_labels: int) -> int:
        """Return the number of parameters."""
        return n_labels

    def forward(
        self, theta: Floats, inputs: Floats, offsets: Offsets, n_labels: int
    ) -> tuple[Scores, Callable[[Scores], Any]]:
        """Return the scores of some tokens, and what maps the gradient of scores to that of theta."""
        values, nothing = inputs.astype(theta.dtype), np.zeros(n_labels, theta.dtype)
        scores = Scores(np.outer(values, theta), np.zeros((1, n_labels, n_labels), theta.dtype), nothing, nothing)
        return scores, lambda d_scores: values @ d_scores.emissions
