"""The parts of a text that a posterior works on: chains over labels, or over states where occurrences are limited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..types import Bools, Constraints, Floats, Ints, OccurrenceRules, Offsets, Scores


class Flow(NamedTuple):
    """The posterior of one sequence over states: their labels and probabilities [T, S], P(state | state before) [T, S, S]."""

    states: Ints
    mass: Floats
    steps: Floats

    def span_probabilities(self, labels: Ints, starts: Offsets, ends: Offsets, inside: Bools) -> list[float]:
        """Return the probabilities of spans; arguments as in `kernels.lattice.span_probabilities`."""
        found, states = [], self.states
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            mass = self.mass[0] * (states[0] == labels[0])
            if start > 0:
                mass = self.mass[start - 1] * ~inside[states[start - 1], labels[start]]
            for t in range(max(start, 1), min(end + 1, len(states))):
                fits = states[t] == labels[t] if t < end else ~inside[labels[end - 1], states[t]]
                mass = mass @ self.steps[t] * fits
            found.append(float(mass.sum()))
        return found

    def expected_spans(self, constraints: Constraints) -> float:
        """Return the expected number of spans."""
        total = self.mass[0, ~constraints.outside[self.states[0]]].sum()
        for t in range(1, len(self.states)):
            begins = (
                ~constraints.inside[np.ix_(self.states[t - 1], self.states[t])] & ~constraints.outside[self.states[t]]
            )
            total += (self.mass[t - 1] @ (self.steps[t] * begins)).sum()
        return float(total)


class Piece(NamedTuple):
    """The constrained scores of some sequences.

    tokens, sequences (slice): Their places in the whole text.
    states (Ints | None): [T, S] the labels of states, if the scores are those of `kernels.occurrences.state_chain`;
        then it is one sequence.
    missing (float): Upper bound of the probability of what these states leave out.
    """

    scores: Scores
    offsets: Offsets
    tokens: slice
    sequences: slice
    states: Ints | None = None
    missing: float = 0.0

    def by_state(self, rules: OccurrenceRules) -> Iterator[Piece]:
        """Yield each sequence with its scores under the rules."""
        for number, (b, e) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            shared = len(self.scores.transitions) == 1
            steps = self.scores.transitions if shared else self.scores.transitions[b:e]
            here = self.scores._replace(emissions=self.scores.emissions[b:e], transitions=steps)
            first, place = self.tokens.start, self.sequences.start + number
            piece = Piece(here, np.array([0, e - b]), slice(first + b, first + e), slice(place, place + 1))
            if e > b:
                scores, states, missing = kernels.occurrences.state_chain(here, rules)
                piece = piece._replace(scores=scores, states=states, missing=missing)
            yield piece

    def flow(self) -> Flow:
        """Return the posterior of the states, which there must be."""
        assert self.states is not None
        chain = kernels.chain.make_chain(self.scores, self.offsets)
        steps = np.zeros_like(self.scores.transitions)
        mass = np.exp(chain.ahead)  # of the first token; the others follow
        for t in range(1, len(mass)):
            possible = np.where(np.isneginf(chain.beta[t - 1]), np.inf, chain.beta[t - 1])
            steps[t] = np.exp(self.scores.transitions[t] + chain.ahead[t] - possible[:, None])
            mass[t] = mass[t - 1] @ steps[t]
        return Flow(self.states, mass, steps)

    def labels(self, found: Ints) -> Ints:
        """Return the labels [k, T] of numbers of states or labels; -1 stays."""
        if self.states is None:
            return found
        return np.where(found < 0, found, self.states[np.arange(len(self.states)), found])

    def by_label(self, marginals: Floats, n_labels: int) -> Floats:
        """Return the marginals of labels [T, L], given those of states or labels."""
        if self.states is None:
            return marginals
        out = np.zeros((len(marginals), n_labels))
        np.add.at(out, (np.arange(len(marginals))[:, None], self.states), marginals)
        return out
