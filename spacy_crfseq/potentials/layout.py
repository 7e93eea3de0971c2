"""The layout of the parameters of a linear potential in theta [D].

The parameters are the weights of the *unigram* block (features that score a label), those of the *bigram* block
(features that score a label together with the previous one), transitions, start and end scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..features.encoder import AnyIds, Encoded
from ..types import Bools, Floats, Hashes, Ints, Offsets, RowBlock
from .rows import EVERYWHERE, DenseRows, Rows, SparseRows, restricted_rows, united, without_empty

SHARD_FLOATS = 1 << 18
"""Number of scores that are computed at a time, so that they stay in the cache."""
BLOCK_BITS = 1 << 20
"""Number of possible weights looked at at a time."""


class Layout(NamedTuple):
    """The position of each group of parameters in theta.

    unigrams, bigrams (Rows): Rows of width L, and of width L * L; no bigram rows without label-pair templates.
    steps (Bools | None): [L, L] trainable transitions; None for all.
    boundaries (bool): Whether start and end scores are trainable.
    """

    n_labels: int
    unigrams: Rows
    bigrams: Rows
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
        return Layout(
            self.n_labels,
            restricted_rows(self.unigrams, views.unigrams),
            restricted_rows(self.bigrams, views.bigrams),
            None if steps.all() else steps,
            self.boundaries,
        )

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
        return self._replace(unigrams=without_empty(self.unigrams), bigrams=without_empty(self.bigrams))

    def trainable(self) -> Bools:
        """Return which of the L * (L + 2) shared scores are trainable."""
        n = self.n_labels
        trainable = np.ones(n * (n + 2), np.bool_)
        if self.steps is not None:
            trainable[: n * n] = self.steps.ravel()
        if not self.boundaries:
            trainable[n * n :] = False
        return trainable

    def zero_frozen(self, grad: Floats) -> None:
        """Set the gradient of parameters that are not trainable to zero."""
        grad[self.unigrams.size + self.bigrams.size :][~self.trainable()] = 0


class Views(NamedTuple):
    """Weights of both blocks, transitions [L, L], start and end scores [L]."""

    unigrams: Floats
    bigrams: Floats
    transitions: Floats
    start: Floats
    end: Floats


def shards(offsets: Offsets, floats_per_token: int, times: int = 1, n_threads: int = 1) -> Iterator[tuple[int, int]]:
    """Yield ranges of sequences whose scores take about `times` `SHARD_FLOATS` numbers, at least one sequence each.

    They are smaller if their number would not be a multiple of n_threads.
    """
    tokens = max(1, times * SHARD_FLOATS // max(1, floats_per_token))
    if n_threads > 1 and len(offsets) > 1:
        each = -(-int(offsets[-1] - offsets[0]) // n_threads)
        tokens = max(1, -(-each // max(1, -(-each // tokens))))
    first, n = 0, len(offsets) - 1
    while first < n:
        last = int(np.searchsorted(offsets, offsets[first] + tokens, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


def observed_rows(
    ids: AnyIds, columns: Ints, n_rows: int, width: int, everywhere: tuple[Bools, Bools] | None = None
) -> SparseRows:
    """Return rows with the columns [T] that each feature occurs with; negative ones are skipped.

    everywhere (tuple[Bools, Bools] | None): Rows [R] that also have certain columns [C].
    """
    words = (width + 63) // 64
    marks = np.zeros((n_rows, words), np.uint64)
    bag_marks = np.zeros((ids.store.size, words), np.uint64)
    for tokens, part in ids.parts():
        here = columns[tokens].astype(np.int32, copy=False)
        kernels.rows.mark_columns(part.attrs, here, marks)
        kernels.rows.mark_columns(part.bags, here, bag_marks)
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
    support (str): "observed" for the feature-label pairs and transitions seen in `gold`, "all" for every one.
    unlabelled (tuple[Bools, Bools] | None): Features of both blocks that also occur in texts without labels.  Any label
        is possible there, so these have weights for all labels, and for all label pairs seen in `gold`.
    boundaries, transitions (bool): Whether start and end scores, and shared scores of label pairs, are trained.
    """
    widths = n_labels, n_labels * n_labels
    if support == "all":
        unigrams, bigrams = (DenseRows(n, width) for n, width in zip(n_features, widths, strict=True))
        steps = None if transitions else np.zeros((n_labels, n_labels), np.bool_)
        return Layout(n_labels, unigrams, bigrams, steps, boundaries)
    seen = np.zeros(widths[1] + 1, np.bool_)  # the last is for -1
    for part in shards(encoded.offsets, 1):  # limits the size of temporary arrays
        offsets = encoded.offsets[part[0] : part[1] + 1]
        seen[bigram_columns(gold[offsets[0] : offsets[-1]], offsets - offsets[0], n_labels)] = True
    pairs = bigram_columns(gold, encoded.offsets, n_labels) if n_features[1] else gold
    each: list[tuple[Bools, Bools] | None] = [None, None]
    if unlabelled is not None:
        each = [(unlabelled[0], np.ones(n_labels, np.bool_)), (unlabelled[1], seen[:-1])]
    return Layout(
        n_labels,
        observed_rows(encoded.unigrams, gold, n_features[0], widths[0], each[0]),
        observed_rows(encoded.bigrams, pairs, n_features[1], widths[1], each[1]),
        (seen[:-1] & transitions).reshape(n_labels, n_labels),
        boundaries,
    )
