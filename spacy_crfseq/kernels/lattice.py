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
paths of score minus infinity (forbidden ones) are allowed.  Kernels only list such sequences; the functions around them
call `log_space`, which is compiled when the first one is met.

Covariances of the labels with a sum over positions, S(y) = sum_t n_t(y_t) + sum_t m_t(y_{t-1}, y_t), take a second
pair of recursions; `covariances` says what for.  Each position's part of S has its mean taken out::

    a_t(j) = c_t e_t(j) sum_i M(i, j) (a_{t-1}(i) + m_t(i, j) alpha_{t-1}(i)) + alpha_t(j) (n_t(j) - mean_t)
    b_{t-1}(i) = sum_j M(i, j) (w_t(j) + m_t(i, j) v_t(j))       v_t(j) = c_t e_t(j) beta_t(j)
    w_t(j) = c_t e_t(j) b_t(j) + v_t(j) (n_t(j) - mean_t)
    E[S 1(y_t = k)] = a_t(k) beta_t(k) + alpha_t(k) b_t(k)
    E[S 1(y_{t-1} = i, y_t = j)] = M(i, j) (a_{t-1}(i) v_t(j) + alpha_{t-1}(i) (w_t(j) + m_t(i, j) v_t(j)))
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import forward_backward as scaled
from . import log_space
from .forward_backward import FAINT, HUGE, LARGE, Work, multiply, transition_potentials
from .jit import inlined, internal, kernel
from .math import capped
from .sequences import PlainScores, Spans, add_counts, count_missing, part, path_score, sequence

_NO_NUMBERS: Floats = np.zeros(0)
PlainSpans: TypeAlias = tuple[Ints, Offsets, Offsets, Bools, Floats]
"""`Spans` as a plain tuple."""
_NO_PLACES: Offsets = np.zeros(0, np.int64)
_NO_SPANS: PlainSpans = np.zeros(0, np.int32), _NO_PLACES, _NO_PLACES, np.zeros((0, 0), np.bool_), _NO_NUMBERS


class Sums(NamedTuple):
    """Work arrays of the second pair of recursions.

    a, b, n (Floats): [longest, P]; n_t has its mean taken out in the end.
    spare (Floats): [P].
    forward, backward, counts (Floats): [P, P] transition potentials times m, their transpose, and expected shared
        transitions to be multiplied by them; empty without m.
    """

    a: Floats
    b: Floats
    n: Floats
    spare: Floats
    forward: Floats
    backward: Floats
    counts: Floats


def log_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float = 0.0) -> float:
    """Return the sum over sequences of ``weight * phi(-log P(gold | x))`` and add its gradient.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where cap is 0.

    offsets [N + 1], gold [T] (negative: summed out), weights [N]; the gradients have the shapes of the scores.  Where
    gold labels are missing, log P is the log of the sum over all completions (Tsuboi et al. 2008, eq. 4).
    """
    return expectations((*scores,), offsets, gold, weights, (*grad,), cap, _NO_NUMBERS)


def expectations(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats
) -> float:
    """Do the work of `log_loss`.

    Where `gold` is empty and cap 0, return the sum of ``weight * log Z`` and add its gradient, weights being of either
    sign; write log Z of each sequence that has a token and a weight to log_z [N], which is empty otherwise.
    """
    left = np.zeros(len(weights), np.int32)
    loss, some_left = scaled_expectations(scores, offsets, gold, weights, grad, cap, log_z, left)
    for s in np.flatnonzero(left) if some_left else ():
        b, e = offsets[s], offsets[s + 1]
        one, d_one = sequence(scores, b, e), sequence(grad, b, e)
        value, log_sum = log_space.log_loss(one, gold[b:e], weights[s], cap, left[s] == 2, d_one)
        loss += value
        if not len(gold):
            log_z[s] = log_sum
    return loss


@kernel
def scaled_expectations(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats,
    left: Ints,
) -> tuple[float, bool]:  # fmt: skip
    """Do the work of `expectations` for most sequences; return the sum, and whether some are left.

    left [N], zero before: 1 for a sequence that is left, 2 where only the pass over its gold labels is.
    """
    work, base = scaled.workspace(offsets, scores)
    d_transitions, dtype = grad[1], scores[0].dtype
    loss, some_left = 0.0, False
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        missing = count_missing(gold[b:e])
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
            log_sum, exact = scaled.accumulate(here, known, share, gold_log_sum, turn_cap, base, work, d_here)
            if not exact:
                left[s] = max(turn, 1)
                break
            if turn == 1:
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
            add_counts(gold[b:e], dtype.type(-factor * slope), d_here)
    scaled.add_shared_transitions(work, d_transitions)
    return loss, some_left


def covariances(
    scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores, cap: float = 0.0
) -> float:
    """Return the sum over sequences of ``weight * E[S]``, and add its gradient with n held constant.

    rows [T], table [R, L]: Token t has the n ``table[rows[t]]``.  Sequences without a possible labelling count 0.  If
    rows is empty, S is -log P(y | x) instead: return the weighted sum of the entropies H(Y | x), and add its gradient.
    If table is empty, rows are gold labels: return the sum over positions t with a gold label of
    ``weight * phi(-log P(gold_t | x))``, and add its gradient; phi as in `log_loss`, the weight that of the sequence.
    """
    left = np.zeros(len(weights), np.bool_)
    loss = _covariances((*scores,), offsets, rows, table, weights, (*grad,), cap, left)
    for s in np.flatnonzero(left):
        b, e = offsets[s], offsets[s + 1]
        one, d_one, own = sequence(scores, b, e), sequence(grad, b, e), rows[b:e]
        if len(rows) and not len(table):
            value = log_space.pointwise(one, own, weights[s], cap, d_one)
        else:
            value = log_space.covariances(one, table[own], weights[s], d_one)
        loss += weights[s] * value
    return loss


def totals(scores: Scores, offsets: Offsets, rows: Ints, weights: Floats, out: Floats) -> None:
    """Add ``weight * P(y_t = k | x)`` of each token with a row rows[t] > 0 to out[rows[t], k]; out [R, L] float64."""
    lengths = np.diff(offsets) * (weights != 0)  # sequences without a weight count as empty
    here = np.repeat(weights != 0, np.diff(offsets))
    steps = scores.transitions if len(scores.transitions) == 1 else scores.transitions[here]
    marginals = np.empty_like(scores.emissions[here])
    seen = scores._replace(emissions=scores.emissions[here], transitions=steps)
    posterior(seen, np.append(0, np.cumsum(lengths)), marginals, np.empty(len(lengths)))
    wanted = rows[here] > 0
    np.add.at(out, rows[here][wanted], np.repeat(weights, lengths)[wanted, None] * marginals[wanted])


@kernel
def _covariances(
    scores: PlainScores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: PlainScores, cap: float,
    left: Bools,
) -> float:  # fmt: skip
    """Do the work of `covariances` for most sequences; set left [N] for the others."""
    work, _ = scaled.workspace(offsets, scores)
    n, shared, entropy = scores[0].shape[1], scores[1].shape[0] == 1, rows.shape[0] == 0
    pointwise = table.shape[0] == 0 and not entropy
    sums, loss = _sums(work, entropy), 0.0
    if entropy and shared:
        _edge_potentials(work, sums)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        if e == b or weights[s] == 0 or (pointwise and count_missing(rows[b:e]) == e - b):
            continue
        here, d_here, own = part(scores, b, e), part(grad, b, e), rows[b:e]
        value, exact = 0.0, _solve(here, work)
        if exact and pointwise:
            value, exact = _weigh_positions(own, cap, work, sums)
        elif exact and entropy:
            value = _weigh_labellings(e - b, work, sums)
        elif exact:
            _load_weights(own, table, sums)
        if exact:
            mean, exact = _add_up(here.transitions, e - b, work, sums)
            value += 0 if pointwise else mean
        if exact:
            _add_covariances(here.transitions, weights[s], work, sums, d_here)
            loss += weights[s] * value
        left[s] = not exact
    scaled.add_shared_transitions(work, grad[1])
    if entropy and shared:
        for i in range(n):
            for j in range(n):
                grad[1][0, i, j] += sums.counts[i, j] * sums.forward[i, j]
    return loss


@inlined
def _sums(work: Work, edges: bool) -> Sums:
    """Return work arrays, with room for m if `edges`."""
    alpha, square = work.alpha, work.forward.shape[0] if edges else 0
    room = np.zeros((3, square, square), alpha.dtype)
    arrays = np.empty_like(alpha), np.empty_like(alpha), np.empty_like(alpha)
    return Sums(*arrays, np.empty(alpha.shape[1], alpha.dtype), room[0], room[1], room[2])


@inlined
def _solve(scores: Scores, work: Work) -> bool:
    """Fill potentials, alpha, beta and scale for one sequence; return whether they can be trusted."""
    transitions, length = scores.transitions, scores.emissions.shape[0]
    if not scaled.fill_potentials(scores, np.zeros(0, np.int32), work) > -np.inf:
        return False
    return scaled.forward(transitions, 0.0, length, work)[1] and scaled.backward(transitions, length, work, LARGE)


@inlined
def _weigh_positions(gold: Ints, cap: float, work: Work, sums: Sums) -> tuple[float, bool]:
    """Fill n of a pointwise loss; return the sum of phi over the positions, and whether it can be trusted."""
    loss = 0.0
    for t in range(gold.shape[0]):
        for k in range(sums.n.shape[1]):
            sums.n[t, k] = 0
        if gold[t] >= 0:
            p = np.float64(work.alpha[t, gold[t]]) * work.beta[t, gold[t]]
            if not p >= FAINT:
                return np.inf, False
            value, slope = capped(-np.log(p), cap)
            loss += value
            sums.n[t, gold[t]] = -slope / p
    return loss, True


@inlined
def _weigh_labellings(length: int, work: Work, sums: Sums) -> float:
    """Fill n of the entropy; return log Z without the maxima."""
    log_z = 0.0
    for t in range(length):
        log_z -= np.log(work.scale[t])
        for k in range(sums.n.shape[1]):
            potential = work.potentials[t, k]
            sums.n[t, k] = -np.log(potential) if potential > 0 else 0
    return log_z


@inlined
def _load_weights(rows: Ints, table: Floats, sums: Sums) -> None:
    """Fill n from a table, with zeros for the padding."""
    for t in range(rows.shape[0]):
        for k in range(sums.n.shape[1]):
            sums.n[t, k] = table[rows[t], k] if k < table.shape[1] else 0


@internal
def _edge_potentials(work: Work, sums: Sums) -> None:
    """Write the transition potentials M times m = -log M, and their transpose."""
    for i in range(work.forward.shape[0]):
        for j in range(work.forward.shape[0]):
            potential = work.forward[i, j]
            sums.forward[i, j] = -potential * np.log(potential) if potential > 0 else 0
            sums.backward[j, i] = sums.forward[i, j]


@inlined
def _step(transitions: Floats, t: int, work: Work, sums: Sums) -> None:
    """Prepare the potentials of the step to token t, unless all steps share them."""
    if transitions.shape[0] > 1:
        transition_potentials(transitions[t], work.forward, work.backward)
        if sums.forward.shape[0] > 0:
            _edge_potentials(work, sums)


@internal
def _add_up(transitions: Floats, length: int, work: Work, sums: Sums) -> tuple[float, bool]:
    """Return E[S] of one sequence, and whether it can be trusted, given n.

    If so, a is filled, potentials hold E[S 1(y_t = k)], beta v and b holds w.
    """
    potentials, alpha, beta, scale, forward, backward, _ = work
    a, b, own, spare, _, _, _ = sums
    padded, n, edges = potentials.shape[1], transitions.shape[1], sums.forward.shape[0] > 0
    expected, limit = 0.0, 0.0
    for t in range(length):
        here = a[t]
        for k in range(padded):
            here[k] = 0
        if t > 0:
            _step(transitions, t, work, sums)
            multiply(a[t - 1], forward, n, here)
            if edges:
                multiply(alpha[t - 1], sums.forward, n, spare)
                for k in range(padded):
                    here[k] += spare[k]
        mean = total = spread = scale.dtype.type(0)
        for k in range(padded):
            here[k] = scale[t] * potentials[t, k] * here[k] + alpha[t, k] * own[t, k]
            mean += here[k] * beta[t, k]
            total += alpha[t, k] * beta[t, k]
        mean /= total
        for k in range(padded):
            here[k] -= mean * alpha[t, k]
            own[t, k] -= mean
            spread += abs(here[k] * beta[t, k])
        expected += mean
        limit += abs(mean) + spread
    for k in range(padded):
        b[length - 1, k] = 0
    for t in range(length - 1, -1, -1):
        total = np.float64(0)
        for k in range(padded):
            potential, message = scale[t] * potentials[t, k], beta[t, k]
            potentials[t, k] = a[t, k] * message + alpha[t, k] * b[t, k]
            beta[t, k] = potential * message
            b[t, k] = potential * b[t, k] + own[t, k] * beta[t, k]
            total += potentials[t, k]
        if not abs(total) <= 1e-2 * limit:  # or not a number, where something got too large
            return np.inf, False
        if t > 0:
            _step(transitions, t, work, sums)
            multiply(b[t], backward, n, b[t - 1])
            if edges:
                multiply(beta[t], sums.backward, n, spare)
                for k in range(padded):
                    b[t - 1, k] += spare[k]
    return expected, True


@inlined
def _add_covariances(transitions: Floats, weight: float, work: Work, sums: Sums, grad: Scores) -> None:
    """Add what `_add_up` left, times a weight, to `grad`, shared transitions to the counts of `work` and `sums`."""
    covariances, alpha, messages, _, forward, _, counts = work
    a, b, edges = sums.a, sums.b, sums.forward.shape[0] > 0
    d_emissions, d_transitions, d_start, d_end = grad
    length, n = d_emissions.shape
    padded, factor = alpha.shape[1], alpha.dtype.type(weight)
    for k in range(n):
        d_start[k] += factor * covariances[0, k]
        d_end[k] += factor * covariances[length - 1, k]
    for t in range(length):
        for k in range(n):
            d_emissions[t, k] += factor * covariances[t, k]
    for t in range(1, length):
        ends, others = messages[t], b[t]
        _step(transitions, t, work, sums)
        for i in range(n):
            mass, partial = factor * alpha[t - 1, i], factor * a[t - 1, i]
            if transitions.shape[0] == 1:
                row = counts[i]
                for k in range(padded):
                    row[k] += partial * ends[k] + mass * others[k]
                if edges:
                    row = sums.counts[i]
                    for k in range(padded):
                        row[k] += mass * ends[k]
            else:
                for j in range(n):
                    d_transitions[t, i, j] += forward[i, j] * (partial * ends[j] + mass * others[j])
                    if edges:
                        d_transitions[t, i, j] += sums.forward[i, j] * mass * ends[j]


def posterior(scores: Scores, offsets: Offsets, marginals: Floats, log_z: Floats) -> None:
    """Write P(y_t = k | x) to marginals [T, L] and log Z of each sequence to log_z [N]."""
    _query(scores, offsets, marginals, log_z, _NO_SPANS)


def span_probabilities(
    scores: Scores, offsets: Offsets, labels: Ints, starts: Offsets, ends: Offsets, inside: Bools, out: Floats
) -> None:
    """Write the probability of spans [S] as labelled in `labels` [T] to out [S], float64.

    That is the probability that the tokens have these labels, and that neither the label before nor the label after
    belongs to the same span: ``inside[i, j]`` tells whether j right after i goes on with it.  Spans are in order, do
    not overlap, and lie within their sequences.
    """
    spans = labels, starts, ends, inside, out
    _query(scores, offsets, scores.emissions[:0], np.empty(len(offsets) - 1), spans)


def _query(scores: Scores, offsets: Offsets, marginals: Floats, log_z: Floats, spans: PlainSpans) -> None:
    left = np.zeros(len(offsets) - 1, np.bool_)
    _probabilities((*scores,), offsets, marginals, log_z, spans, left)
    labels, starts, ends, inside, out = spans
    for s in np.flatnonzero(left):
        b, e = offsets[s], offsets[s + 1]
        here = slice(*np.searchsorted(starts, (b, e)))
        own = Spans(labels[b:e], starts[here] - b, ends[here] - b, inside, out[here])
        log_z[s] = log_space.probabilities(sequence(scores, b, e), marginals[b:e], own)


@kernel
def _probabilities(
    scores: PlainScores, offsets: Offsets, marginals: Floats, log_z: Floats, spans: PlainSpans, left: Bools
) -> None:
    """Do the work of `posterior`, and of `span_probabilities` where there are spans; set left [N] for some sequences.

    One kernel, since most of the time that compiling takes goes to the recursions that both need.  Without marginals,
    sequences that have no span are skipped.
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
        left[s] = not exact


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
