"""Likelihoods of sequences with candidate sets, or with spans that are known to be wrong.

Let C be the labellings that agree with known labels and candidate sets, and s a span known to be wrong.  The loss is
-log P(C) - sum_s log P(not s | C).  The labellings of C without s deviate from it at its first token, or at its second
token after agreeing at the first, and so on.  These sets are disjoint, and each is again a set of labels at each token.
The loss is therefore a function of log-sums over such *views* of a sequence, computed by forward-backward on masked
emissions.  The expected counts are weighted by the derivatives of the loss; no probability is subtracted from another.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import MISSING, Batch, Bools, IncorrectSpan, Offsets, Scores

Phi: TypeAlias = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Maps losses u [N] to phi(u) and its derivative."""


class _Views(NamedTuple):
    """Views: repeated sequences with different labels.

    tokens [V], allowed [V, L]: Tokens of the batch, and the allowed labels.
    offsets [M + 1]: Bounds of the views.
    runs: Parts of `tokens`, each without repeated tokens.
    group [M]: Views of one group make up a set of labellings.
    owner, factor [G]: The sequence of a group, among the partially known ones, and its factor in the loss.
    """

    tokens: Offsets
    allowed: Bools
    offsets: Offsets
    runs: list[slice]
    group: Offsets
    owner: Offsets
    factor: NDArray[np.float64]


def partly_known(batch: Batch) -> Offsets:
    """Return the numbers of sequences with a candidate set and a weight."""
    tokens = np.flatnonzero(batch.gold < MISSING)
    numbers = np.unique(np.searchsorted(batch.offsets, tokens, side="right") - 1)
    partly: Offsets = numbers[batch.weights[numbers] != 0]
    return partly


def over_partly_known(scores: Scores, batch: Batch, numbers: Offsets, grad: Scores, phi: Phi | None) -> float:
    """Return the weighted sum of phi(u), u the loss of a sequence, over some sequences; add its gradient to `grad`.

    numbers: The sequences, which are not empty.
    phi: None for phi(u) = u.
    """
    views, weights = _make_views(batch, numbers), batch.weights[numbers]
    n_groups = len(views.factor)
    known = weights[views.owner] * views.factor
    if phi is None and len(views.group) == n_groups:  # the derivatives are known in advance
        log_sums = _expectations(scores, views, known, grad)
        return float(weights @ _losses(views, log_sums, len(weights)))
    log_sums = _expectations(scores, views, np.ones(len(views.group)), None)
    groups = np.full(n_groups, -np.inf)
    np.logaddexp.at(groups, views.group, log_sums)
    u = _losses(views, groups, len(weights))
    value, slope = (u, np.ones_like(u)) if phi is None else phi(u)
    shares = np.exp(log_sums - np.where(groups > -np.inf, groups, 0)[views.group])
    _expectations(scores, views, (known * slope[views.owner])[views.group] * shares, grad)
    return float(weights @ value)


def _losses(views: _Views, log_sums: NDArray[np.float64], n_sequences: int) -> NDArray[np.float64]:
    losses = np.zeros(n_sequences)
    np.add.at(losses, views.owner, views.factor * log_sums)
    return losses


def _expectations(
    scores: Scores, views: _Views, factors: NDArray[np.float64], grad: Scores | None
) -> NDArray[np.float64]:
    """Return the log-sum of each view; add factors [M] times its expected counts to `grad`, unless that is None."""
    shared, log_sums = len(scores.transitions) == 1, np.zeros(len(factors))
    masked = np.where(views.allowed, scores.emissions[views.tokens], scores.emissions.dtype.type(-np.inf))
    steps = scores.transitions if shared else scores.transitions[views.tokens]
    seen = Scores(masked, steps, scores.start, scores.end)
    counts = np.zeros_like(masked)
    if grad is None:
        kernels.lattice.posterior(seen, views.offsets, counts, log_sums)
        return log_sums
    d_steps = grad.transitions if shared else np.zeros_like(steps)
    d = Scores(counts, d_steps, grad.start, grad.end)
    kernels.lattice.log_loss(seen, views.offsets, np.zeros(0, np.int32), factors, d, log_z=log_sums)
    for run in views.runs:
        grad.emissions[views.tokens[run]] += counts[run]
        if not shared:
            grad.transitions[views.tokens[run]] += d_steps[run]
    return log_sums


def _make_views(batch: Batch, numbers: Offsets) -> _Views:
    """Return the views of some sequences: all labellings, C, and C without each incorrect span."""
    n_labels = batch.candidates.sets.shape[1]
    begins, lengths = batch.offsets[numbers], np.diff(batch.offsets)[numbers]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.arange(bounds[-1]) + np.repeat(begins - bounds[:-1], lengths)
    gold = batch.gold[tokens]
    known = np.ones((len(tokens), n_labels), np.bool_)
    labelled, partly = np.flatnonzero(gold >= 0), np.flatnonzero(gold < MISSING)
    known[labelled] = False
    known[labelled, gold[labelled]] = True
    known[partly] = batch.candidates.sets[MISSING - 1 - gold[partly]]
    in_batch = set((MISSING - 1 - gold[partly]).tolist())
    owner, n = np.arange(len(numbers)), len(numbers)
    n_spans = np.zeros(n)
    parts: list[tuple[Offsets, Bools]] = []
    groups: list[int] = []
    owners: list[int] = []
    for span in (span for span in batch.candidates.incorrect if span.number in in_batch):
        for place in np.flatnonzero(gold == MISSING - 1 - span.number).tolist():
            number = int(np.searchsorted(bounds, place, side="right")) - 1
            first, last = int(bounds[number]), int(bounds[number + 1])
            partings = _partings(known[first:last], span, place - first)
            parts += [(tokens[first:last], allowed) for allowed in partings]
            groups += [len(owners)] * len(partings)
            if partings:
                owners.append(number)
                n_spans[number] += 1
    kept = np.flatnonzero(n_spans != 1)  # with a single span, log P(C) cancels
    inner = np.repeat(n_spans, lengths) != 1
    runs = np.cumsum([0, len(tokens), inner.sum(), *(len(part) for part, _ in parts)]).tolist()
    return _Views(
        np.concatenate([tokens, tokens[inner], *(part for part, _ in parts)]),
        np.concatenate([np.ones_like(known), known[inner], *(allowed for _, allowed in parts)]),
        np.concatenate([bounds, runs[1] + np.cumsum(lengths[kept]), runs[3:]]).astype(np.int64),
        [slice(first, last) for first, last in pairwise(runs)],
        np.concatenate([owner, n + np.arange(len(kept)), n + len(kept) + np.array(groups, np.int64)]),
        np.concatenate([owner, kept, np.array(owners, np.int64)]),
        np.concatenate([np.ones(n), n_spans[kept] - 1, -np.ones(len(owners))]),
    )


def _partings(known: Bools, span: IncorrectSpan, begin: int) -> list[Bools]:
    # the labels [n, L] of labellings that deviate from a span at its first token, at its second and so on: none if the
    # sequence is too short for the span, or if the known labels allow no other labelling
    if begin + span.n_tokens > len(known):
        return []
    partings, agreeing = [], known.copy()
    for token, labels in zip(range(begin, len(known)), span.labels, strict=False):
        parting = agreeing.copy()
        parting[token] &= ~labels
        agreeing[token] &= labels
        if parting[token].any():
            partings.append(parting)
        if not agreeing[token].any():
            break
    return partings
