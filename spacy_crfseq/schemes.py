"""Tag schemes: IOB1, IOB2, BILUO and its spellings IOBES, BMES and BMEWO mark spans, plain tags mark none.

A tag is "O" or a prefix and a type, "B-NP".  A sequence behaves as if it had an "O" before and after it, so every rule
concerns a pair of neighbours.  Tag sequences that break their scheme are read as in conlleval, the scorer of the CoNLL
shared tasks (Tjong Kim Sang & Buchholz, 2000).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, DataError, suggest
from .prf import PRF, prf
from .types import MISSING, Constraints, OccurrenceRules

IntArray = NDArray[np.int64]
IntegerArray = NDArray[np.integer[Any]]

LETTERS = {
    "IOB2": "OBI", "IOB1": "OBI", "BILUO": "OBILU", "IOBES": "OBIES", "BMES": "OBMES", "BMEWO": "OBMEW",
}  # fmt: skip
"""The prefixes of each scheme of spans: outside, begin, inside, last, unit.  From BILUO on, only letters differ."""
SPAN_SCHEMES = tuple(LETTERS)
"""The schemes that corpora may have."""
MODEL_SCHEMES = tuple(scheme for scheme in LETTERS if scheme != "IOB1")
"""The schemes that the tags of a component may have."""
OTHER_NAMES = {"BIO": "IOB2", "BILOU": "BILUO", "BIOES": "IOBES", "BMESO": "BMES", "BMEOW": "BMEWO"}
"""Schemes by other names of theirs."""
OUTSIDE = "O"
ANY = "*"
"""Stands for all types of spans where types are named."""

MOST_LIMITED = 62
"""Labels that rules on occurrences may limit: bits of a number."""

_CANONICAL = {letter: "OBILU"[code] for letters in LETTERS.values() for code, letter in enumerate(letters)}
_CODES = {prefix: code for code, prefix in enumerate("OBILU")}
_O, _B, _I, _L, _U = range(5)


class TagSpan(NamedTuple):
    """A labelled span of tokens: `start` is its first token, `end` the token after its last."""

    start: int
    end: int
    label: str


class SpanArrays(NamedTuple):
    """The spans of many sequences, in the order of their tokens.  S spans.

    sequence [S]: Index of the sequence that holds the span.
    start, end [S]: First token and the token after the last, counted over all sequences.
    type [S]: Index into `TagTable.types`.
    """

    sequence: IntArray
    start: IntArray
    end: IntArray
    type: IntArray


def scheme_named(name: str, setting: str = "scheme") -> str:
    """Return the scheme of spans that has a name, in small letters or by another one of its names (BIOES).

    RAISES ConfigError: Naming the setting, if there is no such scheme.
    """
    scheme = OTHER_NAMES.get(name.upper(), name.upper())
    if scheme not in LETTERS:
        raise ConfigError(f"{setting} {name}: unknown. {suggest(name, (*LETTERS, *OTHER_NAMES))}")
    return scheme


@lru_cache(maxsize=8192)
def split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix and its type: "B-NP" into ("B", "NP"), "O" into ("O", "").

    Prefixes of all schemes are read, and returned as those of BILUO: "E-NP" is ("L", "NP").  Only the first hyphen
    counts, so a type may contain more.
    RAISES DataError: Unless the tag is "O", or a prefix with a hyphen and a type.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, _, label = tag.partition("-")
    if prefix not in _CANONICAL or prefix == OUTSIDE or not label:
        raise DataError(f"Tag {describe_unreadable(tag)}.")
    return _CANONICAL[prefix], label


def describe_unreadable(tag: str) -> str:
    """Return a clause on a tag that `split_tag` rejects."""
    return f"{tag!r} is neither 'O' nor a prefix such as B or I with a type, as in 'B-NP'"


@lru_cache(maxsize=8192)
def is_tag(text: str) -> bool:
    """Whether a text is a tag that `split_tag` reads."""
    try:
        split_tag(text)
    except DataError:
        return False
    return True


def named_tags(names: Sequence[str], labels: Sequence[str], scheme: str | None, where: str) -> NDArray[np.bool_]:
    """Return which of the tags [L] each name stands for, [names, L]: a tag, or a label of a scheme for all its tags.

    RAISES ConfigError: If a name is no label, or two names share a tag.
    """
    table = np.zeros((len(names), len(labels)), np.bool_)
    types = [split_tag(tag)[1] if scheme not in (None, "plain") else "" for tag in labels]
    for row, name in zip(table, names, strict=True):
        row[:] = [tag == name for tag in labels]
        if not row.any():
            row[:] = [type_ == name != "" for type_ in types]
        if not row.any():
            hint = suggest(name, set(types) - {""} or labels, labels if "-" in name else ())
            raise ConfigError(f"{where}: the component has no label {name!r}. {hint}")
    shared = np.flatnonzero(table.sum(0) > 1)
    if len(shared):
        both = [name for name, row in zip(names, table, strict=True) if row[shared[0]]]
        raise ConfigError(
            f"{where}: {' and '.join(map(repr, both))} both contain {labels[shared[0]]!r}. List one of them."
        )
    return table


@lru_cache(maxsize=65536)
def may_follow(previous: str, tag: str, scheme: str) -> bool:
    """Whether `tag` may directly follow `previous`; "O" also means the start or end of the sequence.

    A tag that is not in the scheme is never allowed.
    RAISES ConfigError: On an unknown scheme.
    """
    _check_scheme(scheme)
    if scheme == "plain":
        return True
    if not (_is_known(previous, scheme) and _is_known(tag, scheme)):
        return False
    before, before_type = split_tag(previous)
    prefix, label = split_tag(tag)
    inside = before in ("B", "I")
    if scheme == "IOB1":
        return True  # any B or I tag begins or continues a span
    if prefix in ("I", "L"):
        return inside and label == before_type
    return scheme == "IOB2" or not inside


def find_invalid(tags: Sequence[str], scheme: str) -> int | None:
    """Return the index of the first tag that breaks the scheme, or None.

    If a span is still open at the end of the sequence (not in IOB1 and IOB2), the last tag is invalid.
    RAISES ConfigError: On an unknown scheme.
    """
    for i, (previous, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        if not may_follow(previous, tag, scheme):
            return min(i, len(tags) - 1)
    return None


def all_invalid(tags: Sequence[str], scheme: str) -> list[int]:
    """Return the indices of all tags that break the scheme; what follows a tag of no scheme is not counted.

    RAISES ConfigError: On an unknown scheme.
    """
    pairs = enumerate(pairwise([OUTSIDE, *tags, OUTSIDE]))
    broken = (
        min(i, len(tags) - 1)
        for i, (previous, tag) in pairs
        if not may_follow(previous, tag, scheme) and (_is_known(previous, scheme) or not _is_known(tag, scheme))
    )
    return list(dict.fromkeys(broken))


def describe_invalid(tags: Sequence[str], index: int, scheme: str) -> str:
    """Return a clause that describes the error at `index`, as found by `find_invalid`."""
    tag = tags[index]
    if not _is_known(tag, scheme):
        choices = ", ".join(p if p == OUTSIDE else f"{p}-TYPE" for p in LETTERS.get(scheme, ""))
        article = "an" if scheme[0] in "AEIOU" else "a"
        return f"tag {tag!r} is not {article} {scheme} tag ({choices})"
    previous = tags[index - 1] if index else OUTSIDE
    place = "last" if may_follow(previous, tag, scheme) else "first"
    what = f"follow {previous!r}" if place == "first" and index else f"be the {place} of a sequence"
    return f"tag {tag!r} may not {what} in {scheme}"


def decode_lenient(tags: Sequence[str]) -> list[TagSpan]:
    """Return the spans of a sequence of tags, of any scheme, as conlleval reads them.

    A span begins at every B and U, and at an I or L whose type differs from the tag before or that comes after O, L or
    U (or first); other letters stand for those of BILUO that `split_tag` returns.  It ends before the next beginning,
    before O and at the end of the sequence.  So no tag is ever dropped: ["O", "I-A", "I-B"] contains two spans.
    RAISES DataError: On a tag that `split_tag` rejects.
    """
    spans: list[TagSpan] = []
    begin, previous = -1, OUTSIDE
    for i, tag in enumerate([*tags, OUTSIDE]):
        if tag == OUTSIDE or _begins(previous, tag):
            if begin >= 0:
                spans.append(TagSpan(begin, i, split_tag(previous)[1]))
            begin = -1 if tag == OUTSIDE else i
        previous = tag
    return spans


def encode(spans: Iterable[tuple[int, int, str]], length: int, scheme: str) -> list[str]:
    """Return the `length` tags that mark the spans, which may come in any order.

    RAISES DataError: On a span that is empty, out of range, unlabelled or overlaps another.
    RAISES ConfigError: If the scheme is unknown or marks no spans.
    """
    _check_scheme(scheme, spans=True)
    tags = [OUTSIDE] * length
    previous = (0, 0, "")
    for span in sorted(spans):
        start, end, label = span
        if not 0 <= start < end <= length:
            raise DataError(f"{TagSpan(*span)} is empty or reaches outside a sequence of {length} tokens.")
        if not label:
            raise DataError(f"{TagSpan(*span)} has no label.")
        if start < previous[1]:
            what = f"{TagSpan(*span)} overlaps {TagSpan(*previous)}"
            raise DataError(f"{what}; a tag sequence can only represent spans that do not overlap.")
        tags[start:end] = _marks(end - start, label, scheme, start == previous[1] and label == previous[2])
        previous = span
    return tags


def recoded(tags: Sequence[str], scheme: str) -> list[str]:
    """Return the tags of a scheme for the spans of tags of any scheme, as `decode_lenient` and `encode` do.

    Errors are theirs.  A tag depends on those beside it alone, and few triples of tags differ.
    """
    return list(map(_recoded, [OUTSIDE, *tags[:-1]], tags, [*tags[1:], OUTSIDE], repeat(scheme)))


@lru_cache(maxsize=8192)
def _recoded(previous: str, tag: str, following: str, scheme: str) -> str:
    return encode(decode_lenient([previous, tag, following]), 3, scheme)[1]


@lru_cache(maxsize=1024)
def _marks(length: int, label: str, scheme: str, adjacent: bool) -> tuple[str, ...]:
    # `adjacent`: a span of the same type ends directly before it
    begin, inside, last, unit = [*LETTERS[scheme][1:].ljust(4)]
    if scheme not in ("IOB1", "IOB2"):
        prefixes = unit if length == 1 else begin + inside * (length - 2) + last
    else:
        prefixes = (inside if scheme == "IOB1" and not adjacent else begin) + inside * (length - 1)
    return tuple(f"{prefix}-{label}" for prefix in prefixes)


def inside_of(tag: str, scheme: str) -> str:
    """Return the tag inside of the span that continues at `tag`; "O" if none does."""
    prefix, label = split_tag(tag)
    return f"{LETTERS[scheme][2]}-{label}" if prefix in ("I", "L") else OUTSIDE


def tags_of(types: Iterable[str], scheme: str) -> list[str]:
    """Return every tag of a scheme over the types: "O" first, then type by type.  Plain tags are the types.

    RAISES ConfigError: On an unknown scheme.
    """
    _check_scheme(scheme)
    if scheme == "plain":
        return list(types)
    return [OUTSIDE, *(f"{prefix}-{label}" for label in types for prefix in LETTERS[scheme][1:])]


def types_in(labels: Sequence[str]) -> list[str]:
    """Return the type of each label: of tags of spans, which "O" is among, what they mark; of plain tags themselves."""
    are_spans = OUTSIDE in labels and any(all(_is_known(label, scheme) for label in labels) for scheme in MODEL_SCHEMES)
    return [split_tag(label)[1] or OUTSIDE if are_spans else label for label in labels]


def transition_table(labels: Sequence[str], scheme: str) -> Constraints:
    """Return which of the L labels may begin a sequence, follow each other and end one, and which make up spans.

    Plain labels may all, each a span of its own.
    RAISES DataError: Naming a label that is no tag of the scheme.
    RAISES ConfigError: On an unknown scheme.
    """
    size, scheme = len(labels), scheme if scheme == "plain" else scheme_named(scheme)
    if scheme == "plain":
        free, none = np.ones(size, np.bool_), np.zeros(size, np.bool_)
        return Constraints(free, np.ones((size, size), np.bool_), free.copy(), np.zeros((size, size), np.bool_), none)
    prefix, kind = tag_table(tuple(labels), scheme).take(np.arange(-1, size))  # the first one is the "O" of the edges
    resumes, is_open = (prefix == _I) | (prefix == _L), ((prefix == _B) | (prefix == _I))[:, None]
    inside = is_open & resumes & (kind[:, None] == kind)
    rules = {"IOB1": np.ones_like(inside), "IOB2": inside | ~resumes}
    allowed = rules[scheme] if scheme in rules else np.where(resumes, inside, ~is_open)
    tables = (allowed[0, 1:], allowed[1:, 1:], allowed[1:, 0], inside[1:, 1:], prefix[1:] == _O)
    return Constraints(*map(np.ascontiguousarray, tables))


def occurrence_rules(
    labels: Sequence[str], scheme: str, once: Sequence[str], order: Sequence[str]
) -> OccurrenceRules | None:
    """Return the rules that a sequence has each of some labels at most once, and others only in an order; None if none.

    labels (Sequence[str]): [L] plain tags, where equal neighbours are one occurrence, or tags of a scheme, whose
        occurrences are spans.
    once, order (Sequence[str]): Plain tags, or types of spans; ``["*"]`` is all of them.  A label of `order` may occur
        several times if it is not in `once`.
    RAISES ConfigError: If one is unknown or occurs twice, or if there are more than `MOST_LIMITED` of them.
    """
    kinds = list(labels) if scheme == "plain" else [split_tag(tag)[1] for tag in labels]
    choices = [kind for kind in dict.fromkeys(kinds) if kind or scheme == "plain"]
    for setting, names in (("once", once), ("order", order)):
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{setting} is {names!r}, but must be a list of labels.")
    once = choices if ANY in once else once
    limited = list(dict.fromkeys([*once, *order]))
    for setting, names in (("once", once), ("order", order)):
        for number, name in enumerate(names):
            if name not in choices:
                raise ConfigError(
                    f"{setting} names {name!r}, which is no label of the component. {suggest(name, choices)}"
                )
            if name in names[:number]:
                raise ConfigError(f"{setting} names {name!r} twice: leave one of them out.")
    if len(limited) > MOST_LIMITED:
        raise ConfigError(f"once and order name {len(limited)} labels, but no more than {MOST_LIMITED} are possible.")
    if not limited:
        return None
    bit = {name: 1 << number for number, name in enumerate(limited)}
    barred, kept = {name: bit[name] for name in once}, dict[str, int]()
    for number, name in enumerate(order):
        barred[name] = sum((bit[later] for later in order[number + 1 :]), barred.get(name, 0))
        kept[name] = ~sum(bit[earlier] for earlier in order[:number])  # `name` bars all that they bar
    goes_on = np.eye(len(kinds), dtype=np.bool_) if scheme == "plain" else transition_table(labels, scheme).inside
    rows = [[table.get(kind, default) for kind in kinds] for table, default in ((bit, 0), (barred, 0), (kept, -1))]
    return OccurrenceRules(goes_on, *np.array(rows, np.int64))


class TagTable:
    """L `labels`, parsed once so that `spans_of` needs no strings; `types` are in the order of their first label.

    RAISES DataError: Naming a label that is no tag of the scheme.
    RAISES ConfigError: If the scheme is unknown or marks no spans.
    """

    def __init__(self, labels: Sequence[str], scheme: str) -> None:
        _check_scheme(scheme, spans=True)
        for i, label in enumerate(labels):
            if not _is_known(label, scheme):
                raise DataError(f"Label {describe_invalid(labels, i, scheme)}.")
        # The additional last row is an "O": MISSING is -1 and indexes it without a special case.
        parts = [split_tag(label) for label in [*labels, OUTSIDE]]
        self.labels = list(labels)
        self.types = list(dict.fromkeys(label for _, label in parts if label))
        index = {label: i for i, label in enumerate(self.types)}
        self._prefix = np.array([_CODES[prefix] for prefix, _ in parts], dtype=np.int8)
        self._type = np.array([index.get(label, -1) for _, label in parts], dtype=np.int32)

    def take(self, label_ids: IntegerArray) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """Return prefixes, as indices in "OBILU", and types, as indices into `types`, of label ids, all [T].

        MISSING reads as "O", whose type is -1.
        RAISES DataError: On an id that is neither MISSING nor below L.
        """
        if len(label_ids) and not (label_ids.min() >= MISSING and label_ids.max() < len(self.labels)):
            raise DataError(f"A label id is outside -1..{len(self.labels) - 1}.")
        return self._prefix[label_ids], self._type[label_ids]


@lru_cache(maxsize=64)
def tag_table(labels: tuple[str, ...], scheme: str) -> TagTable:
    """Return the parsed labels, cached for many predictions; errors as of `TagTable`."""
    return TagTable(labels, scheme)


def spans_of(label_ids: IntegerArray, offsets: IntegerArray, table: TagTable) -> SpanArrays:
    """Return the spans of many sequences at once, read as `decode_lenient` does.

    label_ids (integer [T]): Labels of all tokens; MISSING (-1) acts as "O".
    offsets (integer [N+1]): Sequence n is label_ids[offsets[n]:offsets[n + 1]]; sequences may be empty.
    RAISES DataError: On an impossible label id, or if the offsets do not cover the labels.
    """
    size = len(label_ids)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != size:
        raise DataError(f"The offsets must run from 0 to the number of labels, {size}.")
    prefix, kind = table.take(label_ids)
    before, same = np.zeros_like(prefix), np.zeros(size, dtype=np.bool_)
    before[1:], same[1:] = prefix[:-1], kind[1:] == kind[:-1]
    before[offsets[offsets < size]] = _O
    within = prefix != _O
    fresh = (prefix == _B) | (prefix == _U) | (before == _O) | (before >= _L) | ~same
    begins = within & fresh
    # A span ends at position t where token t - 1 lies in one and t begins another, is outside or opens a sequence.
    edge = np.ones(size + 1, dtype=np.bool_)
    edge[:size] = begins | ~within
    start, end = np.flatnonzero(begins), np.flatnonzero(within & edge[1:]) + 1
    sequence = np.searchsorted(offsets, start, side="right") - 1
    return SpanArrays(sequence, start, end, kind[start].astype(np.int64))


def span_f1(predicted: IntegerArray, gold: IntegerArray, offsets: IntegerArray, table: TagTable) -> PRF:
    """Score predicted label ids [T] against gold ones [T] by exact spans, as conlleval does over all types.

    offsets (integer [N+1]): Bounds of the sequences.  A missing gold label (-1) acts as "O".
    RAISES DataError: If the lengths differ or an id is impossible.
    """
    return prf(*count_spans(predicted, gold, offsets, table).sum(axis=0).tolist())


def correct_spans(spans: SpanArrays, wanted: SpanArrays, n_tokens: int) -> NDArray[np.bool_]:
    """Return which spans [S] of some tokens are among those that are wanted."""
    # no two spans of one side share a start, so a start identifies the gold span to compare with, if any
    end, kind = np.full((2, n_tokens), -1, dtype=np.int64)
    end[wanted.start], kind[wanted.start] = wanted.end, wanted.type
    right: NDArray[np.bool_] = (end[spans.start] == spans.end) & (kind[spans.start] == spans.type)
    return right


def count_spans(predicted: IntegerArray, gold: IntegerArray, offsets: IntegerArray, table: TagTable) -> IntArray:
    """Return the numbers of correct, predicted and gold spans of each of `table.types` [K, 3]; arguments of `span_f1`.

    RAISES DataError: If the lengths differ or an id is impossible.
    """
    spans, wanted = spans_of(predicted, offsets, table), spans_of(gold, offsets, table)
    right = correct_spans(spans, wanted, len(gold))
    kinds = spans.type[right], spans.type, wanted.type
    return np.stack([np.bincount(of_spans, minlength=len(table.types)) for of_spans in kinds], axis=1)


@lru_cache(maxsize=65536)
def _begins(previous: str, tag: str) -> bool:
    """Whether a span begins at `tag`, which is not "O" (conlleval's startOfChunk, with E as L and S as U)."""
    before, before_type = split_tag(previous)
    prefix, label = split_tag(tag)
    return prefix in ("B", "U") or before in ("O", "L", "U") or label != before_type


def _is_known(tag: str, scheme: str) -> bool:
    if scheme == "plain" or tag == OUTSIDE:
        return True
    prefix, _, label = tag.partition("-")
    return label != "" and prefix in tuple(LETTERS[scheme][1:])


def _check_scheme(scheme: str, *, spans: bool = False) -> None:
    if scheme not in LETTERS and scheme != "plain":
        raise ConfigError(f"Unknown tag scheme {scheme!r}. {suggest(scheme, (*LETTERS, 'plain'))}")

    if spans and scheme == "plain":
        raise ConfigError(f"Plain tags mark no spans. Give a scheme that does: {', '.join(LETTERS)}.")
