"""Expectation regularization: ``KL(p~ || p_theta)`` of known and expected shares of labels in texts without labels.

Mann & McCallum (2007), "Simple, robust, scalable semi-supervised learning via expectation regularization"; Sokolovska
(2010), eq. 4.7.  Here p_theta(y) is the mean of P(y_t = y | x) over all tokens, each with the weight of its sequence.

Such losses are functions of expected labels, added up over the tokens of a whole data set.  Their gradient with respect
to the scores is a covariance: that of the counts with the sum over tokens of the derivative with respect to the
expected count of the token's label (see `kernels/covariances.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError
from ...schemes import named_tags
from ...types import AddGradient, Batch, Bools, Floats, Ints, LossProperty, Scores

Values = NDArray[np.float64]
WHERE = "spacy_crfseq.Expectation.v1: proportions"
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

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"value_and_grad", "unlabelled"})
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
        kinds, own = self.kinds(batch), self._annealed(scores)
        weights, zeros = _weights(batch, kinds), own.zeros_like()
        counts = zeros._replace(transitions=zeros.transitions[:0])
        nothing, log_z = np.zeros(0, np.int32), np.empty(len(weights))
        kernels.lattice.log_loss(own, batch.offsets, nothing, weights, counts, log_z=log_z)
        out = np.zeros((self.n_kinds, own.emissions.shape[1]))
        np.add.at(out, kinds, counts.emissions)
        out[0] = 0
        return out

    def at(self, totals: Values, weight: float) -> tuple[float, AddGradient]:
        """Return `weight` times the loss at these totals, and a function that adds its gradient."""
        value, slope = self.value_at(totals)
        return weight * value, partial(self.add_gradient, weight * slope)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        value, slope = self.at(self.totals(scores, batch), 1.0)
        slope(scores, batch, grad)
        return value

    def add_gradient(self, slope: Values, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Add the gradient of the loss, given its derivatives [R, L] with respect to the totals; return 0."""
        kinds, own = self.kinds(batch), self._annealed(scores)
        table: Floats = np.ascontiguousarray(slope, scores.emissions.dtype)
        target = grad if own is scores else grad.zeros_like()
        kernels.chain.expected_sum(own, batch.offsets, kinds, table, _weights(batch, kinds), target)
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


def _weights(batch: Batch, kinds: Ints) -> NDArray[np.float64]:
    """Return the weights of sequences, zero for those without a part in the loss."""
    ends = np.concatenate([[0], np.cumsum(kinds > 0)])[batch.offsets]
    return np.where(np.diff(ends) > 0, batch.weights, 0.0)


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


@dataclass(frozen=True)
class Expectation(ExpectedLabels):
    """Known shares of labels among the tokens (registered as ``spacy_crfseq.Expectation.v1``).

    It ignores gold labels, and does not grow with the size of a text: try weights from 1 to the number of labelled
    sequences.

    proportions (dict): Share of each label among the tokens, such as {"PER": 0.05, "O": 0.8}.  A label of a scheme is
        the sum of its tags; a tag, such as "B-PER", can be listed instead.  The labels that are not listed share the
        rest in any way.
    temperature (float): Compare the shares under P(y|x)^(1/temperature).  Below 1, an uncertain model cannot reach
        them without decisions.
    RAISES ConfigError: If a share is not a number from 0 to 1, or their sum exceeds 1 by more than rounding.
    """

    proportions: Mapping[str, float]
    temperature: float = 1.0

    def __post_init__(self) -> None:
        shares = self.proportions
        if not isinstance(shares, Mapping) or not shares:
            raise ConfigError(f'{WHERE} must map labels to shares, such as {{"PER": 0.05}}, but {shares!r} was given.')
        share: object
        for name, share in shares.items():
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
                raise ConfigError(f"{WHERE}: the share of {name!r} must be a number from 0 to 1, but it is {share!r}.")
        total = sum(shares.values())
        if total > 1 + ROUNDING:
            raise ConfigError(f"{WHERE} add up to {total:g}. They are shares of all tokens and cannot exceed 1.")
        if not self.temperature > 0:
            raise ConfigError(f"spacy_crfseq.Expectation.v1: temperature must be positive, not {self.temperature}.")

    def bind(self, labels: Sequence[str], scheme: str | None) -> Expectation:
        tags = named_tags(list(self.proportions), labels, scheme, WHERE)
        total = sum(self.proportions.values())
        if tags.any(0).all() and total < 1 - ROUNDING:
            raise ConfigError(f"{WHERE} list all labels, so they must add up to 1, but they add up to {total:g}.")
        return self._copy(_tags=tags)

    def read(self, docs: Sequence[Any], gold: Sequence[Any]) -> NDArray[Any]:
        return np.zeros((sum(map(len, docs)), 0), np.int8)  # nothing

    @property
    def n_kinds(self) -> int:
        return 2

    def kinds(self, batch: Batch) -> Ints:
        return np.ones(batch.n_tokens, np.int32)

    def value_at(self, totals: Values) -> tuple[float, Values]:
        tags: Bools | None = vars(self).get("_tags")
        if tags is None:
            raise ConfigError("spacy_crfseq.Expectation.v1 needs the names of labels: call bind(labels, scheme) first.")
        slope = np.zeros_like(totals)
        value, slope[1] = kl_divergence(np.array([*self.proportions.values()], np.float64), tags, totals[1])
        return value, slope
