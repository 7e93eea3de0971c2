"""Group lasso: a sum of Euclidean norms, one for each feature, which drops whole features.

Yuan & Lin (2006), eq. 2.1 with K_j the identity times the size of group j::

    rho sum_r sqrt(n_r) ||w_r||_2

where w_r are the n_r weights of feature r for all labels.  Scores that all positions share, such as transitions,
are groups of one weight, whose norm is the absolute value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..types import Floats, Offsets, RowBlock
from ._shared import Penalty


@dataclass(frozen=True)
class GroupLasso(Penalty):
    """rho sum_r sqrt(n_r) ||w_r||_2 over the rows r of weights (registered as ``spacy_crfseq.GroupLasso.v1``).

    A feature's weights are zero for all labels or for none.  Use FISTA to minimise it.  Until `over` sets the rows,
    all weights form one row.

    rho (float): Strength.
    RAISES ConfigError: If rho is negative.
    """

    strengths: ClassVar[None] = None  # it is not an elastic net
    rho: float = 1.0

    @property
    def smooth(self) -> bool:
        return self.rho == 0

    def over(self, blocks: Sequence[RowBlock]) -> GroupLasso:
        # the groups of parameters are consecutive
        begins = (
            block.begin + (block.ptr[:-1] if len(block.ptr) else np.arange(block.n_rows) * block.width)
            for block in blocks
        )
        return _OverRows(self.rho, ptr=np.unique(np.concatenate([*begins, [blocks[-1].end]])))  # without empty groups

    def _begins(self, weights: Floats) -> Offsets:
        """Return where the groups that have weights begin, and the end of the last one."""
        return np.array([0, len(weights)])

    def _groups(self, weights: Floats) -> tuple[Floats, Offsets]:
        """Return sqrt(n_r) ||w_r||_2 of each group that has weights, in float64, and the sizes n_r."""
        ptr = self._begins(weights)
        norms = np.sqrt(np.add.reduceat(np.square(weights, dtype=np.float64), ptr[:-1]))
        return np.sqrt(np.diff(ptr)) * norms, np.diff(ptr)

    def value(self, weights: Floats) -> float:
        return self.rho * float(self._groups(weights)[0].sum())

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Do nothing, because there is no smooth part."""

    def prox(self, weights: Floats, step: float) -> None:
        norms, sizes = self._groups(weights)
        factors = np.maximum(0, 1 - step * self.rho * sizes / np.maximum(norms, 1e-300))
        weights *= np.repeat(factors, sizes).astype(weights.dtype)


@dataclass(frozen=True, kw_only=True)
class _OverRows(GroupLasso):
    """The penalty on parameters whose groups begin at `ptr`."""

    ptr: Offsets

    def __post_init__(self) -> None:
        """Do nothing: the strength was checked."""

    def _begins(self, weights: Floats) -> Offsets:
        return self.ptr
