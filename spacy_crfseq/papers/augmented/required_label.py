"""One given token must have one of some labels, and nothing else is known: the main verb of a question is a verb.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions", use it
to adapt a tagger to questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...types import CostFunction, Evidence
from .hamming import check_labels


@dataclass(frozen=True)
class RequiredLabel:
    """1 unless the given token has one of the labels (registered as ``spacy_crfseq.RequiredLabel.v1``).

    labels (list[str]): The labels it may have, as the component names them.
    dep (str): The token is the first with this dependency in the gold Doc, ignoring case; for a main verb, the root.
        If its gold label is known and not among `labels`, for example if the root is a noun, the text is ignored.
    RAISES ConfigError: If there are no labels, or the component lacks one, or there is no dependency.
    """

    labels: list[str]
    dep: str = "root"

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError(
                'RequiredLabel: labels is empty; list the labels that the token may have, such as ["VB", "VBZ"].'
            )
        if not self.dep:
            raise ConfigError('RequiredLabel: dep is empty; set the dependency of the token, such as dep = "root".')

    def check(self, labels: Sequence[str], scheme: str) -> None:
        check_labels("RequiredLabel", self.labels, labels)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        wanted, labels = self.dep.lower(), frozenset(self.labels)
        place = next((t for t, token in enumerate(evidence.reference) if token.dep_.lower() == wanted), None)
        if place is None or evidence.gold[place] not in {None, *labels}:
            return None
        return lambda tags: float(tags[place] not in labels)
