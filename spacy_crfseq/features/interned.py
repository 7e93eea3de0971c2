"""Attributes of tokens as python-crfsuite reads them, with one look-up for each entry of a dictionary or list.

The entries that the items of a dictionary or the elements of a list yield are keys of one table, so that names are made
and hashed once for each distinct entry.  `Bags` puts attributes that depend on each other, such as a word and its
suffixes, into one set, whose weights the engine sums once for all tokens that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..types import Bools, Hashes, Ints, Offsets
from .encoded import Encoded, Ids
from .entries import attribute_of, entries_in
from .index import BagStore

NOTHING, ZERO, VALUED = -1, -2, 1 << 30
"""Codes of entries other than attributes with the value 1: an unknown attribute; ``ZERO - a`` for attribute a with the
value 0; another value."""
LISTED = np.dtype([("row", np.int32), ("value", np.float64)])
"""A value and the row of weights that it multiplies."""
MOST_CACHED, MOST_BAGS = 1 << 20, 1 << 19
"""Entries at which a trained model remembers no more of them, and sets at which it forgets those of earlier texts."""
SAMPLE, MOST_KINDS, MOST_GROUPS = 8192, 64, 6
"""Tokens by which names are grouped, names that are considered, and groups that are made of them."""
ROW_COST = 0.7
"""Cost of one more row for each token, relative to one more member of a set."""


class AttributeText(NamedTuple):
    """The attributes of T tokens.

    sizes (Offsets): [T] number of entries of each token.
    codes (Ints): [E] code of each entry: the number of an attribute with the value 1, or see `NOTHING`.
    numbers, values (NDArray): The attributes of the entries with the code `VALUED`, and their values.
    """

    sizes: Offsets
    codes: Ints
    numbers: Ints
    values: NDArray[np.float64]

    @property
    def tokens(self) -> Ints:
        """[E] the token of each entry."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)

    def decoded(self) -> tuple[Ints, NDArray[np.float64]]:
        """Return the attribute [E] of each entry, -1 if unknown, and its value [E]."""
        numbers = np.where(self.codes <= ZERO, ZERO - self.codes, self.codes)
        values = (self.codes >= 0).astype(np.float64)
        valued = self.codes == VALUED
        numbers[valued], values[valued] = self.numbers, self.values
        return numbers, values

    def listed(self, groups: Ints) -> tuple[Ints, NDArray[Any]]:
        """Return the R attributes with values that are in no bag, and these of each token: [T, K] `LISTED`, or -1."""
        if not len(self.numbers) and groups.min(initial=0) == 0:
            return self.numbers, np.zeros((len(self.sizes), 0), LISTED)
        numbers, values = self.decoded()
        used = (values != 0) & ((self.codes == VALUED) | (np.append(groups, 0)[numbers] < 0))
        attributes, rows = np.unique(numbers[used], return_inverse=True)
        tokens = self.tokens[used]
        counts = np.bincount(tokens, minlength=len(self.sizes))
        out = np.full((len(counts), counts.max(initial=0)), np.array((-1, 0), LISTED))
        out[tokens, np.arange(len(tokens)) - (np.cumsum(counts) - counts)[tokens]] = np.rec.fromarrays(
            [rows, values[used]], dtype=LISTED
        )
        return attributes, out


class AttributeCodes(dict[Any, int]):
    """The code of each entry of tokens.

    names (dict[str, int]): The number of each attribute.
    collects (bool): Whether new attributes get numbers, so that all entries are remembered.
    """

    collects = False

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = {name: number for number, name in enumerate(names)}
        self._numbers, self._values = list[int](), list[float]()

    def __missing__(self, entry: Any) -> int:
        name, value = attribute_of(entry)
        number, code = self._number_of(name, entry), NOTHING
        if number is not None:
            code = number if value == 1.0 else VALUED if value else ZERO - number
        if code == VALUED:
            self._numbers.append(self.names[name])
            self._values.append(value)
        elif self.collects or (value in (0.0, 1.0) and len(self) < MOST_CACHED):
            self[entry] = code
        return code

    def _number_of(self, name: str, entry: Any) -> int | None:
        """Return the number of an attribute, None if it is unknown."""
        raise NotImplementedError

    def read(self, sequences: Iterable[Iterable[Any]]) -> AttributeText:
        """Return the attributes of the tokens of some sequences.

        RAISES DataError: If a token is not a dictionary or a list, or has other contents than python-crfsuite reads.
        """
        tokens = list(chain.from_iterable(sequences))
        kinds = set(map(type, tokens))
        if kinds <= {dict} or kinds <= {list, set}:
            entries = map(dict.items, tokens) if kinds == {dict} else tokens
            with suppress(TypeError):  # a dictionary or a list in a token
                return self._read(tokens, chain.from_iterable(entries))
        opened = [list(entries_in(token)) for token in tokens]
        try:
            return self._read(opened, chain.from_iterable(opened))
        except TypeError as error:
            raise DataError(f"a value is neither a string nor a number ({error}).") from None

    def _read(self, tokens: Sequence[Any], entries: Iterable[Any]) -> AttributeText:
        self._numbers, self._values = [], []
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        codes = np.fromiter(map(self.__getitem__, entries), np.int32, int(sizes.sum()))
        return AttributeText(sizes, codes, np.array(self._numbers, np.int32), np.array(self._values, np.float64))


class GrowingAttributes(AttributeCodes):
    """The codes of entries while attributes are collected: new ones get the next numbers.

    kinds (list[str]): [F] the name of each attribute without its text.
    """

    collects = True

    def __init__(self) -> None:
        super().__init__()
        self.kinds = list[str]()

    def fixed(self) -> FixedAttributes:
        """Return the codes of these attributes for texts whose other attributes are unknown."""
        attributes = FixedAttributes()
        attributes.names = dict(self.names)
        attributes.update(self)
        return attributes

    def _number_of(self, name: str, entry: Any) -> int | None:
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.names)
            self.kinds.append(entry[0] if type(entry) is tuple else name.partition("=")[0])
        return number


class FixedAttributes(AttributeCodes):
    """The codes of entries for the attributes of a model; others are unknown."""

    def _number_of(self, name: str, entry: Any) -> int | None:
        return self.names.get(name)


def joined(texts: Sequence[AttributeText]) -> AttributeText:
    """Return texts as one."""
    return AttributeText(*map(np.concatenate, zip(*texts, strict=True)))


def group(text: AttributeText, kinds_of: Sequence[str]) -> Ints:
    """Return the group [F] of each attribute, by which names determine each other in a sample of the text.

    Attributes with values other than 0 and 1 are in no group, -1.  Merging two groups saves a row of weights for each
    token, and makes more and larger sets.  Names are merged one at a time, where that adds least.
    kinds_of (Sequence[str]): [F] the name of each attribute without its text.
    """
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds_of))}
    kinds = np.array([numbers[kind] for kind in kinds_of], np.int64)
    ranks = np.argsort(np.argsort(-np.bincount(kinds, minlength=len(numbers)), kind="stable"))
    home, step = np.minimum(ranks, MOST_KINDS)[kinds], max(1, len(text.sizes) // SAMPLE)
    used = (np.repeat(np.arange(len(text.sizes)) % step == 0, text.sizes)) & (text.codes >= 0) & (text.codes < VALUED)
    codes, tokens = text.codes[used], text.tokens[used] // step
    table = np.zeros((MOST_KINDS + 1, -(-len(text.sizes) // step)), np.uint64)
    np.add.at(table, (home[codes], tokens), _hashes(len(home))[codes])
    # of each group: the set of each token as a sum, number of names
    groups_so_far: list[tuple[NDArray[np.uint64], int]] = []
    place = np.full(MOST_KINDS + 1, -1)
    for kind, column in enumerate(table[: min(len(numbers), MOST_KINDS)]):
        alone = ROW_COST * len(column) + len(np.unique(column)) if len(groups_so_far) < MOST_GROUPS else np.inf
        costs = [len(np.unique(sets + column)) * (n + 1) - len(np.unique(sets)) * n for sets, n in groups_so_far]
        best = int(np.argmin([*costs, alone]))
        sets, n = groups_so_far[best] if best < len(groups_so_far) else (np.uint64(0), 0)
        groups_so_far[best : best + 1] = [(sets + column, n + 1)]
        place[kind] = best
    place[place < 0] = len(groups_so_far)
    groups: Ints = place[home].astype(np.int32)
    groups[text.numbers] = -1
    return groups


def _hashes(n: int) -> Hashes:
    return np.random.default_rng(0).integers(1, 2**64, n, np.uint64)


class Bags:
    """The sets of attributes that tokens have in each group.

    groups (Ints): [F] the group of each attribute, -1 for none.
    """

    def __init__(self, groups: Ints) -> None:
        self.groups, self.store = groups, BagStore()
        # the last is for entries without an attribute
        self._group_of = np.append(np.maximum(groups, 0), 0).astype(np.int64)
        self._hashes = np.append(np.where(groups < 0, np.uint64(0), _hashes(len(groups))), np.uint64(0))

    def forget(self) -> None:
        """Start with empty caches."""
        self.store = BagStore()

    def encode(self, text: AttributeText, offsets: Offsets) -> Encoded:
        """Return the sets of the tokens; a set has the attributes with the value 1, repeated ones as often."""
        n, tokens, n_groups = len(text.sizes), text.tokens, int(self._group_of.max()) + 1
        numbers = np.minimum(text.codes.view(np.uint32), len(self.groups)).astype(np.int32)  # negative ones are large
        keys = np.zeros((n_groups, n), np.uint64)  # sums, in which the order of attributes does not matter
        np.add.at(keys.ravel(), self._group_of[numbers] * n + tokens, self._hashes[numbers])

        def members(group: int, new: Bools) -> tuple[Ints, Offsets]:
            places = np.flatnonzero(new[tokens])
            places = places[(self._group_of[numbers[places]] == group) & (self._hashes[numbers[places]] > 0)]
            return numbers[places], np.bincount(tokens[places], minlength=n)[new]

        columns = [self.store.of(keys[group], partial(members, group)) for group in range(n_groups)]
        ids = Ids(np.stack(columns, axis=1), 0, offsets, self.store)
        return Encoded(ids, Ids(np.zeros((n, 0), np.int32), 0, offsets, BagStore()), offsets)
