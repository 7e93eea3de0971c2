"""The most probable label sequence of a locally normalised chain (McCallum, Freitag & Pereira 2000)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...decoders.viterbi import Viterbi
from ...types import Bools, Constraints, Ints, Offsets, Scores
from . import kernels


@dataclass(frozen=True)
class LocalViterbi:
    """Best path over log P(y_t | y_{t-1}, x) (registered as ``spacy_crfseq.LocalViterbi.v1``); for the loss LocalLog.

    Constraints restrict the paths; the probabilities are those of the unconstrained model.
    """

    local: ClassVar[bool] = True  # it treats scores as those of a locally normalised model

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        emissions = np.empty_like(scores.emissions)
        kernels.normalise(scores, offsets, emissions)
        return Viterbi()(scores._replace(emissions=emissions), offsets, constraints, allowed)
