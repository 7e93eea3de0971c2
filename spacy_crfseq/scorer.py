"""Scores of encoded texts: sums of weight rows, with what is derived from the weights for quick reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .features.encoder import Encoded, Ids
from .features.index import BagStore
from .layout import BagRows, Layout, Rows, SparseRows, Views, shards
from .tag_dictionary import EmissionMask
from .types import Floats, Offsets, Scores


class Scorer(NamedTuple):
    """Computes the scores of one encoded text; made by `LinearChainCRF.scorer`."""

    layout: Layout
    views: Views
    encoded: Encoded
    tables: tuple[Table, Table]
    sums: tuple[Floats, Floats]
    mask: EmissionMask | None = None

    def scores(self, first: int, last: int) -> tuple[Scores, Offsets]:
        """Return the scores of the sequences first..last-1 and their own offsets."""
        offsets = self.encoded.offsets[first : last + 1]
        tokens = self.tokens(first, last)
        n_tokens = tokens.stop - tokens.start
        n, views = self.layout.n_labels, self.views
        emissions = np.zeros((n_tokens, n), views.state.dtype)
        if self.mask is not None and self.encoded.words is not None:
            self.mask.write(self.encoded.words[tokens], emissions)
        self.tables[0].add(self.encoded.state, tokens, self.sums[0], emissions)
        transitions = views.transitions[None]
        if self.layout.pair.n_rows:
            transitions = np.empty((n_tokens, n, n), views.state.dtype)
            transitions[:] = views.transitions
            self.tables[1].add(self.encoded.pair, tokens, self.sums[1], transitions.reshape(n_tokens, n * n))
        return Scores(emissions, transitions, views.start, views.end), offsets - offsets[0]

    def shards(self, n_threads: int = 1) -> Iterator[tuple[int, int]]:
        """Yield ranges of sequences to be scored together, as many as keep all threads busy."""
        n = self.layout.n_labels
        return shards(self.encoded.offsets, n * n if self.layout.pair.n_rows else n, n_threads=n_threads)

    def tokens(self, first: int, last: int) -> slice:
        """Return the tokens of the sequences first..last-1."""
        bounds = self.encoded.offsets
        return slice(int(bounds[first]), int(bounds[last]))


class _Split(NamedTuple):
    """Sparse rows sorted for reading, see `kernels.gather.split_rows`."""

    heads: Floats
    dense: Floats


class Table:
    """The weight rows of a block, and what is derived from them for quick reading while the weights stay."""

    DENSE_SHARE = 8
    """A sparse row is read as a dense one where it has at least one in so many weights: memory stays in bounds."""

    def __init__(self, rows: Rows, weights: Floats) -> None:
        self._rows, self._weights = rows, weights
        self._store: BagStore | None = None
        self._bags = BagRows(rows, weights)
        self._split: _Split | None = None

    @property
    def n_bytes(self) -> int:
        """The memory of the sums of bags, which grows with the words met."""
        return self._bags.n_bytes

    def sums(self, store: BagStore) -> Floats:
        """Return [bags, C] sums of the rows of each bag; a later call leaves the array as it is."""
        if store is not self._store:
            self._store, self._bags = store, BagRows(self._rows, self._weights)
        if self._split is None and isinstance(self._rows, SparseRows):
            self._split = self._sorted(self._rows)
        return self._bags.sums(store)

    def add(self, ids: Ids, tokens: slice, sums: Floats, out: Floats) -> None:
        """Add the rows of some tokens to out [T, C]."""
        from .kernels import gather, rows

        if ids.bags.shape[1]:
            rows.add_fixed(ids.bags[tokens], sums, out)
        if not ids.attrs.shape[1]:
            return
        if isinstance(self._rows, SparseRows):
            assert self._split is not None
            gather.add_split(ids.attrs[tokens], *self._split, self._rows.ptr, self._rows.cols, self._weights, out)
        elif self._rows.n_rows:
            self._rows.add(self._weights, ids.attrs[tokens], out)

    def _sorted(self, rows: SparseRows) -> _Split:
        from .kernels import gather

        heads = np.empty((rows.n_rows, 2), self._weights.dtype)
        dense = np.zeros((0, rows.width), self._weights.dtype)
        least = max(2, -(-rows.width // self.DENSE_SHARE))
        size = gather.split_rows(rows.ptr, rows.cols, self._weights, least, heads, dense)
        if size:
            dense = np.zeros((size, rows.width), self._weights.dtype)
            gather.split_rows(rows.ptr, rows.cols, self._weights, least, heads, dense)
        return _Split(heads, dense)
