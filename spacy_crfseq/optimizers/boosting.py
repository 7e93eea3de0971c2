"""Sequence boosting: in every round one feature, chosen by a bound on the loss, gets a step of its own size.

Altun, Hofmann & Johnson (2002), "Discriminative learning for label sequences via boosting"; Altun, Johnson & Hofmann
(2003), algorithm 2.  The loss is ``sum_n w_n phi(u_n)`` with u_n = -log P(y_n | x_n) and phi convex and increasing: the
identity, or their exp(u) - 1.  Let the weight of feature k grow by x.  A label sequence y of n has the feature
v(y) = count_k(y) - count_k(y_n) times more often than the gold one, and 1 / P(y_n) is multiplied by::

    z_n(x) = sum_y P(y) exp(x v(y))         phi(u + log z) <= phi(u) + phi'(u) (z - 1)

The second line holds for the identity since log z <= z - 1, for exp(u) - 1 with equality, and for its tangent beyond
a cap c: there phi' is e^c, and ``e^c log z <= e^c (z - 1)``; where u + log z comes to lie under the cap, s being u - c,
it says ``e^s z <= s + z``, which follows from z < e^-s and 1 - e^-s <= s.  So the sum over n of s_n (z_n - 1), where
s_n = w_n phi'(u_n), bounds what the loss gains, and is itself bounded by a function of few sums:

* *By sequence* (2002): a sequence other than the gold one has v in [-l, h].  The chord of the exponential gives
  ``z - 1 <= sum_{y != y_n} P(y) ((h - v) e^{-x l} + (v + l) e^{x h}) / (l + h) - (1 - P(y_n))``.  With one interval for
  all n, W = sum_n s_n (1 - P(y_n)), G = sum_n s_n sum_y P(y) v(y), the minimum is in closed form (the loose bound)::

      x = log(l (h W - G) / (h (G + l W))) / (l + h)

  With an interval for each n a line search finds it (the tight bound).  If gold labels are missing, Q = P(. | known
  labels) and v(y) = count_k(y) - E_Q[count_k]: sequences that agree with the known labels contribute the same to both
  sides, and ``1 / E_Q[exp(x count)] <= exp(-x E_Q[count])`` for the others, so that the same formulas hold.
* *By position*: let the feature be possible at m positions t of n, on with the probability p_t, and q_t given the known
  labels.  As the exponential is convex, ``exp(x v) <= sum_t exp(x m v_t) / m`` with v_t = 1[on at t] - q_t, and
  ``exp(x m v_t) - 1`` is at most ``v_t (e^{xm} - 1)`` for v_t >= 0 and ``-v_t (e^{-xm} - 1)`` below.  So::

      z - 1 <= A (e^{-xm} - 1) / m + B (e^{xm} - 1) / m       A = sum_t q_t (1 - p_t)      B = sum_t (1 - q_t) p_t

  A position that is predicted well adds nothing, even if its sequence has errors elsewhere.  The guarantee is still
  weak for features of many positions, so the step that would be best if positions did not depend on each other is
  tried first, and kept unless the loss falls by less than the bound promises.

Transitions, start and end scores are in every sequence, and a step of one costs a pass over the text.  They get their
steps together, by the bound on positions with 2m instead of m, since at one position two of them differ at most, in
rounds where that promises more than the best feature does (updates in parallel: Collins, Schapire & Singer 2002).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Floats, IndexedObjective, LikelihoodLoss, Occurrences, Offsets, RowBlock, StepReport

BOUNDS = ("position", "tight", "loose")
CANDIDATES = 4
"""Features among which a line search chooses."""
CHUNK_TOKENS = 1 << 13
"""Tokens of sequences that are computed anew before the loss is asked for their slopes."""
SHRUNK = 0.5
"""When the loss has shrunk to this fraction, all sums are computed anew, so that rounding errors never add up."""
NEWTON_STEPS, NEWTON_CLOSE = 8, 1e-3
"""Of the search for a likely step: how many steps at most, and when it ends, as a fraction of the longest step."""
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
    rounds (int): Steps of an iteration, after which the run reports, and may be scored and stopped.  Training data that
        can be separated are learnt by heart in some thousand rounds: let the score on other data end the run.
    max_iterations (int): Iterations of a run.
    max_step (float): Longest step; a feature that is never wrong would get an infinite one.
    tolerance (float): Stop when the best step promises to lower the loss by less than this fraction.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||) after an iteration.
    RAISES ConfigError: On a setting out of range.
    """

    bound: str = "position"
    rounds: int = 100
    max_iterations: int = 100
    max_step: float = 2.0
    tolerance: float = 1e-6
    gradient_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.bound not in BOUNDS:
            raise ConfigError(f'Boosting: bound must be "position", "tight" or "loose", but {self.bound!r} was given.')
        if min(self.rounds, self.max_iterations) < 1:
            raise ConfigError("Boosting: rounds and max_iterations must be at least 1.")
        if not self.max_step > 0 or not min(self.tolerance, self.gradient_tolerance) >= 0:
            raise ConfigError("Boosting: max_step must be positive, tolerance and gradient_tolerance 0 or more.")

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

    def iterate(self, objective: IndexedObjective, state: BoostingState) -> StepReport:
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
            self._take(objective, memory, step)
            state.rounds += 1
            if memory.value < SHRUNK * state.shrunk:
                memory.begin(objective)
                state.shrunk = memory.value
        norm = memory.grad_norm()
        if not state.done:
            state.iterations += 1
            state.done = self._reason_to_stop(state, norm)
        state.memory = memory  # an interrupt would have left it None
        passes = -(-(memory.visited - visited) // max(1, memory.n_tokens))
        return StepReport(memory.value, memory.value, norm, passes, bool(state.done), state.done)

    def _reason_to_stop(self, state: BoostingState, gradient_norm: float) -> str:
        """Return why the run ends after a whole iteration, nothing if it goes on."""
        if gradient_norm < self.gradient_tolerance * max(1.0, float(np.linalg.norm(state.theta))):
            return f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        if state.iterations >= self.max_iterations:
            return f"{self.max_iterations} iterations of {self.rounds} rounds were run"
        return ""

    def _take(self, objective: IndexedObjective, memory: Memory, step: Step) -> None:
        """Make a step; by the bound on positions a longer one, unless the loss falls by less than was promised."""
        if self.bound != "position" or step.row == SHARED:
            memory.take(objective, step)
            return
        before, likely = memory.value, memory.likely_step(step.row, self.max_step)
        memory.take(objective, step._replace(by=likely))
        if not before - memory.value >= step.gain:
            memory.take(objective, step._replace(by=step.by - likely))

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


class Step(NamedTuple):
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
    nll, slopes, masses, values (NDArray): [N] of each sequence, its -log P(gold), weight * phi', the same times
        1 - P(gold), and weight * phi.
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
    nll: NDArray[np.float64] = field(init=False)
    slopes: NDArray[np.float64] = field(init=False)
    masses: NDArray[np.float64] = field(init=False)
    values: NDArray[np.float64] = field(init=False)
    value: float = 0.0
    visited: int = 0

    @classmethod
    def of(cls, objective: IndexedObjective, theta: NDArray[np.float64], *, by_sequence: bool) -> Memory:
        """Return room for what is to be remembered.

        by_sequence (bool): Keep the sums that bounds on whole sequences need.
        """
        from ..kernels import boosting as kernels

        blocks, batch, index = objective.blocks, objective.batch, _Index.of(objective)
        n_labels, n_tokens, n_parameters = blocks[0].width, batch.n_tokens, len(theta)
        rows = kernels.Rows(*_places(blocks), blocks[1].first)
        n_rows, n_shared = len(rows.begin) - 1, n_labels * (n_labels + 2)
        low, high, lengths = np.zeros(n_parameters), np.zeros(n_parameters), np.zeros(n_rows)
        for block, on, owner, columns in zip(blocks, index.occurrences, index.owners, index.columns, strict=False):
            kernels.reach(block.first, on.row_ptr, on.tokens, columns, owner, rows, low, high, lengths)
        longest = int(np.diff(batch.offsets).max(initial=1))
        groups, group_sizes = _groups(np.diff(batch.offsets) + 1)
        room, clamps = CHUNK_TOKENS + longest, bool(index.partial.any())
        n_steps = longest if len(index.occurrences) > 1 else 1

        def chain(length: int) -> Any:
            return kernels.Chain(np.empty((length, n_labels)), np.empty((length, n_labels)), np.zeros(length))

        def square() -> NDArray[np.float64]:
            return np.empty((n_steps, n_labels, n_labels))

        sums = (
            np.zeros((n_parameters, 2)), np.zeros((len(group_sizes), n_shared, 2)),
            np.zeros(n_rows if by_sequence else 0), np.zeros(n_rows, np.bool_),
        )  # fmt: skip
        return cls(
            theta=theta, rows=rows, text=index.text(objective, by_sequence=by_sequence),
            occurrences=index.occurrences, owners=index.owners,
            shared=slice(blocks[2].begin, blocks[2].end), learnt=objective.learnt,
            weights=batch.weights, alive=index.alive, low=low, high=high, lengths=lengths,
            groups=groups, group_sizes=group_sizes,
            local=np.empty((n_tokens, n_labels)), free=chain(n_tokens), clamped=chain(n_tokens if clamps else 0),
            new=(chain(room), chain(room if clamps else 0), np.zeros(room, np.bool_)),
            steps=kernels.Steps(square(), square(), np.empty(n_steps)), sums=kernels.Sums(*sums),
            changed=np.zeros(n_tokens, np.bool_), gains=np.zeros(n_rows), best=np.zeros(n_rows, np.int64),
        )  # fmt: skip

    @property
    def n_tokens(self) -> int:
        """T."""
        return len(self.changed)

    @property
    def n_labels(self) -> int:
        """L."""
        return int(self.local.shape[1])

    @property
    def transitions(self) -> NDArray[np.float64]:
        """[L, L], a part of theta."""
        n = self.n_labels
        return self.theta[self.shared][: n * n].reshape(n, n)

    def begin(self, objective: IndexedObjective) -> None:
        """Compute everything anew."""
        from ..kernels import boosting as kernels

        n = self.n_labels
        start, end = self.theta[self.shared][n * n :].reshape(2, n)
        kernels.local_scores(self.theta, self.rows, self.text, start, end, self.local)
        allowed = objective.allowed
        if allowed is not None:
            self.local[~allowed] = -np.inf
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

    def take(self, objective: IndexedObjective, step: Step) -> None:
        """Change weights and everything that hangs on them."""
        if step.row == SHARED:
            self.theta[self.shared] += step.by
            self.begin(objective)
            return
        parameter = self.best[step.row]
        column = int(self.rows.cols[parameter])
        positions, pair, owner = self._positions(step.row)
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
        """Return the positions where a row is on, whether it scores pairs, and the sequences of positions."""
        pair = row >= self.rows.pair
        index, at = self.occurrences[pair], row - (self.rows.pair if pair else 0)
        tokens, owner = index.tokens[index.row_ptr[at] : index.row_ptr[at + 1]], self.owners[pair]
        return tokens[owner[tokens] >= 0], pair, owner

    def _renew(
        self, objective: IndexedObjective, sequences: NDArray[np.int64], before: int, column: int, by: float
    ) -> None:
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
        self, objective: IndexedObjective, part: NDArray[np.int64], nll: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return old and new slopes and masses [n, 2], and new values [n], of some sequences."""
        loss: LikelihoodLoss = objective.loss  # type: ignore[assignment]
        phi, slope = loss.phi(nll)
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

        kernels.rank(by_position, limit, self.rows, self.sums, self.low, self.high, self.lengths, self.gains, self.best)
        if n == 1:
            rows = np.argmax(self.gains, keepdims=True) if len(self.gains) else np.zeros(0, np.int64)
        else:
            n = min(n, len(self.gains))
            rows = np.sort(np.argpartition(-self.gains, n - 1)[:n]) if n else np.zeros(0, np.int64)
        return [int(row) for row in rows if self.gains[row] > 0]

    def step(self, row: int, bound: str, limit: float) -> Step:
        """Return the best step of a row's best feature and what it promises, from the probabilities of now."""
        from ..kernels import boosting as kernels

        of_positions, p, q = self._probabilities(row)
        starts = np.flatnonzero(np.diff(of_positions, prepend=-1))
        sequences = of_positions[starts]
        slopes = self.slopes[sequences]
        plus, minus = (slopes * np.add.reduceat(part, starts) for part in ((1 - q) * p, q * (1 - p)))
        if bound == "position":
            down = up = np.diff(starts, append=len(p)).astype(np.float64)
            a, b = minus / down, plus / up
        else:
            down, up = (np.add.reduceat(part, starts, dtype=np.float64) for part in (q > 0, q < 1))
            gradient, mass = plus - minus, self.masses[sequences]
            if bound == "loose":
                down, up, gradient, mass = (
                    np.atleast_1d(x) for x in (down.max(), up.max(), gradient.sum(), mass.sum())
                )
            a = np.maximum(up * mass - gradient, 0) / (down + up)
            b = np.maximum(down * mass + gradient, 0) / (down + up)
        by, gain = kernels.minimise(a, down, b, up, limit)
        return Step(row, by, gain)

    def likely_step(self, row: int, limit: float) -> float:
        """Return the step that would be best if positions did not depend on each other and slopes stayed as they are.

        It minimises ``sum_t slope (log(1 + p (e^x - 1)) - q x)``, by Newton's method with steps of at most `limit`.
        """
        of_positions, p, q = self._probabilities(row)
        slopes, x = self.slopes[of_positions], 0.0
        for _ in range(NEWTON_STEPS):
            odds = p * np.exp(x)
            on = odds / (odds + 1 - p)
            bend = float(slopes @ (on * (1 - on)))
            slope = float(slopes @ (on - q))
            before, x = x, float(np.clip(x - slope / max(bend, 1e-300), -limit, limit))
            if abs(x - before) < NEWTON_CLOSE * limit:
                break
        return x

    def _probabilities(self, row: int) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """Return the sequence of each position of a row, and p and q of its best feature there."""
        from ..kernels import boosting as kernels

        positions, pair, owner = self._positions(row)
        column = self.rows.cols[self.best[row]]
        p, q = np.empty(len(positions)), np.empty(len(positions))
        kernels.collect(
            positions, pair, column, owner, self.theta, self.rows, self.text, self.local, self.transitions,
            self.free, self.clamped, self.steps, p, q,
        )  # fmt: skip
        return owner[positions], p, q

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


class _Index(NamedTuple):
    """Where the rows of each group are on, and what is known of the labels there; lists have an entry for each group.

    occurrences (list[Occurrences]): Of the state group, and of the pair group if it has rows.
    owners (list): [T] the sequence of a position, -1 for a token that is none: a sequence that does not contribute,
        and for label pairs the first token of one.
    columns (list): [T] the gold column of a position, -1 where a label is missing.
    partial (NDArray): [N] whether some labels of a sequence are known and some missing.
    alive (NDArray): Sequences that contribute to the loss.
    """

    occurrences: list[Occurrences]
    owners: list[NDArray[np.int32]]
    columns: list[NDArray[np.int32]]
    partial: NDArray[np.bool_]
    alive: NDArray[np.int64]

    @classmethod
    def of(cls, objective: IndexedObjective) -> _Index:
        batch, n_labels = objective.batch, objective.blocks[0].width
        lengths, gold = np.diff(batch.offsets), np.ascontiguousarray(batch.gold)
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        missing = np.bincount(owner[gold < 0], minlength=len(lengths))
        alive = (batch.weights > 0) & (missing < lengths)
        partial = (missing > 0) & (missing < lengths)
        owners, columns = [np.where(alive[owner], owner, np.int32(-1))], [gold]
        if objective.blocks[1].n_rows:
            owners.append(owners[0].copy())
            owners[1][batch.offsets[:-1][lengths > 0]] = -1
            before = np.roll(gold, 1)
            columns.append(np.where((before >= 0) & (gold >= 0), before * n_labels + gold, -1).astype(np.int32))
        occurrences = [objective.occurrences(block) for block in range(len(owners))]
        return cls(occurrences, owners, columns, partial, np.flatnonzero(alive))

    def text(self, objective: IndexedObjective, *, by_sequence: bool) -> Any:
        """Return the tuple that kernels read."""
        from ..kernels import boosting as kernels

        blocks, offsets, state = objective.blocks, objective.batch.offsets, self.occurrences[0]
        pair_ptr, pair_ids = np.zeros(0, np.int64), np.zeros(0, np.int32)
        if len(self.occurrences) > 1:
            pair_ptr, pair_ids = self.occurrences[1].ptr, self.occurrences[1].ids + np.int32(blocks[1].first)
        held_ptr, held = np.zeros(len(offsets), np.int64), np.zeros(0, np.int32)
        if by_sequence:
            held_ptr, held = _held(self.occurrences, blocks, offsets)
        return kernels.Text(
            offsets, self.columns[0], self.partial, state.ptr, state.ids, pair_ptr, pair_ids, held_ptr, held
        )


def _groups(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Put sequences [N] of like size together; return the group of each, and the largest size in each group."""
    groups = np.ceil(np.log(sizes) / np.log(GROUPS)).astype(np.int32)
    largest = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(largest, groups, sizes)
    return groups, largest


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
    occurrences: list[Occurrences], blocks: list[RowBlock], offsets: Offsets
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows that each sequence holds, each once: where they begin [N + 1], and their numbers."""
    n_sequences, n_rows = len(offsets) - 1, sum(block.n_rows for block in blocks)
    owner = np.repeat(np.arange(n_sequences), np.diff(offsets))
    keys = [
        np.repeat(owner, np.diff(on.ptr)) * n_rows + on.ids + block.first
        for on, block in zip(occurrences, blocks, strict=False)
    ]
    sequences, rows = np.divmod(np.unique(np.concatenate(keys)), n_rows)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(sequences, minlength=n_sequences))])
    return ptr.astype(np.int64), rows.astype(np.int32)
