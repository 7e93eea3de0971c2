"""What online methods share: what they ask for, a run's state, and when it stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..errors import ConfigError
from ..types import Floats, OnlineObjective, StepReport
from .mistakes import MistakeState, learn_from_mistakes


class OnlineMethod(ABC):
    """A method that makes a step after every few sequences, so that a pass over part of the data is an iteration.

    max_iterations (int): Epochs of a run.
    seed (int): Of the order of the sequences.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"minibatches"})
    online: ClassVar[bool] = True
    max_iterations: int
    tolerance: float
    seed: int


@dataclass
class GradientState:
    """A run in progress.

    weights, sums (Floats): [D] weights, and what their average is computed from; no sums where there is none.
    values (list[float]): Objective of each epoch, as met on the way.
    """

    weights: Floats
    sums: Floats
    rng: np.random.Generator
    values: list[float] = field(default_factory=list)


class GradientSteps(OnlineMethod):
    """An online method that steps along the gradients of mini-batches, for elastic nets."""

    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    batch_size: int

    def __post_init__(self) -> None:
        if min(self.batch_size, self.max_iterations) < 1:
            raise ConfigError(f"{type(self).__name__}: batch_size and max_iterations must be at least 1.")

    def _report(self, state: GradientState, loss: float, penalty: float) -> StepReport:
        """Return the report of an epoch."""
        value = loss + penalty
        state.values.append(value)
        if not np.isfinite(value):
            message = "the objective is not finite: the learning rate is too large"
        elif len(state.values) >= self.max_iterations:
            message = f"{self.max_iterations} epochs were run"
        else:
            message = self._settled(state.values)
        return StepReport(value, loss, float("nan"), 1, bool(message), message)

    @abstractmethod
    def _settled(self, values: list[float]) -> str:
        """Return why no further epoch is worth while, given the objective after each; nothing if one is."""


class MarginSteps(OnlineMethod):
    """An online method that makes a step along the gradient of the hinge loss where a sequence has one.

    average (bool): Predict with the average of the weights after each sequence.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"minibatches", "best_path", "margin"})
    penalties: ClassVar[frozenset[str]] = frozenset({"none"})
    average: bool

    def __post_init__(self) -> None:
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            name = type(self).__name__
            raise ConfigError(f"{name}: max_iterations must be at least 1, and 0 <= tolerance < 1.")

    def start(self, theta: Floats) -> MistakeState:
        sums = np.zeros_like(theta) if self.average else theta[:0].copy()
        return MistakeState(theta.copy(), sums, self._variances(theta), np.random.default_rng(self.seed))

    def export(self, state: MistakeState, theta: Floats) -> None:
        """Write the average, or the weights where none is kept."""
        state.average(theta)

    def iterate(self, objective: OnlineObjective, state: MistakeState) -> StepReport:
        loss, mistakes = learn_from_mistakes(objective, state, self._step)
        return state.report(loss, mistakes, self.max_iterations, self.tolerance)

    def _variances(self, theta: Floats) -> Floats:
        """Return the variance of each weight [D] at the start; an empty array if there are none."""
        return theta[:0].copy()

    @abstractmethod
    def _step(self, loss: float, square: float) -> tuple[float, float]:
        """Return what `learn_from_mistakes` asks for."""
