"""Cross-entropy to a distribution of labellings: ``sum_n E_q[-log P(y | x_n)] = log Z(x_n) - E_q[score(y, x_n)]``.

The distribution q is a chain, such as the posterior of a label model, of several annotators or of a teacher.  The
gradient is the difference of expected counts of labels and of label pairs under the model and under q (Wang et al.
2020, "Structure-level knowledge distillation for multilingual sequence labeling").  The value is given without the
entropy of q, which no weight changes: it is the Kullback-Leibler divergence from q, 0 where the model agrees.
Otherwise the entropy would hide from optimizers that stop at a small share of the value how much it still falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import DataError
from ..types import MISSING, Batch, Ints, LossProperty, Offsets, Scores
from ._sums import LabelViews, expectations
from .sequential_log import SequentialLog

SURE = 1.0
"""The probability of a label that is as good as known."""


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy to labels with probabilities, less their entropy (``spacy_crfseq.CrossEntropy.v1``).

    A token has a label, a distribution of labels given the label before (see `types.Shares`), a candidate set, or
    nothing.  Sequences without distributions have the loss `SequentialLog`.  In the others, tokens of which nothing, or
    a set, is known are summed out; under q, what stands before them and what stands behind them is independent.
    RAISES DataError: When it is called, if such a sequence has a span that is known to be wrong.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset(
        {"value_and_grad", "minibatches", "candidates", "distributions"}
    )

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        batch = _with_sure_labels(batch)
        doubtful = _doubtful(batch)
        if not doubtful.any():
            return SequentialLog()(scores, batch, grad)
        weights = np.where(doubtful, batch.weights, 0.0)
        rest = SequentialLog()(scores, batch._replace(weights=batch.weights - weights), grad)
        nothing, log_z = np.zeros(0, np.int32), np.zeros(len(weights))
        free = kernels.lattice.log_loss(scores, batch.offsets, nothing, weights, grad, log_z=log_z)
        chosen = np.flatnonzero(doubtful & (batch.weights != 0))
        tokens = _ranges(batch.offsets[chosen], np.diff(batch.offsets)[chosen])
        targets = _targets(batch, tokens, weights)
        value = targets.expected(scores, grad)
        return rest + free - value - _over_unknown(scores, batch, targets, grad) - targets.entropy


def _with_sure_labels(batch: Batch) -> Batch:
    """Return the batch with labels instead of distributions that have only one label."""
    shares = batch.candidates.shares
    partly = np.flatnonzero(batch.gold < MISSING)
    if not len(partly) or not len(shares.ptr):
        return batch
    numbers = MISSING - 1 - batch.gold[partly]
    first = shares.ptr[numbers]
    certain = shares.ptr[numbers + 1] - first == 1
    certain[certain] = shares.values[first[certain]] == SURE
    gold = batch.gold.copy()
    gold[partly[certain]] = shares.labels[shares.ptr[numbers[certain]]]
    return batch._replace(gold=gold)


def _doubtful(batch: Batch) -> NDArray[np.bool_]:
    """Return which sequences [N] have a distribution of labels.  RAISES DataError: As `CrossEntropy`."""
    soft, doubtful = np.zeros(batch.n_tokens, np.bool_), np.zeros(len(batch.weights), np.bool_)
    partly = np.flatnonzero(batch.gold < MISSING)
    numbers = MISSING - 1 - batch.gold[partly].astype(np.int64)
    soft[partly] = batch.candidates.shares.has(numbers)
    doubtful[np.searchsorted(batch.offsets, np.flatnonzero(soft), side="right") - 1] = True
    wrong = partly[np.isin(numbers, [span.number for span in batch.candidates.incorrect])]
    refused = np.flatnonzero(doubtful[np.searchsorted(batch.offsets, wrong, side="right") - 1])
    if len(refused):
        raise DataError(
            f"Token {wrong[refused[0]]} begins a span that is known to be wrong, in a sequence where labels have "
            "probabilities. Leave out one of the two."
        )
    return doubtful


class _Targets(NamedTuple):
    """The values of q for the known tokens among some: K entries of labels, M entries of pairs.

    known (NDArray): [T] which tokens of the batch have a label or a distribution.
    tokens: [K] the token of each label, ascending; labels [K], factors [K] probabilities times the sequence's weight.
    ptr: [T + 1] the labels of each token.
    pair_tokens, before, after, pair_factors: [M] the same for a token and the one before it, if both are known.
    first, last: [K] which labels are those of first and last tokens of sequences.
    weights: [T] the weight of each token's sequence.
    entropy: The weighted entropy of the labels of known tokens.
    """

    known: NDArray[np.bool_]
    tokens: Offsets
    labels: Ints
    factors: NDArray[np.float64]
    ptr: Offsets
    pair_tokens: Offsets
    before: Ints
    after: Ints
    pair_factors: NDArray[np.float64]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    weights: NDArray[np.float64]
    entropy: float

    def expected(self, scores: Scores, grad: Scores) -> float:
        """Return the weighted expected score of known tokens and pairs; subtract its gradient from `grad`."""
        dtype = scores.emissions.dtype.type
        places = (self.tokens, self.labels), (self._steps(scores), self.before, self.after)
        begins, ends = self.labels[self.first], self.labels[self.last]
        value = 0.0
        for name, place, factors in (
            ("emissions", places[0], self.factors),
            ("transitions", places[1], self.pair_factors),
            ("start", (begins,), self.factors[self.first]),
            ("end", (ends,), self.factors[self.last]),
        ):
            value += float(getattr(scores, name)[place].astype(np.float64) @ factors)
            np.subtract.at(getattr(grad, name), place, factors.astype(dtype))
        return value

    def _steps(self, scores: Scores) -> Offsets:
        return np.zeros_like(self.pair_tokens) if len(scores.transitions) == 1 else self.pair_tokens


def _targets(batch: Batch, tokens: Offsets, weights: NDArray[np.float64]) -> _Targets:
    """Return the targets of some tokens of the batch, which are ascending; weights [N] are those of sequences."""
    shares, n_tokens = batch.candidates.shares, batch.n_tokens
    of_token = np.repeat(weights, np.diff(batch.offsets))
    soft, hard = np.zeros(n_tokens, np.bool_), np.zeros(n_tokens, np.bool_)
    partly = tokens[batch.gold[tokens] < MISSING]
    numbers = MISSING - 1 - batch.gold[partly].astype(np.int64)
    with_shares = shares.has(numbers)
    partly, numbers = partly[with_shares], numbers[with_shares]
    soft[partly], hard[tokens] = True, batch.gold[tokens] >= 0
    counts = np.zeros(n_tokens, np.int64)
    counts[hard], counts[partly] = 1, np.diff(shares.ptr)[numbers]
    ptr = np.append(0, np.cumsum(counts))
    entry_tokens = np.repeat(np.arange(n_tokens), counts)
    labels, values = np.empty(ptr[-1], np.int32), np.ones(ptr[-1])
    before = np.full(ptr[-1], MISSING, np.int32)
    labels[ptr[:-1][hard]] = batch.gold[hard]
    places = _ranges(ptr[partly], counts[partly])
    sources = _ranges(shares.ptr[numbers], counts[partly])
    labels[places], values[places], before[places] = (
        shares.labels[sources],
        shares.values[sources],
        shares.before[sources],
    )
    opens, closes = np.zeros(n_tokens, np.bool_), np.zeros(n_tokens, np.bool_)
    filled = batch.offsets[:-1] < batch.offsets[1:]
    opens[batch.offsets[:-1][filled]], closes[batch.offsets[1:][filled] - 1] = True, True
    has_targets = soft | hard
    paired = np.flatnonzero(has_targets[1:] & has_targets[:-1] & ~opens[1:]) + 1
    says = np.ones(n_tokens, np.bool_)  # whether a token's distribution says what stands before it
    says[entry_tokens[before == MISSING]] = False
    together = says[paired] & soft[paired] & soft[paired - 1]
    own = _ranges(ptr[paired[together]], counts[paired[together]])
    apart = paired[~together]  # a label that is known, or independent distributions
    sizes = counts[apart - 1] * counts[apart]
    inner = _ranges(np.zeros(len(apart), np.int64), sizes)
    left = np.repeat(ptr[apart - 1], sizes) + inner // np.repeat(counts[apart], sizes)
    right = np.repeat(ptr[apart], sizes) + inner % np.repeat(counts[apart], sizes)
    pair_tokens = np.concatenate([entry_tokens[own], entry_tokens[right]])
    pair_values = np.concatenate([values[own], values[left] * values[right]])
    follows = np.zeros(n_tokens, np.bool_)
    follows[paired[together]] = True
    entropy = _entropy(entry_tokens, before, labels, values, follows, of_token)
    return _Targets(
        has_targets, entry_tokens, labels, values * of_token[entry_tokens], ptr,
        pair_tokens, np.concatenate([before[own], labels[left]]), np.concatenate([labels[own], labels[right]]),
        pair_values * of_token[pair_tokens], opens[entry_tokens], closes[entry_tokens], of_token,
        entropy,
    )  # fmt: skip


def _entropy(
    tokens: Offsets,
    before: Ints,
    labels: Ints,
    values: NDArray[np.float64],
    follows: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> float:
    """Return the weighted entropy of labels [K], given the label before at tokens [T] that follow one."""
    given = follows[tokens]
    alone, first = (np.zeros((len(follows), int(of.max(initial=0)) + 1)) for of in (labels, before))
    np.add.at(alone, (tokens[~given], labels[~given]), values[~given])
    np.add.at(first, (tokens[given], before[given]), values[given])
    of_tokens = _surprise(alone).sum(1) - _surprise(first).sum(1)
    return float(_surprise(values[given]) @ weights[tokens[given]]) + float(of_tokens @ weights)


def _surprise(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -p log p of probabilities."""
    result: NDArray[np.float64] = -shares * np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return result


def _ranges(starts: Offsets, lengths: Offsets) -> Offsets:
    """Return the numbers of all ranges that have these starts and lengths."""
    ends = np.cumsum(lengths)
    ranges: Offsets = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return ranges


def _over_unknown(scores: Scores, batch: Batch, targets: _Targets, grad: Scores) -> float:
    """Return the weighted expected log-sums over runs of unknown tokens; subtract their gradient from `grad`.

    For each label before and after a run, that is the log of the sum over the labels in the run.
    """
    unknown = ~targets.known & (targets.weights != 0)
    opens = np.zeros(batch.n_tokens + 1, np.bool_)
    opens[batch.offsets] = True
    begins = np.flatnonzero(unknown & (opens[:-1] | ~np.append(False, unknown[:-1])))
    if not len(begins):
        return 0.0
    ends = np.flatnonzero(unknown & (opens[1:] | ~np.append(unknown[1:], False))) + 1
    has_targets, zero = targets.known[:, None], scores.emissions.dtype.type(0)
    inner, value = scores._replace(emissions=np.where(has_targets, zero, scores.emissions)), 0.0
    for from_start in (False, True):
        for to_end in (False, True):
            chosen = (opens[begins] == from_start) & (opens[ends] == to_end)
            views, factors = _views(batch, targets, begins[chosen], ends[chosen], from_start, to_end)
            nothing = np.zeros_like(scores.start)
            part = inner._replace(start=scores.start if from_start else nothing, end=scores.end if to_end else nothing)
            counts = part.zeros_like()
            log_sums = expectations(part, views, factors, counts)
            value += float(factors @ log_sums)
            grad.emissions[:] -= np.where(has_targets, zero, counts.emissions)
            grad.transitions[:] -= counts.transitions
            grad.start[:] -= counts.start if from_start else nothing
            grad.end[:] -= counts.end if to_end else nothing
    return value


def _views(
    batch: Batch, targets: _Targets, begins: Offsets, ends: Offsets, from_start: bool, to_end: bool
) -> tuple[LabelViews, NDArray[np.float64]]:
    """Return a view of each run of unknown tokens for each label before and after it, and the factors of these."""
    n_labels = batch.candidates.sets.shape[1]
    tokens, allowed, factors = [np.zeros(0, np.int64)], [np.zeros((0, n_labels), np.bool_)], list[float]()
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        places = np.arange(begin - (not from_start), end + (not to_end))
        possible = np.ones((len(places), n_labels), np.bool_)
        partly = np.flatnonzero(batch.gold[places] < MISSING)
        possible[partly] = batch.candidates.sets[MISSING - 1 - batch.gold[places[partly]]]
        weight = targets.weights[begin]
        sides = [
            [(None, 1.0)] if open_end else list(_side(targets, token, weight))
            for open_end, token in ((from_start, begin - 1), (to_end, end))
        ]
        for before, share in sides[0]:
            for after, other in sides[1]:
                view = possible.copy()
                if before is not None:
                    view[0] = np.arange(n_labels) == before
                if after is not None:
                    view[-1] = np.arange(n_labels) == after
                tokens.append(places)
                allowed.append(view)
                factors.append(weight * share * other)
    offsets = np.cumsum([0, *map(len, tokens[1:])])
    runs = [slice(*offsets[i : i + 2].tolist()) for i in range(len(offsets) - 1)]
    return LabelViews(np.concatenate(tokens), np.concatenate(allowed), offsets, runs), np.array(factors, np.float64)


def _side(targets: _Targets, token: int, weight: float) -> list[tuple[int | None, float]]:
    """Return the labels of a known token and their probabilities."""
    entries = slice(*targets.ptr[token : token + 2].tolist())
    sums = np.bincount(targets.labels[entries], targets.factors[entries] / weight)
    return [(int(label), float(sums[label])) for label in np.flatnonzero(sums)]
