"""Shared parts of penalties: their settings are strengths, and most are elastic nets, sums over single weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Floats, RowBlock, Strengths

Net = TypeVar("Net", bound="WeightByWeight")


@dataclass(frozen=True)
class Penalty:
    """A penalty whose settings are strengths, each 0 or more."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not (strength := getattr(self, field.name)) >= 0:
                name = type(self).__name__
                raise ConfigError(f"{name}: {field.name} must be 0 or more, but {strength} was given.")


class WeightByWeight(Penalty, ABC):
    """The elastic net ``l1 ||w||_1 + l2/2 ||w||^2`` with the `strengths` of a derived class."""

    @property
    @abstractmethod
    def strengths(self) -> Strengths:
        """Strengths of the L1 norm and of the squared norm."""

    @property
    def smooth(self) -> bool:
        return self.strengths.l1 == 0

    def over(self: Net, blocks: Sequence[RowBlock]) -> Net:
        return self

    def value(self, weights: Floats) -> float:
        l1, l2 = self.strengths
        squared = l2 / 2 * float(kernels.vectors.dot(weights, weights)) if l2 else 0.0
        return squared + (l1 * float(kernels.vectors.absolute_sum(weights)) if l1 else 0.0)

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        if l2 := self.strengths.l2:
            kernels.vectors.add_scaled(grad, l2, weights, grad)

    def prox(self, weights: Floats, step: float) -> None:
        if l1 := self.strengths.l1:
            weights -= np.clip(weights, -step * l1, step * l1)
