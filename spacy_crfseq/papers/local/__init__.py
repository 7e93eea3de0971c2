"""The maximum entropy Markov model of McCallum, Freitag & Pereira (2000): its loss and its decoder.

The local log-loss is ``sum_n sum_t -log P(y_t | y_{t-1}, x_n)``, each factor a softmax over the labels of one token,
trained with the gold label of the previous token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...decoders.viterbi import Viterbi
from ...kernels.borders import take_batch, take_scores
from ...types import Batch, Bools, Constraints, Floats, Ints, LossProperty, Offsets, Scores
from . import kernels

TINY = 1e-250
"""A sum of scaled potentials below this is done again in log space."""


@dataclass(frozen=True)
class LocalLog:
    """Negative log-likelihood of a chain of softmaxes (registered as ``spacy_crfseq.LocalLog.v1``).

    The cost per token is linear in the number of labels; that of the sequential loss is quadratic.  Missing gold labels
    are summed out exactly.  The probabilities differ from those of a CRF, so decode with LocalViterbi.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"value_and_grad", "minibatches", "local"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = take_batch(scores, batch, grad)
        return float(kernels.log_loss(scores, *batch[:3], grad))


@dataclass(frozen=True)
class LocalViterbi:
    """Best path over log P(y_t | y_{t-1}, x) (registered as ``spacy_crfseq.LocalViterbi.v1``); for the loss LocalLog.

    Constraints restrict the paths; the probabilities are those of the unconstrained model.
    """

    local: ClassVar[bool] = True  # it treats scores as those of a locally normalised model

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        scores, offsets = take_scores(scores, offsets, allowed)
        return Viterbi()(scores._replace(emissions=normalised(scores, offsets)), offsets, constraints, allowed)


def normalised(scores: Scores, offsets: Offsets) -> Floats:
    """Return emissions [T, L] with which the score of a path is log P(path | x), but for a constant.

    What normalises the label of token t + 1 depends on that of token t and on nothing else of the path, so it is taken
    off the emission of t.  Labels that none can follow get minus infinity.
    """
    emissions, transitions, _, end = scores
    last = offsets[1:][offsets[:-1] < offsets[1:]] - 1
    after = emissions.astype(np.float64)
    after[last] += end
    if len(transitions) != 1:
        logs = np.logaddexp.reduce(transitions + after[:, None, :], axis=2)
    else:
        step = transitions[0].astype(np.float64)
        tops, peaks = (np.where(table.max(1) > -np.inf, table.max(1), 0.0)[:, None] for table in (step, after))
        sums = np.exp(after - peaks) @ np.exp(step - tops).T
        with np.errstate(divide="ignore"):
            logs = np.log(sums) + peaks + tops.T
        t, i = np.nonzero(sums <= TINY)
        logs[t, i] = np.logaddexp.reduce(step[i] + after[t], axis=1)
    others, out = np.delete(np.arange(len(emissions)), last), emissions.copy()
    out[others] -= np.where(logs > -np.inf, logs, np.inf)[others + 1]
    return out
