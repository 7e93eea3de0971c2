"""Costs of wrong labels, which losses with a margin add to their scores: one for all, or by the names of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..schemes import named_tags
from ..types import MISSING, Batch, Scores

Own = TypeVar("Own", bound="Costs")
NAMED = ("false_negatives", "false_positives")
"""The settings that name labels."""


@dataclass(frozen=True)
class Costs:
    """Implements `types.NamedLoss`; derived classes say what they do with the raised scores.

    cost (float): Of any label in place of the correct one.
    false_negatives (Mapping[str, float] | None): Of labels in place of these.
    false_positives (Mapping[str, float] | None): Of these labels in place of others.  Where both settings name a cost,
        it is the higher one; where neither does, it is `cost`.
    RAISES ConfigError: If a cost is negative or not finite.
    """

    cost: float = 1.0
    false_negatives: Mapping[str, float] | None = None
    false_positives: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        self._check("cost", self.cost)
        for setting in NAMED:
            table = getattr(self, setting)
            if table is None:
                continue
            if not isinstance(table, Mapping):
                raise ConfigError(
                    f'{self._name}: {setting} must map labels to costs, such as {{"PER": 5}}, but is {table!r}.'
                )
            for label, cost in table.items():
                self._check(f"the cost of {label!r} in {setting}", cost)

    def bind(self: Own, labels: Sequence[str], scheme: str | None) -> Own:
        """Return the loss for these tags [L], see `types.NamedLoss`."""
        if not self.has_names:
            return self
        sides = np.full((2, len(labels)), np.nan)
        for side, setting in zip(sides, NAMED, strict=True):
            table: Mapping[str, float] = getattr(self, setting) or {}
            chosen = named_tags([*table], labels, scheme, f"{self._name}: {setting}")
            for cost, tags in zip(table.values(), chosen, strict=True):
                side[tags] = cost
        named = np.fmax(sides[0][:, None], sides[1])
        costs = np.where(np.isnan(named), self.cost, named)
        np.fill_diagonal(costs, 0)
        bound = copy(self)
        object.__setattr__(bound, "_table", costs)
        return bound

    @property
    def has_names(self) -> bool:
        """Whether costs depend on the names of labels."""
        return bool(self.false_negatives or self.false_positives)

    def costs(self, n_labels: int) -> NDArray[np.float64]:
        """Return the cost of each label in place of the correct one [L, L], the correct one on axis 0.

        RAISES ConfigError: If costs depend on names, and the loss is not bound to any.
        """
        if not self.has_names:
            return self.cost * (1 - np.eye(n_labels))
        table: NDArray[np.float64] | None = vars(self).get("_table")
        if table is None:
            raise ConfigError(f"{self._name} needs the names of labels for its costs: call bind(labels, scheme) first.")
        return table

    def raised(self, scores: Scores, batch: Batch) -> Scores:
        """Return the scores with the costs of wrong labels; no label is wrong where the gold label is missing.

        With a candidate set, the labels outside the set are wrong, at the lowest cost for one of the set.
        """
        emissions, costs = scores.emissions.copy(), self.costs(len(scores.start)).astype(scores.start.dtype)
        labelled = np.flatnonzero(batch.gold >= 0)
        emissions[labelled] += costs[batch.gold[labelled]]
        partly = np.flatnonzero(batch.gold < MISSING)
        if len(partly):
            of_sets = [
                np.where(members[:, None], costs, costs.max()).min(0) * ~members for members in batch.candidates.sets
            ]
            emissions[partly] += np.array(of_sets)[MISSING - 1 - batch.gold[partly]]
        return scores._replace(emissions=emissions)

    @property
    def _name(self) -> str:
        return f"spacy_crfseq.{type(self).__name__}.v1"

    def _check(self, what: str, cost: Any) -> None:
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < np.inf:
            raise ConfigError(f"{self._name}: {what} must be a number, 0 or more, but {cost!r} was given.")
