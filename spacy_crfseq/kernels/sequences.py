"""One sequence out of many: its scores, the score of a path, the counts of one; exponentials for all recursions."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..types import Floats, Ints, Offsets, Scores
from .jit import inlined, internal

LANES = 8
"""Rows of work arrays are padded to a multiple of this, so that loops over labels need no remainder."""
PlainScores: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""`Scores` as a plain tuple, whose type numba finds at once; with named ones each call takes 0.4 microseconds more."""


class Limits(NamedTuple):
    """The range of scaled numbers of a type.

    huge (float): Above this, products with a potential or an alpha of zero may become infinity times zero.
    faint, large (float): Pointwise losses divide by the probabilities of gold labels.  One over `faint` is exact to
        some digits as long as no ``c_{t-1} e_t beta_t c_t`` exceeds `large`, so that `floor` times these amounts to far
        less than `faint`.
    floor (float): More than twice what a potential may be that is rounded to zero.
    rounding (float): What rounding may add to a relative error at each step.
    """

    huge: float
    faint: float
    large: float
    floor: float
    rounding: float


SINGLE = Limits(1e30, 1e-12, 1e18, 4e-38, 1e-6)
DOUBLE = Limits(1e290, 1e-150, 1e140, 4e-304, 1e-13)


@inlined
def limits(array: Floats) -> Limits:
    """Return the limits of the numbers of an array."""
    return SINGLE if array.itemsize == 4 else DOUBLE


@inlined
def room(length: int, rounding: float) -> float:
    """Return by how much the sum of a token's marginals may differ from one in a sequence of this length."""
    return (100 + length) * rounding


@inlined
def part(scores: PlainScores, b: int, e: int) -> Scores:
    """Return the scores of the tokens b..e-1, or their gradient."""
    emissions, steps, start, end = scores
    if steps.shape[0] > 1:
        steps = steps[b:e]
    return Scores(emissions[b:e], steps, start, end)


@inlined
def count_missing(gold: Ints) -> int:
    """Return the number of tokens whose label is not known."""
    missing = 0
    for label in gold:
        missing += label < 0
    return missing


@internal
def local_scores(scores: Scores, gold: Ints, out: Floats) -> None:
    """Write emissions plus start and end scores of one sequence to out [n, at least L], the rest minus infinity.

    Unless gold is empty, labels other than a known gold label get minus infinity too.
    """
    emissions, _, start, end = scores
    length, n = emissions.shape
    for t in range(length):
        row = out[t]
        for k in range(n):
            row[k] = emissions[t, k]
        for k in range(n, row.shape[0]):
            row[k] = -np.inf
        if t == 0:
            for k in range(n):
                row[k] += start[k]
        if t == length - 1:
            for k in range(n):
                row[k] += end[k]
        if gold.shape[0] > 0 and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    row[k] = -np.inf


@inlined
def step_to(transitions: Floats, t: int) -> Floats:
    """Return the scores [L, L] of the step to token t."""
    return transitions[0 if transitions.shape[0] == 1 else t]


@inlined
def path_score(labels: Ints, b: int, e: int, scores: PlainScores) -> float:
    """Return the score of the labels [T] of the sequence of tokens b..e-1, in float64.

    The sequence must not be empty, and its labels must be 0..L-1, none missing: others are read beyond the arrays.
    Parts of arrays would be values whose references are counted, which takes longer than the sums.
    """
    emissions, transitions, start, end = scores
    # unsigned numbers, since numba looks for those below zero otherwise
    before, one_step = np.uintp(labels[b]), transitions.shape[0] == 1
    score, of_steps = np.float64(start[before]) + emissions[b, before], np.float64(end[labels[e - 1]])
    for t in range(np.uintp(b + 1), np.uintp(e)):  # two sums, neither of which waits for the other
        label = np.uintp(labels[t])
        score += emissions[t, label]
        of_steps += transitions[np.uintp(0) if one_step else t, before, label]
        before = label
    return score + of_steps


@inlined
def add_counts(labels: Ints, b: int, e: int, factor: float, grad: PlainScores) -> None:
    """Add factor times the counts of the labels [T] of the sequence of tokens b..e-1 to `grad`."""
    d_emissions, d_transitions, d_start, d_end = grad
    d_start[labels[b]] += factor
    d_end[labels[e - 1]] += factor
    for t in range(b, e):
        d_emissions[t, labels[t]] += factor
        if t > b:
            d_transitions[0 if d_transitions.shape[0] == 1 else t, labels[t - 1], labels[t]] += factor


@inlined
def padded(n: int) -> int:
    """Return the next multiple of `LANES`."""
    return (n + LANES - 1) // LANES * LANES


@inlined
def longest(offsets: Offsets) -> int:
    """Return the length of the longest sequence."""
    length = 0
    for s in range(offsets.shape[0] - 1):
        length = max(length, offsets[s + 1] - offsets[s])
    return length


@inlined
def exp32(x: Any) -> Any:
    """Return the exponential of a float32 that is not positive; 0 below -87 and for what is not a number.

    x = m log 2 + r with a polynomial for e^r (Cephes, ``expf``, relative error 2e-7) and 2^m written into the exponent
    bits of a float; unlike a call of the library, that is vectorised.
    """
    bounded = max(x, np.float32(-87))
    m = np.floor(bounded * np.float32(1.44269504) + np.float32(0.5))
    r = bounded - m * np.float32(0.693359375) + m * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    y = y * r + np.float32(8.3334519073e-3)
    y = y * r + np.float32(4.1665795894e-2)
    y = y * r + np.float32(1.6666665459e-1)
    y = y * r + np.float32(5.0000001201e-1)
    power = np.int32((np.int32(m) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (y * r * r + r + np.float32(1)) * power if x >= np.float32(-87) else np.float32(0)


@inlined
def exp64(x: Any) -> Any:
    """Return the exponential of a float64 that is not positive; 0 below -700 and for what is not a number.

    As `exp32`, with the Taylor series of e^r, |r| < 0.35, whose 13 terms leave a relative error of 2e-16.
    """
    bounded = max(x, -700.0)
    m = np.floor(bounded * 1.4426950408889634 + 0.5)
    r = bounded - m * 0.693145751953125 - m * 1.42860682030941723212e-6
    y = 1 / 6227020800.0
    y = y * r + 1 / 479001600.0
    y = y * r + 1 / 39916800.0
    y = y * r + 1 / 3628800.0
    y = y * r + 1 / 362880.0
    y = y * r + 1 / 40320.0
    y = y * r + 1 / 5040.0
    y = y * r + 1 / 720.0
    y = y * r + 1 / 120.0
    y = y * r + 1 / 24.0
    y = y * r + 1 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    power = np.int64((np.int64(m) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return y * power if x >= -700.0 else 0.0


@inlined
def exponentiate(row: Floats) -> None:
    """Replace a row of numbers that are not positive by their exponentials."""
    if row.itemsize == 4:
        for k in range(row.shape[0]):
            row[k] = exp32(row[k])
    else:
        for k in range(row.shape[0]):
            row[k] = exp64(row[k])


@inlined
def largest(values: Floats) -> float:
    """Return the largest number."""
    maximum = values[0]
    for k in range(1, values.shape[0]):
        maximum = max(maximum, values[k])
    return maximum


@internal
def log_sum(values: Floats) -> float:
    """Return ``log sum_k exp(values_k)``, in float64; minus infinity for no values."""
    top, total = -np.inf, 0.0
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return -np.inf
    for value in values:
        total += np.exp(value - top)
    return top + np.log(total)


@inlined
def log_add(x: float, y: float) -> float:
    """Return ``log(exp(x) + exp(y))``."""
    larger, smaller = max(x, y), min(x, y)
    return larger if smaller == -np.inf else larger + np.log1p(np.exp(smaller - larger))


@internal
def capped(nll: float, cap: float) -> tuple[float, float]:
    """Return phi(nll) and its derivative.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where the cap is 0.
    """
    if cap > 0 and nll < cap:
        power = np.exp(nll)
        return power - 1, power
    power = np.exp(cap)
    return power - 1 + power * (nll - cap), power
