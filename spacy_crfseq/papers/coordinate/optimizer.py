"""Coordinate descent: one weight, or all weights of one feature, after another.

Sokolovska (2010), "Contributions to the estimation of probabilistic discriminative models", chapter 7, and Sokolovska,
Lavergne, Cappé & Yvon (2010).  For a weight w_k, with gradient g_k of the loss and the diagonal of its Hessian per
position, h_k = sum P (1 - P) (eq. 7.3), the penalty ``l1 ||w||_1 + l2/2 ||w||^2`` gives the step ::

    w_k = S(h_k w_k - g_k, l1) / (h_k + l2)          S(x, a) = sign(x) max(|x| - a, 0)

Only the sequences that hold the feature are visited.  Where most label-pair weights are zero, as under an L1 norm,
forward and backward recursions cost L + nnz instead of L^2 operations a position, so that sweeps get faster as the
model gets sparser.  What the step control of eq. 7.4 is for is done as follows: h is multiplied by a factor, the
curvature that was seen in the last step of the same weights, no weight moves by more than 2, and a step that does not
lower the objective by a share of the predicted decrease is repeated with a shorter length. The objective therefore
never increases.

`kernels` has the algorithm; here are its indices, the order of visits and the end of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...optimizers.batch import evaluate, pseudo_gradient
from ...optimizers.online import check_seed, generator
from ...optimizers.states import Kinds, StoredState
from ...types import (
    MISSING,
    NO_PENALTY,
    NO_REPORT,
    Batch,
    Bools,
    Floats,
    IndexedObjective,
    Ints,
    LossProperty,
    Occurrences,
    Offsets,
    RowBlock,
    StepReport,
)
from . import kernels, sparse_chains

MATRIX_BYTES = 512 << 20
"""Maximum memory for the matrices of all sets of label-pair features."""
SPARSE_SHARE = 0.15
"""Share of non-zero entries up to which the sparse product is faster than the dense one."""
CHUNK_TOKENS = 1 << 14
"""Approximate number of tokens per kernel call, so that Ctrl-C does not have to wait for a whole sweep."""

NOWHERE = Occurrences(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32))


@dataclass
class CoordinateState(StoredState):
    """A run in progress.

    factors (NDArray): What multiplies the curvature of each row, or of each weight; empty before the first sweep.
    full (bool): The next sweep visits zeros too.
    work (Descent | None): Indices and scores.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"work"})
    theta: NDArray[np.float64]
    rng: np.random.Generator
    factors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0
    value: float = float("inf")
    full: bool = True
    last: StepReport | None = None
    work: Descent | None = None

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of `factors` and `last`, see `StoredState`."""
        by_row = np.empty(blocks[0].n_rows + blocks[1].n_rows + 3)  # transitions, start and end scores are rows, too
        return {"factors": (self.factors, self.theta, by_row), "last": (None, NO_REPORT)}


@dataclass(frozen=True)
class BlockCoordinateDescent:
    """All weights of one feature at a time (registered as ``spacy_crfseq.BlockCoordinateDescent.v1``).

    Algorithm 9 of the thesis, "SBCD".  Transitions, start and end scores are blocks of their own.

    kappa (float): What multiplies the curvature at the first visit of a feature.
    revisit (int): Every so many sweeps all weights are visited, in the others those that are not zero; and so are all
        before the run may end.  1 visits all weights every time.
    shuffle (bool): Visit the features in a random order, another one in each sweep.
    max_iterations (int): Sweeps of a run.
    tolerance (float): Stop when the objective fell by less than this fraction in a sweep over all weights.
    gradient_tolerance (float): Stop when the norm of the smallest subgradient, as met on the way, is below this times
        max(1, ||theta||).
    seed (int | None): Of the order, where it is random; None for ``training.seed`` of the config, or 0 outside of one.
    RAISES ConfigError: On a setting out of range; at the first sweep, if there are too many different sets of
        label-pair features for a matrix each.
    """

    kappa: float = 1.5
    revisit: int = 5
    shuffle: bool = False
    max_iterations: int = 200
    tolerance: float = 1e-5
    gradient_tolerance: float = 1e-4
    seed: int | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if min(self.max_iterations, self.revisit) < 1:
            raise ConfigError(f"{name}: max_iterations and revisit must be at least 1.")
        if not self.kappa > 0 or not min(self.tolerance, self.gradient_tolerance) >= 0:
            raise ConfigError(f"{name}: kappa must be positive, tolerance and gradient_tolerance 0 or more.")
        check_seed(name, self.seed)

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"log_likelihood"})
    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    online: ClassVar[bool] = False
    _single: ClassVar[bool] = False  # whether weights are visited one at a time

    def start(self, theta: Floats) -> CoordinateState:
        return CoordinateState(theta.astype(np.float64), generator(self.seed))

    def export(self, state: CoordinateState) -> Floats:
        return state.theta

    def iterate(self, objective: IndexedObjective, state: CoordinateState) -> StepReport:
        """Run one sweep."""
        if state.last is not None and state.last.converged:
            return state.last._replace(evaluations=0)
        strengths, theta = objective.regularizer.strengths or NO_PENALTY, state.theta
        if state.work is None or state.work.objective is not objective:
            state.work = Descent(objective)
        work = state.work
        before = work.begin(theta) + objective.regularizer.value(theta)
        full = state.full or state.iterations % self.revisit == 0
        n_factors = len(theta) if self._single else work.n_rows
        if len(state.factors) != n_factors:
            state.factors = np.full(n_factors, self.kappa)
        violation, visited = 0.0, 0  # the squared norm of the gradient as it was met, and sequences passed through
        for rows, visit in work.visits(state.rng if self.shuffle else None, self._single, full):
            factors = state.factors[work.n_state_rows if rows.pairs and not self._single else 0 :]
            square, passed = kernels.sweep(work.chains, work.lattices, rows, visit, theta, factors, strengths)
            violation, visited = violation + square, visited + passed
        loss = work.loss()
        state.value = loss + objective.regularizer.value(state.theta)
        state.iterations += 1
        norm = float(np.sqrt(violation))
        message = self._stop(state, before, norm, full)
        if message:
            point = evaluate(objective, theta, np.empty_like(theta))
            norm = float(np.linalg.norm(pseudo_gradient(objective, point, np.empty_like(theta))))
        passes = 1 + round(visited / max(1, objective.n_sequences))
        state.last = StepReport(state.value, loss, norm, passes, bool(message), message)
        return state.last

    def _stop(self, state: CoordinateState, before: float, norm: float, full: bool) -> str:
        message = ""
        if norm < self.gradient_tolerance * max(1.0, float(np.linalg.norm(state.theta))):
            message = f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        elif before - state.value < self.tolerance * abs(state.value):
            message = f"the objective fell by less than {self.tolerance:g} of its value in a sweep"
        state.full = bool(message) and not full
        if message and full:
            return message
        if state.iterations >= self.max_iterations:
            return f"{self.max_iterations} sweeps were run"
        return ""


@dataclass(frozen=True)
class CoordinateDescent(BlockCoordinateDescent):
    """One weight at a time (registered as ``spacy_crfseq.CoordinateDescent.v1``).

    Algorithm 8 of the thesis.  A sweep passes over the sequences of a feature once for each of its weights: for
    small problems, or few weights a feature.  Settings and errors are those of `BlockCoordinateDescent`.
    """

    _single: ClassVar[bool] = True


class Descent:
    """Indices of the sequences and their features, and their scores."""

    def __init__(self, objective: IndexedObjective) -> None:
        self.objective, self.allowed = objective, objective.allowed
        trainable = objective.trainable  # an error if scores are not linear
        state, pair, shared = objective.blocks
        begin = shared.begin
        batch, n = objective.batch, state.width
        lengths = np.diff(batch.offsets)
        first, last = batch.offsets[:-1][lengths > 0], batch.offsets[1:][lengths > 0] - 1
        inner = np.ones(batch.n_tokens, np.bool_)
        inner[first] = False
        on = objective.occurrences(1) if pair.n_rows else NOWHERE
        ends = [(first, begin + n * n, trainable[n * n : -n]), (last, begin + n * n + n, trainable[-n:])]
        self.state = _rows(state, objective.occurrences(0), None, ends)
        self.pair = _rows(pair, on, inner, [(np.flatnonzero(inner), begin, trainable[: n * n])])
        self.n_state_rows = len(self.state.row_ptr) - 1
        self.n_rows = self.n_state_rows + len(self.pair.row_ptr) - 1
        sets, members = _sets(on, inner)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        self.chains = sparse_chains.SparseChains(batch.offsets, batch.gold, batch.weights, _kinds(batch), owners, sets)
        self.lattices = _lattices(batch.n_tokens, len(lengths), n, members, pair.n_rows)

    def begin(self, theta: NDArray[np.float64]) -> float:
        """Recompute all scores from theta, without the rounding errors of earlier sweeps; return the loss."""
        self.lattices.emissions.fill(0)
        if self.allowed is not None:
            self.lattices.emissions[~self.allowed] = -np.inf
        self.lattices.steps.fill(0)
        for rows in (self.state, self.pair):
            kernels.add_scores(self.lattices, rows, theta)
        kernels.begin(self.chains, self.lattices)
        return self.loss()

    def loss(self) -> float:
        """Return the loss, which is kept up to date."""
        return float(self.chains.weights @ (self.lattices.log_z - self.lattices.gold))

    def visits(
        self, rng: np.random.Generator | None, single: bool, zeros: bool
    ) -> Iterator[tuple[sparse_chains.RowOccurrences, kernels.Visit]]:
        """Yield the rows that single kernel calls visit, in a random order if there is a generator."""
        for rows in (self.state, self.pair):
            costs = np.diff(rows.row_ptr) * (rows.width if single else 1)
            order = np.arange(len(costs)) if rng is None else rng.permutation(len(costs))
            chunk = np.cumsum(costs[order]) // CHUNK_TOKENS
            for part in np.split(order, np.flatnonzero(np.diff(chunk)) + 1):
                pieces = min(rows.width, 1 + int(costs[part].sum()) // CHUNK_TOKENS) if single and len(part) == 1 else 1
                for i in range(pieces):
                    columns = rows.width * i // pieces, rows.width * (i + 1) // pieces
                    yield rows, kernels.Visit(part, *columns, single, zeros)


def _kinds(batch: Batch) -> NDArray[np.int8]:
    """Return for each sequence how many gold labels are known, or that it has no weight."""
    n_labelled = np.concatenate([[0], np.cumsum(batch.gold != MISSING)])
    n_labelled, lengths = np.diff(n_labelled[batch.offsets]), np.diff(batch.offsets)
    kinds = np.where(n_labelled == lengths, sparse_chains.LABELLED, sparse_chains.PARTLY)
    kinds[(n_labelled == 0) | (batch.weights == 0)] = sparse_chains.NOTHING
    return kinds.astype(np.int8)


def _rows(
    block: RowBlock, on: Occurrences, wanted: Bools | None, more: list[tuple[Offsets, int, Bools]]
) -> sparse_chains.RowOccurrences:
    """Return the rows of a group at their tokens that are wanted [T].

    more: Rows without a feature: their tokens, the place of column 0 in theta, and which columns are trained.
    """
    keep = np.ones(len(on.tokens), np.bool_) if wanted is None else wanted[on.tokens]
    full, columns = not len(block.ptr), [np.flatnonzero(trainable) for _, _, trainable in more]
    sizes = np.full(block.n_rows, block.width) if full else np.diff(block.ptr)
    cols = np.tile(np.arange(block.width), block.n_rows) if full else block.cols
    places = [begin + own for (_, begin, _), own in zip(more, columns, strict=True)]
    return sparse_chains.RowOccurrences(
        block.width,
        _pointers([*sizes, *map(len, columns)]),
        np.concatenate([np.arange(block.begin, block.end), *places]).astype(np.int32),
        np.concatenate([cols, *columns]).astype(np.int32),
        _pointers([*np.diff(_pointers(keep)[on.row_ptr]), *(len(tokens) for tokens, _, _ in more)]),
        np.concatenate([on.tokens[keep], *(tokens for tokens, _, _ in more)]).astype(np.int64),
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
        distinct, numbers = lists[:1], np.zeros(len(tokens), np.int64)
        if size:
            distinct, numbers = np.unique(lists, axis=0, return_inverse=True)
        sets[tokens] = len(members) + numbers.reshape(-1)
        members += list(distinct)
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
