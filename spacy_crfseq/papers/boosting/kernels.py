"""Forward-backward for boosting: one weight changes, and only the sequences that hold its feature are computed anew.

Kept of every token are its local scores (emission, start and end score), the forward scores a_t and the backward scores
b_t, all logarithms in float64::

    a_t(j) = local_t(j) + log sum_i exp(a_{t-1}(i) + step_t(i, j)) - c_t        c_t such that exp(a_t) sums to one
    b_{t-1}(i) = log sum_j exp(step_t(i, j) + local_t(j) + b_t(j)) - max        log Z = sum_t c_t
    P(y_t = j | x) ~ exp(a_t(j) + b_t(j))
    P(y_{t-1} = i, y_t = j | x) ~ exp(a_{t-1}(i) + step_t(i, j) + local_t(j) + b_t(j))

(Rabiner 1989, section V.A.)  SignedSums are products of small matrices of exponentials; one that comes out smaller than
`TINY` is computed again from logarithms, so that scores of any size are safe.

Of every parameter k two sums are kept, over the positions t of all sequences, where p is the probability that the
feature is on at t given the text, and q the same given the known gold labels too::

    plus_k = sum_t slope (1 - q) p          minus_k = sum_t slope q (1 - p)          plus_k - minus_k = dLoss/dw_k
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels.jit import inlined, internal, kernel
from ...kernels.sequences import largest, log_sum
from ...types import Bools, Ints, Offsets

Numbers = NDArray[np.float64]
Steps = tuple[Numbers, Numbers, Numbers]
"""Scores of steps, exp(score - base), both [S, L, L], and the base, the largest score [S]: of all, or of each token."""
LARGEST_EXPONENT = 600.0
TINY = 1e-200
"""A sum of products under this may lack terms that were rounded to zero (under 1e-308)."""


class BoostedText(NamedTuple):
    """The training set, and the R rows of parameters.

    offsets (Offsets): [N + 1].
    gold (Ints): [T], -1 where missing.
    partial (Bools): [N] whether some labels of a sequence are known and some missing.
    groups (Ints): [N] the group of each sequence among the sums of shared scores.
    ptr, ids: [T + 1] and [n], rows of the state group that each token switches on.
    pair_ptr, pair_ids: The same of the pair group, numbered as among all rows; pair_ptr is empty without such a group.
    begin (Offsets): [R + 1] row r has the parameters begin[r]:begin[r + 1]; each shared score is a row of its own.
    cols (Ints): [D] label of a state weight, start or end score, ``previous * L + label`` of a pair weight or a
        transition.
    """

    offsets: Offsets
    gold: Ints
    partial: Bools
    groups: Ints
    ptr: Offsets
    ids: Ints
    pair_ptr: Offsets
    pair_ids: Ints
    begin: Offsets
    cols: Ints


class Chains(NamedTuple):
    """The weights theta [D], local scores [T, L], forward and backward scores [C, T, L].

    C is 2 if labels are missing: the second recursions are clamped to the known labels.
    """

    theta: Numbers
    local: Numbers
    forward: Numbers
    backward: Numbers


class SignedSums(NamedTuple):
    """The sums of every parameter.

    both (Numbers): [D, 2] plus and minus; those of shared scores only while bounds on sequences are compared.
    shared (Numbers): [groups, L * (L + 2), 2] the same of shared scores, sequences of similar length together.
    dirty (Bools): [R] rows of which something has changed.
    """

    both: Numbers
    shared: Numbers
    dirty: Bools


# Loops, where arrays could be added or copied as a whole: numba takes seconds to compile the checks of their shapes.


@internal
def _make_steps(first: int, last: int, text: BoostedText, chains: Chains) -> Steps:
    """Return the steps to the tokens first..last-1 where label-pair weights score them, or those that all share."""
    theta, with_pairs, n = chains.theta, text.pair_ptr.shape[0] > 0, chains.local.shape[1]
    size, shared = last - first if with_pairs else 1, text.cols.shape[0] - n * (n + 2)
    logs, powers, base = np.empty((size, n, n)), np.empty((size, n, n)), np.empty(size)
    # transitions, which all steps share, and then the weights of the label-pair features of the token
    for s in range(size):
        flat = logs[s].reshape(n * n)
        for k in range(n * n):
            flat[k] = theta[shared + k]
        if with_pairs:
            for a in text.pair_ids[text.pair_ptr[first + s] : text.pair_ptr[first + s + 1]]:
                for k in range(text.begin[a], text.begin[a + 1]):
                    flat[text.cols[k]] += theta[k]
        base[s] = _exponentials(flat, powers[s].reshape(n * n))
    return logs, powers, base


@internal
def _exponentials(row: Numbers, out: Numbers) -> float:
    """Write exp(row - largest) to out; return the largest."""
    top = largest(row)
    for k in range(row.shape[0]):
        out[k] = np.exp(row[k] - top)
    return top


@inlined
def _shift(row: Numbers, by: float) -> float:
    """Subtract a number from a row; return it."""
    for k in range(row.shape[0]):
        row[k] -= by
    return by


@internal
def _ahead(local: Numbers, backward: Numbers, gold: int, out: Numbers) -> None:
    """Write local plus backward scores of a token to out [L], minus infinity for other labels than a known one."""
    for k in range(out.shape[0]):
        out[k] = local[k] + backward[k] if gold < 0 or gold == k else -np.inf


@internal
def _advance(before: Numbers, logs: Numbers, powers: Numbers, base: float, row: Numbers) -> None:
    """Add ``log sum_i exp(before_i + step_ij)`` to the row [L]."""
    n = row.shape[0]
    weights, sums = np.empty(n), np.zeros(n)
    shift = _exponentials(before, weights)
    # sums_j = sum_i exp(before_i + step_ij - shift - base), in the order of memory
    for i in range(n):
        weight = weights[i]
        for j in range(n):
            sums[j] += weight * powers[i, j]
    # sums that may lack terms are computed again from logarithms
    for j in range(n):
        if row[j] == -np.inf:
            continue
        if sums[j] > TINY:
            row[j] += np.log(sums[j]) + base + shift
        else:
            for i in range(n):
                weights[i] = before[i] + logs[i, j]
            row[j] += log_sum(weights)


@internal
def _retreat(ahead: Numbers, logs: Numbers, powers: Numbers, base: float, row: Numbers) -> None:
    """Write ``log sum_j exp(step_ij + ahead_j)`` to the row [L]."""
    n = row.shape[0]
    exponentials, terms = np.empty(n), np.empty(n)
    shift = _exponentials(ahead, exponentials)
    # the same from the right, a row of the matrix for each label before
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += exponentials[j] * powers[i, j]
        if total > TINY:
            row[i] = np.log(total) + base + shift
        else:
            for j in range(n):
                terms[j] = ahead[j] + logs[i, j]
            row[i] = log_sum(terms)


@internal
def _recursions(s: int, clamped: int, text: BoostedText, chains: Chains, steps: Steps) -> float:
    """Compute forward and backward scores of a sequence that is not empty; return log Z."""
    first, last, local, gold = text.offsets[s], text.offsets[s + 1], chains.local, text.gold
    forward, backward = chains.forward[clamped], chains.backward[clamped]
    ahead, nothing, log_z = np.empty(local.shape[1]), np.zeros(local.shape[1]), 0.0
    logs, powers, base = steps
    stride = 0 if logs.shape[0] == 1 else 1  # all tokens share one matrix, or each has its own
    # forward scores of each token, shifted so that they sum to one; the shifts add up to log Z
    for t in range(first, last):
        _ahead(local[t], nothing, gold[t] if clamped else -1, forward[t])
        if t > first:
            k = stride * (t - first)
            _advance(forward[t - 1], logs[k], powers[k], base[k], forward[t])
        log_z += _shift(forward[t], log_sum(forward[t]))
    for k in range(local.shape[1]):
        backward[last - 1, k] = 0
    # backward scores, shifted so that the largest is zero
    for t in range(last - 1, first, -1):
        _ahead(local[t], backward[t], gold[t] if clamped else -1, ahead)
        k = stride * (t - first)
        _retreat(ahead, logs[k], powers[k], base[k], backward[t - 1])
        _shift(backward[t - 1], largest(backward[t - 1]))
    return log_z


@kernel
def renew(sequences: Offsets, text: BoostedText, chains: Chains, nll: Numbers) -> None:
    """Compute the recursions of some sequences with the present weights; write -log P(gold | x) to nll [n]."""
    for i in range(sequences.shape[0]):
        s = sequences[i]
        first, last = text.offsets[s], text.offsets[s + 1]
        nll[i] = 0
        if first == last:
            continue
        steps = _make_steps(first, last, text, chains)
        log_z = _recursions(s, 0, text, chains, steps)
        if text.partial[s]:
            nll[i] = log_z - _recursions(s, 1, text, chains, steps)
        elif text.gold[first] >= 0:
            score, logs = 0.0, steps[0]
            for t in range(first, last):
                score += chains.local[t, text.gold[t]]
                if t > first:
                    score += logs[t - first if logs.shape[0] > 1 else 0, text.gold[t - 1], text.gold[t]]
            nll[i] = log_z - score
        nll[i] = max(nll[i], 0.0)


@internal
def _at_token(forward: Numbers, backward: Numbers, out: Numbers) -> None:
    """Write P(y_t = j) to out [L]."""
    for j in range(out.shape[0]):
        out[j] = forward[j] + backward[j]
    _exponentials(out, out)
    _divide(out)


@inlined
def _divide(row: Numbers) -> float:
    """Divide a row by its sum, unless that is not between `TINY` and its inverse; return the sum."""
    total = 0.0
    for k in range(row.shape[0]):
        total += row[k]
    if TINY < total < 1 / TINY:
        for k in range(row.shape[0]):
            row[k] /= total
    return total


@internal
def _at_step(forward: Numbers, logs: Numbers, powers: Numbers, ahead: Numbers, out: Numbers) -> None:
    """Write P(y_{t-1} = i, y_t = j) to out [L, L]; forward [L] of t - 1, ahead [L] local and backward scores of t."""
    n = forward.shape[0]
    left, right, flat = np.empty(n), np.empty(n), out.reshape(n * n)
    _exponentials(forward, left)
    _exponentials(ahead, right)
    # products of exponentials, and where they are too small, sums of logarithms
    for i in range(n):
        for j in range(n):
            out[i, j] = left[i] * powers[i, j] * right[j]
    if not TINY < _divide(flat) < 1 / TINY:
        for i in range(n):
            for j in range(n):
                out[i, j] = forward[i] + logs[i, j] + ahead[j]
        _exponentials(flat, flat)
        _divide(flat)


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


@inlined
def _scatter(ids: Ints, text: BoostedText, d: Numbers, sums: SignedSums) -> None:
    """Add the columns of d [C, 2] to rows, which become dirty."""
    for a in ids:
        sums.dirty[a] = True
        for k in range(text.begin[a], text.begin[a + 1]):
            sums.both[k, 0] += d[text.cols[k], 0]
            sums.both[k, 1] += d[text.cols[k], 1]


@kernel
def count(sequences: Offsets, slopes: Numbers, text: BoostedText, chains: Chains, sums: SignedSums) -> None:
    """Add the parts of some sequences to the sums; with the negative of their slopes [n], take them off."""
    for i in range(sequences.shape[0]):
        s, first, last = sequences[i], text.offsets[sequences[i]], text.offsets[sequences[i] + 1]
        if slopes[i] == 0 or first == last:
            continue
        shared = sums.shared[text.groups[s]]
        _count_labels(first, last, slopes[i], text.partial[s], text, chains, sums, shared)
        _count_pairs(first, last, slopes[i], text.partial[s], text, chains, sums, shared)


@internal
def _count_labels(
    first: int,
    last: int,
    slope: float,
    partial: bool,
    text: BoostedText,
    chains: Chains,
    sums: SignedSums,
    shared: Numbers,
) -> None:
    """Add the parts of the labels of a sequence to the sums."""
    n, forward, backward = chains.local.shape[1], chains.forward, chains.backward
    p, q, d = np.empty(n), np.empty(n), np.empty((n, 2))
    # to the rows of each token; those of the first and the last token to start and end scores, too
    for t in range(first, last):
        _at_token(forward[0, t], backward[0, t], p)
        if partial:
            _at_token(forward[1, t], backward[1, t], q)
        d[:] = 0
        _add_parts(slope, p, q, -1 if partial else text.gold[t], d)
        _scatter(text.ids[text.ptr[t] : text.ptr[t + 1]], text, d, sums)
        for k in range(n):
            for side in range(2):
                if t == first:
                    shared[n * n + k, side] += d[k, side]
                if t == last - 1:
                    shared[n * n + n + k, side] += d[k, side]


@internal
def _count_pairs(
    first: int,
    last: int,
    slope: float,
    partial: bool,
    text: BoostedText,
    chains: Chains,
    sums: SignedSums,
    shared: Numbers,
) -> None:
    """Add the parts of the steps of a sequence to the sums."""
    n, with_pairs, gold = chains.local.shape[1], text.pair_ptr.shape[0] > 0, text.gold
    forward, backward = chains.forward, chains.backward
    p, q, d, ahead = np.empty((n, n)), np.empty((n, n)), np.zeros((n * n, 2)), np.empty(n)
    logs, powers, _ = _make_steps(first, last, text, chains)
    # to the transitions and, where there are any, to the label-pair rows of each token
    for t in range(first + 1, last):
        step, gold_pair = t - first if with_pairs else 0, gold[t - 1] * n + gold[t]
        _ahead(chains.local[t], backward[0, t], -1, ahead)
        _at_step(forward[0, t - 1], logs[step], powers[step], ahead, p)
        if partial:
            _ahead(chains.local[t], backward[1, t], gold[t], ahead)
            _at_step(forward[1, t - 1], logs[step], powers[step], ahead, q)
            gold_pair = -1
        if not with_pairs:
            _add_parts(slope, p.reshape(n * n), q.reshape(n * n), gold_pair, shared)
            continue
        d[:] = 0
        _add_parts(slope, p.reshape(n * n), q.reshape(n * n), gold_pair, d)
        for k in range(n * n):
            shared[k, 0] += d[k, 0]
            shared[k, 1] += d[k, 1]
        _scatter(text.pair_ids[text.pair_ptr[t] : text.pair_ptr[t + 1]], text, d, sums)


@kernel
def collect(
    positions: Ints, pair: bool, column: int, owner: Ints, text: BoostedText, chains: Chains, out: Numbers
) -> None:
    """Write the probabilities p and q of a label, or label pair, at some positions to out [2, n].

    owner [T]: the sequence of each token.
    """
    n, gold, with_pairs = chains.local.shape[1], text.gold, text.pair_ptr.shape[0] > 0
    at_token, at_step, ahead = np.empty(n), np.empty((n, n)), np.empty(n)
    steps = _make_steps(0, 0 if with_pairs else 1, text, chains)
    for i in range(positions.shape[0]):
        t = int(np.int64(positions[i]))
        partial = text.partial[owner[t]]
        if pair and with_pairs:
            steps = _make_steps(t, t + 1, text, chains)
        for clamped in range(2 if partial else 1):
            forward, backward = chains.forward[clamped], chains.backward[clamped, t]
            if pair:
                _ahead(chains.local[t], backward, gold[t] if clamped else -1, ahead)
                _at_step(forward[t - 1], steps[0][0], steps[1][0], ahead, at_step)
                out[clamped, i] = at_step[column // n, column % n]
            else:
                _at_token(forward[t], backward, at_token)
                out[clamped, i] = at_token[column]
        if not partial:
            out[1, i] = (gold[t - 1] * n + gold[t] if pair else gold[t]) == column


@kernel
def count_occurrences(
    positions: Ints,
    starts: Offsets,
    pair: bool,
    column: int,
    owner: Ints,
    text: BoostedText,
    chains: Chains,
    out: Numbers,
) -> None:
    """Write how probable each number of occurrences of a label, or label pair, is to out [n, most positions + 1].

    A forward recursion with an accumulator (Altun, Hofmann & Johnson 2002, eq. 14) from the first to the last position
    of each sequence: ``mass[j, c]`` is the probability of label j and c occurrences so far.

    starts [n + 1]: Where the positions of each sequence begin.  owner [T]: The sequence of each token.
    """
    n, most = chains.local.shape[1], out.shape[1]
    exponentials, mass, new = np.empty(n), np.zeros((n, most)), np.zeros((n, most))
    for s in range(starts.shape[0] - 1):
        at, last = starts[s], int(np.int64(positions[starts[s + 1] - 1]))
        begin = int(np.int64(positions[at]))
        first = text.offsets[owner[last]]
        _, powers, _ = _make_steps(begin, last + 1, text, chains)
        mass[:] = 0
        if begin > first:
            _exponentials(chains.forward[0, begin - 1], mass[:, 0])
        # where the feature is on, a label, or a step that it scores moves mass to one occurrence more
        for t in range(begin, last + 1):
            on = t == positions[at]
            at += on
            step = powers[t - begin if powers.shape[0] > 1 else 0]
            _exponentials(chains.local[t], exponentials)
            new[:] = 0
            for j in range(n):
                for i in range(n if t > first else 1):
                    hit = int(on and (i * n + j == column if pair else j == column))
                    if t == first:
                        new[j, hit] = exponentials[j]
                    else:
                        for c in range(most - hit):
                            new[j, c + hit] += mass[i, c] * exponentials[j] * step[i, j]
            _divide(new.reshape(n * most))
            mass, new = new, mass
        _exponentials(chains.backward[0, last], exponentials)
        # what follows the last position does not depend on the number of occurrences
        for c in range(most):
            out[s, c] = 0
            for j in range(n):
                out[s, c] += mass[j, c] * exponentials[j]
        _divide(out[s])


# Bounds on the change of the loss by a step of one weight: their minima, and the steps there


@kernel
def reach(
    first_row: int,
    row_ptr: Offsets,
    tokens: Ints,
    columns: Ints,
    owner: Ints,
    text: BoostedText,
    low: Numbers,
    high: Numbers,
) -> None:
    """Write how far the counts of each feature of a group can be from the gold ones in one sequence.

    row_ptr [R + 1] and tokens: where each row is on.  columns [T]: the gold column, -1 where missing.  owner [T]: the
    sequence, -1 for tokens that are passed over.  low [D] receives the most positions with a row and the feature's
    column in the gold labels or missing ones; high [D] the most that do not have it for certain.
    """
    width = 0
    for k in range(text.begin[first_row], text.begin[first_row + row_ptr.shape[0] - 1]):
        width = max(width, text.cols[k] + 1)
    counts = np.zeros(width)
    for r in range(row_ptr.shape[0] - 1):
        a = first_row + r
        i, end = row_ptr[r], row_ptr[r + 1]
        # one sequence after another of those with the row
        while i < end:
            n, begin, missing = owner[tokens[i]], i, 0
            while i < end and owner[tokens[i]] == n:
                column = columns[tokens[i]]
                missing += column < 0
                if 0 <= column < width:
                    counts[column] += 1
                i += 1
            size = i - begin
            for k in range(text.begin[a], text.begin[a + 1] if n >= 0 else 0):
                count = counts[text.cols[k]]
                low[k] = max(low[k], count + missing)
                high[k] = max(high[k], size - count)
            for column in columns[tokens[begin:i]]:
                if 0 <= column < width:
                    counts[column] = 0


@internal
def best_step(a: float, low: float, b: float, high: float, limit: float, clip: bool) -> float:
    """Return the x that minimises ``a exp(-x low) + b exp(x high)``, all numbers positive or 0.

    limit: An infinite step becomes +-limit.  clip: Finite steps are limited, too.
    """
    down, up = a * low, b * high
    if down <= 0 and up <= 0:
        return 0.0
    if down <= 0:
        return -limit
    if up <= 0:
        return limit
    x = np.log(down / up) / (low + high)
    return max(-limit, min(limit, x)) if clip else x


@kernel
def rank_loosely(
    mass: float,
    limit: float,
    clip: bool,
    text: BoostedText,
    sums: SignedSums,
    low: Numbers,
    high: Numbers,
    gains: Numbers,
    best: Offsets,
) -> None:
    """Write the largest decrease of each row that the loose bound guarantees to gains [R], its parameter to best [R].

    mass: Sum of slope (1 - P(gold)) over all sequences, on which the bound of every row depends.
    low, high [D]: The result of `reach`.
    """
    for r in range(gains.shape[0]):
        sums.dirty[r] = False
        gains[r] = 0
        # the best parameter of the row: its step minimises the bound, in closed form
        for k in range(text.begin[r], text.begin[r + 1]):
            plus, minus = max(sums.both[k, 0], 0.0), max(sums.both[k, 1], 0.0)
            down, up = low[k], high[k]
            if down + up == 0:
                continue
            a = max(up * mass - plus + minus, 0.0) / (down + up)
            b = max(plus - minus + down * mass, 0.0) / (down + up)
            x = best_step(a, down, b, up, limit, clip)
            gain = a + b - a * np.exp(-x * down) - b * np.exp(x * up)
            if gain > gains[r]:
                gains[r] = gain
                best[r] = k


@kernel
def rank_optimistically(text: BoostedText, sums: SignedSums, gains: Numbers, best: Offsets) -> None:
    """Write a bound on what the tight bound guarantees for each dirty row to gains [R], its parameter to best [R].

    If all labels are known, the tight bound of a weight does not exceed this number: let a labelling have the feature
    at p wrong positions and lack it at m gold ones.  For x > 0 the chord over [-l, h] at p - m exceeds 1 by
    ``m (e^-x - 1) + p x`` or more.  The decrease is therefore at most ``minus - plus - plus log(minus / plus)``; plus
    and minus are exchanged for x < 0.
    """
    for r in range(gains.shape[0]):
        if not sums.dirty[r]:
            continue
        sums.dirty[r] = False
        gains[r] = 0
        # the best parameter of the row: its parts of the gradient differ most
        for k in range(text.begin[r], text.begin[r + 1]):
            plus, minus = max(sums.both[k, 0], 0.0), max(sums.both[k, 1], 0.0)
            small, large = min(plus, minus), max(plus, minus)
            gain = large - small
            if small > 0:
                gain -= small * np.log(large / small)
            if gain > gains[r]:
                gains[r] = gain
                best[r] = k


@inlined
def _slope(a: Numbers, low: Numbers, b: Numbers, high: Numbers, x: float) -> tuple[float, float]:
    """Return the first and second derivative of the function that `minimise` minimises."""
    slope, bend = 0.0, 0.0
    for n in range(a.shape[0]):
        down = a[n] * low[n] * np.exp(min(-x * low[n], LARGEST_EXPONENT))
        up = b[n] * high[n] * np.exp(min(x * high[n], LARGEST_EXPONENT))
        slope += up - down
        bend += up * high[n] + down * low[n]
    return slope, bend


@kernel
def minimise(
    a: Numbers, low: Numbers, b: Numbers, high: Numbers, limit: float, clip: bool
) -> tuple[float, float]:  # fmt: skip
    """Return the x that minimises ``sum_n a (exp(-x low) - 1) + b (exp(x high) - 1)``, and the decrease there.

    limit, clip: As in `best_step`.  Newton's method inside an interval with the minimum; a step that would leave it
    becomes a bisection.
    """
    left, right, x = -limit, limit, 0.0
    # an interval with the minimum
    if not clip:  # intervals grow until they contain a finite minimum
        downs, ups = 0.0, 0.0
        for n in range(a.shape[0]):
            downs, ups = max(downs, a[n] * low[n]), max(ups, b[n] * high[n])
        if downs > 0 and ups > 0:
            while left > -LARGEST_EXPONENT and _slope(a, low, b, high, left)[0] >= 0:
                left *= 2
            while right < LARGEST_EXPONENT and _slope(a, low, b, high, right)[0] <= 0:
                right *= 2
    if _slope(a, low, b, high, left)[0] >= 0:
        x, right = left, left
    elif _slope(a, low, b, high, right)[0] <= 0:
        x, left = right, right
    # steps of Newton's method or bisections, each of which makes the interval smaller
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
