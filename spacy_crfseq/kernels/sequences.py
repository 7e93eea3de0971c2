"""One sequence out of many: its scores, the score of a path, and the counts of one."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from .jit import inlined, internal

PlainScores: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""`Scores` as a plain tuple, whose type numba finds at once; with named ones each call takes 0.4 microseconds more."""


class Spans(NamedTuple):
    """Spans [S] whose probabilities are wanted, in order.

    labels (Ints): [T] as which they are labelled.
    starts, ends (Offsets): [S] first tokens and tokens after the last.
    inside (Bools): [L, L] whether the second label right after the first goes on with its span.
    out (Floats): [S] float64, receives the probabilities.
    """

    labels: Ints
    starts: Offsets
    ends: Offsets
    inside: Bools
    out: Floats


def sequence(scores: PlainScores, b: int, e: int) -> Scores:
    """Return the scores of the tokens b..e-1, or their gradient."""
    emissions, steps, start, end = scores
    if steps.shape[0] > 1:
        steps = steps[b:e]
    return Scores(emissions[b:e], steps, start, end)


part = inlined(sequence)
"""`sequence` for kernels."""


@inlined
def count_missing(gold: Ints) -> int:
    """Return the number of tokens whose label is not known."""
    missing = 0
    for label in gold:
        missing += label < 0
    return missing


@internal
def local_scores(scores: Scores, gold: Ints, out: Floats) -> None:
    """Write emissions plus start and end scores of one sequence to out [n, at least L], the rest minus infinity.

    Unless gold is empty, labels other than a known gold label get minus infinity too.
    """
    emissions, _, start, end = scores
    length, n = emissions.shape
    for t in range(length):
        row = out[t]
        for k in range(n):
            row[k] = emissions[t, k]
        for k in range(n, row.shape[0]):
            row[k] = -np.inf
        if t == 0:
            for k in range(n):
                row[k] += start[k]
        if t == length - 1:
            for k in range(n):
                row[k] += end[k]
        if gold.shape[0] > 0 and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    row[k] = -np.inf


@inlined
def step_to(transitions: Floats, t: int) -> Floats:
    """Return the scores [L, L] of the step to token t."""
    return transitions[0 if transitions.shape[0] == 1 else t]


@inlined
def path_score(scores: Scores, labels: Ints) -> float:
    """Return the score of the labels [n] of one sequence, in float64."""
    emissions, transitions, start, end = scores
    length, shared = emissions.shape[0], transitions.shape[0] == 1
    score = np.float64(start[labels[0]]) + end[labels[length - 1]]
    for t in range(length):
        score += emissions[t, labels[t]]
        if t > 0:
            score += transitions[0 if shared else t, labels[t - 1], labels[t]]
    return score


@inlined
def add_counts(labels: Ints, factor: float, grad: Scores) -> None:
    """Add factor times the counts of the labels [n] of one sequence to `grad`."""
    d_emissions, d_transitions, d_start, d_end = grad
    length, shared = d_emissions.shape[0], d_transitions.shape[0] == 1
    d_start[labels[0]] += factor
    d_end[labels[length - 1]] += factor
    for t in range(length):
        d_emissions[t, labels[t]] += factor
        if t > 0:
            d_transitions[0 if shared else t, labels[t - 1], labels[t]] += factor
