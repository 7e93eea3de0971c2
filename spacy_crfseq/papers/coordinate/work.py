"""Indices and scores of a training set for the kernels of coordinate descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...types import MISSING, Batch, Bools, Floats, IndexedObjective, Ints, Occurrences, Offsets, RowBlock, Strengths
from . import kernels as coordinate
from . import sparse_chains

MATRIX_BYTES = 512 << 20
"""Maximum memory for the matrices of all sets of label-pair features."""
SPARSE_SHARE = 0.15
"""Share of non-zero entries up to which the sparse product is faster than the dense one."""
CHUNK_TOKENS = 1 << 14
"""Approximate number of tokens per kernel call, so that Ctrl-C does not have to wait for a whole sweep."""

NOWHERE = Occurrences(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32))
Chunk = tuple[sparse_chains.Rows, Offsets, int, int]
"""All rows of a kind, the indices of some, first and last column + 1."""


class Work:
    """Indices of the sequences and their features, and their scores."""

    def __init__(self, objective: IndexedObjective) -> None:
        self.objective, self.allowed = objective, objective.allowed
        trainable = objective.trainable  # rejected earlier if scores are not linear
        state, pair, shared = objective.blocks
        batch, n = objective.batch, state.width
        lengths = np.diff(batch.offsets)
        first, last = batch.offsets[:-1][lengths > 0], batch.offsets[1:][lengths > 0] - 1
        inner = np.ones(batch.n_tokens, np.bool_)
        inner[first] = False
        steps = shared.begin + n * n
        boundaries = [_More(first, steps, trainable[n * n : -n]), _More(last, steps + n, trainable[-n:])]
        transitions = [_More(np.flatnonzero(inner), shared.begin, trainable[: n * n])]
        on = objective.occurrences(1) if pair.n_rows else NOWHERE
        self.state = _rows(state, objective.occurrences(0), boundaries, None)
        self.pair = _rows(pair, on, transitions, inner)
        self.n_state_rows = len(self.state.row_ptr) - 1
        self.n_rows = self.n_state_rows + len(self.pair.row_ptr) - 1
        sets, members = _sets(on, inner)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        self.chains = sparse_chains.Chains(batch.offsets, batch.gold, batch.weights, _kinds(batch), owners, sets)
        self.lattices = _lattices(batch.n_tokens, len(lengths), n, members, pair.n_rows)

    def begin(self, theta: NDArray[np.float64]) -> float:
        """Recompute all scores from theta, without the rounding errors of earlier sweeps; return the loss."""
        self.lattices.emissions.fill(0)
        if self.allowed is not None:
            self.lattices.emissions[~self.allowed] = -np.inf
        self.lattices.steps.fill(0)
        for rows in (self.state, self.pair):
            coordinate.add_scores(self.lattices, rows, theta)
        coordinate.begin(self.chains, self.lattices)
        return self.loss()

    def sweep(
        self, chunk: Chunk, single: bool, full: bool, theta: NDArray[np.float64], factors: Floats, strengths: Strengths
    ) -> tuple[float, int]:
        """Visit the rows of a chunk, including zeros if `full`; return the result of `kernels.sweep`."""
        rows, order, low, high = chunk
        if rows.pairs and not single:
            factors = factors[self.n_state_rows :]
        visit = coordinate.Visit(order, low, high, single, full)
        return coordinate.sweep(self.chains, self.lattices, rows, visit, theta, factors, strengths, theta[:0])

    def loss(self) -> float:
        """Return the loss, which is kept up to date."""
        return float(self.chains.weights @ (self.lattices.log_z - self.lattices.gold))

    def subgradient_norm(self, theta: NDArray[np.float64], strengths: Strengths) -> float:
        """Return the norm of the objective's smallest subgradient at theta [D], to which the scores belong."""
        gradient = np.zeros_like(theta)
        for rows in (self.state, self.pair):
            visit = coordinate.Visit(np.arange(len(rows.row_ptr) - 1), 0, rows.width, False, True)
            coordinate.sweep(self.chains, self.lattices, rows, visit, theta, theta, strengths, gradient)
        gradient += strengths.l2 * theta + strengths.l1 * np.sign(theta)
        shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - strengths.l1, 0)
        return float(np.linalg.norm(np.where(theta == 0, shrunk, gradient)))

    def chunks(self, rng: np.random.Generator | None, single: bool) -> Iterator[Chunk]:
        """Yield the chunks of single kernel calls."""
        for rows in (self.state, self.pair):
            costs = np.diff(rows.row_ptr) * (rows.width if single else 1)
            order = np.arange(len(costs)) if rng is None else rng.permutation(len(costs))
            chunk = np.cumsum(costs[order]) // CHUNK_TOKENS
            for part in np.split(order, np.flatnonzero(np.diff(chunk)) + 1):
                pieces = min(rows.width, 1 + int(costs[part].sum()) // CHUNK_TOKENS) if single and len(part) == 1 else 1
                for i in range(pieces):
                    yield rows, part, rows.width * i // pieces, rows.width * (i + 1) // pieces


def _kinds(batch: Batch) -> NDArray[np.int8]:
    """Return for each sequence how many gold labels are known, or that it has no weight."""
    known = np.concatenate([[0], np.cumsum(batch.gold != MISSING)])
    known, lengths = np.diff(known[batch.offsets]), np.diff(batch.offsets)
    kinds = np.where(known == lengths, sparse_chains.LABELLED, sparse_chains.PARTLY)
    kinds[(known == 0) | (batch.weights == 0)] = sparse_chains.NOTHING
    return kinds.astype(np.int8)


class _More(NamedTuple):
    """A row without a feature: its tokens, the position of column 0, and its trainable columns."""

    tokens: Offsets
    begin: int
    trainable: Bools


def _rows(block: RowBlock, on: Occurrences, more: list[_More], wanted: Bools | None) -> sparse_chains.Rows:
    """Return the rows of a group at their selected tokens [T], and additional rows."""
    keep = np.ones(len(on.tokens), np.bool_) if wanted is None else wanted[on.tokens]
    sizes = np.diff(_pointers(keep)[on.row_ptr])
    cols = [np.flatnonzero(row.trainable) for row in more]
    return sparse_chains.Rows(
        *(block.begin, block.n_rows, block.width, block.ptr, block.cols),
        _pointers([len(part) for part in cols]),
        np.concatenate([row.begin + part for row, part in zip(more, cols, strict=True)]),
        np.concatenate(cols).astype(np.int32),
        _pointers(np.concatenate([sizes, [len(row.tokens) for row in more]])),
        np.concatenate([on.tokens[keep], *(row.tokens for row in more)]).astype(np.int64),
        wanted is not None,
    )


def _pointers(sizes: Any) -> Offsets:
    """Return the bounds of lists with these sizes in their concatenation."""
    pointers: Offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pointers


def _sets(on: Occurrences, inner: Bools) -> tuple[Offsets, list[Ints]]:
    """Return the set of label-pair features of each token [T], as an index, and the features of each set.

    The first tokens of sequences are ignored.
    """
    sets, members = np.zeros(len(inner), np.int64), list[Ints]()
    sizes = np.diff(on.ptr) if len(on.ptr) > 1 else np.zeros(len(inner), np.int64)
    for size in np.unique(sizes[inner]):
        tokens = np.flatnonzero(inner & (sizes == size))
        first = on.ptr[tokens] if size else np.zeros(len(tokens), np.int64)
        lists = np.sort(on.ids[first[:, None] + np.arange(size)], axis=1)
        found, numbers = lists[:1], np.zeros(len(tokens), np.int64)
        if size:
            found, numbers = np.unique(lists, axis=0, return_inverse=True)
        sets[tokens] = len(members) + numbers.reshape(-1)
        members += list(found)
    return sets, members


def _lattices(n_tokens: int, n_sequences: int, n: int, members: list[Ints], n_pair_rows: int) -> sparse_chains.Lattices:
    """Return empty scores for sequences with one of the given sets of features at each step.

    RAISES ConfigError: If their matrices take too much memory.
    """
    n_sets, padded = len(members), -(-n // sparse_chains.LANES) * sparse_chains.LANES
    most = int(SPARSE_SHARE * n * n)
    size = n_sets * (8 * n * n + 8 * padded * padded + 12 * most)
    if size > MATRIX_BYTES:
        raise ConfigError(
            "Coordinate descent keeps a matrix for each set of label-pair features that a token switches on; "
            f"{n_sets} sets of {n} x {n} label pairs take {size >> 20} MiB, more than {MATRIX_BYTES >> 20}. Use fewer "
            "label-pair templates, or such with fewer values, or another optimizer, such as spacy_crfseq.OWLQN.v1."
        )
    owners = np.repeat(np.arange(n_sets), [len(rows) for rows in members])
    rows = np.concatenate([*members, np.full(n_sets, n_pair_rows)]).astype(np.int64)  # the transitions are in all
    order = np.argsort(rows, kind="stable")
    return sparse_chains.Lattices(
        np.zeros((n_tokens, n)), np.zeros((n_tokens, padded)), np.zeros(n_tokens), np.zeros((n_sets, n, n)),
        np.zeros((n_sets, padded, padded)), np.zeros(n_sets, np.int8), np.zeros(n_sets, np.int32),
        np.zeros((n_sets, most), np.uint16), np.zeros((n_sets, most), np.uint16), np.zeros((n_sets, most)),
        _pointers(np.bincount(rows, minlength=n_pair_rows + 1)), np.concatenate([owners, np.arange(n_sets)])[order],
        np.zeros(n_sequences), np.zeros(n_sequences),
    )  # fmt: skip
