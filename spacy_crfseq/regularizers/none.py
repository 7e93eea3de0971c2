"""No penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..types import NO_PENALTY, Strengths
from ._shared import WeightByWeight


@dataclass(frozen=True)
class NoRegularizer(WeightByWeight):
    """The zero function (registered as ``spacy_crfseq.NoRegularizer.v1``)."""

    strengths: ClassVar[Strengths] = NO_PENALTY
