"""Coordinate descent: visits of one attribute after another, and forward-backward with matrices that are almost one.

Sokolovska, Lavergne, Cappé & Yvon (2010), "Efficient learning of sparse conditional random fields for supervised
sequence labelling", sections III and IV.  With potentials ``e_t(j) = exp(emission)`` and ``M_t(i, j) = exp(step)``::

    alpha_t(j) = e_t(j) * sum_i alpha_{t-1}(i) M_t(i, j)           beta_{t-1}(i) = sum_j M_t(i, j) e_t(j) beta_t(j)

Under an L1 penalty most step scores are exactly zero, so that M - 1 is sparse, and ``alpha M = (sum alpha) 1 +
alpha (M - 1)`` costs L + nnz instead of L^2 operations.  All positions that switch on the same label-pair attributes
share one matrix.

A *row* is the weights of one attribute.  There are two kinds: rows that score labels, the last two of which are the
start and end scores, on at the first and the last token of each sequence; and rows that score label pairs, the last of
which is the transitions, on at every other token.  A visit computes, on the sequences that hold the attribute, gradient
g and diagonal h of the Hessian, the latter per position, ``sum P (1 - P)``, and makes the step ::

    w = S(k h w - g, l1) / (k h + l2)           S(x, a) = sign(x) max(|x| - a, 0)

for some or all weights of the row.  The diagonal leaves out what weights do to each other, for which the factor k makes
up: it is the curvature seen in the row's last step, and doubled until the objective falls.

Everything is float64.  Alpha and beta are scaled when they leave `SMALL`..`LARGE`.  A sequence that leaves
`TINY`..`HUGE`, has a step score beyond `EXTREME`, or whose alpha and beta disagree about log Z is done in log space.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..types import Floats, Ints, Offsets
from ._jit import inlined, kernel

Bytes: TypeAlias = NDArray[np.int8]
Shorts: TypeAlias = NDArray[np.uint16]
Entries: TypeAlias = tuple[Shorts, Shorts, Floats]
"""Of a sparse matrix: rows, columns and values."""

SMALL, LARGE = 1e-30, 1e30
TINY, HUGE = 1e-90, 1e90
EXTREME = 60.0
AGREEMENT = 1e-8
"""By how much, relative to their size, the two ways to log Z may differ."""
ROUNDING = 1e-13
"""Step scores below this are sums that are zero but for rounding."""
NOTHING, LABELLED, PARTLY = 0, 1, 2
"""Kinds of sequences: without weight or gold labels, with all gold labels, with some of them."""
DENSE, SPARSE, FAR = 0, 1, 2
"""Kinds of matrices; far ones have a score beyond `EXTREME`."""
LANES = 4
"""Rows of potentials are padded to a multiple of this."""
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


class Chains(NamedTuple):
    """The sequences.

    offsets, gold, weights: As in `types.Batch`.
    kinds (Bytes): [N] `NOTHING`, `LABELLED` or `PARTLY`.
    sequences (Offsets): [T] the sequence of each token.
    sets (Offsets): [T] number of the matrix of the step to each token; any number at the first token of a sequence.
    """

    offsets: Offsets
    gold: Ints
    weights: NDArray[np.float64]
    kinds: Bytes
    sequences: Offsets
    sets: Offsets


class Rows(NamedTuple):
    """Rows of one kind, R of which are those of a group of parameters; the others are listed weight by weight.

    begin (int): Place of the group's first weight in theta.
    n_rows (int): R.
    width (int): C, labels or label pairs.
    ptr, cols: [R + 1] and [weights], as in `types.RowBlock`; empty where every row has all columns.
    more_ptr, more_places, more_cols: Weights of the other rows, their places in theta and their columns.
    row_ptr, tokens: Row r is on at the tokens ``tokens[row_ptr[r]:row_ptr[r + 1]]``, ascending.
    """

    begin: int
    n_rows: int
    width: int
    ptr: Offsets
    cols: Ints
    more_ptr: Offsets
    more_places: Offsets
    more_cols: Ints
    row_ptr: Offsets
    tokens: Offsets


class Lattices(NamedTuple):
    """Scores and potentials of all sequences; rows are padded with zeros to P, a multiple of `LANES`.

    emissions (Floats): [T, L], start and end scores included.
    potentials (Floats): [T, P] exp(emissions - shift), shift [T].
    steps (Floats): [S, L, L] step scores of each set of label-pair attributes.
    factors (Floats): [S, P, P] their exponentials, M.
    kinds (Bytes): [S] `DENSE`, `SPARSE` or `FAR`.
    sizes, rows, cols, values: [S] and three of [S, most], the entries of M - 1, where it is sparse.
    set_ptr, sets: Row r of those that score label pairs is in the sets ``sets[set_ptr[r]:set_ptr[r + 1]]``.
    log_z, gold (Floats): [N] log Z, and the score of the gold labels or log Z over all labellings that agree with them.
    """

    emissions: Floats
    potentials: Floats
    shift: Floats
    steps: Floats
    factors: Floats
    kinds: Bytes
    sizes: Ints
    rows: Shorts
    cols: Shorts
    values: Floats
    set_ptr: Offsets
    sets: Offsets
    log_z: Floats
    gold: Floats


class Work(NamedTuple):
    """Work arrays: alpha, beta [longest, P], stretch [longest], mass [P]; by column g, h, d; places and columns [C]."""

    alpha: Floats
    beta: Floats
    stretch: Floats
    mass: Floats
    g: Floats
    h: Floats
    d: Floats
    places: Offsets
    cols: Ints
    new_z: Floats
    new_gold: Floats


@inlined
def _workspace(chains: Chains, lattices: Lattices, width: int) -> Work:
    longest, n = 1, chains.offsets.shape[0] - 1
    for s in range(n):
        longest = max(longest, chains.offsets[s + 1] - chains.offsets[s])
    padded = lattices.potentials.shape[1]
    return Work(
        np.zeros((longest, padded)),
        np.zeros((longest, padded)),
        np.zeros(longest),
        np.zeros(padded),
        np.zeros(width),
        np.zeros(width),
        np.zeros(width),
        np.zeros(width, np.int64),
        np.zeros(width, np.int32),
        np.zeros(n),
        np.zeros(n),
    )


# --- matrices -------------------------------------------------------------------------------------------------------


@kernel
def _compile(lattices: Lattices, s: int) -> None:
    """Find out the kind of matrix s, and list the entries of M - 1 if there are few; the exponentials are there.

    They are listed along diagonals: neighbours in the list are in different rows and columns, so that no sum waits for
    the one before.
    """
    steps, n = lattices.steps[s], lattices.steps.shape[1]
    rows, cols, values = lattices.rows[s], lattices.cols[s], lattices.values[s]
    size, largest = 0, 0.0
    for diagonal in range(n):
        for i in range(n):
            j = i + diagonal if i + diagonal < n else i + diagonal - n
            if steps[i, j] != 0:
                largest = max(largest, abs(steps[i, j]))
                if size < values.shape[0]:
                    rows[size], cols[size], values[size] = i, j, lattices.factors[s, i, j] - 1
                size += 1
    lattices.sizes[s] = size
    if not largest <= EXTREME:
        lattices.kinds[s] = FAR
    else:
        lattices.kinds[s] = SPARSE if size <= values.shape[0] else DENSE


@inlined
def _from_left(row: Floats, total: float, sparse: bool, entries: Entries, matrix: Floats, out: Floats) -> None:
    """Write row [P], whose sum is `total`, times a matrix to out [P]."""
    rows, cols, values = entries
    if sparse:
        for j in range(out.shape[0]):
            out[j] = total
        for p in range(rows.shape[0]):
            out[cols[p]] += row[rows[p]] * values[p]
    else:
        for j in range(out.shape[0]):
            out[j] = 0
        for i in range(0, out.shape[0], LANES):
            a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
            for j in range(out.shape[0]):
                out[j] += a * matrix[i, j] + b * matrix[i + 1, j] + c * matrix[i + 2, j] + d * matrix[i + 3, j]


@inlined
def _from_right(column: Floats, total: float, sparse: bool, entries: Entries, matrix: Floats, out: Floats) -> None:
    """Write a matrix times column [P], whose sum is `total`, to out [P]."""
    rows, cols, values = entries
    if sparse:
        for i in range(out.shape[0]):
            out[i] = total
        for p in range(rows.shape[0]):
            out[rows[p]] += values[p] * column[cols[p]]
    else:
        for i in range(out.shape[0]):
            entry = 0.0
            for j in range(column.shape[0]):
                entry += matrix[i, j] * column[j]
            out[i] = entry


# --- forward and backward -------------------------------------------------------------------------------------------


@kernel
def _forward(
    chains: Chains, lattices: Lattices, s: int, stop: int, clamped: int, alpha: Floats, stretch: Floats
) -> tuple[float, bool]:
    """Fill alpha up to token stop - 1 of sequence s; return (log of the sum of the last one, whether it is sound).

    alpha[t] was multiplied by stretch[t] when it got too large or small.  clamped: Gold labels, where known, are fixed.
    """
    first, n = chains.offsets[s], lattices.steps.shape[1]
    sets, kinds, factors = chains.sets, lattices.kinds, lattices.factors
    sizes, rows, cols, values = lattices.sizes, lattices.rows, lattices.cols, lattices.values
    all_potentials, shift, gold = lattices.potentials, lattices.shift, chains.gold
    logarithm, total = 0.0, 0.0
    for t in range(first, stop):
        here, potentials = alpha[t - first], all_potentials[t]
        if t == first:
            for k in range(here.shape[0]):
                here[k] = potentials[k]
        else:
            q = sets[t]
            if kinds[q] == FAR:
                return 0.0, False
            few = sizes[q] if kinds[q] == SPARSE else 0
            entries = (rows[q, :few], cols[q, :few], values[q, :few])
            _from_left(alpha[t - first - 1], total, kinds[q] == SPARSE, entries, factors[q], here)
            for k in range(here.shape[0]):
                here[k] *= potentials[k]
        if clamped and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    here[k] = 0
        logarithm += shift[t]
        total = 0.0
        for k in range(here.shape[0]):
            total += here[k]
        stretch[t - first] = 1
        if not (SMALL < total < LARGE):
            if not (TINY < total < HUGE):
                return 0.0, False
            stretch[t - first] = 1 / total
            for k in range(here.shape[0]):
                here[k] /= total
            logarithm += np.log(total)
            total = 1.0
    return logarithm + np.log(total), True


@inlined
def _backward(
    chains: Chains, lattices: Lattices, s: int, start: int, at: int, clamped: int, beta: Floats, mass: Floats
) -> tuple[float, bool]:
    """Fill beta down to token `start` of sequence s; return (log of the factor taken out of beta[at], soundness)."""
    first, end, n = chains.offsets[s], chains.offsets[s + 1], lattices.steps.shape[1]
    sets, kinds, factors = chains.sets, lattices.kinds, lattices.factors
    sizes, rows, cols, values = lattices.sizes, lattices.rows, lattices.cols, lattices.values
    all_potentials, shift, gold = lattices.potentials, lattices.shift, chains.gold
    logarithm, wanted = 0.0, 0.0
    for k in range(n):
        beta[end - 1 - first, k] = 1
    for t in range(end - 1, start, -1):
        q = sets[t]
        if kinds[q] == FAR:
            return 0.0, False
        potentials, here = all_potentials[t], beta[t - first]
        for k in range(mass.shape[0]):
            mass[k] = potentials[k] * here[k]
        if clamped and gold[t] >= 0:
            for k in range(n):
                if k != gold[t]:
                    mass[k] = 0
        total = 0.0
        for k in range(mass.shape[0]):
            total += mass[k]
        logarithm += shift[t]
        if not (SMALL < total < LARGE):
            if not (TINY < total < HUGE):
                return 0.0, False
            for k in range(mass.shape[0]):
                mass[k] /= total
            logarithm += np.log(total)
            total = 1.0
        few = sizes[q] if kinds[q] == SPARSE else 0
        entries = (rows[q, :few], cols[q, :few], values[q, :few])
        _from_right(mass, total, kinds[q] == SPARSE, entries, factors[q], beta[t - first - 1])
        if t - 1 == at:
            wanted = logarithm
    return wanted, True


@inlined
def _log_sum(values: Floats, n: int) -> float:
    largest = -np.inf
    for k in range(n):
        largest = max(largest, values[k])
    if largest == -np.inf:
        return -np.inf
    total = 0.0
    for k in range(n):
        total += np.exp(values[k] - largest)
    return largest + np.log(total)


@kernel
def _in_log_space(chains: Chains, lattices: Lattices, s: int, clamped: int, alpha: Floats, beta: Floats) -> float:
    """Fill log alpha (emission included) and log beta (excluded) of sequence s; return log Z."""
    first, end, n = chains.offsets[s], chains.offsets[s + 1], lattices.steps.shape[1]
    terms = np.empty(n)
    for t in range(first, end):
        for j in range(n):
            if t > first:
                for i in range(n):
                    terms[i] = alpha[t - first - 1, i] + lattices.steps[chains.sets[t], i, j]
            fixed = clamped and chains.gold[t] >= 0 and chains.gold[t] != j
            alpha[t - first, j] = -np.inf if fixed else lattices.emissions[t, j]
            if t > first:
                alpha[t - first, j] += _log_sum(terms, n)
    for j in range(n):
        beta[end - 1 - first, j] = 0
    for t in range(end - 1, first, -1):
        for i in range(n):
            for j in range(n):
                fixed = clamped and chains.gold[t] >= 0 and chains.gold[t] != j
                terms[j] = lattices.steps[chains.sets[t], i, j] + lattices.emissions[t, j] + beta[t - first, j]
                if fixed:
                    terms[j] = -np.inf
            beta[t - first - 1, i] = _log_sum(terms, n)
    return _log_sum(alpha[end - 1 - first], n)


@kernel
def _partitions(chains: Chains, lattices: Lattices, s: int, work: Work) -> tuple[float, float]:
    """Return log Z of sequence s and, if gold labels are missing, that of the labellings that agree with the others."""
    found = 0.0, 0.0
    for clamped in range(2 if chains.kinds[s] == PARTLY else 1):
        log_z, sound = _forward(chains, lattices, s, chains.offsets[s + 1], clamped, work.alpha, work.stretch)
        if not sound:
            log_z = _in_log_space(chains, lattices, s, clamped, work.alpha, work.beta)
        found = (found[0], log_z) if clamped else (log_z, 0.0)
    return found


@inlined
def _marginals(chains: Chains, lattices: Lattices, s: int, t: int, last: int, clamped: int, work: Work) -> bool:
    """Fill alpha up to token `last` and beta down to token t of sequence s; False: they are logarithms."""
    first = chains.offsets[s]
    log_z = lattices.gold[s] if clamped else lattices.log_z[s]
    before, sound = _forward(chains, lattices, s, last + 1, clamped, work.alpha, work.stretch)
    if sound:
        after, sound = _backward(chains, lattices, s, t, last, clamped, work.beta, work.mass)
    if sound:
        inner, total = 0.0, 0.0
        for k in range(work.mass.shape[0]):
            inner += work.alpha[last - first, k] * work.beta[last - first, k]
            total += work.alpha[last - first, k]
        found = before + after + np.log(inner / total)
        sound = abs(found - log_z) <= AGREEMENT * (1 + abs(log_z))
    if not sound:
        _in_log_space(chains, lattices, s, clamped, work.alpha, work.beta)
    return sound


# --- expected counts ------------------------------------------------------------------------------------------------


@inlined
def _count_labels(lattices: Lattices, t: int, here: int, sound: bool, log_z: float, w: float, work: Work) -> None:
    """Add w P(label) of token t, number `here` of its sequence, to g, and if w > 0 w P (1 - P) to h."""
    n, alpha, beta = lattices.emissions.shape[1], work.alpha[here], work.beta[here]
    total = 1.0
    if sound:
        total = 0.0
        for k in range(n):
            total += alpha[k] * beta[k]
    for k in range(n):
        p = alpha[k] * beta[k] / total if sound else np.exp(alpha[k] + beta[k] - log_z)
        work.g[k] += w * p
        if w > 0:
            work.h[k] += w * p * (1 - p)


@inlined
def _count_pairs(
    lattices: Lattices, s: int, t: int, here: int, sound: bool, log_z: float, w: float, work: Work, m: int, gold: int
) -> None:
    """Do the same for the label pairs of the step to token t, of which the first m of work.cols are wanted.

    gold: The label that token t is known to have, -1 for none.
    """
    n, before, beta, mass = lattices.emissions.shape[1], work.alpha[here - 1], work.beta[here], work.mass
    if not sound:
        for e in range(m):
            i, j = work.cols[e] // n, work.cols[e] % n
            p = np.exp(before[i] + lattices.steps[s, i, j] + lattices.emissions[t, j] + beta[j] - log_z)
            if gold >= 0 and gold != j:
                p = 0.0
            work.g[work.cols[e]] += w * p
            if w > 0:
                work.h[work.cols[e]] += w * p * (1 - p)
        return
    total, matrix = 0.0, lattices.factors[s]
    for k in range(n):
        total += work.alpha[here, k] * beta[k]
    for k in range(n):
        mass[k] = lattices.potentials[t, k] * beta[k] * work.stretch[here] / total
        if gold >= 0 and gold != k:
            mass[k] = 0
    if m * LANES < n * n:
        for e in range(m):
            i, j = work.cols[e] // n, work.cols[e] % n
            p = before[i] * matrix[i, j] * mass[j]
            work.g[work.cols[e]] += w * p
            if w > 0:
                work.h[work.cols[e]] += w * p * (1 - p)
        return
    curved = w if w > 0 else 0.0
    for i in range(n):
        a, line, g, h = before[i], matrix[i], work.g[i * n : (i + 1) * n], work.h[i * n : (i + 1) * n]
        for j in range(n):
            p = a * line[j] * mass[j]
            g[j] += w * p
            h[j] += curved * p * (1 - p)


@inlined
def _count(
    chains: Chains, lattices: Lattices, rows: Rows, pairs: bool, begin: int, end: int, m: int, work: Work
) -> None:
    """Add gradient and curvature on one sequence, whose tokens with the attribute are rows.tokens[begin:end]."""
    s = chains.sequences[rows.tokens[begin]]
    first, n, w = chains.offsets[s], lattices.emissions.shape[1], chains.weights[s]
    for clamped in range(2 if chains.kinds[s] == PARTLY else 1):
        factor = -w if clamped else w
        log_z = lattices.gold[s] if clamped else lattices.log_z[s]
        sound = _marginals(chains, lattices, s, rows.tokens[begin], rows.tokens[end - 1], clamped, work)
        for p in range(begin, end):
            t = rows.tokens[p]
            if pairs:
                gold = chains.gold[t] if clamped else -1
                _count_pairs(lattices, chains.sets[t], t, t - first, sound, log_z, factor, work, m, gold)
            else:
                _count_labels(lattices, t, t - first, sound, log_z, factor, work)
    if chains.kinds[s] == LABELLED:
        for p in range(begin, end):
            t = rows.tokens[p]
            work.g[chains.gold[t - 1] * n + chains.gold[t] if pairs else chains.gold[t]] -= w


# --- one row --------------------------------------------------------------------------------------------------------


@kernel
def _list_weights(rows: Rows, r: int, theta: Floats, zeros: bool, places: Offsets, cols: Ints) -> int:
    """Write places and columns of the weights of row r, those that are zero if `zeros`; return their number."""
    m = 0
    if r < rows.n_rows:
        dense = rows.ptr.shape[0] == 0
        begin = r * rows.width if dense else rows.ptr[r]
        end = begin + rows.width if dense else rows.ptr[r + 1]
        for p in range(begin, end):
            if zeros or theta[rows.begin + p] != 0:
                places[m], cols[m] = rows.begin + p, p - begin if dense else rows.cols[p]
                m += 1
    else:
        for p in range(rows.more_ptr[r - rows.n_rows], rows.more_ptr[r - rows.n_rows + 1]):
            if zeros or theta[rows.more_places[p]] != 0:
                places[m], cols[m] = rows.more_places[p], rows.more_cols[p]
                m += 1
    return m


@kernel
def _exponentiate(lattices: Lattices, t: int) -> None:
    """Compute the potentials of a token."""
    n, row = lattices.emissions.shape[1], lattices.emissions[t]
    largest = row[0]
    for k in range(1, n):
        largest = max(largest, row[k])
    lattices.shift[t] = largest
    for k in range(n):
        lattices.potentials[t, k] = np.exp(row[k] - largest)


@kernel
def _move(lattices: Lattices, rows: Rows, r: int, pairs: bool, m: int, factor: float, work: Work) -> None:
    """Add factor times d to the scores of row r, at the columns work.cols[:m]."""
    n = lattices.emissions.shape[1]
    if pairs:
        for q in range(lattices.set_ptr[r], lattices.set_ptr[r + 1]):
            s = lattices.sets[q]
            for e in range(m):
                i, j = work.cols[e] // n, work.cols[e] % n
                score = lattices.steps[s, i, j] + factor * work.d[work.cols[e]]
                lattices.steps[s, i, j] = score if abs(score) > ROUNDING else 0.0
                lattices.factors[s, i, j] = np.exp(lattices.steps[s, i, j])
            _compile(lattices, s)
        return
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
            _exponentiate(lattices, t)


@kernel
def _next_sequence(chains: Chains, rows: Rows, begin: int, end: int) -> int:
    """Return where the tokens of the sequence of rows.tokens[begin] end in that list."""
    s, p = chains.sequences[rows.tokens[begin]], begin + 1
    while p < end and chains.sequences[rows.tokens[p]] == s:
        p += 1
    return p


@inlined
def _change(chains: Chains, lattices: Lattices, rows: Rows, r: int, pairs: bool, work: Work) -> tuple[float, float]:
    """Return (change of the loss with the moved scores, size of the numbers it was computed from).

    The new log Z and gold score of each sequence go to work.new_z and work.new_gold.
    """
    n, change, size = lattices.emissions.shape[1], 0.0, 0.0
    begin, stop = rows.row_ptr[r], rows.row_ptr[r + 1]
    while begin < stop:
        end, s = _next_sequence(chains, rows, begin, stop), chains.sequences[rows.tokens[begin]]
        if chains.kinds[s] != NOTHING:
            log_z, gold = _partitions(chains, lattices, s, work)
            if chains.kinds[s] == LABELLED:
                gold = lattices.gold[s]
                for p in range(begin, end):
                    t = rows.tokens[p]
                    gold += work.d[chains.gold[t - 1] * n + chains.gold[t] if pairs else chains.gold[t]]
            work.new_z[s], work.new_gold[s] = log_z, gold
            change += chains.weights[s] * (log_z - lattices.log_z[s] - (gold - lattices.gold[s]))
            size += chains.weights[s] * (abs(log_z) + abs(gold))
        begin = end
    return change, size


@kernel
def _shrink(x: float, by: float) -> float:
    if x > by:
        return x - by
    return x + by if x < -by else 0.0


@inlined
def _propose(
    theta: Floats, m: int, factor: float, bound: float, l1: float, l2: float, work: Work
) -> tuple[float, float, float]:
    """Write the step to d, no number of which exceeds `bound`; return (g d, sum of h d^2, change of the penalty)."""
    slope, curvature, penalty = 0.0, 0.0, 0.0
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
    chains: Chains,
    lattices: Lattices,
    rows: Rows,
    r: int,
    pairs: bool,
    m: int,
    theta: Floats,
    factor: float,
    l1: float,
    l2: float,
    work: Work,
) -> float:
    """Move the first m weights that are listed, g and h of which are known; return the factor for the next visit."""
    bound = BOUND
    for _ in range(TRIALS):
        slope, curvature, penalty = _propose(theta, m, factor, bound, l1, l2, work)
        if slope == 0 and penalty == 0:
            return factor
        _move(lattices, rows, r, pairs, m, 1.0, work)
        change, size = _change(chains, lattices, rows, r, pairs, work)
        noise = 1e-14 * size
        seen = 2.2 * (change - slope) / curvature if curvature > 1e4 * noise else factor  # 10 % more
        if change + penalty <= ENOUGH * (slope + penalty) + noise:
            for e in range(m):
                theta[work.places[e]] += work.d[work.cols[e]]
            for p in range(rows.row_ptr[r], rows.row_ptr[r + 1]):
                s = chains.sequences[rows.tokens[p]]
                if chains.kinds[s] != NOTHING:
                    lattices.log_z[s], lattices.gold[s] = work.new_z[s], work.new_gold[s]
            return max(LEAST_FACTOR, (factor + seen) / 2)
        _move(lattices, rows, r, pairs, m, -1.0, work)
        factor, bound = min(max(2 * factor, seen), 8 * factor), bound / 2
    return factor


@kernel
def _measure(chains: Chains, lattices: Lattices, rows: Rows, r: int, pairs: bool, m: int, work: Work) -> int:
    """Compute g and h of the first m columns that are listed; return the number of sequences it took."""
    n = lattices.emissions.shape[1]
    if not pairs or m * LANES >= n * n:
        work.g[: rows.width] = 0
        work.h[: rows.width] = 0
    for e in range(m):
        work.g[work.cols[e]] = work.h[work.cols[e]] = 0
    visited, begin, stop = 0, rows.row_ptr[r], rows.row_ptr[r + 1]
    while begin < stop:
        end = _next_sequence(chains, rows, begin, stop)
        if chains.kinds[chains.sequences[rows.tokens[begin]]] != NOTHING:
            _count(chains, lattices, rows, pairs, begin, end, m, work)
            visited += 1
        begin = end
    return visited


@inlined
def _violation(theta: Floats, m: int, l1: float, l2: float, work: Work) -> float:
    """Return the squared norm of the smallest subgradient."""
    square = 0.0
    for e in range(m):
        w = theta[work.places[e]]
        g = work.g[work.cols[e]] + l2 * w
        g = _shrink(g, l1) if w == 0 else g + (l1 if w > 0 else -l1)
        square += g * g
    return square


@kernel
def sweep(
    chains: Chains,
    lattices: Lattices,
    rows: Rows,
    pairs: bool,
    order: Offsets,
    low: int,
    high: int,
    single: bool,
    zeros: bool,
    theta: Floats,
    factors: Floats,
    l1: float,
    l2: float,
) -> tuple[float, int]:
    """Visit the rows `order` once; return (squared norm of the gradient as it was met, sequences passed through).

    pairs: The rows score label pairs.
    single: Move the weights of a row one after another, not all at once, and only those in the columns low..high - 1.
    zeros: Visit weights that are zero too.
    theta [D] and factors, the factor k of each row or, if single, of each weight [D], are updated.
    """
    work = _workspace(chains, lattices, rows.width)
    places, cols = np.empty(rows.width, np.int64), np.empty(rows.width, np.int32)
    violation, visited = 0.0, 0
    for r in order:
        listed = _list_weights(rows, r, theta, zeros, places, cols)
        each = 1 if single else max(1, listed)
        for first in range(0, listed, each):
            if single and not (low <= cols[first] < high):
                continue
            work.places[:each], work.cols[:each] = places[first : first + each], cols[first : first + each]
            visited += _measure(chains, lattices, rows, r, pairs, each, work)
            violation += _violation(theta, each, l1, l2, work)
            k = places[first] if single else r
            factors[k] = _step(chains, lattices, rows, r, pairs, each, theta, factors[k], l1, l2, work)
            for e in range(each):
                work.d[work.cols[e]] = 0
    return violation, visited


@kernel
def differentiate(
    chains: Chains, lattices: Lattices, rows: Rows, pairs: bool, theta: Floats, gradient: Floats, curvature: Floats
) -> None:
    """Write gradient and diagonal curvature of the loss at the weights of all rows to arrays like theta [D]."""
    work = _workspace(chains, lattices, rows.width)
    for r in range(rows.row_ptr.shape[0] - 1):
        m = _list_weights(rows, r, theta, True, work.places, work.cols)
        _measure(chains, lattices, rows, r, pairs, m, work)
        for e in range(m):
            gradient[work.places[e]], curvature[work.places[e]] = work.g[work.cols[e]], work.h[work.cols[e]]


@kernel
def add_scores(lattices: Lattices, rows: Rows, pairs: bool, theta: Floats) -> None:
    """Add the scores of all rows to the emissions or to the steps."""
    n = lattices.emissions.shape[1]
    places, cols = np.empty(rows.width, np.int64), np.empty(rows.width, np.int32)
    for r in range(rows.row_ptr.shape[0] - 1):
        m = _list_weights(rows, r, theta, False, places, cols)
        if pairs:
            for q in range(lattices.set_ptr[r], lattices.set_ptr[r + 1]):
                for e in range(m):
                    lattices.steps[lattices.sets[q], cols[e] // n, cols[e] % n] += theta[places[e]]
        else:
            for p in range(rows.row_ptr[r], rows.row_ptr[r + 1]):
                for e in range(m):
                    lattices.emissions[rows.tokens[p], cols[e]] += theta[places[e]]


@kernel
def begin(chains: Chains, lattices: Lattices) -> float:
    """Compute potentials, log Z and gold scores from the emissions and steps; return the loss."""
    n = lattices.emissions.shape[1]
    for s in range(lattices.steps.shape[0]):
        for i in range(n):
            for j in range(n):
                lattices.factors[s, i, j] = np.exp(lattices.steps[s, i, j])
        _compile(lattices, s)
    for t in range(lattices.emissions.shape[0]):
        _exponentiate(lattices, t)
    work = _workspace(chains, lattices, 0)
    for s in range(chains.kinds.shape[0]):
        if chains.kinds[s] == NOTHING:
            continue
        lattices.log_z[s], lattices.gold[s] = _partitions(chains, lattices, s, work)
        if chains.kinds[s] == PARTLY:
            continue
        score = 0.0
        for t in range(chains.offsets[s], chains.offsets[s + 1]):
            score += lattices.emissions[t, chains.gold[t]]
            if t > chains.offsets[s]:
                score += lattices.steps[chains.sets[t], chains.gold[t - 1], chains.gold[t]]
        lattices.gold[s] = score
    return loss(chains, lattices)


@kernel
def loss(chains: Chains, lattices: Lattices) -> float:
    """Return the weighted sum of log Z less the gold scores."""
    total = 0.0
    for s in range(chains.kinds.shape[0]):
        if chains.kinds[s] != NOTHING:
            total += chains.weights[s] * (lattices.log_z[s] - lattices.gold[s])
    return total
