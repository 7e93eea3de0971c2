"""Attributes of a word from its other occurrences in the Doc: the words around them, or the labels of a first stage.

The words are the context aggregation of Chieu & Ng (2003), "Named entity recognition with a maximum entropy approach",
and of Ratinov & Roth (2009), "Design challenges and misconceptions in named entity recognition", section 5.1.

The labels are those of Krishnan & Manning (2006), "An effective two-stage model for exploiting non-local dependencies
in named entity recognition", section 4: a first model labels the text, a second one sees what the first says of the
same word elsewhere.  Here it sees the set of labels besides the majority of their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..schemes import types_in
from ..types import Bools, Hashes, Ints, Offsets, Optimizer
from .index import hash_of_name
from .token_sets import TokenSets, make_token_sets

APART: Any = ("._.", "crf_apart", None, None)
"""The key in ``doc.user_data`` of a mark: attributes read each sentence of the Doc as if it were a Doc of its own."""
_COLUMNS = ("LOWER", "ORTH", "SENT_START", "IS_LOWER", "IS_ALPHA", "IS_STOP")


class Words(NamedTuple):
    """The words of some Docs.

    lower (Hashes): [T].
    doc (Offsets): [T] numbers of their Docs, or of their sentences where these are read apart.
    begins (Bools): [T] whether a sentence begins with the word.
    counts (Bools): [T] whether its other occurrences matter: it has letters and is no stop word.
    """

    lower: Hashes
    doc: Offsets
    begins: Bools
    counts: Bools


class ReadAtOnce(Protocol):
    """Docs whose token attributes are read by one operation; plug-ins that read Docs get them as such a sequence."""

    def to_array(self, names: Sequence[str]) -> Hashes:
        """Return the values [T, names] of token attributes, as `Doc.to_array` does of one Doc."""


def read_columns(docs: Sequence[Any], names: Sequence[str]) -> Hashes:
    """Return the values [names, T] of token attributes of Docs."""
    if hasattr(docs, "to_array"):  # `isinstance` takes as long as reading a short Doc
        table = cast(ReadAtOnce, docs).to_array(names)
    else:
        tables = (np.reshape(doc.to_array([*names]), (len(doc), len(names))) for doc in docs)
        table = np.concatenate([np.zeros((0, len(names)), np.uint64), *tables])
    return np.ascontiguousarray(table.T)


def read_words(docs: Sequence[Any]) -> Words:
    """Return the words of Docs."""
    lower, orth, starts, is_lower, is_alpha, is_stop = read_columns(docs, _COLUMNS)
    number = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])
    begins = (starts == 1) | (np.diff(number, prepend=-1) > 0)
    if any(apart := [APART in doc.user_data for doc in docs]):
        number = np.where(np.take(apart, number), len(docs) + np.cumsum(begins), number)
    letters = (lower != orth) | (is_lower > 0) | (is_alpha > 0)
    return Words(lower, number, begins, letters & (is_stop == 0))


def groups_of(words: Words, among: Bools | bool = True) -> tuple[Offsets, Offsets]:
    """Return the tokens [M] whose word occurs more than once in its Doc, and the group [M] of each, from 0.

    They are sorted by group, the Doc and the lower-cased word, then by position.
    among (Bools | bool): [T] which words are looked at.
    """
    tokens = np.flatnonzero(words.counts & among)
    keys = mixed(words.lower[tokens], words.doc[tokens])
    order = np.argsort(keys, kind="stable")
    _, group, sizes = np.unique(keys[order], return_inverse=True, return_counts=True)
    again = sizes[group] > 1
    return tokens[order][again], np.unique(group[again], return_inverse=True)[1]


def mixed(values: Hashes, others: Any) -> Hashes:
    """Return a hash of each pair of a value other than 0 and a number from 0."""
    keys = values.copy()
    kernels.hashing.mix_values(np.zeros_like(keys) + np.asarray(others).astype(np.uint64) + np.uint64(1), keys)
    return keys


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
        n_tokens = len(words.lower)
        links, slots = np.empty((n_tokens, 2), np.int64), np.zeros(1 << (2 * n_tokens).bit_length(), np.int32)
        kernels.contexts.link(words.lower, words.doc, words.counts, slots, links)
        row = np.empty(2 * self.window * self.most, np.uint64)
        keys, ptr = np.empty(n_tokens, np.uint64), np.zeros(n_tokens + 1, np.int64)
        values, n = np.empty(0, np.uint64), 4 * n_tokens
        while n > len(values):
            values = np.empty(n, np.uint64)
            out = keys, ptr, values
            n = kernels.contexts.words_elsewhere(words.lower, words.begins, links, self.window, self.most, row, out)
        sets = TokenSets(keys, ptr, values[:n])
        if strings is not None and n:
            strings.update(self._texts(words.lower, sets.values, docs[0].vocab.strings))
        return {f"{block}_NEAR": sets}

    def _texts(self, lower: Hashes, values: Hashes, strings: Any) -> dict[int, str]:
        """Return the texts of values, which are words at each offset."""
        distinct, texts = np.unique(lower), dict[int, str]()
        for offset in (*range(-self.window, 0), *range(1, self.window + 1)):
            keys = mixed(distinct, self.window + offset)
            for i in np.flatnonzero(np.isin(keys, values)).tolist():
                texts[int(keys[i])] = f"{offset:+d} {strings[int(distinct[i])]}"
        return texts


@dataclass(frozen=True)
class DocumentLabels:
    """The labels of a word's other occurrences in the Doc (``spacy_crfseq.DocumentLabels.v1``).

    The labels come from a first stage: the same component without this block.  Training makes both stages; the first
    stage labels the training corpus in parts, each by a model that has not seen it (a jackknife).  Words match as in
    `DocumentWords`.  The labels help where Docs are whole documents: give the corpus readers unit = "document".

    folds (int): Parts of the training corpus; a document is in one.
    optimizer (Optimizer | None): Of the first stage; None for that of the component.  The first stage is trained
        on all parts, and once on the others of each part.
    RAISES ConfigError: If there are fewer than 2 folds.
    """

    folds: int = 5
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ConfigError(f"DocumentLabels: folds must be at least 2, but {self.folds} was given.")

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the attribute."""
        return [f"{block}_ELSEWHERE"]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [f"{block}_ELSEWHERE[0]"]

    def read_labels(
        self, block: str, docs: Sequence[Any], labels: Ints, names: Sequence[str], strings: dict[int, str] | None = None
    ) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of Docs: labels of other occurrences, and the majority of their types."""
        (tokens, group), n = groups_of(read_words(docs), labels >= 0), len(names)
        texts, keys, kinds = _values_of(tuple(names))
        if strings is not None:
            strings.update(zip(keys.tolist(), texts, strict=True))
        row, label, count = _labels_elsewhere(group, labels[tokens], n)
        voter, choice = _majority(row, kinds[label], count)
        where, values = np.append(row, voter), np.append(label, n + choice)
        return {f"{block}_ELSEWHERE": sets_of(tokens[where], keys[values], len(labels))}


@lru_cache(maxsize=16)
def _values_of(names: tuple[str, ...]) -> tuple[list[str], Hashes, Offsets]:
    """Return the texts and hashes of the L labels, and of the majorities of K types, and the type [L] of each label."""
    types = types_in(names)
    kinds = list(dict.fromkeys(types))
    texts = [*names, *(f"mostly {kind}" for kind in kinds)]
    keys = np.array(list(map(hash_of_name, texts)), np.uint64)
    return texts, keys, np.array(list(map(kinds.index, types)), np.int64)


def _labels_elsewhere(group: Offsets, own: Ints, n_labels: int) -> tuple[Offsets, Offsets, Offsets]:
    """Return the labels of the other M - 1 tokens of each token's group, as triples of token, label and count.

    group, own: [M] group and label of each token.
    """
    n = max(1, n_labels)
    cells, counts = np.unique(group * n + own, return_counts=True)  # the labels of each group
    ptr = np.append(0, np.cumsum(np.bincount(cells // n)))
    sizes = np.diff(ptr)[group]
    row = np.repeat(np.arange(len(own)), sizes)
    place = np.arange(len(row)) + np.repeat(ptr[group] - np.cumsum(sizes) + sizes, sizes)
    label = cells[place] % n
    count = counts[place] - (label == own[row])  # without the token's own label
    return row[count > 0], label[count > 0], count[count > 0]


def _majority(row: Offsets, kind: Offsets, count: Offsets) -> tuple[Offsets, Offsets]:
    """Return for each row the kind with the highest count, the lowest kind of those that tie, as pairs."""
    n = int(kind.max(initial=0)) + 1
    voted, inverse = np.unique(row * n + kind, return_inverse=True)
    voter, choice = np.divmod(voted, n)
    order = np.lexsort((choice, -np.bincount(inverse, count, len(voted)), voter))
    first = order[np.unique(voter[order], return_index=True)[1]]
    return voter[first], choice[first]
