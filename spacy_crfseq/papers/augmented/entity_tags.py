"""Tokens of entities must have one of some tags, such as that of proper nouns; entities are known, tags are not.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions", section 3.3: the
first loss is this number of tokens, the second one adds a term for the F1 of the recognizer that reads the tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...prf import f1_of
from ...types import CostFunction, Evidence
from .entity_agreement import known_spans
from .hamming import check_labels


@dataclass(frozen=True)
class EntityTags:
    """Number of tokens in entities with none of the tags (registered as ``spacy_crfseq.EntityTags.v1``).

    Entities are those of the gold Doc.  Tokens whose gold tag is known and not among `labels` are left out, such as
    "of" in "Bank of England".

    labels (list[str]): The tags that tokens of entities may have, such as ["NNP", "NNPS"].
    component (str): Add ``1 - F1`` of the entities that this recognizer finds with the tags; see `EntityAgreement`.
        Empty for the number alone, which takes no recognizer and much less time.
    RAISES ConfigError: If there are no labels, or the component lacks one or is not a tagger.
    """

    labels: list[str]
    component: str = ""

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError('EntityTags: labels is empty; list the tags of tokens in entities, such as ["NNP"].')

    def check(self, labels: Sequence[str], scheme: str) -> None:
        if scheme != "plain":
            raise ConfigError("EntityTags applies to taggers only. Use F1 or Hamming for spans.")
        check_labels("EntityTags", self.labels, labels)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        wanted, allowed, reference = frozenset(self.labels), {None, *self.labels}, evidence.reference
        counted = [t for t, token in enumerate(reference) if token.ent_type and evidence.gold[t] in allowed]
        known = [t for t, token in enumerate(reference) if token.ent_iob]
        if not counted and not (self.component and known):
            return None
        annotated = evidence.annotated(self.component) if self.component else None
        spans = known_spans(reference, known)

        def cost(tags: Sequence[str]) -> float:
            wrong = float(sum(tags[t] not in wanted for t in counted))
            return wrong if annotated is None else wrong + 1 - f1_of(known_spans(annotated(tags), known), spans)

        return cost
