"""Covariances of labels with a sum over positions, for blocks of sequences in lockstep.

Let S(y) = sum_t n_t(y_t) + sum_t m(y_{t-1}, y_t) be such a sum.  The gradient of its mean, with n and m held constant,
is its covariance with the counts of labels and label pairs.  A second pair of recursions beside those of `blocks`
computes all of them (Mann & McCallum 2007, "Efficient computation of entropy gradient").  Each position's part of S has
its mean taken out, so that rounding does not add up::

    a_t(j) = e_t(j) c_{t-1} sum_i M(i, j) (a_{t-1}(i) + m(i, j) u_{t-1}(i)) + u_t(j) (n_t(j) - mean_t)
    h_{t-1}(i) = sum_j M(i, j) (w_t(j) + m(i, j) v_t(j))
    w_t(j) = e_t(j) c_{t-1} (h_t(j) + g_t(j) (n_t(j) - mean_t))
    E[S 1(y_t = k)] = a_t(k) g_t(k) + u_t(k) h_t(k)
    E[S 1(y_{t-1} = i, y_t = j)] = M(i, j) (a_{t-1}(i) v_t(j) + u_{t-1}(i) w_t(j) + m(i, j) u_{t-1}(i) v_t(j))

- A pointwise loss sum_t phi(-log p_t), p_t = P(y_t = gold_t | x), has n_t(k) = -phi'(-log p_t) / p_t [k = gold_t]
  (Kakade, Teh & Roweis 2002).
- The entropy H(Y|x) = E[-log p(Y|x)] has n = -log e and m = -log M: the mean of the derivative of log p is zero.
- A function of expected counts has as n its derivatives with respect to them, and no m.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import blocks
from .blocks import BlockArrays
from .intrinsics import LANES, PANEL, lane_maxima, next_a, next_v_and_g, next_w
from .jit import inlined, internal, kernel
from .sequences import SINGLE, capped, limits, room


class Edges(NamedTuple):
    """Transition potentials times m.

    forward, backward (Floats): [P * P] as in `blocks.BlockArrays`; empty without m.
    counts (Floats): [P, P] expected transitions, to be multiplied by them.
    """

    forward: Floats
    backward: Floats
    counts: Floats


@kernel
def covariances(
    scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores, cap: float
) -> tuple[float, Bools]:
    """Do the work of `chain._total` for most sequences; return their value, and which [N] remain.

    Arguments as there, transitions [1, L, L].  Lanes may be empty: a few sequences are faster in one block than one by
    one.
    """
    order, left = blocks.select(offsets, rows[:0], weights)
    loss, first = 0.0, 0
    if order.shape[0] == 0:
        return loss, left
    n, entropy = scores.start.shape[0], rows.shape[0] == 0
    pointwise = table.shape[0] == 0 and not entropy
    work = blocks.workspace(scores.emissions, offsets[order[0] + 1] - offsets[order[0]], True)
    blocks.pack(scores.transitions[0], work.forward, work.backward)
    edges = _edges(work, entropy)
    # one block of sequences after another, longest first
    while first < order.shape[0]:
        block = order[first : first + blocks.block_size(offsets, order[first : first + LANES], 1)]
        first += block.shape[0]
        blocks.begin(scores, offsets, weights, block, entropy, work)
        for lane in range(LANES):
            work.log_z[lane] = 0  # log p without the maxima, like n and m
        blocks.forward(n, 0.0, work)
        _backward(n, work)
        if pointwise:
            _weigh_positions(rows, cap, work)
        elif not entropy:
            _load_weights(rows, table, work)
            for lane in range(LANES):
                work.log_z[lane] = 0
        _add_up(n, edges, work)
        for lane in range(0 if pointwise else LANES):
            work.values[lane] = work.log_z[lane]
        loss += blocks.finish(rows[:0], weights, block, work, grad, left)
    blocks.add_transitions(work.counts, work.forward, grad.transitions)
    if entropy:
        blocks.add_transitions(edges.counts, edges.forward, grad.transitions)
    return loss, left


@inlined
def _edges(work: BlockArrays, entropy: bool) -> Edges:
    """Return the potentials times m = -log M for the entropy, nothing otherwise."""
    size, square = (work.forward.shape[0], work.counts.shape[0]) if entropy else (0, 0)
    edges = Edges(np.empty(size, work.e.dtype), np.empty(size, work.e.dtype), np.zeros((square, square), work.e.dtype))
    for i in range(size):
        ahead, back = work.forward[i], work.backward[i]
        edges.forward[i] = -ahead * np.log(ahead) if ahead > 0 else 0
        edges.backward[i] = -back * np.log(back) if back > 0 else 0
    return edges


@internal
def _backward(n: int, work: BlockArrays) -> None:
    """Fill v with g, and means with the sums of the marginals, both times the weights.

    Mark lanes where these sums are not the weights, or in which what was rounded to zero could matter.  Lanes whose
    sequence has ended have a g of zero.
    """
    e, u, g, matrix, scales = work.e, work.u, work.v, work.backward, work.scales
    weights, lost, lengths = work.weights, work.lost, work.lengths
    messages = np.empty((2, u.shape[1], LANES), u.dtype)
    first, tops = np.zeros(LANES, u.dtype), np.empty(LANES, u.dtype)
    scale, away = np.ones(LANES, u.dtype), room(lengths[0], limits(u).rounding)
    used, running = 0, 0
    # from the last token of the longest sequence to the first; lanes join where their sequence ends
    for t in range(lengths[0] - 1, -1, -1):
        total = work.means[t]
        for lane in range(LANES):
            first[lane] = total[lane] = 0
        ended, running = running, blocks.now_running(lengths, t, running)
        for lane in range(ended, running):
            first[lane] = weights[lane] * scales[t, lane]
        if t > 0:
            scale = scales[t - 1]
        message, after = messages[t % 2], messages[(t + 1) % 2]
        tiles, lanes = (g[t], e[t], u[t]), (first, scale)
        for row in range(0, u.shape[1], PANEL):
            next_v_and_g(message, row, matrix, after, used, lanes, tiles, total)
        used = n
        lane_maxima(message, n, tops)  # where sums of u begin times these is in the marginals
        for lane in range(running):
            size = abs(weights[lane])
            lost[lane] |= not (abs(total[lane] - weights[lane]) < away * size and tops[lane] <= SINGLE.large * size)


@internal
def _weigh_positions(gold: Ints, cap: float, work: BlockArrays) -> None:
    """Write n of pointwise losses to w, and the sums of phi to values.

    Lanes whose gold labels are too improbable for scaled numbers are marked.
    """
    u, g, n, values, lost, begins, lengths = (
        work.u, work.v, work.w, work.values, work.lost, work.begins, work.lengths
    )  # fmt: skip
    running = LANES
    for lane in range(LANES):
        values[lane] = 0
    # only the gold label of a token has a weight: the derivative of phi, over its probability
    for t in range(lengths[0]):
        running = blocks.running_lanes(lengths, t, running)
        for k in range(u.shape[1]):
            for lane in range(LANES):
                n[t, k, lane] = 0
        for lane in range(running):
            label = gold[begins[lane] + t]
            if label >= 0:
                p = np.float64(u[t, label, lane]) * g[t, label, lane] / work.means[t, lane]
                if p >= SINGLE.faint:
                    value, slope = capped(-np.log(p), cap)
                    values[lane] += value
                    n[t, label, lane] = -slope / p
                else:
                    lost[lane] = True


@internal
def _load_weights(rows: Ints, table: Floats, work: BlockArrays) -> None:
    """Write n, the rows of a table [R, L] that the tokens have, to w."""
    running, numbers = LANES, np.empty(LANES, np.int64)
    for t in range(work.lengths[0]):
        running = blocks.running_lanes(work.lengths, t, running)
        blocks.token_numbers(work.begins, t, running, numbers)
        for lane in range(LANES):
            numbers[lane] = rows[numbers[lane]]
        blocks.load_rows(table, numbers, work.w[t])


@inlined
def _add_up(n: int, edges: Edges, work: BlockArrays) -> None:
    """Replace potentials by E[S 1(y_t = k)], add E[S] to log_z and expected transitions to the counts."""
    _sum_forward(n, edges, work)
    _sum_backward(n, edges, work)
    blocks.clear_lost(work)
    steps = work.lengths[0]
    blocks.count_transitions(work.a, work.v, steps, work.counts)
    blocks.count_transitions(work.u, work.w, steps, work.counts)
    if edges.forward.shape[0] > 0:
        blocks.count_transitions(work.u, work.v, steps, edges.counts)


@internal
def _sum_forward(n: int, edges: Edges, work: BlockArrays) -> None:
    """Fill a, the means, and the limits of what may be rounding; add the means to log_z."""
    e, u, g, a, w, scales, means, limits = (
        work.e, work.u, work.v, work.a, work.w, work.scales, work.means, work.limits
    )  # fmt: skip
    lengths, matrices = work.lengths, (work.forward, edges.forward)
    total, scale, before, u_before = np.empty(LANES, u.dtype), scales[0], a[0], u[0]
    used, used_edges, running = 0, 0, LANES
    for lane in range(LANES):
        limits[lane] = 0
    for t in range(lengths[0]):
        running = blocks.running_lanes(lengths, t, running)
        for lane in range(LANES):
            total[lane] = 0
        row_a, tiles, mean = a[t], (e[t], u[t], g[t], w[t]), means[t]
        # a of this token from that of the one before, PANEL labels at a time
        for row in range(0, u.shape[1], PANEL):
            next_a(row_a, row, matrices, (before, u_before), (used, used_edges), (scale,), tiles, total)
        # the mean of S at this token, over the sum of the marginals
        for lane in range(LANES):
            if lane < running:
                limits[lane] += abs(total[lane])
                mean[lane] = total[lane] / mean[lane]  # that was the sum of the marginals
                work.log_z[lane] += mean[lane]
            else:
                mean[lane] = 0
        # without the mean, sums over many tokens stay small, and the difference of large ones is not rounded away
        for k in range(n):
            for lane in range(LANES):
                row_a[k, lane] -= mean[lane] * u[t, k, lane]
                limits[lane] += abs(row_a[k, lane] * g[t, k, lane])
        before, u_before, scale = row_a, u[t], scales[t]
        used, used_edges = n, n if edges.forward.shape[0] > 0 else 0


@internal
def _sum_backward(n: int, edges: Edges, work: BlockArrays) -> None:
    """Fill w, replace g by v and potentials by E[S 1(y_t = k)]; mark lanes where these do not sum to zero."""
    e, u, g, a, w, scales = work.e, work.u, work.v, work.a, work.w, work.scales
    matrices, lost, lengths = (work.backward, edges.backward), work.lost, work.lengths
    total = np.empty(LANES, u.dtype)
    after, v_after, scale = w[0], g[0], scales[0]
    used, used_edges, running = 0, 0, 0
    for t in range(lengths[0] - 1, -1, -1):
        for lane in range(LANES):
            total[lane] = 0
        running = blocks.now_running(lengths, t, running)
        if t > 0:
            scale = scales[t - 1]
        row_w, tiles, lanes = w[t], (e[t], g[t], u[t], a[t], w[t]), (work.means[t], scale)
        # w of this token from that of the one behind it, and its covariances in place of the potentials
        for row in range(0, u.shape[1], PANEL):
            next_w(row_w, row, matrices, (after, v_after), (used, used_edges), lanes, tiles, total)
        for lane in range(running):
            lost[lane] |= not abs(total[lane]) <= 1e-2 * work.limits[lane]
        after, v_after = row_w, g[t]
        used, used_edges = n, n if edges.forward.shape[0] > 0 else 0
