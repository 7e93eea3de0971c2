"""Chains that are normalised at each token: ``P(y | x) = prod_t P(y_t | y_{t-1}, x)``, the MEMM.

``P(y_t = j | y_{t-1} = i, x)`` is the softmax over j of ``emissions_t(j) + transitions_t(i, j)``, with start scores at
the first and end scores at the last token of a sequence (McCallum, Freitag & Pereira 2000, eq. 1).
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Offsets
from ._jit import inlined, kernel

LANES = 8
"""Rows of work space are padded to a multiple of this, so that loops over labels need no remainder."""
TINY = 1e-250
"""A sum of scaled potentials below this is done again in log space."""


@inlined
def _exponentiate(row: Floats, powers: Ints, factors: Floats) -> None:
    """Replace a row of numbers that are not positive by their exponentials, as `lattice` does; see there."""
    if row.itemsize == 4:
        for k in range(row.shape[0]):
            x = max(row[k], np.float32(-87))
            m = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
            r = x - m * np.float32(0.693359375) + m * np.float32(2.12194440e-4)
            y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
            y = y * r + np.float32(8.3334519073e-3)
            y = y * r + np.float32(4.1665795894e-2)
            y = y * r + np.float32(1.6666665459e-1)
            y = y * r + np.float32(5.0000001201e-1)
            powers[k] = (np.int32(m) + 127) << 23 if row[k] >= np.float32(-87) else 0
            row[k] = y * r * r + r + np.float32(1)
        for k in range(row.shape[0]):
            row[k] *= factors[k]
    else:
        for k in range(row.shape[0]):
            row[k] = np.exp(row[k])


@kernel
def log_loss(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    offsets: Offsets,
    gold: Ints,
    weights: Floats,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """Return the sum over sequences of ``weight * -log P(gold | x)`` and add its gradient.

    Shapes as in `lattice.log_loss`.  A token whose label and the one before are known needs one row of transitions,
    L numbers of work; labels that are missing (negative) are summed out, L x L for each.  Nothing follows from
    a missing label after which none is known.
    """
    n = emissions.shape[1]
    shared = transitions.shape[0] == 1
    row = np.full((n + LANES - 1) // LANES * LANES, -np.inf, emissions.dtype)
    powers = np.zeros(row.shape[0], np.int32)
    factors = powers.view(np.float32)
    loss = 0.0
    for s in range(weights.shape[0]):
        b, e = offsets[s], offsets[s + 1]
        f = emissions.dtype.type(weights[s])
        t = b
        while t < e and weights[s] != 0:
            last = t
            while last < e - 1 and gold[last] < 0:
                last += 1
            if gold[last] < 0:
                break
            if last > t:
                loss -= weights[s] * _sum_out(emissions, transitions, start, end, b, e, t, last, gold, weights[s],
                                              d_emissions, d_transitions, d_start, d_end)  # fmt: skip
                t = last + 1
                continue
            here = emissions[t]
            for k in range(row.shape[0]):
                row[k] = -np.inf
            for k in range(n):
                row[k] = here[k]
            if t == b:
                for k in range(n):
                    row[k] += start[k]
            else:
                step = transitions[0 if shared else t, gold[t - 1]]
                for k in range(n):
                    row[k] += step[k]
            if t == e - 1:
                for k in range(n):
                    row[k] += end[k]
            largest = row[0]
            for k in range(row.shape[0]):
                largest = max(largest, row[k])
            score = row[gold[t]] - largest
            if score > -np.inf:
                for k in range(row.shape[0]):
                    row[k] -= largest
                _exponentiate(row, powers, factors)
                total = emissions.dtype.type(0)
                for k in range(row.shape[0]):
                    total += row[k]
                loss -= weights[s] * (np.float64(score) - np.log(np.float64(total)))
                share = f / total
                for k in range(row.shape[0]):
                    row[k] *= share
                row[gold[t]] -= f
                _add_row(row, t, gold[t - 1] if t > b else -1, t == e - 1, d_emissions, d_transitions, d_start, d_end)
            else:
                loss = np.inf
            t += 1
    return loss


@kernel
def _add_row(
    row: Floats,
    t: int,
    before: int,
    ends: bool,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> None:
    """Add the gradient [L] of the scores of token t after the label `before` (-1 for none) to what they consist of."""
    n = d_emissions.shape[1]
    target = d_emissions[t]
    for k in range(n):
        target[k] += row[k]
    target = d_start if before < 0 else d_transitions[0 if d_transitions.shape[0] == 1 else t, before]
    for k in range(n):
        target[k] += row[k]
    if ends:
        for k in range(n):
            d_end[k] += row[k]


@kernel
def _log_softmax(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    t: int,
    before: int,
    ends: bool,
    out: Floats,
) -> float:
    """Write log P(y_t = k | y_{t-1} = before) to out [L], in float64; return the logarithm of the normaliser.

    before is -1 at the first token.  Where every label is forbidden, all are minus infinity.
    """
    largest = -np.inf
    for k in range(out.shape[0]):
        out[k] = emissions[t, k]
        if before < 0:
            out[k] += start[k]
        else:
            out[k] += transitions[0 if transitions.shape[0] == 1 else t, before, k]
        if ends:
            out[k] += end[k]
        largest = max(largest, out[k])
    if largest == -np.inf:
        return largest
    total = 0.0
    for k in range(out.shape[0]):
        total += np.exp(out[k] - largest)
    normaliser = largest + np.log(total)
    for k in range(out.shape[0]):
        out[k] -= normaliser
    return normaliser


@kernel
def _add_logs(x: float, y: float) -> float:
    """Return log(exp(x) + exp(y))."""
    high, low = max(x, y), min(x, y)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def _sum_out(
    emissions: Floats,
    transitions: Floats,
    start: Floats,
    end: Floats,
    b: int,
    e: int,
    first: int,
    last: int,
    gold: Ints,
    weight: float,
    d_emissions: Floats,
    d_transitions: Floats,
    d_start: Floats,
    d_end: Floats,
) -> float:
    """Return log P(y_last | y_{first-1}), the labels between summed out; subtract its gradient times weight.

    A forward and a backward recursion over log probabilities, in float64.  The sequence has the tokens b..e-1.
    """
    n, length = emissions.shape[1], last - first + 1
    steps = np.full((length, n, n), -np.inf)
    alpha, beta = np.full((length, n), -np.inf), np.full((length, n), -np.inf)
    known = -1 if first == b else gold[first - 1]
    row_of = max(known, 0)  # the only row of steps[0] that is used
    alpha_before = np.full(n, -np.inf)
    alpha_before[row_of] = 0
    for p in range(length):
        for i in range(n):
            before = alpha_before[i] if p == 0 else alpha[p - 1, i]
            if before == -np.inf:
                continue
            label = i if p > 0 else known
            _log_softmax(emissions, transitions, start, end, first + p, label, first + p == e - 1, steps[p, i])
            for j in range(n):
                alpha[p, j] = _add_logs(alpha[p, j], before + steps[p, i, j])
    total = alpha[length - 1, gold[last]]
    if total == -np.inf:
        return total
    beta[length - 1, gold[last]] = 0
    row = np.empty(n, emissions.dtype)
    for p in range(length - 1, -1, -1):
        for i in range(n):
            before = alpha_before[i] if p == 0 else alpha[p - 1, i]
            if before == -np.inf:
                continue
            here = -np.inf
            for j in range(n):
                here = _add_logs(here, steps[p, i, j] + beta[p, j])
            if p > 0:
                beta[p - 1, i] = here
            visited = np.exp(before + here - total)
            for j in range(n):
                taken = np.exp(before + steps[p, i, j] + beta[p, j] - total)
                row[j] = weight * (visited * np.exp(steps[p, i, j]) - taken)
            label = i if p > 0 else known
            _add_row(row, first + p, label, first + p == e - 1, d_emissions, d_transitions, d_start, d_end)
    return total


@kernel
def normalise(
    emissions: Floats, transitions: Floats, start: Floats, end: Floats, offsets: Offsets, out: Floats
) -> None:
    """Write emissions to out [T, L] with which the score of a path is log P(path | x), but for a constant.

    What normalises the label of token t + 1 depends on that of token t and on nothing else of the path, so it is taken
    off the emission of t.  Labels that none can follow get minus infinity.
    """
    n = emissions.shape[1]
    shared = transitions.shape[0] == 1
    potentials, maxima, here, row = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    if shared:
        _row_potentials(transitions[0], potentials, maxima)
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1] - 1):
            ends = t + 2 == offsets[s + 1]
            if not shared:
                _row_potentials(transitions[t + 1], potentials, maxima)
            largest = -np.inf
            for k in range(n):
                here[k] = emissions[t + 1, k] + (end[k] if ends else end.dtype.type(0))
                largest = max(largest, here[k])
            for k in range(n):
                here[k] = np.exp(here[k] - largest) if largest > -np.inf else 0.0
            for i in range(n):
                total, source = 0.0, potentials[i]
                for k in range(n):
                    total += source[k] * here[k]
                if total > TINY:
                    normaliser = np.log(total) + largest + maxima[i]
                else:
                    normaliser = _log_softmax(emissions, transitions, start, end, t + 1, i, ends, row)
                out[t, i] = emissions[t, i] - normaliser if normaliser > -np.inf else -np.inf
        if offsets[s + 1] > offsets[s]:
            for k in range(n):
                out[offsets[s + 1] - 1, k] = emissions[offsets[s + 1] - 1, k]


@kernel
def _row_potentials(transitions: Floats, potentials: Floats, maxima: Floats) -> None:
    """Write exp(transitions - maximum of the row) [L, L] and the maxima [L]; zeros for a row of minus infinities."""
    for i in range(transitions.shape[0]):
        largest = -np.inf
        for k in range(transitions.shape[0]):
            largest = max(largest, np.float64(transitions[i, k]))
        maxima[i] = largest
        for k in range(transitions.shape[0]):
            potentials[i, k] = np.exp(transitions[i, k] - largest) if largest > -np.inf else 0.0
