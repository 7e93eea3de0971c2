"""Forward-backward on label lattices, in scaled probability space.

For one sequence with emission potentials e_t = exp(emissions - max) and M = exp(transitions - max)::

    alpha_t(j) = e_t(j) * sum_i alpha_{t-1}(i) M(i, j) * c_t           c_t = 1 / sum_j of the same
    beta_{t-1}(i) = sum_j M(i, j) e_t(j) beta_t(j) c_t
    P(y_t = k | x) = alpha_t(k) beta_t(k)
    P(y_{t-1} = i, y_t = j | x) = alpha_{t-1}(i) M(i, j) e_t(j) beta_t(j) c_t
    log Z = sum_t (log 1/c_t + the maxima taken out)

(Rabiner 1989, section V.A; Lafferty, McCallum & Pereira 2001.)  Start and end scores are added to the first and the
last emission.  Many sequences with shared transitions are done in `blocks`, the others one after another here.  Scaled
potentials are exact as long as no sum gets near the smallest positive number: a sequence for which ``1/c_t`` falls
under `TINY`, ``beta_t c_t`` exceeds `HUGE`, or whose marginals do not sum to one, is listed by the kernels and done
again as a `chain`, in float64.  So scores of any size and sequences of any length are safe, and label paths of score
minus infinity (forbidden ones) are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import PLAIN, chain
from .jit import inlined, internal, kernel
from .sequences import (
    TINY,
    PlainScores,
    add_counts,
    capped,
    count_missing,
    exponentiate,
    largest,
    local_scores,
    longest,
    padded,
    part,
    path_score,
)

HUGE = 1e30
"""Above this, products with a potential or an alpha of zero may become infinity times zero in float32."""
MANY = 16
"""The number of sequences from which blocks are faster than single sequences."""
NO_NUMBERS: Floats = np.zeros(0)
NO_LABELS: Ints = np.zeros(0, np.int32)


def log_loss(scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, cap: float = 0.0) -> float:
    """Return the sum over sequences of ``weight * phi(-log P(gold | x))`` and add its gradient.

    phi(u) is exp(u) - 1 up to the cap, and its tangent beyond; so it is u where cap is 0.

    offsets [N + 1], gold [T] (negative: summed out), weights [N]; the gradients have the shapes of the scores.  Where
    gold labels are missing, log P is the log of the sum over all completions (Tsuboi et al. 2008, eq. 4).
    """
    return expectations(scores, offsets, gold, weights, grad, NO_NUMBERS, cap)


def phi(nll: NDArray[np.float64], cap: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the function of `log_loss` of negative log-likelihoods [N], and its derivatives."""
    if not cap:
        return nll, np.ones_like(nll)
    slope = np.exp(np.minimum(nll, cap))
    return slope - 1 + slope * np.maximum(nll - cap, 0), slope


def expectations(
    scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, log_z: Floats, cap: float = 0.0
) -> float:
    """Do the work of `log_loss`.

    Where `gold` is empty and cap 0, return the sum of ``weight * log Z`` and add its gradient, weights being of either
    sign; write log Z of each sequence that has a token and a weight to log_z [N], which is empty otherwise.  Where the
    gradient of transitions is empty, it is not wanted.
    """
    left, loss = np.zeros(len(weights), np.int32), 0.0
    if len(weights) >= MANY and len(scores.transitions) == 1 and not PLAIN:
        from . import blocks

        order, beyond = blocks.select(offsets, gold, weights)
        loss = float(blocks.log_loss(scores, offsets, gold, weights, grad, order, beyond, cap, log_z))
        if not beyond.any():
            return loss
        weights = np.where(beyond, weights, 0.0)
    value, some_left = scaled_expectations((*scores,), offsets, gold, weights, (*grad,), cap, log_z, left)
    return (
        loss + value + (exact_expectations(scores, offsets, gold, weights, grad, log_z, cap, left) if some_left else 0)
    )


def exact_expectations(
    scores: Scores, offsets: Offsets, gold: Ints, weights: Floats, grad: Scores, log_z: Floats, cap: float, left: Ints
) -> float:
    """Do the work of `expectations` for the sequences that `scaled_expectations` has left."""
    numbers = np.flatnonzero(left)
    tokens, one, d = _taken(scores, grad, offsets, numbers)
    free = chain.make_chain(one, _offsets_of(offsets, numbers))
    nll, known = free.log_z, free
    if len(gold):
        labels, emissions = gold[tokens], one.emissions.copy()
        emissions[(labels >= 0)[:, None] & (labels[:, None] != np.arange(emissions.shape[1]))] = -np.inf
        known = chain.make_chain(one._replace(emissions=emissions), free.offsets)
        with np.errstate(invalid="ignore"):
            nll = free.log_z - known.log_z
    else:
        log_z[numbers] = free.log_z
    values, slopes = (array * weights[numbers] for array in phi(nll, cap))
    chain.add_counts(free, np.where((left[numbers] == 1) & (free.log_z > -np.inf), slopes, 0), d)
    if known is not free:
        chain.add_counts(known, np.where(known.log_z > -np.inf, -slopes, 0), d)
    _add_taken(d, tokens, grad)
    return float(values.sum())


def _offsets_of(offsets: Offsets, numbers: Offsets) -> Offsets:
    """Return the offsets of some sequences alone."""
    return np.append(0, np.cumsum(np.diff(offsets)[numbers]))


def _taken(scores: Scores, grad: Scores, offsets: Offsets, numbers: Offsets) -> tuple[Offsets, Scores, Scores]:
    """Return the tokens of some sequences, their scores in float64, and zeros for their gradient."""
    tokens = np.concatenate([np.arange(*offsets[s : s + 2]) for s in numbers.tolist()] or [np.zeros(0, np.int64)])
    steps = scores.transitions if len(scores.transitions) == 1 else scores.transitions[tokens]
    one = Scores(*(x.astype(np.float64) for x in (scores.emissions[tokens], steps, scores.start, scores.end)))
    d = one.zeros_like()
    return tokens, one, d if len(grad.transitions) else d._replace(transitions=d.transitions[:0])


def _add_taken(d: Scores, tokens: Offsets, grad: Scores) -> None:
    """Add the gradient that `_taken` has made room for."""
    grad.emissions[tokens] += d.emissions
    if len(d.transitions) == 1 or not len(grad.transitions):
        grad.transitions[:] += d.transitions
    else:
        grad.transitions[tokens] += d.transitions
    grad.start[:] += d.start
    grad.end[:] += d.end


def covariances(
    scores: Scores, offsets: Offsets, rows: Ints, table: Floats, weights: Floats, grad: Scores, cap: float = 0.0
) -> float:
    """Return the sum over sequences of ``weight * E[S]``, and add its gradient with n held constant.

    S(y) = sum_t n_t(y_t); `covariances` says what for.  rows [T], table [R, L]: Token t has the n ``table[rows[t]]``.
    Sequences without a possible labelling count 0.  If rows is empty, S is -log P(y | x) instead: return the weighted
    sum of the entropies H(Y | x), and add its gradient.  If table is empty, rows are gold labels: return the sum over
    positions t with a gold label of ``weight * phi(-log P(gold_t | x))``, and add its gradient; phi as in `log_loss`,
    the weight that of the sequence.
    """
    pointwise, loss, left = len(rows) > 0 and not len(table), 0.0, weights != 0
    if len(scores.transitions) == 1 and not PLAIN:
        from . import blocks
        from . import covariances as in_blocks

        order, left = blocks.select(offsets, NO_LABELS, weights)
        loss = float(in_blocks.covariances(scores, offsets, rows, table, weights, grad, order, left, cap))
    numbers = np.flatnonzero(left & (np.diff(offsets) > 0))
    if not len(numbers):
        return loss
    tokens, one, d = _taken(scores, grad, offsets, numbers)
    model, factors = chain.make_chain(one, _offsets_of(offsets, numbers)), weights[numbers]
    possible = model.log_z > -np.inf
    if pointwise:
        places = np.flatnonzero(rows[tokens] >= 0)
        gold = np.maximum(rows[tokens], 0)
        log_p, slopes = model.log_marginals(), np.zeros(len(tokens))
        nll = -log_p[places, gold[places]]
        values, slope = (array * factors[model.owners[places]] for array in phi(nll, cap))
        slopes[places] = np.where(nll < np.inf, slope, 0.0)
        chain.pointwise(model, log_p, gold, slopes, d)
        loss += float(values.sum())
    else:
        first, last = model.edges()
        own = one.emissions.copy()
        own[first] += one.start
        own[last] += one.end
        entropy = not len(rows)
        own = -np.where(own > -np.inf, own, 0.0) if entropy else table[rows[tokens]].astype(np.float64)
        means = chain.covariances(model, own, entropy, np.where(possible, factors, 0.0), d)
        loss += float(np.where(possible, means + (model.log_z if entropy else 0.0), 0.0) @ factors)
    _add_taken(d, tokens, grad)
    return loss


class Work(NamedTuple):
    """Work arrays for the longest sequence; rows of labels are padded to P, see `sequences.padded`.

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
    for j in range(n):
        tops[j] = transitions[0, j]
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
def solve(scores: Scores, gold: Ints, base: float, limit: float, work: Work) -> tuple[float, bool]:
    """Fill potentials, alpha, beta and scale of one sequence; return log Z, and whether it can be trusted.

    base is the maximum taken out of shared transitions; no beta c is over limit.
    """
    transitions, length = scores.transitions, scores.emissions.shape[0]
    maxima = fill_potentials(scores, gold, work)
    log_z, exact = -np.inf, maxima > -np.inf
    if exact:
        log_z, exact = forward(transitions, base, length, work)
    if exact:
        exact = backward(transitions, length, work, limit)
    return log_z + maxima, exact


@inlined
def accumulate(
    scores: Scores, gold: Ints, factor: float, gold_log_sum: float, cap: float, base: float, work: Work, grad: Scores
) -> tuple[float, bool]:
    """Add the expected counts of one sequence to `grad`, times factor and phi'(log Z - gold_log_sum).

    Return its log Z, and whether it can be trusted; if not, nothing is added.  base is the maximum taken out of shared
    transitions.  Their counts are left in the counts of `work`, still to be multiplied by the potentials.
    """
    # what comes of it is still to be multiplied by phi', up to e^30
    log_z, exact = solve(scores, gold, base, HUGE / max(1.0, abs(factor) * np.exp(cap)), work)
    if exact:
        share = scores.emissions.dtype.type(factor * capped(log_z - gold_log_sum, cap)[1])
        _add_counts(scores.transitions, scores.emissions.shape[0], share, work, grad)
    return log_z, exact


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
    for t in range(1, length if d_transitions.shape[0] > 0 else 1):
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


@kernel
def scaled_expectations(
    scores: PlainScores, offsets: Offsets, gold: Ints, weights: Floats, grad: PlainScores, cap: float, log_z: Floats,
    left: Ints,
) -> tuple[float, bool]:  # fmt: skip
    """Do the work of `expectations` for most sequences; return the sum, and whether some are left.

    left [N], zero before: 1 for a sequence that is left, 2 where only the pass over its gold labels is.
    """
    work, base = workspace(offsets, scores)
    d_transitions, dtype = grad[1], scores[0].dtype
    loss, some_left = 0.0, False
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        missing = count_missing(gold[b:e])
        if missing == e - b or weights[s] == 0:  # empty sequences, too
            continue
        here, d_here = part(scores, b, e), part(grad, b, e)
        factor, gold_log_sum, free = weights[s], 0.0, 0.0
        if missing == 0 and gold.shape[0] > 0:
            gold_log_sum = path_score(here, gold[b:e])
        # with missing labels, that sum takes a pass too: before the others where phi' depends on it, and after them
        for turn in range(0 if missing > 0 and cap > 0 else 1, 3 if missing > 0 else 2):
            known, share, turn_cap = gold[b:e], 0.0, 0.0
            if turn == 1:
                known, share, turn_cap = gold[:0], factor, cap
            elif turn == 2:
                share = -factor * capped(free - gold_log_sum, cap)[1]
            log_sum, exact = accumulate(here, known, share, gold_log_sum, turn_cap, base, work, d_here)
            if not exact:
                left[s] = max(turn, 1)
                break
            if turn == 1:
                free = log_sum
            else:
                gold_log_sum = log_sum
        if left[s] > 0:
            some_left = True
            continue
        value, slope = capped(free - gold_log_sum, cap)
        loss += factor * value
        if gold.shape[0] == 0:
            log_z[s] = free
        elif missing == 0:
            add_counts(gold[b:e], dtype.type(-factor * slope), d_here)
    add_shared_transitions(work, d_transitions)
    return loss, some_left


def posterior(scores: Scores, offsets: Offsets, marginals: Floats, log_z: Floats) -> None:
    """Write P(y_t = k | x) to marginals [T, L] and log Z of each sequence to log_z [N]."""
    left = np.zeros(len(log_z), np.bool_)
    _posterior((*scores,), offsets, marginals, log_z, left)
    for here, model, s in chains(scores, offsets, left):
        marginals[here], log_z[s] = np.exp(model.log_marginals()), model.log_z[0]


def chains(scores: Scores, offsets: Offsets, left: Bools) -> Iterator[tuple[slice, chain.Chain, int]]:
    """Yield the tokens of each sequence that is left, the sequence as a chain, and its number."""
    for s in np.flatnonzero(left).tolist():
        b, e = offsets[s : s + 2].tolist()
        yield slice(b, e), chain.make_chain(part(scores, b, e), np.array([0, e - b])), s


@kernel
def _posterior(scores: PlainScores, offsets: Offsets, marginals: Floats, log_z: Floats, left: Bools) -> None:
    """Do the work of `posterior` for most sequences; set left [N] for the others."""
    work, base = workspace(offsets, scores)
    no_gold = np.empty(0, np.int32)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        log_z[s] = 0
        if e > b:
            log_z[s], exact = solve(part(scores, b, e), no_gold, base, HUGE, work)
            left[s] = not exact
            for t in range(e - b if exact else 0):
                row, a, z = marginals[b + t], work.alpha[t], work.beta[t]
                for k in range(row.shape[0]):
                    row[k] = a[k] * z[k]
