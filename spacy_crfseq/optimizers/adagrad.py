"""AdaGrad with one learning rate for each row of weights, lazy shrinkage and a lazy average.

Duchi, Hazan & Singer (2011), "Adaptive subgradient methods for online learning and stochastic optimization", in its
composite (proximal) form.  A row, the weights of one feature for all labels, shares one accumulator, which saves most
memory traffic and finds better named entities than one for each weight.  When position t, with the gradient d of its
scores, visits row r::

    G_r += ||d||^2          a_r = rate / sqrt(offset + G_r)
    w_r = (w_r - a_r d) / (1 + a_r c k)

where c is the strength of the squared norm for a sequence and k the sequences since the row's last visit: a lazy
proximal step for all sequences that left the row alone.  An L1 norm of strength b for a sequence first takes
``a_r b k`` off the size of ``w_r - a_r d``, at most all of it; then all rows catch up at the end of an epoch, and the
last weights predict, since an average of sparse weights is not sparse.  Weights of frequent features keep moving
around zero: SGD's are sparser.

Soon most positions are predicted with near certainty.  A gradient with ||d|| < `LEAST` is used with the probability
||d|| / `LEAST`, and then scaled to that length, which does not change its expectation (Wangni et al. 2018, "Gradient
sparsification") and saves about a third of an epoch's time.

Predictions use the average over all steps, the step at time s weighted with s^3, since early steps are far from the
optimum (polynomial-decay averaging, Shamir & Zhang 2013, with eta = 3).  A row's share too is added at its visits.
Several runs, each in an order of its own, can be averaged as well, because each is as far from the optimum in another
direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels, threads
from ..errors import ConfigError
from ..types import NO_PENALTY, ChainText, Floats, OnlineObjective, RowBlock, StepReport
from .online import GradientSteps, OnlineState, generator
from .states import Kinds

OFFSET = 0.1
"""Added to the sum of squares: no row's rate exceeds about three times `rate`."""
LEAST = 0.05
"""Length of the shortest gradient that is always used."""


@dataclass
class AdaGradState(OnlineState):
    """A run in progress.

    seen (NDArray): [R, 2] of each row, the sum of squares and the clock at the last visit; float64.
    clock (float): Sequences seen.
    unit (float): Sequences to an epoch when the run began; the clock's unit in the weights of the average.
    alone (int): Texts that one thread processes before several try again, after the last try `pause` of them.
    others (list[AdaGradState]): Further runs.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"blocks"})
    seen: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    blocks: list[RowBlock] = field(default_factory=list)
    clock: float = 0.0
    unit: float = 1.0
    alone: int = 0
    pause: int = 0
    others: list[AdaGradState] = field(default_factory=list)

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of more fields, see `StoredState`."""
        n_rows = sum(block.n_rows for block in blocks)
        seen = self.seen, np.empty((n_rows, 2))
        return {**super().kinds(blocks), "sums": (self.sums, self.sums[:0]), "seen": seen}

    def from_state(self, stored: Any, blocks: Sequence[RowBlock]) -> None:
        """Continue from stored fields, see `StoredState`."""
        super().from_state(stored, blocks)
        if len(self.seen):
            self.blocks = list(blocks)

    def check(self) -> None:
        """RAISES ValueError: If sequences have been seen, but no rows."""
        if self.clock and not len(self.seen):
            raise ValueError(f"no rows were visited by {self.clock:g} sequences")

    def rows(self, block: RowBlock) -> Any:
        """Return `kernels.updates.RowArrays` of a group; of sums and seen, there may be none."""
        return block.ptr, block.cols, block.of(self.weights), block.of(self.sums), block.rows_of(self.seen)


@dataclass(frozen=True)
class AdaGrad(GradientSteps):
    """AdaGrad by rows (registered as ``spacy_crfseq.AdaGrad.v1``).

    rate (float): Learning rate; a row's first steps are about as large.
    batch_size (int): Sequences whose gradient is computed with the same weights.
    average (bool): Predict with the weighted average of the weights; with an L1 norm, the last ones predict anyway.
    runs (int): Runs in different orders whose weights are averaged: more accurate, and as many times slower.
    min_weight (float): Weights of a smaller absolute value predict as zeros, which models do not store.  With
        ``support = "all"``, 0.01 makes models three to six times smaller and costs nothing.
    tolerance (float): Stop when an epoch's objective, as met on the way, fell by less than this fraction.
    RAISES ConfigError: On a setting out of range.
    """

    rate: float = 0.5
    batch_size: int = 4
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.05
    seed: int | None = None
    runs: int = 1
    min_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate <= 0 or min(self.tolerance, self.min_weight) < 0 or self.runs < 1:
            raise ConfigError("AdaGrad: rate must be positive, tolerance and min_weight 0 or more, runs at least 1.")

    def start(self, theta: Floats) -> AdaGradState:
        first = self._run(theta, generator(self.seed))
        first.others = [self._run(theta, np.random.default_rng([self.seed or 0, run])) for run in range(1, self.runs)]
        return first

    def again(self, state: AdaGradState, theta: Floats, seen: float) -> AdaGradState:
        new = self._run(theta, state.rng)
        new.blocks, new.unit, new.seen = state.blocks, state.unit, state.seen
        new.seen[:, 1] = 0  # the clock starts again
        new.others = [self.again(other, theta, seen) for other in state.others]
        return new

    def last(self, state: AdaGradState, objective: OnlineObjective) -> Floats:
        l1, l2 = (strength / max(1, objective.n_total) for strength in objective.regularizer.strengths or NO_PENALTY)
        if not l1:  # the proximal steps of rows that were not visited lately
            self._catch_up(state, l1, l2)
        return state.weights

    def _catch_up(self, state: AdaGradState, l1: float, l2: float) -> None:
        settings = state.unit, self.rate, OFFSET, LEAST, l2, l1
        for block in state.blocks:
            kernels.updates.catch_up(block.n_rows, block.width, state.rows(block), state.clock, settings)

    def _run(self, theta: Floats, rng: np.random.Generator) -> AdaGradState:
        return AdaGradState(theta.copy(), np.zeros_like(theta) if self.average else theta[:0].copy(), rng)

    def export(self, state: AdaGradState) -> Floats:
        """Return the average of each run, or its current weights where there is none yet; of several, their mean."""
        theta = np.empty_like(state.weights)
        self._export(state, theta)
        for run, other in enumerate(state.others, start=2):
            added = np.empty_like(theta)
            self._export(other, added)
            added -= theta
            theta += added / theta.dtype.type(run)
        if self.min_weight:
            theta[np.abs(theta) < self.min_weight] = 0
        return theta

    def _export(self, state: AdaGradState, theta: Floats) -> None:
        if not (len(state.sums) and state.clock):
            theta[:] = state.weights
            return
        for block in state.blocks:
            rows, out = state.rows(block), block.of(theta)
            kernels.updates.average_rows(block.n_rows, block.width, rows, state.clock, state.unit, out)

    def iterate(self, objective: OnlineObjective, state: AdaGradState) -> StepReport:
        for other in state.others:
            self._epoch(objective, other)
        return self.report(state, self._epoch(objective, state), objective.regularizer.value(state.weights))

    def _epoch(self, objective: OnlineObjective, state: AdaGradState) -> float:
        """Make the steps of an epoch; return the sum of the losses as they were met."""
        if not len(state.seen):
            state.blocks, state.unit = objective.blocks, float(objective.n_total)
            state.seen = np.zeros((sum(block.n_rows for block in state.blocks), 2))
        l1, l2 = (strength / max(1, objective.n_total) for strength in objective.regularizer.strengths or NO_PENALTY)
        if l1 or len(state.sums) != len(state.weights):
            state.sums = state.sums[:0]
        parts = [state.rows(block) for block in state.blocks]
        settings = (state.unit, self.rate, OFFSET, LEAST, l2, l1)
        n_threads = min(objective.n_threads, self.batch_size)
        texts = objective.chains(self.batch_size, state.rng, n_threads)
        loss = sum(self._in_lockstep(text, n_threads, state, parts, settings) for text in texts or ())
        for batch in objective.minibatches(self.batch_size, state.rng) if texts is None else ():
            batch_loss, gradients = batch.loss_and_grad(state.weights)
            loss += batch_loss
            state.clock += batch.n_sequences
            for number, ptr, ids, d in gradients:
                kernels.updates.adagrad((ptr, ids, d), parts[number], state.clock, settings, 0)
        if l1:  # make the proximal steps that rows not visited lately still lack
            self._catch_up(state, l1, l2)
        return loss

    def _in_lockstep(
        self, text: ChainText, n_threads: int, state: AdaGradState, parts: list[Any], settings: Any
    ) -> float:
        """Make the steps of a text, in one thread for some texts after one whose threads had to wait for a core."""
        n, size, clock = 1 if state.alone else min(n_threads, threads.available()), self.batch_size, state.clock
        n_parts = min(max(2, n_threads), size)  # the same sums, to the last bit, in one thread and in two
        width, dtype = state.blocks[0].width, state.weights.dtype
        work = kernels.lockstep.workspace(text, size, n_parts, n, width, dtype)
        state.clock += len(text.weights)
        since, busy, arguments = -1, False, ((parts[0], parts[-1]), clock, settings)
        while True:
            tasks = [
                partial(kernels.lockstep.pass_over, text, size, since, *arguments, work, thread)
                for thread in range(len(work.own_ids))
            ]
            threads.run(tasks, partial(work.arrivals.fill, 1 << 62))
            if not work.stop[0]:
                break
            if not work.left.any():  # they often waited for a core: one thread does the rest
                busy, work = True, work._replace(own_ids=work.own_ids[:1])
            since = kernels.lockstep.solve_left(text, parts[-1][2], work)
        if n > 1:
            state.pause = 2 * state.pause + 1 if busy else 0
        state.alone = state.pause if n > 1 else max(0, state.alone - 1)
        return float(work.losses.sum())

    def _settled(self, values: list[float]) -> str:
        if len(values) > 1 and values[-2] - values[-1] < self.tolerance * values[-1]:
            return f"the objective fell by less than {self.tolerance:g} of its value in an epoch"
        return ""
