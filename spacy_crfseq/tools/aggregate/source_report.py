"""A report on sources: how much each says, how often it is right, where it stands alone, and who may copy whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels import borders
from ...threads import shards
from ...types import MISSING, Bools, Floats, Ints
from ...votes import Votes
from .._pages.charts import wilson
from .kernels import add_agreements, add_counts
from .label_model import LabelModel

MOST = 500
"""Sources that are compared in pairs: those with the most votes."""
PAIRS = 2_000_000
"""Pairs of votes that are compared, at most about; the tokens are spread over the text."""
CERTAIN = 4.0
"""Standard deviations by which two sources must disagree less often than expected."""
ALIKE = 0.5
"""Share of the disagreements that were expected up to which two sources may be copies."""
ALONE = 0.9
"""Share of the votes of a source for a label at which no other source votes, from which on their errors are unknown."""
TOLD = 30
"""Gold labels at votes of a source for a label from which on they show how often it is right."""


class SourceRow(NamedTuple):
    """The figures of a source for one label, or for all labels together.  Counts and shares are those of tokens.

    coverage (float): Share of all tokens that it gives the label.
    precision, recall (float): Expected shares of correct votes among those for the label, and of votes for the label
        among those for tokens that have it; nan where there are none.  Tokens at which it abstains do not count, and
        a label that it does not have is to it as none: such tokens are outside of spans.
    precision_interval, recall_interval: Their score intervals at 95 % (Wilson 1927), which say how few votes there are,
        not how far the model is right.
    conflicts (float): Share of its votes for the label where another source says something else.
    assumed (bool): Whether precision and recall are those of the prior, because hardly any other source that has the
        label votes where it gives the label, and there are hardly any gold labels.
    """

    source: str
    label: str
    votes: int
    coverage: float
    precision: float
    precision_interval: tuple[float, float]
    recall: float
    recall_interval: tuple[float, float]
    conflicts: float
    assumed: bool = False


class Copies(NamedTuple):
    """Two sources that disagree much less often than if they erred independently.

    tokens, apart (int): At which both vote, and a third source or a gold label judges them, and at which they differ.
    expected (float): At which they would differ.
    """

    first: str
    second: str
    tokens: int
    apart: int
    expected: float

    def __str__(self) -> str:
        return (
            f"{self.first!r} and {self.second!r} differ at {self.apart:,} of {self.tokens:,} tokens that a third "
            f"source or a gold label judges, too, where {self.expected:,.0f} were expected: one may copy the other, "
            "so that their errors count twice. Leave one of them out."
        )


def report(
    votes: Votes, shares: Floats, groups: Ints, labels: Sequence[str], gold: Ints | None = None
) -> list[SourceRow]:
    """Return rows for each source and label, and for each source and all labels but the first group together.

    shares (Floats): [T, L] probabilities of the true labels, from a label model; rows of 0 at tokens that do not count.
    groups (Ints): [L] the number of the row of each label, such as that of the type of a tag; 0 is that of tokens
        outside of spans, or -1 is added to all where there is no such label.
    labels (Sequence[str]): [G] names of the groups.
    gold (Ints | None): [T] gold labels that the label model has learned from, `MISSING` where unknown.
    """
    n, n_sources = votes.n_labels, len(votes.names)
    counts = np.zeros((n_sources * n, n))
    every, cells = np.arange(votes.n_tokens), votes.sources * np.int32(n) + votes.labels
    add_counts(every, votes.ptr, cells, np.ascontiguousarray(shares, np.float64), counts)
    seen = counts.reshape(n_sources, n, n)
    if (groups == 0).any():
        outside = int((groups == 0).argmax())
        seen[:, :, outside] += np.where(votes.knows[:, None], 0, seen).sum(2)
    seen = seen * votes.knows[:, None]
    right, said, true = seen[:, np.arange(n), np.arange(n)], seen.sum(2), seen.sum(1)
    given = np.bincount(votes.sources * n + votes.labels, minlength=n_sources * n).reshape(n_sources, n)
    conflicts, lonely = _conflicts(votes), _per_label(votes, ~_has_company(votes))
    told = np.zeros_like(given) if gold is None else _per_label(votes, gold[votes.tokens] != MISSING)
    members = np.arange(len(labels))[:, None] == groups
    rows = [*members, (groups > 0)] if (groups == 0).any() else [*members, groups >= 0]

    def row(source: int, name: str, tags: NDArray[np.bool_]) -> SourceRow:
        n_votes, correct = int(given[source, tags].sum()), float(right[source, tags].sum())
        of_votes, of_true = float(said[source, tags].sum()), float(true[source, tags].sum())
        return SourceRow(
            votes.names[source], name, n_votes, n_votes / max(1, votes.n_tokens),
            _share(correct, of_votes), _interval(correct, of_votes),
            _share(correct, of_true), _interval(correct, of_true),
            _share(float(conflicts[source, tags].sum()), n_votes),
            bool(n_votes and lonely[source, tags].sum() >= ALONE * n_votes and told[source, tags].sum() < TOLD),
        )  # fmt: skip

    names = [*labels, "all"]
    return list(starmap(row, ((s, *pair) for s in range(n_sources) for pair in zip(names, rows, strict=True))))


def _share(part: float, total: float) -> float:
    return part / total if total > 0 else float("nan")


def _interval(part: float, total: float) -> tuple[float, float]:
    return wilson(min(1.0, part / total), max(1, round(total))) if total > 0 else (0.0, 1.0)


def _conflicts(votes: Votes) -> NDArray[np.int64]:
    """Return how many votes of each source for each label [S, L] stand beside another vote for another label."""
    filled = np.flatnonzero(np.diff(votes.ptr))
    lowest, highest = np.zeros((2, votes.n_tokens), np.int32)
    if len(filled):
        lowest[filled] = np.minimum.reduceat(votes.labels, votes.ptr[filled])
        highest[filled] = np.maximum.reduceat(votes.labels, votes.ptr[filled])
    return _per_label(votes, (lowest != highest)[votes.tokens])


def _per_label(votes: Votes, chosen: Bools) -> NDArray[np.int64]:
    """Return how many of the chosen votes [V] each source gives each label [S, L]."""
    n = len(votes.names) * votes.n_labels
    cells = votes.sources[chosen] * votes.n_labels + votes.labels[chosen]
    return np.bincount(cells, minlength=n).reshape(len(votes.names), votes.n_labels)


def _has_company(votes: Votes) -> Bools:
    """Return at which votes [V] another source that has the label votes, too."""
    company = np.zeros(len(votes.labels), np.bool_)
    kinds, of_label = np.unique(votes.knows, axis=1, return_inverse=True)
    of_vote = of_label.reshape(-1)[votes.labels]
    for kind, has in enumerate(kinds.T):
        chosen = of_vote == kind
        n_votes = np.bincount(votes.tokens[has[votes.sources]], minlength=votes.n_tokens)
        company[chosen] = n_votes[votes.tokens[chosen]] > 1
    return company


def gold_report(votes: Votes, gold: Ints, groups: Ints, labels: Sequence[str]) -> list[SourceRow]:
    """Return the rows of `report`, counted against gold labels [T], `MISSING` where unknown: none is assumed.

    RAISES DataError: If a number is not that of a label.
    """
    borders.check_labels(gold, votes.n_tokens, votes.n_labels, MISSING, "Gold labels")
    shares: Floats = (gold[:, None] == np.arange(votes.n_labels)).astype(np.float64)
    return [row._replace(assumed=False) for row in report(votes, shares, groups, labels)]


def find_copies(model: LabelModel, votes: Votes, gold: Ints | None = None) -> list[Copies]:
    """Return the pairs of sources that disagree much less often than their errors let expect, nearest first.

    The expectation is that of a model in which sources err independently, given the labels that it infers.  A source
    that copies another is found as long as others tell where both err: tokens at which no third one votes, and which
    have no gold label, do not count.
    """
    by_votes = np.argsort(-np.bincount(votes.sources, minlength=len(votes.names)), kind="stable")[:MOST]
    places = np.full(len(votes.names), -1, np.int32)
    compared = np.sort(by_votes)
    places[compared] = np.arange(len(compared))
    out = np.zeros((4, len(compared), len(compared)))
    table = np.exp(model.votes[votes.originals()].reshape(model.table.shape))
    sources, cells = places[votes.sources], model.cells(votes)
    for tokens, shares in _sample(model, votes, gold):
        add_agreements(tokens, votes.ptr, sources, votes.labels, cells, table, shares, out)
    both, apart, expected, variance = out
    fewer = expected - apart
    strange = (fewer > CERTAIN * np.sqrt(variance)) & (apart <= ALIKE * expected)
    pairs = np.argwhere(strange)
    pairs = pairs[np.argsort((apart[strange] / expected[strange]), kind="stable")]
    names = [votes.names[source] for source in compared]
    return [
        Copies(names[a], names[b], int(both[a, b]), int(apart[a, b]), float(expected[a, b])) for a, b in pairs
    ]  # fmt: skip


def _sample(model: LabelModel, votes: Votes, gold: Ints | None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield tokens of judged pairs and the probabilities of their labels, so few that comparing them is quick.

    Only a third vote or a gold label tells where two votes that agree are wrong.
    """
    several = np.diff(votes.ptr)
    n_pairs = int((several * (several - 1) // 2).sum())
    every = -(-n_pairs // PAIRS)
    for number, part in enumerate(shards(votes.offsets, votes.n_labels)):
        first, last = votes.offsets[part[0]], votes.offsets[part[1]]
        judged = several[first:last] > 2
        if gold is not None:
            judged |= (several[first:last] > 1) & (gold[first:last] != MISSING)
        tokens = first + np.flatnonzero(judged)
        tokens = np.ascontiguousarray(tokens[number % max(1, every) :: max(1, every)])
        if len(tokens):
            shares = model.lattice(votes, gold, part).marginals()
            yield tokens, np.ascontiguousarray(shares[tokens - first], np.float64)
