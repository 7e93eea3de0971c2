"""The spans with the maximum expected F-measure, the score of chunkers and entity recognizers.

For spans chosen from N sequences, the expected F-measure is, up to a difference that vanishes for large N, the ratio
``F = (1 + beta^2) sum_s P(s | x) / (n_chosen + beta^2 E[n_true])``.  The spans that maximise it also maximise
``sum_s [(1 + beta^2) P(s | x) - F]``, where F is the maximum itself (Dinkelbach 1967).  Jansche (2007) and Lipton,
Elkan & Naryanaswamy (2014) derived the resulting threshold F/2 on probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Bools, Constraints, Ints, Offsets, Scores
from .viterbi import check_possible


@dataclass(frozen=True)
class MaxExpectedF1:
    """Spans with the highest expected F-measure (registered as ``spacy_crfseq.MaxExpectedF1.v1``).

    It chooses the labelling under the constraints with the largest sum over its spans of
    ``(1 + beta^2) P(span | x) - expected_f``: a span is chosen if its probability exceeds
    ``expected_f / (1 + beta^2)``, unless it excludes better ones.  For plain labels, where each token is a span, it is
    the same as `PosteriorDecoding`.

    expected_f (float): The F-measure that you expect, above 0 and at most 1; use the score on the development data.
        The labels depend on it only slightly.
    beta (float): Weight of recall, above 0.  With 1, the measure is F1; with 2, recall has four times the weight of
        precision, with 0.5 a quarter.

    RAISES ConfigError: If a setting is out of range.
    """

    expected_f: float = 0.8
    beta: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.expected_f <= 1:
            raise ConfigError(
                f"expected_f = {self.expected_f}: give the F-measure you expect, above 0 and at most 1, such as 0.8."
            )
        if not 0 < self.beta < np.inf:
            raise ConfigError(
                f"beta = {self.beta}: give a positive number, 1 for F1, more to find more spans, less to find fewer."
            )

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        scores, offsets = kernels.borders.take_scores(scores, offsets, allowed)
        possible = scores.constrained(constraints, allowed)
        spans, log_z = kernels.spans.make_span_chain(possible, offsets, constraints.inside)
        check_possible(log_z)
        gain, cost = float(1 + self.beta**2), float(self.expected_f)
        # spans of a lower probability cost more than they gain
        return kernels.spans.best_spans(spans, offsets, constraints.outside, (gain, cost, cost / gain * (1 - 1e-9)))[0]
