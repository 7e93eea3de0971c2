"""The score of a labelling as a sum: the contribution of each feature, transition and boundary.

The addends of a token are the weights of its features for its label, those of its bigram features and the transition
from the previous label, start and end scores, minus infinity if a tag dictionary forbids the label, and the scores of
added potentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..features.encoder import Active
from ..model import LinearChainCRF
from ..types import Ints, Offsets, Scores
from .weights import Entries, entries

UNIGRAM, BIGRAM, TRANSITION, START, END, DICTIONARY, ADDED = range(7)
KINDS = ("unigram", "bigram", "transition", "start", "end", "dictionary", "added")
"""Names of the kinds of addends, by index."""


class _Group(NamedTuple):
    """Addends of one kind and template: one at each of some tokens."""

    kind: int
    template: int
    tokens: Offsets
    features: Ints


def _bare(kind: int, tokens: Offsets) -> _Group:
    return _Group(kind, -1, tokens, np.full(len(tokens), -1, np.int32))


class Addends:
    """The M addends of the scores of all labellings of one text with T tokens, sorted by token.

    tokens (Offsets): [M] the token to whose score each one belongs.
    kinds (NDArray[np.int64]): [M] indices into `KINDS`.
    templates, places (NDArray[np.int64]): [M] the template in its block, -1 for none, and the entry in its `Active`.
    """

    def __init__(
        self,
        crf: LinearChainCRF,
        active: tuple[Sequence[Active], Sequence[Active]],
        offsets: Offsets,
        words: Ints | None = None,
        weights: tuple[Entries, Entries] | None = None,
        added: Scores | None = None,
    ) -> None:
        """List the addends.

        active (tuple): The features of the text, for each template of both blocks.
        offsets (Offsets): [N + 1] its sequences.
        words (Ints | None): [T] numbers in the tag dictionary, as ``Encoded.words``.
        weights (tuple | None): The model's `entries`, if already made.
        added (Scores | None): Scores of added potentials.
        """
        self._crf, self._words, self._added = crf, words, added
        self._weights = entries(crf) if weights is None else weights
        self._before = np.arange(-1, int(offsets[-1]) - 1)  # the previous token of each, -1 at the start
        long = np.diff(offsets) > 0
        self._before[offsets[:-1][long]] = -1
        inner = np.flatnonzero(self._before >= 0)
        groups = [_Group(UNIGRAM, one.template, one.tokens, one.features) for one in active[0]]
        for one in active[1]:
            has_step = self._before[one.tokens] >= 0
            groups.append(_Group(BIGRAM, one.template, one.tokens, np.where(has_step, one.features, -1)))
        groups += [_bare(TRANSITION, inner), _bare(START, offsets[:-1][long]), _bare(END, offsets[1:][long] - 1)]
        if words is not None:
            groups.append(_bare(DICTIONARY, np.flatnonzero(words >= 0)))
        if added is not None:
            groups.append(_bare(ADDED, np.arange(int(offsets[-1]))))
            self._last = np.isin(np.arange(int(offsets[-1])), offsets[1:] - 1)
        sizes = [len(group.tokens) for group in groups]
        tokens = np.concatenate([group.tokens for group in groups])
        order = np.argsort(tokens, kind="stable")
        self.tokens = tokens[order]
        self.kinds = np.repeat([group.kind for group in groups], sizes)[order]
        self.templates = np.repeat([group.template for group in groups], sizes)[order]
        self.places = np.concatenate([np.arange(size) for size in sizes])[order]
        self._attributes = np.concatenate([group.features for group in groups])[order]

    def of_tokens(self, first: int, last: int) -> slice:
        """Return the indices of the addends of the tokens first..last-1."""
        return slice(*np.searchsorted(self.tokens, [first, last]).tolist())

    def amounts(self, labels: Ints, which: slice = slice(None)) -> NDArray[np.float64]:
        """Return the amounts of some addends in the score of labels [T]."""
        tokens, kinds, features = self.tokens[which], self.kinds[which], self._attributes[which]
        here, views = labels[tokens].astype(np.int64), self._crf.views
        before = labels[self._before[tokens]].astype(np.int64)  # unused at the start
        out = np.zeros(len(tokens))
        columns = (here, before * self._crf.layout.n_labels + here)
        for kind, weights, column in zip((UNIGRAM, BIGRAM), self._weights, columns, strict=True):
            mine = kinds == kind
            out[mine] = weights.look_up(features[mine], column[mine])
        for kind, values in (
            (TRANSITION, views.transitions[before, here]),
            (START, views.start[here]),
            (END, views.end[here]),
        ):
            out[kinds == kind] = values[kinds == kind]
        if self._crf.dictionary is not None and self._words is not None:
            mine = kinds == DICTIONARY
            allowed = self._crf.dictionary.allowed[self._words[tokens[mine]], here[mine]]
            out[mine] = np.where(allowed, 0.0, -np.inf)
        if self._added is not None:
            mine = kinds == ADDED
            out[mine] = self._amounts_added(labels, tokens[mine], self._added)
        return out

    def _amounts_added(self, labels: Ints, tokens: Offsets, scores: Scores) -> NDArray[np.float64]:
        """Return the added potentials' scores of some tokens, including the transition to each and the boundaries."""
        here, before = labels[tokens], self._before[tokens]
        step = scores.transitions[tokens if len(scores.transitions) > 1 else 0, labels[before], here]
        amounts = scores.emissions[tokens, here] + np.where(before >= 0, step, scores.start[here])
        return np.asarray(amounts + np.where(self._last[tokens], scores.end[here], 0.0), np.float64)


class BestThrough:
    """The best labelling with any given label of any given token, by Viterbi passes from both sides.

    scores (Scores): Scores of T tokens, minus infinity for forbidden labels.
    offsets (Offsets): [N + 1] the sequences.
    """

    def __init__(self, scores: Scores, offsets: Offsets) -> None:
        emissions, transitions, start, end = (array.astype(np.float64) for array in scores)
        n_tokens, n = emissions.shape
        steps = np.broadcast_to(transitions, (n_tokens, n, n))
        self._offsets = offsets
        self._left, self._right = np.empty((n_tokens, n)), np.empty((n_tokens, n))
        self._previous, self._next = np.zeros((n_tokens, n), np.int64), np.zeros((n_tokens, n), np.int64)
        every = np.arange(n)
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            for t in range(first, last):
                if t == first:
                    self._left[t] = start + emissions[t]
                    continue
                reached = self._left[t - 1][:, None] + steps[t]
                self._previous[t] = reached.argmax(0)
                self._left[t] = reached[self._previous[t], every] + emissions[t]
            for t in range(last - 1, first - 1, -1):
                if t == last - 1:
                    self._right[t] = end
                    continue
                reached = steps[t + 1] + emissions[t + 1] + self._right[t + 1]
                self._next[t] = reached.argmax(1)
                self._right[t] = reached[every, self._next[t]]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The score [T, L] of the best labelling of a token's sequence with a given label of the token."""
        return self._left + self._right

    def labelling(self, token: int, label: int, labels: Ints) -> Ints:
        """Return labels [T], in which the token's sequence has its best labelling with that label."""
        sequence = int(np.searchsorted(self._offsets, token, side="right")) - 1
        first, last = self._offsets[sequence : sequence + 2].tolist()
        out = labels.copy()
        out[token] = label
        for t in range(token, first, -1):
            out[t - 1] = self._previous[t, out[t]]
        for t in range(token, last - 1):
            out[t + 1] = self._next[t, out[t]]
        return out
