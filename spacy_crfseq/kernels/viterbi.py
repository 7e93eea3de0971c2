"""The best label path: ``best_t(j) = emissions_t(j) + max_i (best_{t-1}(i) + transitions(i, j))`` (Viterbi 1967).

Only the scores are kept on the way forward; the way back finds each predecessor again, which costs L a token and
saves the L x L comparisons with an index.

Most labels are no predecessor of any best path: label i cannot be where ``best(i) + transitions(i, j)`` is less than
``best(m) + transitions(m, j)`` for every j, m being the best label so far.  That is so if ``best(m) - best(i)`` is more
than ``max_j (transitions(i, j) - transitions(m, j))``, which does not depend on the position.  A few labels are left of
many, and the result is the same.
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import kernel

LANES = 8
SAFETY = 1e-6
"""Relative; far above the rounding error of a difference of two scores."""


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
    steps, back = np.full((n, padded), -np.inf, dtype), np.full((n, padded), -np.inf, dtype)
    bounds = np.full((n, n), np.nan, dtype)
    work = np.empty((2, padded), dtype)
    shared = transitions.shape[0] == 1
    if shared:
        steps[:, :n] = transitions[0]
        back[:, :n] = transitions[0].T
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        scores[s] = 0
        if e > b:
            jumps = transitions
            if not shared:
                jumps = transitions[b:e]
            taken_out = _best_scores(emissions[b:e], jumps, start, best, steps, bounds, work)
            scores[s] = taken_out + _trace_back(jumps, end, best, back, work, labels[b:e])


@kernel
def _best_scores(
    emissions: Floats, transitions: Floats, start: Floats, best: Floats, steps: Floats, bounds: Floats, work: Floats
) -> float:
    """Fill best [n, P] for one sequence; return what was taken out of its scores, in float64.

    steps [L, P] holds shared transitions; for per-position ones it is work space.  bounds [L, L] is filled as it is
    needed: not a number in column 0 means that a row has not been.
    """
    length, n = emissions.shape
    padded = best.shape[1]
    shared = transitions.shape[0] == 1
    previous = np.arange(n)
    taken_out = 0.0
    top = 0
    for t in range(length):
        here = best[t]
        for k in range(padded):
            here[k] = -np.inf
        if t == 0:
            for k in range(n):
                here[k] = emissions[0, k] + start[k]
        else:
            before = best[t - 1]
            m = n
            if shared:
                if np.isnan(bounds[top, 0]):
                    _fill_bounds(steps, top, bounds[top], work)
                m = _select(before, bounds[top], previous)
            else:
                steps[:, :n] = transitions[t]
            _extend(before, steps, previous[:m], here)
            for k in range(n):
                here[k] += emissions[t, k]
        top = _first_largest(here, work[0])
        largest = here[top]
        if largest > -np.inf:  # scores grow with the length, and float32 would lose the differences
            taken_out += largest
            for k in range(n):
                here[k] -= largest
    return taken_out


@kernel
def _fill_bounds(steps: Floats, top: int, bounds: Floats, work: Floats) -> None:
    """Write to bounds [L] what a label's score must reach where that of the label `top` is 0."""
    n, padded = steps.shape
    gains = work[1]
    for i in range(n):
        for k in range(padded):
            gain = steps[i, k] - steps[top, k]
            gains[k] = gain if gain == gain else -np.inf  # a step that is forbidden to both
        largest = gains[_first_largest(gains, work[0])]
        bounds[i] = -largest - abs(largest) * SAFETY if np.isfinite(largest) else -largest


@kernel
def _select(before: Floats, bounds: Floats, chosen: Offsets) -> int:
    """Write the labels whose score in before [P] reaches its bound [L] to chosen [L]; return their number."""
    m = 0
    for i in range(bounds.shape[0]):
        chosen[m] = i
        m += before[i] >= bounds[i]
    return m


@kernel
def _extend(before: Floats, steps: Floats, previous: Offsets, here: Floats) -> None:
    """Raise here [P] to the best score of a step from one of the `previous` labels."""
    padded = here.shape[0]
    m = previous.shape[0]
    for c in range(0, m - 1, 2):
        i, j = previous[c], previous[c + 1]
        score, row = before[i], steps[i]
        other_score, other_row = before[j], steps[j]
        for k in range(padded):
            here[k] = max(here[k], max(score + row[k], other_score + other_row[k]))
    if m % 2:
        score, row = before[previous[m - 1]], steps[previous[m - 1]]
        for k in range(padded):
            here[k] = max(here[k], score + row[k])


@kernel
def _first_largest(values: Floats, work: Floats) -> int:
    """Return the first place of the largest of values [P], P a multiple of the lanes; work [P] is overwritten."""
    lanes = work[:LANES]
    for k in range(LANES):
        lanes[k] = values[k]
    for start in range(LANES, values.shape[0], LANES):
        for k in range(LANES):
            lanes[k] = max(lanes[k], values[start + k])
    largest = lanes[0]
    for k in range(1, LANES):
        largest = max(largest, lanes[k])
    place = 0
    while place < values.shape[0] - 1 and values[place] != largest:
        place += 1
    return place


@kernel
def _trace_back(transitions: Floats, end: Floats, best: Floats, back: Floats, work: Floats, labels: Ints) -> float:
    """Write the best labels [n] of one sequence, last one first; return the score of the last.

    back [L, P] holds shared transitions, the label that comes second first.
    """
    length, n = labels.shape[0], end.shape[0]
    shared = transitions.shape[0] == 1
    last = best[length - 1]
    label = 0
    for k in range(n):
        if last[k] + end[k] > last[label] + end[label]:
            label = k
    score = np.float64(last[label]) + end[label]
    labels[length - 1] = label
    sums = work[1]
    for t in range(length - 1, 0, -1):
        before = best[t - 1]
        if shared:
            row = back[label]
            for k in range(sums.shape[0]):
                sums[k] = before[k] + row[k]
            label = _first_largest(sums, work[0])
        else:
            step = transitions[t]
            previous = 0
            for i in range(1, n):
                if before[i] + step[i, label] > before[previous] + step[previous, label]:
                    previous = i
            label = previous
        labels[t - 1] = label
    return score
