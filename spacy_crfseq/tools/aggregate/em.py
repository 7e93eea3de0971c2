"""Label models whose parameters EM learns: hidden Markov models, and those of Dawid & Skene for single tokens.

With P(w_{t,s} | y_t, w_{t-1,s}, s) instead of P(w_{t,s} | y_t, s), a source that errs may go on to err.  A label in a
span that no source gives a token has a fixed factor below 1, because votes do not say where the spans are that no
source has found.  All parameters have Dirichlet priors.  EM finds their mode: the E-step is exact forward-backward,
also where the scheme of the labels forbids steps and where some true labels are known, and no iteration lowers

    log P(w, known labels) + sum over parameters p of (count that the prior adds) log p
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np

from ... import kernels
from ...errors import ConfigError, DataError
from ...threads import available, over, shards
from ...types import Bools, Constraints, Ints
from ...votes import Votes
from .distinct import DistinctTexts, distinct_texts
from .kernels import add_counts
from .label_model import Array, LabelModel, check_gold, expected_votes, log_shares, tied, with_equal_labels

IDENTIFIED = 3
"""Votes at a token from which on errors of independent sources can be told from true labels."""
FIRST = 10
"""Iterations of EM of the model without steps that the one with steps begins with."""


@dataclass(frozen=True, kw_only=True)
class DawidSkene:
    """Each source has its own errors, and neighbours do not matter (registered as ``spacy_crfseq.DawidSkene.v1``).

    It is the model of Dawid & Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM
    algorithm", with Dirichlet priors.  The defaults say that a source finds three of five tokens in spans and rarely
    errs elsewhere, as rules, lists and foreign models do; a few texts outweigh them.  Where fewer than three sources
    speak, votes cannot tell whether one invents a span or another misses it: there, no text outweighs that sources
    mostly miss them (`firmness`).

    recall (float): Expected share of the tokens in spans that a source labels correctly.
    noise (float): Expected share of the tokens outside of spans that it labels; of all tokens, if no label is outside.
    strength (float): Votes for each true label that are added for each source.
    firmness (float): Right votes outside of spans that are added for each source, times the number of tokens less a
        third of all votes: none where three sources speak of each token.
    smoothing (float): Added to the count of each first, next and last label.
    unsaid (float): Factor of the probability of a label in a span at a token to which no source gives that label.
        Votes alone do not say where the spans are that no source has found: with 1, a model may see them anywhere.
    max_iterations (int): Iterations of EM.
    tolerance (float): Stop when the objective rises by less than this fraction in an iteration.
    RAISES ConfigError: On a setting out of range.
    """

    steps: ClassVar[bool] = False
    """Whether labels depend on the label before."""

    recall: float = 0.6
    noise: float = 0.05
    strength: float = 5.0
    firmness: float = 1.0
    smoothing: float = 0.1
    unsaid: float = 0.3
    max_iterations: int = 50
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not (0 < self.recall < 1 and 0 < self.noise < 1):
            raise ConfigError(f"{name}: recall and noise must be between 0 and 1, not {self.recall} and {self.noise}.")
        if not 0 <= self.firmness < math.inf:
            raise ConfigError(f"{name}: firmness must be 0 or more, not {self.firmness}.")
        if not (0 < self.strength < math.inf and 0 < self.smoothing < math.inf):
            raise ConfigError(f"{name}: strength and smoothing must be positive: {self.strength}, {self.smoothing}.")
        if not 0 < self.unsaid <= 1:
            raise ConfigError(f"{name}: unsaid must be above 0 and at most 1, not {self.unsaid}.")
        if self.max_iterations < 1 or not self.tolerance >= 0:
            raise ConfigError(f"{name}: max_iterations must be 1 or more, and tolerance 0 or more.")

    @property
    def by_previous(self) -> bool:
        """Whether a vote depends on the source's vote before it as well."""
        return False

    def added_votes(self, outside: Bools, firm: float = 0.0) -> Array:
        """Return the counts of votes [L, L] that are added for each source; axis 1 is the true label.

        outside (Bools): [L] the labels of tokens in no span.
        firm (float): Right votes for each of these that are added as well.
        """
        right = np.diag(outside & (not outside.all()))
        added: Array = self.strength * expected_votes(outside, self.recall, self.noise) + firm * right
        return added

    def __call__(
        self,
        votes: Votes,
        constraints: Constraints,
        gold: Ints | None = None,
        start: LabelModel | None = None,
    ) -> LabelModel:
        """Return the model that EM finds."""
        return learn(votes, constraints, self, gold, start)


@dataclass(frozen=True, kw_only=True)
class HiddenMarkov(DawidSkene):
    """Each source has its own errors, and labels follow each other (registered as ``spacy_crfseq.HMM.v1``).

    It is the hidden Markov model of Nguyen et al. (2017), "Aggregating and predicting sequence labels from crowd
    annotations", and Lison et al. (2020), "Named entity recognition without labelled data".

    previous (bool): Whether a vote depends on the source's vote before it as well, so that a source that errs may go on
        to err (Simpson & Gurevych 2019, "A Bayesian approach for sequence tagging with crowds").
    The other settings are those of ``spacy_crfseq.DawidSkene.v1``.
    """

    steps: ClassVar[bool] = True

    previous: bool = False

    @property
    def by_previous(self) -> bool:
        """Whether a vote depends on the source's vote before it as well."""
        return self.previous


class _Counts(NamedTuple):
    """Expected counts: votes [S, P, L, L], steps [L, L], first and last labels [L]; and the log-likelihood."""

    votes: Array
    steps: Array
    start: Array
    end: Array
    value: float

    def plus(self, other: _Counts) -> _Counts:
        votes, steps, start, end = (a + b for a, b in zip(self[:4], other[:4], strict=True))
        return _Counts(votes, steps, start, end, self.value + other.value)


def learn(
    votes: Votes,
    constraints: Constraints,
    method: DawidSkene,
    gold: Ints | None = None,
    start: LabelModel | None = None,
    n_threads: int = 0,
) -> LabelModel:
    """Return the label model that EM finds, from votes without true labels, or with some.

    A source with all the votes of another is taken to copy it: given the other, its votes are certain and say nothing.
    As an independent witness, it would make EM believe the errors of the two.

    constraints (Constraints): Which labels may follow each other, and which are outside of spans.  Without steps, they
        do not matter for learning, only for the distribution of the true labels.
    gold (Ints | None): [T] true labels, `MISSING` where unknown.
    start (LabelModel | None): A model to begin with, of the same sources and labels.  Votes depend on those before
        as they do in this model.
    n_threads (int): 0 for as many as there are cores.
    RAISES DataError: If gold labels are not labels, the model to begin with is of other sources or labels, or the
        constraints leave a sequence without any labelling.
    """
    check_gold(votes, gold)
    if start is not None:
        _check_start(start, len(votes.names), votes.n_labels)
    copies = votes.originals() != np.arange(len(votes.names))
    if copies.any():
        model = learn(votes.without(copies[votes.sources]), constraints, method, gold, start, n_threads)
        return model._replace(votes=np.where(copies[:, None, None, None], 0.0, model.votes))
    n_before = votes.n_labels + 1 if method.by_previous else 1
    expected = method.added_votes(constraints.outside)
    equal = with_equal_labels(votes, constraints, expected, method.unsaid, n_before)
    texts = distinct_texts(votes, (start or equal).cells(votes), gold)
    added = _added_votes(method, votes, constraints.outside)
    n_threads = n_threads or available()
    first = start or _first_model(equal, texts, method, added, n_threads)
    return _learn(texts, method, added, first._replace(constraints=constraints), n_threads)


def _check_start(start: LabelModel, n_sources: int, n_labels: int) -> None:
    """RAISES DataError: If a model to begin with is not of so many sources and labels: kernels check no rows."""
    n_before, of_source = start.votes.shape[1], (n_labels, n_labels)
    if start.votes.shape != (n_sources, n_before, *of_source) or n_before not in (1, n_labels + 1):
        raise DataError(
            f"The label model to begin with is of {start.votes.shape[0]} sources and {start.votes.shape[-1]} labels, "
            f"the votes are of {n_sources} and {n_labels}."
        )


def _learn(texts: DistinctTexts, method: DawidSkene, added: Array, model: LabelModel, n_threads: int) -> LabelModel:
    """Return the model that EM finds from one to begin with; `added` as in `_maximise`."""
    constraints, values, converged = model.constraints, list[float](), False
    if not method.steps:
        model, texts = model._replace(constraints=_free(constraints)), texts.without_order()
    while not converged and len(values) <= method.max_iterations:
        counts = _expect(model, texts, n_threads)
        values.append(counts.value + _log_prior(model, method, added))
        converged = len(values) > 1 and values[-1] - values[-2] <= method.tolerance * abs(values[-1])
        if not converged and len(values) <= method.max_iterations:
            model = _maximise(model, counts, texts.votes, method, added)
    return model._replace(constraints=constraints, values=tuple(values), converged=converged)


def _first_model(
    equal: LabelModel, texts: DistinctTexts, method: DawidSkene, added: Array, n_threads: int
) -> LabelModel:
    """Return the model that EM begins with: one in which all sources are as the prior expects.

    equal (LabelModel): The same with labels that are equally frequent.

    Its steps are those between the labels that Dawid & Skene's model finds, as from equal steps, EM may find spans
    everywhere; but equal where votes depend on previous votes, because one source that goes on to err misleads it.
    """
    if not method.steps:
        return equal
    n = len(equal.start)
    model = equal._replace(emissions=np.zeros(n))
    if method.by_previous:
        return _with_steps(model, np.zeros((n, n)), np.zeros(n), np.zeros(n), method.smoothing)
    settings = {setting.name: getattr(method, setting.name) for setting in fields(DawidSkene)}
    single = _learn(texts, DawidSkene(**{**settings, "max_iterations": FIRST}), added, equal, n_threads)
    return _with_steps(model, *_expect(single, texts, n_threads)[1:4], method.smoothing)


def _added_votes(method: DawidSkene, votes: Votes, outside: Bools) -> Array:
    """Return the counts [L, L] that are added for each source of these votes."""
    lacking = max(0.0, votes.n_tokens - len(votes.labels) / IDENTIFIED)
    return method.added_votes(outside, method.firmness * lacking)


def _free(constraints: Constraints) -> Constraints:
    return constraints._replace(
        start=np.ones_like(constraints.start), step=np.ones_like(constraints.step), end=np.ones_like(constraints.end)
    )


def _expect(model: LabelModel, texts: DistinctTexts, n_threads: int) -> _Counts:
    """Return expected counts given the votes and the known labels; errors as `learn`.

    It keeps the scores [G, L] of the distinct tokens, which are nearly all tokens where sources rarely agree.
    """
    scores = model.lattice(texts.votes, texts.gold, cells=texts.cells).scores
    table, (n, _) = model.table, model.steps.shape

    def of_part(part: tuple[int, int]) -> _Counts:
        offsets = texts.offsets[part[0] : part[1] + 1]
        tokens, weights = texts.tokens[offsets[0] : offsets[-1]], texts.weights[part[0] : part[1]]
        of_tokens = scores._replace(emissions=scores.emissions[tokens])
        grad, log_z = of_tokens.zeros_like(), np.zeros(len(weights))
        kernels.lattice.log_loss(of_tokens, offsets - offsets[0], kernels.lattice.NO_LABELS, weights, grad, log_z=log_z)
        if not np.isfinite(log_z).all():
            number = texts.numbers[part[0] : part[1]][~np.isfinite(log_z)].min()
            raise DataError(f"Sequence {number} has no labelling: its known labels break the rules of the scheme.")
        counts = np.zeros_like(table)
        add_counts(tokens, texts.votes.ptr, texts.cells, grad.emissions, counts)
        return _Counts(counts, grad.transitions[0], grad.start, grad.end, float(weights @ log_z))

    totals = _Counts(np.zeros_like(table), np.zeros((n, n)), np.zeros(n), np.zeros(n), 0.0)
    parts = list(shards(texts.offsets, 2 * n))  # scores and their gradients
    for first in range(0, len(parts), n_threads):  # scores of all distinct tokens exist, but counts of a few parts
        for counts in over(of_part, parts[first : first + n_threads], n_threads):
            totals = totals.plus(counts)
    return totals._replace(votes=totals.votes.reshape(model.votes.shape))


def _maximise(model: LabelModel, counts: _Counts, votes: Votes, method: DawidSkene, added: Array) -> LabelModel:
    """Return the model that maximises the expected objective, with the votes [L, L] that the prior adds."""
    table = log_shares(tied(counts.votes + added, votes, model.constraints.outside), 2)
    if method.steps:
        return _with_steps(model._replace(votes=table), *counts[1:4], method.smoothing)
    return model._replace(votes=table, emissions=log_shares(counts.start + method.smoothing, 0))


def _with_steps(model: LabelModel, steps: Array, start: Array, end: Array, smoothing: float) -> LabelModel:
    """Return the model with the probabilities of the next label, the first label and the end by their counts."""
    rules = model.constraints
    may_follow = np.column_stack([rules.step, rules.end])
    following = log_shares((np.column_stack([steps, end]) + smoothing) * may_follow, 1)
    begins = log_shares((start + smoothing) * rules.start, 0)
    return model._replace(steps=following[:, :-1].copy(), start=begins, end=following[:, -1].copy())  # contiguous


def _log_prior(model: LabelModel, method: DawidSkene, added: Array) -> float:
    """Return the sum over parameters of the count that the prior adds, times log p."""
    smoothing = method.smoothing
    with np.errstate(invalid="ignore"):
        value = float(np.where(added > 0, added * model.votes, 0.0).sum())
    for logs in (model.steps, model.start, model.end) if method.steps else (model.emissions,):
        value += smoothing * float(logs[np.isfinite(logs)].sum())
    return value
