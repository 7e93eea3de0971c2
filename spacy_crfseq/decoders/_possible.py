"""What decoders and posteriors say where no labelling is left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError


def check_possible(scores: NDArray[np.float64], first: int = 0) -> None:
    """Refuse sequences without any labelling.

    scores (NDArray): [N] the score of each sequence's best labelling, or its log Z.
    first (int): Number of the first of them in the whole text, for the message.
    RAISES DataError: If one is minus infinity.
    """
    if np.isneginf(scores).any():
        number = first + int(np.isneginf(scores).argmax())
        raise DataError(
            f"Sequence {number} of the batch has no labelling that all constraints allow, or scores out of range."
        )
