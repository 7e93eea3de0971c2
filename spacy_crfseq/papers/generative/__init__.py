"""Generative models by counting, with expectation-maximization where labels are missing: HMM and naive Bayes.

A token has one value of each template k, or none.  Given the labels, these values are independent, and the label of a
token depends on the previous one (HMM; Rabiner 1989) or on nothing (naive Bayes)::

    P(x, y) = P(y_1) prod_t P(y_t | y_{t-1}) prod_k P(x_{t,k} | y_t)    P(end | y_T)

Parameters are the log-probabilities.  Scores are then log P(x, y), and the decoders and posteriors of a CRF work as
they are.  An iteration of EM (Dempster, Laird & Rubin 1977; Sokolovska 2010, algorithm 6) is one pass: the gradient of
`JointLog` is minus the expected counts given the known labels (E-step), and probabilities are the counts plus
`smoothing`, divided by their sum (M-step).  That is the mode under a Dirichlet prior; the objective is

    - sum_n log P(x_n, known labels) - smoothing * sum log p        over all probabilities p of the model

and no iteration raises it.  Where all labels are known, the first iteration has reached the minimum.

A feature that the model does not know has no weight.  Each template therefore has one more outcome, `none`, for
unknown values, features under `min_count` and tokens without a value.  Its log-probability is subtracted from the
weights of the template's features and added to all scores of entering the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError
from ...optimizers.states import Kinds, StoredState
from ...types import (
    NO_REPORT,
    Batch,
    BatchObjective,
    Bools,
    Floats,
    LossProperty,
    Numbers,
    RowBlock,
    Scores,
    StepReport,
)

Array: TypeAlias = NDArray[np.float64]
ROUNDING = 1e-3
"""Share of the tokens of a label by which counts may differ in float32."""


class GenerativeObjective(BatchObjective, Protocol):
    """An objective for methods that estimate probabilities by counting."""

    @property
    def trainable(self) -> Bools:
        """See `IndexedObjective`."""

    @property
    def templates(self) -> Numbers:
        """The number of the template of each row in the first group [F]; zeros if unknown."""

    def labelled(self) -> BatchObjective:
        """Return the objective on the sequences in which a gold label is known."""


@dataclass
class EMState(StoredState):
    """A run in progress.

    counts (Floats | None): [D] expected counts at theta; None before the first pass.
    values (list[float]): Objective after each iteration.
    """

    theta: Floats
    counts: Floats | None = None
    values: list[float] = field(default_factory=list)
    report: StepReport | None = None

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of `counts`, `values` and `report`, see `StoredState`."""
        return {"counts": (None, self.theta), "values": ([0.0, ...],), "report": (None, NO_REPORT)}


class LabelCounts(NamedTuple):
    """Expected counts: features [F, L], pairs of labels [L, L], first and last labels [L]."""

    features: Array
    steps: Array
    start: Array
    end: Array

    @property
    def tokens(self) -> Array:
        """[L]: every token either is the first of its sequence or follows another."""
        tokens: Array = self.steps.sum(0) + self.start
        return tokens


@dataclass(frozen=True)
class HMM:
    """A hidden Markov model (registered as ``spacy_crfseq.HMM.v1``).

    It needs the loss JointLog, no penalty, ``support = "all"``, and templates of one label with at most one value for a
    token.  The first counts are those of sequences with a known label, or the expected ones at parameters other than
    zero.

    smoothing (float): Added to every count (Lidstone).
    max_iterations (int): Iterations of EM in a run.
    tolerance (float): Stop when the objective falls by less than this fraction in an iteration.
    RAISES ConfigError: On a setting out of range.
    """

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"joint"})
    penalties: ClassVar[frozenset[str]] = frozenset({"none"})
    online: ClassVar[bool] = False
    smoothing: float = 0.01
    max_iterations: int = 100
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        if not self.smoothing > 0:
            raise ConfigError(
                f"{type(self).__name__}: smoothing must be positive, but it is {self.smoothing}; "
                "without it, no text with a new word would be possible."
            )
        if self.max_iterations < 1 or self.tolerance < 0:
            raise ConfigError(f"{type(self).__name__}: max_iterations must be at least 1, tolerance 0 or more.")

    def start(self, theta: Floats) -> EMState:
        return EMState(theta.copy())

    def export(self, state: EMState) -> Floats:
        return state.theta

    def iterate(self, objective: GenerativeObjective, state: EMState) -> StepReport:
        if state.report is not None and state.report.converged:
            return state.report._replace(evaluations=0)
        first = state.counts is None
        if state.counts is None:
            self._check(objective)
            begin = objective if state.theta.any() else objective.labelled()
            state.counts = -begin.value_and_grad(state.theta)[2]
        theta, prior = self._maximise(objective, state.counts)
        state.theta = theta.astype(state.theta.dtype)
        _, loss, gradient = objective.value_and_grad(state.theta)
        state.counts = -gradient
        state.values.append(loss + prior)
        done = self._reason_to_stop(state.values)
        state.report = StepReport(loss + prior, loss, float("nan"), 1 + first, bool(done), done)
        return state.report

    def _reason_to_stop(self, values: list[float]) -> str:
        if len(values) >= self.max_iterations:
            return f"{self.max_iterations} iterations were run"
        if len(values) > 1 and values[-2] - values[-1] < self.tolerance * abs(values[-1]):
            return f"the objective fell by no more than {self.tolerance:g} of its value"
        return ""

    def _check(self, objective: GenerativeObjective) -> None:
        name, (unigrams, bigrams, _) = type(self).__name__, objective.blocks[:3]
        if len(unigrams.ptr):
            raise ConfigError(
                f'{name} has a probability for every feature and label: set support = "all" and max_features = 0. '
                "A pruned model cannot be trained further."
            )
        if not objective.trainable.all():
            raise ConfigError(
                f"{name} has probabilities of the first, the next and the last label: "
                "set transitions = true and boundaries = true."
            )
        if bigrams.n_rows:
            raise ConfigError(f"{name} has no weights for label pairs with features: leave out pair templates.")

    def _maximise(self, objective: GenerativeObjective, flat: Floats) -> tuple[Array, float]:
        """Return the parameters [D] that maximise the expected log-likelihood, and the negative log of their prior."""
        n, begin = objective.blocks[0].width, objective.blocks[2].begin
        features, shared = flat[:begin].astype(np.float64), flat[begin:].astype(np.float64)
        steps, start, end = shared[: n * n].reshape(n, n), shared[n * n : -n], shared[-n:]
        counts = LabelCounts(features.reshape(-1, n), steps, start, end)
        weights, none, prior = self._values(counts, objective.templates)
        log_labels, begins, ends, prior_of_labels = self._labels(counts)
        parts = weights, log_labels + none, begins + none, ends
        return np.concatenate([part.ravel() for part in parts]), self.smoothing * (prior + prior_of_labels)

    def _values(self, counts: LabelCounts, templates: Numbers) -> tuple[Array, Array, float]:
        """Return the weights [F, L], the sum over templates of log P(none | label) [L], and - sum log p."""
        sizes = np.bincount(templates)
        valued = np.stack([np.bincount(templates, column, len(sizes)) for column in counts.features.T], 1)
        none = counts.tokens - valued
        too_many = np.flatnonzero((none < -ROUNDING * (1 + counts.tokens)).any(1))
        if len(too_many):
            raise ConfigError(
                f"{type(self).__name__} has one value of each template for a token, but template {too_many[0] + 1} of "
                "this component gives some tokens several. Leave out token functions, or write one template for each."
            )
        none = np.maximum(none, 0) + self.smoothing
        totals = np.log(valued + none + self.smoothing * sizes[:, None])
        log_values, log_none = np.log(counts.features + self.smoothing) - totals[templates], np.log(none) - totals
        prior = -float(log_values.sum() + log_none.sum())
        return log_values - log_none[templates], log_none.sum(0), prior

    def _labels(self, counts: LabelCounts) -> tuple[Array, Array, Array, float]:
        """Return log P of the next label [L, L], of the first [L], and of the end [L], and - sum log p."""
        following = self._log_shares(np.column_stack([counts.steps, counts.end]))
        begins = self._log_shares(counts.start)
        return following[:, :-1], begins, following[:, -1], -float(following.sum() + begins.sum())

    def _log_shares(self, counts: Array) -> Array:
        smoothed = counts + self.smoothing
        shares: Array = np.log(smoothed / smoothed.sum(-1, keepdims=True))
        return shares


@dataclass(frozen=True)
class NaiveBayes(HMM):
    """Naive Bayes for each token (registered as ``spacy_crfseq.NaiveBayes.v1``); it needs what `HMM` needs.

    smoothing (float): Added to every count (Lidstone).
    max_iterations (int): Iterations of EM in a run.
    tolerance (float): Stop when the objective falls by less than this fraction in an iteration.
    """

    def _labels(self, counts: LabelCounts) -> tuple[Array, Array, Array, float]:
        labels = self._log_shares(counts.tokens)
        return np.tile(labels, (len(labels), 1)), labels, np.zeros_like(labels), -float(labels.sum())


# The loss: sum_n -log sum_y exp(score(y, x_n)), y over the labellings that agree with the known labels.  The scores are
# log-probabilities, exp(score(y, x)) = P(x, y) (Sokolovska 2010, eq. 4.2).


@dataclass(frozen=True)
class JointLog:
    """Negative log-likelihood of texts and their known labels (registered as ``spacy_crfseq.JointLog.v1``).

    Its gradient is minus the expected counts of labels and label pairs given the known labels, the E-step of
    expectation-maximization.  A text without labels has the likelihood of its words.  Larger scores always lower the
    loss, so only methods that normalise the parameters can minimise it: HMM and NaiveBayes.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"joint"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        labelled = np.flatnonzero(batch.gold >= 0)
        emissions = scores.emissions.copy()
        emissions[labelled] = -np.inf
        emissions[labelled, batch.gold[labelled]] = scores.emissions[labelled, batch.gold[labelled]]
        clamped, nothing, log_z = scores._replace(emissions=emissions), batch.gold[:0], np.zeros(len(batch.weights))
        return kernels.lattice.log_loss(clamped, batch.offsets, nothing, -batch.weights, grad, log_z=log_z)
