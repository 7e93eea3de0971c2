"""Chains that are normalised at each token: ``P(y | x) = prod_t P(y_t | y_{t-1}, x)``, the MEMM.

``P(y_t = j | y_{t-1} = i, x)`` is the softmax over j of ``emissions_t(j) + transitions_t(i, j)``, with start scores at
the first and end scores at the last token of a sequence (McCallum, Freitag & Pereira 2000, eq. 1).
"""

from __future__ import annotations

import numpy as np

from ...kernels import lattice
from ...kernels.jit import inlined, internal, kernel
from ...kernels.sequences import PlainScores, exponentiate, largest, padded
from ...types import Floats, Ints, Offsets, Scores


def log_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores) -> float:
    """Return the sum over sequences of ``weight * -log P(gold | x)`` and add its gradient.

    Shapes as in `lattice.log_loss`.  A token whose label and the one before are known needs one row of transitions,
    L numbers of work; in sequences where labels are missing (negative), which are summed out, each token needs L x L.
    """
    if not (gold < 0).any():
        return float(_log_loss((*scores,), offsets, gold, weights, (*grad,)))
    lengths = np.diff(offsets)
    missing = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[gold < 0], minlength=len(lengths))
    loss = _log_loss((*scores,), offsets, gold, np.where(missing, 0, weights), (*grad,))
    for s in np.flatnonzero((missing > 0) & (missing < lengths) & (weights != 0)):
        loss += _sum_out(scores, slice(*offsets[s : s + 2]), gold, weights[s], grad)
    return float(loss)


@kernel
def _log_loss(scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores) -> float:
    """Do the work of `log_loss` for sequences whose labels are all known."""
    emissions, transitions, start, end = scores
    d_emissions, d_transitions, d_start, d_end = grad
    dtype, loss = emissions.dtype, 0.0
    row = np.full(padded(start.shape[0]), -np.inf, dtype)
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        f = dtype.type(weights[s])
        for t in range(b, e if f != 0 else b):
            before, ends = gold[t - 1] if t > b else -1, t == e - 1
            log_p = _fill_gradient(emissions, transitions, start, end, t, before, ends, gold[t], f, row)
            loss -= weights[s] * log_p
            if log_p > -np.inf:
                _add_row(row, t, before, ends, d_emissions, d_transitions, d_start, d_end)
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


def _sum_out(scores: Scores, place: slice, gold: Ints, weight: float, grad: Scores) -> float:
    """Return the weighted loss of a sequence with missing labels, and add its gradient, in float64.

    Its logarithms of P(y_t | y_{t-1}) are the steps of a chain with log Z = 0, so that the loss is that of a CRF, whose
    gradient G goes back through the softmax p of each row: ``G - p sum G``.
    """
    emissions, transitions, start, end = (array.astype(np.float64) for array in scores)
    shared = len(transitions) == 1
    local = emissions[place]
    local[-1] += end
    steps = (transitions if shared else transitions[place]) + local[:, None]
    steps[0] = start + local[0]
    tops = np.logaddexp.reduce(steps, axis=2, keepdims=True)
    steps -= np.where(tops > -np.inf, tops, 0)
    chain = Scores(np.zeros_like(local), steps, steps[0, 0], np.zeros_like(end))
    d = chain.zeros_like()
    loss = lattice.log_loss(chain, np.array([0, len(local)]), gold[place], np.array([weight]), d)
    if not loss < np.inf:
        return loss
    d.transitions[0, 0] = d.start
    d.transitions[0, 1:] = 0
    back = d.transitions - np.exp(steps) * d.transitions.sum(2, keepdims=True)
    rows, d_transitions = back.sum(1), back[1:].sum(0, keepdims=True) if shared else back
    grad.emissions[place] += rows
    grad.start[:] += rows[0]
    grad.end[:] += rows[-1]
    grad.transitions[slice(1) if shared else slice(place.start + 1, place.stop)] += d_transitions[0 if shared else 1 :]
    return loss
