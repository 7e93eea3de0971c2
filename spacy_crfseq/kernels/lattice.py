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

import numpy as np

from ..types import Bools, Floats, Ints, Offsets
from ._jit import kernel

TINY = 1e-25
"""Below this an alpha that was rounded to zero (under 1e-38 in float32) could have mattered by more than 1e-12."""
HUGE = 1e30
"""Above this, products with a potential or an alpha of zero may become infinity times zero in float32."""
LANES = 8
"""Rows of the work arrays are padded to a multiple of this, so that loops over labels need no remainder."""


@kernel
def _padded(n_labels: int) -> int:
    return (n_labels + LANES - 1) // LANES * LANES


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


@kernel
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
def _emission_potentials(
    emissions: Floats, start: Floats, end: Floats, clamp: bool, gold: Ints, potentials: Floats
) -> float:
    """Write exp(emissions - max) per token, labels other than a known gold label zeroed if `clamp`.

    Returns the sum of the maxima.
    """
    length, n = emissions.shape
    powers = np.zeros(potentials.shape[1], np.int32)
    factors = powers.view(np.float32)
    total = 0.0
    for t in range(length):
        row = potentials[t]
        for k in range(n):
            row[k] = emissions[t, k]
        if t == 0:
            for k in range(n):
                row[k] += start[k]
        if t == length - 1:
            for k in range(n):
                row[k] += end[k]
        if clamp and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    row[k] = -np.inf
        largest = row[0]
        for k in range(1, n):
            largest = max(largest, row[k])
        if largest == -np.inf:
            return -np.inf
        total += largest
        for k in range(n):
            row[k] -= largest
        for k in range(n, row.shape[0]):
            row[k] = -np.inf
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


@kernel
def _forward_backward(
    transitions: Floats,
    base: float,
    potentials: Floats,
    forward: Floats,
    backward: Floats,
    alpha: Floats,
    beta: Floats,
    scale: Floats,
) -> tuple[float, bool]:
    """Fill alpha, beta [n, P] and scale [n]; return (log Z less the emission maxima, whether it can be trusted).

    forward, backward [P, P] hold the potentials of shared transitions; of per-position ones they are work space.
    """
    length = potentials.shape[0]
    padded = potentials.shape[1]
    n = transitions.shape[1]
    shared = transitions.shape[0] == 1
    log_z = 0.0
    for t in range(length):
        here = alpha[t]
        if t == 0:
            for k in range(padded):
                here[k] = potentials[0, k]
        else:
            if shared:
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
    mass = np.empty(padded, potentials.dtype)
    for k in range(padded):
        beta[length - 1, k] = 1
    for t in range(length - 1, 0, -1):
        if not shared:
            _potentials(transitions[t], forward, backward)
        largest = scale[t]
        for j in range(padded):
            gain = beta[t, j] * scale[t]
            largest = max(largest, gain)
            mass[j] = potentials[t, j] * gain
        if not largest <= HUGE:
            return log_z, False
        _multiply(mass, backward, n, beta[t - 1])
    for t in range(length):
        total = alpha[t, 0] * beta[t, 0]
        for k in range(1, n):
            total += alpha[t, k] * beta[t, k]
        if not abs(total - 1) < 1e-2:
            return log_z, False
        correction = 1 / total  # rounding adds up over a long sequence
        for k in range(padded):
            beta[t, k] *= correction
    return log_z, True


@kernel
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
def _log_emission(emissions: Floats, start: Floats, end: Floats, clamp: bool, gold: Ints, t: int, k: int) -> float:
    if clamp and gold[t] >= 0 and gold[t] != k:
        return -np.inf
    score = np.float64(emissions[t, k])
    if t == 0:
        score += start[k]
    if t == emissions.shape[0] - 1:
        score += end[k]
    return score


@kernel
def _log_forward_backward(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    gold: Ints,
    clamp: bool,
    alpha: Floats,
    beta: Floats,
) -> None:
    """Fill the log-space scores alpha [n, L] (emission included) and beta [n, L] (excluded) of one sequence."""
    length, n = emissions.shape
    shared = transitions.shape[0] == 1
    work = np.empty(n)
    for t in range(length):
        for j in range(n):
            score = _log_emission(emissions, start, end, clamp, gold, t, j)
            if t > 0:
                step = transitions[0 if shared else t]
                for i in range(n):
                    work[i] = alpha[t - 1, i] + step[i, j]
                score += _log_sum(work)
            alpha[t, j] = score
    for k in range(n):
        beta[length - 1, k] = 0
    for t in range(length - 1, 0, -1):
        step = transitions[0 if shared else t]
        for i in range(n):
            for j in range(n):
                work[j] = step[i, j] + _log_emission(emissions, start, end, clamp, gold, t, j) + beta[t, j]
            beta[t - 1, i] = _log_sum(work)


@kernel
def _accumulate_in_log_space(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    gold: Ints,
    clamp: bool,
    factor: float,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """The textbook recursion in log space and float64, for sequences that scaling cannot represent."""
    length, n = emissions.shape
    shared = transitions.shape[0] == 1
    alpha = np.empty((length, n))
    beta = np.zeros((length, n))
    _log_forward_backward(emissions, transitions, start, end, gold, clamp, alpha, beta)
    log_z = _log_sum(alpha[length - 1])
    if log_z == -np.inf:
        return log_z
    for t in range(1, length):
        step = transitions[0 if shared else t]
        d_step = d_transitions[0 if shared else t]
        for j in range(n):
            ahead = _log_emission(emissions, start, end, clamp, gold, t, j) + beta[t, j] - log_z
            for i in range(n):
                d_step[i, j] += factor * np.exp(alpha[t - 1, i] + step[i, j] + ahead)
    for t in range(length):
        for k in range(n):
            marginal = factor * np.exp(alpha[t, k] + beta[t, k] - log_z)
            d_emissions[t, k] += marginal
            if t == 0:
                d_start[k] += marginal
            if t == length - 1:
                d_end[k] += marginal
    return log_z


@kernel
def _accumulate(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    gold: Ints,
    clamp: bool,
    factor: float,
    base: float,
    forward: Floats,
    backward: Floats,
    potentials: Floats,
    alpha: Floats,
    beta: Floats,
    scale: Floats,
    counts: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """Add factor times the expected counts of one sequence to the gradients; return its log Z.

    Counts of shared transitions are left in counts [P, P], still to be multiplied by the potentials.
    """
    length, n = emissions.shape
    padded = potentials.shape[1]
    shared = transitions.shape[0] == 1
    maxima = _emission_potentials(emissions, start, end, clamp, gold, potentials)
    log_z, exact = -np.inf, False
    if maxima > -np.inf:
        log_z, exact = _forward_backward(transitions, base, potentials[:length], forward, backward, alpha, beta, scale)
    if not exact:
        return _accumulate_in_log_space(
            emissions,
            transitions,
            start,
            end,
            gold,
            clamp,
            factor,
            d_emissions,
            d_transitions,
            d_start,
            d_end,
        )
    weight = emissions.dtype.type(factor)
    for t in range(length):
        row, a, b = d_emissions[t], alpha[t], beta[t]
        for k in range(n):
            row[k] += weight * a[k] * b[k]
    for k in range(n):
        d_start[k] += weight * alpha[0, k] * beta[0, k]
        d_end[k] += weight * alpha[length - 1, k] * beta[length - 1, k]
    for t in range(1, length):
        here, before, ends = potentials[t], alpha[t - 1], beta[t]
        for k in range(padded):
            ends[k] *= weight * scale[t] * here[k]  # beta is not needed any more
        if shared:
            for i in range(n):
                mass, row = before[i], counts[i]
                for k in range(padded):
                    row[k] += mass * ends[k]
        else:
            _potentials(transitions[t], forward, backward)
            for i in range(n):
                for j in range(n):
                    d_transitions[t, i, j] += before[i] * forward[i, j] * ends[j]
    return log_z + maxima


@kernel
def _subtract_gold(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    gold: Ints,
    factor: float,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """Subtract factor times the counts of a fully labelled sequence; return its score."""
    length = emissions.shape[0]
    shared = transitions.shape[0] == 1
    weight = emissions.dtype.type(factor)
    score = np.float64(start[gold[0]]) + end[gold[length - 1]]
    d_start[gold[0]] -= weight
    d_end[gold[length - 1]] -= weight
    for t in range(length):
        score += emissions[t, gold[t]]
        d_emissions[t, gold[t]] -= weight
        if t > 0:
            s = 0 if shared else t
            score += transitions[s, gold[t - 1], gold[t]]
            d_transitions[s, gold[t - 1], gold[t]] -= weight
    return score


@kernel
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
    n = emissions.shape[1]
    padded = _padded(n)
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    dtype = emissions.dtype
    potentials = np.empty((longest, padded), dtype)
    alpha = np.empty((longest, padded), dtype)
    beta = np.empty((longest, padded), dtype)
    scale = np.empty(longest, dtype)
    forward = np.zeros((padded, padded), dtype)
    backward = np.zeros((padded, padded), dtype)
    counts = np.zeros((padded, padded), dtype)
    shared = transitions.shape[0] == 1
    base = dtype.type(0)
    if shared:
        base = _potentials(transitions[0], forward, backward)
    loss = 0.0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if e == b or weights[s] == 0:
            continue
        missing = 0
        for t in range(b, e):
            if gold[t] < 0:
                missing += 1
        if missing == e - b:
            continue
        steps, d_steps = transitions, d_transitions
        if not shared:
            steps, d_steps = transitions[b:e], d_transitions[b:e]
        log_z = _accumulate(
            emissions[b:e],
            steps,
            start,
            end,
            gold[b:e],
            False,
            weights[s],
            base,
            forward,
            backward,
            potentials[: e - b],
            alpha,
            beta,
            scale,
            counts,
            d_emissions[b:e],
            d_steps,
            d_start,
            d_end,
        )
        if missing == 0:
            score = _subtract_gold(
                emissions[b:e],
                steps,
                start,
                end,
                gold[b:e],
                weights[s],
                d_emissions[b:e],
                d_steps,
                d_start,
                d_end,
            )
        else:
            score = _accumulate(
                emissions[b:e],
                steps,
                start,
                end,
                gold[b:e],
                True,
                -weights[s],
                base,
                forward,
                backward,
                potentials[: e - b],
                alpha,
                beta,
                scale,
                counts,
                d_emissions[b:e],
                d_steps,
                d_start,
                d_end,
            )
        loss += weights[s] * (log_z - score)
    if shared:
        for i in range(n):
            for j in range(n):
                d_transitions[0, i, j] += counts[i, j] * forward[i, j]
    return loss


@kernel
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
    n = emissions.shape[1]
    padded = _padded(n)
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    dtype = emissions.dtype
    potentials = np.empty((longest, padded), dtype)
    alpha = np.empty((longest, padded), dtype)
    beta = np.empty((longest, padded), dtype)
    scale = np.empty(longest, dtype)
    forward = np.zeros((padded, padded), dtype)
    backward = np.zeros((padded, padded), dtype)
    counts = np.zeros((padded, padded), dtype)
    unused = np.zeros(n, dtype)
    unused_steps = np.zeros((1, n, n), dtype)
    nothing = np.zeros(0, np.int32)
    shared = transitions.shape[0] == 1
    base = dtype.type(0)
    if shared:
        base = _potentials(transitions[0], forward, backward)
    marginals[:] = 0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        log_z[s] = 0
        if e == b:
            continue
        steps = transitions if shared else transitions[b:e]
        d_steps = unused_steps if shared else np.zeros((e - b, n, n), dtype)
        log_z[s] = _accumulate(
            emissions[b:e],
            steps,
            start,
            end,
            nothing,
            False,
            1.0,
            base,
            forward,
            backward,
            potentials[: e - b],
            alpha,
            beta,
            scale,
            counts,
            marginals[b:e],
            d_steps,
            unused,
            unused,
        )


@kernel
def path_scores(
    emissions: Floats, transitions: Floats, start: Floats, end: Floats, offsets: Offsets, labels: Ints, scores: Floats
) -> None:
    """Write the unnormalised log-score of each sequence's `labels` [T] to `scores` [N]."""
    shared = transitions.shape[0] == 1
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        total = 0.0
        if e > b:
            total += start[labels[b]]
            total += end[labels[e - 1]]
        for t in range(b, e):
            total += emissions[t, labels[t]]
            if t > b:
                total += transitions[0 if shared else t, labels[t - 1], labels[t]]
        scores[s] = total


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
    work = np.empty(n)
    p = 0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if p >= span_starts.shape[0] or span_starts[p] >= e:
            continue
        alpha = np.empty((e - b, n))
        beta = np.zeros((e - b, n))
        steps = transitions
        if not shared:
            steps = transitions[b:e]
        _log_forward_backward(emissions[b:e], steps, start, end, nothing, False, alpha, beta)
        log_z = _log_sum(alpha[e - b - 1])
        while p < span_starts.shape[0] and span_starts[p] < e:
            first, last = span_starts[p] - b, span_ends[p] - b - 1
            score = alpha[first, labels[b + first]]
            for t in range(first + 1, last + 1):
                score += steps[0 if shared else t, labels[b + t - 1], labels[b + t]]
                score += _log_emission(emissions[b:e], start, end, False, nothing, t, labels[b + t])
            if last + 1 < e - b:
                step = steps[0 if shared else last + 1]
                for j in range(n):
                    work[j] = -np.inf
                    if followers[labels[b + last], j]:
                        work[j] = step[labels[b + last], j] + beta[last + 1, j]
                        work[j] += _log_emission(emissions[b:e], start, end, False, nothing, last + 1, j)
                score += _log_sum(work)
            out[p] = np.exp(score - log_z)
            p += 1
