"""Softmax-margin: ``sum_n log sum_y exp(score(y, x_n) + cost(y, y_n)) - score(y_n, x_n)``, the cost a sum over tokens.

Gimpel & Smith (2010), "Softmax-margin CRFs", eq. 6: the log-loss of a model whose wrong labels score more by their
cost, which is the same for all of them or depends on the correct and on the wrong label.  It is differentiable and
convex, and an upper bound of hinge and log-loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..schemes import named_tags
from ..types import MISSING, Batch, LossProperty, Scores
from .sequential_log import SequentialLog

NAME = "spacy_crfseq.SoftmaxMargin.v1"


class _Margin:
    """The log-loss with costs; derived classes have `costs`."""

    provides: ClassVar[frozenset[LossProperty]] = frozenset(
        {"value_and_grad", "minibatches", "candidates", "softmax_margin"}
    )

    def costs(self, n_labels: int) -> NDArray[np.float64]:
        """Return the cost of each label in place of the correct one [L, L], the correct one on axis 0."""
        raise NotImplementedError

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        raised, costs = scores.emissions.copy(), self.costs(scores.emissions.shape[1]).astype(scores.emissions.dtype)
        known = np.flatnonzero(batch.gold >= 0)
        raised[known] += costs[batch.gold[known]]
        partly = np.flatnonzero(batch.gold < MISSING)
        if len(partly):
            of_sets = [
                np.where(members[:, None], costs, costs.max()).min(0) * ~members for members in batch.candidates.sets
            ]
            raised[partly] += np.array(of_sets)[MISSING - 1 - batch.gold[partly]]
        return SequentialLog()(scores._replace(emissions=raised), batch, grad)


@dataclass(frozen=True, eq=False)
class BoundMargin(_Margin):
    """The loss of a component with these costs [L, L]."""

    table: NDArray[np.float64]

    def costs(self, n_labels: int) -> NDArray[np.float64]:
        return self.table


@dataclass(frozen=True)
class SoftmaxMargin(_Margin):
    """Log-loss with a margin for each wrong label (registered as ``spacy_crfseq.SoftmaxMargin.v1``).

    cost (float): Added to the score of each wrong label; 0 is the log-loss.
    false_negatives (dict | None): Class weights: costs of wrong labels where one of these is correct, such as
        {"IBAN": 8}.  A label of a scheme stands for all its tags; a tag, such as "O", can be listed instead.
    false_positives (dict | None): Costs of these labels where another is correct.  Where both settings name a cost, it
        is the higher one; where neither does, it is `cost`.
    If a gold label is missing, no label is wrong there, and the likelihood is that of all labellings that agree with
    the known labels.  With a candidate set, the labels outside the set are wrong, at the lowest cost for one of the
    set.
    RAISES ConfigError: If a cost is negative or not finite.
    """

    cost: float = 1.0
    false_negatives: Mapping[str, float] | None = None
    false_positives: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for setting in ("false_negatives", "false_positives"):
            table = getattr(self, setting)
            if table is None:
                continue
            if not isinstance(table, Mapping):
                raise ConfigError(
                    f'{NAME}: {setting} must map labels to costs, such as {{"PER": 5}}, but is {table!r}.'
                )
            for label, cost in table.items():
                _check(f"the cost of {label!r} in {setting}", cost)
        _check("cost", self.cost)

    def bind(self, labels: Sequence[str], scheme: str | None) -> BoundMargin:
        sides = np.full((2, len(labels)), np.nan)
        for side, setting in zip(sides, ("false_negatives", "false_positives"), strict=True):
            table: Mapping[str, float] = getattr(self, setting) or {}
            chosen = named_tags([*table], labels, scheme, f"{NAME}: {setting}")
            for cost, tags in zip(table.values(), chosen, strict=True):
                side[tags] = cost
        named = np.fmax(sides[0][:, None], sides[1])
        costs = np.where(np.isnan(named), self.cost, named)
        np.fill_diagonal(costs, 0)
        return BoundMargin(costs)

    def costs(self, n_labels: int) -> NDArray[np.float64]:
        if self.false_negatives or self.false_positives:
            raise ConfigError(f"{NAME} needs the names of labels for its costs: call bind(labels, scheme) first.")
        return self.cost * (1 - np.eye(n_labels))


def _check(name: str, cost: Any) -> None:
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < np.inf:
        raise ConfigError(f"{NAME}: {name} must be a number, 0 or more, but {cost!r} was given.")
