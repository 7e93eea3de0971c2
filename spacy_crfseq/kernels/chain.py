"""Queries of one sequence after another: covariances of labels with a sum over positions, entropies, samples.

They go beside the recursions of `lattice`.  Let S(y) = sum_t n_t(y_t) + sum_t m_t(y_{t-1}, y_t) be a sum, as in
`kernels/covariances.py`, which says for which losses and computes the same for blocks.  The code has an m for the
entropy only, m_t = -log M.  Each position's part of S has its mean taken out::

    a_t(j) = c_t e_t(j) sum_i M(i, j) (a_{t-1}(i) + m_t(i, j) alpha_{t-1}(i)) + alpha_t(j) (n_t(j) - mean_t)
    h_{t-1}(i) = sum_j M(i, j) (w_t(j) + m_t(i, j) v_t(j))       v_t(j) = c_t e_t(j) beta_t(j)
    w_t(j) = c_t e_t(j) h_t(j) + v_t(j) (n_t(j) - mean_t)
    E[S 1(y_t = k)] = a_t(k) beta_t(k) + alpha_t(k) h_t(k)
    E[S 1(y_{t-1} = i, y_t = j)] = M(i, j) (a_{t-1}(i) v_t(j) + alpha_{t-1}(i) (w_t(j) + m_t(i, j) v_t(j)))

The next label of a sample is drawn with ``P(y_t = j | y_{t-1} = i, x) = M(i, j) v_t(j) / beta_{t-1}(i)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import PLAIN
from .jit import inlined, internal, kernel
from .lattice import (
    NO_LABELS,
    NO_NUMBERS,
    SequenceArrays,
    add_shared_transitions,
    add_taken,
    exact_expectations,
    exactly,
    multiply,
    normalised,
    posterior,
    solve,
    transition_potentials,
    whole,
    workspace,
)
from .sequences import DOUBLE, PlainScores, capped, count_missing, limits, part


class Sums(NamedTuple):
    """Work arrays of the second pair of recursions.

    a, w, n (Floats): [longest, P]; n_t has its mean taken out in the end.
    spare (Floats): [P].
    forward, backward, counts (Floats): [P, P] transition potentials times m, their transpose, and expected shared
        transitions to be multiplied by them; empty without m.
    """

    a: Floats
    w: Floats
    n: Floats
    spare: Floats
    forward: Floats
    backward: Floats
    counts: Floats


def expected_sum(scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores) -> float:
    """Return the sum over sequences of ``weight * E[S]``, and add its gradient with n held constant.

    rows [T], table [R, L]: S(y) = sum_t n_t(y_t) has the n ``table[rows[t]]``.  A function of expected counts has the
    gradient of this sum if n is its derivative.  Sequences without a possible labelling count 0.
    """
    return _total(scores, offsets, rows, table, weights, grad)


def total_entropy(scores: Scores, offsets: Offsets, weights: Floats, grad: Scores) -> float:
    """Return the weighted sum of the entropies H(Y | x) of sequences, and add its gradient."""
    return _total(scores, offsets, NO_LABELS, scores.emissions[:0], weights, grad)


def pointwise_loss(
    scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float = 0.0
) -> float:
    """Return the sum over positions t with a gold label of ``weight * phi(-log P(gold_t | x))``; add its gradient.

    gold [T], negative where a label is missing; the weight is that of the sequence, and phi as in `lattice.log_loss`.
    """
    return _total(scores, offsets, gold, scores.emissions[:0], weights, grad, cap)


def _total(
    scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores, cap: float = 0.0
) -> float:
    """Do the work of all three, which the kernels tell apart by what is empty.

    Without rows, S is -log P(y | x): the entropy.  Without a table, rows are gold labels: the pointwise loss.
    """
    left, loss = weights != 0, 0.0
    if len(scores.transitions) == 1 and not PLAIN:
        from . import covariances as blocks

        loss, left = blocks.covariances(scores, offsets, rows, table, weights, grad, cap)
    if left.any():
        values = _values(scores, offsets, rows, table, weights, grad, cap, left)
        loss += float(np.where(values > -np.inf, values, 0.0) @ weights)
    return loss


def entropies(scores: Scores, offsets: Offsets) -> NDArray[np.float64]:
    """Return the entropy of each sequence's labellings [N], in nats; minus infinity where there is none."""
    wide = scores.wide()
    nothing, weights = Scores(*(array[:0] for array in wide)), np.ones(len(offsets) - 1)
    return _values(wide, offsets, NO_LABELS, wide.emissions[:0], weights, nothing, 0.0, weights > 0)


def _values(
    scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores, cap: float, left: Bools
) -> NDArray[np.float64]:
    """Return E[S] of each sequence that is left [N], else 0, and add its gradient if there is room for one.

    It is minus infinity where there is no labelling, infinity if that makes known labels impossible.
    """
    values, pointwise = np.zeros(len(weights)), len(rows) > 0 and not len(table)
    _covariances((*scores,), offsets, rows, table, weights, (*grad,), cap, values, left)
    for tokens, s, text, total in exactly(scores, offsets, left):
        own, weight, table = rows[tokens].copy(), weights[s : s + 1], table.astype(np.float64)
        if total == -np.inf:
            values[s] = np.inf if pointwise and (own >= 0).any() else -np.inf
            continue
        text, rest = normalised(text)[0], 0.0  # `exactly` may leave numbers that are too large here
        if pointwise:  # a probability too small to divide by is that of a sequence of which one label is known
            shares = np.zeros_like(text.emissions)
            posterior(text, whole(text), shares, np.empty(1))
            for t in np.flatnonzero((own >= 0) & ~(shares[np.arange(len(own)), own] >= DOUBLE.faint)):
                label = np.full_like(own, -1)
                label[t], own[t] = own[t], -1
                data, d = (part(side, tokens.start, tokens.stop) for side in (scores, grad))
                rest += exact_expectations(
                    data, whole(text), label, weight, d, NO_NUMBERS, cap, np.ones(1, np.int32)
                ) / float(weight[0])
        d = text.zeros_like() if len(grad.emissions) else Scores(*(array[:0] for array in text))
        _covariances((*text,), whole(text), own, table, weight, (*d,), cap, values[s : s + 1], np.ones(1, np.bool_))
        values[s] += rest
        if len(grad.emissions):
            add_taken(d, tokens, grad)
    return values


@kernel
def _covariances(
    scores: PlainScores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: PlainScores, cap: float,
    values: Floats, left: Bools,
) -> None:  # fmt: skip
    """Do the work of `_values` for most sequences that are left; set left [N] for the others alone."""
    work, base = workspace(offsets, scores)
    shared, entropy, wanted = scores[1].shape[0] == 1, rows.shape[0] == 0, grad[0].shape[0] > 0
    pointwise = table.shape[0] == 0 and not entropy
    sums = _sums(work, entropy)
    if entropy and shared:
        _edge_potentials(work, sums)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        sequence, d_here, own = part(scores, b, e), part(grad, b, e), rows[b:e]
        if not left[s] or e == b or (pointwise and count_missing(own) == e - b):
            left[s] = False
            continue
        # forward and backward, the weights n of labels, then both recursions of the sums
        value, (_, exact) = 0.0, solve(sequence, own[:0], base, limits(work.beta).large, work)
        if exact and pointwise:
            value, exact = _weigh_positions(own, cap, work, sums)
        elif exact and entropy:
            value = _weigh_labellings(e - b, work, sums)
        elif exact:
            _load_weights(own, table, sums)
        if exact:
            mean, limit = _add_forward(sequence.transitions, e - b, work, sums)
            value += 0 if pointwise else mean
            exact = not wanted or _add_backward(sequence.transitions, e - b, limit, work, sums)
        if exact:
            values[s] = value
        if exact and wanted:
            _add_covariances(sequence.transitions, weights[s], work, sums, d_here)
        left[s] = not exact
    add_shared_transitions(work.counts, work.forward, grad[1])
    if entropy:
        add_shared_transitions(sums.counts, sums.forward, grad[1])


@inlined
def _sums(work: SequenceArrays, edges: bool) -> Sums:
    """Return work arrays, with room for m if `edges`."""
    alpha, square = work.alpha, work.forward.shape[0] if edges else 0
    room = np.zeros((3, square, square), alpha.dtype)
    arrays = np.empty_like(alpha), np.empty_like(alpha), np.empty_like(alpha)
    return Sums(*arrays, np.empty(alpha.shape[1], alpha.dtype), room[0], room[1], room[2])


@inlined
def _weigh_positions(gold: Ints, cap: float, work: SequenceArrays, sums: Sums) -> tuple[float, bool]:
    """Fill n of a pointwise loss; return the sum of phi over the positions, and whether it can be trusted."""
    loss = 0.0
    for t in range(gold.shape[0]):
        for k in range(sums.n.shape[1]):
            sums.n[t, k] = 0
        if gold[t] >= 0:
            p = np.float64(work.alpha[t, gold[t]]) * work.beta[t, gold[t]]
            if not p >= limits(work.beta).faint:
                return np.inf, False
            value, slope = capped(-np.log(p), cap)
            loss += value
            sums.n[t, gold[t]] = -slope / p
    return loss, True


@inlined
def _weigh_labellings(length: int, work: SequenceArrays, sums: Sums) -> float:
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
def _edge_potentials(work: SequenceArrays, sums: Sums) -> None:
    """Write the transition potentials M times m = -log M, and their transpose."""
    for i in range(work.forward.shape[0]):
        for j in range(work.forward.shape[0]):
            potential = work.forward[i, j]
            sums.forward[i, j] = -potential * np.log(potential) if potential > 0 else 0
            sums.backward[j, i] = sums.forward[i, j]


@inlined
def _step(transitions: Floats, t: int, work: SequenceArrays, sums: Sums) -> None:
    """Prepare the potentials of the step to token t, unless all steps share them."""
    if transitions.shape[0] > 1:
        transition_potentials(transitions[t], work.forward, work.backward)
        if sums.forward.shape[0] > 0:
            _edge_potentials(work, sums)


@inlined
def _multiply(x: Floats, matrix: Floats, y: Floats, edges: Floats, n: int, spare: Floats, out: Floats) -> None:
    """Write ``x matrix`` to out [P], plus ``y edges`` unless these are empty."""
    multiply(x, matrix, n, 0.0, out)
    if edges.shape[0] > 0:
        multiply(y, edges, n, 0.0, spare)
        for k in range(out.shape[0]):
            out[k] += spare[k]


@internal
def _add_forward(transitions: Floats, length: int, work: SequenceArrays, sums: Sums) -> tuple[float, float]:
    """Fill a, and take the means out of n; return E[S] of one sequence, and the size of what adds up to it."""
    potentials, alpha, beta, scale, forward, _, _ = work
    a, _, own, spare, edges, _, _ = sums
    n, expected, limit = transitions.shape[1], 0.0, 0.0
    # a_t(k): forward mass of label k, times the expected sum of n up to token t
    for t in range(length):
        sums_t = a[t]
        if t > 0:
            _step(transitions, t, work, sums)
            _multiply(a[t - 1], forward, alpha[t - 1], edges, n, spare, sums_t)
        mean = total = spread = scale.dtype.type(0)
        for k in range(sums_t.shape[0]):
            before = scale[t] * potentials[t, k] * sums_t[k] if t > 0 else scale.dtype.type(0)
            sums_t[k] = before + alpha[t, k] * own[t, k]
            mean += sums_t[k] * beta[t, k]
            total += alpha[t, k] * beta[t, k]
        mean /= total
        # sums around the mean, which stay small in long sequences
        for k in range(sums_t.shape[0]):
            sums_t[k] -= mean * alpha[t, k]
            own[t, k] -= mean
            spread += abs(sums_t[k] * beta[t, k])
        expected += mean
        limit += abs(mean) + spread
    return expected, limit


@internal
def _add_backward(transitions: Floats, length: int, limit: float, work: SequenceArrays, sums: Sums) -> bool:
    """Replace potentials by E[S 1(y_t = k)], beta by v, and fill w; return whether they can be trusted."""
    potentials, alpha, beta, scale, _, backward, _ = work
    a, w, own, spare, _, edges, _ = sums
    n = transitions.shape[1]
    for k in range(potentials.shape[1]):
        w[length - 1, k] = 0
    # w_t(k): the same sums behind token t; the covariances of its labels take the place of its potentials
    for t in range(length - 1, -1, -1):
        total, sums_t = 0.0, w[t]
        for k in range(sums_t.shape[0]):
            potential, message = scale[t] * potentials[t, k], beta[t, k]
            potentials[t, k] = a[t, k] * message + alpha[t, k] * sums_t[k]
            beta[t, k] = potential * message
            sums_t[k] = potential * sums_t[k] + own[t, k] * beta[t, k]
            total += potentials[t, k]
        if not abs(total) <= 1e-2 * limit:  # or not a number, where something got too large
            return False
        if t > 0:
            _step(transitions, t, work, sums)
            _multiply(sums_t, backward, beta[t], edges, n, spare, w[t - 1])
    return True


@inlined
def _add_covariances(transitions: Floats, weight: float, work: SequenceArrays, sums: Sums, grad: Scores) -> None:
    """Add the gradient that the recursions left, times a weight, to `grad`, shared transitions to counts."""
    covariances, alpha, messages, _, forward, _, counts = work
    d_emissions, d_transitions, d_start, d_end = grad
    length, n = d_emissions.shape
    edges, factor = sums.forward.shape[0] > 0, alpha.dtype.type(weight)
    # labels, the first and the last
    for k in range(n):
        d_start[k] += factor * covariances[0, k]
        d_end[k] += factor * covariances[length - 1, k]
        for t in range(length):
            d_emissions[t, k] += factor * covariances[t, k]
    # steps: the sum before the step times the mass behind it, and the other way round
    for t in range(1, length):
        ends, others = messages[t], sums.w[t]
        _step(transitions, t, work, sums)
        for i in range(n):
            mass, share = factor * alpha[t - 1, i], factor * sums.a[t - 1, i]
            if transitions.shape[0] == 1:
                row = counts[i]
                for k in range(row.shape[0]):
                    row[k] += share * ends[k] + mass * others[k]
                if edges:
                    row = sums.counts[i]
                    for k in range(row.shape[0]):
                        row[k] += mass * ends[k]
            else:
                for j in range(n):
                    d_transitions[t, i, j] += forward[i, j] * (share * ends[j] + mass * others[j])
                    if edges:
                        d_transitions[t, i, j] += sums.forward[i, j] * mass * ends[j]


def path_scores(scores: Scores, offsets: Offsets, labels: Ints) -> NDArray[np.float64]:
    """Return the score of the labels [T] of each sequence [N]; 0 where it is empty."""
    emissions, transitions, start, end = scores
    owners, lengths = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), np.diff(offsets)
    inner = np.flatnonzero(np.diff(owners) == 0) + 1  # tokens after another one of their sequence
    terms = emissions[np.arange(len(labels)), labels].astype(np.float64)
    terms[inner] += transitions[0 if len(transitions) == 1 else inner, labels[inner - 1], labels[inner]]
    first, after = offsets[:-1][lengths > 0], offsets[1:][lengths > 0]
    terms[first] += start[labels[first]]
    terms[after - 1] += end[labels[after - 1]]
    return np.bincount(owners, terms, len(lengths)).astype(np.float64, copy=False)


def sample(scores: Scores, offsets: Offsets, uniforms: Floats) -> tuple[Ints, NDArray[np.float64]]:
    """Return independent labellings [S, T], drawn with the numbers uniforms [T, S] from [0, 1), and log Z [N]."""
    log_z, labels = np.zeros(len(offsets) - 1), np.empty(uniforms.shape, np.int32)
    left = np.zeros(len(log_z), np.bool_)
    _sample((*scores.wide(),), offsets, uniforms, labels, log_z, left)
    for tokens, s, sequence, log_z[s] in exactly(scores, offsets, left):
        _sample((*sequence,), whole(sequence), uniforms[tokens], labels[tokens], np.empty(1), left[s : s + 1])
    return np.ascontiguousarray(labels.T), log_z


@kernel
def _sample(scores: PlainScores, offsets: Offsets, uniforms: Floats, labels: Ints, log_z: Floats, left: Bools) -> None:
    """Do the work of `sample` for most sequences, labels being [T, S]; set left [N] for the others."""
    work, base = workspace(offsets, scores)
    n, shares = scores[0].shape[1], np.empty(scores[0].shape[1])
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        sequence = part(scores, b, e)
        exact = e == b
        if e > b:
            log_z[s], exact = solve(sequence, labels[0, :0], base, limits(work.beta).huge, work)
        left[s] = not exact
        for t in range(e - b if exact else 0):
            if t > 0 and sequence.transitions.shape[0] > 1:
                transition_potentials(sequence.transitions[t], work.forward, work.backward)
            for k in range(n):
                shares[k] = (work.scale[t] * work.potentials[t, k] if t > 0 else work.alpha[t, k]) * work.beta[t, k]
            for c in range(labels.shape[1]):
                before, wanted = 0, uniforms[b + t, c]
                if t > 0:
                    before = labels[b + t - 1, c]
                    wanted *= work.beta[t - 1, before]
                for k in range(n):
                    share = shares[k] * work.forward[before, k] if t > 0 else shares[k]
                    if share > 0:  # never a label of probability zero, whatever rounding does
                        labels[b + t, c] = k
                        wanted -= share
                        if wanted < 0:
                            break
