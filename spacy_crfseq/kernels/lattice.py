"""Forward-backward on label lattices, in scaled probability space.

For one sequence with emission potentials e_t = exp(emissions - max) and M = exp(transitions - max)::

    alpha_t(j) = e_t(j) * sum_i alpha_{t-1}(i) M(i, j) * c_t           c_t = 1 / sum_j of the same
    beta_{t-1}(i) = sum_j M(i, j) e_t(j) beta_t(j) c_t
    P(y_t = k | x) = alpha_t(k) beta_t(k)
    P(y_{t-1} = i, y_t = j | x) = alpha_{t-1}(i) M(i, j) e_t(j) beta_t(j) c_t
    log Z = sum_t (log 1/c_t + the maxima taken out)

(Rabiner 1989, section V.A; Lafferty, McCallum & Pereira 2001.)  Start and end scores are added to the first and the
last emission.  Many sequences with shared transitions are done in `blocks`, the others one after another here.

Potentials and products near the smallest positive number are rounded to zero, and what was lost at one token may
matter most in the end.  So each sum over previous labels begins not at zero but at a little more than it can lose,
``floor L (1 + c_{t-1})``.  Then alpha is nowhere too small, beta nowhere too large, and ``sum_k alpha_t(k) beta_t(k)``
falls short of one by all that was added to alpha, weighted as it matters, and by all that beta has lost: where it is
one for every token, log Z and the marginals are right.  Other sequences, and those for which
``c_{t-1} e_t beta_t c_t`` exceeds what `limits` allows, are listed by kernels and done again in float64, if need
be with the scores that `normalised` returns.  So scores of any size and sequences of any length are safe, and label
paths of score minus infinity (forbidden ones) are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..types import Bools, Floats, Ints, Offsets, Scores
from . import PLAIN
from .jit import inlined, internal, kernel
from .sequences import (
    PlainScores,
    add_counts,
    capped,
    count_missing,
    exponentiate,
    largest,
    limits,
    local_scores,
    log_sum,
    longest,
    padded,
    part,
    path_score,
    room,
    step_to,
)

MANY = 16
"""The number of sequences from which blocks are faster than single sequences."""
LEFT, GOLD_LEFT = 1, 2
"""The parts that `scaled_expectations` may leave: a sequence, or only its pass over labellings that agree with gold."""
GOLD_BEFORE, FREE, GOLD_AFTER = 0, 1, 2
"""Passes over a sequence: labellings that agree with gold, all labellings, the former with the result of the latter."""
NO_NUMBERS: Floats = np.zeros(0)
NO_LABELS: Ints = np.zeros(0, np.int32)


def log_loss(
    scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float = 0.0,
    log_z: Floats = NO_NUMBERS,
) -> float:  # fmt: skip
    """Return the sum over sequences of ``weight * phi(-log P(gold | x))`` and add its gradient.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where cap is 0.

    offsets [N + 1], gold [T] (negative: summed out), weights [N]; the gradients have the shapes of the scores, that of
    transitions may be empty if it is not wanted.  Where gold labels are missing, log P is the log of the sum over all
    completions (Tsuboi et al. 2008, eq. 4).

    Where `gold` is empty and cap 0, return the sum of ``weight * log Z`` and add its gradient, weights being of either
    sign; write log Z of each sequence that has a token and a weight to log_z [N], which is empty otherwise.
    RAISES DataError: If `gold` is empty but log_z is not [N].
    """
    if not len(gold) and len(log_z) != len(weights) and offsets[-1] > 0:
        raise DataError(
            f"Without gold labels, log_z must have a place for each of {len(weights)} sequences, not {len(log_z)}."
        )
    loss = 0.0
    some_steps = offsets[-1] > len(weights)  # each block has the gradient of all transitions
    if len(weights) >= MANY and some_steps and len(scores.transitions) == 1 and not PLAIN:
        from . import blocks

        loss, beyond, some_left = blocks.log_loss((*scores,), offsets, gold, weights, (*grad,), cap, log_z)
        if not some_left:
            return loss
        weights = np.where(beyond, weights, 0.0)
    left = np.zeros(len(weights), np.int32)
    value, some_left = scaled_expectations((*scores,), offsets, gold, weights, (*grad,), cap, log_z, left)
    if some_left:
        value += exact_expectations(scores, offsets, gold, weights, grad, log_z, cap, left)
    return loss + value


def phi(nll: NDArray[np.float64], cap: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the function of `log_loss` of negative log-likelihoods [N], and its derivatives."""
    if not cap:
        return nll, np.ones_like(nll)
    slope = np.exp(np.minimum(nll, cap))
    return slope - 1 + slope * np.maximum(nll - cap, 0), slope


def exact_expectations(
    scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, log_z: Floats, cap: float, left: Ints
) -> float:
    """Do the work of `log_loss` for the sequences that `scaled_expectations` has left."""
    loss = 0.0
    for tokens, s, free, free_z in exactly(scores, offsets, left):
        chains, known_z = [(free, free_z, float(left[s] == LEFT))], 0.0
        if len(gold):
            labels, sequence = gold[tokens], part(scores, tokens.start, tokens.stop)
            wrong = (labels >= 0)[:, None] & (labels[:, None] != np.arange(sequence.emissions.shape[1]))
            agreeing, known_z = exact_scores(sequence._replace(emissions=np.where(wrong, -np.inf, sequence.emissions)))
            chains.append((agreeing, known_z, -1.0))
        else:
            log_z[s] = free_z
        values, slopes = phi(np.array([free_z - known_z]), cap)
        loss += float(weights[s] * values[0])
        for chain, total, sign in chains:
            if sign and total > -np.inf:
                d = chain.zeros_like()  # with no factor that would be too large for what `exact_scores` could do
                nothing = NO_LABELS, np.ones(1), (*d,), 0.0, np.zeros(1), np.zeros(1, np.int32)
                scaled_expectations((*chain,), whole(chain), *nothing)
                add_taken(d, tokens, grad, sign * float(weights[s] * slopes[0]))
    return loss


def exactly(scores: Scores, offsets: Offsets, left: NDArray[Any]) -> Iterator[tuple[slice, int, Scores, float]]:
    """Yield the tokens and the number of each sequence that is left, and what `exact_scores` returns."""
    for s in np.flatnonzero(left).tolist():
        b, e = offsets[s : s + 2].tolist()
        yield slice(b, e), s, *exact_scores(part(scores, b, e))


def exact_scores(sequence: Scores) -> tuple[Scores, float]:
    """Return scores of one sequence that scaling can represent in float64, and log Z of those that are given.

    They are the same ones, or those of `normalised`.  Where there is no labelling, log Z is minus infinity.
    """
    sequence, log_z, left = sequence.wide(), np.zeros(1), np.zeros(1, np.bool_)
    _posterior((*sequence,), whole(sequence), np.empty_like(sequence.emissions), log_z, left)
    return normalised(sequence) if left[0] else (sequence, float(log_z[0]))


def whole(sequence: Scores) -> Offsets:
    """Return the offsets of one sequence."""
    return np.array([0, len(sequence.emissions)])


def add_taken(d: Scores, tokens: slice, grad: Scores, factor: float = 1.0) -> None:
    """Add factor times the gradient of one sequence to that of all; either may have one step for all positions."""
    d = d if factor == 1 else Scores(*(factor * array for array in d))
    grad.emissions[tokens] += d.emissions
    if len(grad.transitions) == 1:
        grad.transitions[0] += d.transitions.sum(0)
    elif len(grad.transitions):
        grad.transitions[tokens] += d.transitions
    grad.start[:] += d.start
    grad.end[:] += d.end


def normalised(sequence: Scores) -> tuple[Scores, float]:
    """Return log-probabilities of the first label and of each step as scores of one sequence, and its log Z.

    The labellings have the same probabilities: by a recursion in log space, of what may follow each label,
    ``log P(y_t = j | y_{t-1} = i, x) = a_t(i, j) + e_t(j) + b_t(j) - b_{t-1}(i)``.
    """
    length, n = sequence.emissions.shape
    emissions, steps = np.zeros((length, n)), np.full((length, n, n), -np.inf)
    log_z = float(_normalise((*sequence,), emissions[0], steps))
    log_z = log_z if np.isfinite(log_z) else -np.inf  # sums of scores may be out of range
    return Scores(emissions, steps, np.zeros(n), np.zeros(n)), log_z


@kernel
def _normalise(scores: PlainScores, first: Floats, steps: Floats) -> float:
    """Write log P(y_0) to first [L] and log P(y_t | y_{t-1}) to steps [T, L, L]; return log Z."""
    emissions, transitions, start, end = scores
    length, n = emissions.shape
    log_z, ahead, after = 0.0, np.empty(n), end.copy()
    for t in range(length - 1, -1, -1):
        for k in range(n):
            ahead[k] = emissions[t, k] + after[k] + (start[k] if t == 0 else 0.0)
        top = log_sum(ahead) if t == 0 else largest(ahead)
        log_z += top
        if top == -np.inf:
            break
        for k in range(n):
            ahead[k] -= top
            if t == 0:
                first[k] = ahead[k]
        for i in range(n if t > 0 else 0):
            row, step = steps[t, i], step_to(transitions, t)[i]
            for k in range(n):
                row[k] = step[k] + ahead[k]
            after[i] = log_sum(row)
            for k in range(n if after[i] > -np.inf else 0):
                row[k] -= after[i]
    return log_z


class SequenceArrays(NamedTuple):
    """Work arrays for the longest sequence; rows of labels are padded to P, see `sequences.padded`.

    potentials, alpha, beta (Floats): [longest, P].
    scale (Floats): [longest] c_t.
    forward, backward (Floats): [P, P] the transition potentials at hand and their transpose.
    counts (Floats): [P, P] expected shared transitions, to be multiplied by their potentials.
    """

    potentials: Floats
    alpha: Floats
    beta: Floats
    scale: Floats
    forward: Floats
    backward: Floats
    counts: Floats


@inlined
def workspace(offsets: Offsets, scores: PlainScores) -> tuple[SequenceArrays, float]:
    """Return work arrays, with the potentials of shared transitions, and the maximum taken out of these."""
    emissions, transitions, _, _ = scores
    dtype, square = emissions.dtype, padded(emissions.shape[1])
    rows = longest(offsets), square
    work = SequenceArrays(
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.empty(rows[0], dtype),
        np.zeros((square, square), dtype),
        np.zeros((square, square), dtype),
        np.zeros((square, square), dtype),
    )
    base = 0.0
    if transitions.shape[0] == 1:
        base = transition_potentials(transitions[0], work.forward, work.backward)
    return work, base


@inlined
def add_shared_transitions(counts: Floats, potentials: Floats, d_transitions: Floats) -> None:
    """Add counts times potentials to the gradient of transitions if these are shared."""
    if d_transitions.shape[0] == 1:
        for i in range(d_transitions.shape[1]):
            for j in range(d_transitions.shape[1]):
                d_transitions[0, i, j] += counts[i, j] * potentials[i, j]


@internal
def transition_potentials(transitions: Floats, forward: Floats, backward: Floats) -> float:
    """Write exp(transitions - max) to forward and its transpose to backward, both padded; return the max."""
    n, tops = transitions.shape[0], backward[0]  # the maximum of each column, so that it takes vectors
    for j in range(n):
        tops[j] = transitions[0, j]
    for i in range(1, n):
        for j in range(n):
            tops[j] = transitions[i, j] if transitions[i, j] > tops[j] else tops[j]
    top = largest(tops[:n])
    if top == -np.inf:
        top = transitions.dtype.type(0)
    for i in range(n):
        row = forward[i, :n]
        for j in range(n):
            row[j] = transitions[i, j] - top
        exponentiate(row)
        for j in range(n):
            backward[j, i] = row[j]
    return top


@inlined
def fill_potentials(scores: Scores, gold: Ints, work: SequenceArrays) -> float:
    """Write exp(local score - max of the row), see `sequences.local_scores`; return the sum of the maxima."""
    local = work.potentials[: scores.emissions.shape[0]]
    local_scores(scores, gold, local)
    total = 0.0
    for t in range(local.shape[0]):
        row = local[t]
        top = largest(row)
        if top == -np.inf:
            return -np.inf
        total += top
        for k in range(row.shape[0]):
            row[k] -= top
        exponentiate(row)
    return total


@internal
def multiply(vector: Floats, matrix: Floats, n: int, least: float, out: Floats) -> None:
    """Write `least` plus vector [P] times the first n rows of matrix [P, P] to out [P].

    Rows up to the next multiple of 4 are zero: four at a time, so that a number of out is loaded and stored once for
    four products.
    """
    for k in range(out.shape[0]):
        out[k] = least
    for i in range(0, n, 4):
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        row_a, row_b, row_c, row_d = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for k in range(out.shape[0]):
            out[k] += a * row_a[k] + b * row_b[k] + c * row_c[k] + d * row_d[k]


@inlined
def forward(transitions: Floats, base: float, length: int, work: SequenceArrays) -> tuple[float, bool]:
    """Fill alpha and scale; return (log Z less the maxima of the emissions, whether it can be trusted)."""
    potentials, alpha, _, scale, potentials_ahead, potentials_back, _ = work
    width, n = potentials.shape[1], transitions.shape[1]
    log_z, floor = 0.0, limits(alpha).floor * n
    for t in range(length):
        row = alpha[t]
        if t == 0:
            for k in range(width):
                row[k] = potentials[0, k]
        else:
            if transitions.shape[0] == 1:
                log_z += base
            else:
                log_z += transition_potentials(transitions[t], potentials_ahead, potentials_back)
            multiply(alpha[t - 1], potentials_ahead, n, floor + floor * scale[t - 1], row)
            for k in range(width):
                row[k] *= potentials[t, k]
        total = row[0]
        for k in range(1, width):
            total += row[k]
        if not total > 0:
            return log_z, False
        log_z += np.log(total)
        scale[t] = 1 / total
        for k in range(width):
            row[k] *= scale[t]
    return log_z, True


@inlined
def backward(transitions: Floats, length: int, work: SequenceArrays, limit: float) -> bool:
    """Fill beta, so that alpha times beta are marginals; return whether all is right, no c e beta c over limit."""
    potentials, alpha, beta, scale, potentials_ahead, potentials_back, _ = work
    width, n = potentials.shape[1], transitions.shape[1]
    mass = np.empty(width, potentials.dtype)
    for k in range(width):
        beta[length - 1, k] = 1
    for t in range(length - 1, 0, -1):
        if transitions.shape[0] > 1:
            transition_potentials(transitions[t], potentials_ahead, potentials_back)
        top = scale.dtype.type(0)
        for j in range(width):
            mass[j] = potentials[t, j] * (beta[t, j] * scale[t])
            top = max(top, mass[j])
        if not top + top * scale[t - 1] <= limit:
            return False
        multiply(mass, potentials_back, n, 0.0, beta[t - 1])
    away = room(length, limits(beta).rounding)
    for t in range(length):
        total = alpha[t, 0] * beta[t, 0]
        for k in range(1, n):
            total += alpha[t, k] * beta[t, k]
        if not abs(total - 1) < away:
            return False
        correction = 1 / total  # rounding adds up over a long sequence
        for k in range(width):
            beta[t, k] *= correction
    return True


@inlined
def solve(scores: Scores, gold: Ints, base: float, limit: float, work: SequenceArrays) -> tuple[float, bool]:
    """Fill potentials, alpha, beta and scale of one sequence; return log Z, and whether all can be trusted.

    base is the maximum taken out of shared transitions; no c e beta c is over limit.
    """
    transitions, length = scores.transitions, scores.emissions.shape[0]
    maxima = fill_potentials(scores, gold, work)
    log_z, exact = -np.inf, maxima > -np.inf
    if exact:
        log_z, exact = forward(transitions, base, length, work)
    if exact:
        exact = backward(transitions, length, work, limit)
    return log_z + maxima, exact


@inlined
def accumulate(
    scores: Scores,
    gold: Ints,
    factor: float,
    gold_log_sum: float,
    cap: float,
    base: float,
    work: SequenceArrays,
    grad: Scores,
) -> tuple[float, bool]:
    """Add the expected counts of one sequence to `grad`, times factor and phi'(log Z - gold_log_sum).

    Return its log Z, and whether it can be trusted; if not, nothing is added.  base is the maximum taken out of shared
    transitions.  Their counts are left in the counts of `work`, still to be multiplied by the potentials.
    """
    # what comes of it is still to be multiplied by phi', up to e^30
    log_z, exact = solve(scores, gold, base, limits(work.beta).huge / max(1.0, abs(factor) * np.exp(cap)), work)
    if exact:
        share = scores.emissions.dtype.type(factor * capped(log_z - gold_log_sum, cap)[1])
        _add_counts(scores.transitions, scores.emissions.shape[0], share, work, grad)
    return log_z, exact


@inlined
def _add_counts(transitions: Floats, length: int, factor: float, work: SequenceArrays, grad: Scores) -> None:
    """Add factor times the marginals and expected transitions to `grad`, shared transitions to the counts of `work`."""
    potentials, alpha, beta, scale, potentials_ahead, potentials_back, counts = work
    d_emissions, d_transitions, d_start, d_end = grad
    width, n = potentials.shape[1], transitions.shape[1]
    for k in range(n):
        d_start[k] += factor * alpha[0, k] * beta[0, k]
        d_end[k] += factor * alpha[length - 1, k] * beta[length - 1, k]
    for t in range(length):
        row, a, z = d_emissions[t], alpha[t], beta[t]
        for k in range(n):
            row[k] += factor * a[k] * z[k]
    for t in range(1, length if d_transitions.shape[0] > 0 else 1):
        before, ends, marginal = alpha[t - 1], beta[t], potentials[t]
        for k in range(width):
            ends[k] *= factor * scale[t] * marginal[k]  # beta is not needed any more
        if transitions.shape[0] == 1:
            for i in range(n):
                mass, row = before[i], counts[i]
                for k in range(width):
                    row[k] += mass * ends[k]
        else:
            transition_potentials(transitions[t], potentials_ahead, potentials_back)
            for i in range(n):
                for j in range(n):
                    d_transitions[t, i, j] += before[i] * potentials_ahead[i, j] * ends[j]


@kernel
def scaled_expectations(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats,
    left: Ints,
) -> tuple[float, bool]:  # fmt: skip
    """Do the work of `log_loss` for most sequences; return the sum, and whether some are left.

    left [N], zero before, becomes `LEFT` or `GOLD_LEFT` for these.
    """
    work, base = workspace(offsets, scores)
    d_transitions, dtype = grad[1], scores[0].dtype
    loss, some_left = 0.0, False
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        missing = count_missing(gold[b:e])
        if missing == e - b or weights[s] == 0:  # empty sequences, too
            continue
        sequence, d_here = part(scores, b, e), part(grad, b, e)
        factor, gold_log_sum, free = weights[s], 0.0, 0.0
        if missing == 0 and gold.shape[0] > 0:
            gold_log_sum = path_score(gold, b, e, scores)
        # with missing labels, that sum takes a pass too: before the others where phi' depends on it, and after them
        first, last = GOLD_BEFORE if missing > 0 and cap > 0 else FREE, GOLD_AFTER if missing > 0 else FREE
        for turn in range(first, last + 1):
            labels, share, turn_cap = gold[b:e], 0.0, 0.0
            if turn == FREE:
                labels, share, turn_cap = gold[:0], factor, cap
            elif turn == GOLD_AFTER:
                share = -factor * capped(free - gold_log_sum, cap)[1]
            log_sum, exact = accumulate(sequence, labels, share, gold_log_sum, turn_cap, base, work, d_here)
            if not exact:
                left[s] = GOLD_LEFT if turn == GOLD_AFTER else LEFT
                break
            if turn == FREE:
                free = log_sum
            else:
                gold_log_sum = log_sum
        if left[s] > 0:
            some_left = True
            continue
        value, slope = capped(free - gold_log_sum, cap)
        loss += factor * value
        if gold.shape[0] == 0:
            log_z[s] = free
        elif missing == 0:
            add_counts(gold, b, e, dtype.type(-factor * slope), grad)
    add_shared_transitions(work.counts, work.forward, d_transitions)
    return loss, some_left


def posterior(scores: Scores, offsets: Offsets, marginals: Floats, log_z: Floats) -> None:
    """Write P(y_t = k | x) to marginals [T, L], unless that is empty, and log Z of each sequence to log_z [N].

    Where a sequence has no labelling, log Z is minus infinity, and the others are zero.
    """
    left = np.zeros(len(log_z), np.bool_)
    _posterior((*scores,), offsets, marginals, log_z, left)
    for tokens, s, sequence, log_z[s] in exactly(scores, offsets, left):
        if len(marginals):
            shares = np.zeros_like(sequence.emissions)
            _posterior((*sequence,), whole(sequence), shares, np.empty(1), left[s : s + 1])
            marginals[tokens] = shares


def log_partitions(scores: Scores, offsets: Offsets) -> NDArray[np.float64]:
    """Return log Z of each sequence [N], computed in float64; minus infinity where there is no labelling."""
    wide, log_z = scores.wide(), np.empty(len(offsets) - 1)
    posterior(wide, offsets, wide.emissions[:0], log_z)
    return log_z


@kernel
def _posterior(scores: PlainScores, offsets: Offsets, marginals: Floats, log_z: Floats, left: Bools) -> None:
    """Do the work of `posterior` for most sequences; set left [N] for the others."""
    work, base = workspace(offsets, scores)
    no_gold, n = np.empty(0, np.int32), scores[0].shape[1]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        log_z[s] = 0
        if e > b:
            log_z[s], exact = solve(part(scores, b, e), no_gold, base, limits(work.beta).huge, work)
            left[s] = not exact
            wanted = marginals[b:e]
            for t in range(wanted.shape[0] if exact else 0):
                row, a, z = wanted[t], work.alpha[t], work.beta[t]
                for k in range(n):
                    row[k] = a[k] * z[k]
