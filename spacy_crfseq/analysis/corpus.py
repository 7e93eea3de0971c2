"""What an annotated corpus holds, and what in it will make trouble: counts of sentences as they go by, and findings.

A part (training or development) is read once; of each distinct sentence only a hash stays, so that memory does not grow
with the text.  Tags of spans are those of the file; "-" and the empty string are missing annotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np

from ..corpora import Sentence
from ..errors import DataError
from ..schemes import OUTSIDE, decode_lenient, describe_invalid, find_invalid

MISSING_TAGS = ("", "-")
PLAIN = "plain"
KEPT = 20
"""Places of each kind of trouble that are remembered; all are counted."""
RARE = 5
"""Labels on fewer tokens, or spans, are rare: about as many as it takes to be met in both parts."""
LONG_TOKEN = 60
"""Characters; longer tokens are mostly URLs, tables or files read with the wrong columns."""
LONG_SEQUENCE = 200
"""Tokens; longer sequences are mostly documents whose sentences were lost."""
COMPARED = 5
"""Tokens; shorter sentences are the same, and annotated differently, for good reasons."""
LEAK = 0.01
"""Share of development sentences that are in the training part, from which scores cannot be trusted."""
INVALID = 0.05
"""Share of sentences with invalid tags, from which the scheme is the wrong one."""

Severity = Literal["good", "warn", "fail"]


class Finding(NamedTuple):
    """Something to know or to mend.

    severity (str): "good", "warn" (training works, but), or "fail" (training cannot work).
    text (str): What it is and what to do.
    places (tuple[str, ...]): The first few places, and what is there.
    """

    severity: Severity
    text: str
    places: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where something is, and what: a line of a column file, or the number of a Doc."""

    line: int
    text: str


@dataclass
class Places:
    """All of a kind of trouble: how many, and where the first are."""

    count: int = 0
    first: list[Place] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(Place(line, text))


@dataclass
class Column:
    """A column of labels.

    scheme (str): "plain" where each token has a label of its own.
    labels (Counter[str]): Spans of each type, or tokens of each tag, "O" left out.
    n_known (int): Tokens that are annotated, "O" included.
    sequences (int): Sequences with invalid tags among `invalid`'s count are out of so many.
    invalid (Places): Sequences with tags that break the scheme.
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


class _Seen(NamedTuple):
    """Where a sentence was first, its length, and a hash of each column of labels."""

    line: int
    length: int
    labels: tuple[bytes, ...]


@dataclass
class Part:
    """Counts of one file.

    lengths (list[int]): Tokens of each sequence.
    words (Counter[str]): Tokens of each word.
    columns (dict[str, Column]): By name, of the columns that hold labels.
    repeated (int): Sentences that were there before.
    longest (Place | None): The longest sequence.
    odd (Places): Tokens that are white space, very long, or hold characters that tell of a wrong encoding.
    documents (int): Documents.
    distinct (dict): First place of each distinct sentence, by its hash.
    copies (Counter): How often each distinct sentence is there.
    """

    lengths: list[int] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    columns: dict[str, Column] = field(default_factory=dict)
    repeated: int = 0
    longest: Place | None = None
    odd: Places = field(default_factory=Places)
    documents: int = 0
    distinct: dict[bytes, _Seen] = field(default_factory=dict)
    copies: Counter[bytes] = field(default_factory=Counter)

    @property
    def tokens(self) -> int:
        """T."""
        return sum(self.lengths)


def count(sentences: Iterable[Sentence], schemes: Mapping[str, str]) -> Part:
    """Count what the sentences of a file hold.

    schemes (Mapping[str, str]): The scheme of each column of labels, "plain" for tags.
    """
    part = Part(columns={name: Column(scheme) for name, scheme in schemes.items()})
    document = -1
    for sentence in sentences:
        if sentence.document != document:
            document = sentence.document
            part.documents += 1
        _add(part, sentence)
    return part


def _add(part: Part, sentence: Sentence) -> None:
    words = sentence.words
    part.lengths.append(len(words))
    part.words.update(words)
    if part.longest is None or len(words) > part.lengths[part.longest.line]:
        # for the time being the number of the sequence, see `longest_of`
        part.longest = Place(len(part.lengths) - 1, str(sentence.line))
    for i, word in enumerate(words):
        if len(word) > LONG_TOKEN or word.isspace() or "\ufffd" in word:
            part.odd.add(sentence.line + i, _odd(word))
    for name, column in part.columns.items():
        _add_labels(column, name, sentence)
    _compare(part, sentence)


def _odd(word: str) -> str:
    if word.isspace():
        return f"a token of white space, {word!r}"
    if "\ufffd" in word:
        return f"{word!r} holds a character that could not be decoded"
    return f"a token of {len(word)} characters, {word[:30]!r}..."


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
        column.invalid.add(sentence.line + index, describe_invalid(known, index, column.scheme))
    try:
        spans = decode_lenient(known)
    except DataError as error:
        column.unreadable.add(sentence.line + (index or 0), str(error))
        return
    column.labels.update(span.label for span in spans)
    column.spans.update((" ".join(sentence.words[span.start : span.end]), span.label) for span in spans)


def _compare(part: Part, sentence: Sentence) -> None:
    """Look whether a sentence was there before, with the same labels."""
    key = _hash(sentence.words)
    labels = tuple(_hash(sentence.columns.get(name, ())) for name in part.columns)
    part.copies[key] += 1
    before = part.distinct.setdefault(key, _Seen(sentence.line, len(sentence.words), labels))
    if part.copies[key] == 1:
        return
    part.repeated += 1
    if len(sentence.words) < COMPARED:
        return
    for column, here, there in zip(part.columns.values(), labels, before.labels, strict=True):
        if here != there:
            text = f"{' '.join(sentence.words[:12])!r} has other labels than {before.line}"
            column.conflicts.add(sentence.line, text)


def _hash(texts: Sequence[str]) -> bytes:
    return blake2b("\n".join(texts).encode("utf8", "surrogatepass"), digest_size=12).digest()


# Numbers of a part


class Lengths(NamedTuple):
    """Tokens of the sequences of a part, and where the longest is."""

    median: float
    most: float
    longest: int
    where: int


def lengths_of(part: Part) -> Lengths:
    """Return the median, the length that 95 % do not exceed, and the greatest."""
    median, most = np.percentile(part.lengths, [50, 95]).tolist()
    assert part.longest is not None
    return Lengths(median, most, part.lengths[part.longest.line], int(part.longest.text))


class Overlap(NamedTuple):
    """What a development part shares with the training part.

    same (int): Its sentences of `COMPARED` tokens or more that are in both; `compared` is how many there are.
    short (int): Shorter ones that are in both.
    unseen_words (float): Share of its tokens whose words the training part lacks.
    new_labels (dict[str, list[str]]): Labels of each column that only it has.
    seen_spans (dict[str, tuple[int, int, int]]): Of each column of spans: those whose text is there with the same type,
        with others only, and not at all.
    conflicts (dict[str, int]): Of each column: sentences in both parts, labelled differently.
    """

    same: int
    compared: int
    short: int
    unseen_words: float
    new_labels: dict[str, list[str]]
    seen_spans: dict[str, tuple[int, int, int]]
    conflicts: dict[str, int]


def overlap(train: Part, dev: Part) -> Overlap:
    """Compare two parts of a corpus."""
    both = [key for key in dev.distinct if key in train.distinct]
    long = [key for key in both if dev.distinct[key].length >= COMPARED]
    compared = sum(dev.copies[key] for key, seen in dev.distinct.items() if seen.length >= COMPARED)
    same = sum(dev.copies[key] for key in long)
    short = sum(dev.copies[key] for key in both) - same
    unseen = sum(n for word, n in dev.words.items() if word not in train.words)
    conflicts = {
        name: sum(train.distinct[key].labels[i] != dev.distinct[key].labels[i] for key in long)
        for i, name in enumerate(train.columns)
    }
    return Overlap(
        same,
        compared,
        short,
        unseen / max(1, dev.tokens),
        {name: sorted(set(dev.columns[name].labels) - set(column.labels)) for name, column in train.columns.items()},
        {
            name: _seen_spans(column.spans, dev.columns[name].spans)
            for name, column in train.columns.items()
            if column.scheme != PLAIN
        },
        conflicts,
    )


def _seen_spans(train: Counter[tuple[str, str]], dev: Counter[tuple[str, str]]) -> tuple[int, int, int]:
    texts = {text for text, _ in train}
    same = sum(n for span, n in dev.items() if span in train)
    other = sum(n for span, n in dev.items() if span not in train and span[0] in texts)
    return same, other, sum(dev.values()) - same - other


# Findings


Where = Callable[[int], str]
"""Names a place in a file: "train.conll:12"."""


def findings_of(part: Part, where: Where, *, strict: bool = False, learnt: bool = True) -> list[Finding]:
    """Return what is to be known and mended about a part.

    strict (bool): Whether the corpus reader refuses invalid tags.
    learnt (bool): Whether it is the one that is trained on.
    """
    if not part.lengths:
        return [Finding("fail", f"{where(0)}: there is no sentence that can be read.")]
    found = _of_text(part, where)
    for name, column in part.columns.items():
        found += _of_column(name, column, where, strict)
        if learnt:
            found += _of_labels(name, column, where)
    return found


def _of_text(part: Part, where: Where) -> list[Finding]:
    found = []
    lengths = lengths_of(part)
    if lengths.most > LONG_SEQUENCE:
        found.append(
            Finding(
                "warn",
                f"{where(lengths.where)}: sequences are long, 5 % of them have {lengths.most:.0f} tokens or more. Are "
                "sentences marked? A CRF learns from sentences, and a Doc without sentence starts counts as one.",
            )
        )
    elif lengths.longest > LONG_SEQUENCE:
        found.append(
            Finding("warn", f"{where(lengths.where)}: a sequence of {lengths.longest} tokens. Is it a sentence?")
        )
    if part.odd.count:
        found.append(
            Finding(
                "warn",
                f"{_number(part.odd.count, 'odd token')}. Is the file in the right encoding, with the right columns?",
                _listed(part.odd, where),
            )
        )
    return found


def _of_column(name: str, column: Column, where: Where, strict: bool) -> list[Finding]:
    found = []
    if column.unreadable.count:
        found.append(
            Finding(
                "fail",
                f"{name}: {_number(column.unreadable.count, 'sequence')} with tags that are none of {column.scheme}. "
                f"Check which column is {name!r}.",
                _listed(column.unreadable, where),
            )
        )
    broken = column.invalid.count - column.unreadable.count
    if broken > 0:
        share = broken / column.sequences
        advice = (
            "Most likely the corpus is in another scheme."
            if share > INVALID
            else 'Mend them, or set on_invalid = "conlleval".'
            if strict
            else "They are read as the CoNLL scorer does; mend them."
        )
        found.append(
            Finding(
                "fail" if strict else "warn",
                f"{name}: {broken:,} of {column.sequences:,} sequences have tags that are not valid {column.scheme}. "
                f"{advice}",
                _listed(column.invalid, where),
            )
        )
    return found


def _of_labels(name: str, column: Column, where: Where) -> list[Finding]:
    """Return what a column is worth to learn from."""
    found = []
    what = "tokens" if column.scheme == PLAIN else "spans"
    if not column.labels:
        return [Finding("fail", f"{name}: nothing is annotated, so nothing can be learnt. Check the columns.")]
    if column.scheme == PLAIN and len(column.labels) < 2:
        (only,) = column.labels
        found.append(Finding("warn", f"{name}: all tokens have the label {only!r}; there is nothing to tell apart."))
    rare = [f"{label} ({n})" for label, n in column.labels.most_common() if n < RARE]
    if rare:
        number = _number(len(rare), "label")
        text = f"{name}: {number} on fewer than {RARE} {what}: {_some(rare)}. Annotate more, or merge."
        found.append(Finding("warn", text))
    folded = Counter(label.casefold() for label in column.labels)
    twins = sorted(label for label in column.labels if folded[label.casefold()] > 1)
    if twins:
        found.append(Finding("warn", f"{name}: labels differ by case only: {_some(twins)}. Write them alike."))
    if column.conflicts.count:
        number = _number(column.conflicts.count, "repeated sentence")
        text = f"{name}: {number} labelled differently. Make them agree."
        found.append(Finding("warn", text, _listed(column.conflicts, where)))
    if not found:
        found.append(Finding("good", f"{name}: {len(column.labels)} labels, all on {RARE} {what} or more"))
    return found


def overlap_findings(shared: Overlap) -> list[Finding]:
    """Return what is to be known about the two parts together."""
    found = []
    share = shared.same / max(1, shared.compared)
    text = f"{shared.same:,} of {shared.compared:,} dev sentences of {COMPARED} tokens or more are in train, too"
    if share > LEAK:
        found.append(Finding("warn", f"{text} ({100 * share:.1f} %): scores will be too good. Take them out of one."))
    else:
        found.append(Finding("good", text))
    for name, labels in shared.new_labels.items():
        if labels:
            number = _number(len(labels), "label")
            text = f"{name}: {number} in dev only, which can never be predicted: {_some(labels)}."
            found.append(Finding("warn", text))
    for name, count in shared.conflicts.items():
        if count:
            number = _number(count, "shared sentence")
            found.append(Finding("warn", f"{name}: {number} labelled differently. Make them agree."))
    return found


def _listed(places: Places, where: Where, limit: int = 3) -> tuple[str, ...]:
    shown = tuple(f"{where(line)}: {text}" for line, text in places.first[:limit])
    return (*shown, "...") if places.count > limit else shown


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def as_json(part: Part) -> dict[str, Any]:
    """Return the counts of a part in a form that JSON knows."""
    lengths = lengths_of(part) if part.lengths else None
    return {
        "sentences": len(part.lengths),
        "tokens": part.tokens,
        "documents": part.documents,
        "words": len(part.words),
        "repeated_sentences": part.repeated,
        "lengths": None if lengths is None else lengths._asdict(),
        "odd_tokens": _places_json(part.odd),
        "columns": {
            name: {
                "scheme": column.scheme,
                "labels": dict(column.labels.most_common()),
                "annotated_tokens": column.n_known,
                "invalid": _places_json(column.invalid),
                "unreadable": _places_json(column.unreadable),
                "conflicts": _places_json(column.conflicts),
            }
            for name, column in part.columns.items()
        },
    }


def _places_json(places: Places) -> dict[str, Any]:
    return {"count": places.count, "first": [place._asdict() for place in places.first]}
