"""Forward-backward on label lattices, in scaled probability space.

For one sequence with emission potentials e_t = exp(emissions - max) and M = exp(transitions - max)::

    alpha_t(j) = e_t(j) * sum_i alpha_{t-1}(i) M(i, j) * c_t           c_t = 1 / sum_j of the same
    beta_{t-1}(i) = sum_j M(i, j) e_t(j) beta_t(j) c_t
    P(y_t = k | x) = alpha_t(k) beta_t(k)
    P(y_{t-1} = i, y_t = j | x) = alpha_{t-1}(i) M(i, j) e_t(j) beta_t(j) c_t
    log Z = sum_t (log 1/c_t + the maxima taken out)

(Rabiner 1989, section V.A; Lafferty, McCallum & Pereira 2001.)  Start and end scores are added to the first and the
last emission.  Scaled potentials are exact as long as no sum gets near the smallest positive number: a sequence for
which ``1/c_t`` falls under `TINY`, ``beta_t c_t`` exceeds `HUGE`, or whose marginals do not sum to one, is done again
in log space and in float64, ten times slower.  So scores of any size and sequences of any length are safe, and label
paths of score minus infinity (forbidden ones) are allowed.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ..types import Bools, Floats, Ints, Offsets
from ._jit import inlined, kernel

Four: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""Emissions, transitions, start and end scores of one sequence, or their gradients."""
Work: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats]
"""Potentials, alpha, beta [longest, P], scale [longest], forward, backward and counts [P, P]; see `_workspace`."""

TINY = 1e-25
"""Below this an alpha that was rounded to zero (under 1e-38 in float32) could have mattered by more than 1e-12."""
HUGE = 1e30
"""Above this, products with a potential or an alpha of zero may become infinity times zero in float32."""
LANES = 8
"""Rows of the work arrays are padded to a multiple of this, so that loops over labels need no remainder."""


@inlined
def _workspace(offsets: Offsets, n_labels: int, like: Floats) -> Work:
    """Return work arrays for the longest sequence; rows of labels are padded to P, a multiple of `LANES`."""
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    padded = (n_labels + LANES - 1) // LANES * LANES
    rows, square = (longest, padded), (padded, padded)
    return (
        np.empty(rows, like.dtype),
        np.empty(rows, like.dtype),
        np.empty(rows, like.dtype),
        np.empty(longest, like.dtype),
        np.zeros(square, like.dtype),
        np.zeros(square, like.dtype),
        np.zeros(square, like.dtype),
    )


@kernel
def _potentials(transitions: Floats, forward: Floats, backward: Floats) -> float:
    """Write exp(transitions - max) to forward and its transpose to backward, both padded; return the max."""
    n = transitions.shape[0]
    largest = transitions[0, 0]
    for i in range(n):
        for j in range(n):
            largest = max(largest, transitions[i, j])
    if largest == -np.inf:
        largest = transitions.dtype.type(0)
    for i in range(n):
        for j in range(n):
            forward[i, j] = np.exp(transitions[i, j] - largest)
            backward[j, i] = forward[i, j]
    return largest


@inlined
def _exponentiate(row: Floats, powers: Ints, factors: Floats) -> None:
    """Replace a row of numbers that are not positive by their exponentials.

    float32: x = m log 2 + r with a polynomial for e^r (Cephes, ``expf``, relative error 2e-7) and 2^m written into the
    exponent bits of a float; unlike a call of the library, that is vectorised.  powers and factors [P] share memory.
    """
    if row.itemsize == 4:
        for k in range(row.shape[0]):
            x = max(row[k], np.float32(-87))
            m = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
            r = x - m * np.float32(0.693359375) + m * np.float32(2.12194440e-4)
            y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
            y = y * r + np.float32(8.3334519073e-3)
            y = y * r + np.float32(4.1665795894e-2)
            y = y * r + np.float32(1.6666665459e-1)
            y = y * r + np.float32(5.0000001201e-1)
            powers[k] = (np.int32(m) + 127) << 23 if row[k] >= np.float32(-87) else 0
            row[k] = y * r * r + r + np.float32(1)
        for k in range(row.shape[0]):
            row[k] *= factors[k]
    else:
        for k in range(row.shape[0]):
            row[k] = np.exp(row[k])


@kernel
def _local_scores(scores: Four, gold: Ints, out: Floats) -> None:
    """Write emissions plus start and end scores to out [n, at least L], the rest of its rows minus infinity.

    Unless gold is empty, labels other than a known gold label get minus infinity too.
    """
    emissions, _, start, end = scores
    length, n = emissions.shape
    for t in range(length):
        row = out[t]
        for k in range(n):
            row[k] = emissions[t, k]
        for k in range(n, row.shape[0]):
            row[k] = -np.inf
        if t == 0:
            for k in range(n):
                row[k] += start[k]
        if t == length - 1:
            for k in range(n):
                row[k] += end[k]
        if gold.shape[0] > 0 and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    row[k] = -np.inf


@inlined
def _to_potentials(local: Floats) -> float:
    """Replace local scores by exp(score - max of the row); return the sum of the maxima."""
    powers = np.zeros(local.shape[1], np.int32)
    factors = powers.view(np.float32)
    total = 0.0
    for t in range(local.shape[0]):
        row = local[t]
        largest = row[0]
        for k in range(1, row.shape[0]):
            largest = max(largest, row[k])
        if largest == -np.inf:
            return -np.inf
        total += largest
        for k in range(row.shape[0]):
            row[k] -= largest
        _exponentiate(row, powers, factors)
    return total


@kernel
def _multiply(vector: Floats, matrix: Floats, n: int, out: Floats) -> None:
    """Write vector [P] times the first n rows of matrix [P, P] to out [P]; rows up to the next multiple of 4 are zero.

    Four rows at a time, so that a number of out is loaded and stored once for four products.
    """
    for k in range(out.shape[0]):
        out[k] = 0
    for i in range(0, n, 4):
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        row_a, row_b, row_c, row_d = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for k in range(out.shape[0]):
            out[k] += a * row_a[k] + b * row_b[k] + c * row_c[k] + d * row_d[k]


@inlined
def _forward(transitions: Floats, base: float, length: int, work: Work) -> tuple[float, bool]:
    """Fill alpha and scale; return (log Z less the maxima of the emissions, whether it can be trusted)."""
    potentials, alpha, _, scale, forward, backward, _ = work
    padded, n = potentials.shape[1], transitions.shape[1]
    log_z = 0.0
    for t in range(length):
        here = alpha[t]
        if t == 0:
            for k in range(padded):
                here[k] = potentials[0, k]
        else:
            if transitions.shape[0] == 1:
                log_z += base
            else:
                log_z += _potentials(transitions[t], forward, backward)
            _multiply(alpha[t - 1], forward, n, here)
            for k in range(padded):
                here[k] *= potentials[t, k]
        total = here[0]
        for k in range(1, padded):
            total += here[k]
        if not total > TINY:
            return log_z, False
        log_z += np.log(total)
        scale[t] = 1 / total
        for k in range(padded):
            here[k] *= scale[t]
    return log_z, True


@inlined
def _backward(transitions: Floats, length: int, work: Work) -> bool:
    """Fill beta, so that alpha times beta are marginals; return whether they can be trusted."""
    potentials, alpha, beta, scale, forward, backward, _ = work
    padded, n = potentials.shape[1], transitions.shape[1]
    mass = np.empty(padded, potentials.dtype)
    for k in range(padded):
        beta[length - 1, k] = 1
    for t in range(length - 1, 0, -1):
        if transitions.shape[0] > 1:
            _potentials(transitions[t], forward, backward)
        largest = scale[t]
        for j in range(padded):
            gain = beta[t, j] * scale[t]
            largest = max(largest, gain)
            mass[j] = potentials[t, j] * gain
        if not largest <= HUGE:
            return False
        _multiply(mass, backward, n, beta[t - 1])
    for t in range(length):
        total = alpha[t, 0] * beta[t, 0]
        for k in range(1, n):
            total += alpha[t, k] * beta[t, k]
        if not abs(total - 1) < 1e-2:
            return False
        correction = 1 / total  # rounding adds up over a long sequence
        for k in range(padded):
            beta[t, k] *= correction
    return True


@inlined
def _log_sum(values: Floats) -> float:
    largest = -np.inf
    for value in values:
        largest = max(largest, value)
    if largest == -np.inf:
        return -np.inf
    total = 0.0
    for value in values:
        total += np.exp(value - largest)
    return largest + np.log(total)


@kernel
def _log_forward_backward(local: Floats, transitions: Floats, alpha: Floats, beta: Floats) -> float:
    """Fill the log-space scores alpha [n, L] (emission included) and beta [n, L] (excluded); return log Z.

    The textbook recursion in float64, with local scores as `_local_scores` writes them.
    """
    length, n = local.shape
    shared = transitions.shape[0] == 1
    terms = np.empty(n)
    for k in range(n):
        alpha[0, k] = local[0, k]
        beta[length - 1, k] = 0
    for t in range(1, length):
        step = transitions[0 if shared else t]
        for j in range(n):
            for i in range(n):
                terms[i] = alpha[t - 1, i] + step[i, j]
            alpha[t, j] = local[t, j] + _log_sum(terms)
    for t in range(length - 1, 0, -1):
        step = transitions[0 if shared else t]
        for i in range(n):
            for j in range(n):
                terms[j] = step[i, j] + local[t, j] + beta[t, j]
            beta[t - 1, i] = _log_sum(terms)
    return _log_sum(alpha[length - 1])


@kernel
def _accumulate_in_log_space(scores: Four, gold: Ints, factor: float, grad: Four) -> float:
    """Do what `_accumulate` does for sequences that scaling cannot represent; all counts go to `grad`."""
    d_emissions, d_transitions, d_start, d_end = grad
    transitions = scores[1]
    shape = scores[0].shape
    shared = transitions.shape[0] == 1
    local, alpha, beta = np.empty(shape), np.empty(shape), np.empty(shape)
    _local_scores(scores, gold, local)
    log_z = _log_forward_backward(local, transitions, alpha, beta)
    if log_z == -np.inf:
        return log_z
    length, n = shape
    for t in range(1, length if d_transitions.shape[0] > 0 else 0):
        s = 0 if shared else t
        for j in range(n):
            ahead = local[t, j] + beta[t, j] - log_z
            for i in range(n):
                d_transitions[s, i, j] += factor * np.exp(alpha[t - 1, i] + transitions[s, i, j] + ahead)
    for t in range(length):
        for k in range(n):
            marginal = factor * np.exp(alpha[t, k] + beta[t, k] - log_z)
            d_emissions[t, k] += marginal
            if t == 0:
                d_start[k] += marginal
            if t == length - 1:
                d_end[k] += marginal
    return log_z


@inlined
def _accumulate(scores: Four, gold: Ints, factor: float, base: float, work: Work, grad: Four) -> float:
    """Add factor times the expected counts of one sequence to `grad`; return its log Z.

    base is the maximum taken out of shared transitions.  Their counts are left in the counts of `work`, still to be
    multiplied by the potentials.
    """
    transitions, length = scores[1], scores[0].shape[0]
    local = work[0][:length]
    _local_scores(scores, gold, local)
    maxima = _to_potentials(local)
    log_z, exact = -np.inf, maxima > -np.inf
    if exact:
        log_z, exact = _forward(transitions, base, length, work)
    if exact:
        exact = _backward(transitions, length, work)
    if not exact:
        return _accumulate_in_log_space(scores, gold, factor, grad)
    _add_counts(transitions, length, scores[0].dtype.type(factor), work, grad)
    return log_z + maxima


@inlined
def _add_counts(transitions: Floats, length: int, factor: float, work: Work, grad: Four) -> None:
    """Add factor times the marginals and expected transitions to `grad`, shared transitions to the counts of `work`.

    Where the gradient of the transitions is empty, they are not counted.
    """
    potentials, alpha, beta, scale, forward, backward, counts = work
    d_emissions, d_transitions, d_start, d_end = grad
    padded, n = potentials.shape[1], transitions.shape[1]
    for k in range(n):
        d_start[k] += factor * alpha[0, k] * beta[0, k]
        d_end[k] += factor * alpha[length - 1, k] * beta[length - 1, k]
    for t in range(length):
        row, a, z = d_emissions[t], alpha[t], beta[t]
        for k in range(n):
            row[k] += factor * a[k] * z[k]
    if d_transitions.shape[0] == 0:
        return
    for t in range(1, length):
        before, ends, here = alpha[t - 1], beta[t], potentials[t]
        for k in range(padded):
            ends[k] *= factor * scale[t] * here[k]  # beta is not needed any more
        if transitions.shape[0] == 1:
            for i in range(n):
                mass, row = before[i], counts[i]
                for k in range(padded):
                    row[k] += mass * ends[k]
        else:
            _potentials(transitions[t], forward, backward)
            for i in range(n):
                for j in range(n):
                    d_transitions[t, i, j] += before[i] * forward[i, j] * ends[j]


@inlined
def _subtract_gold(scores: Four, gold: Ints, factor: float, grad: Four) -> float:
    """Subtract factor times the counts of a fully labelled sequence; return its score."""
    emissions, transitions, start, end = scores
    d_emissions, d_transitions, d_start, d_end = grad
    length = emissions.shape[0]
    first, last = gold[0], gold[length - 1]
    score = np.float64(start[first]) + end[last]
    d_start[first] -= factor
    d_end[last] -= factor
    for t in range(length):
        score += emissions[t, gold[t]]
        d_emissions[t, gold[t]] -= factor
        if t > 0:
            s = 0 if transitions.shape[0] == 1 else t
            score += transitions[s, gold[t - 1], gold[t]]
            d_transitions[s, gold[t - 1], gold[t]] -= factor
    return score


@inlined
def _count_missing(gold: Ints) -> int:
    missing = 0
    for label in gold:
        missing += label < 0
    return missing


def log_loss(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    gold: Ints,
    weights: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """Return the sum over sequences of ``weight * -log P(gold | x)`` and add its gradient.

    emissions [T, L], transitions [1 or T, L, L], start and end [L], offsets [N + 1], gold [T] (negative: summed
    out), weights [N]; the gradients have the shapes of the scores.  Where gold labels are missing, log P is the log of
    the sum over all completions (Tsuboi et al. 2008, eq. 4).
    """
    scores, grad = (emissions, transitions, start, end), (d_emissions, d_transitions, d_start, d_end)
    return expectations(*scores, offsets, gold, weights, *grad, _NO_NUMBERS)


def posterior(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    marginals: Floats,
    log_z: Floats,
) -> None:
    """Write P(y_t = k | x) to marginals [T, L] and log Z of each sequence to log_z [N]."""
    marginals[:] = 0
    log_z[:] = 0
    scores, unused = (emissions, transitions, start, end), np.zeros_like(start)
    grad = (marginals, transitions[:0].copy(), unused, unused)
    expectations(*scores, offsets, _NO_LABELS, np.ones(len(log_z)), *grad, log_z)


_NO_LABELS, _NO_NUMBERS = np.zeros(0, np.int32), np.zeros(0)


@kernel
def expectations(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    gold: Ints,
    weights: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
    log_z: Floats,
) -> float:
    """Do the work of `log_loss`; or that of `posterior` where `gold` is empty.

    One kernel, since most of the time that compiling takes goes to the recursions that both need.
    """
    n = emissions.shape[1]
    work = _workspace(offsets, n, emissions)
    forward, backward, counts = work[4], work[5], work[6]
    shared = transitions.shape[0] == 1
    base = 0.0
    if shared:
        base = _potentials(transitions[0], forward, backward)
    loss = 0.0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        missing = _count_missing(gold[b:e])
        if missing == e - b or weights[s] == 0:  # empty sequences, too
            continue
        steps, d_steps = transitions, d_transitions
        if not shared:
            steps, d_steps = transitions[b:e], d_transitions[b:e]
        scores, grad = (emissions[b:e], steps, start, end), (d_emissions[b:e], d_steps, d_start, d_end)
        factor = weights[s]
        for clamp in range(1 + (missing > 0)):
            known = gold[b:e] if clamp else gold[:0]
            log_sum = _accumulate(scores, known, factor, base, work, grad)
            loss += factor * log_sum
            factor = -factor
        if gold.shape[0] == 0:
            log_z[s] = log_sum
        elif missing == 0:
            loss -= weights[s] * _subtract_gold(scores, gold[b:e], emissions.dtype.type(weights[s]), grad)
    if shared and d_transitions.shape[0] > 0:
        for i in range(n):
            for j in range(n):
                d_transitions[0, i, j] += counts[i, j] * forward[i, j]
    return loss


@kernel
def span_probabilities(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    labels: Ints,
    span_starts: Offsets,
    span_ends: Offsets,
    followers: Bools,
    out: Floats,
) -> None:
    """Write the probability that each span [S] carries its `labels` [T] and ends where it does to out [S].

    Spans are in order and inside their sequences.  With forward and backward scores a and b in log space, the span
    s..e-1 has log P = a_s(l_s) + sum of its inner scores + log sum_{j follows} exp(A(l_{e-1}, j) + b_e(j)) - log Z;
    followers [L, L] tells which labels j may follow a span whose last label is i.
    """
    n = emissions.shape[1]
    shared = transitions.shape[0] == 1
    nothing = np.zeros(0, np.int32)
    terms = np.empty(n)
    p = 0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if p >= span_starts.shape[0] or span_starts[p] >= e:
            continue
        steps = transitions
        if not shared:
            steps = transitions[b:e]
        local, alpha, beta = np.empty((e - b, n)), np.empty((e - b, n)), np.empty((e - b, n))
        _local_scores((emissions[b:e], steps, start, end), nothing, local)
        log_z = _log_forward_backward(local, steps, alpha, beta)
        while p < span_starts.shape[0] and span_starts[p] < e:
            first, last = span_starts[p] - b, span_ends[p] - b - 1
            score = alpha[first, labels[b + first]]
            for t in range(first + 1, last + 1):
                score += steps[0 if shared else t, labels[b + t - 1], labels[b + t]] + local[t, labels[b + t]]
            if last + 1 < e - b:
                step = steps[0 if shared else last + 1]
                for j in range(n):
                    terms[j] = -np.inf
                    if followers[labels[b + last], j]:
                        terms[j] = step[labels[b + last], j] + local[last + 1, j] + beta[last + 1, j]
                score += _log_sum(terms)
            out[p] = np.exp(score - log_z)
            p += 1
