"""Attributes of a word from its other occurrences in the Doc: the words around them.

This is the context aggregation of Chieu & Ng (2003), "Named entity recognition with a maximum entropy approach", and
of Ratinov & Roth (2009), "Design challenges and misconceptions in named entity recognition", section 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Bools, Hashes, Offsets
from .token_sets import TokenSets, make_token_sets

_COLUMNS = ("LOWER", "ORTH", "SENT_START", "IS_LOWER", "IS_ALPHA", "IS_STOP")


class Words(NamedTuple):
    """The words of some Docs.

    lower (Hashes): [T].
    doc (Offsets): [T] numbers of their Docs.
    begins (Bools): [T] whether a sentence begins with the word.
    counts (Bools): [T] whether its other occurrences matter: it has letters and is no stop word.
    """

    lower: Hashes
    doc: Offsets
    begins: Bools
    counts: Bools


def read_words(docs: Sequence[Any]) -> Words:
    """Return the words of Docs."""
    arrays = [doc.to_array(_COLUMNS) for doc in docs]
    table = np.concatenate(arrays) if arrays else np.zeros((0, len(_COLUMNS)), np.uint64)
    lower, orth, starts, is_lower, is_alpha, is_stop = np.ascontiguousarray(table.T)
    number = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])
    begins = (starts == 1) | (np.diff(number, prepend=-1) > 0)
    letters = (lower != orth) | (is_lower > 0) | (is_alpha > 0)
    return Words(lower, number, begins, letters & (is_stop == 0))


class Groups(NamedTuple):
    """The occurrences of words that occur more than once in a Doc.

    tokens (Offsets): [M] the tokens, sorted by group, then by position.
    group (Offsets): [M] the group of each, ascending from 0.
    """

    tokens: Offsets
    group: Offsets

    def pairs(self, most: int) -> Iterator[tuple[Offsets, Offsets]]:
        """Yield tokens, and another occurrence of each: in all the `most` nearest, in turn after and before it."""
        for i in range(most):
            step = i // 2 + 1
            same = np.flatnonzero(self.group[step:] == self.group[:-step])
            one, other = self.tokens[same], self.tokens[same + step]
            yield (one, other) if i % 2 == 0 else (other, one)


def groups_of(words: Words, among: Bools | bool = True) -> Groups:
    """Group the words that count by Doc and lower-cased word, leaving out those that occur once.

    among (Bools | bool): [T] which words are looked at.
    """
    tokens = np.flatnonzero(words.counts & among)
    keys = mixed(words.lower[tokens], words.doc[tokens])
    order = np.argsort(keys, kind="stable")
    tokens, keys = tokens[order], keys[order]
    new = np.append(True, keys[1:] != keys[:-1]) if len(keys) else np.zeros(0, np.bool_)
    group = np.cumsum(new) - 1
    again = np.bincount(group)[group] > 1 if len(group) else new
    tokens, new = tokens[again], new[again]
    return Groups(tokens, np.cumsum(new) - 1)


def mixed(values: NDArray[Any], others: NDArray[Any] | int) -> Hashes:
    """Return a hash of each pair of values, never 0."""
    with np.errstate(over="ignore"):
        found: Hashes = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(31)
        found = (found + np.asarray(others).astype(np.uint64)) * np.uint64(0xFF51AFD7ED558CCD)
    return np.maximum(found ^ (found >> np.uint64(33)), np.uint64(1)).astype(np.uint64)


def sets_of(tokens: Offsets, values: Hashes, n_tokens: int) -> TokenSets:
    """Return the set of each token from pairs of token and value, which may repeat."""
    order = np.lexsort((values, tokens))
    tokens, values = tokens[order], values[order]
    new = np.ones(len(tokens), np.bool_)
    new[1:] = (tokens[1:] != tokens[:-1]) | (values[1:] != values[:-1])
    return make_token_sets(np.bincount(tokens[new], minlength=n_tokens), values[new])  # type: ignore[arg-type]


@dataclass(frozen=True)
class DocumentWords:
    """The words around the other occurrences of a word in the Doc (``spacy_crfseq.DocumentWords.v1``).

    Two occurrences match if they are the same in lower case; stop words and tokens without letters have none.  The
    words help where Docs are whole documents: give the corpus readers unit = "document".

    window (int): Words on each side of another occurrence, within its sentence.
    most (int): The nearest other occurrences that count.
    RAISES ConfigError: If a setting is less than 1.
    """

    window: int = 2
    most: int = 8

    def __post_init__(self) -> None:
        if min(self.window, self.most) < 1:
            raise ConfigError("DocumentWords: window and most must be at least 1.")

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the attribute."""
        return [f"{block}_NEAR"]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [f"{block}_NEAR[0]"]

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of Docs."""
        words = read_words(docs)
        pairs = list(groups_of(words).pairs(self.most))
        one, other = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
        sentence = np.cumsum(words.begins)
        tokens, values = [one[:0]], [words.lower[:0]]
        for offset in (*range(-self.window, 0), *range(1, self.window + 1)):
            place = np.clip(other + offset, 0, len(sentence) - 1)
            there = (place == other + offset) & (sentence[place] == sentence[other])
            found, key = words.lower[place[there]], self.window + offset
            tokens.append(one[there])
            values.append(mixed(found, key))
            if strings is not None:
                for lower in np.unique(found):
                    text = docs[0].vocab.strings[int(lower)]
                    strings[int(mixed(lower[None], key)[0])] = f"{offset:+d} {text}"
        return {f"{block}_NEAR": sets_of(np.concatenate(tokens), np.concatenate(values), len(sentence))}
