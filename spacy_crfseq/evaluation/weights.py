"""The features whose names a model keeps: those with the largest weights of each label and template."""

from __future__ import annotations

import numpy as np

from ..model import LinearChainCRF
from ..potentials.layout import DenseRows, Rows
from ..types import Offsets

NAMED_OF_LABEL, NAMED_OF_TEMPLATE = 15, 5
"""Number of weights of each sign for each label and each template in `features_with_largest_weights`."""
MOST_NAMED = 5_000
"""Approximate maximum number of features if there are very many labels."""
PORTION = 1 << 17
"""Weights that are compared at a time."""


def features_with_largest_weights(crf: LinearChainCRF) -> tuple[Offsets, Offsets]:
    """Return the features, sorted, with the largest weights of each label and template: unigram, bigram block."""
    n, base = crf.layout.n_labels, crf.layout.unigrams.n_rows
    owners = crf.templates or ()
    ends = np.cumsum([n, *(int(one.max(initial=0)) + 1 for one in owners)]).tolist()
    numbers = np.full(2 * ends[-1], NAMED_OF_TEMPLATE)  # of each group: labels, then templates; the same, negative
    numbers[:n] = numbers[ends[-1] :][:n] = max(1, min(NAMED_OF_LABEL, MOST_NAMED // (2 * n)))
    least, values = np.zeros(len(numbers)), np.zeros(0)
    groups = items = np.zeros(0, np.int64)
    for block, rows in enumerate((crf.layout.unigrams, crf.layout.bigrams)):
        for begin in range(0, rows.size, PORTION):
            features, columns = _cells(rows, np.arange(begin, min(begin + PORTION, rows.size)))
            weights = crf.views[block][begin : begin + PORTION]
            for group in (columns % n, *([ends[block] + owners[block][features]] if owners else [])):
                group = group + ends[-1] * (weights < 0)
                new = np.flatnonzero(np.abs(weights) > least[group])
                groups, values = np.append(groups, group[new]), np.append(values, np.abs(weights[new]))
                items = np.append(items, features[new] + block * base)
                order = np.lexsort((-values, groups))
                groups, values, items = groups[order], values[order], items[order]
                left = numbers[groups] - np.arange(len(groups)) + np.searchsorted(groups, groups)
                least[groups[left == 1]] = values[left == 1]  # smaller ones of the group are no longer needed
                groups, values, items = groups[left > 0], values[left > 0], items[left > 0]
    found = np.unique(items)
    split = int(np.searchsorted(found, base))
    return found[:split], found[split:] - base


def _cells(rows: Rows, places: Offsets) -> tuple[Offsets, Offsets]:
    """Return feature and column of the weights at some places of a block."""
    if isinstance(rows, DenseRows):
        return np.divmod(places, rows.width)
    return np.searchsorted(rows.ptr, places, side="right") - 1, rows.cols[places].astype(np.int64)
