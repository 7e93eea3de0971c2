"""Losses that are functions of expected labels, added up over the tokens of a whole data set: distances between wanted
and expected shares of labels.

Their gradient with respect to the scores is a covariance: that of the counts with the sum over tokens of the derivative
with respect to the expected count of the token's label (see `kernels.covariances`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError, suggest
from ..schemes import split_tag
from ..types import AddGradient, Batch, Bools, Floats, Ints, Offsets, Scores
from ._sums import add_covariances, add_up

Values = NDArray[np.float64]
ROUNDING = 0.01
"""How far a sum of shares may be from 1 because they were rounded; they are scaled then."""
LEAST = 1e-30
"""Share at which the divergence ends, so that it stays finite where constraints forbid a wanted label everywhere."""
Own = TypeVar("Own", bound="ExpectedLabels")


class ExpectedLabels:
    """Implements `types.CorpusLoss`: a function of totals [R, L], the expected labels of tokens of R kinds.

    Kind 0 is that of tokens without a part in the loss.  Derived classes define `kinds`, `n_kinds` and `value_at`, and
    may have a `temperature`, by which all scores are divided.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"value_and_grad", "unlabelled"})
    temperature: float = 1.0

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

    def at(self, totals: Values, weight: float) -> tuple[float, AddGradient]:
        """Return `weight` times the loss at these totals, and a function that adds its gradient."""
        value, slope = self.value_at(totals)
        return weight * value, partial(self.add_gradient, weight * slope)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        value, slope = self.at(self.totals(scores, batch), 1.0)
        slope(scores, batch, grad)
        return value

    def add_gradient(self, slope: Values, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Add the gradient of the loss, given its derivatives [R, L] with respect to the totals; return 0."""
        kinds, own = self.kinds(batch), self._annealed(scores)
        table: Floats = np.ascontiguousarray(slope, scores.emissions.dtype)
        target = grad if own is scores else grad.zeros_like()
        add_covariances(own, _with_part(batch, kinds), kinds, table, target)
        if target is not grad:
            for array, added in zip(grad, target, strict=True):
                array += added / array.dtype.type(self.temperature)
        return 0.0

    def _annealed(self, scores: Scores) -> Scores:
        if self.temperature == 1:
            return scores
        return Scores(*(array / array.dtype.type(self.temperature) for array in scores))

    def _copy(self: Own, **attributes: object) -> Own:
        other = copy(self)
        for name, value in attributes.items():
            object.__setattr__(other, name, value)  # a frozen dataclass
        return other


def _with_part(batch: Batch, kinds: Ints) -> Batch:
    """Return the batch with a weight of zero for sequences without a part in the loss."""
    ends: Offsets = np.concatenate([[0], np.cumsum(kinds > 0)])[batch.offsets]
    return batch._replace(weights=np.where(np.diff(ends) > 0, batch.weights, 0.0))


def tags_of(names: Sequence[str], labels: Sequence[str], scheme: str | None, where: str) -> Bools:
    """Return which of the tags [L] each name stands for, [names, L]: a tag, or a label of a scheme for all its tags.

    RAISES ConfigError: If a name is no label, or two names share a tag.
    """
    found = np.zeros((len(names), len(labels)), np.bool_)
    types = [split_tag(tag)[1] if scheme not in (None, "plain") else "" for tag in labels]
    for row, name in zip(found, names, strict=True):
        row[:] = [tag == name for tag in labels]
        if not row.any():
            row[:] = [type_ == name != "" for type_ in types]
        if not row.any():
            raise ConfigError(
                f"{where}: the component has no label {name!r}. {suggest(name, {*types, *labels} - {''})}"
            )
    shared = np.flatnonzero(found.sum(0) > 1)
    if len(shared):
        both = [name for name, row in zip(names, found, strict=True) if row[shared[0]]]
        raise ConfigError(
            f"{where}: {' and '.join(map(repr, both))} both contain {labels[shared[0]]!r}. List one of them."
        )
    return found


def kl_divergence(wanted: Values, tags: Bools, totals: Values) -> tuple[float, Values]:
    """Return ``sum_g wanted_g log(wanted_g / p_g)`` and its derivatives with respect to the totals [L].

    wanted [G]: Shares of groups of tags, given by tags [G, L]; all other tags make up one more group with the rest.
    totals [L]: Expected numbers of tags; without a token, the distance is zero.
    """
    n_tokens = totals.sum()
    slope = np.zeros_like(totals)
    if n_tokens <= 0:
        return 0.0, slope
    rest = ~tags.any(0)
    wanted, tags = np.append(wanted, max(0.0, 1 - wanted.sum()) if rest.any() else 0.0), np.vstack([tags, rest])
    wanted = wanted / wanted.sum()
    expected, listed = tags @ totals / n_tokens, wanted > 0
    value = float(wanted[listed] @ np.log(wanted[listed] / np.maximum(expected[listed], LEAST)))
    shares = np.divide(wanted, expected, out=np.zeros_like(wanted), where=expected > LEAST)
    return value, -(shares @ tags) / n_tokens


def squared_distance(low: Values, high: Values, tags: Bools, totals: Values) -> tuple[float, Values]:
    """Return the sum of squared distances of expected shares from intervals, and its derivatives; see `kl_divergence`.

    low, high [G]: Bounds of the shares of groups of tags; other tags have no wanted share.
    """
    n_tokens = totals.sum()
    if n_tokens <= 0:
        return 0.0, np.zeros_like(totals)
    expected = tags @ totals / n_tokens
    excess = np.maximum(expected - high, 0) - np.maximum(low - expected, 0)
    return float(excess @ excess), 2 * (excess @ tags) / n_tokens
