"""Steps from a token to the next, by which spans begin, go on and end, for sequences one by one and in blocks."""

from __future__ import annotations

from ..types import Bools, Floats, Ints
from .jit import inlined


@inlined
def filler_of(follows: Floats, outside: Bools) -> int:
    """Return a label outside that may stand in place of all labels of any span, -1 if there is none."""
    n = outside.shape[0]
    for k in range(n if follows.shape[0] == 1 else 0):
        fits = outside[k] and follows[0, k, k] == 0
        for i in range(n if fits else 0):
            for j in range(n):
                if not outside[j]:
                    fits &= follows[0, i, j] < 0 or follows[0, i, k] == 0
                    fits &= follows[0, j, i] < 0 or follows[0, k, i] == 0
        if fits:
            return k
    return -1


@inlined
def left_out(allowed: Bools, b: int, e: int, filler: int) -> int:
    """Return the filler if each of the tokens b..e-1 may have it, so that any span could be left out, else -1."""
    for t in range(b, e if filler >= 0 else b):
        if not allowed[t, filler]:
            return -1
    return filler


@inlined
def add_step(
    t: int, potentials: Floats, apart: Floats, links: Ints, room: Floats, opens: Floats, closes: Floats, goes_on: Floats
) -> None:
    """Write the steps of a `SpanChain` from the token t - 1 to t; opens are zero before.

    P(y_{t-1} = i, y_t = k) is room[0, i] potentials[i, k] room[1, k]; room is [3, L], potentials at least [L, L].
    """
    n = apart.shape[0]
    # from each label, the share of steps that end its span, and what begins by them
    for i in range(n):
        everything, total, mass = 0.0, 0.0, room[0, i]
        for k in range(n):
            share = potentials[i, k] * room[1, k]
            everything += share
            share *= apart[i, k]
            total += share
            opens[t, k] += mass * share
        room[2, i] = everything
        closes[t - 1, i] = total / everything if everything > 0 else 0.0
    # and of steps within the span
    for q in range(links.shape[0]):
        i, k = links[q, 0], links[q, 1]
        if room[2, i] > 0:
            goes_on[t, q] = potentials[i, k] * room[1, k] / room[2, i]
