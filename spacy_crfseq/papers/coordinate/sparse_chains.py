"""Forward-backward with matrices that are almost one, for coordinate descent.

With potentials ``e_t(j) = exp(emission)`` and ``M_t(i, j) = exp(step)``::

    alpha_t(j) = e_t(j) * sum_i alpha_{t-1}(i) M_t(i, j)           beta_{t-1}(i) = sum_j M_t(i, j) e_t(j) beta_t(j)

Under an L1 penalty most step scores are exactly zero, so that M - 1 is sparse, and ``alpha M = (sum alpha) 1 +
alpha (M - 1)`` costs L + nnz instead of L^2 operations.  All positions that switch on the same label-pair features
share one matrix.

Everything is float64.  Alpha and beta are scaled when they leave `SMALL`..`LARGE`.  A sequence that leaves
`TINY`..`HUGE`, has a step score beyond `EXTREME`, or whose alpha and beta disagree about log Z is done in log space.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...kernels.jit import inlined, internal
from ...kernels.sequences import largest, log_sum, longest
from ...types import Floats, Ints, Offsets

Bytes: TypeAlias = NDArray[np.int8]
Shorts: TypeAlias = NDArray[np.uint16]
Entries: TypeAlias = tuple[Shorts, Shorts, Floats]
"""Of a sparse matrix: rows, columns and values."""

SMALL, LARGE = 1e-30, 1e30
TINY, HUGE = 1e-90, 1e90
EXTREME = 60.0
AGREEMENT = 1e-8
"""By how much, relative to their size, the two ways to log Z may differ."""
NOTHING, LABELLED, PARTLY = 0, 1, 2
"""Kinds of sequences: without weight or gold labels, with all gold labels, with some of them."""
DENSE, SPARSE, FAR = 0, 1, 2
"""Kinds of matrices; far ones have a score beyond `EXTREME`."""
LANES = 4
"""Rows of potentials are padded to a multiple of this."""
APART = 64
"""Numbers beside work arrays: 512 bytes, where compiled loops look 256 bytes ahead."""


class SparseChains(NamedTuple):
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


class RowOccurrences(NamedTuple):
    """Rows of one kind and the tokens where they are on: those of a group, and of scores that all positions share.

    width (int): C, labels or label pairs.
    ptr (Offsets): [R + 1] row r has the weights ``ptr[r]:ptr[r + 1]``.
    places, cols (Ints): Their places in theta and their columns.
    row_ptr, tokens: Row r is on at the tokens ``tokens[row_ptr[r]:row_ptr[r + 1]]``, ascending.
    pairs (bool): They score label pairs.
    """

    width: int
    ptr: Offsets
    places: Ints
    cols: Ints
    row_ptr: Offsets
    tokens: Offsets
    pairs: bool


class Lattices(NamedTuple):
    """Scores and potentials of all sequences; rows are padded with zeros to P, a multiple of `LANES`.

    emissions (Floats): [T, L], start and end scores included.
    potentials (Floats): [T, P] exp(emissions - shift), shift [T].
    steps (Floats): [S, L, L] step scores of each set of label-pair features.
    factors (Floats): [S, P, P] their exponentials, M.
    kinds (Bytes): [S] `DENSE`, `SPARSE` or `FAR`.
    sizes (Ints): [S] number of entries of M - 1, where it is sparse.
    rows, cols, values: [S, most] these entries.
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


class ChainBuffers(NamedTuple):
    """Work arrays: alpha, beta [longest, P], stretch [longest], mass [P]; by column g, h, d; places and columns [C]."""

    alpha: Floats
    beta: Floats
    stretch: Floats
    mass: Floats
    g: Floats
    h: Floats
    d: Floats
    places: Ints
    cols: Ints
    new_z: Floats
    new_gold: Floats


@inlined
def _apart(size: int) -> Floats:
    """Return zeros [size] that have `APART` numbers for themselves on both sides.

    Compiled loops look whether the array that they write begins shortly behind one that they read, and go another way
    there, whose sums are rounded otherwise: results would depend on where memory happens to be free.
    """
    return np.zeros(size + 2 * APART)[APART : APART + size]


@inlined
def workspace(chains: SparseChains, lattices: Lattices, width: int) -> ChainBuffers:
    """Return work arrays for the longest sequence and rows of some width."""
    length, padded, n = max(1, longest(chains.offsets)), lattices.potentials.shape[1], chains.offsets.shape[0] - 1
    alpha, beta = _apart(length * padded).reshape(length, padded), _apart(length * padded).reshape(length, padded)
    lists = np.zeros((2, width), np.int32)
    return ChainBuffers(
        alpha, beta, _apart(length), _apart(padded), _apart(width), _apart(width), _apart(width),
        lists[0], lists[1], _apart(n), _apart(n),
    )  # fmt: skip


@internal
def compile_matrix(lattices: Lattices, s: int) -> None:
    """Find out the kind of matrix s, and list the entries of M - 1 if there are few; the exponentials are there.

    They are listed along diagonals: neighbours in the list are in different rows and columns, so that no sum waits for
    the one before.
    """
    steps, n = lattices.steps[s], lattices.steps.shape[1]
    rows, cols, values = lattices.rows[s], lattices.cols[s], lattices.values[s]
    size, extreme = 0, 0.0
    # a diagonal that leaves the matrix on the right goes on at its left edge
    for diagonal in range(n):
        for i in range(n):
            j = i + diagonal if i + diagonal < n else i + diagonal - n
            if steps[i, j] != 0:
                extreme = max(extreme, abs(steps[i, j]))
                if size < values.shape[0]:
                    rows[size], cols[size], values[size] = i, j, lattices.factors[s, i, j] - 1
                size += 1
    lattices.sizes[s] = size
    if not extreme <= EXTREME:
        lattices.kinds[s] = FAR
    else:
        lattices.kinds[s] = SPARSE if size <= values.shape[0] else DENSE


@inlined
def _from_left(row: Floats, total: float, sparse: bool, entries: Entries, matrix: Floats, out: Floats) -> None:
    """Write row [P], whose sum is `total`, times a matrix to out [P]."""
    rows, cols, values = entries
    if sparse:
        # row M = total 1 + row (M - 1)
        for j in range(out.shape[0]):
            out[j] = total
        for p in range(rows.shape[0]):
            out[cols[p]] += row[rows[p]] * values[p]
    else:
        # four rows of the matrix at once, so that out is read and written a quarter as often
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
        # M column = total 1 + (M - 1) column
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


@inlined
def weigh(row: Floats, potentials: Floats, gold: int, out: Floats) -> float:
    """Write the product of two rows [P] to out, zeros for labels other than a known one; return its sum."""
    total = 0.0
    for k in range(out.shape[0]):
        out[k] = row[k] * potentials[k] if gold < 0 or gold == k else 0.0
        total += out[k]
    return total


@inlined
def _divide(row: Floats, by: float) -> None:
    for k in range(row.shape[0]):
        row[k] /= by


@internal
def _forward(
    chains: SparseChains, lattices: Lattices, s: int, stop: int, clamped: int, alpha: Floats, stretch: Floats
) -> tuple[float, bool]:
    """Fill alpha up to token stop - 1 of sequence s; return (log of the sum of the last one, whether it is sound).

    alpha[t] was multiplied by stretch[t] when it got too large or small.  clamped: Gold labels, where known, are fixed.
    """
    first, sets, kinds, factors = chains.offsets[s], chains.sets, lattices.kinds, lattices.factors
    sizes, rows, cols, values = lattices.sizes, lattices.rows, lattices.cols, lattices.values
    potentials, shift, gold = lattices.potentials, lattices.shift, chains.gold
    logarithm, total = 0.0, 0.0
    # alpha_t = (alpha_{t-1} M_t) e_t; scales and shifts that are taken out add up to the logarithm
    for t in range(first, stop):
        row = alpha[t - first]
        if t == first:
            for k in range(row.shape[0]):
                row[k] = 1
        else:
            q = sets[t]
            if kinds[q] == FAR:
                return 0.0, False
            few = sizes[q] if kinds[q] == SPARSE else 0
            entries = (rows[q, :few], cols[q, :few], values[q, :few])
            _from_left(alpha[t - first - 1], total, kinds[q] == SPARSE, entries, factors[q], row)
        total = weigh(row, potentials[t], gold[t] if clamped else -1, row)
        logarithm += shift[t]
        stretch[t - first] = 1
        if not (SMALL < total < LARGE):
            if not (TINY < total < HUGE):
                return 0.0, False
            stretch[t - first] = 1 / total
            _divide(row, total)
            logarithm += np.log(total)
            total = 1.0
    return logarithm + np.log(total), True


@inlined
def _backward(
    chains: SparseChains, lattices: Lattices, s: int, start: int, at: int, clamped: int, beta: Floats, mass: Floats
) -> tuple[float, bool]:
    """Fill beta down to token `start` of sequence s; return (log of the factor taken out of beta[at], soundness)."""
    first, end, n = chains.offsets[s], chains.offsets[s + 1], lattices.steps.shape[1]
    sets, kinds, factors, gold = chains.sets, lattices.kinds, lattices.factors, chains.gold
    sizes, rows, cols, values = lattices.sizes, lattices.rows, lattices.cols, lattices.values
    potentials, shift = lattices.potentials, lattices.shift
    logarithm, wanted = 0.0, 0.0
    for k in range(n):
        beta[end - 1 - first, k] = 1
    # beta_{t-1} = M_t (e_t beta_t)
    for t in range(end - 1, start, -1):
        q = sets[t]
        if kinds[q] == FAR:
            return 0.0, False
        total = weigh(beta[t - first], potentials[t], gold[t] if clamped else -1, mass)
        logarithm += shift[t]
        if not (SMALL < total < LARGE):
            if not (TINY < total < HUGE):
                return 0.0, False
            _divide(mass, total)
            logarithm += np.log(total)
            total = 1.0
        few = sizes[q] if kinds[q] == SPARSE else 0
        entries = (rows[q, :few], cols[q, :few], values[q, :few])
        _from_right(mass, total, kinds[q] == SPARSE, entries, factors[q], beta[t - first - 1])
        if t - 1 == at:
            wanted = logarithm
    return wanted, True


@internal
def in_log_space(chains: SparseChains, lattices: Lattices, s: int, clamped: int, alpha: Floats, beta: Floats) -> float:
    """Fill log alpha (emission included) and log beta (excluded) of sequence s; return log Z."""
    first, length, n = chains.offsets[s], chains.offsets[s + 1] - chains.offsets[s], lattices.steps.shape[1]
    local, terms, steps = lattices.emissions[first : first + length].copy(), np.empty(n), lattices.steps
    # labels other than known ones are impossible where the recursion is clamped
    for t in range(length):
        for k in range(n):
            if clamped and chains.gold[first + t] >= 0 and chains.gold[first + t] != k:
                local[t, k] = -np.inf
    for k in range(n):
        alpha[0, k], beta[length - 1, k] = local[0, k], 0
    # both recursions, with sums of exponentials in the place of products
    for t in range(1, length):
        for j in range(n):
            for i in range(n):
                terms[i] = alpha[t - 1, i] + steps[chains.sets[first + t], i, j]
            alpha[t, j] = local[t, j] + log_sum(terms)
    for t in range(length - 1, 0, -1):
        for i in range(n):
            for j in range(n):
                terms[j] = steps[chains.sets[first + t], i, j] + local[t, j] + beta[t, j]
            beta[t - 1, i] = log_sum(terms)
    for k in range(n):
        terms[k] = alpha[length - 1, k]
    return log_sum(terms)


@internal
def partitions(chains: SparseChains, lattices: Lattices, s: int, work: ChainBuffers) -> tuple[float, float]:
    """Return log Z of sequence s and, if gold labels are missing, that of the labellings that agree with the others."""
    sums = 0.0, 0.0
    for clamped in range(2 if chains.kinds[s] == PARTLY else 1):
        log_z, sound = _forward(chains, lattices, s, chains.offsets[s + 1], clamped, work.alpha, work.stretch)
        if not sound:
            log_z = in_log_space(chains, lattices, s, clamped, work.alpha, work.beta)
        sums = (sums[0], log_z) if clamped else (log_z, 0.0)
    return sums


@inlined
def marginals(
    chains: SparseChains, lattices: Lattices, s: int, t: int, last: int, clamped: int, work: ChainBuffers
) -> bool:
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
        log_sum = before + after + np.log(inner / total)
        sound = abs(log_sum - log_z) <= AGREEMENT * (1 + abs(log_z))
    if not sound:
        in_log_space(chains, lattices, s, clamped, work.alpha, work.beta)
    return sound


@internal
def exponentiate(lattices: Lattices, t: int) -> None:
    """Compute the potentials of a token."""
    n, row = lattices.emissions.shape[1], lattices.emissions[t]
    lattices.shift[t] = largest(row)
    for k in range(n):
        lattices.potentials[t, k] = np.exp(row[k] - lattices.shift[t])
