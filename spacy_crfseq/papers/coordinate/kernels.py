"""Coordinate descent: visits of one feature after another.

Sokolovska, Lavergne, Cappé & Yvon (2010), "Efficient learning of sparse conditional random fields for supervised
sequence labelling", sections III and IV.  `sparse_chains` has the recursions.

A *row* is the weights of one feature.  There are two kinds: rows that score labels, the last two of which are the
start and end scores, on at the first and the last token of each sequence; and rows that score label pairs, the last of
which is the transitions, on at every other token.  A visit computes, on the sequences that hold the feature, gradient
g and diagonal h of the Hessian, the latter per position, ``sum P (1 - P)``, and makes the step ::

    w = S(k h w - g, l1) / (k h + l2)           S(x, a) = sign(x) max(|x| - a, 0)

for some or all weights of the row.  The diagonal leaves out what weights do to each other, for which the factor k makes
up: it is the curvature seen in the row's last step, and doubled until the objective falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...kernels.jit import inlined, internal, kernel
from ...types import Floats, Ints, Offsets, Strengths
from .sparse_chains import (
    LABELLED,
    LANES,
    NOTHING,
    PARTLY,
    ChainBuffers,
    Lattices,
    RowOccurrences,
    SparseChains,
    compile_matrix,
    exponentiate,
    marginals,
    partitions,
    weigh,
    workspace,
)

ROUNDING = 1e-13
"""Step scores below this are sums that are zero but for rounding."""
BOUND = 2.0
"""No weight moves further in one visit."""
ENOUGH = 0.01
"""Share of the fall that the gradient promises with which a step is content (Armijo's rule)."""
TRIALS = 40
"""Steps that a visit tries, each at most half as long as the one before."""
LEAST_FACTOR = 0.5
"""The factor k does not fall below this."""
FLOOR = 1e-10
"""Curvature that every weight has at the least, so that no step is a division by zero."""


class Visit(NamedTuple):
    """Which weights a sweep visits, and how.

    order (Offsets): Numbers of the rows.
    low, high (int): First and last column + 1 of those that are moved, if single.
    single (bool): Move the weights of a row one after another, not all at once.
    zeros (bool): Visit weights that are zero too.
    """

    order: Offsets
    low: int
    high: int
    single: bool
    zeros: bool


@inlined
def _add(g: Floats, h: Floats, column: int, w: float, p: float) -> None:
    """Add w times a probability to the gradient of a column, and if w > 0 w P (1 - P) to its curvature."""
    g[column] += w * p
    if w > 0:
        h[column] += w * p * (1 - p)


@inlined
def _count_labels(
    lattices: Lattices, t: int, place: int, sound: bool, log_z: float, w: float, work: ChainBuffers
) -> None:
    """Add w P(label) of token t, number `place` of its sequence, to g, and if w > 0 w P (1 - P) to h."""
    n, alpha, beta, total = lattices.emissions.shape[1], work.alpha[place], work.beta[place], 0.0
    for k in range(n):
        total += alpha[k] * beta[k]
    for k in range(n):
        _add(work.g, work.h, k, w, alpha[k] * beta[k] / total if sound else np.exp(alpha[k] + beta[k] - log_z))


@inlined
def _count_pairs(
    lattices: Lattices,
    s: int,
    t: int,
    place: int,
    sound: bool,
    log_z: float,
    w: float,
    work: ChainBuffers,
    m: int,
    gold: int,
) -> None:
    """Do the same for the label pairs of the step to token t, of which the first m of work.cols are wanted.

    gold: The label that token t is known to have, -1 for none.
    """
    n, before, beta, mass = lattices.emissions.shape[1], work.alpha[place - 1], work.beta[place], work.mass
    steps, matrix, total, factor = lattices.steps[s], lattices.factors[s], 0.0, 1.0
    if sound:
        for k in range(n):
            total += work.alpha[place, k] * beta[k]
        factor = work.stretch[place] / total
        weigh(beta, lattices.potentials[t], gold, mass)
    if m * LANES < n * n or not sound:
        # few pairs are wanted, or alpha and beta are logarithms: one pair after another
        for e in range(m):
            i, j = work.cols[e] // n, work.cols[e] % n
            p = before[i] * factor * matrix[i, j] * mass[j]
            if not sound:
                possible = gold < 0 or gold == j
                p = np.exp(before[i] + steps[i, j] + lattices.emissions[t, j] + beta[j] - log_z) if possible else 0.0
            _add(work.g, work.h, work.cols[e], w, p)
        return
    curved = w if w > 0 else 0.0
    # many pairs: all of them, in the order of memory
    for i in range(n):
        a, line, g, h = before[i] * factor, matrix[i], work.g[i * n : (i + 1) * n], work.h[i * n : (i + 1) * n]
        for j in range(n):
            p = a * line[j] * mass[j]
            g[j] += w * p
            h[j] += curved * p * (1 - p)


@inlined
def _gold_column(gold: Ints, rows: RowOccurrences, t: int, n: int) -> int:
    """Return the column of the gold label, or of the pair of gold labels, at token t."""
    return gold[t - 1] * n + gold[t] if rows.pairs else gold[t]


@inlined
def _count(
    chains: SparseChains, lattices: Lattices, rows: RowOccurrences, begin: int, end: int, m: int, work: ChainBuffers
) -> None:
    """Add gradient and curvature on one sequence, whose tokens with the feature are rows.tokens[begin:end]."""
    s = chains.sequences[rows.tokens[begin]]
    first, n, w = chains.offsets[s], lattices.emissions.shape[1], chains.weights[s]
    # expected counts, less those given the gold labels where some are missing
    for clamped in range(2 if chains.kinds[s] == PARTLY else 1):
        factor = -w if clamped else w
        log_z = lattices.gold[s] if clamped else lattices.log_z[s]
        sound = marginals(chains, lattices, s, rows.tokens[begin], rows.tokens[end - 1], clamped, work)
        for p in range(begin, end):
            t = rows.tokens[p]
            if rows.pairs:
                gold = chains.gold[t] if clamped else -1
                _count_pairs(lattices, chains.sets[t], t, t - first, sound, log_z, factor, work, m, gold)
            else:
                _count_labels(lattices, t, t - first, sound, log_z, factor, work)
    if chains.kinds[s] == LABELLED:
        # less the counts of the gold labels where all are known
        for p in range(begin, end):
            t = rows.tokens[p]
            work.g[_gold_column(chains.gold, rows, t, n)] -= w


@kernel
def _list_weights(rows: RowOccurrences, r: int, theta: Floats, zeros: bool, places: Ints, cols: Ints) -> int:
    """Write places and columns of the weights of row r, those that are zero if `zeros`; return their number."""
    m = 0
    for p in range(rows.ptr[r], rows.ptr[r + 1]):
        if zeros or theta[rows.places[p]] != 0:
            places[m], cols[m] = rows.places[p], rows.cols[p]
            m += 1
    return m


@internal
def _move(lattices: Lattices, rows: RowOccurrences, r: int, m: int, factor: float, work: ChainBuffers) -> None:
    """Add factor times d to the scores of row r, at the columns work.cols[:m]."""
    n = lattices.emissions.shape[1]
    if rows.pairs:
        # the matrices of all sets that have the row
        for q in range(lattices.set_ptr[r], lattices.set_ptr[r + 1]):
            s = lattices.sets[q]
            for e in range(m):
                i, j = work.cols[e] // n, work.cols[e] % n
                score = lattices.steps[s, i, j] + factor * work.d[work.cols[e]]
                lattices.steps[s, i, j] = score if abs(score) > ROUNDING else 0.0
                lattices.factors[s, i, j] = np.exp(lattices.steps[s, i, j])
            compile_matrix(lattices, s)
        return
    # the tokens that have the row; all potentials of a token anew where one outgrows the shift
    for p in range(rows.row_ptr[r], rows.row_ptr[r + 1]):
        t = rows.tokens[p]
        fits = True
        for e in range(m):
            k = work.cols[e]
            lattices.emissions[t, k] += factor * work.d[k]
            above = lattices.emissions[t, k] - lattices.shift[t]
            fits = fits and above < 2
            if fits:
                lattices.potentials[t, k] = np.exp(above)
        if not fits:
            exponentiate(lattices, t)


@internal
def _next_sequence(chains: SparseChains, rows: RowOccurrences, begin: int, end: int) -> int:
    """Return where the tokens of the sequence of rows.tokens[begin] end in that list."""
    s, p = chains.sequences[rows.tokens[begin]], begin + 1
    while p < end and chains.sequences[rows.tokens[p]] == s:
        p += 1
    return p


@inlined
def _change(
    chains: SparseChains, lattices: Lattices, rows: RowOccurrences, r: int, work: ChainBuffers
) -> tuple[float, float]:
    """Return (change of the loss with the moved scores, size of the numbers it was computed from).

    The new log Z and gold score of each sequence go to work.new_z and work.new_gold.
    """
    n, change, size = lattices.emissions.shape[1], 0.0, 0.0
    begin, stop = rows.row_ptr[r], rows.row_ptr[r + 1]
    # one sequence after another of those with the row
    while begin < stop:
        end, s = _next_sequence(chains, rows, begin, stop), chains.sequences[rows.tokens[begin]]
        if chains.kinds[s] != NOTHING:
            log_z, gold = partitions(chains, lattices, s, work)
            if chains.kinds[s] == LABELLED:
                gold = lattices.gold[s]
                for p in range(begin, end):
                    t = rows.tokens[p]
                    gold += work.d[_gold_column(chains.gold, rows, t, n)]
            work.new_z[s], work.new_gold[s] = log_z, gold
            change += chains.weights[s] * (log_z - lattices.log_z[s] - (gold - lattices.gold[s]))
            size += chains.weights[s] * (abs(log_z) + abs(gold))
        begin = end
    return change, size


@internal
def _shrink(x: float, by: float) -> float:
    if x > by:
        return x - by
    return x + by if x < -by else 0.0


@inlined
def _propose(
    theta: Floats, m: int, factor: float, bound: float, strengths: Strengths, work: ChainBuffers
) -> tuple[float, float, float]:
    """Write the step to d, no number of which exceeds `bound`; return (g d, sum of h d^2, change of the penalty)."""
    slope, curvature, penalty, (l1, l2) = 0.0, 0.0, 0.0, strengths
    for e in range(m):
        w, g, h = theta[work.places[e]], work.g[work.cols[e]], factor * (work.h[work.cols[e]] + FLOOR)
        d = _shrink(h * w - g, l1) / (h + l2) - w
        d = min(max(d, -bound), bound)
        work.d[work.cols[e]] = d
        slope += g * d
        curvature += work.h[work.cols[e]] * d * d
        penalty += l1 * (abs(w + d) - abs(w)) + l2 * d * (w + d / 2)
    return slope, curvature, penalty


@inlined
def _step(
    chains: SparseChains,
    lattices: Lattices,
    rows: RowOccurrences,
    r: int,
    m: int,
    theta: Floats,
    factor: float,
    strengths: Strengths,
    work: ChainBuffers,
) -> float:
    """Move the first m weights that are listed, g and h of which are known; return the factor for the next visit."""
    bound = BOUND
    # shorter and shorter steps until the objective falls enough
    for _ in range(TRIALS):
        slope, curvature, penalty = _propose(theta, m, factor, bound, strengths, work)
        if slope == 0 and penalty == 0:
            return factor
        _move(lattices, rows, r, m, 1.0, work)
        change, size = _change(chains, lattices, rows, r, work)
        noise = 1e-14 * size
        seen = 2.2 * (change - slope) / curvature if curvature > 1e4 * noise else factor  # 10 % more
        if change + penalty <= ENOUGH * (slope + penalty) + noise:
            # the step is kept, and so are the sums that it changed
            for e in range(m):
                theta[work.places[e]] += work.d[work.cols[e]]
            for p in range(rows.row_ptr[r], rows.row_ptr[r + 1]):
                s = chains.sequences[rows.tokens[p]]
                if chains.kinds[s] != NOTHING:
                    lattices.log_z[s], lattices.gold[s] = work.new_z[s], work.new_gold[s]
            return max(LEAST_FACTOR, (factor + seen) / 2)
        _move(lattices, rows, r, m, -1.0, work)
        factor, bound = min(max(2 * factor, seen), 8 * factor), bound / 2
    return factor


@kernel
def _measure(chains: SparseChains, lattices: Lattices, rows: RowOccurrences, r: int, m: int, work: ChainBuffers) -> int:
    """Compute g and h of the first m columns that are listed; return the number of sequences it took."""
    n = lattices.emissions.shape[1]
    if not rows.pairs or m * LANES >= n * n:
        work.g[: rows.width] = 0
        work.h[: rows.width] = 0
    for e in range(m):
        work.g[work.cols[e]] = work.h[work.cols[e]] = 0
    visited, begin, stop = 0, rows.row_ptr[r], rows.row_ptr[r + 1]
    while begin < stop:
        end = _next_sequence(chains, rows, begin, stop)
        if chains.kinds[chains.sequences[rows.tokens[begin]]] != NOTHING:
            _count(chains, lattices, rows, begin, end, m, work)
            visited += 1
        begin = end
    return visited


@inlined
def _violation(theta: Floats, m: int, strengths: Strengths, work: ChainBuffers) -> float:
    """Return the squared norm of the smallest subgradient."""
    square, (l1, l2) = 0.0, strengths
    for e in range(m):
        w = theta[work.places[e]]
        g = work.g[work.cols[e]] + l2 * w
        g = _shrink(g, l1) if w == 0 else g + (l1 if w > 0 else -l1)
        square += g * g
    return square


@kernel
def sweep(
    chains: SparseChains,
    lattices: Lattices,
    rows: RowOccurrences,
    visit: Visit,
    theta: Floats,
    factors: Floats,
    strengths: Strengths,
) -> tuple[float, int]:
    """Visit some rows once; return (squared norm of the gradient as it was met, sequences passed through).

    theta [D] and factors, the factor k of each row or, if `visit.single`, of each weight [D], are updated.
    """
    work = workspace(chains, lattices, rows.width)
    places, cols = np.empty(rows.width, np.int32), np.empty(rows.width, np.int32)
    violation, visited = 0.0, 0
    for r in visit.order:
        listed = _list_weights(rows, r, theta, visit.zeros, places, cols)
        size = 1 if visit.single else max(1, listed)
        # all weights of the row at once, or one after another
        for first in range(0, listed, size):
            if visit.single and not (visit.low <= cols[first] < visit.high):
                continue
            work.places[:size], work.cols[:size] = places[first : first + size], cols[first : first + size]
            visited += _measure(chains, lattices, rows, r, size, work)
            violation += _violation(theta, size, strengths, work)
            k = places[first] if visit.single else r
            factors[k] = _step(chains, lattices, rows, r, size, theta, factors[k], strengths, work)
            for e in range(size):
                work.d[work.cols[e]] = 0
    return violation, visited


@kernel
def add_scores(lattices: Lattices, rows: RowOccurrences, theta: Floats) -> None:
    """Add the scores of all rows to the emissions or to the steps."""
    n = lattices.emissions.shape[1]
    places, cols = np.empty(rows.width, np.int32), np.empty(rows.width, np.int32)
    zeros = bool(np.bool_(False))  # for a bare False, numba would compile `_list_weights` once more
    for r in range(rows.row_ptr.shape[0] - 1):
        m = _list_weights(rows, r, theta, zeros, places, cols)
        # to the steps of all sets with the row, or to the emissions of all its tokens
        if rows.pairs:
            for q in range(lattices.set_ptr[r], lattices.set_ptr[r + 1]):
                for e in range(m):
                    lattices.steps[lattices.sets[q], cols[e] // n, cols[e] % n] += theta[places[e]]
        else:
            for p in range(rows.row_ptr[r], rows.row_ptr[r + 1]):
                for e in range(m):
                    lattices.emissions[rows.tokens[p], cols[e]] += theta[places[e]]


@kernel
def begin(chains: SparseChains, lattices: Lattices) -> None:
    """Compute potentials, log Z and gold scores from the emissions and steps."""
    n = lattices.emissions.shape[1]
    # matrices of exponentials of the steps
    for s in range(lattices.steps.shape[0]):
        for i in range(n):
            for j in range(n):
                lattices.factors[s, i, j] = np.exp(lattices.steps[s, i, j])
        compile_matrix(lattices, s)
    for t in range(lattices.emissions.shape[0]):
        exponentiate(lattices, t)
    work = workspace(chains, lattices, 0)
    # log Z and the score of the gold labels
    for s in range(chains.kinds.shape[0]):
        if chains.kinds[s] == NOTHING:
            continue
        lattices.log_z[s], lattices.gold[s] = partitions(chains, lattices, s, work)
        if chains.kinds[s] == PARTLY:
            continue
        score = 0.0
        for t in range(chains.offsets[s], chains.offsets[s + 1]):
            score += lattices.emissions[t, chains.gold[t]]
            if t > chains.offsets[s]:
                score += lattices.steps[chains.sets[t], chains.gold[t - 1], chains.gold[t]]
        lattices.gold[s] = score
