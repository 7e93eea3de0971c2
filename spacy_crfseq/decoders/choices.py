"""The spans of texts that are new to their model, from which a decoder may choose, and the best F-measure of a choice.

Spans are worth choosing if their probability exceeds a threshold that is half the best F1 (Lipton, Elkan & Naryanaswamy
2014, theorem 1).  Where types are rare or names new, that is far below the usual, so it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Bools, Floats, Ints

LEAST, MOST = 0.01, 0.9999
"""Spans between these probabilities are uncertain: others are hardly ever chosen, or as good as certain."""
KINDS = 4
"""How another span may exclude one: with the same tokens, within it, around it, or across one of its ends."""
USUAL, LOWEST = 0.8, 0.1
"""The F-measure that is expected before any was measured, and the lowest one: noise is worth choosing for less."""
F_STEPS, F_CLOSE = 50, 1e-3
"""Steps to the F-measure at most, and the change of it below which no other is made."""


class Choices(NamedTuple):
    """The C uncertain spans of texts that are new to their model, and counts of all spans.

    probabilities (NDArray): [C]
    right (Bools): [C] whether each is gold.
    ahead (Bools): [C] whether none that it excludes has a higher probability.
    n_gold, n_certain, n_certain_right (int): Numbers of gold spans, of all but certain ones, and of gold ones of these.
    """

    probabilities: NDArray[np.float64]
    right: Bools
    ahead: Bools
    n_gold: int
    n_certain: int
    n_certain_right: int


class JudgedSpans(NamedTuple):
    """The S candidates of a text: all spans that are not improbable, and perhaps some that are.

    spans (Ints): [S, 3] the first token, the one after the last, and the label of the first.
    probabilities (NDArray): [S]
    kept (Bools): [S] whether each is uncertain, and not beside a token of an unknown label.
    choices (Choices): Those that are kept, and counts of others.
    """

    spans: Ints
    probabilities: NDArray[np.float64]
    kept: Bools
    choices: Choices


def candidates_of(posterior: Any, gold: Ints) -> JudgedSpans:
    """Return the candidates of a text that is new to its model, and which of them are right.

    posterior (Posterior): Of its labels.
    gold (Ints): [T] negative where unknown; spans beside such tokens are left out.
    """
    spans, probabilities = posterior.candidates(LEAST)
    labels = np.maximum(gold, 0).astype(np.int32)
    starts, ends = posterior.spans(labels)
    n_unknown = np.append(0, np.cumsum(np.append(gold, 0) < 0))
    judged = n_unknown[np.maximum(starts - 1, 0)] == n_unknown[ends + 1]
    starts, ends = starts[judged], ends[judged]
    right = {*zip(starts.tolist(), ends.tolist(), labels[starts].tolist(), strict=True)}
    is_gold = np.fromiter((span in right for span in map(tuple, spans.tolist())), np.bool_, len(spans))
    sure = n_unknown[np.maximum(spans[:, 0] - 1, 0)] == n_unknown[spans[:, 1] + 1]
    kept, certain = sure & is_uncertain(probabilities), sure & (probabilities >= MOST)
    ahead, among = np.zeros(len(spans), np.bool_), probabilities > LEAST
    ahead[among] = probabilities[among] >= excluded(spans[among], probabilities[among]).max(axis=1, initial=0)
    counts = len(right), int(certain.sum()), int((certain & is_gold).sum())
    return JudgedSpans(spans, probabilities, kept, Choices(probabilities[kept], is_gold[kept], ahead[kept], *counts))


def is_uncertain(probabilities: Floats) -> Bools:
    """Return whether each span is neither improbable nor as good as certain."""
    return (probabilities > LEAST) & (probabilities < MOST)


def excluded(spans: Ints, probabilities: Floats) -> NDArray[np.float64]:
    """Return for candidates the largest probability of a span that each excludes, of each kind [C, 4], 0 for none.

    spans (Ints): [C, 3] in the order of their first tokens.
    """
    best = np.zeros((len(spans), KINDS))
    kernels.spans.excluded(spans, probabilities, best)
    return best


def best_f(parts: Sequence[Choices], beta: float) -> float | None:
    """Return the F-measure of spans that are chosen because they are worth it if this value is expected.

    None if there are no uncertain spans or no gold ones.
    """
    if not sum(len(part.right) for part in parts) or not sum(part.n_gold for part in parts):
        return None
    p, right, ahead = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:3])
    n_gold, n_certain, n_right = np.sum([part[3:] for part in parts], axis=0).tolist()
    gain, value = 1 + beta**2, USUAL
    for _ in range(F_STEPS):  # Dinkelbach's method with counts
        chosen, before = ahead & (p > value / gain), value
        n_chosen = n_certain + int(chosen.sum())
        of_gold = n_right + int((chosen & right).sum())
        value = max(LOWEST, gain * of_gold / (n_chosen + beta**2 * n_gold))
        if abs(value - before) < F_CLOSE:
            break
    return float(value)
