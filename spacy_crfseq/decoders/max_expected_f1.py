"""The spans with the maximum expected F-measure, the score of chunkers and entity recognizers.

For spans chosen from N sequences, the expected F-measure is, up to a difference that vanishes for large N, the ratio
``F = (1 + beta^2) sum_s P(s | x) / (n_chosen + beta^2 E[n_true])``.  The spans that maximise it also maximise
``sum_s [(1 + beta^2) P(s | x) - F]``, where F is the maximum itself (Dinkelbach 1967).  Jansche (2007) and Lipton,
Elkan & Naryanaswamy (2014) derived the resulting threshold F/2 on probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Bools, Constraints, Ints, Offsets, Scores
from .choices import USUAL, Choices, best_f, candidates_of
from .viterbi import check_possible

FEW = 50
"""Gold spans of a corpus below which its F-measure says too little to be expected of others."""


class MaxExpectedF1:
    """Spans with the highest expected F-measure (registered as ``spacy_crfseq.MaxExpectedF1.v1``).

    It chooses the labelling under the constraints with the largest sum over its spans of
    ``(1 + beta^2) P(span | x) - expected_f``: a span is chosen if its probability exceeds
    ``expected_f / (1 + beta^2)``, unless it excludes better ones.  For plain labels, where each token is a span, it is
    the same as `PosteriorDecoding`.

    expected_f (float | None): The F-measure that you expect, above 0 and at most 1.  None measures it where training
        calibrates: on a dev corpus of at least 50 gold spans, or without one on parts of a small training corpus, by
        models of the others; until then it is 0.8.
    beta (float): Weight of recall, above 0.  With 1, the measure is F1; with 2, recall has four times the weight of
        precision, with 0.5 a quarter.
    RAISES ConfigError: If a setting is out of range.

    expected_f (float): The setting, or what was measured.
    base (Decoder): Decodes before anything was measured.
    learned (bool): Whether parts of a training corpus have shown what to expect.
    """

    def __init__(self, expected_f: float | None = None, beta: float = 1.0) -> None:
        self._setting, self.beta = USUAL if expected_f is None else expected_f, beta
        if not 0 < self._setting <= 1:
            raise ConfigError(
                f"expected_f = {expected_f}: give the F-measure you expect, above 0 and at most 1, such as 0.8."
            )
        if not 0 < beta < np.inf:
            raise ConfigError(
                f"beta = {beta}: give a positive number, 1 for F1, more to find more spans, less to find fewer."
            )
        self._measures, self.expected_f = expected_f is None, self._setting
        self._of_parts: float | None = None

    @property
    def base(self) -> MaxExpectedF1:
        return MaxExpectedF1(self._setting, self.beta)

    @property
    def learned(self) -> bool:
        return self._of_parts is not None

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        possible = scores.constrained(constraints, allowed)
        gain, cost, outside = float(1 + self.beta**2), float(self.expected_f), constraints.outside
        least = cost / gain * (1 - 1e-9)  # spans of a lower probability cost more than they gain
        spans, log_z = kernels.spans.make_span_chain(possible, offsets, constraints.inside, outside, least)
        check_possible(log_z)
        return kernels.spans.best_spans(spans, offsets, outside, (gain, cost, least))[0]

    def observe(self, posterior: Any, gold: Ints) -> Any:
        """Return the choices in a text that is new to its model, see `candidates_of`."""
        return candidates_of(posterior, gold).choices

    def learn(self, observed: Sequence[Any]) -> None:
        """Measure the F-measure on parts of a training corpus."""
        self._of_parts = self._measured([self._choices(evidence) for evidence in observed])
        self.adapt(None)

    def adapt(self, evidence: Any | None) -> None:
        """Expect the F-measure on a dev corpus, unless that on parts of the training corpus is lower.

        Texts to come are rarely easier than both.  None, or a corpus of less than `FEW` gold spans, is no evidence.
        """
        values, choices = [self._of_parts], None if evidence is None else self._choices(evidence)
        if choices is not None and choices.n_gold >= FEW:
            values.append(self._measured([choices]))
        self.expected_f = min((value for value in values if value is not None), default=self._setting)

    def _choices(self, evidence: Any) -> Choices:
        """Return the choices in a text that was observed."""
        choices: Choices = evidence
        return choices

    def _measured(self, parts: Sequence[Choices]) -> float | None:
        return best_f(parts, self.beta) if self._measures else None

    def to_state(self) -> dict[str, Any]:
        """Return the F-measure that is expected, and that on parts of a training corpus, None if nothing was."""
        return {"expected_f": float(self.expected_f), "of_parts": self._of_parts}

    def from_state(self, state: Any) -> None:
        """Use the state that a model has stored, None for none; a setting `expected_f` has precedence.

        RAISES ValueError, TypeError or KeyError: If it is damaged.
        """
        self.expected_f, self._of_parts = self._setting, None
        if state is not None and self._measures:
            measured = [None if value is None else float(value) for value in (state["expected_f"], state["of_parts"])]
            values = [MaxExpectedF1(value).expected_f for value in measured]  # checked
            self.expected_f, self._of_parts = values[0], None if measured[1] is None else values[1]
