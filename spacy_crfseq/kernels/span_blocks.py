"""How spans begin, go on and end in blocks of sequences in lockstep, by the recursions of `blocks`, with its letters.

Of the arrays that these leave, v tells which labels a token may have, and the marginals u g whether a span that is
probable enough may have it.  Only the steps of such tokens, few of all, are then computed, sequence by sequence.
"""

from __future__ import annotations

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from .blocks import (
    FEWEST,
    NO_COSTS,
    BlockArrays,
    backward,
    begin,
    block_size,
    forward,
    pack,
    running_lanes,
    select,
    workspace,
)
from .intrinsics import LANES
from .jit import internal, kernel
from .sequences import PlainScores
from .span_steps import add_step, filler_of


@kernel
def span_steps(
    scores: PlainScores, offsets: Offsets, apart: Floats, links: Ints, asked: tuple[Floats, Bools, float],
    steps: tuple[Bools, Floats, Floats, Floats, Bools], log_z: Floats,
) -> Bools:  # fmt: skip
    """Do the work of `spans.span_steps` for most sequences; return which [N] are left.

    Transitions are [1, L, L]; `allowed` and `covered` are true before, the other steps zero.
    """
    sequences, weights = Scores(*scores), np.ones(log_z.shape[0])
    order, left = select(offsets, np.empty(0, np.int32), weights)
    if order.shape[0] == 0:
        return left
    transitions, n, first = sequences.transitions[0], apart.shape[0], 0
    work = workspace(sequences.emissions, offsets[order[0] + 1] - offsets[order[0]], False)
    base = pack(transitions, work.forward, work.backward)
    potentials, room = np.empty((n, n)), np.empty((3, n))
    for i in range(n):
        for j in range(n):
            potentials[i, j] = np.exp(transitions[i, j] - base)
    filler = filler_of(asked[0], asked[1]) if asked[2] > 0 else -1
    # one block of sequences after another, longest first
    while first < order.shape[0]:
        block = order[first : first + block_size(offsets, order[first : first + LANES], FEWEST)]
        first += max(1, block.shape[0])
        if block.shape[0] == 0:
            left[order[first - 1]] = True
            continue
        begin(sequences, offsets, weights, block, NO_COSTS, work)
        forward(n, 1.0, work)
        backward(n, work)
        _judge_tokens(filler, asked[1], asked[2] / 2, work, steps[0], steps[4])
        for lane in range(block.shape[0]):
            left[block[lane]] = work.lost[lane]
            if not work.lost[lane]:
                log_z[block[lane]] = work.log_z[lane] + (work.lengths[lane] - 1) * base
                _add_steps(lane, work, potentials, apart, links, room, steps)
    return left


@internal
def _judge_tokens(filler: int, outside: Bools, least: float, work: BlockArrays, allowed: Bools, covered: Bools) -> None:
    """Note the labels that tokens of a block may not have, and which tokens no span above `least` may have.

    filler (int): See `span_steps.filler_of`; where a token may not have it, its whole sequence stays covered, and where
        the block has lost a sequence, whose marginals are then wrong.
    """
    marginals, v, begins, lengths, n, running = work.e, work.v, work.begins, work.lengths, outside.shape[0], LANES
    lowest, within, few = np.empty(LANES, v.dtype), np.empty(LANES, v.dtype), np.ones(LANES, np.bool_)
    for t in range(lengths[0]):
        running, tile, shares = running_lanes(lengths, t, running), v[t], marginals[t]
        for lane in range(LANES):
            lowest[lane] = tile[0, lane]
            within[lane] = 0
        for k in range(1, n):
            for lane in range(LANES):
                lowest[lane] = min(lowest[lane], tile[k, lane])
        for k in range(n):
            if not outside[k]:
                for lane in range(LANES):
                    within[lane] += shares[k, lane]
        for lane in range(running):
            token = begins[lane] + t
            covered[token] = within[lane] > least
            if not lowest[lane] > 0:
                for k in range(n):
                    allowed[token, k] = tile[k, lane] > 0
            few[lane] &= tile[max(filler, 0), lane] > 0
    for lane in range(LANES):
        for t in range(lengths[lane] if filler < 0 or not few[lane] or work.lost[lane] else 0):
            covered[begins[lane] + t] = True


@internal
def _add_steps(
    lane: int, work: BlockArrays, potentials: Floats, apart: Floats, links: Ints, room: Floats,
    steps: tuple[Bools, Floats, Floats, Floats, Bools],
) -> None:  # fmt: skip
    """Fill the steps of the sequence in a lane.

    potentials [L, L] are those of transitions; room [3, L] is for work.
    """
    _, opens, closes, goes_on, covered = steps
    u, v, b, length, n = work.u, work.v, work.begins[lane], work.lengths[lane], apart.shape[0]
    for k in range(n):
        opens[b, k], closes[b + length - 1, k] = work.e[0, k, lane], 1.0
    for t in range(1, length):
        if covered[b + t] or covered[b + t - 1]:
            for k in range(n):
                room[0, k], room[1, k] = u[t - 1, k, lane], v[t, k, lane]
            add_step(b + t, potentials, apart, links, room, opens, closes, goes_on)
