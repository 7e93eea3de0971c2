"""Sequence boosting: in every round one feature, chosen by a bound on the loss, gets a step of its own size.

Altun, Hofmann & Johnson (2002), "Discriminative learning for label sequences via boosting"; Altun, Johnson & Hofmann
(2003), algorithm 2.  The loss is ``sum_n w_n phi(u_n)`` with u_n = -log P(y_n | x_n) and phi convex and increasing: the
identity, or their exp(u) - 1.  Let the weight of feature k grow by x.  A label sequence y of n has the feature
v(y) = count_k(y) - count_k(y_n) times more often than the gold one, and 1 / P(y_n) is multiplied by::

    z_n(x) = sum_y P(y) exp(x v(y))         phi(u + log z) <= phi(u) + phi'(u) (z - 1)

The second line holds for the identity since log z <= z - 1, for exp(u) - 1 with equality, and for its tangent beyond a
cap c: there phi' is e^c, and ``e^c log z <= e^c (z - 1)``; where u + log z comes to lie under the cap, with s = u - c,
it says ``e^s z <= s + z``, which follows from z < e^-s and 1 - e^-s <= s.  So the sum over n of s_n (z_n - 1), where
s_n = w_n phi'(u_n), bounds what the loss gains, and is itself bounded by a function of few sums:

* *By sequence* (2002): a sequence other than the gold one has v in [-l, h].  The chord of the exponential gives
  ``z - 1 <= sum_{y != y_n} P(y) ((h - v) e^{-x l} + (v + l) e^{x h}) / (l + h) - (1 - P(y_n))``.  With one interval for
  all n, W = sum_n s_n (1 - P(y_n)) and G = sum_n s_n sum_y P(y) v(y), the minimum is in closed form (the loose bound)::

      x = log(l (h W - G) / (h (G + l W))) / (l + h)

  With an interval for each n a line search finds it (the tight bound).  If some gold labels are missing, Q = P(. | known
  labels) and v(y) = count_k(y) - E_Q[count_k]: sequences that agree with the known labels contribute the same to both
  sides, and ``1 / E_Q[exp(x count)] <= exp(-x E_Q[count])`` for the others, so that the same formulas hold.
* *By position*, for chains: let the feature be possible at m positions t of n, on with the probability p_t, and q_t given
  the known labels.  As the exponential is convex, ``exp(x v) <= sum_t exp(x m v_t) / m`` with v_t = 1[on at t] - q_t, and
  ``exp(x m v_t) - 1`` is at most ``v_t (e^{xm} - 1)`` for v_t >= 0 and ``-v_t (e^{-xm} - 1)`` below.  So::

      z - 1 <= A (e^{-xm} - 1) / m + B (e^{xm} - 1) / m       A = sum_t q_t (1 - p_t)      B = sum_t (1 - q_t) p_t

  A position that is predicted well adds nothing, even if its sequence has errors elsewhere.

Transitions, start and end scores are in every sequence, and a step of one costs a pass over the text: they get their
steps together, by the bound on positions with 2m instead of m, since at one position two of them differ at most (Collins,
Schapire & Singer 2002, section 5.1), in rounds where that promises more than the best feature does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Floats, LikelihoodLoss, Objective, Occurrences, RowBlock, StepReport

BOUNDS = ("position", "tight", "loose")
CANDIDATES = 4
"""Features among which a line search chooses."""
CHUNK_TOKENS = 1 << 13
"""Tokens of sequences that are computed anew before the loss is asked for their slopes."""
SHRUNK = 0.5
"""When the loss has shrunk to this fraction, all sums are computed anew, so that rounding errors never add up."""
GROUPS = 1.25
"""Sequences are of like length if they differ by less than this factor."""


@dataclass
class BoostingState:
    """A run in progress.

    theta (NDArray): [D] current weights, float64.
    memory (Memory | None): What is remembered of the text; None before the first iteration, or when an interrupt came
        between, and it has to be computed anew.
    rounds (int): Steps taken.
    shrunk (float): The loss when all sums were last computed.
    """

    theta: NDArray[np.float64]
    memory: Memory | None = None
    rounds: int = 0
    iterations: int = 0
    shrunk: float = 0.0
    done: str = ""


@dataclass(frozen=True)
class Boosting:
    """Sequence boosting (registered as ``spacy_crfseq.Boosting.v1``); its penalty is the number of rounds.

    It takes the losses that are functions of the likelihood of whole sequences, and no regularizer.  A weight stays
    exactly zero until its feature is chosen.

    bound (str): "loose" and "tight", the bounds of the paper on whole sequences, or "position", under which steps are
        longer; see the module's text.
    rounds (int): Steps of an iteration, after which the run reports, and may be scored and stopped.
    max_iterations (int): Iterations of a run.
    max_step (float): Longest step; a feature that is never wrong would get an infinite one.
    tolerance (float): Stop when the best step promises to lower the loss by less than this fraction.
    RAISES ConfigError: On a setting out of range.
    """

    bound: str = "position"
    rounds: int = 100
    max_iterations: int = 100
    max_step: float = 1.0
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if self.bound not in BOUNDS:
            raise ConfigError(f'Boosting: bound must be "position", "tight" or "loose", but {self.bound!r} was given.')
        if min(self.rounds, self.max_iterations) < 1:
            raise ConfigError("Boosting: rounds and max_iterations must be at least 1.")
        if not self.max_step > 0 or not self.tolerance >= 0:
            raise ConfigError("Boosting: max_step must be positive, and tolerance 0 or more.")

    @property
    def needs(self) -> frozenset[str]:
        """What is asked of the objective."""
        return frozenset({"likelihood"})

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: none."""
        return frozenset({"none"})

    @property
    def online(self) -> bool:
        """False: every iteration needs all data."""
        return False

    def start(self, theta: Floats) -> BoostingState:
        """Return the state of a run that begins at `theta`."""
        return BoostingState(theta.astype(np.float64))

    def export(self, state: BoostingState, theta: Floats) -> None:
        """Write the current weights."""
        theta[:] = state.theta

    def iterate(self, objective: Objective, state: BoostingState) -> StepReport:
        """Run `rounds` rounds, fewer where no step is worth while."""
        memory, state.memory = state.memory, None
        if memory is None:
            memory = Memory.of(objective, state.theta, by_sequence=self.bound != "position")
            memory.begin(objective)
            state.shrunk = memory.value
        visited = memory.visited
        for _ in range(0 if state.done else self.rounds):
            step = self._best(memory)
            if step.gain <= self.tolerance * memory.value:
                state.done = f"no step promises to lower the loss by more than {self.tolerance:g} of its value"
                break
            memory.take(objective, step)
            state.rounds += 1
            if memory.value < SHRUNK * state.shrunk:
                memory.begin(objective)
                state.shrunk = memory.value
        if not state.done:
            state.iterations += 1
            if state.iterations >= self.max_iterations:
                state.done = f"{self.max_iterations} iterations of {self.rounds} rounds were run"
        state.memory = memory  # an interrupt would have left it None
        passes = -(-(memory.visited - visited) // max(1, memory.n_tokens))
        return StepReport(memory.value, memory.value, memory.grad_norm(), passes, bool(state.done), state.done)

    def _best(self, memory: Memory) -> Step:
        """Return the step with the largest guaranteed decrease among a few that look best."""
        rows = memory.promising(self.bound == "position", self.max_step, 1 if self.bound == "loose" else CANDIDATES)
        steps = [memory.step(row, self.bound, self.max_step) for row in rows]
        best = max(steps, key=lambda step: step.gain, default=Step(SHARED, 0.0, 0.0))
        if memory.shared_estimate() <= best.gain:
            return best
        together = memory.shared_step(self.max_step)
        return together if together.gain > best.gain else best


SHARED = -1


@dataclass(frozen=True)
class Step:
    """A step of the weight of one row's best feature, or of all shared scores.

    row (int): Number of the row, or `SHARED`.
    by: What is added, a number or an array [L * (L + 2)].
    gain (float): Guaranteed decrease of the loss.
    """

    row: int
    by: Any
    gain: float


@dataclass
class Memory:
    """What is remembered of the text between the rounds: see `kernels.boosting`.

    theta (NDArray): [D] the state's weights, changed in place.
    shared (slice): Where transitions, start and end scores lie in theta.
    learnt (NDArray): [L * (L + 2)] which of them are learnt.
    alive (NDArray): Sequences that contribute to the loss.
    nll, slopes, masses, values (NDArray): [N] of each sequence, its -log P(gold), weight * phi', that times 1 - P(gold),
        and weight * phi.
    owners (list): [T] for each group of rows, the sequence of a position, -1 for tokens that are none.
    changed (NDArray): [T] tokens whose scores have just been changed.
    """

    theta: NDArray[np.float64]
    rows: Any
    text: Any
    occurrences: list[Occurrences]
    owners: list[NDArray[np.int32]]
    shared: slice
    learnt: NDArray[np.bool_]
    weights: NDArray[np.float64]
    alive: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lengths: NDArray[np.float64]
    groups: NDArray[np.int32]
    group_sizes: NDArray[np.float64]
    local: NDArray[np.float64]
    free: Any
    clamped: Any
    new: tuple[Any, Any, NDArray[np.bool_]]
    steps: Any
    sums: Any
    changed: NDArray[np.bool_]
    gains: NDArray[np.float64]
    best: NDArray[np.int64]
    table: NDArray[np.float64]
    nll: NDArray[np.float64] = field(init=False)
    slopes: NDArray[np.float64] = field(init=False)
    masses: NDArray[np.float64] = field(init=False)
    values: NDArray[np.float64] = field(init=False)
    value: float = 0.0
    visited: int = 0

    @classmethod
    def of(cls, objective: Objective, theta: NDArray[np.float64], *, by_sequence: bool) -> Memory:
        """Return room for what is to be remembered.

        by_sequence (bool): Keep the sums that bounds on whole sequences need.
        """
        from ..kernels import boosting as kernels

        blocks, batch = objective.blocks, objective.batch
        n_sequences, n_tokens = len(batch.weights), batch.n_tokens
        n_labels, pairs = blocks[0].width, blocks[1].n_rows > 0
        lengths = np.diff(batch.offsets)
        owner = np.repeat(np.arange(n_sequences, dtype=np.int32), lengths)
        missing = np.bincount(owner[batch.gold < 0], minlength=n_sequences)
        partial = (missing > 0) & (missing < lengths)
        alive = np.flatnonzero((batch.weights > 0) & (missing < lengths))
        rows = kernels.Rows(*_places(blocks), blocks[1].first)
        occurrences = [objective.occurrences(block) for block in range(2 if pairs else 1)]
        dead = np.ones(n_sequences, np.bool_)
        dead[alive] = False
        owners = [np.where(dead[owner], np.int32(-1), owner)]
        columns = [np.ascontiguousarray(batch.gold)]
        if pairs:
            owners.append(owners[0].copy())
            owners[1][batch.offsets[:-1][lengths > 0]] = -1
            before = np.concatenate([batch.gold[:0], np.full(min(1, n_tokens), -1, np.int32), batch.gold[:-1]])
            columns.append(
                np.where((before >= 0) & (batch.gold >= 0), before * n_labels + batch.gold, -1).astype(np.int32)
            )
        low, high, mean = np.zeros(len(theta)), np.zeros(len(theta)), np.zeros(len(rows.begin) - 1)
        for block, index, of_tokens, labels in zip(blocks, occurrences, owners, columns, strict=False):
            kernels.reach(
                block.first, index.row_ptr, index.tokens, labels, of_tokens, rows, low, high, mean
            )  # fmt: skip
        held_ptr, held = np.zeros(n_sequences + 1, np.int64), np.zeros(0, np.int32)
        if by_sequence:
            held_ptr, held = _held(occurrences, owner, blocks, n_sequences)
        nothing = np.zeros(0, np.int64), np.zeros(0, np.int32)
        pair_part = (occurrences[1].ptr, occurrences[1].ids + np.int32(blocks[1].first)) if pairs else nothing
        text = kernels.Text(
            batch.offsets, np.ascontiguousarray(batch.gold), partial,
            occurrences[0].ptr, occurrences[0].ids, *pair_part, held_ptr, held,
        )  # fmt: skip
        longest = int(lengths.max(initial=1))
        logs = np.log(np.maximum(lengths + 1, 1)) / np.log(GROUPS)
        groups = np.ceil(logs - 1e-9).astype(np.int32)
        n_groups = int(groups.max(initial=0)) + 1
        sizes = np.zeros(n_groups)
        np.maximum.at(sizes, groups, lengths + 1)
        room, clamps = CHUNK_TOKENS + longest, bool(partial.any())
        n_rows, n_shared = len(rows.begin) - 1, n_labels * (n_labels + 2)
        n_steps = longest if pairs else 1
        most = max((int(np.diff(index.row_ptr).max(initial=0)) for index in occurrences), default=0)

        def chain(length: int) -> Any:
            return kernels.Chain(np.empty((length, n_labels)), np.empty((length, n_labels)), np.zeros(length))

        return cls(
            theta=theta, rows=rows, text=text, occurrences=occurrences, owners=owners,
            shared=slice(blocks[2].begin, blocks[2].end), learnt=objective.learnt,
            weights=batch.weights, alive=alive, low=low, high=high, lengths=mean, groups=groups, group_sizes=sizes,
            local=np.empty((n_tokens, n_labels)), free=chain(n_tokens), clamped=chain(n_tokens if clamps else 0),
            new=(chain(room), chain(room if clamps else 0), np.zeros(room, np.bool_)),
            steps=kernels.Steps(
                np.empty((n_steps, n_labels, n_labels)), np.empty((n_steps, n_labels, n_labels)), np.empty(n_steps)
            ),
            sums=kernels.Sums(
                np.zeros((len(theta), 2)), np.zeros((n_groups, n_shared, 2)), np.zeros(n_rows if by_sequence else 0),
                np.zeros(n_rows, np.bool_),
            ),
            changed=np.zeros(n_tokens, np.bool_), gains=np.zeros(n_rows), best=np.zeros(n_rows, np.int64),
            table=np.empty((min(most, n_sequences), 6)),
        )  # fmt: skip

    @property
    def n_tokens(self) -> int:
        """T."""
        return len(self.changed)

    @property
    def n_labels(self) -> int:
        """L."""
        return self.local.shape[1]

    @property
    def transitions(self) -> NDArray[np.float64]:
        """[L, L], a part of theta."""
        n = self.n_labels
        return self.theta[self.shared][: n * n].reshape(n, n)

    def begin(self, objective: Objective) -> None:
        """Compute everything anew."""
        from ..kernels import boosting as kernels

        n = self.n_labels
        boundaries = self.theta[self.shared][n * n :].reshape(2, n)
        kernels.local_scores(self.theta, self.rows, self.text, *boundaries, self.local)
        for chain in (self.free, self.clamped):
            for array in chain:
                array.fill(np.nan)
        for array in self.sums:
            array.fill(0)
        self.sums.dirty[:] = True
        n_sequences = len(self.weights)
        self.nll, self.slopes, self.masses, self.values = (np.zeros(n_sequences) for _ in range(4))
        self.changed[:] = True
        self._renew(objective, self.alive, -1, 0, 0.0)
        self.changed[:] = False

    def take(self, objective: Objective, step: Step) -> None:
        """Change weights and everything that hangs on them."""
        if step.row == SHARED:
            self.theta[self.shared] += step.by
            self.begin(objective)
            return
        parameter = self.best[step.row]
        column = int(self.rows.cols[parameter])
        positions, pair, owner = self._positions(step.row)
        positions = positions[owner[positions] >= 0]
        self.theta[parameter] += step.by
        before = -1
        if pair:
            before, column = divmod(column, self.n_labels)
        else:
            self.local[positions, column] += step.by
        self.changed[positions] = True
        of_positions = owner[positions]
        sequences = of_positions[np.flatnonzero(np.diff(of_positions, prepend=-1))].astype(np.int64)
        self._renew(objective, sequences, before, column, float(step.by))
        self.changed[positions] = False

    def _positions(self, row: int) -> tuple[NDArray[np.int32], bool, NDArray[np.int32]]:
        """Return the tokens where a row is on, whether it scores pairs, and whose tokens are positions."""
        pair = row >= self.rows.pair
        index, at = self.occurrences[pair], row - (self.rows.pair if pair else 0)
        return index.tokens[index.row_ptr[at] : index.row_ptr[at + 1]], pair, self.owners[pair]

    def _renew(self, objective: Objective, sequences: NDArray[np.int64], before: int, column: int, by: float) -> None:
        """Compute some sequences anew after a change."""
        from ..kernels import boosting as kernels

        change = kernels.Change(before, column, by)
        data = (self.theta, self.rows, self.text, self.local, self.transitions, self.changed)
        chains = (self.free, self.clamped, *self.new, self.steps)
        for part in self._chunks(sequences):
            nll = np.empty(len(part))
            kernels.renew(part, *data, *chains, nll)
            slopes, masses, values = self._slopes(objective, part, nll)
            self.visited += kernels.exchange(part, *data, *chains, change, slopes, masses, self.groups, self.sums)
            self.nll[part], self.slopes[part], self.masses[part] = nll, slopes[:, 1], masses[:, 1]
            self.values[part] = values
        self.value = float(self.values.sum())

    def _slopes(
        self, objective: Objective, part: NDArray[np.int64], nll: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return old and new slopes and masses [n, 2], and new values [n], of some sequences."""
        loss: LikelihoodLoss = objective.loss  # type: ignore[assignment]
        phi, slope = loss.link(nll)
        slope = self.weights[part] * slope
        masses = np.stack([self.masses[part], -slope * np.expm1(-nll)], 1)
        return np.stack([self.slopes[part], slope], 1), masses, self.weights[part] * phi

    def _chunks(self, sequences: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Cut a list of sequences into parts of about `CHUNK_TOKENS` tokens."""
        offsets = self.text.offsets
        numbers = np.cumsum(offsets[sequences + 1] - offsets[sequences]) // CHUNK_TOKENS
        for part in np.split(sequences, np.flatnonzero(np.diff(numbers)) + 1):
            if len(part):
                yield part

    def promising(self, by_position: bool, limit: float, n: int) -> list[int]:
        """Return the rows whose best features look best, at most n."""
        from ..kernels import boosting as kernels

        kernels.rank(
            by_position, limit, self.rows, self.sums, self.low, self.high, self.lengths, self.gains, self.best
        )
        if n == 1:
            rows = np.argmax(self.gains, keepdims=True) if len(self.gains) else np.zeros(0, np.int64)
        else:
            n = min(n, len(self.gains))
            rows = np.sort(np.argpartition(-self.gains, n - 1)[:n]) if n else np.zeros(0, np.int64)
        return [int(row) for row in rows if self.gains[row] > 0]

    def step(self, row: int, bound: str, limit: float) -> Step:
        """Return the best step of a row's best feature and what it promises, from the probabilities of now."""
        from ..kernels import boosting as kernels

        parameter = self.best[row]
        positions, pair, owner = self._positions(row)
        size = kernels.collect(
            positions, owner, self.rows.cols[parameter], self.theta, self.rows, self.text, self.local,
            self.transitions, self.free, self.clamped, self.steps, pair, self.table,
        )  # fmt: skip
        table = self.table[:size]
        sequences = table[:, 0].astype(np.int64)
        plus, minus = (self.slopes[sequences] * table[:, part] for part in (1, 2))
        if bound == "position":
            down = up = np.ascontiguousarray(table[:, 5])
            a, b = minus / down, plus / up
        else:
            down, up, mass = np.ascontiguousarray(table[:, 3]), np.ascontiguousarray(table[:, 4]), self.masses[sequences]
            gradient = plus - minus
            if bound == "loose":
                down, up = np.atleast_1d(down.max()), np.atleast_1d(up.max())
                gradient, mass = np.atleast_1d(gradient.sum()), np.atleast_1d(mass.sum())
            a = np.maximum(up * mass - gradient, 0) / (down + up)
            b = np.maximum(down * mass + gradient, 0) / (down + up)
        by, gain = kernels.minimise(a, down, b, up, limit)
        return Step(row, by, gain)

    def shared_estimate(self) -> float:
        """Return about how much a step of all shared scores would promise."""
        sums = np.maximum(self.sums.shared[:, self.learnt], 0)
        both = sums.sum(0)
        lengths = 2 * np.einsum("g,gkp->k", self.group_sizes, sums) / np.maximum(both.sum(1), 1e-300)
        roots = np.sqrt(both)
        return float(np.sum((roots[:, 0] - roots[:, 1]) ** 2 / np.maximum(lengths, 1)))

    def shared_step(self, limit: float) -> Step:
        """Return a step of all shared scores and what it promises."""
        from ..kernels import boosting as kernels

        by, gain = np.zeros(len(self.learnt)), 0.0
        lengths = np.maximum(2 * self.group_sizes, 1)
        sums = np.maximum(self.sums.shared, 0) / lengths[:, None, None]
        for k in np.flatnonzero(self.learnt):
            plus, minus = (np.ascontiguousarray(sums[:, k, part]) for part in range(2))
            by[k], more = kernels.minimise(minus, lengths, plus, lengths, limit)
            gain += more
        return Step(SHARED, by, gain)

    def grad_norm(self) -> float:
        """Return the Euclidean norm of the gradient."""
        gradient = self.sums.both[:, 0] - self.sums.both[:, 1]
        gradient[self.shared] = self.learnt * (self.sums.shared[..., 0] - self.sums.shared[..., 1]).sum(0)
        return float(np.linalg.norm(gradient))


def _places(blocks: list[RowBlock]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where the rows of all groups begin [R + 1], and the column of each parameter [D]."""
    begins, cols = [], []
    for block in blocks:
        size = block.end - block.begin
        full = not len(block.ptr)
        begins.append(block.begin + (np.arange(0, size, block.width) if full else block.ptr[:-1]))
        cols.append(np.tile(np.arange(block.width, dtype=np.int32), block.n_rows) if full else block.cols)
    begins.append(np.array([blocks[-1].end]))
    return np.concatenate(begins).astype(np.int64), np.concatenate(cols).astype(np.int32)


def _held(
    occurrences: list[Occurrences], owner: NDArray[np.int32], blocks: list[RowBlock], n_sequences: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows that each sequence holds, each once: where they begin [N + 1], and their numbers."""
    n_rows = sum(block.n_rows for block in blocks)
    keys = [
        np.repeat(owner.astype(np.int64), np.diff(index.ptr)) * n_rows + index.ids + block.first
        for index, block in zip(occurrences, blocks, strict=False)
    ]
    pairs = np.unique(np.concatenate(keys))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(pairs // max(1, n_rows), minlength=n_sequences))])
    return ptr.astype(np.int64), (pairs % max(1, n_rows)).astype(np.int32)
