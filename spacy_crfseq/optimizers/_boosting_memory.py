"""State of the training set between the rounds of boosting, and the steps with the largest guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import boosting as kernels
from ..kernels import bounds, memory
from ..types import IndexedObjective, LikelihoodLoss, Occurrences, Offsets, RowBlock

CANDIDATES = 4
"""Number of features that a line search compares."""
CHUNK_TOKENS = 1 << 13
"""Number of recomputed tokens before the slopes of the loss are computed."""
NEWTON_STEPS, NEWTON_CLOSE = 8, 1e-3
"""Maximum number of steps in the search for a likely step, and the fraction of the longest step that ends it."""
GROUPS = 1.25
"""Sequences have similar lengths if they differ by less than this factor."""
SHARED = -1


class Step(NamedTuple):
    """A step of the weight of one row's best feature, or of all shared scores.

    by: A number, or an array [L * (L + 2)].
    gain: Guaranteed decrease of the loss.
    """

    row: int  # or `SHARED`
    by: Any
    gain: float


class Memory:
    """Scores, probabilities and sums of the text: see `kernels.boosting`.

    For each sequence, `nll` is -log P(gold), `slopes` is weight * phi', `masses` is that times 1 - P(gold), and
    `values` is weight * phi.

    theta: [D] the state's weights, changed in place.
    by_sequence: Keep the sums for bounds on whole sequences.
    """

    nll: NDArray[np.float64]
    slopes: NDArray[np.float64]
    masses: NDArray[np.float64]
    values: NDArray[np.float64]

    def __init__(self, objective: IndexedObjective, theta: NDArray[np.float64], *, by_sequence: bool) -> None:
        blocks, batch = objective.blocks, objective.batch
        self.value, self.visited, self.weights, self.trainable = 0.0, 0, batch.weights, objective.trainable
        self.n_labels, self.n_tokens = blocks[0].width, batch.n_tokens
        self.shared = slice(blocks[2].begin, blocks[2].end)
        self.occurrences = [objective.occurrences(block) for block in range(1 + (blocks[1].n_rows > 0))]
        self.owners, columns, partial = _labels(objective)
        self.alive = np.unique(self.owners[0][self.owners[0] >= 0]).astype(np.int64)
        rows = memory.Rows(*_places(blocks), blocks[1].first)
        n_rows, n_shared, n_labels = len(rows.begin) - 1, self.n_labels * (self.n_labels + 2), self.n_labels
        # the result of `kernels.bounds.reach`
        self.low, self.high, self.lengths = np.zeros(len(theta)), np.zeros(len(theta)), np.zeros(n_rows)
        for block, on, owner, column in zip(blocks, self.occurrences, self.owners, columns, strict=False):
            bounds.reach(block.first, on.row_ptr, on.tokens, column, owner, rows, self.low, self.high, self.lengths)
        groups, self.group_sizes = _groups(np.diff(batch.offsets) + 1)
        self.gains, self.best = np.zeros(n_rows), np.zeros(n_rows, np.int64)
        longest = int(np.diff(batch.offsets).max(initial=1))
        room, clamped = CHUNK_TOKENS + longest, int(partial.any())
        n_steps = longest if len(self.occurrences) > 1 else 1

        def chain(length: int) -> memory.Chain:
            return memory.Chain(np.empty((length, n_labels)), np.empty((length, n_labels)), np.zeros(length))

        def square() -> NDArray[np.float64]:
            return np.empty((n_steps, n_labels, n_labels))

        self.data = memory.Data(
            theta, rows, _text(objective, self.occurrences, columns[0], partial, by_sequence=by_sequence),
            np.empty((self.n_tokens, n_labels)), self.shared.start, np.zeros(self.n_tokens, np.bool_),
        )  # fmt: skip
        self.chains = memory.Chains(
            chain(self.n_tokens), chain(self.n_tokens * clamped), chain(room), chain(room * clamped),
            np.zeros(room, np.bool_),
        )  # fmt: skip
        self.steps = memory.Steps(square(), square(), np.empty(n_steps))
        self.sums = memory.Sums(
            np.zeros((len(theta), 2)), np.zeros((len(self.group_sizes), n_shared, 2)),
            np.zeros(n_rows if by_sequence else 0), np.zeros(n_rows, np.bool_), groups,
        )  # fmt: skip
        self.begin(objective)

    def begin(self, objective: IndexedObjective) -> None:
        """Recompute everything."""
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
        self.nll, self.slopes, self.masses, self.values = np.zeros((4, len(self.weights)))
        changed[:] = True
        self._renew(objective, self.alive, memory.Change(-1, 0, 0.0))
        changed[:] = False

    def take(self, objective: IndexedObjective, step: Step) -> None:
        """Change weights and everything that depends on them."""
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
        sequences = owner[positions]
        first = np.flatnonzero(np.diff(sequences, prepend=-1))
        self._renew(objective, sequences[first].astype(np.int64), memory.Change(before, column, float(step.by)))
        self.data.changed[positions] = False

    def take_longer(self, objective: IndexedObjective, step: Step, limit: float) -> None:
        """Take the likely step instead of a guaranteed one, unless the loss decreases by less than guaranteed."""
        if step.row == SHARED:
            self.take(objective, step)
            return
        before, likely = self.value, self.likely_step(step.row, limit)
        self.take(objective, step._replace(by=likely))
        if not before - self.value >= step.gain:
            self.take(objective, step._replace(by=step.by - likely))

    def best_step(self, bound: str, limit: float) -> Step:
        """Return the step with the largest guaranteed decrease among a few promising ones."""
        rows = self.promising(bound == "position", limit, 1 if bound == "loose" else CANDIDATES)
        steps = [self.step(row, bound, limit) for row in rows]
        best = max(steps, key=lambda step: step.gain, default=Step(SHARED, 0.0, 0.0))
        if self.shared_estimate() <= best.gain:
            return best
        together = self.shared_step(limit)
        return together if together.gain > best.gain else best

    def _positions(self, row: int) -> tuple[NDArray[np.int32], bool, NDArray[np.int32]]:
        """Return the positions with an active row, whether it scores pairs, and the sequences of the positions."""
        pair = row >= self.data.rows.pair
        index, at = self.occurrences[pair], row - (self.data.rows.pair if pair else 0)
        tokens, owner = index.tokens[index.row_ptr[at] : index.row_ptr[at + 1]], self.owners[pair]
        return tokens[owner[tokens] >= 0], pair, owner

    def _renew(self, objective: IndexedObjective, sequences: NDArray[np.int64], change: memory.Change) -> None:
        """Recompute some sequences after a change."""
        loss: LikelihoodLoss = objective.loss  # type: ignore[assignment]
        for part in self._chunks(sequences):
            nll = np.empty(len(part))
            kernels.renew(part, self.data, self.chains, self.steps, nll)
            phi, slope = loss.phi(nll)
            slope = self.weights[part] * slope
            slopes = np.stack([self.slopes[part], slope], 1)  # old and new
            masses = np.stack([self.masses[part], -slope * np.expm1(-nll)], 1)
            self.visited += kernels.exchange(
                part, self.data, self.chains, self.steps, change, slopes, masses, self.sums
            )
            self.nll[part], self.slopes[part], self.masses[part] = nll, slope, masses[:, 1]
            self.values[part] = self.weights[part] * phi
        self.value = float(self.values.sum())

    def _chunks(self, sequences: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Split a list of sequences into parts of about `CHUNK_TOKENS` tokens."""
        offsets = self.data.text.offsets
        numbers = np.cumsum(offsets[sequences + 1] - offsets[sequences]) // CHUNK_TOKENS
        for part in np.split(sequences, np.flatnonzero(np.diff(numbers)) + 1):
            if len(part):
                yield part

    def promising(self, by_position: bool, limit: float, n: int) -> list[int]:
        """Return at most n rows with the most promising features."""
        reach = self.low, self.high, self.lengths
        bounds.rank(by_position, limit, self.data.rows, self.sums, reach, self.gains, self.best)
        if n == 1:
            rows = np.argmax(self.gains, keepdims=True) if len(self.gains) else np.zeros(0, np.int64)
        else:
            n = min(n, len(self.gains))
            rows = np.sort(np.argpartition(-self.gains, n - 1)[:n]) if n else np.zeros(0, np.int64)
        return [int(row) for row in rows if self.gains[row] > 0]

    def step(self, row: int, bound: str, limit: float) -> Step:
        """Return the best step of a row's best feature and its guarantee, from the current probabilities."""
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
                down, up, gradient, mass = np.array([[down.max()], [up.max()], [gradient.sum()], [mass.sum()]])
            a = np.maximum(up * mass - gradient, 0) / (down + up)
            b = np.maximum(down * mass + gradient, 0) / (down + up)
        by, gain = bounds.minimise(a, down, b, up, limit)
        return Step(row, by, gain)

    def likely_step(self, row: int, limit: float) -> float:
        """Return the best step if positions were independent and slopes constant.

        It minimises ``sum_t slope (log(1 + p (e^x - 1)) - q x)``, by Newton's method with steps of at most `limit`.
        """
        of_positions, p, q = self._probabilities(row)
        slopes, x = self.slopes[of_positions], 0.0
        for _ in range(NEWTON_STEPS):
            odds = p * np.exp(x)
            on = odds / (odds + 1 - p)
            bend, slope = float(slopes @ (on * (1 - on))), float(slopes @ (on - q))
            before, x = x, float(np.clip(x - slope / max(bend, 1e-300), -limit, limit))
            if abs(x - before) < NEWTON_CLOSE * limit:
                break
        return x

    def _probabilities(self, row: int) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """Return the sequence of each position of a row, and p and q of its best feature there."""
        (positions, pair, owner), column = self._positions(row), self.data.rows.cols[self.best[row]]
        found = np.empty((2, len(positions)))
        kernels.collect(positions, pair, column, owner, self.data, self.chains, self.steps, found)
        return owner[positions], found[0], found[1]

    def shared_estimate(self) -> float:
        """Return an estimate of the guarantee of a step of all shared scores."""
        sums = np.maximum(self.sums.shared[:, self.trainable], 0)
        both = sums.sum(0)
        lengths = 2 * np.einsum("g,gkp->k", self.group_sizes, sums) / np.maximum(both.sum(1), 1e-300)
        roots = np.sqrt(both)
        return float(np.sum((roots[:, 0] - roots[:, 1]) ** 2 / np.maximum(lengths, 1)))

    def shared_step(self, limit: float) -> Step:
        """Return a step of all shared scores and its guarantee."""
        by, gain = np.zeros(len(self.trainable)), 0.0
        lengths = np.maximum(2 * self.group_sizes, 1)
        sums = np.maximum(self.sums.shared, 0) / lengths[:, None, None]
        for k in np.flatnonzero(self.trainable):
            plus, minus = (np.ascontiguousarray(sums[:, k, part]) for part in range(2))
            by[k], more = bounds.minimise(minus, lengths, plus, lengths, limit)
            gain += more
        return Step(SHARED, by, gain)

    def grad_norm(self) -> float:
        """Return the Euclidean norm of the gradient."""
        gradient = self.sums.both[:, 0] - self.sums.both[:, 1]
        gradient[self.shared] = self.trainable * (self.sums.shared[..., 0] - self.sums.shared[..., 1]).sum(0)
        return float(np.linalg.norm(gradient))


def _labels(objective: IndexedObjective) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]], NDArray[np.bool_]]:
    """Return the known labels.

    RETURNS: For each group of rows, [T] the sequence of a position, -1 for a token that is not a position (in a
        sequence that does not contribute to the loss or, for label pairs, the first of a sequence); for each group, [T]
        the gold column of a position, -1 if a label is missing; [N] whether a sequence has both known and missing
        labels.
    """
    batch, n_labels = objective.batch, objective.blocks[0].width
    lengths, gold = np.diff(batch.offsets), np.ascontiguousarray(batch.gold)
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    missing = np.bincount(owner[gold < 0], minlength=len(lengths))
    known = missing < lengths
    owners, columns = [np.where((known & (batch.weights > 0))[owner], owner, np.int32(-1))], [gold]
    if objective.blocks[1].n_rows:
        owners.append(owners[0].copy())
        owners[1][batch.offsets[:-1][lengths > 0]] = -1
        before = np.roll(gold, 1)
        columns.append(np.where((before >= 0) & (gold >= 0), before * n_labels + gold, -1).astype(np.int32))
    return owners, columns, (missing > 0) & known


def _text(
    objective: IndexedObjective,
    occurrences: list[Occurrences],
    gold: NDArray[np.int32],
    partial: NDArray[np.bool_],
    *,
    by_sequence: bool,
) -> memory.Text:
    blocks, offsets, state = objective.blocks, objective.batch.offsets, occurrences[0]
    pairs = np.zeros(0, np.int64), np.zeros(0, np.int32)
    if len(occurrences) > 1:
        pairs = occurrences[1].ptr, occurrences[1].ids + np.int32(blocks[1].first)
    held = np.zeros(len(offsets), np.int64), np.zeros(0, np.int32)
    if by_sequence:
        held = _held(occurrences, blocks, offsets)
    return memory.Text(offsets, gold, partial, state.ptr, state.ids, *pairs, *held)


def _groups(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Group sequences [N] of similar sizes; return the group of each, and the largest size in each group."""
    groups = np.ceil(np.log(sizes) / np.log(GROUPS)).astype(np.int32)
    largest = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(largest, groups, sizes)
    return groups, largest


def _places(blocks: list[RowBlock]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the starts of the rows of all groups [R + 1], and the column of each parameter [D]."""
    begins, cols = [], []
    for block in blocks:
        sparse = len(block.ptr) > 0
        begins.append(block.ptr[:-1] + block.begin if sparse else np.arange(block.begin, block.end, block.width))
        cols.append(block.cols if sparse else np.tile(np.arange(block.width, dtype=np.int32), block.n_rows))
    begins.append(np.array([blocks[-1].end]))
    return np.concatenate(begins).astype(np.int64), np.concatenate(cols).astype(np.int32)


def _held(
    occurrences: list[Occurrences], blocks: list[RowBlock], offsets: Offsets
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct rows of each sequence: their starts [N + 1], and their indices."""
    n_sequences, n_rows = len(offsets) - 1, sum(block.n_rows for block in blocks)
    owner = np.repeat(np.arange(n_sequences), np.diff(offsets))
    keys = [
        np.repeat(owner, np.diff(on.ptr)) * n_rows + on.ids + block.first
        for on, block in zip(occurrences, blocks, strict=False)
    ]
    sequences, rows = np.divmod(np.unique(np.concatenate(keys)), n_rows)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(sequences, minlength=n_sequences))])
    return ptr.astype(np.int64), rows.astype(np.int32)
