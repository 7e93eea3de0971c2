"""Losses that are functions of expected labels, added up over the tokens of a whole data set.

Their gradient with respect to the scores is a covariance: that of the counts with the sum over tokens of the derivative
with respect to the expected count of the token's label (see `kernels.covariances`).
"""

from __future__ import annotations

from copy import copy
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Batch, Floats, Ints, Loss, Offsets, Scores
from ._sums import add_covariances, add_up

Values = NDArray[np.float64]
Own = TypeVar("Own", bound="ExpectedLabels")


class ExpectedLabels:
    """Implements `types.CorpusLoss`: a function of totals [R, L], the expected labels of tokens of R kinds.

    Kind 0 is that of tokens without a part in the loss.  Derived classes define `kinds`, `n_kinds` and `value_at`.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"value_and_grad", "unlabelled"})

    @property
    def annealing(self) -> float:
        """Divisor of all scores."""
        return 1.0

    @property
    def n_kinds(self) -> int:
        """R."""
        raise NotImplementedError

    def kinds(self, batch: Batch) -> Ints:
        """Return the kind of each token [T]."""
        raise NotImplementedError

    def value_at(self, totals: Values) -> tuple[float, Values]:
        """Return the loss at totals [R, L], and its derivatives."""
        raise NotImplementedError

    def totals(self, scores: Scores, batch: Batch) -> Values:
        """Return the expected labels of the tokens of each kind [R, L]."""
        kinds = self.kinds(batch)
        out = np.zeros((self.n_kinds, scores.emissions.shape[1]))
        scores, batch = self._annealed(scores), _with_part(batch, kinds)
        kernel, rest = kernels.covariances.totals, kernels.lattice.totals
        add_up(
            lambda weights, order, left: kernel(scores, batch.offsets, kinds, weights, out, order, left),
            lambda weights: rest(scores, batch.offsets, kinds, weights, out),
            scores, batch,
        )  # fmt: skip
        return out

    def at(self, totals: Values, weight: float) -> tuple[float, Loss]:
        """Return `weight` times the loss at these totals, and a loss with its gradient."""
        value, slope = self.value_at(totals)
        return weight * value, _Slope(self, weight * slope)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        value, slope = self.at(self.totals(scores, batch), 1.0)
        slope(scores, batch, grad)
        return value

    def add_gradient(self, slope: Values, scores: Scores, batch: Batch, grad: Scores) -> None:
        """Add the gradient of the loss, given its derivatives [R, L] with respect to the totals."""
        kinds, own = self.kinds(batch), self._annealed(scores)
        table: Floats = np.ascontiguousarray(slope, scores.emissions.dtype)
        target = grad if own is scores else grad.zeros_like()
        add_covariances(own, _with_part(batch, kinds), kinds, table, target)
        if target is not grad:
            for array, added in zip(grad, target, strict=True):
                array += added / array.dtype.type(self.annealing)

    def _annealed(self, scores: Scores) -> Scores:
        if self.annealing == 1:
            return scores
        return Scores(*(array / array.dtype.type(self.annealing) for array in scores))

    def _copy(self: Own, **attributes: object) -> Own:
        other = copy(self)
        for name, value in attributes.items():
            object.__setattr__(other, name, value)  # a frozen dataclass
        return other


class _Slope(NamedTuple):
    """A loss with the gradient of a function of expected labels; its value is of no use."""

    loss: ExpectedLabels
    slope: Values

    @property
    def provides(self) -> frozenset[str]:
        return self.loss.provides

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        self.loss.add_gradient(self.slope, scores, batch, grad)
        return 0.0


def _with_part(batch: Batch, kinds: Ints) -> Batch:
    """Return the batch with a weight of zero for sequences without a part in the loss."""
    ends: Offsets = np.concatenate([[0], np.cumsum(kinds > 0)])[batch.offsets]
    return batch._replace(weights=np.where(np.diff(ends) > 0, batch.weights, 0.0))
