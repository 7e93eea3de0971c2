"""Losses that are sums of a function of negative log-likelihoods, over sequences or positions.

With u = -log P, the function is phi(u) = e^u - 1 up to a cap and its tangent beyond; with a cap of 0, it is u itself.
Kernels process blocks of sequences with similar lengths first, and the others individually.

Sequences may have candidate sets, or spans that are known to be wrong.  Let C be the labellings that agree with known
labels and candidate sets, and s a span known to be wrong.  The loss is -log P(C) - sum_s log P(not s | C).  The
labellings of C without s deviate from it at its first token, or at its second token after agreeing at the first, and so
on.  These sets are disjoint, and each is again a set of labels at each token.  The loss is therefore a function of
log-sums over such *views* of a sequence, computed by forward-backward on masked emissions.  The expected counts are
weighted by the derivatives of the loss; no probability is subtracted from another.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import MISSING, Batch, Bools, IncorrectSpan, LossProperty, Offsets, Scores

HIGHEST = 30.0
"""With a slope of e^30, float32 can represent a gradient over millions of sequences and its square."""


class _Capped:
    """A loss with a `cap`, which is 0 unless a derived class has it as a setting."""

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"value_and_grad", "minibatches"})
    cap: float = 0.0
    """In nats."""

    def __post_init__(self) -> None:
        if not 0 <= self.cap <= HIGHEST:
            raise ConfigError(
                f"spacy_crfseq.{type(self).__name__}.v1: cap must be from 0 to {HIGHEST:g}, but it is {self.cap}; "
                "beyond it the exponential is continued by its tangent, whose slope e^cap has to fit into float32. "
                "Leave it out for the default."
            )


class Sequential(_Capped):
    """The weighted sum over sequences of phi(-log P(y_n | x_n)), y_n being the known labels.

    A derived class may have any `phi`; those with a cap are computed in one pass, others take two more.
    """

    provides: ClassVar[frozenset[LossProperty]] = _Capped.provides | {"likelihood", "candidates"}

    def phi(self, nll: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return phi and its derivative at some negative log-likelihoods [N]."""
        return kernels.lattice.phi(nll, self.cap)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        weights, loss, is_capped = batch.weights, 0.0, type(self).phi is Sequential.phi
        if len(batch.candidates.sets) and len(partly := partly_known(batch)):
            loss = over_partly_known(scores, batch, partly, grad, None if is_capped and not self.cap else self.phi)
            weights = weights.copy()
            weights[partly] = 0
        if not is_capped:
            values, slopes = self.phi(log_losses(scores, batch))
            kernels.lattice.log_loss(scores, batch.offsets, batch.gold, weights * slopes, grad)
            return loss + float(weights @ values)
        return loss + kernels.lattice.log_loss(scores, batch.offsets, batch.gold, weights, grad, self.cap)


def log_losses(scores: Scores, batch: Batch) -> NDArray[np.float64]:
    """Return -log P of the known labels of each sequence [N], in float64."""
    gold = batch.gold[:, None]
    wrong = (gold >= 0) & (gold != np.arange(scores.emissions.shape[1]))
    agreeing = scores._replace(emissions=np.where(wrong, scores.emissions.dtype.type(-np.inf), scores.emissions))
    log_sums = [kernels.lattice.log_partitions(of_scores, batch.offsets) for of_scores in (scores, agreeing)]
    return np.maximum(log_sums[0] - log_sums[1], 0)  # rounding


class Pointwise(_Capped):
    """The weighted sum over known labels of phi(-log P(y_nt | x_n))."""

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        offsets, gold, weights = batch[:3]
        return kernels.chain.pointwise_loss(scores, offsets, gold, weights, grad, self.cap)


# Candidate sets

Phi: TypeAlias = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Maps losses u [N] to phi(u) and its derivative."""


class LabelViews(NamedTuple):
    """LabelViews: repeated sequences, or parts of them, with different labels.

    tokens [V], allowed [V, L]: Tokens of the batch, and the allowed labels.
    offsets [M + 1]: Bounds of the views.
    runs: Parts of `tokens`, each without repeated tokens.
    """

    tokens: Offsets
    allowed: Bools
    offsets: Offsets
    runs: list[slice]


class _GroupedViews(NamedTuple):
    """LabelViews of partially known sequences.

    group [M]: LabelViews of one group make up a set of labellings.
    owner, factor [G]: The sequence of a group, among the partially known ones, and its factor in the loss.
    """

    views: LabelViews
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
    grouped, weights = _make_views(batch, numbers), batch.weights[numbers]
    views, group, owner, factor = grouped
    token_weights = weights[owner] * factor
    if phi is None and len(group) == len(factor):  # the derivatives are known in advance
        log_sums = expectations(scores, views, token_weights, grad)
        return float(weights @ _losses(grouped, log_sums, len(weights)))
    log_sums = expectations(scores, views, np.ones(len(group)), None)
    groups = np.full(len(factor), -np.inf)
    np.logaddexp.at(groups, group, log_sums)
    u = _losses(grouped, groups, len(weights))
    value, slope = (u, np.ones_like(u)) if phi is None else phi(u)
    shares = np.exp(log_sums - np.where(groups > -np.inf, groups, 0)[group])
    expectations(scores, views, (token_weights * slope[owner])[group] * shares, grad)
    return float(weights @ value)


def _losses(views: _GroupedViews, log_sums: NDArray[np.float64], n_sequences: int) -> NDArray[np.float64]:
    losses = np.zeros(n_sequences)
    np.add.at(losses, views.owner, views.factor * log_sums)
    return losses


def expectations(
    scores: Scores, views: LabelViews, factors: NDArray[np.float64], grad: Scores | None
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


def _make_views(batch: Batch, numbers: Offsets) -> _GroupedViews:
    """Return the views of some sequences: all labellings, C, and C without each incorrect span."""
    n_labels = batch.candidates.sets.shape[1]
    begins, lengths = batch.offsets[numbers], np.diff(batch.offsets)[numbers]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.arange(bounds[-1]) + np.repeat(begins - bounds[:-1], lengths)
    gold = batch.gold[tokens]
    permitted = np.ones((len(tokens), n_labels), np.bool_)
    labelled, partly = np.flatnonzero(gold >= 0), np.flatnonzero(gold < MISSING)
    permitted[labelled] = False
    permitted[labelled, gold[labelled]] = True
    permitted[partly] = batch.candidates.sets[MISSING - 1 - gold[partly]]
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
            partings = _partings(permitted[first:last], span, place - first)
            parts += [(tokens[first:last], allowed) for allowed in partings]
            groups += [len(owners)] * len(partings)
            if partings:
                owners.append(number)
                n_spans[number] += 1
    kept = np.flatnonzero(n_spans != 1)  # with a single span, log P(C) cancels
    inner = np.repeat(n_spans, lengths) != 1
    runs = np.cumsum([0, len(tokens), inner.sum(), *(len(part) for part, _ in parts)]).tolist()
    views = LabelViews(
        np.concatenate([tokens, tokens[inner], *(part for part, _ in parts)]),
        np.concatenate([np.ones_like(permitted), permitted[inner], *(allowed for _, allowed in parts)]),
        np.concatenate([bounds, runs[1] + np.cumsum(lengths[kept]), runs[3:]]).astype(np.int64),
        [slice(first, last) for first, last in pairwise(runs)],
    )
    return _GroupedViews(
        views,
        np.concatenate([owner, n + np.arange(len(kept)), n + len(kept) + np.array(groups, np.int64)]),
        np.concatenate([owner, kept, np.array(owners, np.int64)]),
        np.concatenate([np.ones(n), n_spans[kept] - 1, -np.ones(len(owners))]),
    )


def _partings(allowed: Bools, span: IncorrectSpan, begin: int) -> list[Bools]:
    # the labels [n, L] of labellings that deviate from a span at its first token, at its second and so on: none if the
    # sequence is too short for the span, or if the known labels allow no other labelling
    if begin + span.n_tokens > len(allowed):
        return []
    partings, agreeing = [], allowed.copy()
    for token, labels in zip(range(begin, len(allowed)), span.labels, strict=False):
        parting = agreeing.copy()
        parting[token] &= ~labels
        agreeing[token] &= labels
        if parting[token].any():
            partings.append(parting)
        if not agreeing[token].any():
            break
    return partings
