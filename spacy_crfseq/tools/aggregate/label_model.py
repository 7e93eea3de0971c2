"""Label models: the true labels of texts given the votes of many doubtful sources, and how far to trust each source.

With true labels y and votes w of the sources s that do not abstain::

    P(y, w) = P(y_1) prod_t P(y_t | y_{t-1})  P(end | y_T)  prod_{t,s} P(w_{t,s} | y_t, s)

The functions of the registry crf_label_models find the parameters: `Majority` here, and those that learn by EM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ... import kernels, registry
from ...errors import ConfigError, suggest
from ...inference.lattice import Lattice
from ...types import MISSING, Bools, Constraints, Ints, Scores
from ...votes import MethodSettings, Votes
from .kernels import add_scores
from .settings_text import split_settings, value_of

Array: TypeAlias = NDArray[np.float64]


class LabelModel(NamedTuple):
    """The parameters of a label model, for the votes of the sources that it was learned from.

    votes (Array): [S, P, L, L] log P(vote | true label), the true label last.  P is 1, or L + 1 where votes depend on
        the source's vote before, which is none in the last case; 0 for a source that copies another.
    steps, start, end (Array): [L, L], [L], [L] log P of the next label, the first label and the end.
    emissions (Array): [L] log P of the label of a token in a model without steps, else 0.
    constraints (Constraints): Which labels may follow each other.
    values (tuple[float, ...]): The objective before each iteration and at the end.
    converged (bool): Whether it has stopped to rise.
    unsaid (float): Factor of the probability of a label in a span at a token to which no source gives that label.
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

    def lattice(
        self, votes: Votes, gold: Ints | None = None, part: tuple[int, int] | None = None, cells: Ints | None = None
    ) -> Lattice:
        """Return the distribution of the true labels of sequences, whose log Z is the log-likelihood.

        gold (Ints | None): [T] true labels, `MISSING` where unknown.
        part (tuple[int, int] | None): The first of the sequences, and the number after the last; all if left out.
        cells (Ints | None): The result of `cells`, if there is one.
        """
        first, last = part or (0, len(votes.offsets) - 1)
        offsets = votes.offsets[first : last + 1]
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        emissions = np.tile(self.emissions, (tokens.stop - tokens.start, 1))
        rows = self.cells(votes) if cells is None else cells
        add_scores(votes.ptr[tokens.start : tokens.stop + 1], rows, self.table, emissions)
        if self.unsaid < 1:
            emissions[self._unsaid(votes, tokens)] += np.log(self.unsaid)
        if gold is not None:
            labelled = np.flatnonzero(gold[tokens] >= 0)
            right = emissions[labelled, gold[tokens][labelled]]
            emissions[labelled] = -np.inf
            emissions[labelled, gold[tokens][labelled]] = right
        scores = Scores(emissions, self.steps[None], self.start, self.end).constrained(self.constraints)
        return Lattice(scores, offsets - offsets[0], first)

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


@runtime_checkable
class LabelModelMethod(Protocol):
    """How to make a label model of votes; a function of the registry crf_label_models returns one."""

    def __call__(
        self,
        votes: Votes,
        constraints: Constraints,
        gold: Ints | None = None,
        start: LabelModel | None = None,
    ) -> LabelModel:
        """Return the parameters of the true labels, and of the votes of each source given these.

        votes (Votes): The labels that sources give tokens; a source that says nothing of a token has no vote there.
        constraints (Constraints): Which labels may follow each other, and which are outside of spans.
        gold (Ints | None): [T] true labels, `MISSING` where unknown; None for none.
        start (LabelModel | None): A model of the same sources and labels to begin with; a method without iterations
            needs none.
        RAISES DataError: If gold labels are not labels, or leave a sequence without any labelling, or if the model to
            begin with is of other sources or labels.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Majority:
    """The label that most sources give a token (registered as ``spacy_crfseq.Majority.v1``).

    All sources are trusted alike, and nothing is learned.

    noise (float): Share of the votes that are wrong.
    unsaid (float): Factor of the probability of a label in a span at a token to which no source gives that label.
    RAISES ConfigError: On a setting out of range.
    """

    noise: float = 0.05
    unsaid: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.noise < 1:
            raise ConfigError(f"{type(self).__name__}: noise must be between 0 and 1, not {self.noise}.")
        if not 0 < self.unsaid <= 1:
            raise ConfigError(f"{type(self).__name__}: unsaid must be above 0 and at most 1, not {self.unsaid}.")

    def __call__(
        self,
        votes: Votes,
        constraints: Constraints,
        gold: Ints | None = None,
        start: LabelModel | None = None,
    ) -> LabelModel:
        """Return a model in which all sources have the same share of right votes."""
        check_gold(votes, gold)
        # of tokens in spans and of others alike
        added = expected_votes(np.zeros(votes.n_labels, np.bool_), noise=self.noise)
        return with_equal_labels(votes, constraints, added, self.unsaid)


def check_gold(votes: Votes, gold: Ints | None) -> None:
    """Raise DataError if some true labels are not those of the labels that votes are for."""
    if gold is not None:
        kernels.borders.check_labels(gold, votes.n_tokens, votes.n_labels, MISSING, "Gold labels")


def with_equal_labels(
    votes: Votes, constraints: Constraints, expected: Array, unsaid: float, n_before: int = 1
) -> LabelModel:
    """Return a model without steps in which all sources vote alike, and all labels are as frequent.

    expected (Array): [L, L] counts of votes of each source; axis 1 is the true label.
    n_before (int): P, see `LabelModel`.
    """
    n = votes.n_labels
    table = np.tile(expected, (len(votes.names), n_before, 1, 1))
    shares, nothing = log_shares(tied(table, votes, constraints.outside), 2), np.zeros(n)
    return LabelModel(shares, np.zeros((n, n)), nothing, nothing, np.full(n, -np.log(n)), constraints, unsaid=unsaid)


def expected_votes(outside: Bools, recall: float = 0.6, noise: float = 0.05) -> NDArray[np.float64]:
    """Return the expected shares of votes [L, L]; axis 1 is the true label.

    outside (Bools): [L] the labels of tokens in no span.  A source that misses a token in a span mostly gives it one of
        these.
    recall, noise (float): As in `DawidSkene`.
    """
    n, shares = len(outside), np.eye(len(outside))
    for label in range(n if n > 1 else 0):
        others = np.arange(n) != label
        in_span = outside.any() and not outside[label]
        missed = 1 - recall if in_span else noise
        wrong = np.where(others, noise if in_span else 1.0, 0.0)
        wrong[outside & others] = 1.0
        shares[:, label] = missed * wrong / wrong.sum()
        shares[label, label] = 1 - missed
    return shares


def tied(counts: Array, votes: Votes, outside: Bools) -> Array:
    """Return the counts of votes [S, P, L, L], those for true labels that a source does not have as outside of spans.

    Such a source votes as if the token were in no span, so these true labels and that one share their counts.
    """
    if votes.knows.all():
        return counts
    together = ((outside | ~votes.knows) & ~votes.knows.all(1, keepdims=True))[:, None, None, :]
    tied: Array = np.where(together, (counts * together).sum(3, keepdims=True), counts)
    return tied


def log_shares(counts: Array, axis: int) -> Array:
    """Return the logs of shares along an axis; minus infinity for a count of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a label that nothing may follow has no shares
        shares = counts / counts.sum(axis, keepdims=True)
        logs: Array = np.log(np.where(np.isnan(shares), 0.0, shares))
    return logs


def parse_method(text: str) -> MethodSettings:
    """Return the label model that a text of a user names, such as "hmm,previous=true", with its settings.

    text (str): The name of a function of the registry crf_label_models, or the middle part of it in any case, then its
        settings after commas.
    RAISES ConfigError: If there is no such function, or a setting is given twice.
    """
    name, settings = split_settings(text)
    names = registry.label_models.get_all()
    full = name if name in names else {_plain(registered): registered for registered in names}.get(_plain(name))
    if full is None:
        raise ConfigError(f"--label-model {name}: unknown. {suggest(name, names)}")
    return MethodSettings(full, {setting: value_of(value) for setting, value in settings.items()})


def _plain(name: str) -> str:
    """Return the middle part of the name of a function without case and hyphens."""
    return re.sub(r"\.v\d+$", "", name).rpartition(".")[2].casefold().replace("-", "")
