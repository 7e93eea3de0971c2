"""The spans of maximum expected F-measure, the score by which chunkers and entity recognizers are judged.

For spans chosen from N sequences, the expected F-measure is, but for a difference that vanishes as N grows, the ratio
``F = (1 + beta^2) sum_s P(s | x) / (n_chosen + beta^2 E[n_true])``.  Its maximum is reached by the spans that maximise
``sum_s [(1 + beta^2) P(s | x) - F]``, F being the maximum itself (Dinkelbach 1967); Jansche (2007) and Lipton, Elkan &
Naryanaswamy (2014) found the threshold F/2 on probabilities that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Bools, Constraints, Ints, Offsets, Scores
from ._possible import check_possible


@dataclass(frozen=True)
class MaxExpectedF1:
    """Spans that are worth their risk of being wrong (registered as ``spacy_crfseq.MaxExpectedF1.v1``).

    Among all labellings that keep the constraints, the one with the largest sum over its spans of
    ``(1 + beta^2) P(span | x) - expected_f``: it takes a span that is more probable than ``expected_f / (1 + beta^2)``,
    unless it is in the way of better ones.  For plain labels, where each token is a span, it decodes as `Posterior`.

    expected_f (float): The F-measure that one expects to reach, above 0 and up to 1; 0.8 unless it is known better.
        A dev set tells; the labels depend on it little.
    beta (float): How much recall weighs, above 0: 2 as much as four times the precision, 0.5 as a quarter; 1 gives F1.

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
        posterior = kernels.chain.make_chain(scores.constrained(constraints, allowed), offsets)
        check_possible(posterior.log_z)
        spans = kernels.chain.make_span_chain(posterior, constraints.inside)
        return kernels.chain.best_spans(
            posterior, spans, constraints.outside, float(1 + self.beta**2), float(self.expected_f)
        )
