"""Compute features, from columns of hashes to ids, in training and in prediction.

A *growing* encoder assigns an id to every feature.  `freeze` applies the frequency cut-off; after it, unknown features
are dropped.  Bags are added to the store in both phases.  They are a cache, which `forget` can empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Bools, Hashes, Ints, Numbers, Offsets
from .index import BagStore, Growable, HashIndex, Packed
from .items import PADDED, escaped
from .templates import Part, Plan, column_names, lexical_names, pad_names, pad_values, seeds_of
from .token_sets import TokenSets

UNKNOWN = -2
KNOWN = -1
"""In `Block.origins`, the template of features that came from a trained model; their values are their keys."""
BLOCK_TOKENS, BLOCK_SEQUENCES = 1 << 16, 1 << 10
"""Numbers of tokens or sequences whose ids are read or changed at a time, to limit the size of temporary arrays."""
Tokens: TypeAlias = Ints | Offsets | slice
LexemeValues: TypeAlias = Callable[[Sequence[int]], Hashes]
"""Maps the hashes [W] of words to the values [W, A] of the lexical attributes, 0 for attributes without a value."""


class Columns(NamedTuple):
    """The input of the encoder for a text.

    orths (Hashes): [T] word hashes.
    context (Hashes): [T, C] token columns, in the order of `Encoder.columns`; 0 if not set.
    offsets (Offsets): [N + 1] starts of the sequences.
    sets (Mapping[str, TokenSets]): Results of the token functions, by their names.
    inputs (tuple[NDArray, ...]): [T, ...] inputs of added potentials, passed on unchanged.
    """

    orths: Hashes
    context: Hashes
    offsets: Offsets
    sets: Mapping[str, TokenSets] = MappingProxyType({})
    inputs: tuple[NDArray[Any], ...] = ()


class WordSlots(NamedTuple):
    """What words switch on around them: a bag or a single id for each row of the lexicon in each of S slots.

    table (Growable): [rows, S], `UNKNOWN` where a word has not been met.
    distances (Offsets): [S] the offset of each slot.
    targets (Offsets): [S] its column among the bags, or -1 minus its column among the single ids.
    width (int): Of the lexicon's padding.
    """

    table: Growable
    distances: Offsets
    targets: Offsets
    width: int


class Ids(NamedTuple):
    """The features of tokens in one block: numbers of bags, and single ids, -1 for none.

    Those that follow from the words are looked up when the ids are used, so that a text takes a third of the memory.
    columns (Ints | Packed): [T, C] rows of the lexicon, if `words` are given; then bags; then single ids.
    n_singles (int): How many columns are single ids.
    offsets (Offsets): [N + 1].
    words (WordSlots | None): What follows from the words.
    """

    columns: Ints | Packed
    n_singles: int
    offsets: Offsets
    store: BagStore
    words: WordSlots | None = None

    @property
    def n_bytes(self) -> int:
        """Memory of the ids, of those of each word, and of all bags."""
        columns = self.columns.bytes.n_bytes if isinstance(self.columns, Packed) else self.columns.nbytes
        return columns + self.store.n_bytes + (0 if self.words is None else self.words.table.n_bytes)

    def take(self, tokens: Tokens, offsets: Offsets) -> Ids:
        """Return the ids of some whole sequences, which get the offsets [N + 1]."""
        return self._replace(columns=self.columns[tokens], offsets=offsets)

    def expanded(self, part: tuple[int, int] | None = None) -> tuple[Ints, Ints]:
        """Return the bags [T, B] and the single ids [T, A] of the sequences first..last-1 of a part, or of all."""
        first, last = part or (0, len(self.offsets) - 1)
        offsets = self.offsets[first : last + 1]
        columns, words = self.columns[int(offsets[0]) : int(offsets[-1])], self.words
        singles = columns.shape[1] - self.n_singles
        if words is None:
            return np.ascontiguousarray(columns[:, :singles]), np.ascontiguousarray(columns[:, singles:])
        n_attrs = int((words.targets < 0).sum())
        n_bags = len(words.targets) - n_attrs
        bags = np.empty((len(columns), n_bags + singles - 1), np.int32)
        attrs = np.empty((len(columns), n_attrs + self.n_singles), np.int32)
        bags[:, n_bags:], attrs[:, n_attrs:] = columns[:, 1:singles], columns[:, singles:]
        table = words.table.room, words.targets, bags, attrs, UNKNOWN
        kernels.hashing.lexeme_ids(columns[:, 0].copy(), offsets - offsets[0], words.distances, words.width, *table)
        return bags, attrs

    def parts(self) -> Iterator[tuple[slice, Ints, Ints]]:
        """Yield ranges of tokens, their bags and their single ids."""
        for first in range(0, len(self.offsets) - 1, BLOCK_SEQUENCES):
            last = min(first + BLOCK_SEQUENCES, len(self.offsets) - 1)
            yield slice(int(self.offsets[first]), int(self.offsets[last])), *self.expanded((first, last))

    def plain(self) -> Ids:
        """Return the same ids with all of them in the columns, so that tokens need not stay in their sequences."""
        if self.words is None:
            return self._replace(columns=self.columns[:])
        bags, attrs = self.expanded()
        return Ids(np.concatenate([bags, attrs], axis=1), attrs.shape[1], self.offsets, self.store)


class Encoded(NamedTuple):
    """A text ready for the model: ids that score labels, ids that score label pairs, and the sequences.

    words (Ints | None): [T] indices of the words in the tag dictionary, -1 for others; None without a dictionary.
    inputs (tuple[NDArray, ...]): [T, ...] inputs of the added potentials.
    """

    unigrams: Ids
    bigrams: Ids
    offsets: Offsets
    words: Ints | None = None
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
        words = None if self.words is None else self.words[tokens]
        inputs = tuple(values[tokens] for values in self.inputs)
        return Encoded(self.unigrams.take(tokens, offsets), self.bigrams.take(tokens, offsets), offsets, words, inputs)


class Active(NamedTuple):
    """The M features of one template (an index into ``plan.templates``) in a text.

    tokens (Offsets): [M] the tokens.
    features (Ints): [M] ids, -1 for features that the model does not have.
    values (Hashes): [parts, M] their values, for `names_of`.
    """

    template: int
    tokens: Offsets
    features: Ints
    values: Hashes


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
    words = [part.words for part in parts if part.words is not None]
    inputs = tuple(np.concatenate(values) for values in zip(*(part.inputs for part in parts), strict=True))
    return Encoded(unigrams, bigrams, offsets, np.concatenate(words) if words else None, inputs)


def take_sequences(encoded: Encoded, sequences: Offsets) -> tuple[Encoded, Offsets]:
    """Return some sequences of an encoded text in the given order, and the numbers of their tokens."""
    lengths = np.diff(encoded.offsets)[sequences]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    tokens = np.arange(offsets[-1]) + np.repeat(encoded.offsets[:-1][sequences] - offsets[:-1], lengths)
    return encoded._of(tokens, offsets), tokens


class Lexicon:
    """One row of attribute values for each distinct word, known by its spaCy hash (ORTH).

    The first rows are padding: with width K, rows 0..K-1 are 1..K positions before the start of a sequence, and rows
    K..2K-1 are 1..K positions after its end.
    """

    def __init__(self, attributes: Sequence[str], width: int, values_of: LexemeValues) -> None:
        self.places = dict(zip(attributes, count()))
        self.width, self._values_of, self._orths = width, values_of, HashIndex()
        self.values = Growable(np.uint64, len(attributes))
        self.values.append(np.outer(pad_values(width), np.array([name in PADDED for name in attributes], np.uint64)))

    @property
    def size(self) -> int:
        """The number of rows, padding included."""
        return self.values.size

    @property
    def n_bytes(self) -> int:
        """Memory of all rows."""
        return self._orths.n_bytes + self.values.n_bytes

    def rows(self, orths: Hashes) -> Ints:
        """Return the rows of words given by their hashes [T], adding new words."""
        ids, n_unknown = self._orths.find(orths)
        if n_unknown:
            ids, new = self._orths.add(orths)
            try:
                self.values.append(self._values_of(orths[new].tolist()))
            except BaseException:  # if a user's function raises, words and values must stay in step
                self._orths = HashIndex(self._orths.keys[: self.size - 2 * self.width])
                raise
        return ids + np.int32(2 * self.width)

    def shifted(self, rows: Ints, offsets: Offsets, distance: int) -> Ints:
        """Return the rows [T] of the words `distance` tokens later, including padding."""
        if not distance:
            return rows
        out = np.empty_like(rows)
        kernels.hashing.shift(rows, offsets, distance, self.width, out)
        return out


class Block:
    """Feature ids of one list of templates.

    keys (Hashes | None): Feature keys of a trained model; None to collect features.
    """

    def __init__(self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], keys: Hashes | None = None) -> None:
        self.plan, self.index, self.frozen = plan, HashIndex(keys), keys is not None
        self.origins: list[tuple[int, Hashes]] | None = None
        self._n_known, self._n_changes, self._new_ids = 0, 0, np.zeros(0, np.int32)
        self._template_of = Growable(np.uint16)
        self._columns, self._pads, self._seeds = list(columns), pad_values(lexicon.width), seeds_of(plan)
        self.forget(lexicon)

    def begin_with(self, keys: Hashes, templates: Numbers) -> None:
        """Give the first ids to the features [F] of a trained model, of these templates; `freeze` keeps them all."""
        self.index, self._n_known = HashIndex(keys), len(keys)
        self._template_of.append(templates)
        if self.origins is not None:
            self.origins.append((KNOWN, keys[None]))

    def forget(self, lexicon: Lexicon) -> None:
        """Start with empty caches and a new lexicon; feature ids stay."""
        slots = self.plan.lexeme_slots
        are_bags = np.array([len(slot.templates) > 1 for slot in slots], np.bool_)
        targets = np.where(are_bags, np.cumsum(are_bags) - 1, 0 - np.cumsum(~are_bags)).astype(np.int64)
        distances = np.array([slot.key for slot in slots], np.int64)
        self.words = WordSlots(Growable(np.int32, len(slots)), distances, targets, lexicon.width)
        self.store, self._lexicon = BagStore(), lexicon
        # whether every word that a text can have is in the table: none was met before the features were known
        self._is_complete = self.frozen and lexicon.values.size == 2 * lexicon.width
        if not self._is_complete:
            self.words.table.resize(lexicon.values.size, UNKNOWN)

    @property
    def n_bytes(self) -> int:
        """The memory of the caches."""
        return self.store.n_bytes + self.words.table.n_bytes

    @property
    def template_of(self) -> Numbers:
        """[F] indices into ``plan.templates`` of the features collected here."""
        return self._template_of.array

    def encode(self, rows: Ints, text: Columns) -> Ids:
        """Return the ids of a text, whose words have the rows [T] of the lexicon."""
        plan, shifted, columns = self.plan, {0: rows}, list[Ints]()
        if plan.lexeme_slots:
            self._enter_words(text, shifted)
            columns.append(rows)
        read = partial(self._values, text, shifted, {})
        for slot in plan.column_slots:
            values = read(slot.key)  # absent parts also distinguish bags
            members = partial(self._members, slot.templates, read)
            columns.append(self.store.of(self._keys(slot.key, values + np.uint64(1)), members))
        for number in plan.set_slots:
            keys, sets, offset = self._set_keys(number, text)
            columns.append(self.store.of(self._keys(number, keys[None]), partial(self._set, number, sets, offset)))
        if plan.single_slots:
            columns += list(self._features(plan.single_slots, read))
        table = np.empty((len(rows), len(columns)), np.int32)
        for i, column in enumerate(columns):
            table[:, i] = column
        return Ids(table, len(plan.single_slots), text.offsets, self.store, self.words if plan.lexeme_slots else None)

    def _members(self, templates: Sequence[int], read: Callable[[int], Hashes], new: Bools) -> tuple[Ints]:
        return (self._features(templates, lambda number: read(number).compress(new, axis=1)).T,)

    def _set(self, number: int, sets: TokenSets, offset: int, new: Bools) -> tuple[Ints, Offsets]:
        sizes, values = sets.take(np.flatnonzero(new) + offset)
        return self._features([number], lambda _: values[None])[0], sizes

    def _enter_words(self, text: Columns, shifted: dict[int, Ints]) -> None:
        """Assign ids to words in the slots where they are met; in prediction, to new words at once in all slots.

        shifted: As in `_values`.
        """
        table, n_words = self.words.table, self._lexicon.values.size
        first, slots = table.size, self.plan.lexeme_slots
        if first < n_words:
            table.resize(n_words, UNKNOWN)
            for i in range(len(slots) if self.frozen else 0):
                self._enter(text, i, np.arange(first, n_words))
        ids = table.room
        for i, slot in enumerate(() if self._is_complete else slots):
            shifted[slot.key] = words = self._lexicon.shifted(shifted[0], text.offsets, slot.key)
            new = np.unique(words[ids[words, i] == UNKNOWN])
            if len(new):
                self._enter(text, i, new)

    def _enter(self, text: Columns, i: int, words: Any) -> None:
        """Enter the ids of words [R] in a slot."""
        offset, numbers = self.plan.lexeme_slots[i]
        members = self._features(numbers, partial(self._values, text, {offset: words}, {}))
        self.words.table.array[words, i] = members[0] if len(members) == 1 else self._bags(members.T)

    def _bags(self, members: Ints) -> Ints:
        """Return the bags [B] of features [B, S]; in prediction, words of equal features, as numbers, share one."""
        if not self.frozen:
            return self.store.add(members)
        keys = np.full(len(members), 1 + self._n_changes, np.uint64)  # other ids have other keys
        for column in members.T:
            kernels.hashing.mix_values((column + 2).astype(np.uint64), keys)
        return self.store.of(keys, lambda new: (members[new],))

    def _set_keys(self, number: int, text: Columns) -> tuple[Hashes, TokenSets, int]:
        """Return the keys [T] of the sets that a template uses, all sets, and its offset."""
        name, offset = self.plan.templates[number].parts[0]
        sets = text.sets[name]
        return self._shifted(sets.keys, text.offsets, offset, np.zeros_like(self._pads)), sets, offset

    def _keys(self, number: int, values: Hashes) -> Hashes:
        """Return the keys [M] of a template, given the values [parts, M] behind them."""
        keys = np.full(values.shape[1], self._seeds[number], np.uint64)
        for part in values:
            kernels.hashing.mix_values(part, keys)
        return keys

    def _features(self, numbers: Sequence[int], read: Callable[[int], Hashes]) -> Ints:
        """Return the feature ids [S, M] of templates; `read` returns the values [parts, M] behind those of one."""
        keys = np.concatenate([self._keys(number, read(number)) for number in numbers])
        if self.frozen:
            return self.index.find(keys)[0].reshape(len(numbers), -1)
        ids, added = self.index.add(keys)  # new ids are consecutive
        for number, new in zip(numbers, added.reshape(len(numbers), -1), strict=True):
            self._template_of.append(np.full(np.count_nonzero(new), number))
            if self.origins is not None and new.any():
                self.origins.append((number, read(number)[:, new]))
        return ids.reshape(len(numbers), -1)

    def _values(self, text: Columns, shifted: dict[int, Ints], read: dict[Part, Hashes], number: int) -> Hashes:
        """Return the values [parts, T] of a template.

        shifted (dict): Rows of the lexicon for the words at each offset, at least those at 0; others are added.
        read (dict): The values [T] of parts that have been read; others are added.
        """
        parts = self.plan.templates[number].parts
        for part in parts:
            if part in read:
                continue
            if part.attribute in self._columns:
                column = text.context[:, self._columns.index(part.attribute)]
                read[part] = self._shifted(column, text.offsets, part.offset, self._pads)
                continue
            if part.offset not in shifted:
                shifted[part.offset] = self._lexicon.shifted(shifted[0], text.offsets, part.offset)
            read[part] = self._lexicon.values.room[shifted[part.offset], self._lexicon.places[part.attribute]]
        return np.stack([read[part] for part in parts])

    def _shifted(self, column: Hashes, offsets: Offsets, distance: int, pads: Hashes) -> Hashes:
        """Return the values [T] of a column `distance` tokens later, `pads` beyond the ends of sequences."""
        if not distance:
            return np.ascontiguousarray(column)
        rows = np.arange(len(pads), len(pads) + len(column), dtype=np.int32)
        return np.concatenate([pads, column])[self._lexicon.shifted(rows, offsets, distance)]

    def active(self, rows: Ints, text: Columns) -> list[Active]:
        """Return the features of each template; the words have the rows [T] of the lexicon."""
        read, present = partial(self._values, text, {0: rows}, {}), list[Active]()
        for number in range(len(self.plan.templates)):
            if number in self.plan.set_slots:
                keys, sets, offset = self._set_keys(number, text)
                tokens = np.flatnonzero(keys)
                sizes, names = sets.take(tokens + offset)
                tokens, values = np.repeat(tokens, sizes), names[None]
            else:
                tokens = np.flatnonzero(self._keys(number, read(number)))
                values = read(number)[:, tokens]
            present.append(Active(number, tokens, self.index.find(self._keys(number, values))[0], values))
        return present

    def count(self, ids: Ids) -> Offsets:
        """Return the number of tokens [F] that have each feature."""
        bag_counts, counts = np.zeros(self.store.size, np.int64), np.zeros(self.index.size, np.int64)
        for _, bags, attrs in ids.parts():
            bag_counts += np.bincount(bags.ravel(), minlength=self.store.size)
            counts += np.bincount(attrs[attrs >= 0], minlength=self.index.size)
        np.add.at(counts, self.store.ids, np.repeat(bag_counts, np.diff(self.store.ptr)))
        return counts

    def freeze(self, texts: Sequence[Ids], min_count: int) -> None:
        """Drop new features of fewer than `min_count` tokens of texts and accept no further ones; see `renumber`."""
        self.frozen = True
        if min_count <= 1:
            self.index = HashIndex(self.index.keys)  # without slots, which training does not need
            return
        kept = np.sum([self.count(ids) for ids in texts], axis=0) >= min_count
        kept[: self._n_known] = True
        self.keep(kept)

    def keep(self, kept: Bools) -> None:
        """Drop the features for which kept [F] is false; see `renumber`."""
        templates, self._template_of = self.template_of[kept], Growable(np.uint16)
        self._template_of.append(templates)
        if self.origins:
            ends = np.cumsum([values.shape[1] for _, values in self.origins])
            each = zip(self.origins, np.split(kept, ends[:-1]), strict=True)
            self.origins = [(number, values[:, part]) for (number, values), part in each]
        self._use(self.index.keys[kept], np.where(kept, np.cumsum(kept) - 1, -1))

    def number_as(self, keys: Hashes) -> Ints:
        """Give features the ids of those with these keys, and return them [F], -1 for features that are not there.

        Their origins keep the order that they have.  See `renumber`.
        """
        ids = HashIndex(keys).find(self.index.keys)[0]
        self._use(keys, ids)
        return ids

    def _use(self, keys: Hashes, ids: Ints) -> None:
        """Replace the ids of features by others [F] in the caches."""
        self._new_ids = new_ids = np.append(ids, -1).astype(np.int32)  # -1 stays -1
        self.index, self._n_changes = HashIndex(keys), self._n_changes + 1
        self.store.renumber(new_ids)
        for slot, column in zip(self.plan.lexeme_slots, self.words.table.array.T, strict=True):
            if len(slot.templates) == 1:
                column[column != UNKNOWN] = new_ids[column[column != UNKNOWN]]

    def renumber(self, ids: Ids) -> None:
        """Replace the ids from before the last `freeze`, `keep` or `number_as` by the current ones, in place."""
        columns, singles = ids.columns, ids.columns.shape[1] - ids.n_singles
        for first in range(0, len(self._new_ids) and columns.shape[0], BLOCK_TOKENS):
            part = columns[first : first + BLOCK_TOKENS]
            part[:, singles:] = self._new_ids[part[:, singles:]]
            columns[first : first + BLOCK_TOKENS] = part

    def adopted(self, ids: Ids, other: Block) -> Ids:
        """Return the ids [T] of another block, of which this is a copy with fewer features, as ids of this one."""
        ids = ids.plain()
        bags, attrs = ids.expanded()
        new_ids = np.append(self.index.find(other.index.keys)[0], np.int32(-1))  # -1 stays -1
        return ids._replace(columns=np.concatenate([bags, new_ids[attrs]], axis=1), store=self.store)


class Encoder:
    """Both blocks of a model's features over one lexicon.

    values_of (LexemeValues): Maps hashes of words to the values of `lexical_names(unigrams, bigrams)`, in that order.
    words (HashIndex | None): Words of a tag dictionary; new ones get indices until `freeze`.
    pinned (bool): Keep the caches regardless of their size; set while encoded texts will be joined.
    """

    MAX_CACHED = 1 << 19
    """Number of words, and of distinct bags of a block, at which the caches are emptied."""

    def __init__(
        self, unigrams: Plan, bigrams: Plan, values_of: LexemeValues, keys: tuple[Hashes, Hashes] | None = None
    ) -> None:
        names, width = lexical_names(unigrams, bigrams), max(unigrams.width, bigrams.width)
        self.columns, self.pinned = list(column_names(unigrams, bigrams)), False
        self.words: HashIndex | None = None
        self._new_lexicon = partial(Lexicon, names, width, values_of)
        self._lexicon = self._new_lexicon()
        own = keys or (None, None)
        self.unigrams = Block(unigrams, self._lexicon, self.columns, own[0])
        self.bigrams = Block(bigrams, self._lexicon, self.columns, own[1])

    @property
    def frozen(self) -> bool:
        """Whether the feature ids are fixed."""
        return self.unigrams.frozen

    def trim(self, limit: int, sums: int) -> None:
        """Empty the cache of bags, or of words and bags, if they take more than `limit` bytes.

        Texts encoded before do not change.  Nothing happens while encoded texts will be joined.
        sums (int): Number of bytes that a model uses for the bags, and frees with them.
        """
        if not self.frozen or self.pinned:
            return
        if self._lexicon.n_bytes > limit:
            self._forget()
        elif self.unigrams.n_bytes + self.bigrams.n_bytes + sums > limit:
            self.unigrams.forget(self._lexicon)
            self.bigrams.forget(self._lexicon)

    def end(self) -> None:
        """Encode no more texts.  What is needed for it is freed, so that encoded texts can be pickled."""
        self.freeze([])
        nothing: Any = None
        self._lexicon = self._new_lexicon = self.unigrams._lexicon = self.bigrams._lexicon = nothing

    def keep_names(self) -> None:
        """Record the origin of each new feature, for `feature_names`."""
        self.unigrams.origins, self.bigrams.origins = [], []

    def encode(self, text: Columns) -> Encoded:
        """Return the ids of a text."""
        sizes = self._lexicon.values.size, self.unigrams.store.size, self.bigrams.store.size
        if self.unigrams.frozen and not self.pinned and max(sizes) > self.MAX_CACHED:
            self._forget()
        try:
            rows, words = self._lexicon.rows(text.orths), None
            unigrams, bigrams = self.unigrams.encode(rows, text), self.bigrams.encode(rows, text)
            if self.words is not None:
                words = (self.words.find(text.orths) if self.frozen else self.words.add(text.orths))[0]
            return Encoded(unigrams, bigrams, text.offsets, words, text.inputs)
        except BaseException:  # for example Ctrl-C between updates of two related tables
            if self.frozen:
                self._forget()
            raise

    def active(self, text: Columns) -> tuple[list[Active], list[Active]]:
        """Return the features of each template of the unigram and of the bigram block.  This is slow, for display only.

        This adds to the lexicon, but not to the caches of `encode`.
        """
        rows = self._lexicon.rows(text.orths)
        return self.unigrams.active(rows, text), self.bigrams.active(rows, text)

    def freeze(self, texts: Sequence[Encoded], min_count: int = 1) -> None:
        """End the growing phase; see `Block.freeze`."""
        self.unigrams.freeze([text.unigrams for text in texts], min_count)
        self.bigrams.freeze([text.bigrams for text in texts], min_count)

    def adopted(self, encoded: Encoded, other: Encoder) -> Encoded:
        """Return a text of another encoder, of which this is a copy with fewer features, as a text of this one."""
        words = encoded.words
        if words is not None and self.words is not None and other.words is not None:
            words = np.append(self.words.find(other.words.keys)[0], np.int32(-1))[words]
        unigrams = self.unigrams.adopted(encoded.unigrams, other.unigrams)
        return encoded._replace(
            unigrams=unigrams, bigrams=self.bigrams.adopted(encoded.bigrams, other.bigrams), words=words
        )

    def renumber(self, texts: Sequence[Encoded]) -> None:
        """See `Block.renumber`; ids that several texts share are replaced once."""
        done = set[int]()
        for text in texts:
            for block, ids in ((self.unigrams, text.unigrams), (self.bigrams, text.bigrams)):
                if id(ids.columns) not in done:
                    done.add(id(ids.columns))
                    block.renumber(ids)

    def _forget(self) -> None:
        self._lexicon = self._new_lexicon()
        self.unigrams.forget(self._lexicon)
        self.bigrams.forget(self._lexicon)


def feature_names(block: Block, text_of: Callable[[int], str]) -> list[str]:
    """Return the names, such as ``LOWER[-1]=the``, of all features of a block with recorded origins."""
    return [name for number, values in block.origins or [] for name in names_of(block.plan, number, values, text_of)]


def names_of(plan: Plan, template: int, values: Hashes, text_of: Callable[[int], str]) -> list[str]:
    """Return the names [M] of features of a template, given the values [parts, M] behind them."""
    pads = dict(zip(pad_values(plan.width).tolist(), pad_names(plan.width), strict=True))
    name, parts = plan.templates[template].name, plan.templates[template].parts

    def text(value: int, part: Part) -> str:
        return pads.get(value) or escaped(text_of(value), part.attribute, len(parts) > 1)

    return [f"{name}={'|'.join(map(text, column, parts))}" for column in values.T.tolist()]
