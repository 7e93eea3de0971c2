"""The error of decoders and posteriors if the constraints leave no labelling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError


def check_possible(scores: NDArray[np.float64], first: int = 0) -> None:
    """Raise DataError if the score of a sequence's best labelling, or its log Z, is minus infinity.

    first: Number of the first sequence in the whole text, for the message.
    """
    if np.isneginf(scores).any():
        number = first + int(np.isneginf(scores).argmax())
        what = "has no labelling that all constraints allow (given labels, once, order), or scores out of range"
        raise DataError(f"Sequence {number} of the batch {what}.")
