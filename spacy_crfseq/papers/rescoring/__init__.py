"""A decoder that corrects the probabilities of spans before it chooses among them.

A linear-chain model scores one step at a time, so the probability of a whole span can be wrong in ways that recur: too
high for long spans, or for those that a longer span contains.  Culotta & McCallum (2004), "Confidence estimation for
information extraction", estimate the probability that a span is correct by a model of its own, too.  This is a
logistic regression on its probability, its length, and the best of the spans that it excludes.  Training learns the
weights from texts that the models of a jackknife have not seen.

The F1 that it expects, on which the number of spans depends, is measured by corrected probabilities, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...decoders.choices import KINDS, LEAST, Choices, candidates_of, excluded, is_uncertain
from ...decoders.max_expected_f1 import MaxExpectedF1
from ...decoders.viterbi import check_possible
from ...inference.posterior import Posterior
from ...types import Bools, Calibrated, Constraints, Floats, Ints, Offsets, Scores

STEPS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
"""Between these, probabilities share a weight."""
LONGEST = 6
"""Longer spans count as of this length."""
PENALTY = 5.0
"""Half of it times the squared weights keeps these small; chosen on development parts in English and Spanish."""
ROUNDS, CLOSE = 50, 1e-3
"""Newton steps at most, and the gain in nats below which no other is made."""


class Evidence(NamedTuple):
    """Evidence of a text that is new to its model: the choices in it, and features of the C uncertain spans.

    features (NDArray): [C, F] see `_features`.
    choices (Choices): With uncorrected probabilities.
    """

    features: NDArray[np.float64]
    choices: Choices


class RescoredSpans(MaxExpectedF1):
    """Spans with the highest expected F-measure under corrected probabilities (``spacy_crfseq.RescoredSpans.v1``).

    It learns from the first stage that an attribute such as `DocumentLabels` trains, in about a second; without such an
    attribute, from five models of four fifths of the corpus, which are trained for it.  Next to a neural
    network, which learns later, it learns nothing, and chooses by exact probabilities.  It chooses spans as
    `MaxExpectedF1` does.  Probabilities of predicted spans are the corrected ones, too; those of other questions, such
    as `marginals` and `nbest`, are exact.  At each token, the corrected probabilities of all candidates add up to 1 at
    most: where a correction exceeds that, they are scaled.

    expected_f (float | None): See `MaxExpectedF1`.  None takes the F-measure of the models from which it learns on the
        texts that they have not seen; where training calibrates, that on the dev corpus if it is lower.
    beta (float): See `MaxExpectedF1`.
    RAISES ConfigError: If a setting is out of range.

    weights (Floats): Of the features, see `_features`; empty before anything was learned.
    learned (bool): Whether there are weights.
    """

    def __init__(self, expected_f: float | None = None, beta: float = 1.0) -> None:
        super().__init__(expected_f, beta)
        self.weights: Floats = np.zeros(0)

    @property
    def learned(self) -> bool:
        return len(self.weights) > 0

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        if not self.learned:
            return super().__call__(scores, offsets, constraints, allowed)
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        possible = scores.constrained(constraints, allowed)
        outside = constraints.outside
        chain, log_z = kernels.spans.make_span_chain(possible, offsets, constraints.inside, outside, LEAST)
        check_possible(log_z)
        rows, shares = kernels.spans.candidates(chain, offsets, outside, LEAST)
        worth = float(1 + self.beta**2), float(self.expected_f), LEAST
        return kernels.spans.best_spans(chain, offsets, outside, worth, (rows[:0], self.rescored(rows, shares)))[0]

    def observe(self, posterior: Posterior, gold: Ints) -> Evidence:
        """Return the evidence of a text that is new to its model, see `candidates_of`."""
        spans, probabilities, kept, choices = candidates_of(posterior, gold)
        return Evidence(_features(spans, probabilities, kept), choices)

    def learn(self, observed: Sequence[Evidence]) -> None:
        """Maximise the penalised log-likelihood of what was observed, by Newton's method; measure the F-measure."""
        table = np.concatenate([np.zeros((0, N_FEATURES)), *(evidence.features for evidence in observed)])
        right = np.concatenate([np.zeros(0, np.bool_), *(evidence.choices.right for evidence in observed)])
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
        super().learn(observed)

    def _choices(self, evidence: Evidence) -> Choices:
        """Return the choices in a text that was observed, with corrected probabilities."""
        if not self.learned:
            return evidence.choices
        return evidence.choices._replace(
            probabilities=_sigmoid(evidence.features[:, 0] + evidence.features @ self.weights)
        )

    def rescored(self, spans: Ints, probabilities: Floats) -> Floats:
        """Return the corrected probabilities [C] of candidates, all those of their sequences.

        At each token, those of the spans that have it add up to 1 at most; improbable ones, which stay, do not count.
        """
        kept, out = is_uncertain(probabilities), probabilities.copy()
        values, columns = _measures(spans, probabilities, kept)
        out[kept] = _sigmoid(values[:, 0] + values @ self.weights[:2] + self.weights[columns].sum(axis=1))
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
        """Return the weights, and the state of `MaxExpectedF1`."""
        return {"weights": [float(weight) for weight in self.weights], **super().to_state()}

    def from_state(self, state: Any) -> None:
        """Use the state that a model has stored, None for none, as `MaxExpectedF1` does; without weights, it has none.

        RAISES ValueError, TypeError or KeyError: If it is damaged.
        """
        weights = np.array(state["weights"] if state and "weights" in state else [], np.float64)
        if weights.shape not in ((0,), (N_FEATURES,)) or not np.isfinite(weights).all():
            raise ValueError(f"{weights.shape} weights of decoded spans")
        super().from_state(state)
        self.weights = weights


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
    values, columns = _measures(spans, probabilities, kept)
    table = np.zeros((len(values), N_FEATURES))
    table[:, :2] = values
    np.put_along_axis(table, columns, 1.0, axis=1)
    return table


def _measures(spans: Ints, probabilities: Floats, kept: Bools) -> tuple[NDArray[np.float64], Offsets]:
    """Return the two log-odds of those candidates that are kept [C, 2], and the columns of their indicators [C, 6]."""
    among = probabilities > LEAST  # others are there only in some sequences, perhaps very many
    p, best = probabilities[kept], excluded(spans[among], probabilities[among])[kept[among]]
    rest = np.clip(1 - p - best.max(axis=1), 1e-4, 1 - 1e-4)
    odds = np.log(np.column_stack([p / (1 - p), rest / (1 - rest)]))
    steps = np.searchsorted(STEPS, np.column_stack([p, best]), side="right")
    length = np.minimum(spans[kept, 1] - spans[kept, 0], LONGEST) - 1
    return odds, np.column_stack([steps, length]) + FIRST_COLUMNS


def scaled(spans: Ints, probabilities: Floats) -> Floats:
    """Return the probabilities [C] of spans [C, 3], each divided by the largest sum at one of its tokens if above 1."""
    length = spans[:, 1] - spans[:, 0]
    begins = np.cumsum(length) - length
    tokens = np.repeat(spans[:, 0] - begins, length) + np.arange(length.sum())
    sums = np.bincount(tokens, np.repeat(probabilities, length))
    largest = np.maximum.reduceat(sums[tokens], begins) if len(spans) else np.zeros(0)
    out: Floats = probabilities / np.maximum(largest, 1)
    return out


FIRST_COLUMNS = 2 + (len(STEPS) + 1) * np.arange(1 + KINDS + 1)
"""Where the indicators of each measure begin: of the probability, of each kind of exclusion, and of the length."""
N_FEATURES = int(FIRST_COLUMNS[-1]) + LONGEST
