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

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import inlined, kernel

LANES = 8
"""Rows of work space are padded to a multiple of this, so that loops over labels need no remainder."""
NONE = -1
"""The label of a path that does not exist."""
FAINT_SUM, FAINT = 1e-20, 1e-270
"""With sums of scaled potentials, and shares of labels in them, no smaller than these, what was rounded to zero is no
more than 1e-16 of anything."""


@kernel
def best_labellings(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    labels: Ints,
    scores: Floats,
    log_z: Floats,
) -> None:
    """Write the k best labels to labels [k, T], their scores to scores [k, N], and the log of the sum to log_z [N].

    emissions [T, L], transitions [1 or T, L, L], start and end [L], all float64; minus infinity forbids a label or a
    step.  Where a sequence has fewer than k labellings, `NONE` and minus infinity stand for the others.
    """
    n, k = emissions.shape[1], labels.shape[0]
    padded = (n + LANES - 1) // LANES * LANES
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    best, steps = np.empty((longest, padded)), np.full((n, padded), -np.inf)
    potentials, rows = np.zeros((n, padded)), np.empty((3, padded))
    back, incoming = np.empty((n, n)), np.empty(n)
    pairs, costs = np.empty((longest, n, 2), np.int32), np.empty((longest, n))
    values, deviations = np.empty(k), np.empty((k, 3), np.int32)
    base = 0.0
    if transitions.shape[0] == 1:
        base = _load_steps(transitions[0], steps, potentials)
        for i in range(n):
            for j in range(n):
                back[j, i] = transitions[0, i, j]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        count, values[0], log_z[s] = 1, 0.0, 0.0
        if e > b:
            log_z[s] = _forward(emissions, transitions, start, end, b, e, base, best, steps, potentials, rows)
            count = _backward(transitions, end, b, e, best, back, incoming, pairs, costs, values, deviations, labels)
        for r in range(k):
            scores[r, s] = values[r] if r < count else -np.inf
        for r in range(count, k):
            for t in range(b, e):
                labels[r, t] = NONE


@kernel
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


@kernel
def _forward(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    b: int,
    e: int,
    base: float,
    best: Floats,
    steps: Floats,
    potentials: Floats,
    rows: Floats,
) -> float:
    """Fill best [*, P] for the tokens b..e-1; return log Z.

    steps and potentials [L, P] hold shared transitions, whose largest is `base`; for per-position ones they are work
    space, as rows [3, P] is.
    """
    n = emissions.shape[1]
    padded = best.shape[1]
    alpha, sums, local = rows[0], rows[1], rows[2]
    log_z, exact = 0.0, True
    for t in range(b, e):
        here = best[t - b]
        for j in range(n):
            local[j] = emissions[t, j] + start[j] if t == b else emissions[t, j]
        if t == b:
            for j in range(padded):
                here[j] = 0.0
                sums[j] = 1.0
        else:
            if transitions.shape[0] > 1:
                base = _load_steps(transitions[t], steps, potentials)
            log_z += base
            before = best[t - b - 1]
            for j in range(padded):
                here[j] = -np.inf
                sums[j] = 0.0
            for i in range(n):
                score, share = before[i], alpha[i]
                if score > -np.inf:
                    for j in range(padded):
                        here[j] = max(here[j], score + steps[i, j])
                        sums[j] += share * potentials[i, j]
        for j in range(n):
            here[j] += local[j]
        if t == e - 1:
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
    return log_z if exact else _log_sum_of_paths(emissions, transitions, start, end, b, e)


@kernel
def _log_sum_of_paths(emissions: Floats, transitions: Floats, start: Floats, end: Floats, b: int, e: int) -> float:
    """Return log Z of the tokens b..e-1 by sums in log space: L x L exponentials a token."""
    n = emissions.shape[1]
    rows, terms = np.empty((2, n)), np.empty(n)
    for j in range(n):
        rows[0, j] = start[j] + emissions[b, j]
    for t in range(b + 1, e + 1):
        before, here = rows[(t - b - 1) % 2], rows[(t - b) % 2]
        step = transitions[0 if transitions.shape[0] == 1 or t == e else t]
        for j in range(n if t < e else 1):
            for i in range(n):
                terms[i] = before[i] + (step[i, j] if t < e else end[i])
            here[j] = _log_sum(terms) + (emissions[t, j] if t < e else 0.0)
    return rows[(e - b) % 2, 0]


@inlined
def _log_sum(terms: Floats) -> float:
    largest, total = -np.inf, 0.0
    for i in range(terms.shape[0]):
        largest = max(largest, terms[i])
    if largest == -np.inf:
        return largest
    for i in range(terms.shape[0]):
        total += np.exp(terms[i] - largest)
    return largest + np.log(total)


@kernel
def _backward(
    transitions: Floats,
    end: Floats,
    b: int,
    e: int,
    best: Floats,
    back: Floats,
    incoming: Floats,
    pairs: Ints,
    costs: Floats,
    values: Floats,
    deviations: Ints,
    labels: Ints,
) -> int:
    """Write the best labels of the tokens b..e-1 to labels [k, *] and their scores to values [k]; return how many.

    back [L, L] holds shared transitions, the label that comes second first.  incoming [L], pairs [*, L, 2] (the best
    and the second best predecessor), costs [*, L] (by how much the second is worse) and deviations [k, 3] (number of
    the earlier path, place, predecessor) are work space.

    values and deviations are one sorted list of the k best paths met so far.  The labels of the first r of them have
    been written; nothing is put before these, since no deviation is better than what it deviates from.
    """
    length = e - b
    for p in range(1, length):
        for j in range(end.shape[0]):
            pairs[p, j, 0] = NONE
    _fill_incoming(transitions, end, b, length, 0, length, best, back, incoming)
    first, _ = _best_two(incoming)
    values[0], deviations[0, 0], deviations[0, 1], deviations[0, 2] = incoming[first], 0, length, first
    count, r = 1 if incoming[first] > -np.inf else 0, 0
    while r < count:
        earlier, place, label = deviations[r, 0], deviations[r, 1], deviations[r, 2]
        row = labels[r, b:e]
        for t in range(place, length):
            row[t] = labels[earlier, b + t]
        row[place - 1] = label
        after = row[place] if place < length else 0
        _fill_incoming(transitions, end, b, place, after, length, best, back, incoming)
        following = _next_best(incoming, label)
        if following >= 0:
            loss = incoming[label] - incoming[following]
            count = _insert(values, deviations, count, r, values[r] - loss, place, following)
        for p in range(place - 1, 0, -1):
            here = row[p]
            if pairs[p, here, 0] == NONE:
                _fill_incoming(transitions, end, b, p, here, length, best, back, incoming)
                first, second = _best_two(incoming)
                pairs[p, here, 0], pairs[p, here, 1] = first, second
                costs[p, here] = incoming[first] - incoming[second] if second >= 0 else np.inf
            row[p - 1] = pairs[p, here, 0]
            count = _insert(values, deviations, count, r, values[r] - costs[p, here], p, pairs[p, here, 1])
        r += 1
    return count


@inlined
def _fill_incoming(
    transitions: Floats, end: Floats, b: int, p: int, j: int, length: int, best: Floats, back: Floats, incoming: Floats
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
            incoming[i] = before[i] + transitions[b + p, i, j]


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


@kernel
def best_combinations(
    labels: Ints,
    values: Floats,
    offsets: Offsets,
    groups: Offsets,
    out_labels: Ints,
    out_values: Floats,
) -> None:
    """Write the k best labellings of groups of sequences to out_labels [k, T] and out_values [k, G].

    labels [k, T] and values [k, N] are those of the sequences, as `best_labellings` has them; the group g consists of
    the sequences groups[g]..groups[g + 1] - 1, and the value of a combination is the sum of theirs.

    Sequences are added one after another, which combines two sorted lists: the next best is the next in the row of one
    of the first few paths of the one list, and a row is not looked at before something of the row above was taken.
    """
    k = labels.shape[0]
    longest = 0
    for g in range(groups.shape[0] - 1):
        longest = max(longest, groups[g + 1] - groups[g])
    chosen, at = np.empty((longest, k, 2), np.int32), np.empty(k, np.int64)
    sums = np.empty((2, k))
    for g in range(groups.shape[0] - 1):
        first, last = groups[g], groups[g + 1]
        here, count = 0, 1
        sums[0, 0] = 0.0
        for s in range(first, last):
            here = 1 - here
            count = _combine(sums, 1 - here, count, values, s, at, chosen[s - first])
        for r in range(k):
            out_values[r, g] = sums[here, r] if r < count else -np.inf
            place = r
            for s in range(last - 1, first - 1, -1):
                own = NONE
                if r < count:
                    own, place = chosen[s - first, place, 1], chosen[s - first, place, 0]
                for t in range(offsets[s], offsets[s + 1]):
                    out_labels[r, t] = labels[own, t] if r < count else NONE


@inlined
def _combine(sums: Floats, old: int, n_rows: int, values: Floats, s: int, at: Offsets, chosen: Ints) -> int:
    """Write the k largest ``sums[old, i] + values[j, s]``, i < n_rows, to ``sums[1 - old]``; return how many there are.

    chosen [k, 2] receives i and j of each; at [k] is work space.
    """
    count, n_open, k = 0, 1, sums.shape[1]
    at[0] = 0
    while count < k:
        best, largest = -1, -np.inf
        for i in range(n_open):
            if at[i] < k and sums[old, i] + values[at[i], s] > largest:
                best, largest = i, sums[old, i] + values[at[i], s]
        if best < 0:
            break
        sums[1 - old, count], chosen[count, 0], chosen[count, 1] = largest, best, at[best]
        at[best] += 1
        count += 1
        if best == n_open - 1 and n_open < n_rows:
            at[n_open] = 0
            n_open += 1
    return count
