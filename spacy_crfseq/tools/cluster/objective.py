"""The objective of a training set that lies in shards on several machines: its passes are sums over the shards.

Each iteration sends the parameters to all shards and adds up what comes back.  Losses, penalties and batch optimizers
are those of one process.  Online methods train on each shard for an eighth of an epoch, and the parameters are mixed:
McDonald, Hall & Mann (2010), "Distributed training strategies for the structured perceptron", section 4.2, iterative
parameter mixing.  Here a weight is averaged over the shards that have its feature, in proportion to their sequences,
and the mean change is multiplied by the fourth root of their number, since each of them has seen only a part of the
feature's tokens.  Both were chosen on the dev parts of three corpora.  The result is not the optimum that the method
finds in one process, but a point near it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...optimizers.states import Kinds, StoredState
from ...potentials.protocol import Potential
from ...training.objective import Objective
from ...types import Bools, CorpusLoss, Floats, Loss, Regularizer, RowBlock, StepReport

ROUNDS = 8
"""Mixtures in an epoch."""
GROWTH = 0.25
"""Exponent of the number of shards with a feature, by which the mean change of its weights is multiplied."""
OWN = "own"
"""A key of the memory of a shard: which parameters [D] belong to its features; all where it is missing."""

Work: TypeAlias = Callable[[Objective, Floats, dict[str, Any]], tuple[Any, ...]]
"""Computes numbers and arrays from the objective of a shard, parameters, and what the shard remembers between calls.

The objective has no penalty.  A `Work` is sent to other processes, so it is a function of a module, or a `partial` of
one.
"""


class ShardSums(Protocol):
    """The parts of a training set."""

    def sum(self, work: Work, theta: Floats) -> tuple[Any, ...]:
        """Return the sum of the results of `work` at theta [D] over all shards, element by element."""


class TermLoss(NamedTuple):
    """The loss of a term, whose data are in the shards."""

    name: str
    loss: Loss
    weight: float = 1.0


class Distributed(Objective):
    """Implements `types.BatchObjective` over shards.

    losses_of (Sequence[TermLoss]): Those of all terms.
    n_total (int): Number of sequences of all shards.
    """

    def __init__(
        self,
        shards: ShardSums,
        potential: Potential,
        losses_of: Sequence[TermLoss],
        regularizer: Regularizer,
        *,
        n_total: int,
        n_threads: int = 1,
    ) -> None:
        super().__init__(potential, (), regularizer, n_total=n_total, n_threads=n_threads)
        self.n_sequences = n_total
        self.shards, self._sums = shards, [term for term in losses_of if isinstance(term.loss, CorpusLoss)]

    @property
    def approachable(self) -> bool:
        """False: the order of AdaGrad's steps would depend on the shards."""
        return False

    def losses(self, theta: Floats, grad: Floats | None, totals: Any = None) -> float:
        """Return the sum of all losses at theta [D], without the penalty, and add its gradient to `grad` [D]."""
        names = [term.name for term in self._sums]
        totals = self.shards.sum(partial(_totals, names), theta) if names else ()
        sums = dict(zip(names, totals, strict=True))
        value, gradient = self.shards.sum(partial(_losses, sums, grad is not None), theta)
        if grad is not None:
            grad += gradient
        for term in self._sums:
            if isinstance(term.loss, CorpusLoss):
                value += term.loss.at(sums[term.name], term.weight)[0]
        return float(value)


def _totals(names: Sequence[str], objective: Objective, theta: Floats, memory: dict[str, Any]) -> tuple[Any, ...]:
    totals = objective.totals(theta)
    return tuple(totals.get(name, 0.0) for name in names)


def _losses(
    sums: dict[str, Any], training: bool, objective: Objective, theta: Floats, memory: dict[str, Any]
) -> tuple[float, Any]:
    grad = np.zeros_like(theta) if training else None
    return objective.losses(theta, grad, sums), 0.0 if grad is None else grad


@dataclass
class MixedState(StoredState):
    """A run in progress.

    weights, exported (Floats): [D] weights from which training continues, and those for prediction.
    factors (Floats): [D] of sums over shards; empty before the first epoch.
    values (list[float]): Objective of each epoch.
    """

    weights: Floats
    exported: Floats
    factors: Floats
    values: list[float] = field(default_factory=list)

    def weigh(self, shares: Floats, number: Floats) -> None:
        """Set the factors, given the share of sequences [D] that have a feature, and the number of shards [D]."""
        self.factors = np.maximum(number, 1) ** number.dtype.type(GROWTH) / np.maximum(shares, 1e-9)

    def move(self, last: Floats, exported: Floats) -> None:
        """Take in the sums over shards of the changes of the last weights, and of those for prediction [D]."""
        self.exported = self.weights + exported * self.factors
        self.weights = self.weights + last * self.factors

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of `factors` and `values`, see `StoredState`."""
        return {"factors": (self.factors, self.weights), "values": ([0.0, ...],)}


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
        return MixedState(theta.copy(), theta.copy(), theta[:0].copy())

    def export(self, state: MixedState) -> Floats:
        """Return the mixture of what the shards would predict with."""
        return state.exported

    def iterate(self, objective: Distributed, state: MixedState) -> StepReport:
        """Run an epoch."""
        if not len(state.factors):
            state.weigh(*objective.shards.sum(_shares, state.weights))
        loss, epoch = 0.0, len(state.values)
        for turn in range(ROUNDS):
            work = partial(_round, self.optimizer, objective.regularizer, epoch, turn)
            part, last, exported = objective.shards.sum(work, state.weights)
            loss += part
            state.move(last, exported)
        penalty, done = objective.regularizer.value(state.weights), "" if loss else "the loss is zero"
        report: StepReport = self.optimizer.report(state, loss, penalty, done)
        return report


def _own(values: Floats, memory: dict[str, Any]) -> Floats:
    """Return values [D] of the features that a shard has, and zeros for all others."""
    own: Bools | None = memory.get(OWN)
    return values if own is None else np.where(own, values, values.dtype.type(0))


def _shares(objective: Objective, theta: Floats, memory: dict[str, Any]) -> tuple[Floats, Floats]:
    share = np.full_like(theta, objective.n_sequences / objective.n_total)
    return _own(share, memory), _own(np.ones_like(theta), memory)


def _round(
    optimizer: Any,
    regularizer: Regularizer,
    epoch: int,
    turn: int,
    objective: Objective,
    theta: Floats,
    memory: dict[str, Any],
) -> tuple[float, Floats, Floats]:
    """Train on a part of the shard from theta [D].

    Return the loss, and the changes of the last weights and of those for prediction, times the shard's share.
    """
    rng, n_total, state = np.random.default_rng((optimizer.seed or 0, epoch)), objective.n_total, memory.get("state")
    orders = [np.array_split(rng.permutation(term.data.n_sequences), ROUNDS)[turn] for term in objective.terms]
    terms = [term._replace(data=term.data.take(order)) for term, order in zip(objective.terms, orders, strict=True)]
    part = objective.on(terms).under(regularizer)
    seen = (epoch + turn / ROUNDS) * n_total
    memory["state"] = state = optimizer.start(theta) if state is None else optimizer.again(state, theta, seen)
    report, exported = optimizer.iterate(part, state), optimizer.export(state)
    share = theta.dtype.type(objective.n_sequences / n_total)
    changes = (share * (weights - theta) for weights in (optimizer.last(state, part), exported))
    return report.loss, *(_own(change, memory) for change in changes)
