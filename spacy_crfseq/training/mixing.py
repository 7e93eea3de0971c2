"""Online methods on shards: each shard is an epoch's training set of its own, and the results are averaged.

McDonald, Hall & Mann (2010), "Distributed training strategies for the structured perceptron", section 4.2, iterative
parameter mixing.  A weight is averaged over the shards that have its feature, in proportion to their sequences; in the
paper, a shard without the feature counts as one that leaves the weight as it is.  The result is not the optimum that
the method would find in one process, but comes near it in about as many epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..types import Floats, Regularizer, StepReport
from .distributed import Distributed
from .objective import Objective


@dataclass
class MixedState:
    """A run in progress.

    weights, exported (Floats): [D] weights with which the next epoch begins, and those for prediction.
    shares (Floats): [D] share of the sequences that the shards with each weight have; empty before the first epoch.
    values (list[float]): Objective of each epoch.
    """

    weights: Floats
    exported: Floats
    shares: Floats = field(default_factory=lambda: np.zeros(0))
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Mixed:
    """An online optimizer on shards; implements `types.Optimizer` for `Distributed`.

    A shard whose worker has died begins its epochs without what the optimizer knew of it, such as AdaGrad's squares.
    """

    optimizer: Any  # an `optimizers.online.OnlineMethod`

    def __getattr__(self, name: str) -> Any:  # requires, penalties, max_iterations, seed
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def start(self, theta: Floats) -> MixedState:
        return MixedState(theta.copy(), theta.copy())

    def export(self, state: MixedState, theta: Floats) -> None:
        theta[:] = state.exported

    def iterate(self, objective: Distributed, state: MixedState) -> StepReport:
        if not len(state.shares):
            (shares,) = objective.shards.sum(_shares, state.weights)
            state.shares = np.maximum(shares, np.finfo(shares.dtype).tiny)
        epoch = partial(_epoch, self.optimizer, objective.regularizer)
        loss, last, exported = objective.shards.sum(epoch, state.weights)
        state.exported = state.weights + exported / state.shares
        state.weights = state.weights + last / state.shares
        found: StepReport = self.optimizer.report(state, loss, objective.regularizer.value(state.weights))
        return found


def _shares(objective: Objective, theta: Floats, memory: dict[str, Any]) -> tuple[Floats]:
    return (np.full_like(theta, objective.n_sequences / objective.n_total),)


def _epoch(
    optimizer: Any, regularizer: Regularizer, objective: Objective, theta: Floats, memory: dict[str, Any]
) -> tuple[float, Floats, Floats]:
    """Run an epoch from theta [D of a shard]; return the loss, and the shares of changes of last and exported weights."""
    n_total, state = objective.n_total, memory.get("state")
    memory["state"] = state = optimizer.start(theta) if state is None else optimizer.again(state, theta, n_total)
    objective.regularizer = regularizer.over(objective.blocks)
    report = optimizer.iterate(objective, state)
    share, exported = theta.dtype.type(objective.n_sequences / n_total), np.empty_like(theta)
    optimizer.export(state, exported)
    return report.loss, share * (optimizer.last(state) - theta), share * (exported - theta)
