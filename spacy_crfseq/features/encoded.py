"""Texts as ids of features: encoders return them, and scores and layouts are computed from them.

A token has a *bag* for each slot of the templates, and single features.  Bags lie in a store that all texts of one
encoder share; those of words follow from the word, so that a text holds the number of the word only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Hashes, Ints, Offsets
from .index import BagStore, Growable, HashIndex, Packed
from .templates import Plan

UNKNOWN = -2
BLOCK_TOKENS, BLOCK_SEQUENCES = 1 << 16, 1 << 10
"""Numbers of tokens or sequences whose ids are read or changed at a time, to limit the size of temporary arrays."""
Tokens: TypeAlias = Ints | Offsets | slice
BlockKeys: TypeAlias = tuple[Hashes, Hashes]
"""Keys of the features of the unigram and of the bigram block."""


class WordSlots(NamedTuple):
    """The features that words switch on around them: in S slots, a bag or a single id for each row of the lexicon.

    table (Growable): [rows, S], `UNKNOWN` where a word has not been met.
    distances (Offsets): [S] the offset of each slot.
    targets (Offsets): [S] its column among the bags, or -1 minus its column among the single ids.
    width (int): Of the lexicon's padding.
    """

    table: Growable
    distances: Offsets
    targets: Offsets
    width: int


class Tables(NamedTuple):
    """The ids of words and the bags of one block that an encoder has computed; its texts refer to them."""

    slots: WordSlots
    store: BagStore

    @property
    def n_bytes(self) -> int:
        """Memory of both."""
        return self.store.n_bytes + self.slots.table.n_bytes

    def renumbered(self, ids: Ints | None) -> Tables:
        """Return tables of their own for features with other ids [F + 1]; arguments as of `Renumbering`."""
        table, store = self.slots.table.copy(), self.store.copy()
        if ids is None:
            return Tables(self.slots._replace(table=table), store)
        for column, target in zip(table.array.T, self.slots.targets, strict=True):
            if target < 0:
                entered = column != UNKNOWN
                column[entered] = ids[column[entered]]
        return Tables(self.slots._replace(table=table), store.renumbered(ids))


def empty_tables(plan: Plan, width: int) -> Tables:
    """Return tables without a word or a bag; `width` is that of the lexicon's padding."""
    slots = plan.lexeme_slots
    are_bags = np.array([len(slot.templates) > 1 for slot in slots], np.bool_)
    targets = np.where(are_bags, np.cumsum(are_bags) - 1, 0 - np.cumsum(~are_bags)).astype(np.int64)
    distances = np.array([slot.key for slot in slots], np.int64)
    return Tables(WordSlots(Growable(np.int32, len(slots)), distances, targets, width), BagStore())


class Ids(NamedTuple):
    """The features of tokens in one block: numbers of bags, and single ids, -1 for none.

    Those that follow from the words are looked up when the ids are used, so that a text takes a third of the memory.
    columns (Ints | Packed): [T, C] rows of the lexicon, if `slots` are given; then bags; then single ids.
    n_singles (int): How many columns are single ids.
    offsets (Offsets): [N + 1].
    slots (WordSlots | None): The features that follow from the words.
    """

    columns: Ints | Packed
    n_singles: int
    offsets: Offsets
    store: BagStore
    slots: WordSlots | None = None

    @property
    def n_bytes(self) -> int:
        """Memory of the ids, of those of each word, and of all bags."""
        columns = self.columns.bytes.n_bytes if isinstance(self.columns, Packed) else self.columns.nbytes
        return columns + self.store.n_bytes + (0 if self.slots is None else self.slots.table.n_bytes)

    @property
    def tables(self) -> Tables:
        """The tables that the ids refer to."""
        nothing = np.zeros(0, np.int64)
        return Tables(self.slots or WordSlots(Growable(np.int32, 0), nothing, nothing, 0), self.store)

    def take(self, tokens: Tokens, offsets: Offsets) -> Ids:
        """Return the ids of some whole sequences, which get the offsets [N + 1]."""
        return self._replace(columns=self.columns[tokens], offsets=offsets)

    def expanded(self, part: tuple[int, int] | None = None) -> tuple[Ints, Ints]:
        """Return the bags [T, B] and the single ids [T, A] of the sequences first..last-1 of a part, or of all."""
        first, last = part or (0, len(self.offsets) - 1)
        offsets = self.offsets[first : last + 1]
        columns, slots = self.columns[int(offsets[0]) : int(offsets[-1])], self.slots
        singles = columns.shape[1] - self.n_singles
        if slots is None:
            return np.ascontiguousarray(columns[:, :singles]), np.ascontiguousarray(columns[:, singles:])
        n_attrs = int((slots.targets < 0).sum())
        n_bags = len(slots.targets) - n_attrs
        bags = np.empty((len(columns), n_bags + singles - 1), np.int32)
        attrs = np.empty((len(columns), n_attrs + self.n_singles), np.int32)
        bags[:, n_bags:], attrs[:, n_attrs:] = columns[:, 1:singles], columns[:, singles:]
        table = slots.table.room, slots.targets, bags, attrs, UNKNOWN
        kernels.hashing.lexeme_ids(columns[:, 0].copy(), offsets - offsets[0], slots.distances, slots.width, *table)
        return bags, attrs

    def parts(self) -> Iterator[tuple[slice, Ints, Ints]]:
        """Yield ranges of tokens, their bags and their single ids."""
        for first in range(0, len(self.offsets) - 1, BLOCK_SEQUENCES):
            last = min(first + BLOCK_SEQUENCES, len(self.offsets) - 1)
            yield slice(int(self.offsets[first]), int(self.offsets[last])), *self.expanded((first, last))

    def plain(self) -> Ids:
        """Return the same ids with all of them in the columns, so that tokens need not stay in their sequences."""
        if self.slots is None:
            return self._replace(columns=self.columns[:])
        bags, attrs = self.expanded()
        return Ids(np.concatenate([bags, attrs], axis=1), attrs.shape[1], self.offsets, self.store)

    def counts(self, n_features: int) -> Offsets:
        """Return the number of tokens [F] that have each of F features."""
        bag_counts, counts = np.zeros(self.store.size, np.int64), np.zeros(n_features, np.int64)
        for _, bags, attrs in self.parts():
            bag_counts += np.bincount(bags.ravel(), minlength=self.store.size)
            counts += np.bincount(attrs[attrs >= 0], minlength=n_features)
        np.add.at(counts, self.store.ids, np.repeat(bag_counts, np.diff(self.store.ptr)))
        return counts

    def renumbered(self, ids: Ints | None, tables: Tables) -> Ids:
        """Return the features with other ids [F + 1], given their tables; see `Renumbering`."""
        slots = None if self.slots is None else tables.slots
        same = self._replace(store=tables.store, slots=slots)
        if ids is None or not self.n_singles:
            return same
        width = self.columns.shape[1]
        columns, singles = Packed(width), slice(width - self.n_singles, width)
        for first in range(0, self.columns.shape[0], BLOCK_TOKENS):
            part = np.array(self.columns[first : first + BLOCK_TOKENS])
            part[:, singles] = ids[part[:, singles]]
            columns.append(part)
        columns.bytes.trim()
        return same._replace(columns=columns if isinstance(self.columns, Packed) else columns[:])


class Encoded(NamedTuple):
    """A text ready for the model: ids that score labels, ids that score label pairs, and the sequences.

    dictionary_ids (Ints | None): [T] indices of the words in the tag dictionary, -1 for others; None without one.
    inputs (tuple[NDArray, ...]): [T, ...] inputs of the added potentials.
    """

    unigrams: Ids
    bigrams: Ids
    offsets: Offsets
    dictionary_ids: Ints | None = None
    inputs: tuple[NDArray[Any], ...] = ()

    @property
    def n_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])

    def slice(self, first: int, last: int) -> Encoded:
        """Return the sequences first..last-1, without a copy."""
        offsets = self.offsets[first : last + 1]
        return self._of(slice(int(offsets[0]), int(offsets[-1])), offsets - offsets[0])

    def _of(self, tokens: Tokens, offsets: Offsets) -> Encoded:
        ids = None if self.dictionary_ids is None else self.dictionary_ids[tokens]
        inputs = tuple(values[tokens] for values in self.inputs)
        return Encoded(self.unigrams.take(tokens, offsets), self.bigrams.take(tokens, offsets), offsets, ids, inputs)


def concatenate(parts: Sequence[Encoded]) -> Encoded:
    """Join encoded texts.

    RAISES ValueError: If they do not share their stores, because their ids would not be comparable.
    """
    if len(parts) == 1:
        return parts[0]
    if any(part.unigrams.store is not parts[0].unigrams.store for part in parts):
        raise ValueError("Encoded texts can only be joined if they come from one encoder with the same caches.")
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    blocks = zip(*([ids.plain() for ids in part[:2]] for part in parts), strict=True)
    unigrams, bigrams = (
        block[0]._replace(columns=np.concatenate([ids.columns for ids in block]), offsets=offsets) for block in blocks
    )
    ids = [part.dictionary_ids for part in parts if part.dictionary_ids is not None]
    inputs = tuple(np.concatenate(values) for values in zip(*(part.inputs for part in parts), strict=True))
    return Encoded(unigrams, bigrams, offsets, np.concatenate(ids) if ids else None, inputs)


def take_sequences(encoded: Encoded, sequences: Offsets) -> tuple[Encoded, Offsets]:
    """Return some sequences of an encoded text in the given order, and the numbers of their tokens."""
    lengths = np.diff(encoded.offsets)[sequences]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    tokens = np.arange(offsets[-1]) + np.repeat(encoded.offsets[:-1][sequences] - offsets[:-1], lengths)
    return encoded._of(tokens, offsets), tokens


class Renumbering(NamedTuple):
    """Gives the texts of one encoder the ids that their features have in a model; call it with a text.

    ids (tuple): Of each block, [F + 1] the id in the model of each feature, -1 for features that the model does not
        have.  The last entry is -1, so that the index -1, which means no feature, stays -1.  None if no id changes.
    tables (tuple[Tables, Tables]): Words and bags in the new ids.
    dictionary_ids (Ints | None): [W + 1] the same for the words of a tag dictionary; None if they do not change.
    """

    ids: tuple[Ints | None, Ints | None]
    tables: tuple[Tables, Tables]
    dictionary_ids: Ints | None = None

    def __call__(self, text: Encoded) -> Encoded:
        """Return a text in the ids of the model; nothing is copied that stays as it is."""
        blocks = zip(text[:2], self.ids, self.tables, strict=True)
        unigrams, bigrams = (block.renumbered(ids, tables) for block, ids, tables in blocks)
        of_words = text.dictionary_ids
        if of_words is not None and self.dictionary_ids is not None:
            of_words = self.dictionary_ids[of_words]
        return text._replace(unigrams=unigrams, bigrams=bigrams, dictionary_ids=of_words)


def renumbering(
    tables: tuple[Tables, Tables], old: BlockKeys, new: BlockKeys, dictionary_ids: Ints | None = None
) -> Renumbering:
    """Return the renumbering of features from the ids of some keys to those of others.

    tables (tuple[Tables, Tables]): Those of the texts, which do not change.
    dictionary_ids (Ints | None): As in `Renumbering`.
    """
    unigrams, bigrams = (_new_ids(*keys) for keys in zip(old, new, strict=True))
    return Renumbering(
        (unigrams, bigrams), (tables[0].renumbered(unigrams), tables[1].renumbered(bigrams)), dictionary_ids
    )


def _new_ids(old: Hashes, new: Hashes) -> Ints | None:
    if np.array_equal(old, new):
        return None
    return np.append(HashIndex(new).find(old)[0], np.int32(-1))
