"""1 - F1 of a text's spans, which is not a sum over its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...prf import f1_of
from ...schemes import OUTSIDE, decode_lenient
from ...types import CostFunction, Evidence


@dataclass(frozen=True)
class F1:
    """``1 - F1`` of predicted spans against gold ones (registered as ``spacy_crfseq.F1.v1``).

    A span is correct if its type and both ends are.  Tokens with an unknown gold label count as outside all spans, in
    both gold and prediction.  Without gold spans, predicting none costs 0 and predicting any costs 1.
    RAISES ConfigError: If the component does not predict spans.
    """

    def check(self, labels: Sequence[str], scheme: str) -> None:
        if scheme == "plain":
            raise ConfigError("F1: a tagger predicts no spans. Use Hamming, or train a chunker or entity recognizer.")

    def __call__(self, evidence: Evidence) -> CostFunction | None:
        unknown = [t for t, gold in enumerate(evidence.gold) if gold is None]
        if len(unknown) == len(evidence.gold):
            return None
        wanted = set(decode_lenient([gold or OUTSIDE for gold in evidence.gold]))

        def cost(tags: Sequence[str]) -> float:
            known = list(tags)
            for t in unknown:
                known[t] = OUTSIDE
            return 1 - f1_of(set(decode_lenient(known)), wanted)

        return cost
