"""The cost of tags for the entity recognizer that reads them: its errors, and 1 - F1.

A downstream component judges the tagger, as in Hall, McDonald & Petrov (2011),
"Training structured prediction models with extrinsic loss functions", table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...prf import f1_of
from ...types import CostFunction, Evidence


@dataclass(frozen=True)
class EntityAgreement:
    """Errors of a recognizer that reads the tags (registered as ``spacy_crfseq.EntityAgreement.v1``).

    The cost is the number of tokens with a wrong entity tag; entity starts and insides are different tags.  Gold tags
    also have a cost if the recognizer makes errors with them.  The recognizer runs for every judged labelling, which
    takes up to a millisecond each time.

    component (str): The recognizer's name in the pipeline; it must read what the tagger writes, and write doc.ents.
    f1 (bool): Add ``1 - F1`` of the entities.
    RAISES ConfigError: If there is no such component, or the trained component is not a tagger.
    """

    component: str
    f1: bool = False

    def check(self, labels: Sequence[str], scheme: str) -> None:
        if scheme != "plain":
            raise ConfigError("EntityAgreement applies to taggers only. Use F1 or Hamming for spans.")

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        known = [t for t, token in enumerate(evidence.reference) if token.ent_iob]
        if not known:
            return None
        annotated, wanted = evidence.annotated(self.component), evidence.reference
        gold_tags, gold_spans = _tags(wanted), known_spans(wanted, known)

        def cost(tags: Sequence[str]) -> float:
            doc = annotated(tags)
            found = _tags(doc)
            errors = float(sum(found[t] != gold_tags[t] for t in known))
            return errors + (1 - f1_of(known_spans(doc, known), gold_spans)) if self.f1 else errors

        return cost


def _tags(doc: Any) -> list[tuple[bool, str]]:
    # whether an entity begins at each token, and its type
    return [(token.ent_iob_ == "B" and bool(token.ent_type), token.ent_type_) for token in doc]


def known_spans(doc: Any, known: Sequence[int]) -> set[tuple[int, int, str]]:
    """Return start, end and type of the entities of a Doc that have only tokens of `known`."""
    tokens = frozenset(known)
    spans = ((entity.start, entity.end, entity.label_) for entity in doc.ents)
    return {span for span in spans if tokens.issuperset(range(*span[:2]))}
