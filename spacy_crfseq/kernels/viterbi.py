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

from ..types import Floats, Ints, Offsets, Scores
from .jit import internal, kernel, light
from .math import LANES, longest
from .sequences import PlainScores, add_counts, part, path_score

GROUP = 4
"""Labels whose steps are compared at a time."""
SAFETY = 1e-6
"""Relative; far above the rounding error of a difference of two scores."""


def best_paths(scores: Scores, offsets: Offsets, labels: Ints, best_scores: Floats) -> None:
    """Write the best labels [T] and each best path's score [N] (float64, minus infinity where no path is allowed).

    Scores of minus infinity forbid a label or a step.
    """
    _best_paths((*scores,), offsets, labels, best_scores)


@light()
def _best_paths(scores: PlainScores, offsets: Offsets, labels: Ints, best_scores: Floats) -> None:
    """Do the work of `best_paths`."""
    emissions, transitions, start, end = scores
    n = emissions.shape[1]
    padded = (n + LANES - 1) // LANES * LANES
    length = longest(offsets)
    dtype = emissions.dtype
    best, reached = np.empty((length, padded), dtype), np.empty((length, padded), dtype)
    steps, back = np.empty((n, padded), dtype), np.empty((n, padded), dtype)
    bounds = np.empty((n, n), dtype)
    rows, lanes = np.empty((3, padded), dtype), np.empty(LANES, dtype)
    previous = np.empty(n + GROUP, np.int64)
    for i in range(n + GROUP):
        previous[i] = i
    shared = transitions.shape[0] == 1
    for i in range(n):
        bounds[i, 0] = np.nan
        for k in range(padded):
            inside = shared and k < n
            steps[i, k] = transitions[0, i, k] if inside else -np.inf
            back[i, k] = transitions[0, k, i] if inside else -np.inf
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        best_scores[s] = 0
        if e > b:
            taken_out = _best_scores(
                emissions, transitions, start, b, e, best, reached, steps, bounds, previous, rows, lanes
            )
            best_scores[s] = taken_out + _trace_back(transitions, end, b, e, best, reached, back, labels)


@internal
def _best_scores(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    b: int,
    e: int,
    best: Floats,
    reached: Floats,
    steps: Floats,
    bounds: Floats,
    previous: Offsets,
    rows: Floats,
    lanes: Floats,
) -> float:
    """Fill best [*, P] for the sequence of the tokens b..e-1; return what was taken out of its scores, in float64.

    reached [*, P] receives each label's score without its own emission, from which the way back is found.
    steps [L, P] holds shared transitions; for per-position ones it is work space.  bounds [L, L] is filled as it is
    needed: not a number in column 0 means that a row has not been.  previous [L + GROUP] holds 0, 1, 2, ... where
    transitions are per position.  rows [3, P] and lanes are work space.
    """
    # one long function: parts that take these arrays at each token would count references to them
    n = emissions.shape[1]
    padded = best.shape[1]
    shared = transitions.shape[0] == 1
    before, here = rows[0], rows[1]
    taken_out = 0.0
    top = int(np.int64(0))  # from a bare 0 numba would compile `_fill_bounds` for that constant, too
    for k in range(padded):
        here[k] = -np.inf
    for k in range(n):
        here[k] = emissions[b, k] + start[k]
    for t in range(b, e):
        if t > b:
            for k in range(padded):
                before[k] = here[k]
                here[k] = -np.inf
            m = n
            if shared:
                if np.isnan(bounds[top, 0]):
                    _fill_bounds(steps, top, bounds, rows[2], lanes)
                m = 0
                for i in range(n):
                    previous[m] = i
                    m += before[i] >= bounds[top, i]
                for i in range(m, m + GROUP - 1):
                    previous[i] = previous[max(m - 1, 0)]
            else:
                for i in range(n):
                    for k in range(n):
                        steps[i, k] = transitions[t, i, k]
                for i in range(n, n + GROUP - 1):
                    previous[i] = n - 1
            for c in range(0, m, GROUP):
                i, j, x, y = previous[c], previous[c + 1], previous[c + 2], previous[c + 3]
                p, q, u, v = before[i], before[j], before[x], before[y]
                for k in range(padded):
                    first, second = max(p + steps[i, k], q + steps[j, k]), max(u + steps[x, k], v + steps[y, k])
                    here[k] = max(here[k], max(first, second))
            for k in range(padded):
                reached[t - b, k] = here[k]
            for k in range(n):
                here[k] += emissions[t, k]
        top = _first_largest(here, lanes)
        largest = here[top]
        if largest > -np.inf:  # scores grow with the length, and float32 would lose the differences
            taken_out += largest
            for k in range(padded):
                here[k] -= largest
        for k in range(padded):
            best[t - b, k] = here[k]
    return taken_out


@internal
def _fill_bounds(steps: Floats, top: int, bounds: Floats, gains: Floats, lanes: Floats) -> None:
    """Write to ``bounds[top]`` what the score of each label must reach where that of the label `top` is 0."""
    n, padded = steps.shape
    for i in range(n):
        for k in range(padded):
            gain = steps[i, k] - steps[top, k]
            gains[k] = gain if gain == gain else -np.inf  # a step that is forbidden to both
        largest = gains[_first_largest(gains, lanes)]
        bounds[top, i] = -largest - abs(largest) * SAFETY if np.isfinite(largest) else -largest


@internal
def _first_largest(values: Floats, lanes: Floats) -> int:
    """Return the first place of the largest of values [P], P a multiple of `LANES`; lanes is work space.

    0 where that is not a number.
    """
    for k in range(LANES):
        lanes[k] = values[k]
    for first in range(LANES, values.shape[0], LANES):
        for k in range(LANES):
            lanes[k] = max(lanes[k], values[first + k])
    for width in (4, 2, 1):
        for k in range(width):
            lanes[k] = max(lanes[k], lanes[k + width])
    largest = lanes[0]
    place = 0
    while place < values.shape[0] - 1 and values[place] != largest:
        place += 1
    return place if values[place] == largest else 0


@internal
def _trace_back(
    transitions: Floats,
    end: Floats,
    b: int,
    e: int,
    best: Floats,
    reached: Floats,
    back: Floats,
    labels: Ints,
) -> float:
    """Write the best labels of the tokens b..e-1, last one first; return the score of the last.

    back [L, P] holds shared transitions, the label that comes second first.
    """
    n = end.shape[0]
    shared = transitions.shape[0] == 1
    last = e - b - 1
    label = 0
    for k in range(n):
        if best[last, k] + end[k] > best[last, label] + end[label]:
            label = k
    score = np.float64(best[last, label]) + end[label]
    labels[e - 1] = label
    for t in range(last, 0, -1):
        wanted = reached[t, label]
        before = 0
        if shared:
            while before < n - 1 and best[t - 1, before] + back[label, before] != wanted:
                before += 1
        else:
            while before < n - 1 and best[t - 1, before] + transitions[b + t, before, label] != wanted:
                before += 1
        label = before
        labels[b + t - 1] = label
    return score


def max_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, cost: float, grad: Scores) -> float:
    """Return the sum over sequences of ``weight * (max_y [score(y) + cost * errors(y)] - max_{z ~ gold} score(z))``.

    errors(y) counts the tokens whose known gold label y does not have, and z agrees with the known ones.  A
    subgradient, the counts of y less those of z, is added to the gradients, whose shapes are those of the scores; gold
    [T] is negative where missing, weights [N].
    """
    return _max_loss((*scores,), offsets, gold, weights, cost, (*grad,))


@kernel
def _max_loss(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, cost: float, grad: PlainScores
) -> float:
    """Do the work of `max_loss`."""
    emissions, transitions, start, end = scores
    n_tokens, n = emissions.shape
    raised, masked = emissions, emissions
    if cost > 0:
        raised = emissions + emissions.dtype.type(cost)
        for t in range(n_tokens):
            if gold[t] >= 0:
                raised[t, gold[t]] = emissions[t, gold[t]]
            else:
                for k in range(n):
                    raised[t, k] = emissions[t, k]
    best = np.empty(weights.shape[0])
    rival, target = np.empty(n_tokens, np.int32), gold
    rival_scores = raised, transitions, start, end
    _best_paths(rival_scores, offsets, rival, best)
    if n_tokens and gold.min() < 0:
        masked, target = emissions.copy(), np.empty(n_tokens, np.int32)
        for t in range(n_tokens):
            if gold[t] >= 0:
                for k in range(n):
                    masked[t, k] = -np.inf
                masked[t, gold[t]] = emissions[t, gold[t]]
        _best_paths((masked, transitions, start, end), offsets, target, best)
        for t in range(n_tokens):
            if gold[t] >= 0:
                target[t] = gold[t]
    loss = 0.0
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        if weights[s] != 0 and e > b:
            d_here, f = part(grad, b, e), start.dtype.type(weights[s])
            above, below = part(rival_scores, b, e), part(scores, b, e)
            loss += weights[s] * (path_score(above, rival[b:e]) - path_score(below, target[b:e]))
            add_counts(rival[b:e], f, d_here)
            add_counts(target[b:e], -f, d_here)
    return loss
