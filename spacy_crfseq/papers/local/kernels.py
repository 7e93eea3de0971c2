"""Chains that are normalised at each token: ``P(y | x) = prod_t P(y_t | y_{t-1}, x)``, the MEMM.

``P(y_t = j | y_{t-1} = i, x)`` is the softmax over j of ``emissions_t(j) + transitions_t(i, j)``, with start scores at
the first and end scores at the last token of a sequence (McCallum, Freitag & Pereira 2000, eq. 1).
"""

from __future__ import annotations

import numpy as np

from ...kernels.jit import inlined, internal, kernel
from ...kernels.sequences import PlainScores, exponentiate, largest, log_add, log_sum, padded, part, step_to
from ...types import Floats, Ints, Offsets, Scores


def log_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores) -> float:
    """Return the sum over sequences of ``weight * -log P(gold | x)`` and add its gradient.

    Shapes as in `lattice.log_loss`.  A token whose label and the one before are known needs one row of transitions,
    L numbers of work; labels that are missing (negative) are summed out, L x L for each.  Nothing follows from
    a missing label after which none is known.
    """
    return _log_loss((*scores,), offsets, gold, weights, (*grad,))


@kernel
def _log_loss(scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores) -> float:
    """Do the work of `log_loss`."""
    emissions, transitions, start, end = scores
    d_emissions, d_transitions, d_start, d_end = grad
    dtype, loss = emissions.dtype, 0.0
    row = np.full(padded(start.shape[0]), -np.inf, dtype)
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        t, f = b, dtype.type(weights[s])
        while t < e and weights[s] != 0:
            last = t
            while last < e - 1 and gold[last] < 0:
                last += 1
            if gold[last] < 0:
                break
            if last > t:
                loss -= weights[s] * _sum_out(scores, gold, b, e, t, last, weights[s], grad)
            else:
                before, ends = gold[t - 1] if t > b else -1, t == e - 1
                log_p = _fill_gradient(emissions, transitions, start, end, t, before, ends, gold[t], f, row)
                loss -= weights[s] * log_p
                if log_p > -np.inf:
                    _add_row(row, t, before, ends, d_emissions, d_transitions, d_start, d_end)
            t = last + 1
    return loss


@inlined
def _fill_gradient(
    emissions: Floats, transitions: Floats, start: Floats, end: Floats, t: int, before: int, ends: bool, label: int,
    factor: float, row: Floats,
) -> float:  # fmt: skip
    """Return log P(label | before) at token t, and write factor times the gradient of its negative to row [P].

    before is -1 at the first token, ends true at the last one.  Nothing is written where log P is minus infinity.
    """
    n, source = start.shape[0], 0 if transitions.shape[0] == 1 else t
    for k in range(row.shape[0]):
        row[k] = -np.inf
    if before < 0:
        for k in range(n):
            row[k] = emissions[t, k] + start[k]
    else:
        for k in range(n):
            row[k] = emissions[t, k] + transitions[source, before, k]
    if ends:
        for k in range(n):
            row[k] += end[k]
    top = largest(row)
    score = row[label] - top
    if not score > -np.inf:
        return -np.inf
    for k in range(row.shape[0]):
        row[k] -= top
    exponentiate(row)
    total = emissions.dtype.type(0)
    for k in range(row.shape[0]):
        total += row[k]
    share = factor / total
    for k in range(row.shape[0]):
        row[k] *= share
    row[label] -= factor
    return np.float64(score) - np.log(np.float64(total))


@internal
def _add_row(
    row: Floats, t: int, before: int, ends: bool, d_emissions: Floats, d_transitions: Floats, d_start: Floats,
    d_end: Floats,
) -> None:  # fmt: skip
    """Add the gradient [L] of the scores of token t after the label `before` (-1 for none) to what they consist of."""
    n, source = d_start.shape[0], 0 if d_transitions.shape[0] == 1 else t
    for k in range(n):
        d_emissions[t, k] += row[k]
    if before < 0:
        for k in range(n):
            d_start[k] += row[k]
    else:
        for k in range(n):
            d_transitions[source, before, k] += row[k]
    if ends:
        for k in range(n):
            d_end[k] += row[k]


@internal
def _log_softmax(scores: Scores, t: int, before: int, out: Floats) -> float:
    """Write log P(y_t = k | y_{t-1} = before) to out [L], in float64; return the logarithm of the normaliser.

    before is -1 at the first token.  Where every label is forbidden, all are minus infinity.
    """
    emissions, transitions, start, end = scores
    source = start if before < 0 else step_to(transitions, t)[before]
    for k in range(out.shape[0]):
        out[k] = np.float64(emissions[t, k]) + source[k]
        if t == emissions.shape[0] - 1:
            out[k] += end[k]
    normaliser = log_sum(out)
    if normaliser > -np.inf:
        for k in range(out.shape[0]):
            out[k] -= normaliser
    return normaliser


@internal
def _sum_out(
    scores: PlainScores, gold: Ints, b: int, e: int, first: int, last: int, weight: float, grad: PlainScores
) -> float:
    """Return log P(y_last | y_{first-1}), the labels between summed out; subtract its gradient times weight.

    A forward and a backward recursion over log probabilities, in float64.  The sequence has the tokens b..e-1.
    """
    here, (d_emissions, d_transitions, d_start, d_end) = part(scores, b, e), part(grad, b, e)
    gold, first, last = gold[b:e], first - b, last - b
    n, length = d_start.shape[0], last - first + 1
    steps = np.full((length, n, n), -np.inf)
    known = -1 if first == 0 else gold[first - 1]
    # row p of alpha belongs to the label before token first + p: at first the known one, of row 0 if there is none
    alpha, beta = np.full((length + 1, n), -np.inf), np.full((length, n), -np.inf)
    alpha[0, max(known, 0)] = 0
    for p in range(length):
        for i in range(n):
            if alpha[p, i] > -np.inf:
                _log_softmax(here, first + p, i if p > 0 else known, steps[p, i])
                for j in range(n):
                    alpha[p + 1, j] = log_add(alpha[p + 1, j], alpha[p, i] + steps[p, i, j])
    total = alpha[length, gold[last]]
    if total == -np.inf:
        return total
    beta[length - 1, gold[last]] = 0
    row = np.empty(n, d_emissions.dtype)
    for p in range(length - 1, -1, -1):
        for i in range(n):
            if alpha[p, i] == -np.inf:
                continue
            onward = -np.inf
            for j in range(n):
                onward = log_add(onward, steps[p, i, j] + beta[p, j])
            if p > 0:
                beta[p - 1, i] = onward
            # how often a path is at i, times the softmax there, less how often it goes on to j
            visited = np.exp(alpha[p, i] + onward - total)
            for j in range(n):
                taken = np.exp(alpha[p, i] + steps[p, i, j] + beta[p, j] - total)
                row[j] = weight * (visited * np.exp(steps[p, i, j]) - taken)
            t, label = first + p, i if p > 0 else known
            _add_row(row, t, label, t == d_emissions.shape[0] - 1, d_emissions, d_transitions, d_start, d_end)
    return total
