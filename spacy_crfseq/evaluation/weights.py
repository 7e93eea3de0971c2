"""Weights of a model by feature and label, the largest ones, and sums by template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..features.plan import Plan
from ..model import LinearChainCRF
from ..potentials.rows import DenseRows, Rows
from ..threads import cached_property
from ..types import Floats, Ints, Offsets

UNKNOWN = "unknown"
"""The template of all features of a model that does not store templates."""


class Entries:
    """The weights of a block of features, with the feature and the column of each."""

    def __init__(self, rows: Rows, weights: Floats) -> None:
        self._rows, self.weights = rows, weights

    @cached_property
    def features(self) -> Offsets:
        """The feature of every weight."""
        return _cells(self._rows, np.arange(self._rows.size))[0]

    @cached_property
    def columns(self) -> Offsets:
        """The column of every weight: a label, or ``previous * L + label``."""
        return _cells(self._rows, np.arange(self._rows.size))[1]

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.features * self._rows.width + self.columns  # ascending

    def look_up(self, features: Ints | Offsets, columns: Ints | Offsets) -> NDArray[np.float64]:
        """Return the weights [M] of features [M] in columns [M]; 0 if there is none, and for feature -1."""
        wanted = features.astype(np.int64) * self._rows.width + columns
        if isinstance(self._rows, DenseRows):
            places, there = np.maximum(wanted, 0), features >= 0
        else:
            places = np.minimum(np.searchsorted(self._keys, wanted), max(0, self._rows.size - 1))
            there = self._keys[places] == wanted if self._rows.size else np.zeros(len(wanted), np.bool_)
        out = np.zeros(len(wanted))
        out[there] = self.weights[places[there]]
        return out


def entries(crf: LinearChainCRF) -> tuple[Entries, Entries]:
    """Return the weights of the unigram and of the bigram block."""
    return Entries(crf.layout.unigrams, crf.views.unigrams), Entries(crf.layout.bigrams, crf.views.bigrams)


class TemplateWeights(NamedTuple):
    """The parameters of a template, or of a group without templates.

    kind (str): "unigram", "bigram", "transitions", "boundaries" (start and end scores) or "potentials" (added).
    template (str): The template, `UNKNOWN` if the model does not store templates, or empty.
    features (int): Number of its features in the model.
    weights, nonzero (int): Number of its weights, with and without zeros.
    squares (float): Sum of the squared weights.
    """

    kind: str
    template: str
    features: int
    weights: int
    nonzero: int
    squares: float

    @property
    def density(self) -> float:
        """The share of weights that are not zero; 0 if there are none."""
        return self.nonzero / self.weights if self.weights else 0.0


def weights_by_template(crf: LinearChainCRF, plans: Sequence[Plan]) -> list[TemplateWeights]:
    """Return a row for each template of ``FeatureSet.plans()``, for transitions, and for start and end scores."""
    rows: list[TemplateWeights] = []
    for number, (kind, block) in enumerate(zip(("unigram", "bigram"), entries(crf), strict=True)):
        names, owners = [template.name for template in plans[number].templates], None
        if crf.templates is not None:
            owners = crf.templates[number].astype(np.int64)
        elif names:
            names, owners = [UNKNOWN], np.zeros(len(crf.keys[number]), np.int64)
        if owners is None or not names:
            continue
        n, of_weight = len(names), owners[block.features]
        counts = (
            np.bincount(owners, minlength=n),
            np.bincount(of_weight, minlength=n),
            np.bincount(of_weight[block.weights != 0], minlength=n),
        )
        squares = np.bincount(of_weight, block.weights.astype(np.float64) ** 2, n)
        each = zip(names, *(count.tolist() for count in counts), squares.tolist(), strict=True)
        rows += [TemplateWeights(kind, *row) for row in each]
    views = crf.views
    boundaries = np.concatenate([views.start, views.end])
    groups = [("transitions", views.transitions), ("boundaries", boundaries)]
    groups += [("potentials", np.concatenate(crf.added_views))] if crf.added else []
    for kind, values in groups:
        total = float((values.astype(np.float64) ** 2).sum())
        rows.append(TemplateWeights(kind, "", 0, values.size, int(np.count_nonzero(values)), total))
    return rows


class Weight(NamedTuple):
    """A weight of a feature in a block, 0 for unigrams or 1 for bigrams; `before` is -1 in the unigram block."""

    block: int
    feature: int
    before: int
    label: int
    weight: float


def largest_weights(
    crf: LinearChainCRF,
    number: int,
    *,
    labels: Sequence[int] | None = None,
    template: tuple[int, int] | None = None,
    weights: tuple[Entries, Entries] | None = None,
) -> tuple[list[Weight], list[Weight]]:
    """Return the largest positive and the largest negative weights of features, at most `number` of each.

    labels (Sequence[int] | None): Only weights of these labels.
    template (tuple[int, int] | None): Only weights of this template (block, number); the model must store templates.
    weights (tuple | None): The `entries` of the model, if available.
    """
    parts = []
    n = crf.layout.n_labels
    for block, found in enumerate(entries(crf) if weights is None else weights):
        chosen = found.weights != 0
        if labels is not None:
            chosen &= np.isin(found.columns % n, labels)
        if template is not None:
            assert crf.templates is not None
            of_template = crf.templates[block] == template[1]
            chosen &= of_template[found.features] if block == template[0] else np.False_
        places = np.flatnonzero(chosen)
        parts.append((block, places, found))
    return _first(parts, number, n, 1), _first(parts, number, n, -1)


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


def _first(parts: list[tuple[int, Offsets, Entries]], number: int, n_labels: int, sign: int) -> list[Weight]:
    """Return the largest weights of one sign, the largest first."""
    found = []
    for block, places, entries_of in parts:
        weights = sign * entries_of.weights[places]
        best = np.argsort(-weights, kind="stable")[:number]  # the first ones among equals, as those that are named
        places, weights = places[best], weights[best]
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            column = int(entries_of.columns[place])
            before = column // n_labels if block else -1
            if weight > 0:
                feature = int(entries_of.features[place])
                found.append(Weight(block, feature, before, column % n_labels, sign * weight))
    return sorted(found, key=lambda one: (-abs(one.weight), one[:4]))[:number]
