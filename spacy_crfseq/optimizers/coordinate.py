"""Coordinate descent: one weight, or all weights of one attribute, after another.

Sokolovska (2010), "Contributions to the estimation of probabilistic discriminative models", chapter 7, and Sokolovska,
Lavergne, Cappé & Yvon (2010).  For a weight w_k, with gradient g_k of the loss and the diagonal of its Hessian per
position, h_k = sum P (1 - P) (eq. 7.3), the penalty ``l1 ||w||_1 + l2/2 ||w||^2`` gives the step ::

    w_k = S(h_k w_k - g_k, l1) / (h_k + l2)          S(x, a) = sign(x) max(|x| - a, 0)

Only the sequences that hold the attribute are looked at.  Where most label-pair weights are zero, as under an L1 norm,
forward and backward recursions cost L + nnz instead of L^2 operations a position, so that sweeps get faster as the
model gets sparser.  What the step control of eq. 7.4 is for is done as follows: h is multiplied by a factor, the
curvature that was seen in the last step of the same weights, no weight moves by more than 2, and a step that does not
lower the objective by a share of what it promised is made anew and shorter.  So the objective never rises.

`kernels.coordinate` has the algorithm; here are its indices, the order of visits and the end of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import (
    MISSING,
    NONE,
    Batch,
    Bools,
    Floats,
    Ints,
    Objective,
    Occurrences,
    Offsets,
    RowBlock,
    StepReport,
    Strengths,
)

if TYPE_CHECKING:
    from ..kernels.coordinate import Chains, Lattices, Rows

MATRIX_BYTES = 512 << 20
"""Memory that the matrices of all sets of label-pair attributes may take."""
SPARSE_SHARE = 0.15
"""Share of the entries up to which the sparse product is faster than the dense one."""
CHUNK_TOKENS = 1 << 14
"""A kernel is called for rows that are on at about so many tokens, so that Ctrl-C does not wait for a whole sweep."""


@dataclass
class CoordinateState:
    """A run in progress.

    theta (NDArray): [D] current parameters, float64.
    factors (NDArray): What multiplies the curvature of each row, or of each weight; empty before the first sweep.
    value (float): Objective after the last sweep.
    full (bool): The next sweep visits zeros too.
    work (_Work | None): Indices and scores, made anew in another process.
    """

    theta: NDArray[np.float64]
    rng: np.random.Generator
    factors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0
    value: float = float("inf")
    full: bool = True
    last: StepReport | None = None
    work: _Work | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "work": None}


@dataclass(frozen=True)
class BlockCoordinateDescent:
    """All weights of one attribute at a time (registered as ``spacy_crfseq.BlockCoordinateDescent.v1``).

    Algorithm 9 of the thesis, "SBCD".  Transitions, start and end scores are blocks of their own.

    kappa (float): What multiplies the curvature at the first visit of an attribute.
    revisit (int): Every so many sweeps all weights are visited, in the others those that are not zero; and so are all
        before the run may end.  1 visits all weights every time.
    shuffle (bool): Visit the attributes in a random order, another one in each sweep.
    max_iterations (int): Sweeps of a run.
    tolerance (float): Stop when the objective fell by less than this fraction in a sweep over all weights.
    gradient_tolerance (float): Stop when the norm of the smallest subgradient, as met on the way, is below this times
        max(1, ||theta||).
    seed (int): Of the order.
    RAISES ConfigError: On a setting out of range; at the first sweep, if there are too many different sets of
        label-pair attributes for a matrix each.
    """

    kappa: float = 1.5
    revisit: int = 5
    shuffle: bool = False
    max_iterations: int = 200
    tolerance: float = 1e-5
    gradient_tolerance: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        name = type(self).__name__
        if min(self.max_iterations, self.revisit) < 1:
            raise ConfigError(f"{name}: max_iterations and revisit must be at least 1.")
        if not self.kappa > 0 or not min(self.tolerance, self.gradient_tolerance) >= 0:
            raise ConfigError(f"{name}: kappa must be positive, tolerance and gradient_tolerance 0 or more.")

    needs: ClassVar[frozenset[str]] = frozenset({"log_likelihood"})
    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    online: ClassVar[bool] = False
    _single: ClassVar[bool] = False  # whether weights are visited one at a time

    def start(self, theta: Floats) -> CoordinateState:
        """Return the state of a run that begins at `theta`."""
        return CoordinateState(theta.astype(np.float64), np.random.default_rng(self.seed))

    def export(self, state: CoordinateState, theta: Floats) -> None:
        """Write the current parameters."""
        theta[:] = state.theta

    def iterate(self, objective: Objective, state: CoordinateState) -> StepReport:
        """Run one sweep."""
        if state.last is not None and state.last.converged:
            return state.last._replace(evaluations=0)
        strengths = objective.regularizer.strengths or NONE
        if state.work is None or state.work.objective is not objective:
            state.work = _Work(objective)
        work = state.work
        before = work.begin(state.theta) + objective.regularizer.value(state.theta)
        full = state.full or state.iterations % self.revisit == 0
        violation, visited = self._sweep(work, state, strengths, full)
        loss = work.loss()
        state.value = loss + objective.regularizer.value(state.theta)
        state.iterations += 1
        norm = float(np.sqrt(violation))
        message = self._stop(state, before, norm, full)
        if message:
            norm = work.subgradient_norm(state.theta, strengths)
        passes = 1 + round(visited / max(1, objective.n_sequences))
        state.last = StepReport(state.value, loss, norm, passes, bool(message), message)
        return state.last

    def _sweep(self, work: _Work, state: CoordinateState, strengths: Strengths, full: bool) -> tuple[float, int]:
        """Visit all rows; return (squared norm of the gradient as it was met, sequences passed through)."""
        from ..kernels import coordinate

        if not len(state.factors):
            state.factors = np.full(len(state.theta) if self._single else work.n_rows, self.kappa)
        violation, visited = 0.0, 0
        for rows, order, low, high in work.chunks(state.rng if self.shuffle else None, self._single):
            factors = state.factors
            if not self._single and rows.pairs:
                factors = factors[work.n_state_rows :]
            how = coordinate.Visit(order, low, high, self._single, full)
            found = coordinate.sweep(work.chains, work.lattices, rows, how, state.theta, factors, strengths)
            violation, visited = violation + found[0], visited + found[1]
        return violation, visited

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

    Algorithm 8 of the thesis.  A sweep passes over the sequences of an attribute once for each of its weights: for
    small problems, or few weights an attribute.  Settings and errors are those of `BlockCoordinateDescent`.
    """

    _single: ClassVar[bool] = True


NOWHERE = Occurrences(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32))
"""Of no attributes."""


class _Work:
    """Indices of the sequences and their attributes, and their scores."""

    def __init__(self, objective: Objective) -> None:
        from ..kernels import coordinate

        self.objective, self.allowed = objective, objective.allowed
        state, pair, shared = objective.blocks
        batch, n = objective.batch, state.width
        lengths = np.diff(batch.offsets)
        bounds = batch.offsets[:-1][lengths > 0], batch.offsets[1:][lengths > 0] - 1
        inner = np.ones(batch.n_tokens, np.bool_)
        inner[bounds[0]] = False
        learnt, steps = objective.learnt, shared.begin + n * n
        boundaries = [_More(bounds[0], steps, learnt[n * n : -n]), _More(bounds[1], steps + n, learnt[-n:])]
        transitions = [_More(np.flatnonzero(inner), shared.begin, learnt[: n * n])]
        self.state: Rows = _rows(state, objective.occurrences(0), boundaries, None)
        on = objective.occurrences(1) if pair.n_rows else NOWHERE
        self.pair: Rows = _rows(pair, on, transitions, inner)
        sets, members = _sets(on, inner)
        self.chains: Chains = coordinate.Chains(
            batch.offsets,
            batch.gold,
            batch.weights,
            _kinds(batch),
            np.repeat(np.arange(len(lengths)), lengths),
            sets,
        )
        self.lattices: Lattices = _lattices(batch.n_tokens, len(lengths), n, members, pair.n_rows)

    @property
    def n_state_rows(self) -> int:
        """Rows that score labels."""
        return len(self.state.row_ptr) - 1

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.n_state_rows + len(self.pair.row_ptr) - 1

    def begin(self, theta: NDArray[np.float64]) -> float:
        """Compute all scores from theta, free of the rounding of earlier sweeps; return the loss."""
        from ..kernels import coordinate

        self.lattices.emissions.fill(0)
        if self.allowed is not None:
            self.lattices.emissions[~self.allowed] = -np.inf
        self.lattices.steps.fill(0)
        for rows in (self.state, self.pair):
            coordinate.add_scores(self.lattices, rows, theta)
        return coordinate.begin(self.chains, self.lattices)

    def loss(self) -> float:
        """Return the loss, which is kept up to date."""
        from ..kernels import coordinate

        return coordinate.loss(self.chains, self.lattices)

    def subgradient_norm(self, theta: NDArray[np.float64], strengths: Strengths) -> float:
        """Return the norm of the objective's smallest subgradient at theta [D], for which the scores stand."""
        from ..kernels import coordinate

        gradient, curvature = np.zeros_like(theta), np.zeros_like(theta)
        for rows in (self.state, self.pair):
            coordinate.differentiate(self.chains, self.lattices, rows, theta, gradient, curvature)
        gradient += strengths.l2 * theta + strengths.l1 * np.sign(theta)
        shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - strengths.l1, 0)
        return float(np.linalg.norm(np.where(theta == 0, shrunk, gradient)))

    def chunks(self, rng: np.random.Generator | None, single: bool) -> Iterator[tuple[Rows, Offsets, int, int]]:
        """Yield (all rows of a kind, numbers of some, first and last column + 1) for each kernel call."""
        for rows in (self.state, self.pair):
            costs = np.diff(rows.row_ptr) * (rows.width if single else 1)
            order = np.arange(len(costs)) if rng is None else rng.permutation(len(costs))
            chunk = np.cumsum(costs[order]) // CHUNK_TOKENS
            for part in np.split(order, np.flatnonzero(np.diff(chunk)) + 1):
                pieces = min(rows.width, 1 + int(costs[part].sum()) // CHUNK_TOKENS) if single and len(part) == 1 else 1
                for i in range(pieces):
                    yield rows, part, rows.width * i // pieces, rows.width * (i + 1) // pieces


def _kinds(batch: Batch) -> NDArray[np.int8]:
    """Tell of each sequence how much of its gold labels is known, or that it has no weight."""
    from ..kernels import coordinate

    known = np.concatenate([[0], np.cumsum(batch.gold != MISSING)])
    known, lengths = np.diff(known[batch.offsets]), np.diff(batch.offsets)
    kinds = np.where(known == lengths, coordinate.LABELLED, coordinate.PARTLY)
    kinds[(known == 0) | (batch.weights == 0)] = coordinate.NOTHING
    return kinds.astype(np.int8)


class _More(NamedTuple):
    """A row that no attribute switches on: its tokens, the place of column 0, and which columns are learnt."""

    tokens: Offsets
    begin: int
    learnt: Bools


def _rows(block: RowBlock, on: Occurrences, more: list[_More], wanted: Bools | None) -> Rows:
    """Return the rows of a group, at those of their tokens that are wanted [T], and some more."""
    from ..kernels import coordinate

    keep = np.ones(len(on.tokens), np.bool_) if wanted is None else wanted[on.tokens]
    sizes = np.diff(_pointers(keep)[on.row_ptr])
    cols = [np.flatnonzero(row.learnt) for row in more]
    return coordinate.Rows(
        block.begin,
        block.n_rows,
        block.width,
        block.ptr,
        block.cols,
        _pointers([len(part) for part in cols]),
        np.concatenate([row.begin + part for row, part in zip(more, cols, strict=True)]),
        np.concatenate(cols).astype(np.int32),
        _pointers(np.concatenate([sizes, [len(row.tokens) for row in more]])),
        np.concatenate([on.tokens[keep], *(row.tokens for row in more)]).astype(np.int64),
        wanted is not None,
    )


def _pointers(sizes: Any) -> Offsets:
    """Return where lists of these sizes begin and end in their concatenation."""
    pointers: Offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pointers


def _sets(on: Occurrences, inner: Bools) -> tuple[Offsets, list[Ints]]:
    """Return the number of the set of label-pair attributes of each token [T], and the attributes of each set.

    Only tokens that are not the first of a sequence count.
    """
    sets, members = np.zeros(len(inner), np.int64), list[Ints]()
    sizes = np.diff(on.ptr) if len(on.ptr) > 1 else np.zeros(len(inner), np.int64)
    for size in np.unique(sizes[inner]):
        tokens = np.flatnonzero(inner & (sizes == size))
        first = on.ptr[tokens] if size else np.zeros(len(tokens), np.int64)
        lists = np.sort(on.ids[first[:, None] + np.arange(size)], axis=1)
        if size:
            found, numbers = np.unique(lists, axis=0, return_inverse=True)
        else:
            found, numbers = lists[:1], np.zeros(len(tokens), np.int64)
        sets[tokens] = len(members) + numbers.reshape(-1)
        members += list(found)
    return sets, members


def _lattices(n_tokens: int, n_sequences: int, n: int, members: list[Ints], n_pair_rows: int) -> Lattices:
    """Return empty scores for sequences whose steps have one of the given sets of attributes each.

    RAISES ConfigError: If their matrices take too much memory.
    """
    from ..kernels import coordinate

    n_sets, padded = len(members), -(-n // coordinate.LANES) * coordinate.LANES
    most = int(SPARSE_SHARE * n * n)
    size = n_sets * (8 * n * n + 8 * padded * padded + 12 * most)
    if size > MATRIX_BYTES:
        raise ConfigError(
            "Coordinate descent keeps a matrix for each set of label-pair attributes that a token switches on; "
            f"{n_sets} sets of {n} x {n} label pairs take {size >> 20} MiB, more than {MATRIX_BYTES >> 20}. Use fewer "
            "label-pair templates, or such with fewer values, or another optimizer, such as spacy_crfseq.OWLQN.v1."
        )
    owners = np.repeat(np.arange(n_sets), [len(rows) for rows in members])
    rows = np.concatenate([*members, np.full(n_sets, n_pair_rows)]).astype(np.int64)  # the transitions are in all
    order = np.argsort(rows, kind="stable")
    return coordinate.Lattices(
        np.zeros((n_tokens, n)),
        np.zeros((n_tokens, padded)),
        np.zeros(n_tokens),
        np.zeros((n_sets, n, n)),
        np.zeros((n_sets, padded, padded)),
        np.zeros(n_sets, np.int8),
        np.zeros(n_sets, np.int32),
        np.zeros((n_sets, most), np.uint16),
        np.zeros((n_sets, most), np.uint16),
        np.zeros((n_sets, most)),
        _pointers(np.bincount(rows, minlength=n_pair_rows + 1)),
        np.concatenate([owners, np.arange(n_sets)])[order],
        np.zeros(n_sequences),
        np.zeros(n_sequences),
    )
