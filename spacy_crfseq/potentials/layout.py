"""The layout of the parameters of a linear potential in theta [D].

The parameters are the weights of the *unigram* block (features that score a label), those of the *bigram* block
(features that score a label together with the previous one), transitions, start and end scores.  The weights of a block
are rows, one per feature: dense ones for every label, as in CRF++, or sparse ones for the labels of the training, as in
CRFsuite.  The *cell* of a weight is ``row * width + column``; both kinds store weights in the order of their cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..features.encoded import BLOCK_SEQUENCES, Encoded, Ids
from ..types import Bools, Floats, Hashes, Ints, Offsets, RowBlock

EVERYWHERE: tuple[Offsets, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int32))
BLOCK_BITS = 1 << 20
"""Number of possible weights looked at at a time."""
MANY_WEIGHTS = 30_000_000
"""With support = "auto", the largest number of weights of all pairs of a feature and a label, or a label pair."""


class DenseRows(NamedTuple):
    """Weights for every column (label or label pair) of every row (feature), stored row by row."""

    n_rows: int
    width: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_rows * self.width

    @property
    def bounds(self) -> Offsets:
        """[R + 1] the start of each row."""
        return np.arange(self.n_rows + 1, dtype=np.int64) * self.width

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """See `RowBlock`."""
        return EVERYWHERE

    def matrix(self, weights: Floats) -> Floats:
        """Return the weights [size], or an array like them, as [R, C]."""
        return weights.reshape(self.n_rows, self.width)

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        """Add the rows ``ids[ptr[t]:ptr[t + 1]]`` to out[t]."""
        kernels.rows.add_ragged(ptr, ids, self.matrix(weights), out)


class SparseRows(NamedTuple):
    """Weights for some columns of each row: row r has the columns ``cols[ptr[r]:ptr[r + 1]]``, ascending."""

    ptr: Offsets
    cols: Ints
    width: int

    @property
    def n_rows(self) -> int:
        """R, features."""
        return len(self.ptr) - 1

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.cols)

    @property
    def bounds(self) -> Offsets:
        """[R + 1] the start of each row."""
        return self.ptr

    @property
    def places(self) -> tuple[Offsets, Ints]:
        """See `RowBlock`."""
        return self.ptr, self.cols

    def add_ragged(self, weights: Floats, ptr: Offsets, ids: Ints, out: Floats) -> None:
        """Add the rows ``ids[ptr[t]:ptr[t + 1]]`` to out[t]."""
        kernels.rows.add_ragged_sparse(ptr, ids, self.ptr, self.cols, weights, out)


WeightRows: TypeAlias = DenseRows | SparseRows


def cells(rows: WeightRows) -> NDArray[np.int64]:
    """Return ``row * width + column`` of each weight [size]."""
    if isinstance(rows, DenseRows):
        return np.arange(rows.size, dtype=np.int64)
    return np.repeat(np.arange(rows.n_rows, dtype=np.int64), np.diff(rows.ptr)) * rows.width + rows.cols


def rows_of(places: Sequence[Offsets], n_rows: int, width: int) -> SparseRows:
    """Return rows with the weights whose `cells` are in one of some arrays, each of which is sorted."""
    every = places[0]
    if len(places) > 1:
        every = np.sort(np.concatenate(places), kind="stable")
        every = every[np.append(True, every[1:] > every[:-1])[: len(every)]]
    bounds = np.arange(n_rows + 1, dtype=np.int64) * width
    return SparseRows(np.searchsorted(every, bounds), (every % max(1, width)).astype(np.int32), width)


def used_rows(rows: WeightRows) -> Bools:
    """Return which rows [R] have a weight."""
    used: Bools = np.diff(rows.bounds) > 0
    return used


def rows_with(rows: WeightRows, marked: Bools) -> Bools:
    """Return which rows [R] have one of the marked weights [size]."""
    if isinstance(rows, DenseRows):
        some: Bools = np.logical_or.reduce(marked.reshape(rows.n_rows, rows.width), axis=1)
        return some
    counts: Offsets = np.diff(np.append(0, np.cumsum(marked))[rows.ptr])
    return counts > 0


def chosen(rows: WeightRows, weights: Floats, kept: Bools) -> tuple[WeightRows, Floats]:
    """Return some rows, marked in kept [R], and their weights; full rows are dense."""
    if isinstance(rows, DenseRows):
        return DenseRows(int(kept.sum()), rows.width), rows.matrix(weights)[kept].ravel()
    sizes = np.diff(rows.ptr)
    places, ptr = np.repeat(kept, sizes), np.append(0, np.cumsum(sizes[kept], dtype=np.int64))
    return dense_if_full(SparseRows(ptr, rows.cols[places], rows.width)), weights[places]


def dense_if_full(rows: WeightRows) -> WeightRows:
    """Return rows that have all weights as dense ones, and others as they are."""
    return DenseRows(rows.n_rows, rows.width) if rows.size == rows.n_rows * rows.width else rows


def widened(rows: WeightRows, old_columns: NDArray[np.int64], width: int) -> tuple[WeightRows, NDArray[np.int64]]:
    """Return rows of a larger width, where column c is ``old_columns[c]``, and the new place of each weight."""
    row, column = np.divmod(cells(rows), max(1, rows.width))
    moved = row * width + old_columns[column]
    if isinstance(rows, DenseRows):
        return DenseRows(rows.n_rows, width), moved
    new_columns = np.setdiff1d(np.arange(width), old_columns)
    added = np.arange(rows.n_rows, dtype=np.int64)[:, None] * width + new_columns
    every = np.sort(np.concatenate([moved, added.ravel()]))
    return rows_of([every], rows.n_rows, width), np.searchsorted(every, moved)


def united(rows: WeightRows, first: WeightRows) -> WeightRows:
    """Return rows that also have the weights of other rows, which are the first ones, of the same width."""
    return rows if isinstance(rows, DenseRows) else rows_of([cells(rows), cells(first)], rows.n_rows, rows.width)


def taken(rows: WeightRows, numbers: Ints) -> tuple[WeightRows, Offsets]:
    """Return some rows, by their numbers, -1 for an empty one, and the places of their weights among all."""
    bounds, is_dense, present = rows.bounds, isinstance(rows, DenseRows), numbers >= 0
    sizes = np.where(present, np.diff(bounds, append=bounds[-1])[numbers], 0)
    ptr = np.append(0, np.cumsum(sizes)).astype(np.int64)
    places = np.arange(ptr[-1]) + np.repeat(np.where(present, bounds[numbers], 0) - ptr[:-1], sizes)
    if is_dense and present.all():
        return DenseRows(len(numbers), rows.width), places
    columns = places % rows.width if isinstance(rows, DenseRows) else rows.cols[places]
    return SparseRows(ptr, columns.astype(np.int32), rows.width), places


class Layout(NamedTuple):
    """The position of each group of parameters in theta.

    unigrams, bigrams (WeightRows): Rows of width L, and of width L * L; no bigram rows without label-pair templates.
    steps (Bools | None): [L, L] trainable transitions; None for all.
    boundaries (bool): Whether start and end scores are trainable.
    """

    n_labels: int
    unigrams: WeightRows
    bigrams: WeightRows
    steps: Bools | None
    boundaries: bool

    @property
    def size(self) -> int:
        """D."""
        return self.unigrams.size + self.bigrams.size + self.n_labels * (self.n_labels + 2)

    def blocks(self) -> list[RowBlock]:
        """Return the groups of rows: unigrams, bigrams, and the scores that all positions share, one per row."""
        bigrams, shared = self.unigrams.size, self.unigrams.size + self.bigrams.size
        n_unigrams, n_bigrams = self.unigrams.n_rows, self.bigrams.n_rows
        return [
            RowBlock(0, bigrams, 0, n_unigrams, self.unigrams.width, *self.unigrams.places),
            RowBlock(bigrams, shared, n_unigrams, n_bigrams, self.bigrams.width, *self.bigrams.places),
            RowBlock(shared, self.size, n_unigrams + n_bigrams, self.size - shared, 1, *EVERYWHERE),
        ]

    def views(self, theta: Floats) -> Views:
        """Split theta [D] into its groups, without a copy."""
        n, bigrams = self.n_labels, self.unigrams.size
        steps = bigrams + self.bigrams.size
        start = steps + n * n
        end = start + n
        return Views(
            theta[:bigrams], theta[bigrams:steps], theta[steps:start].reshape(n, n), theta[start:end], theta[end:]
        )

    def restricted(self, kept: Bools) -> Layout:
        """Return a layout with only the weights marked in kept [D]; `move` converts parameters to it.

        Rows remain, possibly without weights, as do transitions, start and end scores.  Transitions that are not kept
        are not trained.
        """
        views = self.views(kept)
        steps = views.transitions.copy() if self.steps is None else self.steps & views.transitions
        unigrams, bigrams = (
            rows_of([cells(rows)[part]], rows.n_rows, rows.width)
            for rows, part in zip((self.unigrams, self.bigrams), views, strict=False)
        )
        return Layout(self.n_labels, unigrams, bigrams, None if steps.all() else steps, self.boundaries)

    def move(self, theta: Floats, kept: Bools) -> Floats:
        """Return theta [D] in the order of `restricted`; shared scores that are not kept become zero."""
        weights = self.unigrams.size + self.bigrams.size
        shared = np.where(kept[weights:], theta[weights:], theta.dtype.type(0))
        return np.concatenate([theta[:weights][kept[:weights]], shared])

    def united(self, first: Layout) -> Layout:
        """Return a layout that also has the weights of another, whose features are the first ones of this."""
        steps = None if self.steps is None or first.steps is None else self.steps | first.steps
        unigrams, bigrams = united(self.unigrams, first.unigrams), united(self.bigrams, first.bigrams)
        return self._replace(unigrams=unigrams, bigrams=bigrams, steps=steps)

    def without_empty(self) -> Layout:
        """Return the layout without features that have no weight; the positions of parameters do not change."""
        unigrams, bigrams = (
            rows if isinstance(rows, DenseRows) else rows._replace(ptr=rows.ptr[np.append(True, used_rows(rows))])
            for rows in (self.unigrams, self.bigrams)
        )
        return self._replace(unigrams=unigrams, bigrams=bigrams)

    def trainable(self) -> Bools:
        """Return which of the L * (L + 2) shared scores are trainable."""
        n = self.n_labels
        trainable = np.ones(n * (n + 2), np.bool_)
        if self.steps is not None:
            trainable[: n * n] = self.steps.ravel()
        if not self.boundaries:
            trainable[n * n :] = False
        return trainable


class Views(NamedTuple):
    """Weights of both blocks, transitions [L, L], start and end scores [L]."""

    unigrams: Floats
    bigrams: Floats
    transitions: Floats
    start: Floats
    end: Floats


def observed_rows(
    ids: Ids, columns: Ints, n_rows: int, width: int, everywhere: tuple[Bools, Bools] | None = None
) -> SparseRows:
    """Return rows with the columns [T] that each feature occurs with; negative ones are skipped.

    everywhere (tuple[Bools, Bools] | None): Rows [R] that also have certain columns [C].
    """
    words = (width + 63) // 64
    marks = np.zeros((n_rows, words), np.uint64)
    bag_marks = np.zeros((ids.store.size, words), np.uint64)
    for tokens, bags, attrs in ids.parts():
        marked = columns[tokens].astype(np.int32, copy=False)
        kernels.rows.mark_columns(attrs, marked, marks)
        kernels.rows.mark_columns(bags, marked, bag_marks)
    kernels.rows.spread_marks(ids.store.ptr, ids.store.ids, bag_marks, marks)
    if everywhere is not None:
        bits = np.zeros(64 * words, np.bool_)
        bits[:width] = everywhere[1]
        marks[everywhere[0]] |= np.packbits(bits, bitorder="little").view("<u8")
    return marked_rows(marks, width)


def marked_rows(marks: Hashes, width: int) -> SparseRows:
    """Return rows with the columns whose bits are set in marks [R, ceil(C / 64)]."""
    sizes, cols, step = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], max(1, BLOCK_BITS // width)
    for first in range(0, len(marks), step):
        part = np.unpackbits(marks[first : first + step].view(np.uint8), axis=1, count=width, bitorder="little")
        sizes.append(part.sum(axis=1, dtype=np.int64))
        cols.append(np.nonzero(part.view(np.bool_))[1].astype(np.int32))
    return SparseRows(np.cumsum(np.concatenate(sizes)), np.concatenate(cols), width)


def bigram_columns(gold: Ints, offsets: Offsets, n_labels: int) -> Ints:
    """Return ``previous * L + label`` for every token [T], -1 if either label is missing."""
    gold = gold.astype(np.int32, copy=False)
    columns = np.where((gold >= 0) & (np.roll(gold, 1) >= 0), np.roll(gold, 1) * n_labels + gold, -1)
    columns[offsets[:-1][np.diff(offsets) > 0]] = -1
    return columns


def make_layout(
    encoded: Encoded,
    gold: Ints,
    n_labels: int,
    n_features: tuple[int, int],
    *,
    support: str,
    boundaries: bool,
    transitions: bool = True,
    unlabelled: tuple[Bools, Bools] | None = None,
) -> Layout:
    """Return the layout for a training set with gold labels [T], -1 if missing.

    n_features (tuple[int, int]): Features of the unigram and of the bigram block.
    support (str): "observed" for the feature-label pairs and transitions seen in `gold`, "all" for every one, "auto"
        for every one if these are at most `MANY_WEIGHTS`, else for those seen.
    unlabelled (tuple[Bools, Bools] | None): Features of both blocks that also occur in texts without labels.  Any label
        is possible there, so these have weights for all labels, and for all label pairs seen in `gold`.
    boundaries, transitions (bool): Whether start and end scores, and shared scores of label pairs, are trained.
    """
    widths = n_labels, n_labels * n_labels
    if support == "all" or (support == "auto" and np.dot(n_features, widths) <= MANY_WEIGHTS):
        unigrams, bigrams = (DenseRows(n, width) for n, width in zip(n_features, widths, strict=True))
        steps = None if transitions else np.zeros((n_labels, n_labels), np.bool_)
        return Layout(n_labels, unigrams, bigrams, steps, boundaries)
    seen = np.zeros(widths[1] + 1, np.bool_)  # the last is for -1
    for first in range(0, len(encoded.offsets) - 1, BLOCK_SEQUENCES):
        offsets = encoded.offsets[first : first + BLOCK_SEQUENCES + 1]
        seen[bigram_columns(gold[offsets[0] : offsets[-1]], offsets - offsets[0], n_labels)] = True
    pairs = bigram_columns(gold, encoded.offsets, n_labels) if n_features[1] else gold
    seen_of: list[tuple[Bools, Bools] | None] = [None, None]
    if unlabelled is not None:
        seen_of = [(unlabelled[0], np.ones(n_labels, np.bool_)), (unlabelled[1], seen[:-1])]
    return Layout(
        n_labels,
        observed_rows(encoded.unigrams, gold, n_features[0], widths[0], seen_of[0]),
        observed_rows(encoded.bigrams, pairs, n_features[1], widths[1], seen_of[1]),
        (seen[:-1] & transitions).reshape(n_labels, n_labels),
        boundaries,
    )
