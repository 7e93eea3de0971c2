"""The tokens and spans of many Docs: an attribute of all is read or written by one operation on spaCy's C structs.

spaCy's methods take microseconds for a Doc and a third of a microsecond for a Span; without them, a component is twice
as fast, and a pipeline on raw text by a quarter.  The structs are the interface of spaCy for compiled code
(``spacy/structs.pxd``).  Its layout is verified on a Doc made for this purpose before the first use.  Where it differs,
in releases of spaCy after `TESTED`, in interpreters other than CPython, and with SPACY_CRFSEQ_PLAIN_SPACY=1 in the
environment, spaCy's methods do the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy import about
from spacy.attrs import IDS
from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from ..schemes import SpanArrays
from ..types import Hashes, Offsets

TESTED = (3, 8)
"""The last release of spaCy whose structs are as declared here; other layouts are not looked for."""
PLAIN = "SPACY_CRFSEQ_PLAIN_SPACY"
"""The environment variable that turns this off."""
FEWEST = 200
"""Tokens from which this takes less time than spaCy's methods."""
BASE = 1 << 16
"""The first address that can be read; operating systems map nothing below it."""
Addresses: TypeAlias = Offsets

_LEXEME = np.dtype([(name, "u8") for name in ("flags", "lang", "id", "length", "orth", "lower", "norm")])
_TOKEN = np.dtype(
    [
        ("lex", "u8"), ("morph", "u8"), ("pos", "i4"), ("spacy", "i4"), ("tag", "u8"), ("idx", "i4"), ("lemma", "u8"),
        ("norm", "u8"), ("head", "i4"), ("dep", "u8"), ("kids and edges", "u4", 4), ("sent_start", "i4"),
        ("ent_iob", "i4"), ("ent_type", "u8"), ("ent_kb_id", "u8"), ("ent_id", "u8"),
    ],
    align=True,
)  # fmt: skip
_SPAN_FIELDS = ("start", "end", "start_char", "end_char", "label")
_SPAN = np.dtype([("id", "u8"), *((name, "i4") for name in _SPAN_FIELDS[:4]), ("label", "u8"), ("kb_id", "u8")])
_TOKEN_FIELDS = ("POS", "TAG", "LEMMA", "DEP", "SENT_START", "ENT_IOB", "ENT_TYPE", "MORPH", "SPACY", "IDX")
_LEXEME_FIELDS, _FLAGS = ("ORTH", "LENGTH", "LOWER"), ("IS_SPACE", "IS_ALPHA", "IS_LOWER", "IS_STOP")
READABLE = (*_TOKEN_FIELDS, "NORM", *_LEXEME_FIELDS, *_FLAGS)


class StructLayout(NamedTuple):
    """Which 8-byte words of the objects Doc and SpanGroup hold the addresses of their first token and span."""

    tokens: int
    spans: int


def _memory(kind: str) -> NDArray[Any]:
    """Return the memory of this process as one array, to be read and written only at addresses of objects."""
    dtype = np.dtype(kind)
    view = {"data": (BASE, False), "shape": ((1 << 56) // dtype.itemsize,), "typestr": dtype.str, "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=view))


_MEMORY = {kind: (_memory(kind), shift) for kind, shift in (("<u8", 3), ("<i4", 2))}


def _get(struct: Any, field: str, places: Addresses) -> NDArray[Any]:
    kind, offset = struct.fields[field][:2]
    memory, shift = _MEMORY[kind.str]
    values: NDArray[Any] = memory[(places + (offset - BASE)) >> shift]
    return values


def _set(struct: Any, field: str, places: Addresses, values: NDArray[Any]) -> None:
    kind, offset = struct.fields[field][:2]
    memory, shift = _MEMORY[kind.str]
    memory[(places + (offset - BASE)) >> shift] = values


def _pointers(objects: Sequence[Any], word: int) -> Addresses:
    """Return the address that a word of each object holds."""
    memory, shift = _MEMORY["<u8"]
    places = np.fromiter(map(id, objects), np.int64, len(objects)) + (8 * word - BASE)
    pointers: Addresses = memory[places >> shift].view(np.int64)
    return pointers


def _lists(first: Addresses, sizes: Offsets, struct: Any) -> Addresses:
    """Return the addresses of the structs of consecutive lists, which have these sizes and begin at these addresses."""
    before = np.cumsum(sizes) - sizes
    addresses: Addresses = np.repeat(first - before * struct.itemsize, sizes) + np.arange(sizes.sum()) * struct.itemsize
    return addresses


@cache
def layout() -> StructLayout | None:
    """Return where Docs and SpanGroups have their structs; None if these are not as declared above."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return None
    if os.environ.get(PLAIN, "0") != "0" or tuple(map(int, about.__version__.split(".")[:2])) > TESTED:
        return None
    functions = str.isspace, str.isalpha, str.islower, "in".__eq__, str.lower
    getters = {IDS[name]: function for name, function in zip((*_FLAGS, "LOWER"), functions, strict=True)}
    vocab, words = Vocab(lex_attr_getters=getters), ["Ada", "\n", "in"]
    doc = Doc(vocab, words, [True, False, False], morphs=["", "Case=Nom", ""])
    table: Any = np.arange(21, dtype=np.uint64).reshape(3, 7)
    table[:, _TOKEN_FIELDS.index("ENT_IOB")] = 3, 1, 2
    doc.from_array([*_TOKEN_FIELDS[:7]], table)
    group = SpanGroup(doc, name="name", spans=[Span(doc, 1, 3, "name"), Span(doc, 0, 1, "name")])

    def after(owner: Any, member: Any) -> int:
        words = [int(_pointers([owner], word)[0]) for word in range(type(owner).__basicsize__ // 8)]
        return words.index(id(member)) + 1 if id(member) in words else 0

    layout_ = StructLayout(after(doc, doc.spans), after(group, group.attrs))
    first, (begin, end) = _pointers([doc], layout_.tokens)[0], (_pointers([group], layout_.spans + i) for i in range(2))
    # an address that may be none of a struct is not followed
    room = [n for a, n in doc.mem.addresses.items() if a <= first < a + n]
    if end - begin != 2 * _SPAN.itemsize or not room or room[0] % _TOKEN.itemsize:
        return None
    tokens, spans = _tokens([doc], layout_), _lists(begin, np.array([2]), _SPAN)
    same = all(np.array_equal(_read(tokens, names), doc.to_array([*names])) for names in (_TOKEN_FIELDS, READABLE))
    read = [tuple(row) for row in zip(*(_get(_SPAN, name, spans).tolist() for name in _SPAN_FIELDS), strict=True)]
    return layout_ if same and read == [tuple(getattr(span, name) for name in _SPAN_FIELDS) for span in group] else None


def _usable(docs: Sequence[Doc]) -> StructLayout | None:
    return layout() if set(map(type, docs)) == {Doc} else None


def _tokens(docs: Sequence[Doc], where: StructLayout) -> Addresses:
    """Return the addresses of the tokens [T] of Docs."""
    return _lists(_pointers(docs, where.tokens), np.fromiter(map(len, docs), np.int64, len(docs)), _TOKEN)


def _read(tokens: Addresses, names: Sequence[str]) -> Hashes:
    table = np.empty((len(names), len(tokens)), np.uint64)
    lexemes = _get(_TOKEN, "lex", tokens).view(np.int64)
    for name, out in zip(names, table, strict=True):
        if name in _FLAGS:
            out[:] = _get(_LEXEME, "flags", lexemes) >> np.uint64(IDS[name]) & np.uint64(1)
        elif name in _LEXEME_FIELDS:
            out[:] = _get(_LEXEME, name.lower(), lexemes)
        else:
            out[:] = _get(_TOKEN, name.lower(), tokens)
        if name == "NORM":  # that of the lexeme if the token has none of its own
            out[:] = np.where(out == 0, _get(_LEXEME, "norm", lexemes), out)
    return table.T


def read_tokens(docs: Sequence[Doc], names: Sequence[str]) -> Hashes:
    """Return the values [T, names] of token attributes of all Docs; those of `Doc.to_array`, which are its names."""
    n_tokens = sum(map(len, docs))
    if n_tokens >= FEWEST and (where := _usable(docs)) and set(names).issubset(READABLE):
        return _read(_tokens(docs, where), names)
    table, begin = np.empty((n_tokens, len(names)), np.uint64), 0
    for doc in docs if names else ():
        table[begin : begin + len(doc)] = doc.to_array([*names]).reshape(len(doc), len(names))
        begin += len(doc)
    return table


class Texts(list[Doc]):
    """Docs whose token attributes are read at once, and those that are asked for again once."""

    def __init__(self, docs: Iterable[Doc]) -> None:
        super().__init__(docs)
        self._tables: dict[tuple[str, ...], Hashes] = {}

    def to_array(self, names: Sequence[str]) -> Hashes:
        """Return the values [T, names] of token attributes, as `Doc.to_array` does of one Doc; not to be changed."""
        key = tuple(names)
        if key not in self._tables:
            self._tables[key] = read_tokens(self, names)
        return self._tables[key]


def write_tokens(docs: Sequence[Doc], names: Sequence[str], table: Any) -> None:
    """Set token attributes of all Docs to values [T, names]; a morphological analysis must be in the vocab."""
    if len(table) >= FEWEST and (where := _usable(docs)):
        tokens = _tokens(docs, where)
        for name, values in zip(names, table.T, strict=True):
            _set(_TOKEN, name.lower(), tokens, values)
        return
    begin = 0
    for doc in filter(len, docs):
        doc.from_array([*names], table[begin : begin + len(doc)])
        begin += len(doc)


def by_doc(spans: SpanArrays, doc_offsets: Offsets) -> tuple[Offsets, Offsets, Offsets]:
    """Return the bounds of each Doc's spans [docs + 1], and starts and ends counted in their Docs."""
    bounds = np.searchsorted(spans.start, doc_offsets)
    home = np.repeat(doc_offsets[:-1], np.diff(bounds))
    return bounds, spans.start - home, spans.end - home


def write_spans(docs: Sequence[Doc], key: str, doc_offsets: Offsets, spans: SpanArrays, labels: Hashes) -> None:
    """Set ``doc.spans[key]`` of all Docs.

    doc_offsets (Offsets): [docs + 1] starts of the Docs' tokens.
    spans (SpanArrays): S spans in the order of the text, whose tokens are counted over all Docs.
    labels (Hashes): [S] labels, strings of the vocab.
    """
    bounds, starts, ends = by_doc(spans, doc_offsets)
    sizes = np.diff(bounds)
    where = _usable(docs) if doc_offsets[-1] >= FEWEST else None
    if where is None:
        rows = list(zip(starts.tolist(), ends.tolist(), labels.tolist(), strict=True))
        for doc, (first, last) in zip(docs, pairwise(bounds.tolist()), strict=True):
            doc.spans[key] = [Span(doc, *span) for span in rows[first:last]]
        return
    groups = []
    for doc, size in zip(docs, sizes.tolist(), strict=True):  # a group copies a span as often as it is given
        groups.append(SpanGroup(doc, name=key, spans=[Span(doc, 0, 0)] * size if size else ()))
        doc.spans.data[key] = groups[-1]
    tokens = _tokens(docs, where)
    first_tokens, last_tokens = tokens[spans.start], tokens[spans.end - 1]
    lengths = _get(_LEXEME, "length", _get(_TOKEN, "lex", last_tokens).view(np.int64)).view(np.int64)
    characters = _get(_TOKEN, "idx", first_tokens), _get(_TOKEN, "idx", last_tokens) + lengths
    places = _lists(_pointers(groups, where.spans), sizes, _SPAN)
    for name, values in zip(_SPAN_FIELDS, (starts, ends, *characters, labels), strict=True):
        _set(_SPAN, name, places, values)
