"""Compute features, from columns of hashes to ids, in training and in prediction.

A `GrowingEncoder` collects features: those that it meets get the next ids.  A `FrozenEncoder` has the features of a
model and drops all others.  Both return an `Encoded` text.  Its bags and the ids of words lie in tables that encoders
fill as they meet them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Bools, Hashes, Ints, Numbers, Offsets
from .encoded import UNKNOWN, BlockKeys, Encoded, Ids, Renumbering, Tables, empty_tables, renumbering
from .index import Growable, HashIndex
from .items import PADDED
from .templates import Part, Plan, Slot, column_names, lexical_names, names_of, pad_values, seeds_of
from .token_sets import TokenSets

KEY_BITS = np.uint64((1 << 48) - 1)
"""The bits of the keys of features.  Of n features, one unknown one in 2**48 / n is mistaken for a known one."""
KNOWN = -1
"""In `CollectedFeatures.origins`, the template of features from a trained model; their values are their keys."""
LexemeValues: TypeAlias = Callable[[Sequence[int]], Hashes]
"""Maps the hashes [W] of words to the values [W, A] of the lexical attributes, 0 for attributes without a value."""


class Columns(NamedTuple):
    """The input of an encoder for a text.

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


class CollectedFeatures(NamedTuple):
    """The F features of a block that a growing encoder has collected, in the order of their ids.

    keys (Hashes): [F].
    templates (Numbers): [F] indices into ``plan.templates``.
    origins (Sequence): For consecutive features, their template, or `KNOWN`, and their values [parts, M].
    """

    plan: Plan
    keys: Hashes
    templates: Numbers
    origins: Sequence[tuple[int, Hashes]]

    def only(self, kept: Bools) -> CollectedFeatures:
        """Return the features for which kept [F] is true."""
        ends = np.cumsum([values.shape[1] for _, values in self.origins], dtype=np.int64)
        parts = zip(self.origins, np.split(kept, ends[:-1]), strict=True) if self.origins else ()
        origins = [(number, values[:, part]) for (number, values), part in parts]
        return CollectedFeatures(self.plan, self.keys[kept], self.templates[kept], origins)

    def names(self, text_of: Callable[[int], str]) -> list[str]:
        """Return their names, such as ``LOWER[-1]=the``; `text_of` returns the text of a value."""
        return [name for number, values in self.origins for name in names_of(self.plan, number, values, text_of)]


class KnownFeatures(NamedTuple):
    """The features of a trained model [F] that a growing encoder begins with: keys, and numbers of their templates."""

    keys: Hashes
    templates: Numbers


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

    def emptied(self) -> Lexicon:
        """Return a lexicon of the same attributes without a word."""
        return Lexicon([*self.places], self.width, self._values_of)

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

    def shifted_column(self, column: Hashes, offsets: Offsets, distance: int, pads: Hashes) -> Hashes:
        """Return the values [T] of a column `distance` tokens later, `pads` [2 K] beyond the ends of sequences."""
        if not distance:
            return np.ascontiguousarray(column)
        rows = np.arange(len(pads), len(pads) + len(column), dtype=np.int32)
        return np.concatenate([pads, column])[self.shifted(rows, offsets, distance)]


def new_lexicon(unigrams: Plan, bigrams: Plan, values_of: LexemeValues) -> Lexicon:
    """Return the lexicon of an encoder, without a word.

    values_of (LexemeValues): Maps hashes of words to the values of `lexical_names(unigrams, bigrams)`, in that order.
    """
    return Lexicon(lexical_names(unigrams, bigrams), max(unigrams.width, bigrams.width), values_of)


class TextValues:
    """The values of templates in a text; it reads each part once.

    rows_at (dict[int, Ints]): Rows of the lexicon for the words at each offset; others follow from those at 0.
    """

    def __init__(
        self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], text: Columns, rows_at: dict[int, Ints]
    ) -> None:
        self.text, self._plan, self._lexicon, self._columns = text, plan, lexicon, columns
        self._rows_at, self._parts = rows_at, dict[Part, Hashes]()

    def rows(self, offset: int) -> Ints:
        """Return the rows [T] of the lexicon for the words at an offset."""
        if offset not in self._rows_at:
            self._rows_at[offset] = self._lexicon.shifted(self._rows_at[0], self.text.offsets, offset)
        return self._rows_at[offset]

    def of(self, number: int) -> Hashes:
        """Return the values [parts, T] of a template."""
        parts = self._plan.templates[number].parts
        for part in parts:
            if part not in self._parts:
                self._parts[part] = self._read(part)
        return np.stack([self._parts[part] for part in parts])

    def _read(self, part: Part) -> Hashes:
        if part.attribute in self._columns:
            column = self.text.context[:, self._columns.index(part.attribute)]
            return self._lexicon.shifted_column(column, self.text.offsets, part.offset, pad_values(self._lexicon.width))
        values: Hashes = self._lexicon.values.room[self.rows(part.offset), self._lexicon.places[part.attribute]]
        return values


class Block:
    """Computes the features of one list of templates; base of the blocks of growing and of frozen encoders.

    index (HashIndex): The ids of features by their keys.
    tables (Tables): The words and bags that texts refer to.
    """

    def __init__(self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], index: HashIndex, tables: Tables) -> None:
        self.plan, self.index, self.tables = plan, index, tables
        self._lexicon, self._columns, self._seeds = lexicon, list(columns), seeds_of(plan)

    def encode(self, rows: Ints, text: Columns) -> Ids:
        """Return the ids of a text, whose words have the rows [T] of the lexicon."""
        plan, values, columns = self.plan, self._values(text, {0: rows}), list[Ints]()
        if plan.lexeme_slots:
            self._enter_words(values)
            columns.append(rows)
        columns += [self._bags_of_columns(slot, values) for slot in plan.column_slots]
        columns += [self._bags_of_sets(number, text) for number in plan.set_slots]
        if plan.single_slots:
            columns += list(self._features(plan.single_slots, values.of))
        table = np.empty((len(rows), len(columns)), np.int32)
        for i, column in enumerate(columns):
            table[:, i] = column
        slots = self.tables.slots if plan.lexeme_slots else None
        return Ids(table, len(plan.single_slots), text.offsets, self.tables.store, slots)

    def _values(self, text: Columns, rows_at: dict[int, Ints]) -> TextValues:
        return TextValues(self.plan, self._lexicon, self._columns, text, rows_at)

    def _bags_of_columns(self, slot: Slot, values: TextValues) -> Ints:
        """Return the bags [T] of a column slot; tokens with the same values of its largest template share one."""
        keys = self._keys(slot.key, values.of(slot.key) + np.uint64(1))  # absent parts also distinguish bags

        def members(new: Bools) -> tuple[Ints]:
            return (self._features(slot.templates, lambda number: values.of(number).compress(new, axis=1)).T,)

        return self.tables.store.of(keys, members)

    def _bags_of_sets(self, number: int, text: Columns) -> Ints:
        """Return the bags [T] of a set slot; tokens with the same set of names share one."""
        set_keys, sets, offset = self._set_keys(number, text)

        def members(new: Bools) -> tuple[Ints, Offsets]:
            sizes, names = sets.take(np.flatnonzero(new) + offset)
            return self._features([number], lambda _: names[None])[0], sizes

        return self.tables.store.of(self._keys(number, set_keys[None]), members)

    def _ids(self, numbers: Sequence[int], keys: Hashes, read: Callable[[int], Hashes]) -> Ints:
        """Return the ids [S * M] of features of templates by their keys, given the values [parts, M] behind those."""
        raise NotImplementedError

    def _bags(self, members: Ints) -> Ints:
        """Return the bags [B] of words, given their features [B, S]."""
        raise NotImplementedError

    def _enter_words(self, values: TextValues) -> None:
        """Assign ids to words in the slots where they are met."""
        table = self.tables.slots.table
        table.resize(max(table.size, self._lexicon.size), UNKNOWN)
        for i, slot in enumerate(self.plan.lexeme_slots):
            words = values.rows(slot.key)
            new = np.unique(words[table.room[words, i] == UNKNOWN])
            if len(new):
                self._enter(values.text, i, new)

    def _enter(self, text: Columns, i: int, words: Any) -> None:
        """Enter the ids of words [R] in a slot."""
        offset, numbers = self.plan.lexeme_slots[i]
        members = self._features(numbers, self._values(text, {offset: words}).of)
        self.tables.slots.table.array[words, i] = members[0] if len(members) == 1 else self._bags(members.T)

    def _set_keys(self, number: int, text: Columns) -> tuple[Hashes, TokenSets, int]:
        """Return the keys [T] of the sets that a template uses, all sets, and its offset."""
        name, offset = self.plan.templates[number].parts[0]
        sets = text.sets[name]
        pads = np.zeros(2 * self._lexicon.width, np.uint64)
        return self._lexicon.shifted_column(sets.keys, text.offsets, offset, pads), sets, offset

    def _keys(self, number: int, values: Hashes) -> Hashes:
        """Return the keys [M] of a template, given the values [parts, M] behind them."""
        keys = np.full(values.shape[1], self._seeds[number], np.uint64)
        for part in np.ascontiguousarray(values):
            kernels.hashing.mix_values(part, keys)
        keys &= KEY_BITS
        return keys

    def _features(self, numbers: Sequence[int], read: Callable[[int], Hashes]) -> Ints:
        """Return the feature ids [S, M] of templates; `read` returns the values [parts, M] behind a template's."""
        keys = np.concatenate([self._keys(number, read(number)) for number in numbers])
        return self._ids(numbers, keys, read).reshape(len(numbers), -1)


class GrowingBlock(Block):
    """A block in which new features get the next ids.

    known_features (KnownFeatures | None): Features of a trained model, which get the first ids.
    """

    def __init__(
        self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], known_features: KnownFeatures | None
    ) -> None:
        super().__init__(
            plan,
            lexicon,
            columns,
            HashIndex(None if known_features is None else known_features.keys),
            empty_tables(plan, lexicon.width),
        )
        self._templates, self._origins, self.n_known = Growable(np.uint16), list[tuple[int, Hashes]](), 0
        if known_features is not None:
            self.n_known = len(known_features.keys)
            self._templates.append(known_features.templates)
            self._origins.append((KNOWN, known_features.keys[None]))

    @property
    def features(self) -> CollectedFeatures:
        """The features so far."""
        return CollectedFeatures(self.plan, self.index.keys, self._templates.array, [*self._origins])

    def frequent(self, texts: Sequence[Ids], min_count: int) -> CollectedFeatures:
        """Return the features that at least `min_count` tokens of some texts have, and those it began with."""
        features = self.features
        if min_count <= 1:
            return features
        kept = np.sum([ids.counts(self.index.size) for ids in texts], axis=0) >= min_count
        kept[: self.n_known] = True
        return features.only(kept)

    def _ids(self, numbers: Sequence[int], keys: Hashes, read: Callable[[int], Hashes]) -> Ints:
        ids, added = self.index.add(keys)  # new ids are consecutive
        for number, new in zip(numbers, added.reshape(len(numbers), -1), strict=True):
            self._templates.append(np.full(np.count_nonzero(new), number))
            if new.any():
                self._origins.append((number, read(number)[:, new]))
        return ids

    def _bags(self, members: Ints) -> Ints:
        return self.tables.store.add(members)


class FrozenBlock(Block):
    """A block in which features without an id are dropped."""

    def __init__(self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], index: HashIndex, tables: Tables) -> None:
        super().__init__(plan, lexicon, columns, index, tables)
        # whether every word of the lexicon is in the table: none was met before
        self._is_complete = lexicon.size == 2 * lexicon.width
        if not self._is_complete:
            tables.slots.table.resize(max(tables.slots.table.size, lexicon.size), UNKNOWN)

    def _enter_words(self, values: TextValues) -> None:
        """Assign ids to new words at once in all slots."""
        table, n_words = self.tables.slots.table, self._lexicon.size
        first = table.size
        if first < n_words:
            table.resize(n_words, UNKNOWN)
            for i in range(len(self.plan.lexeme_slots)):
                self._enter(values.text, i, np.arange(first, n_words))
        if not self._is_complete:
            super()._enter_words(values)

    def _ids(self, numbers: Sequence[int], keys: Hashes, read: Callable[[int], Hashes]) -> Ints:
        return self.index.find(keys)[0]

    def _bags(self, members: Ints) -> Ints:
        """Return the bags [B] of words, given their features [B, S]; words of equal features share one."""
        keys = np.ones(len(members), np.uint64)
        for column in members.T:
            kernels.hashing.mix_values((column + 2).astype(np.uint64), keys)
        return self.tables.store.of(keys, lambda new: (members[new],))

    def active(self, rows: Ints, text: Columns) -> list[Active]:
        """Return the features of each template; the words have the rows [T] of the lexicon."""
        read, present = self._values(text, {0: rows}).of, list[Active]()
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


AnyBlock = TypeVar("AnyBlock", bound=Block)


class Encoder(Generic[AnyBlock]):
    """Computes both blocks of features over one lexicon; base of the growing and of the frozen encoder.

    columns (list[str]): The token columns that texts need.
    dictionary_words (HashIndex | None): Words of a tag dictionary.
    """

    unigrams: AnyBlock
    bigrams: AnyBlock
    columns: list[str]
    dictionary_words: HashIndex | None
    _lexicon: Lexicon

    @property
    def keys(self) -> BlockKeys:
        """The keys of the features of both blocks."""
        return self.unigrams.index.keys, self.bigrams.index.keys

    @property
    def tables(self) -> tuple[Tables, Tables]:
        """The words and bags that texts refer to, by block."""
        return self.unigrams.tables, self.bigrams.tables

    def encode(self, text: Columns) -> Encoded:
        """Return the ids of a text."""
        rows = self._lexicon.rows(text.orths)
        unigrams, bigrams = self.unigrams.encode(rows, text), self.bigrams.encode(rows, text)
        return Encoded(unigrams, bigrams, text.offsets, self._word_numbers(text.orths), text.inputs)

    def _word_numbers(self, orths: Hashes) -> Ints | None:
        raise NotImplementedError


class GrowingEncoder(Encoder[GrowingBlock]):
    """An encoder that collects the features of training texts.

    lexicon (Lexicon): Without a word; see `new_lexicon`.
    known_features (tuple | None): Features of a trained model, by block, which get the first ids.
    has_words (bool): Whether it collects words, too, for a tag dictionary.
    """

    def __init__(
        self,
        unigrams: Plan,
        bigrams: Plan,
        lexicon: Lexicon,
        known_features: tuple[KnownFeatures, KnownFeatures] | None = None,
        has_words: bool = False,
    ) -> None:
        self.columns, self.dictionary_words = list(column_names(unigrams, bigrams)), HashIndex() if has_words else None
        self._lexicon, first = lexicon, known_features or (None, None)
        self.unigrams = GrowingBlock(unigrams, lexicon, self.columns, first[0])
        self.bigrams = GrowingBlock(bigrams, lexicon, self.columns, first[1])

    @property
    def features(self) -> tuple[CollectedFeatures, CollectedFeatures]:
        """The features so far, by block."""
        return self.unigrams.features, self.bigrams.features

    def frequent(self, texts: Sequence[Encoded], min_count: int) -> tuple[CollectedFeatures, CollectedFeatures]:
        """Return the features that at least `min_count` tokens of some texts have, and those it began with."""
        unigrams = self.unigrams.frequent([text.unigrams for text in texts], min_count)
        return unigrams, self.bigrams.frequent([text.bigrams for text in texts], min_count)

    def frozen(self, keys: BlockKeys, dictionary_words: HashIndex | None = None) -> tuple[FrozenEncoder, Renumbering]:
        """Return an encoder for the features with some keys, and the function that gives texts its ids.

        It has met all words of this encoder.
        This encoder and its texts do not change.  Texts in the new ids can be joined with those of the new encoder.
        dictionary_words (HashIndex | None): Words of the tag dictionary.
        """
        places = None
        if self.dictionary_words is not None and dictionary_words is not None:
            places = np.append(dictionary_words.find(self.dictionary_words.keys)[0], np.int32(-1))
        new = renumbering(self.tables, self.keys, keys, places)
        plans, index = (self.unigrams.plan, self.bigrams.plan), (HashIndex(keys[0]), HashIndex(keys[1]))
        return FrozenEncoder(*plans, self._lexicon, index, dictionary_words, tables=new.tables, joins=True), new

    def _word_numbers(self, orths: Hashes) -> Ints | None:
        return None if self.dictionary_words is None else self.dictionary_words.add(orths)[0]


class CacheLimits(NamedTuple):
    """The bytes that words, and the bags of both blocks, may take before a frozen encoder empties its tables."""

    words: int
    bags: int


class FrozenEncoder(Encoder[FrozenBlock]):
    """An encoder with the features of a model.

    Its tables are a cache: it begins new ones when they are full.  Texts encoded before do not change.
    lexicon (Lexicon): Perhaps with words that were met before.
    index (tuple[HashIndex, HashIndex]): The features of both blocks.
    dictionary_words (HashIndex | None): Words of the tag dictionary.
    tables (tuple[Tables, Tables] | None): To begin with.
    joins (bool): Whether its texts are to be joined: then it begins new tables only if encoding fails.
    """

    MAX_CACHED = 1 << 19
    """Number of words, and of distinct bags of a block, at which the tables are full."""

    def __init__(
        self,
        unigrams: Plan,
        bigrams: Plan,
        lexicon: Lexicon,
        index: tuple[HashIndex, HashIndex],
        dictionary_words: HashIndex | None = None,
        *,
        tables: tuple[Tables, Tables] | None = None,
        joins: bool = False,
    ) -> None:
        self.columns, self.dictionary_words, self._joins = (
            list(column_names(unigrams, bigrams)),
            dictionary_words,
            joins,
        )
        self._plans, self._index = (unigrams, bigrams), index
        self._begin(lexicon, tables)

    def _begin(self, lexicon: Lexicon, tables: tuple[Tables, Tables] | None = None) -> None:
        """Begin with a lexicon, and new tables unless they are given."""
        self._lexicon = lexicon
        unigrams, bigrams = self._plans
        first, second = tables or (empty_tables(unigrams, lexicon.width), empty_tables(bigrams, lexicon.width))
        self.unigrams = FrozenBlock(unigrams, lexicon, self.columns, self._index[0], first)
        self.bigrams = FrozenBlock(bigrams, lexicon, self.columns, self._index[1], second)

    def with_lexicon(self, lexicon: Lexicon, *, joins: bool = False) -> FrozenEncoder:
        """Return an encoder of the same features with a lexicon and tables of its own, which are empty."""
        return FrozenEncoder(*self._plans, lexicon, self._index, self.dictionary_words, joins=joins)

    def with_room(self) -> FrozenEncoder:
        """Return this encoder, or one of the same features with empty tables if its own are full."""
        return self.with_lexicon(self._lexicon.emptied(), joins=self._joins) if self._is_full else self

    @property
    def _is_full(self) -> bool:
        sizes = self._lexicon.size, self.unigrams.tables.store.size, self.bigrams.tables.store.size
        return max(sizes) > self.MAX_CACHED

    def has_features_of(self, other: GrowingEncoder | FrozenEncoder) -> bool:
        """Whether one of the two encoders was made from the other by `with_lexicon`."""
        return isinstance(other, FrozenEncoder) and self._index is other._index

    def encode(self, text: Columns, limits: CacheLimits | None = None) -> Encoded:
        """Return the ids of a text; `limits` are those of the tables before it."""
        if not self._joins:
            self._make_room(limits)
        try:
            return super().encode(text)
        except BaseException:  # for example Ctrl-C between updates of two related tables
            self._begin(self._lexicon.emptied())
            raise

    def _make_room(self, limits: CacheLimits | None) -> None:
        if self._is_full or (limits is not None and self._lexicon.n_bytes > limits.words):
            self._begin(self._lexicon.emptied())
        elif limits is not None and sum(tables.n_bytes for tables in self.tables) > limits.bags:
            self._begin(self._lexicon)

    def active(self, text: Columns) -> tuple[list[Active], list[Active]]:
        """Return the features of each template of the unigram and of the bigram block.  This is slow, for display only.

        This adds to the lexicon, but not to the tables of `encode`.
        """
        rows = self._lexicon.rows(text.orths)
        return self.unigrams.active(rows, text), self.bigrams.active(rows, text)

    def _word_numbers(self, orths: Hashes) -> Ints | None:
        return None if self.dictionary_words is None else self.dictionary_words.find(orths)[0]
