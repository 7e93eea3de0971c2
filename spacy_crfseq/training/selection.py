"""Feature selection: fewer weights by mutual information, before training.

Sokolovska (2010), "Contributions to the estimation of probabilistic discriminative models", section 6.2.1.  A feature
is a weight.  Features keep their ids, so one data set works with a layout and all its selections::

    small = most_informative(layout, data, 10_000)  # train on Objective(Linear(small), ...)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..potentials.layout import Layout, SparseRows, WeightRows, bigram_columns
from ..potentials.linear import Linear
from ..types import Batch, Floats, Ints, LossProperty, Scores
from .dataset import Dataset
from .objective import FullPass

_BLOCK_WEIGHTS = 1 << 18
"""Number of weights processed at a time, to limit the size of temporary arrays."""


class Counts(NamedTuple):
    """Counts behind each weight of a block [size].

    feature, label: Tokens with its feature (for label pairs, after its previous label), and with its label.
    both: Tokens with both.
    total (float): Number of labelled tokens; for label pairs, of those after a labelled token.  Sequences are weighted.
    """

    both: NDArray[np.float64]
    feature: NDArray[np.float64]
    label: NDArray[np.float64]
    total: float


def most_informative(layout: Layout, data: Dataset, size: int, n_threads: int = 1) -> Layout:
    """Return a layout with the `size` weights of both blocks of highest mutual information, ties in layout order.

    Transitions, start and end scores do not change.
    """
    counts = count_features(layout, data, n_threads)
    information = np.concatenate([mutual_information(block) for block in counts])
    kept = np.ones(layout.size, np.bool_)
    kept[np.argsort(-information, kind="stable")[size:]] = False
    return layout.restricted(kept)._replace(steps=layout.steps)


def mutual_information(counts: Counts) -> NDArray[np.float64]:
    """Return the mutual information, in nats, of each feature's presence and its label's (thesis, eq. 6.3), [size].

    For label pairs, "presence" a means that the token has the feature and follows the previous label, because these
    two predict the label (thesis, section 6.2.1).

    ``I(a; y) = sum over present or absent a and y of P(a, y) log (P(a, y) / (P(a) P(y)))``.
    """
    out = np.empty(len(counts.both))
    for first in range(0, len(out), _BLOCK_WEIGHTS):
        weights_of = slice(first, first + _BLOCK_WEIGHTS)
        out[weights_of] = _information(*(part[weights_of] / max(counts.total, 1e-300) for part in counts[:3]))
    return out


def _information(
    both: NDArray[np.float64], feature: NDArray[np.float64], label: NDArray[np.float64]
) -> NDArray[np.float64]:
    cells = (
        (both, feature, label),
        (feature - both, feature, 1 - label),
        (label - both, 1 - feature, label),
        (1 - feature - label + both, 1 - feature, 1 - label),
    )
    total = np.zeros_like(both)
    for joint, first, other in cells:
        independent = first * other
        real = (joint > 0) & (independent > 0)  # events that never happen add nothing
        total[real] += joint[real] * np.log(joint[real] / independent[real])
    return total


def count_features(layout: Layout, data: Dataset, n_threads: int = 1) -> tuple[Counts, Counts]:
    """Return the counts behind the weights of the unigram block and of the bigram block."""
    theta = np.zeros(layout.size)
    both, feature = np.zeros(layout.size), np.zeros(layout.size)
    FullPass(Linear(layout), data, _Tally(False), n_threads)(theta, both)
    FullPass(Linear(layout), data, _Tally(True), n_threads)(theta, feature)
    offsets, n = data.encoded.offsets, layout.n_labels
    weights = np.repeat(data.weights, np.diff(offsets))
    pairs = bigram_columns(data.gold, offsets, n)
    columns = data.gold, np.where(pairs < 0, pairs, pairs % n)
    blocks = zip((layout.unigrams, layout.bigrams), columns, layout.views(both), layout.views(feature), strict=False)
    unigrams, bigrams = (_block_counts(*block, weights, n) for block in blocks)
    return unigrams, bigrams


def _block_counts(
    rows: WeightRows, labels: Ints, both: Floats, feature: Floats, weights: NDArray[np.float64], n_labels: int
) -> Counts:
    labelled = labels >= 0
    counts = np.bincount(labels[labelled], weights[labelled], minlength=n_labels).astype(np.float64)
    columns = rows.cols if isinstance(rows, SparseRows) else np.tile(np.arange(rows.width), rows.n_rows)
    return Counts(both, feature, counts[columns % n_labels], float(counts.sum()))


class _Tally:
    """A "loss" whose gradient counts gold labels: of tokens with each feature, or with `any_label` whatever they are.

    Of label pairs, the previous label always counts.
    """

    provides: frozenset[LossProperty] = frozenset()

    def __init__(self, any_label: bool) -> None:
        self._any = any_label

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        weights = np.repeat(batch.weights, np.diff(batch.offsets))
        counted = [(grad.emissions, batch.gold)]
        if len(grad.transitions) == batch.n_tokens:
            n = grad.transitions.shape[1]
            counted.append((grad.transitions.reshape(-1, n * n), bigram_columns(batch.gold, batch.offsets, n)))
        for target, columns in counted:
            tokens = np.flatnonzero(columns >= 0)
            if not self._any:
                target[tokens, columns[tokens]] += weights[tokens]
                continue
            before = columns[tokens] // scores.emissions.shape[1]  # 0 where there are no pairs
            target.reshape(len(target), -1, scores.emissions.shape[1])[tokens, before] += weights[tokens, None]
        return 0.0
