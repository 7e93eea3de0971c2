"""Compute features, from columns of hashes to ids, in training and in prediction.

A *growing* encoder assigns an id to every feature.  `freeze` applies the frequency cut-off; after it, unknown features
are dropped.  Bags are added to the store in both phases.  They are a cache, which `forget` can empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..types import Bools, Hashes, Ints, Numbers, Offsets
from .index import BagStore, Growable, HashIndex, Packed
from .lexicon import LexemeValues, Lexicon, pad_names, pad_values
from .plan import ColumnSlot, Plan, column_names, lexical_names
from .templates import Part
from .token_sets import TokenSets

UNKNOWN = -2
Tokens: TypeAlias = Ints | Offsets | slice
KNOWN = -1
"""In `Block.origins`, the template of features that came from a trained model; their values are their keys."""
BLOCK_TOKENS, BLOCK_SEQUENCES = 1 << 16, 1 << 10
"""Numbers of tokens or sequences whose ids are read or changed at a time, to limit the size of temporary arrays."""


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


class Ids(NamedTuple):
    """The features of tokens in one block: numbers [T, B] of bags in `store`, and single ids [T, A], -1 for none."""

    bags: Ints
    attrs: Ints
    store: BagStore

    @property
    def n_bytes(self) -> int:
        """Memory of the ids and their bags."""
        return self.bags.nbytes + self.attrs.nbytes + self.store.n_bytes

    def take(self, tokens: Tokens, offsets: Offsets) -> Ids:
        """Return the ids of some tokens, which are the sequences offsets [N + 1]."""
        return Ids(np.ascontiguousarray(self.bags[tokens]), np.ascontiguousarray(self.attrs[tokens]), self.store)

    def parts(self) -> Iterator[tuple[slice, Ids]]:
        """Yield ranges of tokens and their ids."""
        yield slice(None), self

    def plain(self) -> Ids:
        """Return all ids."""
        return self


class StoredIds(NamedTuple):
    """The ids of a large text, in a third of the memory: those of words are looked up by the words' numbers.

    packed (Packed): [T, *] see `Block.columns`.
    offsets (Offsets): [N + 1].
    table (Growable): The ids of each word.
    """

    block: Block
    packed: Packed
    offsets: Offsets
    table: Growable
    store: BagStore

    @property
    def n_bytes(self) -> int:
        """Memory of the ids, of those of each word, and of all bags."""
        return self.packed.bytes.n_bytes + self.table.n_bytes + self.store.n_bytes

    def take(self, tokens: Tokens, offsets: Offsets) -> Ids:
        """Return the ids of some whole sequences, offsets [N + 1]."""
        return self.block.expanded(self.packed.take(tokens), offsets, self.table, self.store)

    def parts(self) -> Iterator[tuple[slice, Ids]]:
        """Yield ranges of tokens and their ids."""
        for first in range(0, len(self.offsets) - 1, BLOCK_SEQUENCES):
            offsets = self.offsets[first : first + BLOCK_SEQUENCES + 1]
            tokens = slice(int(offsets[0]), int(offsets[-1]))
            yield tokens, self.take(tokens, offsets - offsets[0])

    def plain(self) -> Ids:
        """Return all ids."""
        return self.take(slice(None), self.offsets)


AnyIds: TypeAlias = Ids | StoredIds


class Encoded(NamedTuple):
    """A text ready for the model: ids that score labels, ids that score label pairs, and the sequences.

    words (Ints | None): [T] indices of the words in the tag dictionary, -1 for others; None without a dictionary.
    inputs (tuple[NDArray, ...]): [T, ...] inputs of the added potentials.
    """

    unigrams: AnyIds
    bigrams: AnyIds
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
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        return self._of(tokens, offsets - offsets[0])

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
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    unigrams, bigrams = (
        Ids(np.concatenate([ids.bags for ids in block]), np.concatenate([ids.attrs for ids in block]), block[0].store)
        for block in ([part.unigrams.plain() for part in parts], [part.bigrams.plain() for part in parts])
    )
    words = [part.words for part in parts if part.words is not None]
    inputs = tuple(np.concatenate(values) for values in zip(*(part.inputs for part in parts), strict=True))
    return Encoded(unigrams, bigrams, offsets, np.concatenate(words) if words else None, inputs)


def take_sequences(encoded: Encoded, sequences: Offsets) -> tuple[Encoded, Offsets]:
    """Return some sequences of an encoded text in the given order, and the numbers of their tokens."""
    lengths = np.diff(encoded.offsets)[sequences]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = np.arange(offsets[-1]) + np.repeat(encoded.offsets[:-1][sequences] - offsets[:-1], lengths)
    return encoded._of(tokens, offsets), tokens


class Block:
    """Feature ids of one list of templates.

    keys (Hashes | None): Feature keys of a trained model; None to collect features.
    """

    def __init__(self, plan: Plan, lexicon: Lexicon, columns: Sequence[str], keys: Hashes | None = None) -> None:
        self.plan = plan
        self.index = HashIndex(keys)
        self.frozen = keys is not None
        self._n_known = 0
        self.origins: list[tuple[int, Hashes]] | None = None
        self._template_of = Growable(np.uint16)
        self._new_ids: Ints | None = None
        self._lexicon, self._columns, self._width = lexicon, list(columns), lexicon.width
        self._pads = pad_values(lexicon.width)
        self._distances = np.array([slot.offset for slot in plan.lexeme_slots], np.int64)
        are_bags = np.array([len(slot.templates) > 1 for slot in plan.lexeme_slots], np.bool_)
        self._n_bags, self._n_attrs = int(are_bags.sum()), int((~are_bags).sum())
        self._targets = np.where(
            are_bags, np.cumsum(are_bags, dtype=np.int64) - 1, -np.cumsum(~are_bags, dtype=np.int64)
        )
        self._reset_caches()

    def _reset_caches(self) -> None:
        self.store = BagStore()
        self.table = Growable(np.int32, len(self.plan.lexeme_slots))
        self.table.resize(self._lexicon.size, UNKNOWN)  # known words are entered where they are met
        self._forget_equals()
        self._column_bags = [(HashIndex(), Growable(np.int32)) for _ in self.plan.column_slots]
        self._set_bags = [(HashIndex(), Growable(np.int32)) for _ in self.plan.set_slots]

    def _forget_equals(self) -> None:
        self._equals = HashIndex(), Growable(np.int32)

    def begin_with(self, keys: Hashes, templates: Numbers) -> None:
        """Give the first ids to the features [F] of a trained model, of these templates; `freeze` keeps them all."""
        self.index, self._n_known = HashIndex(keys), len(keys)
        self._template_of.append(templates)
        if self.origins is not None:
            self.origins.append((KNOWN, keys[None]))

    def forget(self, lexicon: Lexicon) -> None:
        """Start with empty caches and a new lexicon; feature ids stay."""
        self._lexicon = lexicon
        self._reset_caches()

    @property
    def n_bytes(self) -> int:
        """The memory of the caches."""
        columns = sum(index.n_bytes + numbers.n_bytes for index, numbers in (self._equals, *self._column_bags))
        return self.store.n_bytes + self.table.n_bytes + columns

    def encode(self, rows: Ints, text: Columns) -> Ids:
        """Return the ids of a text, whose words have the rows [T] of the lexicon."""
        n_bags, n_attrs = self._n_bags, self._n_attrs
        n_columns, n_sets = len(self.plan.column_slots), len(self.plan.set_slots)
        bags = np.empty((len(rows), n_bags + n_columns + n_sets), np.int32)
        attrs = np.empty((len(rows), n_attrs + len(self.plan.single_slots)), np.int32)
        if self.plan.lexeme_slots:
            self._encode_lexemes(rows, text, bags, attrs)
        for i, column_slot in enumerate(self.plan.column_slots):
            bags[:, n_bags + i] = self._encode_columns(column_slot, *self._column_bags[i], rows, text)
        for i, number in enumerate(self.plan.set_slots):
            bags[:, n_bags + n_columns + i] = self._encode_sets(number, *self._set_bags[i], text)
        read: dict[Any, Hashes] = {}
        for i, number in enumerate(self.plan.single_slots):
            attrs[:, n_attrs + i] = self._attributes(number, self._values(number, rows, text, read))
        return Ids(bags, attrs, self.store)

    def columns(self, rows: Ints, ids: Ids) -> Ints:
        """Return what `expanded` needs [T, *]: rows of the lexicon, if words switch on ids, and all other ids."""
        words = rows[:, None][:, : len(self.plan.lexeme_slots)]
        return np.concatenate([words, ids.bags[:, self._n_bags :], ids.attrs[:, self._n_attrs :]], axis=1)

    def expanded(self, columns: Ints, offsets: Offsets, table: Growable, store: BagStore) -> Ids:
        """Return the ids of sequences, given their `columns`; see `StoredIds`."""
        n_bags, n_attrs, rest = self._n_bags, self._n_attrs, min(1, len(self.plan.lexeme_slots))
        singles = columns.shape[1] - len(self.plan.single_slots)
        bags = np.empty((len(columns), n_bags + singles - rest), np.int32)
        attrs = np.empty((len(columns), n_attrs + columns.shape[1] - singles), np.int32)
        bags[:, n_bags:], attrs[:, n_attrs:] = columns[:, rest:singles], columns[:, singles:]
        if rest:
            self._look_up(columns[:, 0].copy(), offsets, table, bags, attrs)
        return Ids(bags, attrs, store)

    def _look_up(self, rows: Ints, offsets: Offsets, table: Growable, bags: Ints, attrs: Ints) -> int:
        slots = self._distances, self._width, table.array, self._targets
        return kernels.hashing.lexeme_ids(rows, offsets, *slots, bags, attrs, UNKNOWN)

    def _encode_lexemes(self, rows: Ints, text: Columns, bags: Ints, attrs: Ints) -> None:
        known = self.table.size
        if known < self._lexicon.size:
            self.table.resize(self._lexicon.size, UNKNOWN)
            for i in range(len(self.plan.lexeme_slots) if self.frozen else 0):  # at once, as most will be met in all
                self._enter(i, np.arange(known, self.table.size, dtype=np.int32))

        if self._look_up(rows, text.offsets, self.table, bags, attrs):
            self._meet(rows, text.offsets)
            self._look_up(rows, text.offsets, self.table, bags, attrs)

    def _meet(self, rows: Ints, offsets: Offsets) -> None:
        """Assign ids to words that are new in a slot."""
        for i, slot in enumerate(self.plan.lexeme_slots):
            words = self._lexicon.shifted(rows, offsets, slot.offset)
            new = np.unique(words[self.table.array[words, i] == UNKNOWN])
            if len(new):
                self._enter(i, new)

    def _enter(self, i: int, words: Ints) -> None:
        """Enter the ids of words [R] in a slot."""
        members = [self._word_features(n, words) for n in self.plan.lexeme_slots[i].templates]
        self.table.array[words, i] = members[0] if len(members) == 1 else self._bags(np.stack(members, axis=1))

    def _bags(self, members: Ints) -> Ints:
        """Return the bags [B] of features [B, S]; in prediction, words of equal features, as numbers, share one."""
        if not self.frozen:
            return self.store.add(members)
        keys = np.ones(len(members), np.uint64)
        for column in members.T:
            kernels.hashing.mix_values((column + 2).astype(np.uint64), keys)
        index, numbers = self._equals
        found, new = index.add(keys)
        numbers.append(self.store.add(members[new]))
        bags: Ints = numbers.array[found]
        return bags

    def _encode_columns(self, slot: ColumnSlot, index: HashIndex, numbers: Growable, rows: Ints, text: Columns) -> Ints:
        one_more = self._values(slot.key, rows, text) + np.uint64(1)  # absent parts also distinguish bags
        keys = self._mixed(slot.key, one_more)
        found, unknown = index.find(keys)
        if unknown:
            found, new = index.add(keys)
            members = [self._attributes(n, self._values(n, rows, text).compress(new, axis=1)) for n in slot.templates]
            numbers.append(self.store.add(np.stack(members, axis=1)))
        bags: Ints = numbers.array[found]
        return bags

    def _encode_sets(self, template: int, index: HashIndex, numbers: Growable, text: Columns) -> Ints:
        keys, sets, offset = self._set_keys(template, text)
        found, unknown = index.find(keys)
        if unknown:
            found, new = index.add(keys)
            sizes, values = sets.take(np.flatnonzero(new) + offset)
            numbers.append(self.store.add_ragged(self._attributes(template, values[None]), sizes))
        bags = np.zeros(len(found), np.int32)  # the empty set is the empty bag
        bags[found >= 0] = numbers.array[found[found >= 0]]
        return bags

    def _set_keys(self, number: int, text: Columns) -> tuple[Hashes, TokenSets, int]:
        """Return the keys [T] of the sets that a template uses, all sets, and its offset."""
        name, offset = self.plan.templates[number].parts[0]
        sets = text.sets[name]
        return self._shifted(sets.keys, text.offsets, offset, np.zeros_like(self._pads)), sets, offset

    def _mixed(self, number: int, values: Hashes) -> Hashes:
        """Return the keys [M] of a template, given the values [parts, M] behind them."""
        keys = np.full(values.shape[1], self.plan.templates[number].seed, np.uint64)
        for part in values:
            kernels.hashing.mix_values(part, keys)
        return keys

    def _word_features(self, number: int, words: Ints) -> Ints:
        """Return the feature ids [R] of a lexeme slot's template for rows [R] of the lexicon."""
        parts = self.plan.templates[number].parts
        return self._attributes(number, np.stack([self._lexicon.column(part.attribute)[words] for part in parts]))

    def _values(self, number: int, rows: Ints, text: Columns, read: dict[Any, Any] | None = None) -> Hashes:
        """Return [parts, T] values of a template for every token; `read` keeps those of parts for other templates."""
        read = {} if read is None else read
        parts = self.plan.templates[number].parts
        values = np.empty((len(parts), len(rows)), np.uint64)
        for out, part in zip(values, parts, strict=True):
            if part not in read:
                read[part] = self._part_values(part, rows, text, read)
            out[:] = read[part]
        return values

    def _part_values(self, part: Part, rows: Ints, text: Columns, read: dict[Any, Any]) -> Hashes:
        if part.attribute in self._columns:
            column = text.context[:, self._columns.index(part.attribute)]
            return self._shifted(column, text.offsets, part.offset, self._pads)
        if part.offset not in read:
            read[part.offset] = self._lexicon.shifted(rows, text.offsets, part.offset)
        values: Hashes = self._lexicon.column(part.attribute)[read[part.offset]]
        return values

    def _shifted(self, column: Hashes, offsets: Offsets, distance: int, pads: Hashes) -> Hashes:
        """Return the values [T] of a column `distance` tokens later, `pads` beyond the ends of sequences."""
        rows = np.arange(len(pads), len(pads) + len(column), dtype=np.int32)
        return np.concatenate([pads, column])[self._lexicon.shifted(rows, offsets, distance)]

    @property
    def template_of(self) -> Numbers:
        """[F] indices into ``plan.templates`` of the features collected here."""
        return self._template_of.array

    def _attributes(self, number: int, values: Hashes) -> Ints:
        """Return the feature ids [M] of a template, given the values [parts, M] behind them."""
        keys = self._mixed(number, values)
        if self.frozen:
            return self.index.find(keys)[0]
        ids, new = self.index.add(keys)
        self._template_of.resize(self.index.size, number)  # new ids are consecutive
        if self.origins is not None and new.any():
            self.origins.append((number, values[:, new]))
        return ids

    def active(self, rows: Ints, text: Columns) -> list[Active]:
        """Return the features of each template; the words have the rows [T] of the lexicon."""
        found = []
        for number in range(len(self.plan.templates)):
            if number in self.plan.set_slots:
                found.append(self._active_sets(number, text))
                continue
            values = self._values(number, rows, text)
            keys = self._mixed(number, values)
            tokens = np.flatnonzero(keys)
            found.append(Active(number, tokens, self.index.find(keys[tokens])[0], values[:, tokens]))
        return found

    def _active_sets(self, number: int, text: Columns) -> Active:
        keys, sets, offset = self._set_keys(number, text)
        tokens = np.flatnonzero(keys)
        sizes, values = sets.take(tokens + offset)
        known = self.index.find(self._mixed(number, values[None]))[0]
        return Active(number, np.repeat(tokens, sizes), known, values[None])

    def count(self, ids: AnyIds) -> Offsets:
        """Return the number of tokens [F] that have each feature."""
        bag_counts, counts = np.zeros(self.store.size, np.int64), np.zeros(self.index.size, np.int64)
        for _, part in ids.parts():
            bag_counts += np.bincount(part.bags.ravel(), minlength=self.store.size)
            counts += np.bincount(part.attrs[part.attrs >= 0], minlength=self.index.size)
        np.add.at(counts, self.store.ids, np.repeat(bag_counts, np.diff(self.store.ptr)))
        return counts

    def freeze(self, texts: Sequence[AnyIds], min_count: int) -> None:
        """Drop new features of fewer than `min_count` tokens of texts and accept no further ones; see `renumber`."""
        self.frozen = True
        if min_count <= 1:
            self.index = HashIndex(self.index.keys)  # without slots, which training does not need
            return
        kept = np.sum([self.count(ids) for ids in texts], axis=0) >= min_count
        kept[: self._n_known] = True
        self.keep(kept)

    def adopted(self, ids: AnyIds, other: Block) -> Ids:
        """Return the ids [T] of another block, of which this is a copy with fewer features, as ids of this one."""
        ids = ids.plain()
        new_ids = np.append(self.index.find(other.index.keys)[0], np.int32(-1))  # -1 stays -1
        return Ids(ids.bags, new_ids[ids.attrs], self.store)

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
        new_ids = np.append(ids, -1).astype(np.int32)  # -1 stays -1
        self.index = HashIndex(keys)
        self.store.renumber(new_ids)
        self._forget_equals()
        for slot, column in zip(self.plan.lexeme_slots, self.table.array.T, strict=True):
            if len(slot.templates) == 1:
                met = column != UNKNOWN
                column[met] = new_ids[column[met]]
        self._new_ids = new_ids

    def renumber(self, ids: AnyIds) -> None:
        """Replace the ids from before the last `freeze`, `keep` or `number_as` by the current ones, in place."""
        if self._new_ids is None:
            return
        size = ids.packed.bytes.size if isinstance(ids, StoredIds) else len(ids.attrs)
        for tokens in (slice(first, first + BLOCK_TOKENS) for first in range(0, size, BLOCK_TOKENS)):
            if isinstance(ids, StoredIds):  # those of words are in its table
                columns = ids.packed.take(tokens)
                singles = columns[:, columns.shape[1] - len(self.plan.single_slots) :]
                singles[:] = self._new_ids[singles]
                ids.packed.replace(tokens, columns)
            else:
                ids.attrs[tokens] = self._new_ids[ids.attrs[tokens]]


class Encoder:
    """Both blocks of a model's features over one lexicon.

    values_of (LexemeValues): Maps a word's hash to the values of `lexical_names(unigrams, bigrams)`, in that order.
    words (HashIndex | None): Words of a tag dictionary; new ones get indices until `freeze`.
    pinned (bool): Keep the caches regardless of their size; set while encoded texts will be joined.
    """

    MAX_CACHED = 1 << 19
    """Number of words, and of distinct bags of a block, at which the caches are emptied."""

    def __init__(
        self, unigrams: Plan, bigrams: Plan, values_of: LexemeValues, keys: tuple[Hashes, Hashes] | None = None
    ) -> None:
        self.columns = column_names(unigrams, bigrams)
        self._new_lexicon = partial(
            Lexicon, lexical_names(unigrams, bigrams), max(unigrams.width, bigrams.width), values_of
        )
        self.pinned = False
        self.words: HashIndex | None = None
        self._lexicon = self._new_lexicon()
        self.unigrams, self.bigrams = (
            Block(plan, self._lexicon, self.columns, own)
            for plan, own in zip((unigrams, bigrams), keys or (None, None), strict=True)
        )

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

    def rows(self, text: Columns) -> Ints:
        """Return the rows [T] of the words in the lexicon, for `StoredIds`."""
        return self._lexicon.rows(text.orths)

    def encode(self, text: Columns) -> Encoded:
        """Return the ids of a text."""
        sizes = (self._lexicon.size, self.unigrams.store.size, self.bigrams.store.size)
        if self.frozen and not self.pinned and max(sizes) > self.MAX_CACHED:
            self._forget()
        try:
            rows = self._lexicon.rows(text.orths)
            unigrams, bigrams, words = self.unigrams.encode(rows, text), self.bigrams.encode(rows, text), None
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
        for ids in {id(text.unigrams): text.unigrams for text in texts}.values():
            self.unigrams.renumber(ids)
        for ids in {id(text.bigrams): text.bigrams for text in texts}.values():
            self.bigrams.renumber(ids)

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
    name = plan.templates[template].name
    return [f"{name}={'|'.join(pads.get(v) or text_of(v) for v in column)}" for column in values.T.tolist()]
