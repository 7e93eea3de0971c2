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
        scores[s] = taken_out = 0.0
        if e == b:
            continue
        for t in range(b, e):
            here = best[t - b]
            for k in range(padded):
                here[k] = -np.inf
            if t == b:
                for k in range(n):
                    here[k] = emissions[t, k] + start[k]
            else:
                if not shared:
                    steps[:, :n] = transitions[t]
                before = best[t - b - 1]
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
        last = best[e - b - 1]
        label = 0
        for k in range(n):
            if last[k] + end[k] > last[label] + end[label]:
                label = k
        scores[s] = taken_out + last[label] + end[label]
        labels[e - 1] = label
        for t in range(e - 1, b, -1):
            step = transitions[0 if shared else t]
            before = best[t - b - 1]
            previous = 0
            for i in range(1, n):
                if before[i] + step[i, label] > before[previous] + step[previous, label]:
                    previous = i
            label = previous
            labels[t - 1] = label
