"""The most probable label sequence (Viterbi 1967; Rabiner 1989, section III.B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..types import Bools, Constraints, Ints, Offsets, Scores
from ._possible import check_possible


@dataclass(frozen=True)
class Viterbi:
    """Best path under the constraints (registered as ``spacy_crfseq.Viterbi.v1``)."""

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        labels = np.zeros(len(scores.emissions), np.int32)
        best = np.empty(len(offsets) - 1)
        kernels.viterbi.best_paths(scores.constrained(constraints, allowed), offsets, labels, best)
        check_possible(best)
        return labels
