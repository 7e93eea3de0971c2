"""What an annotated corpus holds: counts of sentences as they go by, and what two parts of it share.

A part (training or development) is read once; of each distinct sentence only a hash is kept, so that memory does not
grow with the text.  Tags of spans are those of the file; "-" and the empty string are missing annotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..corpora import Sentence
from ..errors import DataError
from ..schemes import OUTSIDE, decode_lenient, describe_invalid, find_invalid

MISSING_TAGS = ("", "-")
PLAIN = "plain"
KEPT = 20
LONG_TOKEN = 60
"""Characters; longer tokens are mostly URLs, tables or files read with the wrong columns."""
COMPARED = 5
"""Tokens; shorter sentences are the same, and annotated differently, for good reasons."""


class Place(NamedTuple):
    """A line of a file, or the number of a Doc, and what is there; `file` as in `Sentence`."""

    line: int
    text: str
    file: str = ""


@dataclass
class Places:
    """All of a kind of trouble: how many, and where the first `KEPT` are."""

    count: int = 0
    first: list[Place] = field(default_factory=list)

    def add(self, sentence: Sentence, token: int, text: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(Place(sentence.line_of(token), text, sentence.file))

    def as_json(self) -> dict[str, Any]:
        """Return the number and the first places for JSON."""
        return {"count": self.count, "first": [place._asdict() for place in self.first]}


@dataclass
class Column:
    """A column of labels.

    scheme: "plain" where each token has a label of its own.
    labels: Spans of each type, or tokens of each tag, "O" left out.
    n_known: Tokens that are annotated, "O" included.
    invalid: Sequences with tags that break the scheme.
    unreadable (Places): Tags that are none of any scheme.
    conflicts (Places): Sentences of `COMPARED` tokens or more that were there before with other labels.
    spans (Counter[tuple[str, str]]): Texts of spans with their types.
    """

    scheme: str
    labels: Counter[str] = field(default_factory=Counter)
    n_known: int = 0
    sequences: int = 0
    invalid: Places = field(default_factory=Places)
    unreadable: Places = field(default_factory=Places)
    conflicts: Places = field(default_factory=Places)
    spans: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def unit(self) -> str:
        """What carries a label: "tokens" or "spans"."""
        return "tokens" if self.scheme == PLAIN else "spans"

    def as_json(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "scheme": self.scheme,
            "labels": dict(self.labels.most_common()),
            "annotated_tokens": self.n_known,
            **{name: getattr(self, name).as_json() for name in ("invalid", "unreadable", "conflicts")},
        }


class _Seen(NamedTuple):
    """Where a sentence was first, its length, and a hash of each column of labels."""

    where: str
    length: int
    labels: tuple[bytes, ...]


@dataclass
class Part:
    """Counts of one file.

    lengths, words: Tokens of each sequence, and of each word.
    columns: By name, of the columns that hold labels.
    repeated: Sentences that were there before.
    longest: Tokens of the longest sequence, its line and its file.
    odd: Tokens that are white space, very long, or hold characters of a wrong encoding.
    distinct, copies: First place of each distinct sentence, by its hash, and how often it is there.
    """

    lengths: list[int] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    columns: dict[str, Column] = field(default_factory=dict)
    repeated: int = 0
    longest: tuple[int, int, str] = (-1, 0, "")
    odd: Places = field(default_factory=Places)
    documents: int = 0
    distinct: dict[bytes, _Seen] = field(default_factory=dict)
    copies: Counter[bytes] = field(default_factory=Counter)

    @property
    def tokens(self) -> int:
        """T."""
        return sum(self.lengths)

    def as_json(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "sentences": len(self.lengths),
            "tokens": self.tokens,
            "documents": self.documents,
            "words": len(self.words),
            "repeated_sentences": self.repeated,
            "lengths": lengths_of(self)._asdict() if self.lengths else None,
            "odd_tokens": self.odd.as_json(),
            "columns": {name: column.as_json() for name, column in self.columns.items()},
        }


def count(sentences: Iterable[Sentence], schemes: Mapping[str, str]) -> Part:
    """Count what the sentences of a file hold; `schemes` of the columns of labels, "plain" for tags."""
    part = Part(columns={name: Column(scheme) for name, scheme in schemes.items()})
    document = -1
    for sentence in sentences:
        words = sentence.words
        part.documents += sentence.document != document
        document = sentence.document
        part.lengths.append(len(words))
        part.words.update(words)
        if len(words) > part.longest[0]:
            part.longest = len(words), sentence.line, sentence.file
        for i, word in enumerate(words):
            if odd := _odd(word):
                part.odd.add(sentence, i, odd)
        for name, column in part.columns.items():
            _add_labels(column, name, sentence)
        _compare(part, sentence)
    return part


def _odd(word: str) -> str:
    if word.isspace():
        return f"a token of white space, {word!r}"
    if "\ufffd" in word:
        return f"{word!r} holds a character that could not be decoded"
    return f"a token of {len(word)} characters, {word[:30]!r}..." if len(word) > LONG_TOKEN else ""


def _add_labels(column: Column, name: str, sentence: Sentence) -> None:
    tags = sentence.columns.get(name, [""] * len(sentence.words))
    column.sequences += 1
    column.n_known += sum(tag not in MISSING_TAGS for tag in tags)
    if column.scheme == PLAIN:
        column.labels.update(tag for tag in tags if tag not in MISSING_TAGS)
        return
    known = [OUTSIDE if tag in MISSING_TAGS else tag for tag in tags]
    index = find_invalid(known, column.scheme)
    if index is not None:
        column.invalid.add(sentence, index, describe_invalid(known, index, column.scheme))
    try:
        spans = decode_lenient(known)
    except DataError as error:
        column.unreadable.add(sentence, index or 0, str(error))
        return
    column.labels.update(span.label for span in spans)
    column.spans.update((" ".join(sentence.words[span.start : span.end]), span.label) for span in spans)


def _compare(part: Part, sentence: Sentence) -> None:
    key = _hash(sentence.words)
    labels = tuple(_hash(sentence.columns.get(name, ())) for name in part.columns)
    part.copies[key] += 1
    place = f"{sentence.file}:{sentence.line}".removeprefix(":")
    before = part.distinct.setdefault(key, _Seen(place, len(sentence.words), labels))
    part.repeated += part.copies[key] > 1
    for column, here, there in zip(part.columns.values(), labels, before.labels, strict=True):
        if here != there and len(sentence.words) >= COMPARED:
            text = f"{' '.join(sentence.words[:12])!r} has other labels than {before.where}"
            column.conflicts.add(sentence, 0, text)


def _hash(texts: Sequence[str]) -> bytes:
    return blake2b("\n".join(texts).encode("utf8", "surrogatepass"), digest_size=12).digest()


class Lengths(NamedTuple):
    """Tokens of the sequences of a part, and where the longest is."""

    median: float
    most: float
    longest: int
    where: int
    file: str


def lengths_of(part: Part) -> Lengths:
    """Return the median, the length that 95 % do not exceed, and the greatest."""
    median, most = np.percentile(part.lengths, [50, 95]).tolist()
    return Lengths(median, most, *part.longest)


class Overlap(NamedTuple):
    """What a development part shares with the training part.

    same: Its sentences of `COMPARED` tokens or more that are in both; `compared` is how many there are.
    unseen_words: Share of its tokens whose words the training part lacks.
    new_labels: Labels of each column that only it has.
    seen_spans: Of each column of spans: those whose text is there with the same type, with others only, and not at all.
    conflicts: Of each column: sentences in both parts, labelled differently.
    """

    same: int
    compared: int
    unseen_words: float
    new_labels: dict[str, list[str]]
    seen_spans: dict[str, tuple[int, int, int]]
    conflicts: dict[str, int]


def overlap(train: Part, dev: Part) -> Overlap:
    """Compare two parts of a corpus."""
    long = [key for key, seen in dev.distinct.items() if seen.length >= COMPARED]
    both = [key for key in long if key in train.distinct]
    unseen = sum(n for word, n in dev.words.items() if word not in train.words)
    columns = [(name, column, dev.columns[name]) for name, column in train.columns.items()]
    return Overlap(
        sum(dev.copies[key] for key in both),
        sum(dev.copies[key] for key in long),
        unseen / max(1, dev.tokens),
        {name: sorted(set(there.labels) - set(here.labels)) for name, here, there in columns},
        {name: _seen_spans(here.spans, there.spans) for name, here, there in columns if here.scheme != PLAIN},
        {
            name: sum(train.distinct[key].labels[i] != dev.distinct[key].labels[i] for key in both)
            for i, (name, _, _) in enumerate(columns)
        },
    )


def _seen_spans(train: Counter[tuple[str, str]], dev: Counter[tuple[str, str]]) -> tuple[int, int, int]:
    texts = {text for text, _ in train}
    same = sum(n for span, n in dev.items() if span in train)
    other = sum(n for span, n in dev.items() if span not in train and span[0] in texts)
    return same, other, sum(dev.values()) - same - other
