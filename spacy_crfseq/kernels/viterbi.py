"""The best label path: ``best_t(j) = emissions_t(j) + max_i (best_{t-1}(i) + transitions(i, j))`` (Viterbi 1967).

Only the scores are kept on the way forward; the way back finds each predecessor again, which costs L a token and
saves the L x L comparisons with an index.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import kernel

LANES = 8


@kernel
def best_paths(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    labels: Ints,
    scores: Floats,
) -> None:
    """Write the best labels [T] and each best path's score [N] (float64, minus infinity where no path is allowed).

    emissions [T, L], transitions [1 or T, L, L], start and end [L]; minus infinity forbids a label or a step.
    """
    n = emissions.shape[1]
    padded = (n + LANES - 1) // LANES * LANES
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    dtype = emissions.dtype
    best = np.empty((longest, padded), dtype)
    steps = np.full((n, padded), -np.inf, dtype)
    shared = transitions.shape[0] == 1
    if shared:
        steps[:, :n] = transitions[0]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        scores[s] = 0
        if e > b:
            jumps = transitions
            if not shared:
                jumps = transitions[b:e]
            taken_out = _best_scores(emissions[b:e], jumps, start, best, steps)
            scores[s] = taken_out + _trace_back(jumps, end, best, labels[b:e])


@kernel
def _best_scores(emissions: Floats, transitions: Floats, start: Floats, best: Floats, steps: Floats) -> float:
    """Fill best [n, P] for one sequence; return what was taken out of its scores, in float64.

    steps [L, P] holds shared transitions; for per-position ones it is work space.
    """
    length, n = emissions.shape
    padded = best.shape[1]
    taken_out = 0.0
    for t in range(length):
        here = best[t]
        for k in range(padded):
            here[k] = -np.inf
        if t == 0:
            for k in range(n):
                here[k] = emissions[0, k] + start[k]
        else:
            if transitions.shape[0] > 1:
                steps[:, :n] = transitions[t]
            before = best[t - 1]
            for i in range(n):
                score, row = before[i], steps[i]
                for k in range(padded):
                    here[k] = max(here[k], score + row[k])
            for k in range(n):
                here[k] += emissions[t, k]
        largest = here[0]
        for k in range(1, n):
            largest = max(largest, here[k])
        if largest > -np.inf:  # scores grow with the length, and float32 would lose the differences
            taken_out += largest
            for k in range(n):
                here[k] -= largest
    return taken_out


@kernel
def _trace_back(transitions: Floats, end: Floats, best: Floats, labels: Ints) -> float:
    """Write the best labels [n] of one sequence, last one first; return the score of the last."""
    length, n = labels.shape[0], end.shape[0]
    last = best[length - 1]
    label = 0
    for k in range(n):
        if last[k] + end[k] > last[label] + end[label]:
            label = k
    score = np.float64(last[label]) + end[label]
    labels[length - 1] = label
    for t in range(length - 1, 0, -1):
        step = transitions[0 if transitions.shape[0] == 1 else t]
        before = best[t - 1]
        previous = 0
        for i in range(1, n):
            if before[i] + step[i, label] > before[previous] + step[previous, label]:
                previous = i
        label = previous
        labels[t - 1] = label
    return score
