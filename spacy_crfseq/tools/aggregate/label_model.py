"""Label models: the true labels of texts given the votes of many doubtful sources, and how far to trust each source.

With true labels y and votes w of the sources s that do not abstain::

    P(y, w) = P(y_1) prod_t P(y_t | y_{t-1})  P(end | y_T)  prod_{t,s} P(w_{t,s} | y_t, s)

That is the hidden Markov model of Nguyen et al. (2017), "Aggregating and predicting sequence labels from crowd
annotations", and Lison et al. (2020), "Named entity recognition without labelled data".  Without transitions, it is the
model of Dawid & Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm".  With
P(w_{t,s} | y_t, w_{t-1,s}, s), a source that errs may go on to err (Simpson & Gurevych 2019, "A Bayesian approach for
sequence tagging with crowds").  A label in a span that no source gives a token has a fixed factor below 1, because
votes do not say where the spans are that no source has found.  All parameters have Dirichlet priors.  EM finds their
mode: the E-step is exact forward-backward, also where the scheme of the labels forbids steps and where some true labels
are known, and no iteration lowers

    log P(w, known labels) + sum over parameters p of (count that the prior adds) log p
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError, DataError
from ...inference.lattice import Lattice
from ...threads import available, over, shards
from ...types import MISSING, Bools, Constraints, Ints, Offsets, Scores
from .kernels import add_counts, add_scores
from .votes import Votes

Array: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["hmm", "dawid-skene", "majority"]
KINDS: tuple[Kind, ...] = ("hmm", "dawid-skene", "majority")

IDENTIFIED = 3
"""Votes at a token from which on errors of independent sources can be told from true labels."""
FIRST = 10
"""Iterations of EM of the model without steps that the one with steps begins with."""


@dataclass(frozen=True)
class Prior:
    """Dirichlet priors, as counts that are added to expected counts: their parameters less one.

    The defaults say that a source finds three of five tokens in spans and rarely errs elsewhere, as rules, lists and
    foreign models do; a few texts outweigh them.  Where fewer than three sources speak, votes cannot tell whether one
    invents a span or another misses it: there, no text outweighs that sources mostly miss them (`firmness`).

    recall (float): Expected share of the tokens in spans that a source labels correctly.
    noise (float): Expected share of the tokens outside of spans that it labels; of all tokens, if no label is outside.
    strength (float): Votes for each true label that are added for each source.
    firmness (float): Right votes outside of spans that are added for each source, times the number of tokens less a
        third of all votes: none where three sources speak of each token.
    smoothing (float): Added to the count of each first, next and last label.
    RAISES ConfigError: On a setting out of range.
    """

    recall: float = 0.6
    noise: float = 0.05
    strength: float = 5.0
    firmness: float = 1.0
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not (0 < self.recall < 1 and 0 < self.noise < 1):
            raise ConfigError(f"Prior: recall and noise must be between 0 and 1, not {self.recall} and {self.noise}.")
        if not 0 <= self.firmness < np.inf:
            raise ConfigError(f"Prior: firmness must be 0 or more, not {self.firmness}.")
        if not (self.strength > 0 and self.smoothing > 0):
            raise ConfigError(f"Prior: strength and smoothing must be positive: {self.strength}, {self.smoothing}.")

    def votes(self, outside: Bools, firm: float = 0.0) -> Array:
        """Return the counts of votes [L, L] that are added for each source; axis 1 is the true label.

        firm (float): Right votes for each true label outside of spans that are added as well.
        outside (Bools): [L] the labels of tokens in no span.  A source that misses a token in a span mostly gives it
            one of these.
        """
        n, shares = len(outside), np.eye(len(outside))
        for label in range(n if n > 1 else 0):
            others = np.arange(n) != label
            missed = 1 - self.recall if outside.any() and not outside[label] else self.noise
            wrong = np.where(others, self.noise if outside.any() and not outside[label] else 1.0, 0.0)
            wrong[outside & others] = 1.0
            shares[:, label] = missed * wrong / wrong.sum()
            shares[label, label] = 1 - missed
        counts: Array = self.strength * shares + firm * np.diag(outside & (not outside.all()))
        return counts


@dataclass(frozen=True)
class Aggregation:
    """How to learn a label model.

    kind (Kind): "hmm"; "dawid-skene", where neighbours do not matter; or "majority", where all sources are trusted
        alike and nothing is learned.
    previous (bool): Whether a vote depends on the source's vote before it as well; for "hmm".
    prior (Prior): Dirichlet priors, and the model that EM begins with.
    unsaid (float): Factor of the probability of a label in a span at a token to which no source gives that label.
        Votes alone do not say where the spans are that no source has found: with 1, a model may see them anywhere.
    max_iterations (int): Iterations of EM.
    tolerance (float): Stop when the objective rises by less than this fraction in an iteration.
    RAISES ConfigError: On a setting out of range.
    """

    kind: Kind = "hmm"
    previous: bool = False
    prior: Prior = field(default_factory=Prior)
    unsaid: float = 0.3
    max_iterations: int = 50
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"A label model is one of {', '.join(KINDS)}, not {self.kind!r}.")
        if self.previous and self.kind != "hmm":
            raise ConfigError(
                f"Only in a label model of the kind hmm, votes depend on previous votes: not {self.kind}."
            )
        if not 0 < self.unsaid <= 1:
            raise ConfigError(f"The factor unsaid of a label model must be above 0 and at most 1, not {self.unsaid}.")
        if self.max_iterations < 1 or not self.tolerance >= 0:
            raise ConfigError("A label model needs max_iterations from 1 on and a tolerance of 0 or more.")


class LabelModel(NamedTuple):
    """The parameters of a label model, for the votes of the sources that it was learned from.

    votes (Array): [S, P, L, L] log P(vote | true label), the true label last.  P is 1, or L + 1 where votes depend on
        the source's vote before, which is none in the last case.
    steps, start, end (Array): [L, L], [L], [L] log P of the next label, the first label and the end.
    emissions (Array): [L] log P of the label of a token in a model without steps, else 0.
    constraints (Constraints): Which labels may follow each other.
    values (tuple[float, ...]): The objective before each iteration and at the end.
    converged (bool): Whether it has stopped to rise.
    unsaid (float): As in `Aggregation`.
    """

    votes: Array
    steps: Array
    start: Array
    end: Array
    emissions: Array
    constraints: Constraints
    values: tuple[float, ...] = ()
    converged: bool = True
    unsaid: float = 1.0

    def cells(self, votes: Votes) -> Ints:
        """Return the row of each vote [V] in the table of votes as [S * P * L, L]."""
        _, n_before, n, _ = self.votes.shape
        before = votes.previous() if n_before > 1 else np.int32(0)
        cells: Ints = ((votes.sources * n_before + before) * n + votes.labels).astype(np.int32)
        return cells

    def lattice(self, votes: Votes, gold: Ints | None = None, part: tuple[int, int] | None = None) -> Lattice:
        """Return the distribution of the true labels of sequences, whose log Z is the log-likelihood.

        gold (Ints | None): [T] true labels, `MISSING` where unknown.
        part (tuple[int, int] | None): The first of the sequences, and the number after the last; all if left out.
        """
        return self._lattice(votes, self.cells(votes), gold, part or (0, len(votes.offsets) - 1))

    def _lattice(self, votes: Votes, cells: Ints, gold: Ints | None, part: tuple[int, int]) -> Lattice:
        offsets = votes.offsets[part[0] : part[1] + 1]
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        emissions = np.tile(self.emissions, (tokens.stop - tokens.start, 1))
        add_scores(votes.ptr[tokens.start : tokens.stop + 1], cells, self.table, emissions)
        if self.unsaid < 1:
            emissions[self._unsaid(votes, tokens)] += np.log(self.unsaid)
        if gold is not None:
            known = np.flatnonzero(gold[tokens] >= 0)
            right = emissions[known, gold[tokens][known]]
            emissions[known] = -np.inf
            emissions[known, gold[tokens][known]] = right
        scores = Scores(emissions, self.steps[None], self.start, self.end).constrained(self.constraints)
        return Lattice(scores, offsets - offsets[0], part[0])

    def _unsaid(self, votes: Votes, tokens: slice) -> Bools:
        """Return which labels [T, L] are in spans, but no source gives them the token."""
        unsaid = np.tile(~self.constraints.outside, (tokens.stop - tokens.start, 1))
        ptr = votes.ptr[tokens.start : tokens.stop + 1]
        unsaid[np.repeat(np.arange(len(unsaid)), np.diff(ptr)), votes.labels[ptr[0] : ptr[-1]]] = False
        return unsaid

    @property
    def table(self) -> Array:
        """`votes` as a table [S * P * L, L]."""
        return self.votes.reshape(-1, self.votes.shape[-1])


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
    method: Aggregation | None = None,
    gold: Ints | None = None,
    n_threads: int = 0,
) -> LabelModel:
    """Return a label model, learned from votes without true labels, or with some.

    constraints (Constraints): Which labels may follow each other, and which are outside of spans.  Without steps, they
        do not matter for learning, only for the distribution of the true labels.
    gold (Ints | None): [T] true labels, `MISSING` where unknown.
    n_threads (int): 0 for as many as there are cores.
    RAISES DataError: If gold labels are not labels, or the constraints leave a sequence without any labelling.
    """
    method = method or Aggregation()
    if gold is not None:
        kernels.borders.check_labels(gold, votes.n_tokens, votes.n_labels, MISSING, "Gold labels")
    model = _first_model(votes, constraints, method, gold, n_threads)
    if method.kind == "majority":
        return model
    model = model if method.kind == "hmm" else model._replace(constraints=_free(constraints))
    parts, cells, values = list(shards(votes.offsets, votes.n_labels)), model.cells(votes), list[float]()
    added, converged = _added_votes(method.prior, votes, constraints.outside), False
    while not converged and len(values) <= method.max_iterations:
        counts = _expect(model, votes, cells, gold, parts, n_threads or available())
        values.append(counts.value + _log_prior(model, method, added))
        converged = len(values) > 1 and values[-1] - values[-2] <= method.tolerance * abs(values[-1])
        if not converged and len(values) <= method.max_iterations:
            model = _maximise(model, counts, votes, method, added)
    return model._replace(constraints=constraints, values=tuple(values), converged=converged)


def _first_model(
    votes: Votes, constraints: Constraints, method: Aggregation, gold: Ints | None, n_threads: int
) -> LabelModel:
    """Return the model that EM begins with: one in which all sources are as the prior expects.

    Its steps are those between the labels that Dawid & Skene's model finds, as from equal steps, EM may find spans
    everywhere; but equal where votes depend on previous votes, because one source that goes on to err misleads it.
    """
    n, n_before = votes.n_labels, votes.n_labels + 1 if method.previous else 1
    # a majority counts all votes alike, whatever they say
    outside = np.zeros(n, np.bool_) if method.kind == "majority" else constraints.outside
    expected = np.tile(method.prior.votes(outside), (len(votes.names), n_before, 1, 1))
    table = _log_shares(_tied(expected, votes, constraints.outside), 2)
    nothing = np.zeros(n)
    model = LabelModel(table, np.zeros((n, n)), nothing, nothing, nothing, constraints, unsaid=method.unsaid)
    if method.kind != "hmm":
        return model._replace(emissions=np.full(n, -np.log(n)))
    if method.previous:
        return _with_steps(model, np.zeros((n, n)), nothing, nothing, method.prior.smoothing)
    of_tokens = replace(method, kind="dawid-skene", previous=False, max_iterations=FIRST)
    single = learn(votes, constraints, of_tokens, gold, n_threads)
    parts = list(shards(votes.offsets, n))
    counts = _expect(single, votes, single.cells(votes), gold, parts, n_threads or available())
    return _with_steps(model, *counts[1:4], method.prior.smoothing)


def _added_votes(prior: Prior, votes: Votes, outside: Bools) -> Array:
    """Return the counts that are added for each source of these votes, as `Prior.votes`."""
    lacking = max(0.0, votes.n_tokens - len(votes.labels) / IDENTIFIED)
    return prior.votes(outside, prior.firmness * lacking)


def _free(constraints: Constraints) -> Constraints:
    return constraints._replace(
        start=np.ones_like(constraints.start), step=np.ones_like(constraints.step), end=np.ones_like(constraints.end)
    )


def _expect(
    model: LabelModel, votes: Votes, cells: Ints, gold: Ints | None, parts: list[tuple[int, int]], n_threads: int
) -> _Counts:
    """Return expected counts given the votes and the known labels; errors as `learn`."""

    def of_part(part: tuple[int, int]) -> _Counts:
        lattice = model._lattice(votes, cells, gold, part)
        grad, log_z = lattice.scores.zeros_like(), np.zeros(len(lattice.offsets) - 1)
        everything = np.ones(len(log_z))
        kernels.lattice.log_loss(*lattice[:2], np.zeros(0, np.int32), everything, grad, log_z=log_z)
        if not np.isfinite(log_z).all():
            number = part[0] + int((~np.isfinite(log_z)).argmax())
            raise DataError(f"Sequence {number} has no labelling: its known labels break the rules of the scheme.")
        counts, ptr = np.zeros_like(model.table), _ptr_of(votes, part)
        add_counts(ptr, cells, grad.emissions, counts)
        return _Counts(counts, grad.transitions[0], grad.start, grad.end, float(log_z.sum()))

    table, steps, ends = np.zeros_like(model.table), np.zeros_like(model.steps), np.zeros_like(model.start)
    totals = _Counts(table, steps, ends, ends, 0.0)
    for first in range(0, len(parts), n_threads):  # only the counts of a few parts exist at a time
        for counts in over(of_part, parts[first : first + n_threads], n_threads):
            totals = totals.plus(counts)
    return totals._replace(votes=totals.votes.reshape(model.votes.shape))


def _ptr_of(votes: Votes, part: tuple[int, int]) -> Offsets:
    first, last = votes.offsets[part[0]], votes.offsets[part[1]]
    return votes.ptr[first : last + 1]


def _tied(counts: Array, votes: Votes, outside: Bools) -> Array:
    """Return the counts of votes [S, P, L, L], those for true labels that a source does not have as outside of spans.

    Such a source votes as if the token were in no span, so these true labels and that one share their counts.
    """
    if votes.knows.all():
        return counts
    together = ((outside | ~votes.knows) & ~votes.knows.all(1, keepdims=True))[:, None, None, :]
    tied: Array = np.where(together, (counts * together).sum(3, keepdims=True), counts)
    return tied


def _maximise(model: LabelModel, counts: _Counts, votes: Votes, method: Aggregation, added: Array) -> LabelModel:
    """Return the model that maximises the expected objective, with the votes that the prior adds, as `Prior.votes`."""
    table = _log_shares(_tied(counts.votes + added, votes, model.constraints.outside), 2)
    if method.kind == "hmm":
        return _with_steps(model._replace(votes=table), *counts[1:4], method.prior.smoothing)
    labels = counts.steps.sum(0) + counts.start
    return model._replace(votes=table, emissions=_log_shares(labels + method.prior.smoothing, 0))


def _with_steps(model: LabelModel, steps: Array, start: Array, end: Array, smoothing: float) -> LabelModel:
    """Return the model with the probabilities of the next label, the first label and the end by their counts."""
    rules = model.constraints
    may_follow = np.column_stack([rules.step, rules.end])
    following = _log_shares((np.column_stack([steps, end]) + smoothing) * may_follow, 1)
    begins = _log_shares((start + smoothing) * rules.start, 0)
    return model._replace(steps=following[:, :-1].copy(), start=begins, end=following[:, -1].copy())  # contiguous


def _log_shares(counts: Array, axis: int) -> Array:
    """Return the logs of shares along an axis; minus infinity for a count of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a label that nothing may follow has no shares
        shares = counts / counts.sum(axis, keepdims=True)
        logs: Array = np.log(np.where(np.isnan(shares), 0.0, shares))
    return logs


def _log_prior(model: LabelModel, method: Aggregation, added: Array) -> float:
    """Return the sum over parameters of the count that the prior adds, times log p."""
    smoothing = method.prior.smoothing
    with np.errstate(invalid="ignore"):
        value = float(np.where(added > 0, added * model.votes, 0.0).sum())
    for logs in (model.steps, model.start, model.end) if method.kind == "hmm" else (model.emissions,):
        value += smoothing * float(logs[np.isfinite(logs)].sum())
    return value
