"""Problems for online optimizers, and the rows of their gradients one by one, for plain implementations of steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from spacy_crfseq.types import Floats, RowBlock, RowGradient
from tests.problems import BIGRAM_TEMPLATES, Training

L1_CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "pairs": {"bigram_templates": BIGRAM_TEMPLATES},
}


CASES = L1_CASES | {
    "no boundaries": {"boundaries": False},
    "no transitions": {"transitions": False, "bigram_templates": BIGRAM_TEMPLATES},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all"},
    "weights and missing labels": {"weighted": True, "missing": 0.2},
}


def places(block: RowBlock, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the weights of a row lie in theta, and their columns."""
    if not len(block.ptr):
        columns = np.arange(block.width)
        return block.begin + row * block.width + columns, columns
    here = np.arange(block.ptr[row], block.ptr[row + 1])
    return block.begin + here, block.cols[here]


def visits(training: Training, gradient: RowGradient) -> Iterator[tuple[int, np.ndarray, Floats, np.ndarray]]:
    """Yield row, places, its position's gradient and columns of each visit, in the order of positions."""
    block = training.objective.blocks[gradient.block]
    for t, d in enumerate(gradient.d):
        for row in gradient.ids[gradient.ptr[t] : gradient.ptr[t + 1]]:
            where, columns = places(block, int(row))
            yield block.first + int(row), where, d, columns


def dense(training: Training, gradients: list[RowGradient]) -> Floats:
    """Return a gradient over all parameters."""
    out = np.zeros(training.layout.size)
    for gradient in gradients:
        for _, where, d, columns in visits(training, gradient):
            out[where] += d[columns]
    return out


def shrunk(weights: Floats, by: float) -> Floats:
    """Return the proximal map of an L1 norm."""
    return np.sign(weights) * np.maximum(np.abs(weights) - by, 0)
