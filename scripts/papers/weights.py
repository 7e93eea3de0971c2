"""The weights of symbols and label pairs as tables, tables as texts, and the places of some weights among all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scripts.papers.task import Task
    from spacy_crfseq.potentials.layout import Layout, WeightRows


class Weights(NamedTuple):
    """The weights of (y,x) + (y',y,x).

    unigrams (NDArray): [X, L] of symbol and label.
    bigrams (NDArray): [X, L, L] of symbol, previous label and label.
    """

    unigrams: NDArray[Any]
    bigrams: NDArray[Any]

    def kept(self, threshold: float) -> Weights:
        """Return 1 for each weight of a greater absolute value, 0 for the others."""
        return Weights(*((np.abs(part) > threshold).astype(np.int64) for part in self))

    def orphans(self) -> NDArray[Any]:
        """Return where there are weights of label pairs without that of the label [X, L]."""
        lonely: NDArray[Any] = self.bigrams.any(axis=1) & (self.unigrams == 0)
        return lonely


def weights_of(task: Task, theta: Any, symbols: Sequence[str]) -> Weights:
    """Return the weights of a model with one template per block, in the order of the symbols; 0 for an unseen one."""
    from spacy.tokens import Doc

    n, views, tables = len(task.labels), task.layout.views(theta), list["NDArray[Any]"]()
    templates = task.features_of([Doc(task.pipe.vocab, words=list(symbols))])
    for shape, weights, block in zip(((n,), (n, n)), (views.unigrams, views.bigrams), templates, strict=True):
        table = np.zeros((len(symbols), *shape), weights.dtype)
        for template in block:
            seen = template.features >= 0
            table[template.tokens[seen]] = weights.reshape(-1, *shape)[template.features[seen]]
        tables.append(table)
    return Weights(*tables)


def within(whole: Layout, part: Layout) -> NDArray[np.int64]:
    """Return where in `whole` the weights of `part` are, a layout with some of its weights."""
    pair, shared = whole.unigrams.size, whole.unigrams.size + whole.bigrams.size
    shared_scores = np.arange(shared, whole.size)
    return np.concatenate(
        [_places(whole.unigrams, part.unigrams), pair + _places(whole.bigrams, part.bigrams), shared_scores]
    )


def _places(whole: WeightRows, part: WeightRows) -> NDArray[np.int64]:
    places: NDArray[np.int64] = np.searchsorted(_cells(whole), _cells(part))
    return places


def _cells(rows: WeightRows) -> NDArray[np.int64]:
    """Return row and column of each weight as one number, ascending."""
    ptr, cols = rows.places
    if not len(ptr):
        return np.arange(rows.size)
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)) * rows.width + cols


def compact(names: str, values: NDArray[Any]) -> dict[str, str]:
    """Return a table of numbers as texts, one a row, so that it takes few lines in a file of results."""
    return {name: " ".join(f"{value:.3g}" for value in row) for name, row in zip(names, values, strict=True)}


def expanded(rows: Mapping[str, str]) -> NDArray[Any]:
    """Return the numbers of a table that `compact` made."""
    return np.array([row.split() for row in rows.values()], float)
