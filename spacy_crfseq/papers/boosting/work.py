"""State of the training set between the rounds of boosting, and the steps with the largest guarantee."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...kernels import rows as row_kernels
from ...types import Batch, IndexedObjective, Loss, RowBlock
from . import kernels
from .kernels import Numbers

INFINITE = 10.0
"""The step that replaces an infinite one without `max_step`."""
GROUPS = 1.25
"""Sequences have similar lengths if they differ by less than this factor."""


class LikelihoodLoss(Loss, Protocol):
    """A loss that provides "likelihood": the sum over sequences of ``weight * phi(-log P(gold | x))``."""

    def phi(self, nll: Numbers) -> tuple[Numbers, Numbers]:
        """Return phi and its derivative, which is positive, at some negative log-likelihoods [N]."""


class Step(NamedTuple):
    """A step of the weight of one row's best feature.

    row (int): After the rows of features, each transition, start and end score is a row.
    gain (float): Guaranteed decrease of the loss.
    """

    row: int
    by: float
    gain: float


NO_STEP = Step(0, 0.0, 0.0)


class Memory:
    """Scores, probabilities and sums of the text: see `kernels`.

    For each sequence, `nll` is -log P(gold), `slopes` is weight * phi', `masses` is that times 1 - P(gold), and
    `values` is weight * phi.  For each row, `gains` is the largest estimate of a decrease and `best` its parameter.

    theta: [D] the state's weights, changed in place.
    bound: One of `boosting.BOUNDS`.
    max_step: See `boosting.Boosting`; None for the default of the bound.
    longest: Sequences of more tokens are cut; 0 for none.
    """

    def __init__(
        self, objective: IndexedObjective, theta: Numbers, bound: str, max_step: float | None = None, longest: int = 0
    ) -> None:
        blocks, batch = objective.blocks, cut(objective.batch, longest)
        self.bound, self.clip, self.limit = bound, max_step is not None, max_step or INFINITE
        self.value, self.visited, self.weights, self.trainable = 0.0, 0, batch.weights, objective.trainable
        self.n_labels, self.n_tokens, n = blocks[0].width, batch.n_tokens, blocks[0].width
        self.shared, self.first_pair = slice(blocks[2].begin, blocks[2].end), blocks[1].first
        self.occurrences = [objective.occurrences(block) for block in range(1 + (blocks[1].n_rows > 0))]
        self.owners, columns, partial = _labels(batch, n)
        self.alive = np.unique(self.owners[0][self.owners[0] >= 0]).astype(np.int64)
        groups, self.group_sizes = _groups(np.diff(batch.offsets) + 1)
        state, pairs = self.occurrences[0], (np.zeros(0, np.int64), np.zeros(0, np.int32))
        if len(self.occurrences) > 1:
            pairs = self.occurrences[1].ptr, self.occurrences[1].ids + np.int32(self.first_pair)
        self.text = kernels.BoostedText(
            batch.offsets, columns[0], partial, groups, state.ptr, state.ids, *pairs, *_places(blocks)
        )
        n_rows, n_shared = len(self.text.begin) - 1, n * (n + 2)
        self.first_shared = n_rows - n_shared
        # the result of `kernels.reach`
        self.low, self.high = np.zeros(len(theta)), np.zeros(len(theta))
        for block, on, owner, column in zip(blocks, self.occurrences, self.owners, columns, strict=False):
            kernels.reach(block.first, on.row_ptr, on.tokens, column, owner, self.text, self.low, self.high)
        self.gains, self.best = np.zeros(n_rows), np.zeros(n_rows, np.int64)
        self.best[self.first_shared :] = np.arange(self.shared.start, self.shared.stop)
        shape = 1 + int(partial.any()), self.n_tokens, n
        self.chains = kernels.Chains(theta, np.empty(shape[1:]), np.empty(shape), np.empty(shape))
        self.sums = kernels.SignedSums(
            np.zeros((len(theta), 2)), np.zeros((len(self.group_sizes), n_shared, 2)), np.zeros(n_rows, np.bool_)
        )
        self._reach_of_shared()
        self.begin(objective)

    def begin(self, objective: IndexedObjective) -> None:
        """Recompute everything."""
        n, text, (theta, local, *_) = self.n_labels, self.text, self.chains
        start, end = theta[self.shared][n * n :].reshape(2, n)
        local.fill(0)
        row_kernels.add_ragged_sparse(text.ptr, text.ids, text.begin, text.cols, theta, local)
        filled = np.diff(text.offsets) > 0
        local[text.offsets[:-1][filled]] += start
        local[text.offsets[1:][filled] - 1] += end
        if objective.allowed is not None:
            local[~objective.allowed] = -np.inf
        for sums in self.sums[:2]:
            sums.fill(0)
        self.sums.dirty[:] = True
        self.nll, self.slopes, self.masses, self.values = np.zeros((4, len(self.weights)))
        self._renew(objective, self.alive)

    def _renew(self, objective: IndexedObjective, sequences: NDArray[np.int64]) -> None:
        """Recompute some sequences, which are not in the sums, after a change."""
        loss: LikelihoodLoss = objective.loss  # type: ignore[assignment]
        nll, weights = np.empty(len(sequences)), self.weights[sequences]
        kernels.renew(sequences, self.text, self.chains, nll)
        phi, slope = loss.phi(nll)
        slope = weights * slope
        kernels.count(sequences, slope, self.text, self.chains, self.sums)
        self.nll[sequences], self.slopes[sequences], self.masses[sequences] = nll, slope, -slope * np.expm1(-nll)
        self.values[sequences] = weights * phi
        self.value = float(self.values.sum())
        self.visited += int(np.diff(self.text.offsets)[sequences].sum())

    def take(self, objective: IndexedObjective, step: Step) -> None:
        """Change weights and everything that depends on them."""
        if step.row >= self.first_shared:  # every sequence has it
            self.chains.theta[self.best[step.row]] += step.by
            self.begin(objective)
            return
        parameter, (positions, pair, owner) = self.best[step.row], self._positions(step.row)
        sequences = np.unique(owner[positions]).astype(np.int64)
        kernels.count(sequences, -self.slopes[sequences], self.text, self.chains, self.sums)
        self.chains.theta[parameter] += step.by
        if not pair:
            self.chains.local[positions, self.text.cols[parameter]] += step.by
        self._renew(objective, sequences)

    def best_step(self, candidates: int) -> Step:
        """Return the step with the largest guaranteed decrease; its feature is the best one of its row.

        candidates: Rows that the bounds "tight" and "exact" search, see `boosting.Boosting`.
        """
        self.sums.dirty[self.first_shared :] = True
        if candidates and self.bound != "loose":
            self.sums.both[self.shared] = 0
            best, (row, gain) = self._best_of(self.promising(candidates)), self.promising_shared()
            return best if gain < best.gain / 2 else max(best, self.step(row), key=lambda step: step.gain)
        self.sums.both[self.shared] = self.sums.shared.sum(0) * self.trainable[:, None]
        if self.bound == "loose":
            return self._best_of(self.promising(1))
        best = NO_STEP
        for row in self.promising(len(self.gains)):
            if self.bound == "tight" and row < self.first_shared and self.gains[row] <= best.gain:
                continue
            chosen = self.best[row]
            for parameter in range(self.text.begin[row], self.text.begin[row + 1]):
                self.best[row] = parameter
                step = self.step(row)
                if step.gain > best.gain:
                    best, chosen = step, parameter
            self.best[row] = chosen
        return best

    def _best_of(self, rows: list[int]) -> Step:
        return max(map(self.step, rows), key=lambda step: step.gain, default=NO_STEP)

    def _positions(self, row: int) -> tuple[NDArray[np.int32], bool, NDArray[np.int32]]:
        """Return the positions with an active row, whether it scores pairs, and the sequences of the positions."""
        group, n, offsets = row - self.first_shared, self.n_labels, self.text.offsets
        pair = 0 <= group < n * n or (group < 0 and row >= self.first_pair)
        if group >= 0:  # a transition, start or end score
            ends = offsets[:-1] if group < n * n + n else offsets[1:] - 1
            tokens = (np.arange(self.n_tokens) if pair else ends[np.diff(offsets) > 0]).astype(np.int32)
        else:
            index, place = self.occurrences[pair], row - (self.first_pair if pair else 0)
            tokens = index.tokens[index.row_ptr[place] : index.row_ptr[place + 1]]
        return tokens[self.owners[pair][tokens] >= 0], pair, self.owners[pair]

    def _unreachable(self, row: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of some numbers of positions a feature must be off: of n steps, every other one i -> j."""
        before, label = divmod(row - self.first_shared, self.n_labels)
        return lengths // 2 if 0 <= before < self.n_labels and before != label else 0 * lengths

    def _reach_of_shared(self) -> None:
        """Compute for shared scores what `kernels.reach` does for the others."""
        gold, n_groups = self.text.gold, len(self.group_sizes)
        self.reach_of_groups = np.zeros((2, n_groups, len(self.trainable)))
        for number in np.flatnonzero(self.trainable):
            row = self.first_shared + int(number)
            positions, pair, owner = self._positions(row)
            if not len(positions):
                continue
            starts = np.flatnonzero(np.diff(owner[positions], prepend=-1))
            groups = self.text.groups[owner[positions[starts]]]
            before, label = divmod(int(self.text.cols[self.text.begin[row]]), self.n_labels)
            lengths, certain = np.diff(starts, append=len(positions)), gold[positions] == label
            possible = certain | (gold[positions] < 0)
            if pair:
                certain &= gold[positions - 1] == before
                possible &= (gold[positions - 1] == before) | (gold[positions - 1] < 0)
            least, most = (np.add.reduceat(on, starts, dtype=np.int64) for on in (certain, possible))
            np.maximum.at(self.reach_of_groups[0, :, number], groups, most)
            np.maximum.at(self.reach_of_groups[1, :, number], groups, lengths - self._unreachable(row, lengths) - least)
        self.low[self.shared], self.high[self.shared] = self.reach_of_groups.max(1)

    def promising(self, n: int) -> list[int]:
        """Return at most n rows with the most promising features, the best first."""
        if self.bound == "loose":
            mass, steps = float(self.masses.sum()), (self.limit, self.clip)
            kernels.rank_loosely(mass, *steps, self.text, self.sums, self.low, self.high, self.gains, self.best)
        else:
            kernels.rank_optimistically(self.text, self.sums, self.gains, self.best)
        n = min(n, len(self.gains))
        rows = np.sort(np.argpartition(-self.gains, n - 1)[:n]) if n else np.zeros(0, np.int64)
        rows = rows[np.argsort(-self.gains[rows], kind="stable")]
        return [int(row) for row in rows if self.gains[row] > 0]

    def promising_shared(self) -> tuple[int, float]:
        """Return the row of the most promising shared score, and what the tight bound guarantees at least.

        One interval for all sequences of similar length: an interval for each sequence costs a pass over the text.
        """
        mass = np.bincount(self.text.groups, self.masses, len(self.group_sizes))
        gradient = (self.sums.shared[..., 0] - self.sums.shared[..., 1]).T
        best, most = self.first_shared, 0.0
        for number in np.flatnonzero(self.trainable):
            down, up = np.ascontiguousarray(self.reach_of_groups[..., number])
            step = self._by_chords(self.first_shared + int(number), down, up, gradient[number], mass)
            if step.gain > most:
                best, most = step.row, step.gain
        return best, most

    def step(self, row: int) -> Step:
        """Return the best step of a row's best feature and its guarantee, from the current probabilities."""
        if self.bound == "loose":
            parameter, mass = self.best[row], self.masses.sum()
            down, up = np.array([[self.low[parameter]], [self.high[parameter]]])
            gradient = self.sums.both[parameter, 0] - self.sums.both[parameter, 1]
            return self._by_chords(row, down, up, gradient, mass)
        of_positions, p, q = self._probabilities(row)
        starts = np.flatnonzero(np.diff(of_positions, prepend=-1))
        sequences, lengths = of_positions[starts], np.diff(starts, append=len(p))
        slopes, wanted = self.slopes[sequences], np.add.reduceat(q, starts)
        if self.bound == "exact":
            return self._by_counting(row, starts, slopes, wanted)
        plus, minus = (slopes * np.add.reduceat(part, starts) for part in ((1 - q) * p, q * (1 - p)))
        down, up = (np.add.reduceat(part, starts, dtype=np.float64) for part in (q > 0, q < 1))
        return self._by_chords(row, down, up - self._unreachable(row, lengths), plus - minus, self.masses[sequences])

    def _by_chords(self, row: int, down: Any, up: Any, gradient: Any, mass: Any) -> Step:
        """Return the best step where counts differ from gold ones by -down to up; all arrays [n]."""
        width = np.maximum(down + up, 1)
        a, b = np.maximum(up * mass - gradient, 0) / width, np.maximum(down * mass + gradient, 0) / width
        return Step(row, *kernels.minimise(a, down, b, up, self.limit, self.clip))

    def _by_counting(self, row: int, starts: NDArray[np.int64], slopes: Numbers, wanted: Numbers) -> Step:
        """Return the best step if each number of occurrences in a sequence has its exact probability."""
        (positions, pair, owner), column = self._positions(row), self.text.cols[self.best[row]]
        ends = np.append(starts, len(positions))
        p = np.zeros((len(starts), int(np.diff(ends).max(initial=0)) + 1))
        kernels.count_occurrences(positions, ends, pair, column, owner, self.text, self.chains, p)
        v, weights = np.arange(p.shape[1]) - wanted[:, None], slopes[:, None] * p
        v, weights = v[weights > 0], weights[weights > 0]
        low, high = np.maximum(-v, 0), np.maximum(v, 0)
        return Step(row, *kernels.minimise(weights * (v < 0), low, weights * (v > 0), high, self.limit, self.clip))

    def _probabilities(self, row: int) -> tuple[NDArray[np.int32], Numbers, Numbers]:
        """Return the sequence of each position of a row, and p and q of its best feature there."""
        (positions, pair, owner), column = self._positions(row), self.text.cols[self.best[row]]
        probabilities = np.empty((2, len(positions)))
        kernels.collect(positions, pair, column, owner, self.text, self.chains, probabilities)
        return owner[positions], probabilities[0], probabilities[1]

    def grad_norm(self) -> float:
        """Return the Euclidean norm of the gradient."""
        gradient = self.sums.both[:, 0] - self.sums.both[:, 1]
        gradient[self.shared] = self.trainable * (self.sums.shared[..., 0] - self.sums.shared[..., 1]).sum(0)
        return float(np.linalg.norm(gradient))


def cut(batch: Batch, longest: int) -> Batch:
    """Cut sequences of more tokens into pieces of at most `longest`, whose lengths differ by at most 1; 0 for none."""
    if not longest:
        return batch
    lengths = np.diff(batch.offsets)
    pieces = np.maximum(-(-lengths // longest), 1)
    owner = np.repeat(np.arange(len(lengths)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = batch.offsets[owner] + number * lengths[owner] // pieces[owner]
    return batch._replace(offsets=np.append(starts, batch.offsets[-1]), weights=batch.weights[owner])


def _labels(batch: Batch, n_labels: int) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]], NDArray[np.bool_]]:
    """Return the known labels.

    RETURNS: For labels and label pairs, [T] the sequence of a position, -1 for a token that is not a position (in a
        sequence that does not contribute to the loss or, for pairs, the first of a sequence); for both, [T] the gold
        column of a position, -1 if a label is missing; [N] whether a sequence has both known and missing labels.
    """
    lengths, gold = np.diff(batch.offsets), np.ascontiguousarray(batch.gold)
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    missing = np.bincount(owner[gold < 0], minlength=len(lengths))
    labelled = missing < lengths
    single = np.where((labelled & (batch.weights > 0))[owner], owner, np.int32(-1))
    pair, before = single.copy(), np.roll(gold, 1)
    pair[batch.offsets[:-1][lengths > 0]] = -1
    pairs = np.where((before >= 0) & (gold >= 0), before * n_labels + gold, -1).astype(np.int32)
    return [single, pair], [gold, pairs], (missing > 0) & labelled


def _groups(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int32], Numbers]:
    """Group sequences [N] of similar sizes; return the group of each, and the largest size in each group."""
    groups = np.ceil(np.log(sizes) / np.log(GROUPS)).astype(np.int32)
    largest = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(largest, groups, sizes)
    return groups, largest


def _places(blocks: list[RowBlock]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the starts of the rows of all groups [R + 1], and the column of each parameter [D]."""
    begins, cols, n = [], [], blocks[0].width
    for block in blocks[:2]:
        sparse = len(block.ptr) > 0
        begins.append(block.ptr[:-1] + block.begin if sparse else np.arange(block.begin, block.end, block.width))
        cols.append(block.cols if sparse else np.tile(np.arange(block.width, dtype=np.int32), block.n_rows))
    begins.append(np.arange(blocks[2].begin, blocks[2].end + 1))
    cols += [np.arange(size, dtype=np.int32) for size in (n * n, n, n)]
    return np.concatenate(begins).astype(np.int64), np.concatenate(cols).astype(np.int32)
