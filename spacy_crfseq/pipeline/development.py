"""Scores of parameters on development data, without writing a prediction to any Doc."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..features.encoder import Encoded
from ..model import LinearChainCRF
from ..schemes import TagTable, span_f1
from ..types import MISSING, Bools, Decoder, Floats
from .labels import LabelSet


def make_evaluator(
    crf: LinearChainCRF,
    encoded: Encoded,
    tags: Sequence[str | None],
    model_labels: LabelSet,
    decoder: Decoder,
    allowed: Bools | None,
) -> Callable[[Floats], float]:
    """Return a function from parameters [D] to the F1 of spans, or without a scheme to the accuracy of tags.

    encoded (Encoded): The text, T tokens.
    tags (Sequence[str | None]): [T] gold tags, None where they are not known; such tokens do not count.
    allowed (Bools | None): [T, L] which tags tokens may have; None for all.
    """
    unseen = sorted({tag for tag in tags if tag is not None} - set(crf.labels))
    numbers: dict[str | None, int] = {tag: number for number, tag in enumerate([*crf.labels, *unseen])}
    gold = np.array([numbers.get(tag, MISSING) for tag in tags], np.int32)
    known = gold >= 0
    scheme, constraints = model_labels.annotation.scheme, model_labels.constraints
    table = None if scheme is None else TagTable([*crf.labels, *unseen], scheme)

    def evaluate(theta: Floats) -> float:
        trial = LinearChainCRF(crf.labels, crf.layout, theta, crf.keys, crf.dictionary)
        labels = trial.posterior(encoded, constraints, allowed).decode(decoder)
        if table is None:
            return float((labels == gold)[known].mean()) if known.any() else 0.0
        return span_f1(np.where(known, labels, MISSING), gold, encoded.offsets, table).f1

    return evaluate
