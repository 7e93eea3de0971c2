"""Code that online methods share: the state of a run, its stopping rule, and the pass of mistake-driven methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import Floats, OnlineObjective, RowBlock, RowGradient, StepReport
from .seeds import check_seed, generator

PATIENCE = 3
"""Epochs that may pass without a smaller loss; from one to the next it may rise."""


@dataclass
class OnlineState:
    """A run in progress.

    weights, sums (Floats): [D] weights, and what their average is computed from; no sums where there is none.
    values (list[float]): Objective of each epoch, as met on the way.
    """

    weights: Floats
    sums: Floats
    rng: np.random.Generator
    values: list[float] = field(default_factory=list)


class OnlineMethod(ABC):
    """A method that makes a step after every few sequences, so that a pass over part of the data is an iteration.

    max_iterations (int): Epochs of a run.
    seed (int | None): Of the order of the sequences; None for ``training.seed`` of the config, or 0 outside of one.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"minibatches"})
    online: ClassVar[bool] = True
    diverged: ClassVar[str] = "the objective is not finite: the learning rate is too large"
    max_iterations: int
    tolerance: float
    seed: int | None

    def again(self, state: Any, theta: Floats, n_total: int) -> Any:
        """Return a state to continue from other weights theta [D] than its last ones, with what it knows of rates.

        n_total (int): Sequences of the whole training set, which others have visited meanwhile.
        """
        new = self.start(theta)
        new.rng = state.rng
        return new

    def last(self, state: Any) -> Floats:
        """Return the weights [D] at present, not their average."""
        weights: Floats = state.weights
        return weights

    @abstractmethod
    def start(self, theta: Floats) -> Any:
        """Return the state of a run that begins at theta [D]."""

    def report(self, state: Any, loss: float, penalty: float = 0.0, done: str = "") -> StepReport:
        """Return the report of an epoch; it is added to ``state.values``.  `done` says why the run ends after it, where that is known."""
        value = loss + penalty
        state.values.append(value)
        if not np.isfinite(value):
            done = self.diverged
        elif not done and len(state.values) >= self.max_iterations:
            done = f"{self.max_iterations} epochs were run"
        done = done or self._settled(state.values)
        return StepReport(value, loss, float("nan"), 1, bool(done), done)

    @abstractmethod
    def _settled(self, values: list[float]) -> str:
        """Return why no further epoch would help, given the objective after each; empty if one would."""


class GradientSteps(OnlineMethod):
    """An online method that steps along the gradients of mini-batches, for elastic nets."""

    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    batch_size: int

    def __post_init__(self) -> None:
        if min(self.batch_size, self.max_iterations) < 1:
            raise ConfigError(f"{type(self).__name__}: batch_size and max_iterations must be at least 1.")
        check_seed(type(self).__name__, self.seed)


@dataclass
class MistakeState(OnlineState):
    """A run in progress.

    sums (Floats): [D] of the steps, each times the clock when it was made; empty where no average is kept.
    variances (Floats): [D] of each weight; empty where the method has none.
    clock (float): Sequences seen.
    """

    variances: Floats = field(default_factory=lambda: np.zeros(0))
    clock: float = 0.0


class MistakeSteps(OnlineMethod):
    """An online method that makes a step for each sequence where something is wrong.

    average (bool): Predict with the average of the weights after each sequence.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"minibatches", "best_path"})
    penalties: ClassVar[frozenset[str]] = frozenset({"none"})
    diverged: ClassVar[str] = "the loss is not finite"
    average: bool = True

    def __post_init__(self) -> None:
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            raise ConfigError(f"{type(self).__name__}: max_iterations must be at least 1, and 0 <= tolerance < 1.")
        check_seed(type(self).__name__, self.seed)

    def start(self, theta: Floats) -> MistakeState:
        sums = np.zeros_like(theta) if self.average else theta[:0].copy()
        return MistakeState(theta.copy(), sums, generator(self.seed), variances=self._variances(theta))

    def export(self, state: MistakeState, theta: Floats) -> None:
        """Write the average of the weights after each sequence, or the weights where none is kept.

        A step that was made at clock c is part of the weights from then on, so that the average is
        ``weights - sums / clock`` (Daume 2006, figure 2.3).
        """
        if len(state.sums) and state.clock:
            kernels.vectors.average(state.weights, 1.0, state.sums, -1 / state.clock, theta)
        else:
            theta[:] = state.weights

    def again(self, state: MistakeState, theta: Floats, n_total: int) -> MistakeState:
        new: MistakeState = super().again(state, theta, n_total)
        new.variances = state.variances
        return new

    def iterate(self, objective: OnlineObjective, state: MistakeState) -> StepReport:
        loss, mistakes = self._pass(objective, state)
        return self.report(state, loss, done="" if mistakes else "nothing is wrong any more")

    def _settled(self, values: list[float]) -> str:
        before, lately = values[:-PATIENCE], values[-PATIENCE:]
        if before and min(lately) > (1 - self.tolerance) * min(before):
            return f"the loss fell by less than {self.tolerance:g} of its value in {PATIENCE} epochs"
        return ""

    def _variances(self, theta: Floats) -> Floats:
        """Return the variance of each weight [D] at the start; an empty array if there are none."""
        return theta[:0].copy()

    @abstractmethod
    def _pass(self, objective: OnlineObjective, state: MistakeState) -> tuple[float, int]:
        """Pass over the sequences and make the steps; return the sum of the losses and the number of mistakes."""


class MarginSteps(MistakeSteps):
    """An online method that makes a step along the gradient of the hinge loss where a sequence has one."""

    requires: ClassVar[frozenset[str]] = MistakeSteps.requires | {"margin"}

    def _pass(self, objective: OnlineObjective, state: MistakeState) -> tuple[float, int]:
        collector = _Collector(objective.blocks, state.weights)
        loss, mistakes = 0.0, 0
        for batch in objective.minibatches(1, state.rng):
            batch_loss, gradients = batch.loss_and_grad(state.weights)
            if batch_loss > 0:
                loss += batch_loss
                mistakes += 1
                listed = collector.collect(gradients)
                square = kernels.updates.weighted_square(*listed, state.variances)
                if square > 0:
                    steps = self._step(batch_loss, square)
                    kernels.updates.step_at(*listed, *steps, state.clock, state.weights, state.variances, state.sums)
            state.clock += 1.0
        return loss, mistakes

    @abstractmethod
    def _step(self, loss: float, square: float) -> tuple[float, float]:
        """Return the length of the step along a gradient g, and how much of g's direction the variances lose.

        square (float): The squared norm of g, weighted by the variances where there are any.
        """


class _Collector:
    """Lists the gradient of one sequence with each parameter once."""

    def __init__(self, blocks: list[RowBlock], like: Floats) -> None:
        self._blocks, self._scratch = blocks, np.zeros_like(like)
        self._make_room(1024)

    def _make_room(self, size: int) -> None:
        self._places, self._values = np.empty(size, np.int64), np.empty(size, self._scratch.dtype)

    def collect(self, gradients: list[RowGradient]) -> tuple[NDArray[np.int64], Floats, int]:
        """Return the places and values of the sum of some gradients, in longer arrays, and their number."""
        places, values, n = self._places, self._values, 0
        for number, ptr, ids, d in gradients:
            block = self._blocks[number]
            n = kernels.updates.collect(
                ptr, ids, d, block.ptr, block.cols, block.begin, self._scratch, places, values, n
            )
            if n < 0:
                self._make_room(-2 * n)
                return self.collect(gradients)
        return places, values, n
