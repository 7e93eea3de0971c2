"""The objective of a training set that lies in shards on several machines: its passes are sums over the shards.

Each iteration sends the parameters to all shards and adds up what comes back.  Losses, penalties and batch optimizers
are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..potentials.protocol import Potential
from ..types import CorpusLoss, Floats, Regularizer
from .objective import Objective
from .terms import Term

Work: TypeAlias = Callable[[Objective, Floats, dict[str, Any]], tuple[Any, ...]]
"""Computes numbers and arrays from the objective of a shard, parameters, and what the shard remembers between calls.

The objective has no penalty.  Parameters are those of the shard's own features; arrays of their shape are zero for all
others in the sum.  A `Work` is sent to other processes, so it is a function of a module, or a `partial` of one.
"""


class Shards(Protocol):
    """The parts of a training set."""

    def sum(self, work: Work, theta: Floats) -> tuple[Any, ...]:
        """Return the sum of the results of `work` at theta [D] over all shards, element by element."""


class Distributed(Objective):
    """Implements `types.Objective` over shards.

    terms (Sequence[Term]): Names, losses and weights of all terms; their data are in the shards.
    n_total (int): Number of sequences of all shards.
    """

    def __init__(
        self,
        shards: Shards,
        potential: Potential,
        terms: Sequence[Term],
        regularizer: Regularizer,
        *,
        n_total: int,
        n_threads: int = 1,
    ) -> None:
        super().__init__(potential, (), regularizer, n_total=n_total, n_threads=n_threads)
        self.shards, self.terms = shards, list(terms)

    @property
    def n_sequences(self) -> int:
        """Number of sequences in all shards."""
        return self._n_total

    @property
    def approachable(self) -> bool:
        """False: the order of AdaGrad's steps would depend on the shards."""
        return False

    def losses(self, theta: Floats, grad: Floats | None, totals: Any = None) -> float:
        """Return the sum of all losses at theta [D], without the penalty, and add its gradient to `grad` [D]."""
        names = [term.name for term in self.terms if isinstance(term.loss, CorpusLoss)]
        found = self.shards.sum(partial(_totals, names), theta) if names else ()
        sums = {name: total[0] for name, total in zip(names, found, strict=True)}
        value, gradient = self.shards.sum(partial(_losses, sums, grad is not None), theta)
        if grad is not None:
            grad += gradient
        for term in self.terms:
            if isinstance(term.loss, CorpusLoss):
                value += term.loss.at(sums[term.name], term.weight)[0]
        return float(value)


def _totals(names: Sequence[str], objective: Objective, theta: Floats, memory: dict[str, Any]) -> tuple[Any, ...]:
    found = objective.totals(theta)
    return tuple(np.asarray(found.get(name, 0.0))[None] for name in names)  # in a shape that no parameters have


def _losses(
    sums: dict[str, Any], training: bool, objective: Objective, theta: Floats, memory: dict[str, Any]
) -> tuple[float, Any]:
    grad = np.zeros_like(theta) if training else None
    return objective.losses(theta, grad, sums), 0.0 if grad is None else grad
