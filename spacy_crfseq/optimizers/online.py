"""Code that online methods share: the state of a run, its stopping rule, and the seeds of their random numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from ..types import Floats, LossProperty, OnlineObjective, Optimizer, RowBlock, StepReport
from .states import Kinds, StoredState

LARGEST = 2**32 - 1
"""The largest seed of spaCy, whose own random numbers use the same seed."""


def generator(seed: int | None) -> np.random.Generator:
    """Return a random number generator with a seed; None means the seed 0."""
    return np.random.default_rng(seed or 0)


def check_seed(name: str, seed: int | None) -> None:
    """RAISES ConfigError: If a seed is not between 0 and `LARGEST`; `name` is that of the setting or its block."""
    if seed is not None and not 0 <= seed <= LARGEST:
        raise ConfigError(f"{name}: the seed must be between 0 and {LARGEST}, but {seed} was given.")


def seeded(optimizer: Optimizer, seed: int | None) -> Optimizer:
    """Return an optimizer that uses `seed`, unless its own settings have one or it draws no random numbers."""
    if seed is None or getattr(optimizer, "seed", 0) is not None:
        return optimizer
    check_seed("training.seed", seed)
    dataclass: Any = optimizer
    changed: Optimizer = replace(dataclass, seed=seed)
    return changed


@dataclass
class OnlineState(StoredState):
    """A run in progress.

    weights, sums (Floats): [D] weights, and sums from which their average is computed; empty where there is no average.
    values (list[float]): Objective of each epoch, as met on the way.
    """

    weights: Floats
    sums: Floats
    rng: np.random.Generator
    values: list[float] = field(default_factory=list)

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kind of `values`, see `StoredState`."""
        return {"values": ([0.0, ...],)}


class OnlineMethod(ABC):
    """A method that makes a step after every few sequences, so that a pass over part of the data is an iteration.

    max_iterations (int): Epochs of a run.
    seed (int | None): Of the order of the sequences; None for ``training.seed`` of the config, or 0 outside of one.
    """

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"minibatches"})
    online: ClassVar[bool] = True
    diverged: ClassVar[str] = "the objective is not finite: the learning rate is too large"
    max_iterations: int
    tolerance: float
    seed: int | None

    def again(self, state: Any, theta: Floats, seen: float) -> Any:
        """Return a state that continues from other weights theta [D], with the rates that it has learned.

        seen (float): Sequences of the whole training set that have been visited, here or elsewhere.
        """
        new = self.start(theta)
        new.rng = state.rng
        return new

    def last(self, state: Any, objective: OnlineObjective) -> Floats:
        """Return the weights [D] at the end of an epoch on `objective`, which are not averaged."""
        weights: Floats = state.weights
        return weights

    @abstractmethod
    def start(self, theta: Floats) -> Any:
        """Return the state of a run that begins at theta [D]."""

    def report(self, state: Any, loss: float, penalty: float = 0.0, done: str = "") -> StepReport:
        """Add an epoch to ``state.values`` and return its report; `done` says why the run ends, where that is known."""
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
