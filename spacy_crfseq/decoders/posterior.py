"""The labels with the highest expected number of correct tokens, ``max_y sum_t P(y_t | x)``.

Rabiner (1989), eq. 41; Bahl et al. (1974).  It minimises the expected number of wrong labels; Viterbi minimises the
probability that any label is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..types import Bools, Constraints, Ints, Offsets, Scores
from .viterbi import Viterbi


@dataclass(frozen=True)
class PosteriorDecoding:
    """Allowed labels with the largest sum of marginals (registered as ``spacy_crfseq.Posterior.v1``).

    The marginals are conditional on the constraints, and the labels are the best path over them that respects all
    constraints.  Without constraints, each token gets its most probable label.
    """

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        possible = scores.constrained(constraints, allowed)
        marginals = np.empty_like(scores.emissions)
        kernels.lattice.posterior(possible, offsets, marginals, np.empty(len(offsets) - 1))
        forbidden = (
            np.where(np.isneginf(forbidding), forbidding, forbidding.dtype.type(0)) for forbidding in possible[1:]
        )
        gains = Scores(marginals, *forbidden)
        return Viterbi()(gains, offsets, constraints, allowed)
