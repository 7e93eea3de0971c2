"""The recursions of `lattice` for one sequence, in scaled probability space.

A sequence for which ``1/c_t`` falls under `TINY`, ``beta_t c_t`` exceeds `HUGE`, or whose marginals do not sum to one
cannot be trusted and is left to `log_space`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import Floats, Ints, Offsets, Scores
from .jit import inlined, internal
from .math import capped, exponentiate, largest, longest, padded
from .sequences import PlainScores, local_scores

TINY = 1e-25
"""Below this an alpha that was rounded to zero (under 1e-38 in float32) could have mattered by more than 1e-12."""
HUGE = 1e30
"""Above this, products with a potential or an alpha of zero may become infinity times zero in float32."""
FAINT, LARGE = 1e-12, 1e18
"""Pointwise losses divide by the probabilities of gold labels.  One over `FAINT` is exact to some digits as long as no
``beta_t c_t`` exceeds `LARGE`, so that what was rounded to zero amounts to at most 1e-20 of a probability."""


class Work(NamedTuple):
    """Work arrays for the longest sequence; rows of labels are padded to P, see `math.padded`.

    potentials, alpha, beta (Floats): [longest, P].
    scale (Floats): [longest] c_t.
    forward, backward (Floats): [P, P] the transition potentials at hand and their transpose.
    counts (Floats): [P, P] expected shared transitions, to be multiplied by their potentials.
    """

    potentials: Floats
    alpha: Floats
    beta: Floats
    scale: Floats
    forward: Floats
    backward: Floats
    counts: Floats


@inlined
def workspace(offsets: Offsets, scores: PlainScores) -> tuple[Work, float]:
    """Return work arrays, with the potentials of shared transitions, and the maximum taken out of these."""
    emissions, transitions, _, _ = scores
    dtype, square = emissions.dtype, padded(emissions.shape[1])
    rows = longest(offsets), square
    work = Work(
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.empty(rows[0], dtype),
        np.zeros((square, square), dtype),
        np.zeros((square, square), dtype),
        np.zeros((square, square), dtype),
    )
    base = 0.0
    if transitions.shape[0] == 1:
        base = transition_potentials(transitions[0], work.forward, work.backward)
    return work, base


@inlined
def add_shared_transitions(work: Work, d_transitions: Floats) -> None:
    """Add the expected shared transitions to their gradient."""
    if d_transitions.shape[0] == 1:
        for i in range(d_transitions.shape[1]):
            for j in range(d_transitions.shape[1]):
                d_transitions[0, i, j] += work.counts[i, j] * work.forward[i, j]


@internal
def transition_potentials(transitions: Floats, forward: Floats, backward: Floats) -> float:
    """Write exp(transitions - max) to forward and its transpose to backward, both padded; return the max."""
    n, tops = transitions.shape[0], backward[0]  # the maximum of each column, so that it takes vectors
    tops[:n] = transitions[0]
    for i in range(1, n):
        for j in range(n):
            tops[j] = transitions[i, j] if transitions[i, j] > tops[j] else tops[j]
    top = largest(tops[:n])
    if top == -np.inf:
        top = transitions.dtype.type(0)
    for i in range(n):
        row = forward[i, :n]
        for j in range(n):
            row[j] = transitions[i, j] - top
        exponentiate(row)
        for j in range(n):
            backward[j, i] = row[j]
    return top


@inlined
def fill_potentials(scores: Scores, gold: Ints, work: Work) -> float:
    """Write exp(local score - max of the row), see `sequences.local_scores`; return the sum of the maxima."""
    local = work.potentials[: scores.emissions.shape[0]]
    local_scores(scores, gold, local)
    total = 0.0
    for t in range(local.shape[0]):
        row = local[t]
        top = largest(row)
        if top == -np.inf:
            return -np.inf
        total += top
        for k in range(row.shape[0]):
            row[k] -= top
        exponentiate(row)
    return total


@internal
def multiply(vector: Floats, matrix: Floats, n: int, out: Floats) -> None:
    """Write vector [P] times the first n rows of matrix [P, P] to out [P]; rows up to the next multiple of 4 are zero.

    Four rows at a time, so that a number of out is loaded and stored once for four products.
    """
    for k in range(out.shape[0]):
        out[k] = 0
    for i in range(0, n, 4):
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        row_a, row_b, row_c, row_d = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for k in range(out.shape[0]):
            out[k] += a * row_a[k] + b * row_b[k] + c * row_c[k] + d * row_d[k]


@inlined
def forward(transitions: Floats, base: float, length: int, work: Work) -> tuple[float, bool]:
    """Fill alpha and scale; return (log Z less the maxima of the emissions, whether it can be trusted)."""
    potentials, alpha, _, scale, potentials_ahead, potentials_back, _ = work
    width, n = potentials.shape[1], transitions.shape[1]
    log_z = 0.0
    for t in range(length):
        here = alpha[t]
        if t == 0:
            for k in range(width):
                here[k] = potentials[0, k]
        else:
            if transitions.shape[0] == 1:
                log_z += base
            else:
                log_z += transition_potentials(transitions[t], potentials_ahead, potentials_back)
            multiply(alpha[t - 1], potentials_ahead, n, here)
            for k in range(width):
                here[k] *= potentials[t, k]
        total = here[0]
        for k in range(1, width):
            total += here[k]
        if not total > TINY:
            return log_z, False
        log_z += np.log(total)
        scale[t] = 1 / total
        for k in range(width):
            here[k] *= scale[t]
    return log_z, True


@inlined
def backward(transitions: Floats, length: int, work: Work, limit: float) -> bool:
    """Fill beta, so that alpha times beta are marginals; return whether they can be trusted, no beta c over limit."""
    potentials, alpha, beta, scale, potentials_ahead, potentials_back, _ = work
    width, n = potentials.shape[1], transitions.shape[1]
    mass = np.empty(width, potentials.dtype)
    for k in range(width):
        beta[length - 1, k] = 1
    for t in range(length - 1, 0, -1):
        if transitions.shape[0] > 1:
            transition_potentials(transitions[t], potentials_ahead, potentials_back)
        top = scale[t]
        for j in range(width):
            gain = beta[t, j] * scale[t]
            top = max(top, gain)
            mass[j] = potentials[t, j] * gain
        if not top <= limit:
            return False
        multiply(mass, potentials_back, n, beta[t - 1])
    for t in range(length):
        total = alpha[t, 0] * beta[t, 0]
        for k in range(1, n):
            total += alpha[t, k] * beta[t, k]
        if not abs(total - 1) < 1e-2:
            return False
        correction = 1 / total  # rounding adds up over a long sequence
        for k in range(width):
            beta[t, k] *= correction
    return True


@inlined
def accumulate(
    scores: Scores, gold: Ints, factor: float, gold_log_sum: float, cap: float, base: float, work: Work, grad: Scores
) -> tuple[float, bool]:
    """Add the expected counts of one sequence to `grad`, times factor and phi'(log Z - gold_log_sum).

    Return its log Z, and whether it can be trusted; if not, nothing is added.  base is the maximum taken out of shared
    transitions.  Their counts are left in the counts of `work`, still to be multiplied by the potentials.
    """
    transitions, length = scores.transitions, scores.emissions.shape[0]
    maxima = fill_potentials(scores, gold, work)
    log_z, exact = -np.inf, maxima > -np.inf
    if exact:
        log_z, exact = forward(transitions, base, length, work)
    share = factor * capped(log_z + maxima - gold_log_sum, cap)[1]
    if exact:  # what comes of it is still to be multiplied by the share, up to e^30
        exact = backward(transitions, length, work, HUGE / max(1.0, abs(share)))
    if exact:
        _add_counts(transitions, length, scores.emissions.dtype.type(share), work, grad)
    return log_z + maxima, exact


@inlined
def _add_counts(transitions: Floats, length: int, factor: float, work: Work, grad: Scores) -> None:
    """Add factor times the marginals and expected transitions to `grad`, shared transitions to the counts of `work`."""
    potentials, alpha, beta, scale, potentials_ahead, potentials_back, counts = work
    d_emissions, d_transitions, d_start, d_end = grad
    width, n = potentials.shape[1], transitions.shape[1]
    for k in range(n):
        d_start[k] += factor * alpha[0, k] * beta[0, k]
        d_end[k] += factor * alpha[length - 1, k] * beta[length - 1, k]
    for t in range(length):
        row, a, z = d_emissions[t], alpha[t], beta[t]
        for k in range(n):
            row[k] += factor * a[k] * z[k]
    for t in range(1, length):
        before, ends, here = alpha[t - 1], beta[t], potentials[t]
        for k in range(width):
            ends[k] *= factor * scale[t] * here[k]  # beta is not needed any more
        if transitions.shape[0] == 1:
            for i in range(n):
                mass, row = before[i], counts[i]
                for k in range(width):
                    row[k] += mass * ends[k]
        else:
            transition_potentials(transitions[t], potentials_ahead, potentials_back)
            for i in range(n):
                for j in range(n):
                    d_transitions[t, i, j] += before[i] * potentials_ahead[i, j] * ends[j]
