"""What methods that learn from mistakes share: the pass over the sequences, the average, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..types import Floats, OnlineObjective, RowBlock, RowGradient, StepReport

PATIENCE = 3
"""Epochs that may pass without a smaller loss; from one to the next it may rise."""


@dataclass
class MistakeState:
    """A run in progress.

    weights (Floats): [D].
    sums (Floats): [D] of the steps, each times the clock when it was made; empty where no average is kept.
    variances (Floats): [D] of each weight; empty where the method has none.
    clock (float): Sequences seen.
    losses (list[float]): Of each epoch, as met on the way.
    """

    weights: Floats
    sums: Floats
    variances: Floats
    rng: np.random.Generator
    clock: float = 0.0
    losses: list[float] = field(default_factory=list)

    def average(self, theta: Floats) -> None:
        """Write the average of the weights after each sequence, or the weights where there is none, to `theta`.

        A step that was made at clock c is part of the weights from then on, so that the average is
        ``weights - sums / clock`` (Daume 2006, figure 2.3).
        """
        from ..kernels import vectors

        if len(self.sums) and self.clock:
            vectors.average(self.weights, 1.0, self.sums, -1 / self.clock, theta)
        else:
            theta[:] = self.weights

    def report(self, loss: float, mistakes: int, max_iterations: int, tolerance: float) -> StepReport:
        """Return the report of an epoch with its loss and the number of its steps, and whether it was the last one."""
        self.losses.append(loss)
        message = self._stop(mistakes, max_iterations, tolerance)
        return StepReport(loss, loss, float("nan"), 1, bool(message), message)

    def _stop(self, mistakes: int, max_iterations: int, tolerance: float) -> str:
        if not np.isfinite(self.losses[-1]):
            return "the loss is not finite"
        if not mistakes:
            return "nothing is wrong any more"
        if len(self.losses) >= max_iterations:
            return f"{max_iterations} epochs were run"
        before, lately = self.losses[:-PATIENCE], self.losses[-PATIENCE:]
        if before and min(lately) > (1 - tolerance) * min(before):
            return f"the loss fell by less than {tolerance:g} of its value in {PATIENCE} epochs"
        return ""


class Collector:
    """Lists the gradient of one sequence with each parameter once.

    places, values: The list, of which `collect` tells the length.
    """

    def __init__(self, objective: OnlineObjective, like: Floats) -> None:
        self._blocks: list[RowBlock] = objective.blocks
        self._scratch = np.zeros_like(like)
        self._make_room(1024)

    def _make_room(self, size: int) -> None:
        self.places, self.values = np.empty(size, np.int64), np.empty(size, self._scratch.dtype)

    def collect(self, gradients: list[RowGradient]) -> int:
        """Fill the list with the sum of some gradients; return its length."""
        from ..kernels import updates

        n = 0
        for number, ptr, ids, d in gradients:
            block = self._blocks[number]
            n = updates.collect(
                ptr, ids, d, block.ptr, block.cols, block.begin, self._scratch, self.places, self.values, n
            )
            if n < 0:
                self._make_room(-2 * n)
                return self.collect(gradients)
        return n


def learn_from_mistakes(
    objective: OnlineObjective, state: MistakeState, step: Callable[[float, float], tuple[float, float]]
) -> tuple[float, int]:
    """Pass over the sequences, make a step for each that has a loss; return the sum of the losses and their number.

    step (Callable): Maps a loss and the squared norm of its gradient g, weighted by the variances where there are any,
        to the length of the step along g and to how much of g's direction is taken off the variances.
    """
    from ..kernels import updates

    collector = Collector(objective, state.weights)
    loss, mistakes = 0.0, 0
    for batch in objective.minibatches(1, state.rng):
        batch_loss, gradients = batch.loss_and_grad(state.weights)
        if batch_loss > 0:
            loss += batch_loss
            mistakes += 1
            n = collector.collect(gradients)
            places, values = collector.places, collector.values
            square = updates.weighted_square(places, values, n, state.variances)
            if square > 0:
                by, share = step(batch_loss, square)
                updates.step_at(places, values, n, by, share, state.clock, state.weights, state.variances, state.sums)
        state.clock += 1.0
    return loss, mistakes
