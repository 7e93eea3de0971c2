"""The most probable label sequence (Viterbi 1967; Rabiner 1989, section III.B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import DataError
from ..types import Bools, Constraints, Ints, Offsets, Scores


def check_possible(scores: NDArray[np.float64], first: int = 0) -> None:
    """Raise DataError if the score of a sequence's best labelling, or its log Z, is minus infinity.

    first: Number of the first sequence in the whole text, for the message.
    """
    if (scores == -np.inf).any():  # `isneginf` takes as long as the labels of a short sequence
        number = first + int(np.isneginf(scores).argmax())
        what = "has no labelling that all constraints allow (given or allowed labels, steps, once, order)"
        raise DataError(f"Sequence {number} of the batch {what}, or scores out of range.")


def best_labels(scores: Scores, offsets: Offsets) -> Ints:
    """Return the best labels [T] of sequences whose scores are as kernels take them; DataError if there are none."""
    labels, best = np.zeros(len(scores.emissions), np.int32), np.empty(len(offsets) - 1)
    if not kernels.paths.best_paths((*scores,), offsets, labels, best):
        check_possible(best)
    return labels


@dataclass(frozen=True)
class Viterbi:
    """Best path under the constraints (registered as ``spacy_crfseq.Viterbi.v1``)."""

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        return best_labels(scores.constrained(constraints, allowed), offsets)
