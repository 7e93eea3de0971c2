"""Expectation regularization: ``KL(p~ || p_theta)`` of known and expected shares of labels in texts without labels.

Mann & McCallum (2007), "Simple, robust, scalable semi-supervised learning via expectation regularization"; Sokolovska
(2010), eq. 4.7.  Here p_theta(y) is the mean of P(y_t = y | x) over all tokens, each with the weight of its sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Batch, Bools, Ints
from ._expected import ROUNDING, ExpectedLabels, Values, kl_divergence, tags_of

WHERE = "spacy_crfseq.Expectation.v1: proportions"


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
        tags = tags_of(list(self.proportions), labels, scheme, WHERE)
        total = sum(self.proportions.values())
        if tags.any(0).all() and total < 1 - ROUNDING:
            raise ConfigError(f"{WHERE} list all labels, so they must add up to 1, but they add up to {total:g}.")
        return self._copy(_tags=tags)

    def read(self, docs: Sequence[Any]) -> NDArray[Any]:
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
