"""Forward-backward in log space and in float64: the textbook recursions, for scores that scaling cannot represent.

alpha_t(j) = local_t(j) + log sum_i exp(alpha_{t-1}(i) + step_t(i, j)), the local score included; beta_{t-1}(i) = log
sum_j exp(step_t(i, j) + local_t(j) + beta_t(j)), the local score excluded (Rabiner 1989, section V.A).
"""

from __future__ import annotations

import numpy as np

from ..types import Floats, Ints, Scores
from .jit import inlined, internal, kernel
from .math import capped, log_add, log_sum
from .sequences import Spans, add_counts, count_missing, local_scores, path_score, step_to


@internal
def _arrive(before: Floats, step: Floats, local: Floats, terms: Floats, out: Floats) -> None:
    """Write ``local_j + log sum_i exp(before_i + step_ij)`` to out [L]; terms [L] is work space."""
    for j in range(out.shape[0]):
        for i in range(out.shape[0]):
            terms[i] = before[i] + step[i, j]
        out[j] = local[j] + log_sum(terms)


@internal
def _leave(step: Floats, ahead: Floats, terms: Floats, out: Floats) -> None:
    """Write ``log sum_j exp(step_ij + ahead_j)`` to out [L]."""
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            terms[j] = step[i, j] + ahead[j]
        out[i] = log_sum(terms)


@internal
def forward(local: Floats, transitions: Floats, alpha: Floats) -> float:
    """Fill alpha [n, L], given local scores as `local_scores` writes them; return log Z."""
    terms = np.empty(local.shape[1])
    for k in range(local.shape[1]):
        alpha[0, k] = local[0, k]
    for t in range(1, local.shape[0]):
        _arrive(alpha[t - 1], step_to(transitions, t), local[t], terms, alpha[t])
    return log_sum(alpha[local.shape[0] - 1])


@internal
def forward_backward(local: Floats, transitions: Floats, alpha: Floats, beta: Floats) -> float:
    """Fill alpha and beta [n, L]; return log Z."""
    length, n = local.shape
    terms, ahead = np.empty(n), np.empty(n)
    for k in range(n):
        beta[length - 1, k] = 0
    for t in range(length - 1, 0, -1):
        for k in range(n):
            ahead[k] = local[t, k] + beta[t, k]
        _leave(step_to(transitions, t), ahead, terms, beta[t - 1])
    return forward(local, transitions, alpha)


@inlined
def _solve(scores: Scores, gold: Ints) -> tuple[Floats, Floats, Floats, float]:
    """Return local scores, alpha, beta [n, L] and log Z of one sequence."""
    shape = scores.emissions.shape
    local, alpha, beta = np.empty(shape), np.empty(shape), np.empty(shape)
    local_scores(scores, gold, local)
    return local, alpha, beta, forward_backward(local, scores.transitions, alpha, beta)


@inlined
def _add_at(t: int, k: int, value: float, grad: Scores) -> None:
    """Add the count of a label to the gradient of the scores that it has there."""
    grad.emissions[t, k] += value
    if t == 0:
        grad.start[k] += value
    if t == grad.emissions.shape[0] - 1:
        grad.end[k] += value


@internal
def accumulate(scores: Scores, gold: Ints, factor: float, gold_log_sum: float, cap: float, grad: Scores) -> float:
    """Add the expected counts of one sequence to `grad`, times factor and phi'(log Z - gold_log_sum); return log Z."""
    transitions = scores.transitions
    local, alpha, beta, log_z = _solve(scores, gold)
    if log_z == -np.inf:
        return log_z
    factor *= capped(log_z - gold_log_sum, cap)[1]
    length, n = local.shape
    counts: Floats = np.zeros(transitions.shape)  # in float64, since they are added to those of other sequences
    for t in range(1, length):
        s = 0 if transitions.shape[0] == 1 else t
        for j in range(n):
            ahead = local[t, j] + beta[t, j] - log_z
            for i in range(n):
                counts[s, i, j] += np.exp(alpha[t - 1, i] + transitions[s, i, j] + ahead)
    for s in range(counts.shape[0]):
        for i in range(n):
            for j in range(n):
                grad.transitions[s, i, j] += factor * counts[s, i, j]
    for t in range(length):
        for k in range(n):
            _add_at(t, k, factor * np.exp(alpha[t, k] + beta[t, k] - log_z), grad)
    return log_z


@kernel
def log_loss(scores: Scores, gold: Ints, weight: float, cap: float, half: bool, grad: Scores) -> tuple[float, float]:
    """Do for one sequence what `lattice.expectations` does; return its part of the sum, and log Z.

    half: The expected counts without regard to gold labels are in the gradient already.
    """
    missing, gold_log_sum = count_missing(gold), 0.0
    if missing > 0:
        gold_log_sum = accumulate(scores, gold, 0.0, 0.0, 0.0, grad)
    elif gold.shape[0] > 0:
        gold_log_sum = path_score(scores, gold)
    log_z = accumulate(scores, gold[:0], 0.0 if half else weight, gold_log_sum, cap, grad)
    value, slope = capped(log_z - gold_log_sum, cap)
    if missing > 0:
        accumulate(scores, gold, -weight * slope, 0.0, 0.0, grad)
    elif gold.shape[0] > 0:
        add_counts(gold, grad.emissions.dtype.type(-weight * slope), grad)
    return weight * value, log_z


@kernel
def pointwise(scores: Scores, gold: Ints, weight: float, cap: float, grad: Scores) -> float:
    """Return the sum of phi over the positions of one sequence, and add weight times its gradient.

    `lattice` has the formulas.  The sums of r_t 1[y_t = gold_t] themselves, all positive, are added up in log space,
    since r_t may be larger than any number while r_t p_t = phi' is not.  A position whose gold label is impossible
    costs infinitely much, and has no part in the gradient.
    """
    transitions, (length, n) = scores.transitions, scores.emissions.shape
    local, alpha, beta, log_z = _solve(scores, gold[:0])
    if log_z == -np.inf:
        return np.inf
    loss, mean = 0.0, 0.0
    log_r = np.full(length, -np.inf)
    for t in range(length):
        if gold[t] >= 0:
            nll = log_z - alpha[t, gold[t]] - beta[t, gold[t]]
            value, slope = capped(nll, cap)
            loss += value
            if nll < np.inf:
                mean += slope
                log_r[t] = np.log(slope) + nll
    # log sums over labellings up to t, and from t on, of the terms r_t that they have met
    a, b, w = np.full((length, n), -np.inf), np.full((length, n), -np.inf), np.empty((length, n))
    terms = np.empty(n)
    for t in range(length):
        if t > 0:
            _arrive(a[t - 1], step_to(transitions, t), local[t], terms, a[t])
        if log_r[t] > -np.inf:
            a[t, gold[t]] = log_add(a[t, gold[t]], alpha[t, gold[t]] + log_r[t])
    for t in range(length - 1, -1, -1):
        for k in range(n):
            w[t, k] = local[t, k] + b[t, k]
        if log_r[t] > -np.inf:
            w[t, gold[t]] = local[t, gold[t]] + log_add(b[t, gold[t]], beta[t, gold[t]] + log_r[t])
        if t > 0:
            _leave(step_to(transitions, t), w[t], terms, b[t - 1])
    for t in range(length):
        for k in range(n):
            covariance = mean * np.exp(alpha[t, k] + beta[t, k] - log_z)
            covariance -= np.exp(a[t, k] + beta[t, k] - log_z) + np.exp(alpha[t, k] + b[t, k] - log_z)
            _add_at(t, k, weight * covariance, grad)
    for t in range(1, length):
        s = 0 if transitions.shape[0] == 1 else t
        for i in range(n):
            for j in range(n):
                before, ahead = transitions[s, i, j] - log_z, local[t, j] + beta[t, j]
                covariance = mean * np.exp(alpha[t - 1, i] + before + ahead)
                covariance -= np.exp(a[t - 1, i] + before + ahead) + np.exp(alpha[t - 1, i] + before + w[t, j])
                grad.transitions[s, i, j] += weight * covariance
    return loss


@kernel
def covariances(scores: Scores, own: Floats, weight: float, grad: Scores) -> float:
    """Return E[S] or the entropy of one sequence, and add weight times its gradient, as `lattice.covariances` does.

    own [n, at least L] holds n; it is empty for the entropy.  The recursions add up the means of the parts of S before
    and after a token, given its label, with probabilities of the label before and of the label after.
    """
    transitions, (length, n) = scores.transitions, scores.emissions.shape
    local, alpha, beta, log_z = _solve(scores, np.zeros(0, np.int32))
    if log_z == -np.inf:
        return 0.0
    entropy = own.shape[0] == 0
    here = np.zeros((length, n))  # with -log p(y) = log Z - score(y)
    for t in range(length):
        for k in range(n):
            if not entropy:
                here[t, k] = own[t, k]
            elif local[t, k] > -np.inf:
                here[t, k] = -local[t, k]
    edge = -1.0 if entropy else 0.0
    past, future, mean = here.copy(), np.zeros((length, n)), 0.0
    for t in range(length):
        step, total, center = step_to(transitions, t), 0.0, 0.0
        for j in range(n):
            for i in range(n if t > 0 else 0):
                share = np.exp(alpha[t - 1, i] + step[i, j] + local[t, j] - alpha[t, j])
                if share > 0:
                    past[t, j] += share * (past[t - 1, i] + edge * step[i, j])
            p = np.exp(alpha[t, j] + beta[t, j] - log_z)
            total += p
            if p > 0:
                center += p * past[t, j]
        center /= total
        mean += center
        for j in range(n):  # so that rounding does not add up
            past[t, j] -= center
            here[t, j] -= center
    for t in range(length - 1, 0, -1):
        step = step_to(transitions, t)
        for i in range(n):
            for j in range(n):
                share = np.exp(step[i, j] + local[t, j] + beta[t, j] - beta[t - 1, i])
                if share > 0:
                    future[t - 1, i] += share * (here[t, j] + future[t, j] + edge * step[i, j])
    for t in range(length):
        for k in range(n):
            p = np.exp(alpha[t, k] + beta[t, k] - log_z)
            if p > 0:
                _add_at(t, k, weight * p * (past[t, k] + future[t, k]), grad)
    for t in range(1, length):
        step, s = step_to(transitions, t), 0 if transitions.shape[0] == 1 else t
        for i in range(n):
            for j in range(n):
                p = np.exp(alpha[t - 1, i] + step[i, j] + local[t, j] + beta[t, j] - log_z)
                if p > 0:
                    total = past[t - 1, i] + edge * step[i, j] + here[t, j] + future[t, j]
                    grad.transitions[s, i, j] += weight * p * total
    return mean + log_z if entropy else mean


@kernel
def probabilities(scores: Scores, marginals: Floats, spans: Spans) -> float:
    """Write the marginals of one sequence, unless their array is empty, and the probabilities of its spans.

    Return its log Z; where that is minus infinity, all probabilities are zero.
    """
    transitions = scores.transitions
    local, alpha, beta, log_z = _solve(scores, spans.labels[:0])
    length, n = local.shape
    offset = log_z if log_z > -np.inf else 0.0
    for t in range(marginals.shape[0]):
        for k in range(n):
            marginals[t, k] = np.exp(alpha[t, k] + beta[t, k] - offset)
    terms = np.empty(n)
    for p in range(spans.out.shape[0]):
        first, after = spans.starts[p], spans.ends[p]
        label = spans.labels[first]
        score = local[first, label]
        if first > 0:  # the label before is of another span
            step = step_to(transitions, first)
            for i in range(n):
                terms[i] = -np.inf if spans.inside[i, label] else alpha[first - 1, i] + step[i, label]
            score += log_sum(terms)
        for t in range(first + 1, after):
            score += step_to(transitions, t)[label, spans.labels[t]] + local[t, spans.labels[t]]
            label = spans.labels[t]
        if after < length:  # and so is the label after
            step = step_to(transitions, after)
            for j in range(n):
                terms[j] = -np.inf if spans.inside[label, j] else step[label, j] + local[after, j] + beta[after, j]
            score += log_sum(terms)
        spans.out[p] = np.exp(score - offset)
    return log_z
