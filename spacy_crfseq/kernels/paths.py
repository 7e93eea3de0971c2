"""The best label paths.

The best one: ``best_t(j) = emissions_t(j) + max_i (best_{t-1}(i) + transitions(i, j))`` (Viterbi 1967).

Only the scores are kept on the way forward; the way back finds each predecessor again, which costs L a token and
saves the L x L comparisons with an index.

Most labels are no predecessor of any best path: label i cannot be where ``best(i) + transitions(i, j)`` is less than
``best(m) + transitions(m, j)`` for every j, m being the best label so far.  That is so if ``best(m) - best(i)`` is more
than ``max_j (transitions(i, j) - transitions(m, j))``, which does not depend on the position.  A few labels are left of
many, and the result is the same.  These bounds take as long as several tokens, so they are computed for an m that is
the best label several times.

The k best: on the way back from the scores of the best path to each label, the paths are met one after another, best
first: the tree-trellis search of Soong & Huang (1991), on the partition of the paths that Lawler (1972) and Nilsson &
Goldberger (2001) use.  A path is kept as the way it deviates from an earlier one::

    labels from token p on     as the earlier path has them
    the label of token p - 1   a predecessor that is not the best one there
    the labels before          the best predecessors

Its score is that of the earlier path less what the predecessor costs.  The next best predecessor at p, and a second
best one at a place before p, make up all the paths that it stood for: each path is met once, and none after a worse
one.  The place after the last token has one label, whose predecessors are the labels that a path may end with.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Floats, Ints, Offsets, Scores
from .jit import inlined, internal, kernel, light
from .lattice import exactly, solve, workspace
from .sequences import LANES, PlainScores, add_counts, limits, longest, part, path_score, step_to

NO_LABEL = -1
"""The label of a path that does not exist."""
GROUP = 4
"""Labels whose steps are compared at a time."""
PAYS = 4
"""Tokens with the same best label from which its bounds save more time than they take."""
SAFETY = 1e-6
"""Relative; far above the rounding error of a difference of two scores."""


@light()
def best_paths(scores: PlainScores, offsets: Offsets, labels: Ints, best_scores: Floats) -> bool:
    """Write the best labels [T] and each best path's score [N] (float64, minus infinity where no path is allowed).

    Scores of minus infinity forbid a label or a step.  Return whether a path is allowed in every sequence.
    """
    emissions, transitions, _, _ = scores
    n = emissions.shape[1]
    padded = (n + LANES - 1) // LANES * LANES
    length = longest(offsets)
    dtype = emissions.dtype
    best, reached = np.empty((length, padded), dtype), np.empty((length, padded), dtype)
    steps, back = np.empty((n, padded), dtype), np.empty((n, padded), dtype)
    bounds, met, possible = np.empty((n, n), dtype), np.zeros(n, np.int64), True
    rows, lanes = np.empty((3, padded), dtype), np.empty(LANES, dtype)
    previous = np.empty(n + GROUP, np.int64)
    for i in range(n + GROUP):
        previous[i] = i
    # shared steps, and, where there are as many tokens as labels, the label that comes second first
    shared = transitions.shape[0] == 1
    turned = shared and emissions.shape[0] >= n
    for i in range(n):
        for k in range(n if shared else 0):
            steps[i, k] = transitions[0, i, k]
        for k in range(n if shared else 0, padded):
            steps[i, k] = -np.inf
        for k in range(n if turned else 0):
            back[i, k] = transitions[0, k, i]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        best_scores[s] = 0
        if e > b:
            taken_out = _best_scores(scores, b, e, best, reached, (steps, bounds, met, previous, rows, lanes))
            best_scores[s] = taken_out + _trace_back(scores, b, e, best, reached, turned, back, labels)
            possible &= best_scores[s] != -np.inf
    return possible


@internal
def _best_scores(
    scores: PlainScores, b: int, e: int, best: Floats, reached: Floats,
    room: tuple[Floats, Floats, Offsets, Offsets, Floats, Floats],
) -> float:  # fmt: skip
    """Fill best [*, P] for the sequence of the tokens b..e-1; return what was taken out of its scores, in float64.

    reached [*, P] receives each label's score without its own emission, from which the way back is found.  Of room,
    steps [L, P] holds shared transitions; for per-position ones it is work space.  met [L] counts the tokens with each
    best label; bounds [L, L] has rows for labels that were met `PAYS` times.  previous [L + GROUP] holds 0, 1, 2, ...
    where transitions are per position.  rows [3, P] and lanes are work space.
    """
    # one long function: parts that take these arrays at each token would count references to them
    (emissions, transitions, start, _), (steps, bounds, met, previous, rows, lanes) = scores, room
    n = emissions.shape[1]
    padded = best.shape[1]
    shared = transitions.shape[0] == 1
    before, current = rows[0], rows[1]
    taken_out = 0.0
    top = int(np.int64(0))  # from a bare 0 numba would compile `_fill_bounds` for that constant, too
    for k in range(padded):
        current[k] = -np.inf
    for k in range(n):
        current[k] = emissions[b, k] + start[k]
    # each token: the best score of each label, given those of the labels of the token before
    for t in range(b, e):
        if t > b:
            for k in range(padded):
                before[k] = current[k]
                current[k] = -np.inf
            m = n
            if shared:
                met[top] += 1
                if met[top] == PAYS:
                    _fill_bounds(steps, top, bounds, rows[2], lanes)
                # only labels whose score reaches its bound can be on a best path
                m, bounded = 0, met[top] >= PAYS
                for i in range(n):
                    previous[m] = i
                    m += not bounded or before[i] >= bounds[top, i]
                for i in range(m, m + GROUP - 1):
                    previous[i] = previous[max(m - 1, 0)]
            else:
                for i in range(n):
                    for k in range(n):
                        steps[i, k] = transitions[t, i, k]
                for i in range(n, n + GROUP - 1):
                    previous[i] = n - 1
            # four previous labels at a time, so that each row of the result is read and written once for them
            for c in range(0, m, GROUP):
                i, j, x, y = previous[c], previous[c + 1], previous[c + 2], previous[c + 3]
                p, q, u, v = before[i], before[j], before[x], before[y]
                for k in range(padded):
                    first, second = max(p + steps[i, k], q + steps[j, k]), max(u + steps[x, k], v + steps[y, k])
                    current[k] = max(current[k], max(first, second))
            for k in range(padded):
                reached[t - b, k] = current[k]
            for k in range(n):
                current[k] += emissions[t, k]
        top = _first_largest(current, lanes)
        largest = current[top]
        if largest > -np.inf:  # scores grow with the length, and float32 would lose the differences
            taken_out += largest
            for k in range(padded):
                current[k] -= largest
        for k in range(padded):
            best[t - b, k] = current[k]
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
    scores: PlainScores, b: int, e: int, best: Floats, reached: Floats, turned: bool, back: Floats, labels: Ints
) -> float:
    """Write the best labels of the tokens b..e-1, last one first; return the score of the last.

    back [L, P] holds shared transitions, the label that comes second first, if these are turned.
    """
    _, transitions, _, end = scores
    n, shared = end.shape[0], transitions.shape[0] == 1
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
        if turned:
            while before < n - 1 and best[t - 1, before] + back[label, before] != wanted:
                before += 1
        else:
            place = 0 if shared else b + t
            while before < n - 1 and best[t - 1, before] + transitions[place, before, label] != wanted:
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
    # the rival is the best path where each wrong label is raised by the cost
    if cost > 0:
        raised = emissions + emissions.dtype.type(cost)
        for t in range(n_tokens):
            if gold[t] >= 0:
                raised[t, gold[t]] = emissions[t, gold[t]]
            else:
                for k in range(n):
                    raised[t, k] = emissions[t, k]
    best = np.empty(weights.shape[0])
    rival, target = np.empty(n_tokens, np.int32), gold.astype(np.int32)
    rival_scores = raised, transitions, start, end
    best_paths(rival_scores, offsets, rival, best)
    # the target is gold, completed by the best path that agrees with it
    if n_tokens and gold.min() < 0:
        masked = emissions.copy()
        for t in range(n_tokens):
            if gold[t] >= 0:
                for k in range(n):
                    masked[t, k] = -np.inf
                masked[t, gold[t]] = emissions[t, gold[t]]
        best_paths((masked, transitions, start, end), offsets, target, best)
        for t in range(n_tokens):
            if gold[t] >= 0:
                target[t] = gold[t]
    # the score of the rival has the costs of its errors in it, and the rival is counted against the target
    loss = 0.0
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        if weights[s] != 0 and e > b:
            f = start.dtype.type(weights[s])
            loss += weights[s] * (path_score(rival, b, e, rival_scores) - path_score(target, b, e, scores))
            add_counts(rival, b, e, f, grad)
            add_counts(target, b, e, -f, grad)
    return loss


class Alternatives(NamedTuple):
    """Work arrays of a search for k paths in the longest sequence.

    best (Floats): [longest, L] scores of the best path to each label.
    incoming (Floats): [L] scores of the ways to a label.
    pairs, costs: [longest, L, 2] the best and the second best predecessor, [longest, L] how much worse the second is.
    values, deviations: [k] scores and [k, 3] (number of the earlier path, place, predecessor) of paths, best first.
    """

    best: Floats
    incoming: Floats
    pairs: Ints
    costs: Floats
    values: Floats
    deviations: Ints


def best_labellings(
    scores: Scores, offsets: Offsets, k: int, log_z: NDArray[np.float64] | None = None
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the k best labels [k, T] of each sequence and their scores [k, N], in float64.

    Minus infinity forbids a label or a step.  Where a sequence has fewer than k labellings, `NO_LABEL` and minus
    infinity stand for the others.

    log_z: [N] receives log Z, as `lattice.posterior` writes it.
    """
    labels, values = np.full((k, len(scores.emissions)), NO_LABEL, np.int32), np.empty((k, len(offsets) - 1))
    log_z, left = np.empty(len(offsets) - 1) if log_z is None else log_z, np.zeros(len(offsets) - 1, np.bool_)
    _best_labellings((*scores.wide(),), offsets, labels, values, log_z, left)
    for _, s, _, total in exactly(scores, offsets, left):
        log_z[s] = total
    return labels, values


@kernel
def _best_labellings(
    scores: PlainScores, offsets: Offsets, labels: Ints, values: Floats, log_z: Floats, left: Bools
) -> None:
    """Do the work of `best_labellings`; set left [N] for sequences whose log Z is left."""
    k, n, length = labels.shape[0], scores[0].shape[1], longest(offsets)
    recursions, base = workspace(offsets, scores)
    work = Alternatives(
        np.empty((length, n)),
        np.empty(n),
        np.empty((length, n, 2), np.int32),
        np.empty((length, n)),
        np.empty(k),
        np.empty((k, 3), np.int32),
    )
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        count, work.values[0], log_z[s] = 1, 0.0, 0.0
        if e > b:
            sequence = part(scores, b, e)
            log_z[s], exact = solve(sequence, labels[0, :0], base, limits(recursions.beta).huge, recursions)
            left[s] = not exact
            _fill_best(sequence, work.best)
            count = _search(sequence, b, work, labels)
        for r in range(k):
            values[r, s] = work.values[r] if r < count else -np.inf


@internal
def _fill_best(scores: Scores, best: Floats) -> None:
    """Write the score of the best path to each label of one sequence to best [*, L]."""
    emissions, transitions, start, _ = scores
    length, n = emissions.shape
    for j in range(n):
        best[0, j] = emissions[0, j] + start[j]
    for t in range(1, length):
        before, current, step = best[t - 1], best[t], step_to(transitions, t)
        for j in range(n):
            current[j] = -np.inf
        for i in range(n):
            row = step[i]
            for j in range(n):
                current[j] = max(current[j], before[i] + row[j])
        for j in range(n):
            current[j] += emissions[t, j]


@internal
def _search(scores: Scores, b: int, work: Alternatives, labels: Ints) -> int:
    """Write the best labels of the sequence that begins at token b to labels [k, *]; return how many there are.

    Their scores are the first of `values`.  values and deviations are one sorted list of the k best paths met so far.
    The labels of the first r of them have been written; nothing is put before these, since no deviation is better than
    what it deviates from.
    """
    incoming, pairs, costs, values, deviations = work.incoming, work.pairs, work.costs, work.values, work.deviations
    best, (emissions, transitions, _, end) = work.best, scores
    length = emissions.shape[0]
    for p in range(1, length):
        for j in range(incoming.shape[0]):
            pairs[p, j, 0] = NO_LABEL
    _fill_incoming(transitions, end, length, 0, length, best, incoming)
    first, _ = _best_two(incoming)
    values[0], deviations[0, 0], deviations[0, 1], deviations[0, 2] = incoming[first], 0, length, first
    count, r = 1 if incoming[first] > -np.inf else 0, 0
    while r < count:
        earlier, place, label = deviations[r, 0], deviations[r, 1], deviations[r, 2]
        row = labels[r, b : b + length]
        for t in range(place, length):
            row[t] = labels[earlier, b + t]
        row[place - 1] = label
        # the next best predecessor at the same place
        after = row[place] if place < length else 0
        _fill_incoming(transitions, end, place, after, length, best, incoming)
        following = _next_best(incoming, label)
        if following >= 0:
            loss = incoming[label] - incoming[following]
            count = _insert(values, deviations, count, r, values[r] - loss, place, following)
        # and the second best at all places before
        for p in range(place - 1, 0, -1):
            best_label = row[p]
            if pairs[p, best_label, 0] == NO_LABEL:
                _fill_incoming(transitions, end, p, best_label, length, best, incoming)
                first, second = _best_two(incoming)
                pairs[p, best_label, 0], pairs[p, best_label, 1] = first, second
                costs[p, best_label] = incoming[first] - incoming[second] if second >= 0 else np.inf
            row[p - 1] = pairs[p, best_label, 0]
            count = _insert(values, deviations, count, r, values[r] - costs[p, best_label], p, pairs[p, best_label, 1])
        r += 1
    return count


@inlined
def _fill_incoming(
    transitions: Floats, end: Floats, p: int, j: int, length: int, best: Floats, incoming: Floats
) -> None:
    """Write to incoming [L] the score of the best path to each label at the place p - 1, with the step to j at p."""
    before = best[p - 1]
    if p == length:
        for i in range(incoming.shape[0]):
            incoming[i] = before[i] + end[i]
    else:
        step = step_to(transitions, p)
        for i in range(incoming.shape[0]):
            incoming[i] = before[i] + step[i, j]


@inlined
def _best_two(incoming: Floats) -> tuple[int, int]:
    """Return the places of the largest number and of the second largest, the first of equals; -1 for no second."""
    first, second = 0, -1
    most, less = incoming[0], -np.inf
    for i in range(1, incoming.shape[0]):
        value = incoming[i]
        if value > most:
            first, second, most, less = i, first, value, most
        elif value > less:
            second, less = i, value
    return first, second if less > -np.inf else -1


@inlined
def _next_best(incoming: Floats, place: int) -> int:
    """Return the place of the next largest number after that at `place`, equals one after another; -1 for none."""
    bound, following, largest = incoming[place], -1, -np.inf
    for i in range(incoming.shape[0]):
        value = incoming[i]
        if value > largest and (value < bound or (value == bound and i > place)):
            following, largest = i, value
    return following


@inlined
def _insert(values: Floats, deviations: Ints, count: int, earlier: int, value: float, place: int, label: int) -> int:
    """Put a path into the sorted list, after those of its score, if it is among the k best; return their new number."""
    k = values.shape[0]
    value = min(value, values[earlier])
    if not value > (values[k - 1] if count == k else -np.inf):
        return count
    at = min(count, k - 1)
    while values[at - 1] < value:
        values[at] = values[at - 1]
        for c in range(3):
            deviations[at, c] = deviations[at - 1, c]
        at -= 1
    values[at] = value
    deviations[at, 0], deviations[at, 1], deviations[at, 2] = earlier, place, label
    return min(count + 1, k)


def best_combinations(
    labels: Ints, values: Floats, offsets: Offsets, groups: Offsets
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the k best labellings of groups of sequences [k, T] and their values [k, G].

    labels [k, T] and values [k, N] are those of the sequences, as `best_labellings` has them; the group g consists of
    the sequences groups[g]..groups[g + 1] - 1, and the value of a combination is the sum of theirs.
    """
    k = len(values)
    out_labels, out_values = np.full_like(labels, NO_LABEL), np.full((k, len(groups) - 1), -np.inf)
    for g, (first, last) in enumerate(pairwise(groups.tolist())):
        sums, chosen = np.zeros(1), np.zeros((1, last - first), np.int64)  # of each combination, paths of the sequences
        for s in range(first, last):
            both = (sums[:, None] + values[:, s]).ravel()
            best = np.argsort(-both, kind="stable")[:k]
            best = best[both[best] > -np.inf]
            sums, chosen = both[best], chosen[best // k]
            chosen[:, s - first] = best % k
        tokens = np.arange(offsets[first], offsets[last])
        owner = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
        out_values[: len(sums), g] = sums
        out_labels[: len(sums), tokens] = labels[chosen[:, owner], tokens]
    return out_labels, out_values
