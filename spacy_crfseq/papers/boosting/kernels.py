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

from typing import Any

import numpy as np

from ...kernels.jit import inlined, internal
from ...kernels.math import largest, log_sum
from ...types import Bools, Ints, Offsets
from .memory import Chain, Chains, Change, Data, Numbers, Room, Rows, Steps, Sums

TINY = 1e-200
"""A sum of products under this may lack terms that were rounded to zero (under 1e-308)."""
SAME = 1e-12
"""Logarithms that differ by less are taken for the same."""
NOWHERE: Any = np.int64(0)
"""For a literal, numba would compile `_fill_steps` once more."""


# Loops, where arrays could be added or copied as a whole: numba takes seconds to compile the checks of their shapes.


@inlined
def _copy(source: Numbers, target: Numbers) -> None:
    for k in range(target.shape[0]):
        target[k] = source[k]


@inlined
def _add_parts_to(source: Numbers, target: Numbers) -> None:
    """Add an array [n, 2] to the first rows of another one."""
    for k in range(source.shape[0]):
        target[k, 0] += source[k, 0]
        target[k, 1] += source[k, 1]


@internal
def _fill_steps(first: int, last: int, data: Data, out: Steps) -> None:
    """Compute the steps to some tokens where label-pair weights score them, or those that all share."""
    text, begin, cols, n = data.text, data.rows.begin, data.rows.cols, data.local.shape[1]
    for s in range(last - first if text.pair_ptr.shape[0] else 1):
        logs = out.logs[s]
        for i in range(n):
            _copy(data.theta[data.shared + i * n :], logs[i])
        if text.pair_ptr.shape[0]:
            t = first + s
            for a in text.pair_ids[text.pair_ptr[t] : text.pair_ptr[t + 1]]:
                for k in range(begin[a], begin[a + 1]):
                    logs[cols[k] // n, cols[k] % n] += data.theta[k]
        base = -np.inf
        for i in range(n):
            base = max(base, largest(logs[i]))
        out.base[s] = base
        for i in range(n):
            for j in range(n):
                out.powers[s, i, j] = np.exp(logs[i, j] - base)


@inlined
def _settle(row: Numbers, largest: float, old: Numbers) -> bool:
    """Subtract a number from a row; tell whether it differs from the old one."""
    moved = False
    for k in range(row.shape[0]):
        row[k] -= largest
        moved |= row[k] != old[k] and not abs(row[k] - old[k]) <= SAME
    return moved


@internal
def _exponentials(row: Numbers, out: Numbers) -> float:
    """Write exp(row - largest) to out; return the largest."""
    top = largest(row)
    for k in range(row.shape[0]):
        out[k] = np.exp(row[k] - top)
    return top


@internal
def _advance(
    before: Numbers, logs: Numbers, powers: Numbers, base: float, here: Numbers, sums: Numbers, row: Numbers
) -> None:
    """Add ``log sum_i exp(before_i + step_ij)`` to the row [L]; here and sums [L] are work space."""
    n = row.shape[0]
    shift = _exponentials(before, here)
    sums[:] = 0
    for i in range(n):
        weight = here[i]
        for j in range(n):
            sums[j] += weight * powers[i, j]
    for j in range(n):
        if row[j] == -np.inf:
            continue
        if sums[j] > TINY:
            row[j] += np.log(sums[j]) + base + shift
        else:
            for i in range(n):
                here[i] = before[i] + logs[i, j]
            row[j] += log_sum(here)


@internal
def _retreat(
    ahead: Numbers, logs: Numbers, powers: Numbers, base: float, here: Numbers, sums: Numbers, row: Numbers
) -> None:
    """Write ``log sum_j exp(step_ij + ahead_j)`` to the row [L]; here and sums [L] are work space."""
    n = row.shape[0]
    shift = _exponentials(ahead, here)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += here[j] * powers[i, j]
        if total > TINY:
            row[i] = np.log(total) + base + shift
        else:
            for j in range(n):
                sums[j] = ahead[j] + logs[i, j]
            row[i] = log_sum(sums)


@inlined
def _ahead(local: Numbers, backward: Numbers, gold: int, out: Numbers) -> None:
    """Write local plus backward scores of a token to out [L], minus infinity for other labels than a known one."""
    for k in range(out.shape[0]):
        out[k] = local[k] + backward[k] if gold < 0 or gold == k else -np.inf


@internal
def _recursions(
    local: Numbers, gold: Ints, steps: Steps, changed: Bools, old: Chain, new: Chain, moved: Bools
) -> float:
    """Compute the chain of a sequence of n tokens anew where it can have changed; return log Z.

    local [n, L]; gold [n] clamps the known labels, or is empty; changed [n] tells whose local scores or steps changed;
    old and new [n, L]; moved [n] is set where new differs from old.  The norms of old are overwritten.
    """
    length, n = local.shape
    here, sums, terms = np.empty(n), np.empty(n), np.empty(n)
    (logs, powers, base), (old_forward, old_backward, norms), (forward, backward, _) = steps, old, new
    shared = logs.shape[0] == 1
    active = False  # whether the scores of the neighbour differ from what is remembered
    for t in range(length):
        row = forward[t]
        if not (active or changed[t]):
            _copy(old_forward[t], row)
            continue
        _copy(local[t], row)
        if len(gold) and gold[t] >= 0:
            row[:] = -np.inf
            row[gold[t]] = local[t, gold[t]]
        if t:
            s = 0 if shared else t
            _advance(forward[t - 1], logs[s], powers[s], base[s], here, sums, row)
        norms[t] = log_sum(row)
        active = _settle(row, norms[t], old_forward[t])
        moved[t] |= active
    backward[length - 1, :] = 0
    active = changed[length - 1] and old_backward[length - 1, 0] != 0
    moved[length - 1] |= active
    for t in range(length - 2, -1, -1):
        row = backward[t]
        if not (active or changed[t + 1]):
            _copy(old_backward[t], row)
            continue
        _ahead(local[t + 1], backward[t + 1], gold[t + 1] if len(gold) else -1, terms)
        s = 0 if shared else t + 1
        _retreat(terms, logs[s], powers[s], base[s], here, sums, row)
        active = _settle(row, largest(row), old_backward[t])
        moved[t] |= active
    log_z = 0.0
    for t in range(length):
        log_z += norms[t]
    return log_z


@inlined
def _part(chain: Chain, first: int, last: int) -> Chain:
    return Chain(chain.forward[first:last], chain.backward[first:last], chain.norms[first:last])


@internal
def renew(sequences: Offsets, data: Data, chains: Chains, steps: Steps, nll: Numbers) -> None:
    """Compute the recursions of some sequences with the present weights; write -log P(gold | x) to nll [n].

    The new chains and `moved` have the tokens of these sequences one after another.
    """
    text, at, nothing = data.text, 0, data.text.gold[:0]
    with_pairs = text.pair_ptr.shape[0] > 0
    if not with_pairs:
        _fill_steps(at, at, data, steps)
    for i in range(sequences.shape[0]):
        first, last = text.offsets[sequences[i]], text.offsets[sequences[i] + 1]
        length = last - first
        here = slice(at, at + length)
        at += length
        moved = chains.moved[here]
        moved[:] = False
        nll[i] = 0
        if length == 0:
            continue
        if with_pairs:
            _fill_steps(first, last, data, steps)
        gold, scores, marks = text.gold[first:last], data.local[first:last], data.changed[first:last]
        new = _part(chains.new_free, here.start, here.stop)
        log_z = _recursions(scores, nothing, steps, marks, _part(chains.free, first, last), new, moved)
        if text.partial[sequences[i]]:
            old, new = _part(chains.clamped, first, last), _part(chains.new_clamped, here.start, here.stop)
            nll[i] = log_z - _recursions(scores, gold, steps, marks, old, new, moved)
        elif gold[0] >= 0:
            score = scores[0, gold[0]]
            for t in range(1, length):
                score += scores[t, gold[t]] + steps.logs[t if with_pairs else 0, gold[t - 1], gold[t]]
            nll[i] = log_z - score
        nll[i] = max(nll[i], 0.0)


@inlined
def _at_token(forward: Numbers, backward: Numbers, out: Numbers) -> None:
    """Write P(y_t = j) to out [L]."""
    for j in range(out.shape[0]):
        out[j] = forward[j] + backward[j]
    _exponentials(out, out)
    total = 0.0
    for j in range(out.shape[0]):
        total += out[j]
    for j in range(out.shape[0]):
        out[j] /= total


@internal
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


@internal
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
    begin, cols = rows.begin, rows.cols
    for a in ids:
        dirty[a] = True
        for k in range(begin[a], begin[a + 1]):
            both[k, 0] += d[cols[k], 0]
            both[k, 1] += d[cols[k], 1]


@inlined
def _which(chains: Chains, is_new: int, clamped: int) -> Chain:
    if is_new:
        return chains.new_clamped if clamped else chains.new_free
    return chains.clamped if clamped else chains.free


@inlined
def _room(n: int) -> Room:
    square = (n, n)
    return Room(
        np.empty(n), np.empty(n), np.empty(square), np.empty(square), np.empty(n), np.empty(n), np.empty(n),
        np.empty((n, 2)), np.empty((n * n, 2)), np.zeros(square),
    )  # fmt: skip


@internal
def exchange(
    sequences: Offsets, data: Data, chains: Chains, steps: Steps, change: Change, slopes: Numbers, sums: Sums
) -> int:  # fmt: skip
    """Put new chains in the place of old ones and correct the sums; return the number of tokens visited.

    slopes [n, 2]: Old and new slope of each sequence; an old one of 0 means that it is not in the sums yet.
    """
    text, at = data.text, 0
    room, offsets, moved = _room(data.local.shape[1]), text.offsets, chains.moved
    free, clamped, new_free, new_clamped = chains.free, chains.clamped, chains.new_free, chains.new_clamped
    (forward, backward, _), (new_forward, new_backward, _) = free, new_free
    visited = _count_tokens(sequences, data, chains, slopes, sums, room)
    _count_steps(sequences, data, chains, steps, change, slopes, sums, room)
    for i in range(sequences.shape[0]):
        n = sequences[i]
        first, last, partial = offsets[n], offsets[n + 1], text.partial[n]
        shift = at - first  # from a token to its place in the new chains
        at += last - first
        for t in range(first, last):
            if moved[shift + t]:
                _copy(new_forward[shift + t], forward[t])
                _copy(new_backward[shift + t], backward[t])
                if partial:
                    _copy(new_clamped.forward[shift + t], clamped.forward[t])
                    _copy(new_clamped.backward[shift + t], clamped.backward[t])
    return visited


@internal
def _count_tokens(sequences: Offsets, data: Data, chains: Chains, slopes: Numbers, sums: Sums, room: Room) -> int:
    """Take the old parts of labels off the sums and add the new ones; return how many changed."""
    text, rows, d, p, q, n_labels = data.text, data.rows, room.d, room.p, room.q, data.local.shape[1]
    at, visited, moved, both, dirty = 0, 0, chains.moved, sums.both, sums.dirty
    (forward, backward, _), (new_forward, new_backward, _) = chains.free, chains.new_free
    gold, ids, ptr = text.gold, text.ids, text.ptr
    for i in range(sequences.shape[0]):
        n, old_slope, new_slope = sequences[i], slopes[i, 0], slopes[i, 1]
        shared, partial = sums.shared[sums.groups[n]], text.partial[n]
        first, last = text.offsets[n], text.offsets[n + 1]
        shift = at - first  # from a token to its place in the new chains
        at += last - first
        for t in range(first, last):
            if old_slope == new_slope and not moved[shift + t]:
                continue
            visited += 1
            d[:] = 0
            for is_new in range(2):
                slope = new_slope if is_new else -old_slope
                if slope == 0:
                    continue
                place = shift + t if is_new else t
                if is_new:
                    _at_token(new_forward[place], new_backward[place], p)
                else:
                    _at_token(forward[place], backward[place], p)
                if partial:
                    clamped = _which(chains, is_new, 1)
                    _at_token(clamped.forward[place], clamped.backward[place], q)
                _add_parts(slope, p, q, -1 if partial else gold[t], d)
            _scatter(ids[ptr[t] : ptr[t + 1]], rows, d, both, dirty)
            if t == first:
                _add_parts_to(d, shared[n_labels * n_labels :])
            if t == last - 1:
                _add_parts_to(d, shared[n_labels * n_labels + n_labels :])
    return visited


@internal
def _count_steps(
    sequences: Offsets, data: Data, chains: Chains, steps: Steps, change: Change, slopes: Numbers, sums: Sums,
    room: Room,
) -> None:  # fmt: skip
    """Take the old parts of steps off the sums and add the new ones."""
    text, dd, n_labels, changed, moved = data.text, room.dd, data.local.shape[1], data.changed, chains.moved
    local, gold, ahead, left, right, counts = data.local, text.gold, room.ahead, room.left, room.right, room.counts
    all_logs, all_powers, _ = steps
    at, with_pairs, nothing = 0, text.pair_ptr.shape[0] > 0, Change(-1, 0, 0.0)
    if not with_pairs:
        _fill_steps(at, at, data, steps)
    for i in range(sequences.shape[0]):
        n, old_slope, new_slope = sequences[i], slopes[i, 0], slopes[i, 1]
        shared, partial = sums.shared[sums.groups[n]], text.partial[n]
        first, last = text.offsets[n], text.offsets[n + 1]
        shift = at - first
        at += last - first
        if with_pairs:
            _fill_steps(first, last, data, steps)
        for t in range(first + 1, last):
            if old_slope == new_slope and not (moved[shift + t] or moved[shift + t - 1] or changed[t]):
                continue
            s, slow = t - first if with_pairs else 0, with_pairs or partial
            dd[:] = 0
            for is_new in range(2):
                slope, place = new_slope if is_new else -old_slope, shift + t if is_new else t
                if slope == 0:
                    continue
                # the old scores are those of now less the change
                undo = change if changed[t] and not is_new else nothing
                for part in range(2 if partial else 1):
                    chain = _which(chains, is_new, part)
                    _ahead(local[t], chain.backward[place], gold[t] if part else -1, ahead)
                    if undo.before < 0:
                        ahead[undo.column] -= undo.by
                    before = chain.forward[place - 1]
                    if not (
                        with_pairs or partial
                    ):  # all steps have the same potentials: counts are multiplied at the end
                        _exponentials(before, left)
                        _exponentials(ahead, right)
                        if _count_step(slope, left, all_powers[0], right, gold[t - 1], gold[t], counts, shared):
                            continue
                        slow = True
                    out = room.qq if part else room.pp
                    _at_step(before, all_logs[s], all_powers[s], ahead, undo, left, right, out)
                    if part == partial:
                        known = -1 if partial else gold[t - 1] * n_labels + gold[t]
                        pairs = n_labels * n_labels
                        _add_parts(slope, room.pp.reshape(pairs), room.qq.reshape(pairs), known, dd)
            if slow:
                _add_parts_to(dd, shared)
            if with_pairs:
                ids = text.pair_ids[text.pair_ptr[t] : text.pair_ptr[t + 1]]
                _scatter(ids, data.rows, dd, sums.both, sums.dirty)
        for a in range(n_labels):
            for k in range(n_labels):
                shared[a * n_labels + k, 0] += counts[a, k] * all_powers[0, a, k]
                counts[a, k] = 0


@internal
def collect(
    positions: Ints, pair: bool, column: int, owner: Ints, data: Data, chains: Chains, steps: Steps, out: Numbers
) -> None:
    """Write the probabilities p and q of a label, or label pair, at some positions to out [2, n].

    owner [T]: the sequence of each token.
    """
    text, n_labels = data.text, data.local.shape[1]
    room, nothing, with_pairs = _room(n_labels), Change(-1, 0, 0.0), text.pair_ptr.shape[0] > 0
    if not with_pairs:
        _fill_steps(NOWHERE, NOWHERE, data, steps)
    for i in range(positions.shape[0]):
        t = int(np.int64(positions[i]))
        if pair and with_pairs:
            _fill_steps(t, t + 1, data, steps)
        partial = text.partial[owner[t]]
        for part in range(2 if partial else 1):
            chain = chains.clamped if part else chains.free
            if pair:
                _ahead(data.local[t], chain.backward[t], text.gold[t] if part else -1, room.ahead)
                before, logs, powers = chain.forward[t - 1], steps.logs[0], steps.powers[0]
                _at_step(before, logs, powers, room.ahead, nothing, room.left, room.right, room.pp)
                out[part, i] = room.pp[column // n_labels, column % n_labels]
            else:
                _at_token(chain.forward[t], chain.backward[t], room.p)
                out[part, i] = room.p[column]
        if not partial:
            known = text.gold[t - 1] * n_labels + text.gold[t] if pair else text.gold[t]
            out[1, i] = known == column


@internal
def count(
    positions: Ints, starts: Offsets, pair: bool, column: int, owner: Ints, data: Data, chains: Chains, steps: Steps,
    out: Numbers,
) -> None:  # fmt: skip
    """Write how probable each number of occurrences of a label, or label pair, is to out [n, most positions + 1].

    A forward recursion with an accumulator (Altun, Hofmann & Johnson 2002, eq. 14) from the first to the last position
    of each sequence: ``mass[j, c]`` is the probability of label j and c occurrences so far.

    starts [n + 1]: Where the positions of each sequence begin.  owner [T]: The sequence of each token.
    """
    text, n_labels, most = data.text, data.local.shape[1], out.shape[1]
    here, with_pairs = np.empty(n_labels), text.pair_ptr.shape[0] > 0
    mass, new = np.zeros((n_labels, most)), np.zeros((n_labels, most))
    if not with_pairs:
        _fill_steps(NOWHERE, NOWHERE, data, steps)
    for n in range(starts.shape[0] - 1):
        at, last = starts[n], positions[starts[n + 1] - 1]
        first = text.offsets[owner[last]]
        mass[:] = 0
        if positions[at] > first:
            _exponentials(chains.free.forward[positions[at] - 1], mass[:, 0])
        for t in range(positions[at], last + 1):
            on = t == positions[at]
            at += on
            if with_pairs:
                _fill_steps(t, t + 1, data, steps)
            _exponentials(data.local[t], here)
            new[:] = 0
            for j in range(n_labels):
                for i in range(n_labels if t > first else 1):
                    hit = on and (i * n_labels + j == column if pair else j == column)
                    power = here[j] * steps.powers[0, i, j]
                    if t == first:
                        new[j, int(hit)] = here[j]
                    else:
                        for c in range(most - hit):
                            new[j, c + hit] += mass[i, c] * power
            total = new.sum()
            for j in range(n_labels):
                for c in range(most):
                    mass[j, c] = new[j, c] / total
        _exponentials(chains.free.backward[last], here)
        total = 0.0
        for c in range(most):
            out[n, c] = 0
            for j in range(n_labels):
                out[n, c] += mass[j, c] * here[j]
            total += out[n, c]
        for c in range(most):
            out[n, c] /= total
