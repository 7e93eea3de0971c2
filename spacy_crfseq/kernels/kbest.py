"""The k best label paths of each sequence, the sum over all its paths, and the k best combinations of such lists.

One pass forward gives ``best_t(j)``, the score of the best path to label j at token t.  On the way back the paths are
met one after another, best first: the tree-trellis search of Soong & Huang (1991), on the partition of the paths that
Lawler (1972) and Nilsson & Goldberger (2001) use.  A path is kept as the way it deviates from an earlier one::

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

from ..types import Floats, Ints, Offsets, Scores
from . import log_space
from .jit import inlined, internal, kernel
from .math import longest, padded
from .sequences import local_scores, part

NONE = -1
"""The label of a path that does not exist."""
FAINT_SUM, FAINT = 1e-20, 1e-270
"""With sums of scaled potentials, and shares of labels in them, no smaller than these, what was rounded to zero is no
more than 1e-16 of anything."""


class Work(NamedTuple):
    """Work arrays for the longest sequence; rows of labels are padded to P.

    best (Floats): [longest, P] scores of the best path to each label.
    steps, potentials (Floats): [L, P] the transitions at hand, and their exponentials less the largest.
    back (Floats): [L, L] the transpose of shared transitions.
    rows (Floats): [3, P] shares of labels, sums, and local scores of a token.
    incoming (Floats): [L] scores of the ways to a label.
    pairs, costs: [longest, L, 2] the best and the second best predecessor, [longest, L] how much worse the second is.
    values, deviations: [k] scores and [k, 3] (number of the earlier path, place, predecessor) of paths, best first.
    """

    best: Floats
    steps: Floats
    potentials: Floats
    back: Floats
    rows: Floats
    incoming: Floats
    pairs: Ints
    costs: Floats
    values: Floats
    deviations: Ints


@inlined
def _workspace(scores: Scores, offsets: Offsets, k: int) -> tuple[Work, float]:
    """Return work arrays, and the largest of shared transitions."""
    n, length = scores.start.shape[0], longest(offsets)
    width = padded(n)
    work = Work(
        np.empty((length, width)),
        np.full((n, width), -np.inf),
        np.zeros((n, width)),
        np.empty((n, n)),
        np.empty((3, width)),
        np.empty(n),
        np.empty((length, n, 2), np.int32),
        np.empty((length, n)),
        np.empty(k),
        np.empty((k, 3), np.int32),
    )
    base = 0.0
    if scores.transitions.shape[0] == 1:
        base = _load_steps(scores.transitions[0], work.steps, work.potentials)
        for i in range(n):
            for j in range(n):
                work.back[j, i] = scores.transitions[0, i, j]
    return work, base


@kernel
def best_labellings(scores: Scores, offsets: Offsets, labels: Ints, values: Floats, log_z: Floats) -> None:
    """Write the k best labels to labels [k, T], their scores to values [k, N], and the log of the sum to log_z [N].

    All scores are float64; minus infinity forbids a label or a step.  Where a sequence has fewer than k labellings,
    `NONE` and minus infinity stand for the others.
    """
    k = labels.shape[0]
    work, base = _workspace(scores, offsets, k)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        count, work.values[0], log_z[s] = 1, 0.0, 0.0
        if e > b:
            here = part(scores, b, e)
            log_z[s] = _forward(here, base, work)
            count = _backward(here, b, work, labels)
        for r in range(k):
            values[r, s] = work.values[r] if r < count else -np.inf
        for r in range(count, k):
            for t in range(b, e):
                labels[r, t] = NONE


@internal
def _load_steps(transitions: Floats, steps: Floats, potentials: Floats) -> float:
    """Write transitions [L, L] to steps [L, P] and exp(transitions - max) to potentials [L, P]; return the max."""
    n = transitions.shape[0]
    largest = -np.inf
    for i in range(n):
        for j in range(n):
            largest = max(largest, transitions[i, j])
    if largest == -np.inf:
        largest = 0.0
    for i in range(n):
        for j in range(n):
            steps[i, j] = transitions[i, j]
            potentials[i, j] = np.exp(transitions[i, j] - largest)
    return largest


@internal
def _forward(scores: Scores, base: float, work: Work) -> float:
    """Fill best for one sequence; return log Z.  base is the largest of shared transitions."""
    emissions, transitions, start, end = scores
    best, steps, potentials = work.best, work.steps, work.potentials
    (length, n), width = emissions.shape, best.shape[1]
    alpha, sums, local = work.rows[0], work.rows[1], work.rows[2]
    log_z, exact = 0.0, True
    for t in range(length):
        here = best[t]
        for j in range(n):
            local[j] = emissions[t, j] + start[j] if t == 0 else emissions[t, j]
        if t == 0:
            for j in range(width):
                here[j] = 0.0
                sums[j] = 1.0
        else:
            # the best way and the sum of all ways to each label
            if transitions.shape[0] > 1:
                base = _load_steps(transitions[t], steps, potentials)
            log_z += base
            before = best[t - 1]
            for j in range(width):
                here[j] = -np.inf
                sums[j] = 0.0
            for i in range(n):
                score, share = before[i], alpha[i]
                if score > -np.inf:
                    for j in range(width):
                        here[j] = max(here[j], score + steps[i, j])
                        sums[j] += share * potentials[i, j]
        for j in range(n):
            here[j] += local[j]
        if t == length - 1:
            for j in range(n):
                local[j] += end[j]
        largest = local[0]
        for j in range(n):
            largest = max(largest, local[j])
        total = 0.0
        for j in range(n):
            alpha[j] = sums[j] * np.exp(local[j] - largest)
            total += alpha[j]
        exact &= total >= FAINT_SUM
        log_z += np.log(total) + largest
        for j in range(n):
            alpha[j] /= total
            exact &= alpha[j] >= FAINT or here[j] + local[j] == -np.inf
    if exact:
        return log_z
    logs, ways = np.empty((length, n)), np.empty((length, n))
    local_scores(scores, np.empty(0, np.int32), logs)
    return log_space.forward(logs, transitions, ways)


@internal
def _backward(scores: Scores, b: int, work: Work, labels: Ints) -> int:
    """Write the best labels of the sequence that begins at token b to labels [k, *]; return how many there are.

    Their scores are the first of `values`.  values and deviations are one sorted list of the k best paths met so far.
    The labels of the first r of them have been written; nothing is put before these, since no deviation is better than
    what it deviates from.
    """
    incoming, pairs, costs, values, deviations = work.incoming, work.pairs, work.costs, work.values, work.deviations
    best, back, (emissions, transitions, _, end) = work.best, work.back, scores
    length = emissions.shape[0]
    for p in range(1, length):
        for j in range(incoming.shape[0]):
            pairs[p, j, 0] = NONE
    _fill_incoming(transitions, end, length, 0, length, best, back, incoming)
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
        _fill_incoming(transitions, end, place, after, length, best, back, incoming)
        following = _next_best(incoming, label)
        if following >= 0:
            loss = incoming[label] - incoming[following]
            count = _insert(values, deviations, count, r, values[r] - loss, place, following)
        # and the second best at all places before
        for p in range(place - 1, 0, -1):
            here = row[p]
            if pairs[p, here, 0] == NONE:
                _fill_incoming(transitions, end, p, here, length, best, back, incoming)
                first, second = _best_two(incoming)
                pairs[p, here, 0], pairs[p, here, 1] = first, second
                costs[p, here] = incoming[first] - incoming[second] if second >= 0 else np.inf
            row[p - 1] = pairs[p, here, 0]
            count = _insert(values, deviations, count, r, values[r] - costs[p, here], p, pairs[p, here, 1])
        r += 1
    return count


@inlined
def _fill_incoming(
    transitions: Floats, end: Floats, p: int, j: int, length: int, best: Floats, back: Floats, incoming: Floats
) -> None:
    """Write to incoming [L] the score of the best path to each label at the place p - 1, with the step to j at p."""
    before = best[p - 1]
    if p == length:
        for i in range(incoming.shape[0]):
            incoming[i] = before[i] + end[i]
    elif transitions.shape[0] == 1:
        for i in range(incoming.shape[0]):
            incoming[i] = before[i] + back[j, i]
    else:
        for i in range(incoming.shape[0]):
            incoming[i] = before[i] + transitions[p, i, j]


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
    bound, found, largest = incoming[place], -1, -np.inf
    for i in range(incoming.shape[0]):
        value = incoming[i]
        if value > largest and (value < bound or (value == bound and i > place)):
            found, largest = i, value
    return found


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
    labels: Ints, values: Floats, offsets: Offsets, groups: Offsets, out_labels: Ints, out_values: Floats
) -> None:
    """Write the k best labellings of groups of sequences to out_labels [k, T] and out_values [k, G].

    labels [k, T] and values [k, N] are those of the sequences, as `best_labellings` has them; the group g consists of
    the sequences groups[g]..groups[g + 1] - 1, and the value of a combination is the sum of theirs.
    """
    k = len(values)
    out_labels.fill(NONE)
    out_values.fill(-np.inf)
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
