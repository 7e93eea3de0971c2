"""Convert Docs to columns of hashes, the input of the encoder."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from spacy.strings import get_string_id, hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from ..errors import ConfigError, DataError
from ..features.attributes import LEXEME_FLAGS, LEXEME_HASHES, TEXT_FUNCTIONS
from ..features.encoder import Columns
from ..features.entries import names_in
from ..features.protocol import DocAttributes, LabelAttributes
from ..features.sets import FeatureSet
from ..features.token_sets import TokenSets, make_token_sets
from ..types import Hashes, Ints, LexemeFunction, Offsets, TokenFunction
from .structs import read_tokens

PORTION_TOKENS = 1 << 15
"""Tokens that `CRFComponent.pipe` processes at a time; Docs should still be in the processor's cache when read."""
ALWAYS = ("ORTH", "SENT_START")


class DocColumns(NamedTuple):
    """Token columns of some Docs.

    text (Columns): Input of the encoder; a sequence is a sentence if sentence starts are set, else a Doc.
    state (Hashes): [T, S] the columns in `Annotation.reads`.
    doc_offsets (Offsets): [docs + 1] starts of the Docs' tokens.
    """

    text: Columns
    state: Hashes
    doc_offsets: Offsets


def portions(stream: Iterable[Doc], size: int) -> Iterator[list[Doc]]:
    """Split a stream into lists of `size` Docs, or fewer if they have `PORTION_TOKENS` tokens."""
    docs: list[Doc] = []
    n_tokens = 0
    for doc in stream:
        docs.append(doc)
        n_tokens += len(doc)
        if len(docs) >= size or n_tokens >= PORTION_TOKENS:
            yield docs
            docs, n_tokens = [], 0
    if docs:
        yield docs


def read_docs(
    docs: Sequence[Doc],
    columns: Sequence[str],
    state: Sequence[str] = (),
    features: FeatureSet | None = None,
    strings: dict[int, str] | None = None,
) -> DocColumns:
    """Return the columns of `docs`, read once.

    columns, state (Sequence[str]): Token attributes that templates use, and those that the task uses.
    features (FeatureSet | None): Its token functions and attribute plug-ins are applied, except those that read labels.
    strings (dict | None): Filled with the text behind each hash, where names of attributes are to be kept.
    RAISES DataError: If a token function returns something other than names.
    RAISES ConfigError: If a plug-in does not return values for every token.
    """
    doc_offsets = np.zeros(len(docs) + 1, np.int64)
    np.cumsum([len(doc) for doc in docs], out=doc_offsets[1:])
    table = read_tokens(docs, (*ALWAYS, *state, *columns))
    starts = table[:, 1] == 1
    starts[doc_offsets[:-1][np.diff(doc_offsets) > 0]] = True
    offsets = np.append(np.flatnonzero(starts), len(table)).astype(np.int64)
    first = len(ALWAYS) + len(state)
    sets = {} if features is None else _sets(docs, features, offsets, strings)
    text = Columns(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, first:]), offsets, sets)
    return DocColumns(text, table[:, len(ALWAYS) : first], doc_offsets)


def _sets(
    docs: Sequence[Doc], features: FeatureSet, offsets: Offsets, strings: dict[int, str] | None
) -> dict[str, TokenSets]:
    functions = features.token_functions
    tokens = [token for doc in docs for token in doc] if functions else []
    sets = {
        name: _token_sets(name, function, tokens, offsets, strings, features.numbers)
        for name, function in functions.items()
    }
    for block, plugin in features.doc_attributes.items():
        if isinstance(plugin, DocAttributes):
            sets.update(_checked(block, plugin, plugin.read(block, docs, strings), int(offsets[-1])))
    return sets


def with_labels(
    found: DocColumns,
    docs: Sequence[Doc],
    features: FeatureSet,
    labels: Ints,
    names: Sequence[str],
    strings: dict[int, str] | None = None,
) -> DocColumns:
    """Add the attributes that depend on the labels of a first stage [T], numbers of `names`, to columns of Docs."""
    sets = dict(found.text.sets)
    for block, plugin in features.doc_attributes.items():
        if isinstance(plugin, LabelAttributes):
            read = plugin.read_labels(block, docs, labels, names, strings)
            sets.update(_checked(block, plugin, read, len(labels)))
    return found._replace(text=found.text._replace(sets=sets))


def _checked(
    block: str, plugin: DocAttributes | LabelAttributes, found: Mapping[str, TokenSets], n_tokens: int
) -> Mapping[str, TokenSets]:
    if found.keys() != set(plugin.names(block)) or any(len(one.keys) != n_tokens for one in found.values()):
        sizes = {name: len(one.keys) for name, one in found.items()}
        raise ConfigError(
            f"The attributes {block.lower()!r} ({type(plugin).__name__}) have values for {sizes} tokens of "
            f"{n_tokens}; read must return a set for each token under each of {list(plugin.names(block))}."
        )
    return found


def _token_sets(
    name: str, function: TokenFunction, tokens: list[Token], offsets: Offsets, strings: dict[int, str] | None,
    numbers: bool,
) -> TokenSets:  # fmt: skip
    sizes: list[int] = []
    values = array("Q")
    repeats = getattr(function, "repeats", False)  # a name that is returned twice counts twice
    for first, last in pairwise(offsets.tolist()):
        sequence = tokens[first:last]
        for i in range(last - first):
            try:
                names = names_in(function(sequence, i), {} if numbers else None)
            except DataError as error:
                raise DataError(f"Token function {name!r} at the token {sequence[i].text!r}: {error}") from None
            hashes = {_HASHES[each]: each for each in names}
            if strings is not None:
                strings.update(hashes)
            members = [_HASHES[each] for each in names] if repeats else hashes
            sizes.append(len(members))
            values.extend(members)
    if len(_HASHES) > MAX_HASHES:
        _HASHES.clear()
    return make_token_sets(sizes, values)


def lexeme_reader(
    vocab: Callable[[], Vocab],
    names: Sequence[str],
    functions: Mapping[str, LexemeFunction],
    strings: dict[int, str] | None = None,
) -> Callable[[int], list[int]]:
    """Return a function from a word's hash to the values of the attributes `names`, 0 for those without a value.

    vocab (Callable): Returns the vocab that holds the words at hand.
    strings (dict | None): As in `read_docs`.
    """
    readers = [_reader(name, functions, strings) for name in names]

    def values_of(orth: int) -> list[int]:
        lexeme = vocab()[orth]
        text = lexeme.text
        return [read(lexeme, text) for read in readers]

    return values_of


def _reader(
    name: str, functions: Mapping[str, LexemeFunction], strings: dict[int, str] | None
) -> Callable[[Any, str], int]:
    field = name.lower()
    if name in LEXEME_HASHES:
        return lambda lexeme, text: int(getattr(lexeme, field))
    if name in LEXEME_FLAGS:
        return lambda lexeme, text: int(bool(getattr(lexeme, field)))
    function = functions[name] if name in functions else TEXT_FUNCTIONS[name]

    def read(lexeme: Any, text: str) -> int:
        value = function(text)
        if not value:
            return 0
        key = _hash_of(value)
        if strings is not None:
            strings[key] = value
        return key

    return read


@lru_cache(maxsize=1 << 14)  # words share their affixes and shapes
def _hash_of(value: str) -> int:
    return int(get_string_id(value))


class _Hashes(dict[str, int]):
    """Hashes of names; "IS_TITLE" and the like do not get the small numbers that spaCy reserves for them."""

    def __missing__(self, name: str) -> int:
        self[name] = key = int(hash_string(name))
        return key


_HASHES = _Hashes()
MAX_HASHES = 1 << 18
"""Names whose hashes are cached."""
