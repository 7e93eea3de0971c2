"""Online methods on shards: each trains on its own part for an eighth of an epoch, and the parameters are mixed.

McDonald, Hall & Mann (2010), "Distributed training strategies for the structured perceptron", section 4.2, iterative
parameter mixing.  Here a weight is averaged over the shards that have its feature, in proportion to their sequences,
and the mean change is multiplied by the fourth root of their number, since each of them has seen only a part of the
feature's tokens.  Both were chosen on the dev parts of three corpora.  The result is not the optimum that the method
finds in one process, but a point near it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..types import Floats, Regularizer, StepReport
from .distributed import Distributed
from .objective import Objective

ROUNDS = 8
"""Mixtures in an epoch."""
GROWTH = 0.25
"""Exponent of the number of shards with a feature, by which the mean change of its weights is multiplied."""


@dataclass
class MixedState:
    """A run in progress.

    weights, exported (Floats): [D] weights from which training continues, and those for prediction.
    factors (Floats): [D] of sums over shards; empty before the first epoch.
    values (list[float]): Objective of each epoch.
    """

    weights: Floats
    exported: Floats
    factors: Floats = field(default_factory=lambda: np.zeros(0))
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Mixed:
    """An online optimizer on shards; implements `types.Optimizer` for a `Distributed` objective.

    optimizer (OnlineMethod): The optimizer of each shard.  What it knows of rates, such as AdaGrad's sums of squares,
        stays there, and is lost with a worker that dies.
    """

    optimizer: Any

    def __getattr__(self, name: str) -> Any:  # requires, penalties, online, max_iterations, seed
        if name.startswith("__") or name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def start(self, theta: Floats) -> MixedState:
        """Return the state of a run that begins at theta [D]."""
        return MixedState(theta.copy(), theta.copy())

    def export(self, state: MixedState, theta: Floats) -> None:
        """Write the mixture of what the shards would predict with."""
        theta[:] = state.exported

    def iterate(self, objective: Distributed, state: MixedState) -> StepReport:
        """Run an epoch."""
        if not len(state.factors):
            shares, number = objective.shards.sum(_shares, state.weights)
            state.factors = np.maximum(number, 1) ** number.dtype.type(GROWTH) / np.maximum(shares, 1e-9)
        loss, epoch = 0.0, len(state.values)
        for turn in range(ROUNDS):
            work = partial(_round, self.optimizer, objective.regularizer, epoch, turn)
            part, last, exported = objective.shards.sum(work, state.weights)
            loss += part
            state.exported = state.weights + exported * state.factors
            state.weights = state.weights + last * state.factors
        penalty, done = objective.regularizer.value(state.weights), "" if loss else "the loss is zero"
        report: StepReport = self.optimizer.report(state, loss, penalty, done)
        return report


def _shares(objective: Objective, theta: Floats, memory: dict[str, Any]) -> tuple[Floats, Floats]:
    return np.full_like(theta, objective.n_sequences / objective.n_total), np.ones_like(theta)


def _round(
    optimizer: Any,
    regularizer: Regularizer,
    epoch: int,
    turn: int,
    objective: Objective,
    theta: Floats,
    memory: dict[str, Any],
) -> tuple[float, Floats, Floats]:
    """Train on a part of the shard from theta [D of the shard].

    Return the loss, and the changes of the last weights and of those for prediction, times the shard's share.
    """
    rng, n_total, state = np.random.default_rng((optimizer.seed or 0, epoch)), objective.n_total, memory.get("state")
    orders = [np.array_split(rng.permutation(term.data.n_groups), ROUNDS)[turn] for term in objective.terms]
    terms = [term._replace(data=term.data.take(order)) for term, order in zip(objective.terms, orders, strict=True)]
    part = objective.on(terms)
    part.regularizer = regularizer.over(objective.blocks)
    seen = (epoch + turn / ROUNDS) * n_total
    memory["state"] = state = optimizer.start(theta) if state is None else optimizer.again(state, theta, seen)
    report, exported = optimizer.iterate(part, state), np.empty_like(theta)
    optimizer.export(state, exported)
    share = theta.dtype.type(objective.n_sequences / n_total)
    return report.loss, share * (optimizer.last(state, part) - theta), share * (exported - theta)
