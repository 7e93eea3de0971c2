"""Answers about the words of texts, spread over all of their tokens: those between words are no positions of a chain.

The label of such a token follows from a word: the next word of its sequence says whether a span goes on across it.
If labels are plain, which means that they mark no spans, it repeats the label of a word beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Decoder, Floats, Ints, Offsets
from .lattice import NBest
from .posterior import Posterior


class Spread(NamedTuple):
    """The places of the W words of a text among its T tokens, and the words from which the other tokens follow.

    places (Offsets): [W] the tokens that are words, in order.
    source (Offsets): [T] the word that each token's label follows from, for a word itself; -1 for none.
    between (Ints): [L] for each label of a word, that of a token that follows from it.
    nothing (int): The label of a token that follows from no word.
    n_labels (int): The number of labels of tokens; those from L on are for tokens between words alone.
    plain (bool): Whether labels mark no spans.
    offsets (Offsets): [N + 1] tokens of the sequences.
    """

    places: Offsets
    source: Offsets
    between: Ints
    nothing: int
    n_labels: int
    plain: bool
    offsets: Offsets

    def labels(self, of_words: Ints) -> Ints:
        """Return labels [..., T] for those of words [..., W]; -1 stays."""
        follows = np.append(self.between, -1).astype(of_words.dtype)[of_words]
        nothing = np.full((*of_words.shape[:-1], 1), self.nothing, of_words.dtype)
        out: Ints = np.concatenate([follows, nothing], axis=-1)[..., self.source]
        out[..., self.places] = of_words
        return out

    def marginals(self, of_words: Floats) -> Floats:
        """Return marginals of the labels of tokens [T, n_labels] for those of words [W, L]."""
        out = np.zeros((len(self.source), self.n_labels), of_words.dtype)
        others = np.ones(len(out), np.bool_)
        others[self.places] = False
        places = np.flatnonzero(others & (self.source >= 0))
        out[self.places, : of_words.shape[1]] = of_words
        out[places] = of_words[self.source[places]] @ np.eye(self.n_labels, dtype=of_words.dtype)[self.between]
        out[self.source < 0, self.nothing] = 1
        return out

    def spans(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets, Bools]:
        """Return spans of tokens [S] as spans of words [S], and which of them are possible [S]: from a word to a word.

        Plain labels are those of all words of the tokens, of which there must be one.
        """
        first, after = np.searchsorted(self.places, starts), np.searchsorted(self.places, ends)
        possible = first < after
        if not self.plain:
            places = np.append(self.places, -1)  # where there is no word
            possible &= (places[first] == starts) & (places[after - 1] == ends - 1)
        return first, after, possible


class SpreadPosterior:
    """The distribution of the labels of all tokens; methods as of `Posterior`.

    word_posterior (Posterior): That of the words.
    of_spans (Callable | None): Returns the probabilities of spans of words in place of
        ``word_posterior.span_probabilities``.
    """

    def __init__(
        self,
        word_posterior: Posterior,
        spread: Spread,
        of_spans: Callable[[Ints, Offsets, Offsets], NDArray[np.float64]] | None = None,
    ) -> None:
        self.word_posterior, self.spread = word_posterior, spread
        self._of_spans = of_spans or word_posterior.span_probabilities

    @property
    def offsets(self) -> Offsets:
        """Token offsets [N + 1] of the sequences."""
        return self.spread.offsets

    @property
    def n_tokens(self) -> int:
        """T."""
        return len(self.spread.source)

    @property
    def temperature(self) -> float:
        """The divisor of the scores."""
        return self.word_posterior.temperature

    def decode(self, decoder: Decoder, n_threads: int = 1, exact: Bools | None = None) -> Ints:
        """Return the chosen label of every token [T]."""
        return self.spread.labels(self.word_posterior.decode(decoder, n_threads, exact))

    def marginals(self) -> Floats:
        """Return P(y_t = k | x) [T, n_labels]."""
        return self.spread.marginals(self.word_posterior.marginals())

    def missing(self) -> NDArray[np.float64]:
        """Return upper bounds of the probability [N] that all answers leave out under rules."""
        return self.word_posterior.missing()

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each sequence's labellings [N], in nats."""
        return self.word_posterior.entropies()

    def label_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return the marginal probabilities [T] of labels [T]."""
        shares = self.marginals()[np.arange(self.n_tokens), labels].astype(np.float64)
        return np.minimum(shares, 1.0)  # rounding in float32

    def log_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return log P(labels | x) of each sequence [N], by the labels of its words."""
        return self.word_posterior.log_probabilities(labels[self.spread.places])

    def span_probabilities(self, labels: Ints, starts: Offsets, ends: Offsets) -> NDArray[np.float64]:
        """Return the probabilities of spans [S]."""
        first, after, possible = self.spread.spans(starts, ends)
        own = labels[self.spread.places]
        other = own >= len(self.spread.between)
        n_others = np.append(0, np.cumsum(other))
        possible &= n_others[first] == n_others[after]
        out, own = np.zeros(len(starts)), np.where(other, 0, own).astype(labels.dtype)
        out[possible] = self._of_spans(own, first[possible], after[possible])
        if self.spread.plain and not possible.all():
            out[~possible] = self.label_probabilities(labels)[starts[~possible]]
        return out

    def nbest(self, k: int) -> NBest:
        """Return the k most probable labellings of each sequence."""
        labels, values = self.word_posterior.nbest(k)
        return NBest(self.spread.labels(labels), values)

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n independent labellings [n, T]."""
        return self.spread.labels(self.word_posterior.sample(n, rng))
