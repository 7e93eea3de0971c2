"""Forward-backward for blocks of sequences in lockstep: the recursions of `lattice` as products of small matrices.

A block is `LANES` sequences of like length.  Every work array has its lane, the number of the sequence in the block, as
the last axis: at step t, alpha is a tile [P, LANES], P the labels padded to a multiple of `PANEL`.  The sum over
previous labels is then a product of the transition potentials with the tile, in which all lanes share each potential
once it is in a register, and sums over labels are sums of vectors.  With c_t = 1 / sum_j u_t(j) and u_0 = e_0::

    u_t(j) = e_t(j) c_{t-1} sum_i M(i, j) u_{t-1}(i)           alpha_t = c_t u_t
    g_{t-1}(i) = sum_j M(i, j) v_t(j)                          g_t = c_t beta_t, at the end c_t times the weight
    v_t(j) = e_t(j) g_t(j) c_{t-1}
    weight P(y_t = k | x) = u_t(k) g_t(k)
    weight P(y_{t-1} = i, y_t = j | x) = u_{t-1}(i) M(i, j) v_t(j)

so that nothing is normalised after the fact: each step of either recursion is one product whose results are finished in
registers.  The sums of u begin at a little more than they can lose by rounding, as in `lattice`.  Expected transitions
are one more product for the whole block.  The file `covariances` adds a second pair of recursions.

Only transitions shared by all positions are handled, and for the losses of whole sequences complete gold labels;
sequences that scaling cannot represent, and those too long or too different in length to share a block, are left to
others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from .intrinsics import (
    LANES,
    PANEL,
    SQUARE,
    add_corner,
    add_square,
    lane_maxima,
    load_square,
    next_u,
    next_v,
)
from .jit import inlined, internal, kernel
from .sequences import PlainScores, capped, exp32, limits, path_score, room

LONGEST = 512
"""Steps that a block may have; longer sequences would take too much memory."""
FEWEST = 8
"""A block of fewer sequences is not worth its empty lanes."""
TINY, LOG_EVERY = 1e-25, 8
"""The least sum, and the steps whose sums are multiplied before a logarithm is taken: eight stay far from 1e-308."""

NO_COSTS: Any = np.bool_(False)
"""For a literal, numba would compile `begin` once more."""


class BlockArrays(NamedTuple):
    """Work arrays of a block; lanes without a sequence have the length 0.

    e (Floats): [steps, P, LANES] potentials, in the end the expected counts.
    u, v (Floats): [steps, P, LANES]; for covariances v holds g first.
    a, w (Floats): [steps, P, LANES] the second pair of recursions; empty where it is not needed.  w holds n first.
    forward, backward (Floats): [P * P] transition potentials, see `pack`.
    counts (Floats): [P, P] expected transitions, to be multiplied by their potentials.
    scales, means (Floats): [steps, LANES] c_t, and the mean of each step of S.
    weights, log_z, values, limits (Floats): [LANES] weights, log Z and losses of the sequences, the size of rounding.
    lost (Bools): [LANES] sequences that scaling cannot represent.
    begins, lengths (Offsets): [LANES] first token and number of tokens, longest sequence first.
    """

    e: Floats
    u: Floats
    v: Floats
    a: Floats
    w: Floats
    forward: Floats
    backward: Floats
    counts: Floats
    scales: Floats
    means: Floats
    weights: Floats
    log_z: Floats
    values: Floats
    limits: Floats
    lost: Bools
    begins: Offsets
    lengths: Offsets


@inlined
def workspace(emissions: Floats, steps: int, sums: bool) -> BlockArrays:
    """Return work arrays for blocks of at most `steps` steps, with a second pair of recursions if `sums`."""
    n, dtype = emissions.shape[1], emissions.dtype
    padded = (n + PANEL - 1) // PANEL * PANEL
    shape, rows = (steps, padded, LANES), (steps, LANES)
    more = (steps if sums else 0, padded, LANES)
    e, w = np.empty(shape, dtype), np.empty(more, dtype)
    for t in range(steps):
        for k in range(n, padded):
            for lane in range(LANES):
                e[t, k, lane] = 0  # from where the padding of the others gets its zeros
                if sums:
                    w[t, k, lane] = 0
    return BlockArrays(
        e,
        np.empty(shape, dtype),
        np.empty(shape, dtype),
        np.empty(more, dtype),
        w,
        np.zeros(padded * padded, dtype),
        np.zeros(padded * padded, dtype),
        np.zeros((padded, padded), dtype),
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.zeros(LANES, dtype),
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES, dtype),
        np.zeros(LANES, np.bool_),
        np.zeros(LANES, np.int64),
        np.zeros(LANES, np.int64),
    )


@kernel
def select(offsets: Offsets, gold: Ints, weights: Floats) -> tuple[Offsets, Bools]:
    """Return the numbers of sequences that blocks can take, longest first, and which [N] of the others remain to do.

    offsets [N + 1], weights [N], 0 for a sequence that adds nothing.  gold [T] tells which sequences are not complete;
    it is empty where that does not matter.
    """
    n = weights.shape[0]
    order, left, counts, total = np.empty(n, np.int64), np.zeros(n, np.bool_), np.zeros(LONGEST + 2, np.int64), 0
    for s in range(n):
        b, e = offsets[s], offsets[s + 1]
        if e > b and weights[s] != 0:
            left[s] = e - b > LONGEST
            for t in range(b, min(e, gold.shape[0])):
                left[s] |= gold[t] < 0
            if not left[s]:
                counts[e - b] += 1
    for length in range(LONGEST, 0, -1):  # a counting sort: where the sequences of each length begin
        n_equal = counts[length]
        counts[length] = total
        total += n_equal
    for s in range(n):
        length = offsets[s + 1] - offsets[s]
        if length > 0 and weights[s] != 0 and not left[s]:
            order[counts[length]] = s
            counts[length] += 1
    return order[:total], left


@kernel
def log_loss(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats
) -> tuple[float, Bools, bool]:
    """Return the weighted loss of most sequences and add its gradient; also which [N] of the others remain, if any.

    Arguments as in `lattice.log_loss`, transitions [1, L, L].
    """
    order, left = select(offsets, gold, weights)
    sequences, d_sequences, loss, first = Scores(*scores), Scores(*grad), 0.0, 0
    if order.shape[0] == 0:
        return loss, left, bool(left.any())
    work = workspace(sequences.emissions, offsets[order[0] + 1] - offsets[order[0]], False)
    base = pack(sequences.transitions[0], work.forward, work.backward)
    while first < order.shape[0]:
        block = order[first : first + block_size(offsets, order[first : first + LANES], FEWEST)]
        first += max(1, block.shape[0])
        if block.shape[0] == 0:
            left[order[first - 1]] = True
            continue
        begin(sequences, offsets, weights, block, NO_COSTS, work)
        forward(sequences.start.shape[0], np.exp(cap), work)
        for lane in range(block.shape[0]):
            b, e = work.begins[lane], work.begins[lane] + work.lengths[lane]
            nll = work.log_z[lane] + (e - b - 1) * base
            if gold.shape[0] > 0:
                nll -= path_score(gold, b, e, scores)
            else:
                log_z[block[lane]] = nll
            work.values[lane], slope = capped(nll, cap)
            work.weights[lane] *= slope
        backward(sequences.start.shape[0], work)
        clear_lost(work)
        if d_sequences.transitions.shape[0] > 0:
            count_transitions(work.u, work.v, work.lengths[0], work.counts)
        loss += finish(gold, weights, block, work, d_sequences, left)
    if d_sequences.transitions.shape[0] > 0:
        add_transitions(work.counts, work.forward, d_sequences.transitions)
    return loss, left, bool(left.any())


@internal
def block_size(offsets: Offsets, candidates: Offsets, fewest: int) -> int:
    """Return how many of the next sequences, longest first, are at least half as long as the first; 0 for too few."""
    steps = offsets[candidates[0] + 1] - offsets[candidates[0]]
    size = 0
    while size < candidates.shape[0] and 2 * (offsets[candidates[size] + 1] - offsets[candidates[size]]) >= steps:
        size += 1
    return size if size >= fewest else 0


@internal
def pack(transitions: Floats, forward: Floats, backward: Floats) -> float:
    """Write exp(transitions - max) panel by panel, as `intrinsics` reads it, for both directions; return the max.

    Number i * PANEL + r of panel p, which begins at p * PANEL * P, is the potential from i to p * PANEL + r in forward,
    and from p * PANEL + r to i in backward.
    """
    n = transitions.shape[0]
    padded = (n + PANEL - 1) // PANEL * PANEL
    # a loop, since numba takes 0.3 s to compile the method `max`
    top = transitions[0, 0]
    for i in range(n):
        for j in range(n):
            top = max(top, transitions[i, j])
    if top == -np.inf:
        top = transitions.dtype.type(0)
    for i in range(n):
        for j in range(n):
            potential = np.exp(transitions[i, j] - top)
            forward[j // PANEL * PANEL * padded + i * PANEL + j % PANEL] = potential
            backward[i // PANEL * PANEL * padded + j * PANEL + i % PANEL] = potential
    return top


@inlined
def add_transitions(counts: Floats, forward: Floats, d_transitions: Floats) -> None:
    """Add counts [P, P] times packed potentials to d_transitions [1, L, L]."""
    n = d_transitions.shape[1]
    for i in range(n):
        for j in range(n):
            potential = forward[j // PANEL * PANEL * counts.shape[0] + i * PANEL + j % PANEL]
            d_transitions[0, i, j] += counts[i, j] * potential


@inlined
def running_lanes(lengths: Offsets, t: int, before: int) -> int:
    """Return how many sequences of the block have a token t, given a number that is not too small."""
    while before > 0 and lengths[before - 1] <= t:
        before -= 1
    return before


@inlined
def now_running(lengths: Offsets, t: int, before: int) -> int:
    """Return the same, given a number that is not too large."""
    while before < LANES and lengths[before] > t:
        before += 1
    return before


@inlined
def token_numbers(begins: Offsets, t: int, running: int, tokens: Offsets) -> None:
    """Write the number of each lane's token t to tokens [LANES], that of the first lane where there is none."""
    for lane in range(LANES):
        tokens[lane] = begins[lane if lane < running else 0] + t


@inlined
def load_rows(source: Floats, rows: Offsets, tile: Floats) -> None:
    """Write the rows [LANES], all 0..R-1, of source [R, L] to a tile [P, LANES]; others are read beyond it."""
    n = source.shape[1]
    rest = singles(n)
    for lane in range(0, LANES if n >= SQUARE else 0, SQUARE):
        for column in range(0, n - rest - SQUARE, SQUARE):
            load_square(source, rows, column, tile, lane)
        load_square(source, rows, n - rest - SQUARE, tile, lane)  # which may overlap the one before
    for k in range(n - rest, n):
        for lane in range(LANES):
            tile[k, lane] = source[np.uintp(rows[lane]), k]


@inlined
def singles(n: int) -> int:
    """Return how many of n labels, the last ones, are transposed one by one; two take as long as a square."""
    return n if n < SQUARE else int(n % SQUARE == 1)


@internal
def begin(scores: Scores, offsets: Offsets, weights: Floats, block: Offsets, costs: bool, work: BlockArrays) -> None:
    """Load a block: its sequences, exp(score - max) of all tokens, and the sum of the maxima as log_z.

    Lanes whose sequence has ended get numbers that do no harm.  If `costs`, write max - score of possible labels to w.
    """
    emissions, _, start, end = scores
    e, begins, lengths, log_z = work.e, work.begins, work.lengths, work.log_z
    lane_weights, lost, n = work.weights, work.lost, emissions.shape[1]
    tops, tokens = np.empty(LANES, emissions.dtype), np.empty(LANES, np.int64)
    # one sequence for each lane; lanes that are left over have the length 0
    for lane in range(LANES):
        log_z[lane], lost[lane], lengths[lane], lane_weights[lane] = 0, False, 0, 0
        if lane < block.shape[0]:
            begins[lane] = offsets[block[lane]]
            lengths[lane] = offsets[block[lane] + 1] - offsets[block[lane]]
            lane_weights[lane] = weights[block[lane]]
    # the emissions of token t of all sequences, one column a lane, and the start and end scores among them
    running = LANES
    for t in range(lengths[0]):
        tile = e[t]
        running = running_lanes(lengths, t, running)
        token_numbers(begins, t, running, tokens)
        load_rows(emissions, tokens, tile)
        if t == 0:
            for k in range(n):
                for lane in range(LANES):
                    tile[k, lane] += start[k]
        for lane in range(running_lanes(lengths, t + 1, running), running):
            for k in range(n):
                tile[k, lane] += end[k]
        # the largest score of each lane is taken out, so that no potential exceeds 1
        lane_maxima(tile, n, tops)
        for lane in range(running):
            log_z[lane] += tops[lane]
        if costs:  # zero where exp(score - max) is, or is rounded to it
            for k in range(n):
                for lane in range(LANES):
                    given = tops[lane] - tile[k, lane]
                    work.w[t, k, lane] = given if given <= (87 if emissions.itemsize == 4 else 700) else 0
        # scores become potentials
        if emissions.itemsize == 4:
            for k in range(n):
                for lane in range(LANES):
                    tile[k, lane] = exp32(tile[k, lane] - tops[lane])
        else:
            for k in range(n):
                for lane in range(LANES):
                    given = tile[k, lane] - tops[lane]
                    tile[k, lane] = np.exp(given) if given >= -700 else 0


@internal
def forward(n: int, slope: float, work: BlockArrays) -> None:
    """Fill u and the scales c, complete log_z up to the transitions' maximum; mark lanes whose sums get too small.

    slope: The factor that v may get besides the weights.  What sums begin at grows with both, so that v stays finite in
    lanes that are not lost.
    """
    e, u, matrix, scales, lengths = work.e, work.u, work.forward, work.scales, work.lengths
    log_z, lost, steps = work.log_z, work.lost, work.lengths[0]
    total, first = np.empty(LANES, u.dtype), np.ones(LANES, u.dtype)
    product, floors = np.ones(LANES), np.empty(LANES, u.dtype)
    for lane in range(LANES):
        floors[lane] = limits(u).floor * n * max(1.0, slope * abs(work.weights[lane]))
    before, scale = u[0], first
    used, running = 0, LANES  # at the first step u is e: the product of nothing, plus one, times e
    for t in range(steps):
        running = running_lanes(lengths, t, running)
        for lane in range(LANES):
            total[lane] = 0
        row_u, tiles, lanes = u[t], (e[t],), (first, scale)  # out of the loop, in which numba would count references
        for row in range(0, u.shape[1], PANEL):
            next_u(row_u, row, matrix, before, used, lanes, tiles, total)
        before, scale, used = row_u, scales[t], n
        for lane in range(LANES):
            scale[lane] = 1 / total[lane] if total[lane] > TINY else 0
            first[lane] = floors[lane] + floors[lane] * scale[lane]
        for lane in range(running):
            lost[lane] |= not total[lane] > TINY
            product[lane] *= total[lane]
        if t % LOG_EVERY == LOG_EVERY - 1 or t == steps - 1:
            for lane in range(LANES):
                log_z[lane] += np.log(product[lane])
                product[lane] = 1


@kernel
def backward(n: int, work: BlockArrays) -> None:
    """Fill v and replace potentials by marginals, both times the weights; mark lanes whose marginals do not sum to one.

    Lanes whose sequence has ended have a v of zero.
    """
    e, u, v, matrix, scales = work.e, work.u, work.v, work.backward, work.scales
    weights, lost, lengths = work.weights, work.lost, work.lengths
    total, first = np.empty(LANES, u.dtype), np.zeros(LANES, u.dtype)
    scale, away = np.ones(LANES, u.dtype), room(lengths[0], limits(u).rounding)
    used, running, after = 0, 0, v[0]
    for t in range(lengths[0] - 1, -1, -1):
        for lane in range(LANES):
            first[lane] = total[lane] = 0
        # sequences whose last token is t begin here with c_t times their weight
        ended, running = running, now_running(lengths, t, running)
        for lane in range(ended, running):
            first[lane] = weights[lane] * scales[t, lane]
        if t > 0:
            scale = scales[t - 1]
        row_v, tiles, lanes = v[t], (e[t], u[t]), (first, scale)
        for row in range(0, u.shape[1], PANEL):
            next_v(row_v, row, matrix, after, used, lanes, tiles, total)
        after, used = row_v, n
        for lane in range(running):
            lost[lane] |= not abs(total[lane] - weights[lane]) < away * abs(weights[lane])


@internal
def clear_lost(work: BlockArrays) -> None:
    """Set all numbers of lanes that are lost to zero."""
    sums = work.a.shape[0] > 0
    for lane in range(LANES):
        if work.lost[lane]:
            for t in range(work.lengths[0]):
                for k in range(work.e.shape[1]):
                    work.e[t, k, lane] = work.u[t, k, lane] = work.v[t, k, lane] = 0
                    if sums:
                        work.a[t, k, lane] = work.w[t, k, lane] = 0


@inlined
def count_transitions(u: Floats, v: Floats, steps: int, counts: Floats) -> None:
    """Add sum_t u_t v_{t+1}' to the counts [P, P]."""
    for row in range(0, u.shape[1], PANEL):
        for column in range(0, u.shape[1], PANEL):
            add_corner(counts, u, v, row, column, steps - 1)


@inlined
def finish(gold: Ints, weights: Floats, block: Offsets, work: BlockArrays, grad: Scores, left: Bools) -> float:
    """Add the gradient of a block, less its transitions, to `grad`; return its loss, and mark what is left."""
    add_counts(gold, work, grad)
    loss = 0.0
    for lane in range(block.shape[0]):
        left[block[lane]] = work.lost[lane]
        if not work.lost[lane]:
            loss += weights[block[lane]] * work.values[lane]
    return loss


@internal
def add_counts(gold: Ints, work: BlockArrays, grad: Scores) -> None:
    """Add the expected counts in e less gold counts, if gold is not empty, to `grad`.

    Gold labels of the block's sequences must be 0..L-1, none missing: others are written beyond the arrays.
    Expected transitions are added apart.
    """
    d_emissions, d_transitions, d_start, d_end = grad
    e, weights, lost, begins, lengths = work.e, work.weights, work.lost, work.begins, work.lengths
    n, running, tokens = d_start.shape[0], LANES, np.empty(LANES, np.int64)
    rest = singles(n)
    # expected labels of token t of all sequences, transposed back: one row a token
    for t in range(lengths[0]):
        tile = e[t]
        running = running_lanes(lengths, t, running)
        token_numbers(begins, t, running, tokens)
        for lane in range(0, LANES if n >= SQUARE else 0, SQUARE):
            for column in range(0, n - rest - SQUARE, SQUARE):
                add_square(d_emissions, tokens, column, tile, lane, 0)
            # the last square leaves out the labels that the one before has
            add_square(d_emissions, tokens, n - rest - SQUARE, tile, lane, -(n - rest) % SQUARE)
        for k in range(n - rest, n):
            for lane in range(running):
                d_emissions[np.uintp(tokens[lane]), k] += tile[k, lane]
        if t == 0:
            for k in range(n):
                for lane in range(LANES):
                    d_start[k] += tile[k, lane]
        # from what is expected, take the gold labels and transitions of each sequence
        for lane in range(running):
            if lost[lane]:
                continue
            # unsigned numbers, since numba looks for those below zero otherwise
            token, weight, ends = np.uintp(tokens[lane]), weights[lane], t + 1 == lengths[lane]
            if ends:
                for k in range(n):
                    d_end[k] += tile[k, lane]
            if gold.shape[0] > 0:
                label = np.uintp(gold[token])
                d_emissions[token, label] -= weight
                if t == 0:
                    d_start[label] -= weight
                else:
                    d_transitions[0, np.uintp(gold[token - np.uintp(1)]), label] -= weight
                if ends:
                    d_end[label] -= weight
