"""What boosting remembers of the training set between its rounds, and the steps that it promises most of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import boosting as kernels
from ..kernels import bounds, memory
from ..types import IndexedObjective, LikelihoodLoss, Occurrences, Offsets, RowBlock

CANDIDATES = 4
"""Features among which a line search chooses."""
CHUNK_TOKENS = 1 << 13
"""Tokens of sequences that are computed anew before the loss is asked for their slopes."""
NEWTON_STEPS, NEWTON_CLOSE = 8, 1e-3
"""Of the search for a likely step: how many steps at most, and when it ends, as a fraction of the longest step."""
GROUPS = 1.25
"""Sequences are of like length if they differ by less than this factor."""
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

    data (memory.Data): Weights, which are the state's and changed in place, scores and indices.
    owners (list): [T] for each group of rows, the sequence of a position, -1 for tokens that are none.
    shared (slice): Where transitions, start and end scores lie in theta.
    learnt (NDArray): [L * (L + 2)] which of them are learnt.
    alive (NDArray): Sequences that contribute to the loss.
    low, high, lengths (NDArray): See `kernels.bounds.reach`.
    group_sizes (NDArray): Longest sequence of each group of like length.
    nll, slopes, masses, values (NDArray): [N] of each sequence, its -log P(gold), weight * phi', the same times
        1 - P(gold), and weight * phi.
    """

    data: memory.Data
    chains: memory.Chains
    steps: memory.Steps
    sums: memory.Sums
    occurrences: list[Occurrences]
    owners: list[NDArray[np.int32]]
    shared: slice
    learnt: NDArray[np.bool_]
    weights: NDArray[np.float64]
    alive: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lengths: NDArray[np.float64]
    group_sizes: NDArray[np.float64]
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
        blocks, batch, index = objective.blocks, objective.batch, _Index.of(objective)
        n_labels, n_tokens, n_parameters = blocks[0].width, batch.n_tokens, len(theta)
        rows = memory.Rows(*_places(blocks), blocks[1].first)
        n_rows, n_shared = len(rows.begin) - 1, n_labels * (n_labels + 2)
        low, high, lengths = np.zeros(n_parameters), np.zeros(n_parameters), np.zeros(n_rows)
        for block, on, owner, columns in zip(blocks, index.occurrences, index.owners, index.columns, strict=False):
            bounds.reach(block.first, on.row_ptr, on.tokens, columns, owner, rows, low, high, lengths)
        longest = int(np.diff(batch.offsets).max(initial=1))
        groups, group_sizes = _groups(np.diff(batch.offsets) + 1)
        room, clamps = CHUNK_TOKENS + longest, bool(index.partial.any())
        n_steps = longest if len(index.occurrences) > 1 else 1
        shared = slice(blocks[2].begin, blocks[2].end)

        def chain(length: int) -> memory.Chain:
            return memory.Chain(np.empty((length, n_labels)), np.empty((length, n_labels)), np.zeros(length))

        def square() -> NDArray[np.float64]:
            return np.empty((n_steps, n_labels, n_labels))

        return cls(
            data=memory.Data(
                theta, rows, index.text(objective, by_sequence=by_sequence), np.empty((n_tokens, n_labels)),
                shared.start, np.zeros(n_tokens, np.bool_),
            ),
            chains=memory.Chains(
                chain(n_tokens), chain(n_tokens if clamps else 0), chain(room), chain(room if clamps else 0),
                np.zeros(room, np.bool_),
            ),
            steps=memory.Steps(square(), square(), np.empty(n_steps)),
            sums=memory.Sums(
                np.zeros((n_parameters, 2)), np.zeros((len(group_sizes), n_shared, 2)),
                np.zeros(n_rows if by_sequence else 0), np.zeros(n_rows, np.bool_), groups,
            ),
            occurrences=index.occurrences, owners=index.owners, shared=shared, learnt=objective.learnt,
            weights=batch.weights, alive=index.alive, low=low, high=high, lengths=lengths, group_sizes=group_sizes,
            gains=np.zeros(n_rows), best=np.zeros(n_rows, np.int64),
        )  # fmt: skip

    @property
    def n_tokens(self) -> int:
        """T."""
        return len(self.data.changed)

    @property
    def n_labels(self) -> int:
        """L."""
        return int(self.data.local.shape[1])

    def begin(self, objective: IndexedObjective) -> None:
        """Compute everything anew."""
        n, (theta, rows, text, local, _, changed) = self.n_labels, self.data
        start, end = theta[self.shared][n * n :].reshape(2, n)
        kernels.local_scores(theta, rows, text, start, end, local)
        if objective.allowed is not None:
            local[~objective.allowed] = -np.inf
        for array in (*self.chains.free, *self.chains.clamped):
            array.fill(np.nan)
        for sums in (self.sums.both, self.sums.shared, self.sums.mass):
            sums.fill(0)
        self.sums.dirty[:] = True
        n_sequences = len(self.weights)
        self.nll, self.slopes, self.masses, self.values = (np.zeros(n_sequences) for _ in range(4))
        changed[:] = True
        self._renew(objective, self.alive, memory.Change(-1, 0, 0.0))
        changed[:] = False

    def take(self, objective: IndexedObjective, step: Step) -> None:
        """Change weights and everything that hangs on them."""
        if step.row == SHARED:
            self.data.theta[self.shared] += step.by
            self.begin(objective)
            return
        parameter = self.best[step.row]
        column = int(self.data.rows.cols[parameter])
        positions, pair, owner = self._positions(step.row)
        self.data.theta[parameter] += step.by
        before = -1
        if pair:
            before, column = divmod(column, self.n_labels)
        else:
            self.data.local[positions, column] += step.by
        self.data.changed[positions] = True
        of_positions = owner[positions]
        sequences = of_positions[np.flatnonzero(np.diff(of_positions, prepend=-1))].astype(np.int64)
        self._renew(objective, sequences, memory.Change(before, column, float(step.by)))
        self.data.changed[positions] = False

    def take_longer(self, objective: IndexedObjective, step: Step, limit: float) -> None:
        """Make the likely step in place of a guaranteed one, unless the loss falls by less than that promised."""
        if step.row == SHARED:
            self.take(objective, step)
            return
        before, likely = self.value, self.likely_step(step.row, limit)
        self.take(objective, step._replace(by=likely))
        if not before - self.value >= step.gain:
            self.take(objective, step._replace(by=step.by - likely))

    def best_step(self, bound: str, limit: float) -> Step:
        """Return the step with the largest guaranteed decrease among a few that look best."""
        rows = self.promising(bound == "position", limit, 1 if bound == "loose" else CANDIDATES)
        steps = [self.step(row, bound, limit) for row in rows]
        best = max(steps, key=lambda step: step.gain, default=Step(SHARED, 0.0, 0.0))
        if self.shared_estimate() <= best.gain:
            return best
        together = self.shared_step(limit)
        return together if together.gain > best.gain else best

    def _positions(self, row: int) -> tuple[NDArray[np.int32], bool, NDArray[np.int32]]:
        """Return the positions where a row is on, whether it scores pairs, and the sequences of positions."""
        pair = row >= self.data.rows.pair
        index, at = self.occurrences[pair], row - (self.data.rows.pair if pair else 0)
        tokens, owner = index.tokens[index.row_ptr[at] : index.row_ptr[at + 1]], self.owners[pair]
        return tokens[owner[tokens] >= 0], pair, owner

    def _renew(self, objective: IndexedObjective, sequences: NDArray[np.int64], change: memory.Change) -> None:
        """Compute some sequences anew after a change."""
        for part in self._chunks(sequences):
            nll = np.empty(len(part))
            kernels.renew(part, self.data, self.chains, self.steps, nll)
            slopes, masses, values = self._slopes(objective, part, nll)
            self.visited += kernels.exchange(
                part, self.data, self.chains, self.steps, change, slopes, masses, self.sums
            )
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
        offsets = self.data.text.offsets
        numbers = np.cumsum(offsets[sequences + 1] - offsets[sequences]) // CHUNK_TOKENS
        for part in np.split(sequences, np.flatnonzero(np.diff(numbers)) + 1):
            if len(part):
                yield part

    def promising(self, by_position: bool, limit: float, n: int) -> list[int]:
        """Return the rows whose best features look best, at most n."""
        reach = self.low, self.high, self.lengths
        bounds.rank(by_position, limit, self.data.rows, self.sums, reach, self.gains, self.best)
        if n == 1:
            rows = np.argmax(self.gains, keepdims=True) if len(self.gains) else np.zeros(0, np.int64)
        else:
            n = min(n, len(self.gains))
            rows = np.sort(np.argpartition(-self.gains, n - 1)[:n]) if n else np.zeros(0, np.int64)
        return [int(row) for row in rows if self.gains[row] > 0]

    def step(self, row: int, bound: str, limit: float) -> Step:
        """Return the best step of a row's best feature and what it promises, from the probabilities of now."""
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
        by, gain = bounds.minimise(a, down, b, up, limit)
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
        positions, pair, owner = self._positions(row)
        column = self.data.rows.cols[self.best[row]]
        found = np.empty((2, len(positions)))
        kernels.collect(positions, pair, column, owner, self.data, self.chains, self.steps, found)
        return owner[positions], found[0], found[1]

    def shared_estimate(self) -> float:
        """Return about how much a step of all shared scores would promise."""
        sums = np.maximum(self.sums.shared[:, self.learnt], 0)
        both = sums.sum(0)
        lengths = 2 * np.einsum("g,gkp->k", self.group_sizes, sums) / np.maximum(both.sum(1), 1e-300)
        roots = np.sqrt(both)
        return float(np.sum((roots[:, 0] - roots[:, 1]) ** 2 / np.maximum(lengths, 1)))

    def shared_step(self, limit: float) -> Step:
        """Return a step of all shared scores and what it promises."""
        by, gain = np.zeros(len(self.learnt)), 0.0
        lengths = np.maximum(2 * self.group_sizes, 1)
        sums = np.maximum(self.sums.shared, 0) / lengths[:, None, None]
        for k in np.flatnonzero(self.learnt):
            plus, minus = (np.ascontiguousarray(sums[:, k, part]) for part in range(2))
            by[k], more = bounds.minimise(minus, lengths, plus, lengths, limit)
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

    def text(self, objective: IndexedObjective, *, by_sequence: bool) -> memory.Text:
        """Return the tuple that kernels read."""
        blocks, offsets, state = objective.blocks, objective.batch.offsets, self.occurrences[0]
        pair_ptr, pair_ids = np.zeros(0, np.int64), np.zeros(0, np.int32)
        if len(self.occurrences) > 1:
            pair_ptr, pair_ids = self.occurrences[1].ptr, self.occurrences[1].ids + np.int32(blocks[1].first)
        held_ptr, held = np.zeros(len(offsets), np.int64), np.zeros(0, np.int32)
        if by_sequence:
            held_ptr, held = _held(self.occurrences, blocks, offsets)
        return memory.Text(
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
