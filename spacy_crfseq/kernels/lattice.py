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

A pointwise loss sum_t phi(-log p_t), p_t = P(y_t = gold_t | x), has the gradient -Cov(S, counts) with the function
S(y) = sum_t r_t 1[y_t = gold_t] of label sequences, r_t = phi'(-log p_t) / p_t.  Expectations of such a sum times
counts take a second pair of recursions (Kakade, Teh & Roweis 2002).  To keep rounding small, they add up n_t instead,
whose mean is zero, n_t(k) = phi'(-log p_t) - r_t 1[k = gold_t]::

    a_t(j) = c_t e_t(j) sum_i a_{t-1}(i) M(i, j) + alpha_t(j) n_t(j)
    b_{t-1}(i) = sum_j M(i, j) w_t(j)                      w_t(j) = c_t e_t(j) (b_t(j) + beta_t(j) n_t(j))
    d loss / d emission_t(k) = a_t(k) beta_t(k) + alpha_t(k) b_t(k)
    d loss / d transition_t(i, j) = M(i, j) (a_{t-1}(i) c_t e_t(j) beta_t(j) + alpha_{t-1}(i) w_t(j))
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
Rows: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""Partial sums a and b [longest, P], and n_t(k) = pull - push [k = gold_t], [longest] each, of pointwise losses."""

TINY = 1e-25
"""Below this an alpha that was rounded to zero (under 1e-38 in float32) could have mattered by more than 1e-12."""
HUGE = 1e30
"""Above this, products with a potential or an alpha of zero may become infinity times zero in float32."""
FAINT, LARGE = 1e-12, 1e18
"""Pointwise losses divide by the probabilities of gold labels.  One over `FAINT` is exact to some digits as long as no
``beta_t c_t`` exceeds `LARGE`, so that what was rounded to zero amounts to at most 1e-20 of a probability."""
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
def _backward(transitions: Floats, length: int, work: Work, limit: float) -> bool:
    """Fill beta, so that alpha times beta are marginals; return whether they can be trusted, no beta c over limit."""
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
        if not largest <= limit:
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
def _link(nll: float, cap: float) -> tuple[float, float]:
    """Return phi of a negative log-likelihood, and its derivative; see `log_loss`."""
    if cap > 0 and nll < cap:
        power = np.exp(nll)
        return power - 1, power
    power = np.exp(cap)
    return power - 1 + power * (nll - cap), power


@kernel
def _accumulate_in_log_space(
    scores: Four, gold: Ints, factor: float, gold_log_sum: float, cap: float, grad: Four
) -> float:
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
    factor *= _link(log_z - gold_log_sum, cap)[1]
    length, n = shape
    for t in range(1, length):
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
def _accumulate(
    scores: Four, gold: Ints, factor: float, gold_log_sum: float, cap: float, base: float, work: Work, grad: Four
) -> float:
    """Add the expected counts of one sequence to `grad`, times factor and phi'(log Z - gold_log_sum); return its log Z.

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
    share = factor * _link(log_z + maxima - gold_log_sum, cap)[1]
    if exact:  # what comes of it is still to be multiplied by the share, up to e^30
        exact = _backward(transitions, length, work, HUGE / max(1.0, abs(share)))
    if not exact:
        return _accumulate_in_log_space(scores, gold, factor, gold_log_sum, cap, grad)
    _add_counts(transitions, length, scores[0].dtype.type(share), work, grad)
    return log_z + maxima


@inlined
def _add_counts(transitions: Floats, length: int, factor: float, work: Work, grad: Four) -> None:
    """Add factor times the marginals and expected transitions to `grad`, shared transitions to the counts of `work`."""
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
def _gold_score(scores: Four, gold: Ints) -> float:
    """Return the score of a fully labelled sequence."""
    emissions, transitions, start, end = scores
    length = emissions.shape[0]
    score = np.float64(start[gold[0]]) + end[gold[length - 1]]
    for t in range(length):
        score += emissions[t, gold[t]]
        if t > 0:
            score += transitions[0 if transitions.shape[0] == 1 else t, gold[t - 1], gold[t]]
    return score


@inlined
def _subtract_gold(gold: Ints, factor: float, grad: Four) -> None:
    """Subtract factor times the counts of a fully labelled sequence."""
    d_emissions, d_transitions, d_start, d_end = grad
    length = d_emissions.shape[0]
    d_start[gold[0]] -= factor
    d_end[gold[length - 1]] -= factor
    for t in range(length):
        d_emissions[t, gold[t]] -= factor
        if t > 0:
            d_transitions[0 if d_transitions.shape[0] == 1 else t, gold[t - 1], gold[t]] -= factor


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
    cap: float = 0.0,
) -> float:
    """Return the sum over sequences of ``weight * phi(-log P(gold | x))`` and add its gradient.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where cap is 0.

    emissions [T, L], transitions [1 or T, L, L], start and end [L], offsets [N + 1], gold [T] (negative: summed
    out), weights [N]; the gradients have the shapes of the scores.  Where gold labels are missing, log P is the log of
    the sum over all completions (Tsuboi et al. 2008, eq. 4).
    """
    scores, grad = (emissions, transitions, start, end), (d_emissions, d_transitions, d_start, d_end)
    return expectations(*scores, offsets, gold, weights, *grad, cap, _NO_NUMBERS)


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
    cap: float,
    log_z: Floats,
) -> float:
    """Do the work of `log_loss`.

    Where `gold` is empty and cap 0, return the sum of ``weight * log Z`` and add its gradient, weights being of either
    sign; write log Z of each sequence that has a token and a weight to log_z [N], which is empty otherwise.
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
        factor, gold_log_sum, free = weights[s], 0.0, 0.0
        if missing == 0 and gold.shape[0] > 0:
            gold_log_sum = _gold_score(scores, gold[b:e])
        # with missing labels, that sum takes a pass too: before the others where phi' depends on it, and after them
        for turn in range(0 if missing > 0 and cap > 0 else 1, 3 if missing > 0 else 2):
            known, share, turn_cap = gold[b:e], 0.0, 0.0
            if turn == 1:
                known, share, turn_cap = gold[:0], factor, cap
            elif turn == 2:
                share = -factor * _link(free - gold_log_sum, cap)[1]
            log_sum = _accumulate(scores, known, share, gold_log_sum, turn_cap, base, work, grad)
            if turn == 1:
                free = log_sum
            else:
                gold_log_sum = log_sum
        value, slope = _link(free - gold_log_sum, cap)
        loss += factor * value
        if gold.shape[0] == 0:
            log_z[s] = free
        elif missing == 0:
            _subtract_gold(gold[b:e], emissions.dtype.type(factor * slope), grad)
    if shared:
        for i in range(n):
            for j in range(n):
                d_transitions[0, i, j] += counts[i, j] * forward[i, j]
    return loss


@kernel
def pointwise(
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
    cap: float,
) -> float:
    """Return the sum over positions t with a gold label of ``weight * phi(-log P(gold_t | x))``; add its gradient.

    Shapes and phi as in `log_loss`; a position has the weight of its sequence.
    """
    n = emissions.shape[1]
    work = _workspace(offsets, n, emissions)
    alpha, forward, backward, counts = work[1], work[4], work[5], work[6]
    rows = (np.empty_like(alpha), np.empty_like(alpha), np.empty_like(work[3]), np.empty_like(work[3]))
    shared = transitions.shape[0] == 1
    if shared:
        _potentials(transitions[0], forward, backward)
    loss = 0.0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if _count_missing(gold[b:e]) == e - b or weights[s] == 0:  # empty sequences, too
            continue
        steps, d_steps = transitions, d_transitions
        if not shared:
            steps, d_steps = transitions[b:e], d_transitions[b:e]
        scores, grad = (emissions[b:e], steps, start, end), (d_emissions[b:e], d_steps, d_start, d_end)
        value, exact = _pointwise_sums(scores, gold[b:e], weights[s], cap, work, rows)
        if exact:
            _add_covariances(steps, work, rows, grad)
        else:
            value = _pointwise_in_log_space(scores, gold[b:e], weights[s], cap, grad)
        loss += weights[s] * value
    if shared:
        for i in range(n):
            for j in range(n):
                d_transitions[0, i, j] += counts[i, j] * forward[i, j]
    return loss


@inlined
def _pointwise_sums(scores: Four, gold: Ints, weight: float, cap: float, work: Work, rows: Rows) -> tuple[float, bool]:
    """Return the sum of phi over the positions of one sequence, and whether it can be trusted.

    If so, a is filled, potentials hold the gradient of the emissions, beta c_t e_t(j) beta_t(j) and b holds w.
    """
    potentials, alpha, beta, scale, forward, backward, _ = work
    a, b, pull, push = rows
    transitions, length = scores[1], scores[0].shape[0]
    padded, n = potentials.shape[1], transitions.shape[1]
    _local_scores(scores, gold[:0], potentials[:length])
    if not _to_potentials(potentials[:length]) > -np.inf:
        return np.inf, False
    if not _forward(transitions, 0.0, length, work)[1] or not _backward(transitions, length, work, LARGE):
        return np.inf, False
    loss, limit = 0.0, 0.0
    for t in range(length):
        pull[t] = push[t] = 0
        if gold[t] >= 0:
            total = np.float64(0)
            for k in range(n):
                total += alpha[t, k] * beta[t, k]
            p = alpha[t, gold[t]] * beta[t, gold[t]] / total  # so that rounding, which adds up, is not in the mean of n
            if not p >= FAINT:
                return np.inf, False
            value, slope = _link(-np.log(p), cap)
            loss += value
            pull[t] = weight * slope
            push[t] = weight * slope / p
            limit += 1e-2 * abs(weight * slope)
    for t in range(length):
        here = a[t]
        if t == 0:
            for k in range(padded):
                here[k] = 0
        else:
            if transitions.shape[0] > 1:
                _potentials(transitions[t], forward, backward)
            _multiply(a[t - 1], forward, n, here)
        for k in range(padded):
            here[k] = scale[t] * potentials[t, k] * here[k] + pull[t] * alpha[t, k]
        if gold[t] >= 0:
            here[gold[t]] -= push[t] * alpha[t, gold[t]]
    for k in range(padded):
        b[length - 1, k] = 0
    for t in range(length - 1, -1, -1):
        total = np.float64(0)
        for k in range(padded):
            potential, message = scale[t] * potentials[t, k], beta[t, k]
            potentials[t, k] = a[t, k] * message + alpha[t, k] * b[t, k]
            beta[t, k] = potential * message
            b[t, k] = potential * b[t, k] + pull[t] * beta[t, k]
            total += potentials[t, k]
        if gold[t] >= 0:
            b[t, gold[t]] -= push[t] * beta[t, gold[t]]
        if not abs(total) <= limit:  # or not a number, where something got too large
            return np.inf, False
        if t > 0:
            if transitions.shape[0] > 1:
                _potentials(transitions[t], forward, backward)
            _multiply(b[t], backward, n, b[t - 1])
    return loss, True


@inlined
def _add_covariances(transitions: Floats, work: Work, rows: Rows, grad: Four) -> None:
    """Add what `_pointwise_sums` left to `grad`, shared transitions to the counts of `work`."""
    covariances, alpha, messages, _, forward, backward, counts = work
    a, b, _, _ = rows
    d_emissions, d_transitions, d_start, d_end = grad
    length, n = d_emissions.shape
    padded = alpha.shape[1]
    for k in range(n):
        d_start[k] += covariances[0, k]
        d_end[k] += covariances[length - 1, k]
    for t in range(length):
        for k in range(n):
            d_emissions[t, k] += covariances[t, k]
    for t in range(1, length):
        ends, sums = messages[t], b[t]
        if transitions.shape[0] == 1:
            for i in range(n):
                mass, partial, row = alpha[t - 1, i], a[t - 1, i], counts[i]
                for k in range(padded):
                    row[k] += partial * ends[k] + mass * sums[k]
        else:
            _potentials(transitions[t], forward, backward)
            for i in range(n):
                mass, partial = alpha[t - 1, i], a[t - 1, i]
                for j in range(n):
                    d_transitions[t, i, j] += forward[i, j] * (partial * ends[j] + mass * sums[j])


@inlined
def _log_add(x: float, y: float) -> float:
    larger, smaller = max(x, y), min(x, y)
    return larger if smaller == -np.inf else larger + np.log1p(np.exp(smaller - larger))


@kernel
def _pointwise_in_log_space(scores: Four, gold: Ints, weight: float, cap: float, grad: Four) -> float:
    """Do for one sequence, in float64, what scaling cannot represent; return the sum of phi.

    The sums of r_t 1[y_t = gold_t] themselves, all positive, are added up in log space, since r_t may be larger than
    any number while r_t p_t = phi' is not.  A position whose gold label is impossible costs infinitely much, and has no
    part in the gradient.
    """
    d_emissions, d_transitions, d_start, d_end = grad
    transitions, shape = scores[1], scores[0].shape
    length, n = shape
    shared = transitions.shape[0] == 1
    local, alpha, beta = np.empty(shape), np.empty(shape), np.empty(shape)
    _local_scores(scores, gold[:0], local)
    log_z = _log_forward_backward(local, transitions, alpha, beta)
    if log_z == -np.inf:
        return np.inf
    loss, mean = 0.0, 0.0
    log_r = np.full(length, -np.inf)
    for t in range(length):
        if gold[t] >= 0:
            nll = log_z - alpha[t, gold[t]] - beta[t, gold[t]]
            value, slope = _link(nll, cap)
            loss += value
            if nll < np.inf:
                mean += slope
                log_r[t] = np.log(slope) + nll
    a, b, w = np.full(shape, -np.inf), np.full(shape, -np.inf), np.full(shape, -np.inf)
    terms = np.empty(n)
    for t in range(length):
        if t > 0:
            step = transitions[0 if shared else t]
            for j in range(n):
                for i in range(n):
                    terms[i] = a[t - 1, i] + step[i, j]
                a[t, j] = local[t, j] + _log_sum(terms)
        if log_r[t] > -np.inf:
            a[t, gold[t]] = _log_add(a[t, gold[t]], alpha[t, gold[t]] + log_r[t])
    for t in range(length - 1, -1, -1):
        for k in range(n):
            w[t, k] = local[t, k] + b[t, k]
        if log_r[t] > -np.inf:
            w[t, gold[t]] = local[t, gold[t]] + _log_add(b[t, gold[t]], beta[t, gold[t]] + log_r[t])
        if t > 0:
            step = transitions[0 if shared else t]
            for i in range(n):
                for j in range(n):
                    terms[j] = step[i, j] + w[t, j]
                b[t - 1, i] = _log_sum(terms)
    for t in range(length):
        for k in range(n):
            covariance = mean * np.exp(alpha[t, k] + beta[t, k] - log_z)
            covariance -= np.exp(a[t, k] + beta[t, k] - log_z) + np.exp(alpha[t, k] + b[t, k] - log_z)
            d_emissions[t, k] += weight * covariance
            if t == 0:
                d_start[k] += weight * covariance
            if t == length - 1:
                d_end[k] += weight * covariance
    for t in range(1, length):
        s = 0 if shared else t
        for i in range(n):
            for j in range(n):
                before, ahead = transitions[s, i, j] - log_z, local[t, j] + beta[t, j]
                covariance = mean * np.exp(alpha[t - 1, i] + before + ahead)
                covariance -= np.exp(a[t - 1, i] + before + ahead) + np.exp(alpha[t - 1, i] + before + w[t, j])
                d_transitions[s, i, j] += weight * covariance
    return loss


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
    spans = (_NO_LABELS, _NO_OFFSETS, _NO_OFFSETS, _NO_LINKS, _NO_NUMBERS)
    probabilities(emissions, transitions, start, end, offsets, marginals, log_z, *spans)


def span_probabilities(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    labels: Ints,
    span_starts: Offsets,
    span_ends: Offsets,
    inside: Bools,
    out: Floats,
) -> None:
    """Write the probability of spans [S] as labelled in `labels` [T] to out [S], float64.

    That is the probability that the tokens have these labels, and that neither the label before nor the label after
    belongs to the same span: ``inside[i, j]`` tells whether j right after i goes on with it.  Spans are in order, do
    not overlap, and lie within their sequences.
    """
    unused = emissions[:0], np.empty(len(offsets) - 1)
    scores = (emissions, transitions, start, end)
    probabilities(*scores, offsets, *unused, labels, span_starts, span_ends, inside, out)


_NO_LABELS, _NO_NUMBERS, _NO_OFFSETS = np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64)
_NO_LINKS = np.zeros((0, 0), np.bool_)


@kernel
def probabilities(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    marginals: Floats,
    log_z: Floats,
    labels: Ints,
    span_starts: Offsets,
    span_ends: Offsets,
    inside: Bools,
    out: Floats,
) -> None:
    """Do the work of `posterior`, and of `span_probabilities` where there are spans.

    One kernel, since most of the time that compiling takes goes to the recursions that both need.  Without marginals,
    sequences that have no span are left out.
    """
    n = emissions.shape[1]
    work = _workspace(offsets, n, emissions)
    potentials, alpha, beta, forward, backward = work[0], work[1], work[2], work[4], work[5]
    shared = transitions.shape[0] == 1
    base = 0.0
    if shared:
        base = _potentials(transitions[0], forward, backward)
    p = 0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        log_z[s] = 0
        first = p
        while p < span_starts.shape[0] and span_starts[p] < e:
            p += 1
        if e == b or (first == p and marginals.shape[0] == 0):
            continue
        length, steps = e - b, transitions
        if not shared:
            steps = transitions[b:e]
        local = potentials[:length]
        _local_scores((emissions[b:e], steps, start, end), labels[:0], local)
        maxima = _to_potentials(local)
        log_sum, exact = -np.inf, maxima > -np.inf
        if exact:
            log_sum, exact = _forward(steps, base, length, work)
        if exact:
            exact = _backward(steps, length, work, HUGE)
        if exact:
            log_z[s] = log_sum + maxima
            for t in range(b, e if marginals.shape[0] > 0 else b):
                row, a, z = marginals[t], alpha[t - b], beta[t - b]
                for k in range(n):
                    row[k] = a[k] * z[k]
            for q in range(first, p):
                out[q] = _span_probability(
                    steps, labels[b:e], span_starts[q] - b, span_ends[q] - b, length, inside, work
                )
        else:
            scores = (emissions[b:e], steps, start, end)
            log_z[s] = _probabilities_in_log_space(
                scores, b, marginals, labels[b:e], span_starts[first:p], span_ends[first:p], inside, out[first:p]
            )


@inlined
def _span_probability(
    transitions: Floats, labels: Ints, first: int, after: int, length: int, inside: Bools, work: Work
) -> float:
    """Return the probability of the span of the tokens first..after-1.

    In float64, with m_t(i, j) = M(i, j) e_t(j) c_t and sums over labels that do not go on with the span::

        sum_i alpha_{first-1}(i) m(i, l_first) * product_t m(l_{t-1}, l_t) * sum_j m(l_{after-1}, j) beta_after(j)
    """
    potentials, alpha, beta, scale, forward, backward, _ = work
    n, shared = transitions.shape[1], transitions.shape[0] == 1
    label, total = labels[first], 0.0
    if first == 0:
        total += alpha[first, label]
    else:
        if not shared:
            _potentials(transitions[first], forward, backward)
        for i in range(n):
            if not inside[i, label]:
                total += np.float64(alpha[first - 1, i]) * backward[label, i]
        total *= np.float64(potentials[first, label]) * scale[first]
    for t in range(first + 1, after):
        if not shared:
            _potentials(transitions[t], forward, backward)
        total *= np.float64(forward[label, labels[t]]) * potentials[t, labels[t]] * scale[t]
        label = labels[t]
    if after < length:
        if not shared:
            _potentials(transitions[after], forward, backward)
        rest = 0.0
        for j in range(n):
            if not inside[label, j]:
                rest += np.float64(forward[label, j]) * potentials[after, j] * beta[after, j]
        total *= rest * scale[after]
    return total


@kernel
def _probabilities_in_log_space(
    scores: Four,
    b: int,
    marginals: Floats,
    labels: Ints,
    span_starts: Offsets,
    span_ends: Offsets,
    inside: Bools,
    out: Floats,
) -> float:
    """Do what `probabilities` does for one sequence, whose first token is b, that scaling cannot represent.

    Return its log Z; where that is minus infinity, all probabilities are zero.
    """
    transitions, shape = scores[1], scores[0].shape
    length, n = shape
    shared = transitions.shape[0] == 1
    local, alpha, beta = np.empty(shape), np.empty(shape), np.empty(shape)
    _local_scores(scores, labels[:0], local)
    log_z = _log_forward_backward(local, transitions, alpha, beta)
    offset = log_z if log_z > -np.inf else 0.0
    for t in range(length if marginals.shape[0] > 0 else 0):
        for k in range(n):
            marginals[b + t, k] = np.exp(alpha[t, k] + beta[t, k] - offset)
    terms = np.empty(n)
    for p in range(out.shape[0]):
        first, after = span_starts[p] - b, span_ends[p] - b
        label = labels[first]
        score = local[first, label]
        if first > 0:
            step = transitions[0 if shared else first]
            for i in range(n):
                terms[i] = -np.inf if inside[i, label] else alpha[first - 1, i] + step[i, label]
            score += _log_sum(terms)
        for t in range(first + 1, after):
            score += transitions[0 if shared else t, label, labels[t]] + local[t, labels[t]]
            label = labels[t]
        if after < length:
            step = transitions[0 if shared else after]
            for j in range(n):
                terms[j] = -np.inf if inside[label, j] else step[label, j] + local[after, j] + beta[after, j]
            score += _log_sum(terms)
        out[p] = np.exp(score - offset)
    return log_z
