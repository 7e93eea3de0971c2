"""The votes of sources: which labels annotators, rules, lists and models give the tokens of the same texts.

A source that says nothing about a token abstains, which is not the same as the label of tokens outside all spans.
One that has no label for places and says that a token is outside of spans has not said that it is no place.
Only votes are stored, so thousands of sources that have seen a few texts each take little memory.  Label models make
labels of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import registry
from .errors import ConfigError, DataError
from .kernels import borders
from .types import Bools, Ints, Offsets

ABSTAIN = -1
"""The label in tables of sources that say nothing of a token."""
REPEATED = 8
"""Lone votes of a source for a word and a label from which on they are one decision, made again and again."""
SUPPORTED = 0.2
"""Share of such votes up to which other sources may label the word, too."""


class Votes(NamedTuple):
    """The labels that S sources give the tokens of N sequences.

    offsets (Offsets): [N + 1] token offsets of the sequences.
    ptr (Offsets): [T + 1] token t has the votes ``ptr[t]:ptr[t + 1]``.
    sources, labels (Ints): [V] the source of each vote, ascending at each token, and its label.
    names (tuple[str, ...]): [S] names of the sources.
    n_labels (int): L.
    knows (Bools): [S, L] the labels that each source has; at a token with another true label, it says what it says of
        tokens outside of spans.
    """

    offsets: Offsets
    ptr: Offsets
    sources: Ints
    labels: Ints
    names: tuple[str, ...]
    n_labels: int
    knows: Bools

    @property
    def n_tokens(self) -> int:
        """T."""
        return len(self.ptr) - 1

    @property
    def tokens(self) -> Offsets:
        """The token of each vote [V]."""
        return np.repeat(np.arange(self.n_tokens), np.diff(self.ptr))

    def originals(self) -> Ints:
        """Return for each source [S] the number of the first one that knows and says the same, often its own."""
        order = np.argsort(self.sources, kind="stable")
        ends = np.cumsum(np.bincount(self.sources, minlength=len(self.names)))
        tokens, labels, seen = self.tokens[order], self.labels[order], dict[bytes, int]()
        result = np.arange(len(self.names), dtype=np.int32)
        for source, (first, last) in enumerate(pairwise([0, *ends.tolist()])):
            if first < last:
                key = tokens[first:last].tobytes() + labels[first:last].tobytes() + self.knows[source].tobytes()
                result[source] = seen.setdefault(key, source)
        return result

    def without(self, dropped: Bools) -> Votes:
        """Return the votes but those marked in [V]."""
        kept = ~dropped
        ptr = np.append(0, np.cumsum(kept))[self.ptr].astype(np.int64)
        return self._replace(ptr=ptr, sources=self.sources[kept], labels=self.labels[kept])

    def repeated(self, words: Sequence[Hashable], outside: Bools, begins: Bools, gold: Ints | None = None) -> Bools:
        """Return the votes [V] for labels that a list or rule gives a word again and again, but nobody else does.

        For a label model, votes are independent, so that it would take "El" 300 times for a place if a list has it, and
        believe that others have missed 300 places.  Who says nothing outside of spans has decided on the word once.
        A span of several tokens is returned as a whole if one of its words is such a decision.

        words (Sequence[Hashable]): [T] such as texts, or numbers of words.
        outside, begins (Bools): [L] the labels of tokens in no span, and those that may begin a span.
        gold (Ints | None): [T] true labels, negative where unknown, which count as those of one more source.
        """
        tokens, in_span = self.tokens, ~outside[self.labels]
        speaks_outside = np.bincount(self.sources[~in_span], minlength=len(self.names)) > 0
        chosen = np.flatnonzero(in_span & ~speaks_outside[self.sources])
        at, n_labels = tokens[chosen], np.bincount(tokens[in_span], minlength=self.n_tokens)
        true = np.full(self.n_tokens, ABSTAIN, np.int32) if gold is None else gold
        supported = (n_labels[at] > 1) | ((true[at] >= 0) & ~outside[true[at]])
        alone = ~supported & ((true[at] >= 0) | self._denied(chosen, ~in_span))
        of_words = [words[token] for token in at.tolist()]
        numbers = {word: number for number, word in enumerate(dict.fromkeys(of_words))}
        keys = np.array([numbers[word] for word in of_words], np.int64) * len(self.names) + self.sources[chosen]
        _, groups = np.unique(keys * self.n_labels + self.labels[chosen], return_inverse=True)
        n_supported, n_alone = np.bincount(groups, supported), np.bincount(groups, alone)
        once = (n_alone >= REPEATED) & (n_supported <= SUPPORTED * (n_alone + n_supported))
        result = np.zeros(len(tokens), np.bool_)
        result[chosen] = self._whole_spans(chosen, once[groups], begins)
        return result

    def _whole_spans(self, chosen: NDArray[np.intp], marked: Bools, begins: Bools) -> Bools:
        """Return which of some votes belong to a span with a mark."""
        tokens, sources = self.tokens[chosen], self.sources[chosen]
        order = np.lexsort((tokens, sources))
        goes_on = (
            (np.diff(tokens[order]) == 1) & (np.diff(sources[order]) == 0) & ~begins[self.labels[chosen][order][1:]]
        )
        spans = np.cumsum(np.append(np.zeros(min(1, len(order)), np.int64), ~goes_on))
        has_mark = np.bincount(spans, marked[order]) > 0
        result = np.zeros(len(chosen), np.bool_)
        result[order] = has_mark[spans]
        return result

    def _denied(self, chosen: NDArray[np.intp], outside: Bools) -> Bools:
        """Return at which of some votes a source that has their label has one of those marked in `outside` [V]."""
        kinds, of_label = np.unique(self.knows, axis=1, return_inverse=True)
        of_vote, result = of_label.reshape(-1)[self.labels[chosen]], np.zeros(len(chosen), np.bool_)
        tokens = self.tokens
        for kind, has in enumerate(kinds.T):
            denied = np.bincount(tokens[outside & has[self.sources]], minlength=self.n_tokens) > 0
            result |= (of_vote == kind) & denied[tokens[chosen]]
        return result

    def previous(self) -> Ints:
        """Return the label that the source of each vote [V] gave the token before, L if it gave none in the sequence.

        A vote of the first token of a sequence has none before it.
        """
        before, tokens = np.full(len(self.labels), self.n_labels, np.int32), self.tokens
        keys = tokens * np.int64(len(self.names)) + self.sources  # ascending
        inner = np.ones(self.n_tokens + 1, np.bool_)
        inner[self.offsets] = False
        wanted = np.flatnonzero(inner[tokens])
        places = np.searchsorted(keys, keys[wanted] - len(self.names))
        same = keys[places] == keys[wanted] - len(self.names)
        before[wanted[same]] = self.labels[places[same]]
        return before


def make_votes(
    offsets: ArrayLike,
    tokens: ArrayLike,
    sources: ArrayLike,
    labels: ArrayLike,
    names: Sequence[str],
    n_labels: int,
    knows: ArrayLike | None = None,
) -> Votes:
    """Return votes in any order as `Votes`: source ``sources[v]`` gives token ``tokens[v]`` the label ``labels[v]``.

    offsets (ArrayLike): [N + 1] token offsets of the sequences.
    names (Sequence[str]): [S] names of the sources.
    knows (ArrayLike | None): [S, L] the labels that each source has; all by default.
    RAISES DataError: If a number is out of range, two sources have one name, or a source gives a token two labels, or
        one that it does not have.
    """
    bounds, arrays = np.asarray(offsets), [*map(np.asarray, (tokens, sources, labels))]
    n_tokens = int(bounds[-1]) if bounds.ndim == 1 and len(bounds) else 0
    borders.check_offsets(bounds, n_tokens)
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise DataError(f"Two sources have the name {twice!r}: give every source a name of its own.")
    limits = n_tokens, len(names), n_labels
    for kind, array, limit in zip(("tokens", "sources", "labels"), arrays, limits, strict=True):
        if array.shape != arrays[0].shape or array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
            raise DataError(f"The {kind} of votes must be a list of whole numbers, as long as that of their tokens.")
        if len(array) and not 0 <= array.min() <= array.max() < limit:
            raise DataError(f"The {kind} of votes must be from 0 to {limit - 1}, not {array.min()} to {array.max()}.")
    order = np.lexsort((arrays[1], arrays[0]))
    of, by, said = (array[order].astype(np.int64) for array in arrays)
    again = np.flatnonzero((of[1:] == of[:-1]) & (by[1:] == by[:-1]))
    if len(again):
        raise DataError(f"The source {names[by[again[0]]]!r} gives token {of[again[0]]} two labels.")
    has = np.ones((len(names), n_labels), np.bool_) if knows is None else np.asarray(knows)
    if has.shape != (len(names), n_labels) or has.dtype != np.bool_:
        raise DataError(f"The labels that sources have must be a table of truth values [{len(names)}, {n_labels}].")
    if len(strange := np.flatnonzero(~has[by, said])):
        raise DataError(f"The source {names[by[strange[0]]]!r} gives token {of[strange[0]]} a label that it has not.")
    ptr = np.append(0, np.cumsum(np.bincount(of, minlength=n_tokens)))
    kept = by.astype(np.int32), said.astype(np.int32)
    return Votes(bounds.astype(np.int64), ptr.astype(np.int64), *kept, tuple(names), n_labels, has)


def votes_of_table(
    table: ArrayLike, offsets: ArrayLike, names: Sequence[str], n_labels: int, knows: ArrayLike | None = None
) -> Votes:
    """Return the votes of a table [S, T] of labels, `ABSTAIN` where a source says nothing; else as `make_votes`."""
    labels = np.asarray(table)
    if labels.ndim != 2 or len(labels) != len(names):
        raise DataError(f"The table of votes must have a row for each of {len(names)} sources, not {labels.shape}.")
    borders.check_offsets(np.asarray(offsets), labels.shape[1])
    sources, tokens = np.nonzero(labels != ABSTAIN)
    return make_votes(offsets, tokens, sources, labels[sources, tokens], names, n_labels, knows)


class MethodSettings(NamedTuple):
    """A label model: the name of a function of the registry crf_label_models, and its settings."""

    name: str = "spacy_crfseq.HMM.v1"
    settings: Mapping[str, Any] = {}

    def made(self) -> Any:
        """Return the `LabelModelMethod`.

        RAISES ConfigError: If there is no such function, or it cannot be made with these settings.
        """
        try:
            function = registry.label_models.get(self.name)
        except ValueError:
            raise ConfigError(
                f"The label model {self.name!r} is not registered. Give --code with the file that registers it."
            ) from None
        try:
            return function(**self.settings)
        except TypeError as error:
            text = ", ".join(f"{name} = {value!r}" for name, value in self.settings.items())
            raise ConfigError(f"{self.name} cannot be made with the settings {text}: {error}") from error
