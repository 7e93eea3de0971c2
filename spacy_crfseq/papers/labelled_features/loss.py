"""Generalized expectation: the shares of labels among the tokens that have a feature, such as "the word *university* is
an institution 80 % of the time".

Mann & McCallum (2008), "Generalized expectation criteria for semi-supervised learning of conditional random fields";
Druck, Mann & McCallum (2009) for squared distances.  Each feature adds the distance between the wanted shares and the
mean of P(y_t = y | x) over its tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, FormatError, first_of
from ...schemes import named_tags
from ...threads import cached_property
from ...types import Batch, Bools, Ints, Scores
from .expectation import ROUNDING, ExpectedLabels, Values, kl_divergence
from .feature_file import FeatureSets, LabelledFeature, read_features

NAME = "spacy_crfseq.GeneralizedExpectation.v1"
DISTANCES = ("KL", "L2")
SHOWN = 10
"""Features that a warning names."""
logger = logging.getLogger("spacy_crfseq")


class _Wanted(NamedTuple):
    """The bounds of the shares of groups of tags [G], which tags [G, L] are."""

    low: Values
    high: Values
    tags: Bools


class _Knowledge:
    """The labelled features of a file, read when they are first needed; all copies of a loss share them."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self.warned = False

    @cached_property
    def features(self) -> list[LabelledFeature]:
        return read_features(self._path)

    @cached_property
    def sets(self) -> FeatureSets:
        return FeatureSets([feature.name for feature in self.features])


@dataclass(frozen=True)
class GeneralizedExpectation(ExpectedLabels):
    """Labelled features (registered as ``spacy_crfseq.GeneralizedExpectation.v1``).

    It ignores gold labels, and does not grow with the size of a text: try weights from 1 to the number of labelled
    sequences.

    path (Path | str): File of labelled features, one a line: a word or TEMPLATE=value, a tab, and LABEL=share or
        LABEL=lowest..highest, separated by spaces.  Lines that begin with "# " are comments.  Mallet's constraint files
        are read, too.  A label of a scheme is the sum of its tags; the labels that are not listed share the rest.
    distance (str): "KL" for the Kullback-Leibler divergence from the wanted to the expected shares; "L2" for the sum of
        squared distances of the listed shares, in a range from its nearer end.
    RAISES ConfigError: For any other distance.
    """

    path: Path | str
    distance: str = "KL"

    def __post_init__(self) -> None:
        if self.distance not in DISTANCES:
            raise ConfigError(f"{NAME}: distance must be one of {', '.join(DISTANCES)}, but it is {self.distance!r}.")
        object.__setattr__(self, "_knowledge", _Knowledge(self.path))

    @property
    def _known(self) -> _Knowledge:
        knowledge: _Knowledge = vars(self)["_knowledge"]
        return knowledge

    def bind(self, labels: Sequence[str], scheme: str | None) -> GeneralizedExpectation:
        return self._copy(_wanted=[self._resolve(feature, labels, scheme) for feature in self._known.features])

    def _resolve(self, feature: LabelledFeature, labels: Sequence[str], scheme: str | None) -> _Wanted:
        bounds = np.array([*feature.shares.values()], np.float64)
        tags = named_tags([*feature.shares], labels, scheme, f"{self.path}:{feature.line}")
        if self.distance == "KL":
            if (bounds[:, 0] != bounds[:, 1]).any():
                raise FormatError(self.path, feature.line, f'ranges need distance = "L2" in {NAME}.')
            total = bounds[:, 0].sum()
            if tags.any(0).all() and total < 1 - ROUNDING:
                raise FormatError(self.path, feature.line, f"the shares of all labels add up to {total:g}, not to 1.")
        return _Wanted(bounds[:, 0], bounds[:, 1], tags)

    def read(self, docs: Sequence[Any], gold: Sequence[Any]) -> NDArray[Any]:
        return self._known.sets.numbers_of(docs)

    @property
    def n_kinds(self) -> int:
        return len(self._known.sets.sets)

    def kinds(self, batch: Batch) -> Ints:
        if batch.inputs is None:
            raise ConfigError(
                f"{NAME} needs to know the features of tokens: batch.inputs must be what read(docs) returned."
            )
        return batch.inputs

    def totals(self, scores: Scores, batch: Batch) -> Values:
        """Return the expected numbers of labels at the tokens with each feature [features, L]."""
        counts: Values = self._has.T @ super().totals(scores, batch)
        return counts

    def add_gradient(self, slope: Values, scores: Scores, batch: Batch, grad: Scores) -> float:
        """As `ExpectedLabels.add_gradient`, with the derivatives with respect to the totals of features."""
        return super().add_gradient(self._has @ slope, scores, batch, grad)

    @property
    def _has(self) -> Values:
        """Which features each kind of token has [kinds, features]; kinds are numbered as texts are read."""
        has = np.zeros((self.n_kinds, len(self._known.features)))
        for row, features in zip(has, self._known.sets.sets, strict=True):
            row[list(features)] = 1
        return has

    def value_at(self, totals: Values) -> tuple[float, Values]:
        wanted: list[_Wanted] | None = vars(self).get("_wanted")
        if wanted is None:
            raise ConfigError(f"{NAME} needs the names of labels: call bind(labels, scheme) first.")
        self._warn(totals.sum(1) <= 0)
        value, slope = 0.0, np.zeros_like(totals)
        for number, (low, high, tags) in enumerate(wanted):
            expected = totals[number]
            added, slope[number] = (
                kl_divergence(low, tags, expected)
                if self.distance == "KL"
                else squared_distance(low, high, tags, expected)
            )
            value += added
        return value, slope

    def _warn(self, absent: Bools) -> None:
        if absent.any() and not self._known.warned:
            self._known.warned = True
            names = [self._known.features[number].name for number in np.flatnonzero(absent)]
            logger.warning(
                "%s: %d of %d labelled features never occur in the text without labels: %s. Check their spelling.",
                self.path, len(names), len(absent), ", ".join(first_of(names, SHOWN)),
            )  # fmt: skip


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
