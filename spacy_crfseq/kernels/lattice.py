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

from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import forward_backward as scaled
from . import log_space
from ._jit import inlined, kernel
from .forward_backward import FAINT, HUGE, LARGE, Work, multiply, transition_potentials
from .math import capped
from .sequences import PlainScores, Spans, add_counts, part, path_score

_NO_NUMBERS: Floats = np.zeros(0)
_NO_SPANS = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.bool_), _NO_NUMBERS


class Sums(NamedTuple):
    """Partial sums a and b [longest, P] of pointwise losses, and n_t(k) = pull - push [k = gold_t], [longest] each."""

    a: Floats
    b: Floats
    pull: Floats
    push: Floats


def log_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float = 0.0) -> float:
    """Return the sum over sequences of ``weight * phi(-log P(gold | x))`` and add its gradient.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where cap is 0.

    offsets [N + 1], gold [T] (negative: summed out), weights [N]; the gradients have the shapes of the scores.  Where
    gold labels are missing, log P is the log of the sum over all completions (Tsuboi et al. 2008, eq. 4).
    """
    return expectations((*scores,), offsets, gold, weights, (*grad,), cap, _NO_NUMBERS)


@kernel
def expectations(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats
) -> float:
    """Do the work of `log_loss`.

    Where `gold` is empty and cap 0, return the sum of ``weight * log Z`` and add its gradient, weights being of either
    sign; write log Z of each sequence that has a token and a weight to log_z [N], which is empty otherwise.
    """
    work, base = scaled.workspace(offsets, scores)
    d_transitions, dtype = grad[1], scores[0].dtype
    loss = 0.0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        missing = _count_missing(gold[b:e])
        if missing == e - b or weights[s] == 0:  # empty sequences, too
            continue
        here, d_here = part(scores, b, e), part(grad, b, e)
        factor, gold_log_sum, free = weights[s], 0.0, 0.0
        if missing == 0 and gold.shape[0] > 0:
            gold_log_sum = path_score(here, gold[b:e])
        # with missing labels, that sum takes a pass too: before the others where phi' depends on it, and after them
        for turn in range(0 if missing > 0 and cap > 0 else 1, 3 if missing > 0 else 2):
            known, share, turn_cap = gold[b:e], 0.0, 0.0
            if turn == 1:
                known, share, turn_cap = gold[:0], factor, cap
            elif turn == 2:
                share = -factor * capped(free - gold_log_sum, cap)[1]
            log_sum = scaled.accumulate(here, known, share, gold_log_sum, turn_cap, base, work, d_here)
            if turn == 1:
                free = log_sum
            else:
                gold_log_sum = log_sum
        value, slope = capped(free - gold_log_sum, cap)
        loss += factor * value
        if gold.shape[0] == 0:
            log_z[s] = free
        elif missing == 0:
            add_counts(gold[b:e], dtype.type(-factor * slope), d_here)
    scaled.add_shared_transitions(work, d_transitions)
    return loss


@inlined
def _count_missing(gold: Ints) -> int:
    missing = 0
    for label in gold:
        missing += label < 0
    return missing


def pointwise(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float) -> float:
    """Return the sum over positions t with a gold label of ``weight * phi(-log P(gold_t | x))``; add its gradient.

    Shapes and phi as in `log_loss`; a position has the weight of its sequence.
    """
    return _pointwise((*scores,), offsets, gold, weights, (*grad,), cap)


@kernel
def _pointwise(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float
) -> float:
    """Do the work of `pointwise`."""
    work, _ = scaled.workspace(offsets, scores)
    alpha, scale = work.alpha, work.scale
    sums = Sums(np.empty_like(alpha), np.empty_like(alpha), np.empty_like(scale), np.empty_like(scale))
    loss = 0.0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if _count_missing(gold[b:e]) == e - b or weights[s] == 0:  # empty sequences, too
            continue
        here, d_here = part(scores, b, e), part(grad, b, e)
        value, exact = _pointwise_sums(here, gold[b:e], weights[s], cap, work, sums)
        if exact:
            _add_covariances(here.transitions, work, sums, d_here)
        else:
            value = log_space.pointwise(here, gold[b:e], weights[s], cap, d_here)
        loss += weights[s] * value
    scaled.add_shared_transitions(work, grad[1])
    return loss


@inlined
def _pointwise_sums(
    scores: Scores, gold: Ints, weight: float, cap: float, work: Work, sums: Sums
) -> tuple[float, bool]:
    """Return the sum of phi over the positions of one sequence, and whether it can be trusted.

    If so, a is filled, potentials hold the gradient of the emissions, beta c_t e_t(j) beta_t(j) and b holds w.
    """
    # long, since the three passes share their arrays and give up together
    potentials, alpha, beta, scale, forward, backward, _ = work
    a, b, pull, push = sums
    transitions, length = scores.transitions, scores.emissions.shape[0]
    padded, n = potentials.shape[1], transitions.shape[1]
    if not scaled.fill_potentials(scores, gold[:0], work) > -np.inf:
        return np.inf, False
    if not scaled.forward(transitions, 0.0, length, work)[1] or not scaled.backward(transitions, length, work, LARGE):
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
            value, slope = capped(-np.log(p), cap)
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
                transition_potentials(transitions[t], forward, backward)
            multiply(a[t - 1], forward, n, here)
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
                transition_potentials(transitions[t], forward, backward)
            multiply(b[t], backward, n, b[t - 1])
    return loss, True


@inlined
def _add_covariances(transitions: Floats, work: Work, sums: Sums, grad: Scores) -> None:
    """Add what `_pointwise_sums` left to `grad`, shared transitions to the counts of `work`."""
    covariances, alpha, messages, _, forward, backward, counts = work
    a, b, _, _ = sums
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
            transition_potentials(transitions[t], forward, backward)
            for i in range(n):
                mass, partial = alpha[t - 1, i], a[t - 1, i]
                for j in range(n):
                    d_transitions[t, i, j] += forward[i, j] * (partial * ends[j] + mass * sums[j])


def posterior(scores: Scores, offsets: Offsets, marginals: Floats, log_z: Floats) -> None:
    """Write P(y_t = k | x) to marginals [T, L] and log Z of each sequence to log_z [N]."""
    probabilities((*scores,), offsets, marginals, log_z, _NO_SPANS)


def span_probabilities(
    scores: Scores, offsets: Offsets, labels: Ints, starts: Offsets, ends: Offsets, inside: Bools, out: Floats
) -> None:
    """Write the probability of spans [S] as labelled in `labels` [T] to out [S], float64.

    That is the probability that the tokens have these labels, and that neither the label before nor the label after
    belongs to the same span: ``inside[i, j]`` tells whether j right after i goes on with it.  Spans are in order, do
    not overlap, and lie within their sequences.
    """
    spans = labels, starts, ends, inside, out
    probabilities((*scores,), offsets, scores.emissions[:0], np.empty(len(offsets) - 1), spans)


@kernel
def probabilities(
    scores: PlainScores,
    offsets: Offsets,
    marginals: Floats,
    log_z: Floats,
    spans: tuple[Ints, Offsets, Offsets, Bools, Floats],
) -> None:
    """Do the work of `posterior`, and of `span_probabilities` where there are spans.

    One kernel, since most of the time that compiling takes goes to the recursions that both need.  Without marginals,
    sequences that have no span are left out.
    """
    labels, starts, ends, inside, out = spans
    work, base = scaled.workspace(offsets, scores)
    alpha, beta, n = work.alpha, work.beta, scores[0].shape[1]
    p = 0
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        log_z[s] = 0
        first = p
        while p < starts.shape[0] and starts[p] < e:
            p += 1
        if e == b or (first == p and marginals.shape[0] == 0):
            continue
        here, wanted, length = part(scores, b, e), marginals[b:e], e - b
        maxima = scaled.fill_potentials(here, labels[:0], work)
        log_sum, exact = -np.inf, maxima > -np.inf
        if exact:
            log_sum, exact = scaled.forward(here.transitions, base, length, work)
        if exact:
            exact = scaled.backward(here.transitions, length, work, HUGE)
        if exact:
            log_z[s] = log_sum + maxima
            for t in range(wanted.shape[0]):
                row, a, z = wanted[t], alpha[t], beta[t]
                for k in range(n):
                    row[k] = a[k] * z[k]
            for q in range(first, p):
                span, known = (starts[q] - b, ends[q] - b), labels[b:e]
                out[q] = _span_probability(here.transitions, span, length, known, inside, work)
        else:
            own = Spans(labels[b:e], starts[first:p] - b, ends[first:p] - b, inside, out[first:p])
            log_z[s] = log_space.probabilities(here, wanted, own)


@inlined
def _span_probability(
    transitions: Floats, span: tuple[int, int], length: int, labels: Ints, inside: Bools, work: Work
) -> float:
    """Return the probability of a span, the tokens first..after-1.

    In float64, with m_t(i, j) = M(i, j) e_t(j) c_t and sums over labels that do not go on with the span::

        sum_i alpha_{first-1}(i) m(i, l_first) * product_t m(l_{t-1}, l_t) * sum_j m(l_{after-1}, j) beta_after(j)
    """
    potentials, alpha, beta, scale, forward, backward, _ = work
    n, shared, (first, after) = transitions.shape[1], transitions.shape[0] == 1, span
    label, total = labels[first], 0.0
    if first == 0:
        total += alpha[first, label]
    else:
        if not shared:
            transition_potentials(transitions[first], forward, backward)
        for i in range(n):
            if not inside[i, label]:
                total += np.float64(alpha[first - 1, i]) * backward[label, i]
        total *= np.float64(potentials[first, label]) * scale[first]
    for t in range(first + 1, after):
        if not shared:
            transition_potentials(transitions[t], forward, backward)
        total *= np.float64(forward[label, labels[t]]) * potentials[t, labels[t]] * scale[t]
        label = labels[t]
    if after < length:
        if not shared:
            transition_potentials(transitions[after], forward, backward)
        rest = 0.0
        for j in range(n):
            if not inside[label, j]:
                rest += np.float64(forward[label, j]) * potentials[after, j] * beta[after, j]
        total *= rest * scale[after]
    return total
