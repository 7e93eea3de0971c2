"""Forward-backward that remembers, for boosting: one weight changes, and only what hangs on it is computed anew.

Kept of every token are its local scores (emission, start and end score), the forward scores a_t and the backward scores
b_t, all logarithms in float64::

    a_t(j) = local_t(j) + log sum_i exp(a_{t-1}(i) + step_t(i, j)) - c_t        c_t such that exp(a_t) sums to one
    b_{t-1}(i) = log sum_j exp(step_t(i, j) + local_t(j) + b_t(j)) - max        log Z = sum_t c_t
    P(y_t = j | x) ~ exp(a_t(j) + b_t(j))
    P(y_{t-1} = i, y_t = j | x) ~ exp(a_{t-1}(i) + step_t(i, j) + local_t(j) + b_t(j))

(Rabiner 1989, section V.A.)  Sums are products of small matrices of exponentials; one that comes out smaller than
`TINY` is computed again from logarithms, so that scores of any size are safe.  A recursion stops where it meets what
it remembers: each step of it is a contraction (Birkhoff 1957), so what a change does fades with the distance.

Of every parameter k two sums are kept, over the positions t of all sequences, where p is the probability that the
feature is on at t given the text, and q the same given the known gold labels too::

    plus_k = sum_t slope (1 - q) p          minus_k = sum_t slope q (1 - p)          plus_k - minus_k = dLoss/dw_k
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Ints, Offsets
from ._jit import inlined, kernel

Numbers = NDArray[np.float64]

TINY = 1e-200
"""A sum of products under this may lack terms that were rounded to zero (under 1e-308)."""
SAME = 1e-12
"""Logarithms that differ by less are taken for the same."""


class Rows(NamedTuple):
    """Where the weights of the rows of all groups lie in theta, and which columns they score.

    begin (Offsets): [R + 1] row r has the parameters begin[r]:begin[r + 1].
    cols (Ints): [D] label of a state weight, ``previous * L + label`` of a pair weight, 0 of a shared score.
    pair (int): Number of the first row of the pair group.
    """

    begin: Offsets
    cols: Ints
    pair: int


class Text(NamedTuple):
    """The training set.

    offsets (Offsets): [N + 1].
    gold (Ints): [T], -1 where missing.
    partial (Bools): [N] whether some labels of a sequence are known and some missing.
    ptr, ids: [T + 1] and [n], rows of the state group that each token switches on.
    pair_ptr, pair_ids: The same of the pair group, numbered as among all rows; pair_ptr is empty without such a group.
    held_ptr, held: [N + 1] and [m], rows of either group that a sequence holds, each once.
    """

    offsets: Offsets
    gold: Ints
    partial: Bools
    ptr: Offsets
    ids: Ints
    pair_ptr: Offsets
    pair_ids: Ints
    held_ptr: Offsets
    held: Ints


class Chain(NamedTuple):
    """What is remembered of the recursions; of the clamped ones as many tokens, or none where no label is missing.

    forward, backward (Numbers): [T, L].
    norms (Numbers): [T] c_t.
    """

    forward: Numbers
    backward: Numbers
    norms: Numbers


class Steps(NamedTuple):
    """Scores of steps: of all (S = 1), or of each token of the longest sequence.

    logs, powers (Numbers): [S, L, L] scores, and exp(score - base).
    base (Numbers): [S] the largest score.
    """

    logs: Numbers
    powers: Numbers
    base: Numbers


class Sums(NamedTuple):
    """What is known of every parameter.

    both (Numbers): [D, 2] plus and minus; not used for shared scores.
    shared (Numbers): [groups, L * (L + 2), 2] the same of shared scores, sequences of like length together.
    mass (Numbers): [R] sum of slope (1 - P(gold)) of the sequences that hold a row; empty where it is not needed.
    dirty (Bools): [R] rows of which something has changed.
    """

    both: Numbers
    shared: Numbers
    mass: Numbers
    dirty: Bools


class Change(NamedTuple):
    """A weight that was changed: of label `column` (before is negative), or of the step from `before` to `column`."""

    before: int
    column: int
    by: float


# Loops, where arrays could be added or copied as a whole: numba takes seconds to compile the checks of their shapes.


@inlined
def _copy(source: Numbers, target: Numbers) -> None:
    for k in range(target.shape[0]):
        target[k] = source[k]


@inlined
def _add(source: Numbers, target: Numbers) -> None:
    for k in range(source.shape[0]):
        target[k] += source[k]


@inlined
def _add_parts_to(source: Numbers, target: Numbers) -> None:
    """Add an array [n, 2] to the first rows of another one."""
    for k in range(source.shape[0]):
        target[k, 0] += source[k, 0]
        target[k, 1] += source[k, 1]


@kernel
def local_scores(theta: Numbers, rows: Rows, text: Text, start: Numbers, end: Numbers, out: Numbers) -> None:
    """Write the sums of the state weights of each token, plus start and end scores [L], to out [T, L]."""
    for n in range(text.offsets.shape[0] - 1):
        first, last = text.offsets[n], text.offsets[n + 1]
        for t in range(first, last):
            row = out[t]
            row[:] = 0
            for a in text.ids[text.ptr[t] : text.ptr[t + 1]]:
                for k in range(rows.begin[a], rows.begin[a + 1]):
                    row[rows.cols[k]] += theta[k]
            if t == first:
                _add(start, row)
            if t == last - 1:
                _add(end, row)


@kernel
def _fill_steps(
    first: int, last: int, theta: Numbers, rows: Rows, text: Text, transitions: Numbers, out: Steps
) -> None:
    """Compute the steps to some tokens where label-pair weights score them, or those that all share."""
    n_labels = transitions.shape[0]
    for s in range(last - first if text.pair_ptr.shape[0] else 1):
        logs = out.logs[s]
        for i in range(n_labels):
            _copy(transitions[i], logs[i])
        if text.pair_ptr.shape[0]:
            t = first + s
            for a in text.pair_ids[text.pair_ptr[t] : text.pair_ptr[t + 1]]:
                for k in range(rows.begin[a], rows.begin[a + 1]):
                    logs[rows.cols[k] // n_labels, rows.cols[k] % n_labels] += theta[k]
        base = -np.inf
        for i in range(n_labels):
            for j in range(n_labels):
                base = max(base, logs[i, j])
        out.base[s] = base
        for i in range(n_labels):
            for j in range(n_labels):
                out.powers[s, i, j] = np.exp(logs[i, j] - base)


@inlined
def _settle(row: Numbers, largest: float, old: Numbers) -> bool:
    """Subtract a number from a row; tell whether it differs from the old one."""
    moved = False
    for k in range(row.shape[0]):
        row[k] -= largest
        moved |= row[k] != old[k] and not abs(row[k] - old[k]) <= SAME
    return moved


@kernel
def _exponentials(row: Numbers, out: Numbers) -> float:
    """Write exp(row - largest) to out; return the largest."""
    largest = -np.inf
    for x in row:
        largest = max(largest, x)
    for k in range(row.shape[0]):
        out[k] = np.exp(row[k] - largest)
    return largest


@inlined
def _largest(row: Numbers) -> float:
    largest = row[0]
    for x in row:
        largest = max(largest, x)
    return largest


@kernel
def _log_sum(row: Numbers) -> float:
    largest, total = -np.inf, 0.0
    for x in row:
        largest = max(largest, x)
    if largest == -np.inf:
        return largest
    for x in row:
        total += np.exp(x - largest)
    return largest + np.log(total)


@kernel
def _recursions(
    local: Numbers, gold: Ints, steps: Steps, changed: Bools, old: Chain, new: Chain, moved: Bools
) -> float:
    """Compute the chain of a sequence of n tokens anew where it can have changed; return log Z.

    local [n, L]; gold [n] clamps the known labels, or is empty; changed [n] tells whose local scores or steps changed;
    old and new [n, L]; moved [n] is set where new differs from old.  The norms of old are overwritten.
    """
    length, n = local.shape
    here, here_too, sums, terms = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    shared = steps.logs.shape[0] == 1
    active = False
    for t in range(length):
        row = new.forward[t]
        if not (active or changed[t]):
            _copy(old.forward[t], row)
            continue
        _copy(local[t], row)
        if len(gold) and gold[t] >= 0:
            row[:] = -np.inf
            row[gold[t]] = local[t, gold[t]]
        if t:
            s = 0 if shared else t
            shift = _exponentials(new.forward[t - 1], here)
            sums[:] = 0
            for i in range(n):
                weight, powers = here[i], steps.powers[s, i]
                for j in range(n):
                    sums[j] += weight * powers[j]
            for j in range(n):
                if row[j] == -np.inf:
                    continue
                if sums[j] > TINY:
                    row[j] += np.log(sums[j]) + steps.base[s] + shift
                else:
                    for i in range(n):
                        terms[i] = new.forward[t - 1, i] + steps.logs[s, i, j]
                    row[j] += _log_sum(terms)
        old.norms[t] = _log_sum(row)
        active = _settle(row, old.norms[t], old.forward[t])
        moved[t] |= active
    active = False
    for t in range(length - 1, -1, -1):
        row = new.backward[t]
        if t == length - 1:
            row[:] = 0
            if changed[t]:
                active = old.backward[t, 0] != 0
                moved[t] |= active
            continue
        if not (active or changed[t + 1]):
            _copy(old.backward[t], row)
            continue
        s = 0 if shared else t + 1
        for j in range(n):
            terms[j] = local[t + 1, j] + new.backward[t + 1, j]
            if len(gold) and gold[t + 1] >= 0 and j != gold[t + 1]:
                terms[j] = -np.inf
        largest = _exponentials(terms, here)
        for i in range(n):
            total, powers = 0.0, steps.powers[s, i]
            for j in range(n):
                total += here[j] * powers[j]
            if total > TINY:
                row[i] = np.log(total) + steps.base[s] + largest
            else:
                for j in range(n):
                    here_too[j] = terms[j] + steps.logs[s, i, j]
                row[i] = _log_sum(here_too)
        active = _settle(row, _largest(row), old.backward[t])
        moved[t] |= active
    log_z = 0.0
    for t in range(length):
        log_z += old.norms[t]
    return log_z


@inlined
def _part(chain: Chain, first: int, last: int) -> Chain:
    return Chain(chain.forward[first:last], chain.backward[first:last], chain.norms[first:last])


@kernel
def renew(
    sequences: Offsets,
    theta: Numbers,
    rows: Rows,
    text: Text,
    local: Numbers,
    transitions: Numbers,
    changed: Bools,
    free: Chain,
    clamped: Chain,
    new_free: Chain,
    new_clamped: Chain,
    moved: Bools,
    steps: Steps,
    nll: Numbers,
) -> None:
    """Compute the recursions of some sequences with the present weights; write -log P(gold | x) to nll [n].

    The new chains and `moved` have the tokens of these sequences one after another.
    """
    at, nothing = 0, text.gold[:0]
    if not text.pair_ptr.shape[0]:
        _fill_steps(at, at, theta, rows, text, transitions, steps)
    for i in range(sequences.shape[0]):
        first, last = text.offsets[sequences[i]], text.offsets[sequences[i] + 1]
        length = last - first
        here = slice(at, at + length)
        at += length
        moved[here] = False
        nll[i] = 0
        if length == 0:
            continue
        if text.pair_ptr.shape[0]:
            _fill_steps(first, last, theta, rows, text, transitions, steps)
        gold = text.gold[first:last]
        new = _part(new_free, here.start, here.stop)
        scores, marks = local[first:last], changed[first:last]
        log_z = _recursions(scores, nothing, steps, marks, _part(free, first, last), new, moved[here])
        if text.partial[sequences[i]]:
            old, new = _part(clamped, first, last), _part(new_clamped, here.start, here.stop)
            nll[i] = log_z - _recursions(scores, gold, steps, marks, old, new, moved[here])
        elif gold[0] >= 0:
            score = scores[0, gold[0]]
            for t in range(1, length):
                s = t if text.pair_ptr.shape[0] else 0
                score += scores[t, gold[t]] + steps.logs[s, gold[t - 1], gold[t]]
            nll[i] = log_z - score
        nll[i] = max(nll[i], 0.0)


@inlined
def _at_token(forward: Numbers, backward: Numbers, out: Numbers) -> None:
    """Write P(y_t = j) to out [L]."""
    total, largest = 0.0, -np.inf
    for j in range(out.shape[0]):
        out[j] = forward[j] + backward[j]
        largest = max(largest, out[j])
    for j in range(out.shape[0]):
        out[j] = np.exp(out[j] - largest)
        total += out[j]
    for j in range(out.shape[0]):
        out[j] /= total


@kernel
def _at_step(
    forward: Numbers, logs: Numbers, powers: Numbers, ahead: Numbers, change: Change, left: Numbers, right: Numbers,
    out: Numbers,
) -> None:  # fmt: skip
    """Write P(y_{t-1} = i, y_t = j) to out [L, L].

    forward [L] of t - 1, ahead [L] the local and backward scores of t; `change` is undone before, if it is of a step.
    left and right [L] are used on the way.
    """
    n = forward.shape[0]
    _exponentials(forward, left)
    _exponentials(ahead, right)
    for i in range(n):
        for j in range(n):
            out[i, j] = left[i] * powers[i, j] * right[j]
    if change.before >= 0:
        out[change.before, change.column] *= np.exp(-change.by)
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += out[i, j]
    if not TINY < total < 1 / TINY:
        largest = -np.inf
        for i in range(n):
            for j in range(n):
                out[i, j] = forward[i] + logs[i, j] + ahead[j]
                if i == change.before and j == change.column:
                    out[i, j] -= change.by
                largest = max(largest, out[i, j])
        total = 0.0
        for i in range(n):
            for j in range(n):
                out[i, j] = np.exp(out[i, j] - largest)
                total += out[i, j]
    for i in range(n):
        for j in range(n):
            out[i, j] /= total


@inlined
def _add_parts(factor: float, p: Numbers, q: Numbers, gold: int, out: Numbers) -> None:
    """Add factor times (1 - q) p and q (1 - p) to out [C, 2]; q is one at `gold` and zero elsewhere, or gold is -1."""
    if gold < 0:
        for k in range(p.shape[0]):
            out[k, 0] += factor * (1 - q[k]) * p[k]
            out[k, 1] += factor * q[k] * (1 - p[k])
        return
    kept, others = out[gold, 0], 0.0
    for k in range(p.shape[0]):
        out[k, 0] += factor * p[k]
        others += p[k]
    out[gold, 0] = kept
    out[gold, 1] += factor * (others - p[gold])  # 1 - p, without cancellation where p is close to one


@kernel
def _count_step(
    slope: float, left: Numbers, powers: Numbers, right: Numbers, before: int, gold: int, counts: Numbers,
    shared: Numbers,
) -> bool:  # fmt: skip
    """Add slope times the parts of a step to shared [at least L * L, 2]; return whether that can be done.

    left_i powers_ij right_j is in proportion to its probabilities; what they add to `plus` is left in counts [L, L],
    still to be multiplied by the powers.
    """
    n, total = left.shape[0], 0.0
    for i in range(n):
        row, ends = powers[i], 0.0
        for j in range(n):
            ends += row[j] * right[j]
        total += left[i] * ends
    if not total > TINY:
        return False
    factor = slope / total
    for i in range(n):
        mass, row = factor * left[i], counts[i]
        for j in range(n):
            row[j] += mass * right[j]
    own = factor * left[before] * powers[before, gold] * right[gold]
    shared[before * n + gold, 0] -= own
    shared[before * n + gold, 1] += slope - own
    return True


@inlined
def _scatter(ids: Ints, rows: Rows, d: Numbers, both: Numbers, dirty: Bools) -> None:
    """Add the columns of d [C, 2] to rows."""
    for a in ids:
        dirty[a] = True
        for k in range(rows.begin[a], rows.begin[a + 1]):
            both[k, 0] += d[rows.cols[k], 0]
            both[k, 1] += d[rows.cols[k], 1]


@kernel
def exchange(
    sequences: Offsets,
    theta: Numbers,
    rows: Rows,
    text: Text,
    local: Numbers,
    transitions: Numbers,
    changed: Bools,
    free: Chain,
    clamped: Chain,
    new_free: Chain,
    new_clamped: Chain,
    moved: Bools,
    steps: Steps,
    change: Change,
    slopes: Numbers,
    masses: Numbers,
    groups: Ints,
    sums: Sums,
) -> int:
    """Put new chains in the place of old ones and correct the sums; return the number of tokens visited.

    slopes, masses [n, 2] old and new slope of each sequence, and the same times 1 - P(gold); an old slope of 0 means
    that the sequence is not in the sums yet.  groups [N] the group of each sequence among the shared sums.
    """
    n_labels = transitions.shape[0]
    pairs = n_labels * n_labels
    p, q, ahead = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    left, right = np.empty(n_labels), np.empty(n_labels)
    pp, qq = np.empty((n_labels, n_labels)), np.empty((n_labels, n_labels))
    d, dd, counts = np.empty((n_labels, 2)), np.empty((pairs, 2)), np.zeros((n_labels, n_labels))
    nothing = Change(-1, 0, 0.0)
    with_pairs = text.pair_ptr.shape[0] > 0
    at, visited = 0, 0
    if not with_pairs:
        _fill_steps(at, at, theta, rows, text, transitions, steps)
    for i in range(sequences.shape[0]):
        n = sequences[i]
        first, last = text.offsets[n], text.offsets[n + 1]
        shared = sums.shared[groups[n]]
        partial = text.partial[n]
        shift = at - first
        at += last - first
        if with_pairs:
            _fill_steps(first, last, theta, rows, text, transitions, steps)
        all_of_it = slopes[i, 0] != slopes[i, 1]
        for t in range(first, last):
            if not (all_of_it or moved[shift + t]):
                continue
            visited += 1
            d[:] = 0
            for sign in range(2):
                slope = slopes[i, 1] if sign else -slopes[i, 0]
                if slope == 0:
                    continue
                if sign:
                    _at_token(new_free.forward[shift + t], new_free.backward[shift + t], p)
                    if partial:
                        _at_token(new_clamped.forward[shift + t], new_clamped.backward[shift + t], q)
                else:
                    _at_token(free.forward[t], free.backward[t], p)
                    if partial:
                        _at_token(clamped.forward[t], clamped.backward[t], q)
                _add_parts(slope, p, q, -1 if partial else text.gold[t], d)
            _scatter(text.ids[text.ptr[t] : text.ptr[t + 1]], rows, d, sums.both, sums.dirty)
            if t == first:
                _add_parts_to(d, shared[pairs:])
            if t == last - 1:
                _add_parts_to(d, shared[pairs + n_labels :])
        for t in range(first + 1, last):
            if not (all_of_it or moved[shift + t] or moved[shift + t - 1] or changed[t]):
                continue
            s, slow = t - first if with_pairs else 0, with_pairs or partial
            dd[:] = 0
            for sign in range(2):
                slope = slopes[i, 1] if sign else -slopes[i, 0]
                if slope == 0:
                    continue
                undo = change if changed[t] and not sign else nothing
                if not (with_pairs or partial):
                    for k in range(n_labels):
                        ahead[k] = local[t, k] + (new_free.backward[shift + t, k] if sign else free.backward[t, k])
                    ahead[undo.column] -= undo.by
                    before = new_free.forward[shift + t - 1] if sign else free.forward[t - 1]
                    _exponentials(before, left)
                    _exponentials(ahead, right)
                    if _count_step(slope, left, steps.powers[0], right, text.gold[t - 1], text.gold[t], counts, shared):
                        continue
                    slow = True
                for part in range(2 if partial else 1):
                    before = (
                        (new_clamped if part else new_free).forward[shift + t - 1]
                        if sign
                        else (clamped if part else free).forward[t - 1]
                    )
                    after = (
                        (new_clamped if part else new_free).backward[shift + t]
                        if sign
                        else (clamped if part else free).backward[t]
                    )
                    for k in range(n_labels):
                        ahead[k] = local[t, k] + after[k]
                        if part and text.gold[t] >= 0 and text.gold[t] != k:
                            ahead[k] = -np.inf
                    if undo.before < 0:
                        ahead[undo.column] -= undo.by
                    _at_step(before, steps.logs[s], steps.powers[s], ahead, undo, left, right, qq if part else pp)
                known = -1 if partial else text.gold[t - 1] * n_labels + text.gold[t]
                _add_parts(slope, pp.reshape(pairs), qq.reshape(pairs), known, dd)
            if slow:
                _add_parts_to(dd, shared)
            if with_pairs:
                _scatter(text.pair_ids[text.pair_ptr[t] : text.pair_ptr[t + 1]], rows, dd, sums.both, sums.dirty)
        for a in range(n_labels):
            for k in range(n_labels):
                shared[a * n_labels + k, 0] += counts[a, k] * steps.powers[0, a, k]
                counts[a, k] = 0
        for t in range(first, last):
            if not moved[shift + t]:
                continue
            _copy(new_free.forward[shift + t], free.forward[t])
            _copy(new_free.backward[shift + t], free.backward[t])
            if partial:
                _copy(new_clamped.forward[shift + t], clamped.forward[t])
                _copy(new_clamped.backward[shift + t], clamped.backward[t])
        if sums.mass.shape[0] and masses[i, 0] != masses[i, 1]:
            for a in text.held[text.held_ptr[n] : text.held_ptr[n + 1]]:
                sums.mass[a] += masses[i, 1] - masses[i, 0]
                sums.dirty[a] = True
    return visited


@kernel
def reach(
    first_row: int, row_ptr: Offsets, tokens: Ints, columns: Ints, owner: Ints, rows: Rows,
    low: Numbers, high: Numbers, length: Numbers,
) -> None:  # fmt: skip
    """Say how far the counts of each feature of a group can be from the gold ones in one sequence.

    row_ptr [R + 1] and tokens: where each row is on.  columns [T]: the gold column, -1 where missing.  owner [T]: the
    sequence, -1 for tokens that are passed over.  low [D]: most positions with a row and the feature's column in the
    gold labels or missing ones.  high [D]: most that do not have it for certain.  length [R]: positions with the row in
    a sequence, the mean over such positions.
    """
    width = 0
    for k in range(rows.begin[first_row], rows.begin[first_row + row_ptr.shape[0] - 1]):
        width = max(width, rows.cols[k] + 1)
    counts = np.zeros(width)
    for r in range(row_ptr.shape[0] - 1):
        a = first_row + r
        total, squares = 0.0, 0.0
        i, end = row_ptr[r], row_ptr[r + 1]
        while i < end:
            n, begin, missing = owner[tokens[i]], i, 0
            while i < end and owner[tokens[i]] == n:
                column = columns[tokens[i]]
                missing += column < 0
                if 0 <= column < width:
                    counts[column] += 1
                i += 1
            size = i - begin
            for k in range(rows.begin[a], rows.begin[a + 1] if n >= 0 else 0):
                known = counts[rows.cols[k]]
                low[k] = max(low[k], known + missing)
                high[k] = max(high[k], size - known)
            for column in columns[tokens[begin:i]]:
                if 0 <= column < width:
                    counts[column] = 0
            if n >= 0:
                total += size
                squares += size * size
        length[a] = squares / max(total, 1.0)


@kernel
def best_step(a: float, low: float, b: float, high: float, limit: float) -> float:
    """Return the x of at most +-limit that minimises ``a exp(-x low) + b exp(x high)``, all numbers positive or 0."""
    down, up = a * low, b * high
    if down <= 0 and up <= 0:
        return 0.0
    if down <= 0:
        return -limit
    if up <= 0:
        return limit
    return max(-limit, min(limit, np.log(down / up) / (low + high)))


@kernel
def rank(
    local: bool, limit: float, rows: Rows, sums: Sums, low: Numbers, high: Numbers, length: Numbers,
    gains: Numbers, best: Offsets,
) -> None:  # fmt: skip
    """Note the largest guaranteed decrease of each dirty row in gains [R], its parameter in best [R]; clean the rows.

    local: by the bound on positions; else by the loose one on sequences.
    """
    for r in range(gains.shape[0]):
        if not sums.dirty[r]:
            continue
        sums.dirty[r] = False
        gains[r] = 0
        for k in range(rows.begin[r], rows.begin[r + 1]):
            plus, minus = max(sums.both[k, 0], 0.0), max(sums.both[k, 1], 0.0)
            if local:
                down = up = max(length[r], 1.0)
                a, b = minus / down, plus / down
            else:
                down, up = low[k], high[k]
                if down + up == 0:
                    continue
                a = max(up * sums.mass[r] - plus + minus, 0.0) / (down + up)
                b = max(plus - minus + down * sums.mass[r], 0.0) / (down + up)
            x = best_step(a, down, b, up, limit)
            gain = a + b - a * np.exp(-x * down) - b * np.exp(x * up)
            if gain > gains[r]:
                gains[r] = gain
                best[r] = k


@kernel
def collect(
    positions: Ints,
    pair: bool,
    column: int,
    owner: Ints,
    theta: Numbers,
    rows: Rows,
    text: Text,
    local: Numbers,
    transitions: Numbers,
    free: Chain,
    clamped: Chain,
    steps: Steps,
    p: Numbers,
    q: Numbers,
) -> None:
    """Write the probabilities p and q of a label, or label pair, at some positions to p and q [n].

    owner [T]: the sequence of each token.
    """
    n_labels = transitions.shape[0]
    ahead, left, right, here = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    both = np.empty((n_labels, n_labels))
    nothing = Change(-1, 0, 0.0)
    for i in range(positions.shape[0]):
        t = int(positions[i])
        if pair:
            _fill_steps(t, t + 1, theta, rows, text, transitions, steps)
        for part in range(2 if text.partial[owner[t]] else 1):
            chain = clamped if part else free
            if pair:
                for k in range(n_labels):
                    ahead[k] = local[t, k] + chain.backward[t, k]
                    if part and text.gold[t] >= 0 and text.gold[t] != k:
                        ahead[k] = -np.inf
                _at_step(chain.forward[t - 1], steps.logs[0], steps.powers[0], ahead, nothing, left, right, both)
                found = both[column // n_labels, column % n_labels]
            else:
                _at_token(chain.forward[t], chain.backward[t], here)
                found = here[column]
            if part:
                q[i] = found
            else:
                p[i] = found
        if not text.partial[owner[t]]:
            known = text.gold[t - 1] * n_labels + text.gold[t] if pair else text.gold[t]
            q[i] = known == column


@inlined
def _slope(a: Numbers, low: Numbers, b: Numbers, high: Numbers, x: float) -> tuple[float, float]:
    """Return the first and second derivative of what `minimise` minimises."""
    slope, bend = 0.0, 0.0
    for n in range(a.shape[0]):
        down, up = a[n] * low[n] * np.exp(-x * low[n]), b[n] * high[n] * np.exp(x * high[n])
        slope += up - down
        bend += up * high[n] + down * low[n]
    return slope, bend


@kernel
def minimise(a: Numbers, low: Numbers, b: Numbers, high: Numbers, limit: float) -> tuple[float, float]:
    """Return the x of at most +-limit that minimises ``sum_n a (exp(-x low) - 1) + b (exp(x high) - 1)``, and the fall.

    Newton's method inside an interval that holds the minimum, which is halved where a step would leave it.
    """
    left, right, x = -limit, limit, 0.0
    if _slope(a, low, b, high, left)[0] >= 0:
        x, right = left, left
    elif _slope(a, low, b, high, right)[0] <= 0:
        x, left = right, right
    while right - left > 1e-10:
        slope, bend = _slope(a, low, b, high, x)
        if slope > 0:
            right = x
        else:
            left = x
        following = x - slope / bend
        if not left < following < right:
            following = (left + right) / 2
        if abs(following - x) < 1e-10:
            break
        x = following
    value = 0.0
    for n in range(a.shape[0]):
        value += a[n] * np.expm1(-x * low[n]) + b[n] * np.expm1(x * high[n])
    return x, -value
