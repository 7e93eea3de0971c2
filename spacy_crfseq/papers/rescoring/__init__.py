"""A decoder that corrects the probabilities of spans before it chooses among them.

A linear-chain model scores one step at a time, so the probability of a whole span can be wrong in ways that recur: too
high for long spans, or for those that a longer span contains.  Culotta & McCallum (2004), "Confidence estimation for
information extraction", estimate the probability that a span is correct by a model of its own, too.  This is a
logistic regression on its probability, its length, and the best of the spans that it excludes.  Training learns the
weights from texts that the models of a jackknife have not seen.

The probability above which a span is worth choosing is half the best F1 that can be reached (Lipton, Elkan &
Naryanaswamy 2014, theorem 1).  Where types are rare or names new, that is far below 0.8, so it is measured, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...decoders.max_expected_f1 import MaxExpectedF1
from ...decoders.viterbi import check_possible
from ...inference.posterior import Posterior
from ...types import Bools, Calibrated, Constraints, Floats, Ints, Offsets, Scores

LEAST, MOST = 0.01, 0.9999
"""Between these probabilities, spans are rescored: others are hardly ever chosen, or as good as certain."""
STEPS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
"""Between these, probabilities share a weight."""
LONGEST = 6
"""Longer spans count as of this length."""
KINDS = 4
"""How another span may exclude one: with the same tokens, within it, around it, or across one of its ends."""
PENALTY = 5.0
"""Half of it times the squared weights keeps these small; chosen on development parts in English and Spanish."""
ROUNDS, CLOSE = 50, 1e-3
"""Newton steps at most, and the gain in nats below which no other is made."""
F_STEPS, F_CLOSE = 50, 1e-3
"""Steps to the F-measure at most, and the change of it below which no other is made."""
USUAL, LOWEST = 0.8, 0.1
"""The F-measure that is expected before any was measured, and the lowest one: noise is worth choosing for less."""

FEW = 50
"""Gold spans of a corpus below which its F-measure says too little to be expected of others."""


class Evidence(NamedTuple):
    """Evidence of a text that is new to its model: on the C uncertain spans, and on all spans.

    features (NDArray): [C, F] see `_features`.
    right (Bools): [C] whether each is gold.
    ahead (Bools): [C] whether none that it excludes has a higher probability.
    n_gold, n_certain, n_certain_right (int): Numbers of gold spans, of all but certain ones, and of gold ones of these.
    """

    features: NDArray[np.float64]
    right: Bools
    ahead: Bools
    n_gold: int
    n_certain: int
    n_certain_right: int


class RescoredSpans:
    """Spans with the highest expected F-measure under corrected probabilities (``spacy_crfseq.RescoredSpans.v1``).

    It learns from the first stage that an attribute such as `DocumentLabels` trains, in about a second; without such an
    attribute, from five models of four fifths of the corpus, which are trained for it.  Next to a neural
    network, which learns later, it learns nothing, and chooses by exact probabilities.  It chooses spans as
    `MaxExpectedF1` does.  Probabilities of predicted spans are the corrected ones, too; those of other questions, such
    as `marginals` and `nbest`, are exact.  At each token, the corrected probabilities of all candidates add up to 1 at
    most: where a correction exceeds that, they are scaled.

    expected_f (float | None): See `MaxExpectedF1`.  None takes the F-measure of the models from which it learns on the
        texts that they have not seen; training with a dev corpus lowers it to that of the whole model there.
    beta (float): See `MaxExpectedF1`.
    RAISES ConfigError: If a setting is out of range.

    base (Decoder): Decodes before anything was learned, and in the first stage.
    weights (Floats): Of the features, see `_features`; empty before anything was learned.
    expected_f (float): The setting, or what was measured.
    learned (bool): Whether there are weights.
    """

    def __init__(self, expected_f: float | None = None, beta: float = 1.0) -> None:
        self.base, self.weights = MaxExpectedF1(USUAL if expected_f is None else expected_f, beta), np.zeros(0)
        self._measures = expected_f is None
        self.expected_f = self._of_parts = self.base.expected_f

    @property
    def learned(self) -> bool:
        return len(self.weights) > 0

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        if not self.learned:
            return self.base(scores, offsets, constraints, allowed)
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        possible = scores.constrained(constraints, allowed)
        chain, log_z = kernels.spans.make_span_chain(possible, offsets, constraints.inside)
        check_possible(log_z)
        outside = constraints.outside
        rows, shares = kernels.spans.candidates(chain, offsets, outside, LEAST)
        worth = float(1 + self.base.beta**2), float(self.expected_f), LEAST
        return kernels.spans.best_spans(chain, offsets, outside, worth, (rows[:0], self.rescored(rows, shares)))[0]

    def observe(self, posterior: Posterior, gold: Ints) -> Evidence:
        """Return the evidence of a text that is new to its model.

        Spans beside tokens of unknown labels, where gold [T] is negative, are left out.
        """
        spans, probabilities = posterior.candidates(LEAST)
        labels = np.maximum(gold, 0).astype(np.int32)
        starts, ends = posterior.spans(labels)
        n_unknown = np.append(0, np.cumsum(np.append(gold, 0) < 0))
        judged = n_unknown[np.maximum(starts - 1, 0)] == n_unknown[ends + 1]
        starts, ends = starts[judged], ends[judged]
        right = {*zip(starts.tolist(), ends.tolist(), labels[starts].tolist(), strict=True)}
        is_gold = np.fromiter((span in right for span in map(tuple, spans.tolist())), np.bool_, len(spans))
        sure = n_unknown[np.maximum(spans[:, 0] - 1, 0)] == n_unknown[spans[:, 1] + 1]
        kept, certain = sure & _is_uncertain(probabilities), sure & (probabilities >= MOST)
        features, ahead = _features(spans, probabilities, kept), np.zeros(len(spans), np.bool_)
        among = probabilities > LEAST
        ahead[among] = probabilities[among] >= excluded(spans[among], probabilities[among]).max(axis=1, initial=0)
        counts = len(right), int(certain.sum()), int((certain & is_gold).sum())
        return Evidence(features, is_gold[kept], ahead[kept], *counts)

    def learn(self, observed: Sequence[Evidence]) -> None:
        """Maximise the penalised log-likelihood of what was observed, by Newton's method; measure the F-measure."""
        table = np.concatenate([np.zeros((0, N_FEATURES)), *(evidence.features for evidence in observed)])
        right = np.concatenate([np.zeros(0, np.bool_), *(evidence.right for evidence in observed)])
        odds, weights = table[:, 0], np.zeros(N_FEATURES)
        loss = _loss(weights, odds, table, right)
        for _ in range(ROUNDS):
            p = _sigmoid(odds + table @ weights)
            slope = table.T @ (p - right) + PENALTY * weights
            step = np.linalg.solve((table.T * (p * (1 - p))) @ table + PENALTY * np.eye(N_FEATURES), slope)
            size, before = 1.0, loss
            while (loss := _loss(weights - size * step, odds, table, right)) > before and size > 1e-6:
                size /= 2  # where a whole step goes too far
            weights -= size * step
            if before - loss < CLOSE:
                break
        self.weights = weights if len(table) else np.zeros(0)
        self.expected_f = self._of_parts = self._measured(observed)

    def adapt(self, evidence: Evidence | None) -> None:
        """Expect the F-measure on texts of another kind, such as a dev corpus, if it is below that on the learned ones.

        Texts to come are rarely easier than both.  None, or a corpus of less than `FEW` gold spans, is no evidence.
        """
        self.expected_f = self._of_parts
        if evidence is not None and evidence.n_gold >= FEW:
            self.expected_f = min(self._of_parts, self._measured([evidence]))

    def _measured(self, observed: Sequence[Evidence]) -> float:
        """Return the F-measure of spans that are chosen because they are worth it if this value is expected."""
        if not self._measures or not self.learned or not sum(evidence.n_gold for evidence in observed):
            return self.base.expected_f
        features, right, ahead = (np.concatenate(column) for column in list(zip(*observed, strict=True))[:3])
        n_gold, n_certain, n_right = np.sum([evidence[3:] for evidence in observed], axis=0).tolist()
        p, gain, value = _sigmoid(features[:, 0] + features @ self.weights), 1 + self.base.beta**2, USUAL
        for _ in range(F_STEPS):  # Dinkelbach's method with counts
            chosen, before = ahead & (p > value / gain), value
            n_chosen = n_certain + int(chosen.sum())
            of_gold = n_right + int((chosen & right).sum())
            value = max(LOWEST, gain * of_gold / (n_chosen + self.base.beta**2 * n_gold))
            if abs(value - before) < F_CLOSE:
                break
        return float(value)

    def rescored(self, spans: Ints, probabilities: Floats) -> Floats:
        """Return the corrected probabilities [C] of candidates, all those of their sequences.

        At each token, those of the spans that have it add up to 1 at most; improbable ones, which stay, do not count.
        """
        kept, out = _is_uncertain(probabilities), probabilities.copy()
        table = _features(spans, probabilities, kept)
        out[kept] = _sigmoid(table[:, 0] + table @ self.weights)
        among = probabilities > LEAST
        out[among] = scaled(spans[among], out[among])
        return out

    def span_probabilities(
        self, posterior: Posterior, labels: Ints, starts: Offsets, ends: Offsets, calibrated: Calibrated
    ) -> NDArray[np.float64]:
        """Return the corrected and calibrated probabilities of spans [S], of no candidates the exact, calibrated ones.

        At each token, those of all candidates add up to 1 at most.
        """
        exact, (spans, shares) = posterior.span_probabilities(labels, starts, ends), posterior.candidates(LEAST)
        out, among = calibrated(exact, labels[starts]), shares > LEAST
        spans, corrected = spans[among], calibrated(self.rescored(spans, shares), spans[:, 2])[among]
        chosen = spans[:, 2] == labels[spans[:, 0]]
        key, wanted = np.array([len(labels) + 1, 1, 0]), starts * (len(labels) + 1) + ends
        keys = spans[chosen] @ key
        place = np.searchsorted(keys, wanted)
        there = (np.append(keys, -1)[place] == wanted) & (exact > LEAST)  # not where other tags follow the first one
        out[there] = scaled(spans, corrected)[chosen][place[there]]
        return out

    def to_state(self) -> dict[str, Any]:
        """Return the weights and the F-measure."""
        return {"weights": [float(weight) for weight in self.weights], "expected_f": float(self.expected_f)}

    def from_state(self, state: Any) -> None:
        """Use the state that a model has stored, None for none; a setting `expected_f` has precedence.

        RAISES ValueError, TypeError or KeyError: If it is damaged.
        """
        weights = np.array([] if state is None else state["weights"], np.float64)
        if weights.shape not in ((0,), (N_FEATURES,)) or not np.isfinite(weights).all():
            raise ValueError(f"{weights.shape} weights of decoded spans")
        expected = self.base.expected_f if state is None or not self._measures else float(state["expected_f"])
        self.weights, self.expected_f = weights, MaxExpectedF1(expected, self.base.beta).expected_f
        self._of_parts = self.expected_f


def _is_uncertain(probabilities: Floats) -> Bools:
    return (probabilities > LEAST) & (probabilities < MOST)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = 1 / (1 + np.exp(-values))
    return out


def _loss(weights: Floats, odds: Floats, table: Floats, right: Floats) -> float:
    values = odds + table @ weights
    return float(np.logaddexp(0, values).sum() - values @ right + PENALTY / 2 * weights @ weights)


def _features(spans: Ints, probabilities: Floats, kept: Bools) -> NDArray[np.float64]:
    """Return the features of those candidates that are kept [C], as rows of F columns.

    They are the log-odds of the probability, and of what it and the best excluded span leave; indicators of the step
    of the probability, for each kind of exclusion of the step of the best such span, and of the length.
    """
    among = probabilities > LEAST  # others are there only in some sequences, perhaps very many
    p, best = probabilities[kept], excluded(spans[among], probabilities[among])[kept[among]]
    odds = np.log(p) - np.log1p(-p)
    rest = np.clip(1 - p - best.max(axis=1), 1e-4, 1 - 1e-4)
    steps = np.eye(len(STEPS) + 1)[np.digitize(np.column_stack([p, best]), STEPS)]
    length = np.eye(LONGEST)[np.minimum(spans[kept, 1] - spans[kept, 0], LONGEST) - 1]
    return np.column_stack([odds, np.log(rest) - np.log1p(-rest), *steps.transpose(1, 0, 2), length])


def scaled(spans: Ints, probabilities: Floats) -> Floats:
    """Return the probabilities [C] of spans [C, 3], each divided by the largest sum at one of its tokens if above 1."""
    length = spans[:, 1] - spans[:, 0]
    begins = np.cumsum(length) - length
    tokens = np.repeat(spans[:, 0] - begins, length) + np.arange(length.sum())
    sums = np.bincount(tokens, np.repeat(probabilities, length))
    largest = np.maximum.reduceat(sums[tokens], begins) if len(spans) else np.zeros(0)
    out: Floats = probabilities / np.maximum(largest, 1)
    return out


N_FEATURES = 2 + (1 + KINDS) * (len(STEPS) + 1) + LONGEST


def excluded(spans: Ints, probabilities: Floats) -> NDArray[np.float64]:
    """Return for candidates the largest probability of a span that each excludes, of each kind [C, 4], 0 for none.

    spans (Ints): [C, 3] in the order of their first tokens.
    """
    best, (first, after) = np.zeros((len(spans), KINDS)), spans[:, :2].T
    for distance in range(1, len(spans)):  # in the order of first tokens, those that overlap follow each other
        left = np.flatnonzero(first[distance:] < after[:-distance])
        if not len(left):
            break
        right = left + distance
        same_first = first[left] == first[right]
        same, within = same_first & (after[left] == after[right]), after[right] <= after[left]
        around = same_first & (after[left] < after[right])
        for place, neighbour, kinds in ((left, right, (0, 1, 2, 3)), (right, left, (0, 2, 1, 3))):
            kind = np.select([same, within, around], kinds[:3], kinds[3])
            np.maximum.at(best, (place, kind), probabilities[neighbour])
    return best
