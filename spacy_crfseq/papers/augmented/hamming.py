"""The number of wrong labels among the tokens with a known gold label.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions", use it
to learn from partially annotated sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...errors import ConfigError, suggest
from ...types import CostFunction, Evidence


def check_labels(cost: str, wanted: Iterable[str], labels: Sequence[str]) -> None:
    """Raise ConfigError unless the component has all labels that a cost requires."""
    for label in wanted:
        if label not in labels:
            raise ConfigError(f"{cost}: labels: {label!r} is no label of the component. {suggest(label, labels)}")


@dataclass(frozen=True)
class Hamming:
    """Number of wrong labels on a subset of the tokens (registered as ``spacy_crfseq.Hamming.v1``).

    labels (list[str]): Count only tokens with these gold labels, as the component names them ("B-PER"); empty for all.
    words (list[str]): Count only these words, ignoring case; empty for all.
    RAISES ConfigError: If the component has no such label.
    """

    labels: list[str] | None = None
    words: list[str] | None = None

    def check(self, labels: Sequence[str], scheme: str) -> None:
        check_labels("Hamming", self.labels or (), labels)

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        words = {word.lower() for word in self.words or ()}
        counted = [
            (t, gold)
            for t, (word, gold) in enumerate(zip(evidence.words, evidence.gold, strict=True))
            if gold is not None and (not self.labels or gold in self.labels) and (not words or word.lower() in words)
        ]
        if not counted:
            return None
        return lambda tags: float(sum(tags[t] != gold for t, gold in counted))
