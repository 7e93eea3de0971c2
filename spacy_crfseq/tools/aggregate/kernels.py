"""Loops over votes: the scores of true labels given votes, counts of votes given true labels, agreement of sources.

Letters: T tokens, V votes, L labels, S sources, C cells, a row [L] of a table for what a source may say.
"""

from __future__ import annotations

from ...kernels.jit import kernel
from ...types import Floats, Ints, Offsets


@kernel
def add_scores(ptr: Offsets, cells: Ints, table: Floats, scores: Floats) -> None:
    """Add the row of the cell of each vote in table [C, L] to the scores [T, L] of its token."""
    n = table.shape[1]
    for t in range(scores.shape[0]):  # one token after another
        row = scores[t]
        for v in range(ptr[t], ptr[t + 1]):  # its votes
            cell = table[cells[v]]
            for k in range(n):
                row[k] += cell[k]


@kernel
def add_counts(tokens: Offsets, ptr: Offsets, cells: Ints, shares: Floats, counts: Floats) -> None:
    """Add the probabilities of the true labels [M, L] of tokens [M] to the rows of the cells of their votes, [C, L].

    The votes [V] of token t are ``ptr[t]:ptr[t + 1]``; a token may come several times.
    """
    n = counts.shape[1]
    for m in range(tokens.shape[0]):  # one token after another
        row = shares[m]
        for v in range(ptr[tokens[m]], ptr[tokens[m] + 1]):  # its votes
            cell = counts[cells[v]]
            for k in range(n):
                cell[k] += row[k]


@kernel
def add_agreements(
    tokens: Offsets, ptr: Offsets, sources: Ints, labels: Ints, cells: Ints, table: Floats, shares: Floats, out: Floats
) -> None:
    """Compare all pairs of votes at some tokens.

    tokens: [M] numbers of tokens.
    ptr: [T + 1] as in `Votes`.
    sources: [V] numbers of sources; votes of negative ones do not count.
    labels: [V] the votes.
    cells: [V] their rows in the table.
    table: [C, L] P(vote | true label); the cells of the L votes that are possible in one case stand together.
    shares: [M, L] probabilities of the true labels of the tokens.
    out: [4, S, S] for sources a < b, to which are added: tokens at which both vote, at which they differ, and the
        expectation and the variance of the latter if they err independently.
    """
    n = shares.shape[1]
    for m in range(tokens.shape[0]):  # one token after another
        first, last = ptr[tokens[m]], ptr[tokens[m] + 1]
        for v in range(first, last):  # pairs of its votes
            for w in range(v + 1, last if sources[v] >= 0 else v + 1):
                a, b = sources[v], sources[w]
                if b < 0:
                    continue
                begin_a, begin_b, together = cells[v] - labels[v], cells[w] - labels[w], 0.0
                for j in range(n):  # what both may say
                    for k in range(n):  # and what may be true
                        together += shares[m, k] * table[begin_a + j, k] * table[begin_b + j, k]
                apart = max(0.0, 1.0 - together)
                out[0, a, b] += 1
                out[1, a, b] += 1.0 if labels[v] != labels[w] else 0.0
                out[2, a, b] += apart
                out[3, a, b] += apart * (1.0 - apart)
