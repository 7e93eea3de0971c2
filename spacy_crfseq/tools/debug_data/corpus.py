"""The contents of an annotated corpus, those that two parts share, and problems for training among these.

A part (training or development) is read once; of each distinct sentence only a hash is kept, so that memory does not
grow with the text.  Tags of spans are those of the file; "-" and the empty string are missing annotation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b
from itertools import compress
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias
from unicodedata import is_normalized, normalize

import numpy as np

from ...corpora import Sentence
from ...corpora.columns import others_at
from ...corpora.leaks import COMPARED, Leak
from ...corpora.tags import alike_message, other_scheme
from ...errors import FormatError, count_of
from ...schemes import OUTSIDE, all_invalid, decode_lenient, describe_invalid, describe_unreadable, find_invalid, is_tag
from .._pages.spans import text_of

MISSING_TAGS = ("", "-")
CANDIDATES = "candidates"
"""The column of the labels that a token may have, as a Doc notes them; empty where it does not."""
SOURCE = "source"
PLAIN = "plain"
KEPT, SHOWN = 20, 3
"""Places of a kind of trouble that are kept, and that a finding shows."""
LONG_TOKEN = 60
"""Characters; longer tokens are mostly URLs, tables or files read with the wrong columns."""
CLOSE, CLOSE_TAG = 0.6, 0.9
"""Likeness of a rare type of span, or a rare tag of a word, to a common one from which it may be a mistake; many tags
of words are alike, such as NNP and NNPS."""
RARE = 5
"""Labels on fewer tokens or spans are rare: they may be missing in one of the parts."""
LONG_SEQUENCE = 200
"""Number of tokens; longer sequences are mostly documents without sentence boundaries."""
_DETAILS = re.compile(r"'[^']*'|\"[^\"]*\"|\([^)]*\)|\d+")
INVALID = 0.05
"""Share of sentences with invalid tags from which the scheme is probably wrong."""

PlaceOf: TypeAlias = Callable[[Sentence, int], str]
"""Returns the place of a token of a sentence: "train.conll:12"."""


class Finding(NamedTuple):
    """A finding: "warn" if training works, "fail" if it cannot; with the first few positions."""

    severity: Literal["good", "warn", "fail"]
    text: str
    places: tuple[str, ...] = ()


MANY = 200
"""Labels from which their number decides how long training takes."""


@dataclass
class Places:
    """All of a kind of trouble: how many, and the first `KEEPS` with their places."""

    KEEPS: ClassVar[int] = KEPT
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Count a trouble."""
        self.count += 1
        self.first += [text] * (len(self.first) < self.KEEPS)

    def shown(self) -> tuple[str, ...]:
        """Return the first `SHOWN`, and dots if there are more."""
        return (*self.first[:SHOWN], "...") if self.count > SHOWN else tuple(self.first)


@dataclass
class Unreadable(Places):
    """The parts of a corpus that cannot be read; `n_ends`: errors behind which nothing more is read of a file."""

    KEEPS: ClassVar[int] = 1000
    n_ends: int = 0

    def note(self, error: FormatError) -> None:
        """Count an error."""
        self.add(str(error))
        self.n_ends += error.ends

    def by_reason(self) -> list[str]:
        """Return the first `SHOWN` of those that differ in quoted words, brackets and numbers alone, and counts."""
        reasons = dict[str, list[str]]()
        for text in self.first:
            reasons.setdefault(_DETAILS.sub("", text), []).append(text)
        lines = list[str]()
        for alike in reasons.values():
            lines += alike[:SHOWN]
            if len(alike) > SHOWN:
                lines.append(f"... and {len(alike) - SHOWN:,} more for this reason")
        more = self.count - len(self.first)
        return [*lines, f"... and {more:,} more"] if more else lines


@dataclass
class Column:
    """A column of labels.

    scheme: "plain" where each token has a label of its own.
    labels: Spans of each type, or tokens of each tag, "O" left out.
    first: The first place of each label.
    n_known: Tokens that are annotated, "O" included.
    n_outside: Those of them that are in no span.
    n_candidates: Others of which candidate labels are noted.
    n_unknown: Tokens of which nothing is known.
    invalid: Sequences with tags that break the scheme.
    files: Of each file with spans, the schemes that its sequences keep: this one, another, or "" for none.
    unreadable (Places): Sequences with tags that are none of any scheme.
    wrong (Counter[str]): Those tags.
    conflicts (Places): Sentences of `COMPARED` tokens or more that were there before with other labels.
    spans (Counter[tuple[str, str]]): Texts of spans with their types.
    """

    scheme: str
    labels: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    n_known: int = 0
    n_outside: int = 0
    n_candidates: int = 0
    n_unknown: int = 0
    invalid: Places = field(default_factory=Places)
    files: dict[str, Counter[str]] = field(default_factory=dict)
    unreadable: Places = field(default_factory=Places)
    wrong: Counter[str] = field(default_factory=Counter)
    conflicts: Places = field(default_factory=Places)
    spans: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def unit(self) -> str:
        """The unit that carries a label: "tokens" or "spans"."""
        return "tokens" if self.scheme == PLAIN else "spans"

    def add(self, sentence: Sentence, tags: Sequence[str], place_of: PlaceOf) -> None:
        """Count the tags of a sentence."""
        annotated = [tag for tag in tags if tag not in MISSING_TAGS]
        noted = sentence.columns.get(CANDIDATES, ())
        n_candidates = sum(tag in MISSING_TAGS and bool(labels) for tag, labels in zip(tags, noted, strict=False))
        self.n_known, self.n_candidates = self.n_known + len(annotated), self.n_candidates + n_candidates
        self.n_unknown += len(tags) - len(annotated) - n_candidates
        self.n_outside += annotated.count(OUTSIDE)
        if self.scheme == PLAIN:
            for i, tag in enumerate(tags):
                if tag not in MISSING_TAGS and tag not in self.first:
                    self.first[tag] = place_of(sentence, i)
            self.labels.update(annotated)
            return
        tags = [OUTSIDE if tag in MISSING_TAGS else tag for tag in tags]
        is_broken = find_invalid(tags, self.scheme) is not None
        if is_broken or tags.count(OUTSIDE) < len(tags):
            kept = (other_scheme(tags, self.scheme) or "") if is_broken else self.scheme
            self.files.setdefault(sentence.file, Counter())[kept] += 1
        if is_broken:
            index, *others = all_invalid(tags, self.scheme)
            what = f"{describe_invalid(tags, index, self.scheme)}{_others(sentence, others, place_of)}"
            self.invalid.add(f"{place_of(sentence, index)}: {what}")
        if unreadable := [i for i, tag in enumerate(tags) if not is_tag(tag)]:
            self.wrong.update(tags[i] for i in unreadable)
            index, *others = unreadable
            what = f"tag {describe_unreadable(tags[index])}"
            self.unreadable.add(f"{place_of(sentence, index)}: {what}{_others(sentence, others, place_of)}")
        spans = decode_lenient([tag if is_tag(tag) else OUTSIDE for tag in tags])
        self.labels.update(span.label for span in spans)
        for span in spans:
            if span.label not in self.first:
                self.first[span.label] = place_of(sentence, span.start)
        self.spans.update((text_of(sentence.words, span), span.label) for span in spans)

    @property
    def files_by_scheme(self) -> dict[str, list[str]]:
        """The files most of whose sequences keep another scheme than this one, by their scheme."""
        files: dict[str, list[str]] = {}
        for file, kept in self.files.items():
            if (scheme := kept.most_common(1)[0][0]) not in (self.scheme, ""):
                files.setdefault(scheme, []).append(file)
        return files

    @property
    def tokens(self) -> dict[str, int]:
        """The numbers of tokens by what is known of them."""
        return {"known": self.n_known, "candidates": self.n_candidates, "unknown": self.n_unknown}

    def as_json(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        troubles = {name: vars(getattr(self, name)) for name in ("invalid", "unreadable", "conflicts")}
        labels = dict(self.labels.most_common())
        return {"scheme": self.scheme, "labels": labels, "tokens": self.tokens, **troubles}


class _Seen(NamedTuple):
    """Where a sentence was first, its length, and a hash of each column of labels."""

    place: str
    length: int
    labels: tuple[bytes, ...]


@dataclass
class SourceCounts:
    """The texts and tokens of a source, and the sum of the weights of its texts."""

    texts: int = 0
    tokens: int = 0
    weight: float = 0.0

    def add(self, n_tokens: int, weight: float) -> None:
        """Count a text."""
        self.texts += 1
        self.tokens += n_tokens
        self.weight += weight


@dataclass
class CorpusCounts:
    """Counts of one file.

    lengths, words: Tokens of each sequence, and of each word; white space is not counted.
    columns: By name, of the columns that hold labels.
    repeated: Sentences that were there before.
    longest: Tokens of the longest sequence, and its place.
    odd: Tokens that are white space on a line of their own, very long, or hold characters of a wrong encoding.
    decomposed: Tokens with accents as characters of their own.
    sources: Weights by the key or column "source", or by file.
    distinct, copies: First place of each distinct sentence, by its hash, and how often it is there.
    """

    columns: dict[str, Column]
    lengths: list[int] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    longest: tuple[int, str] = (-1, "")
    odd: Places = field(default_factory=Places)
    decomposed: Places = field(default_factory=Places)
    documents: int = 0
    sources: dict[str, SourceCounts] = field(default_factory=dict)
    distinct: dict[bytes, _Seen] = field(default_factory=dict)
    copies: Counter[bytes] = field(default_factory=Counter)

    @property
    def is_weighted(self) -> bool:
        """Whether any text has a weight other than 1."""
        return any(source.weight != source.texts for source in self.sources.values())

    @property
    def tokens(self) -> int:
        """T."""
        return sum(self.lengths)

    def add(self, sentence: Sentence, place_of: PlaceOf, *, begins_document: bool, weight: float = 1.0) -> None:
        """Count a sentence; its reader gives all of them a weight."""
        words, place = sentence.words, place_of(sentence, 0)
        n_words = sum(not word.isspace() for word in words)
        self.documents += begins_document
        self.lengths.append(n_words)
        self.words.update(word for word in words if not word.isspace())
        if n_words > self.longest[0]:
            self.longest = n_words, place
        for i, word in enumerate(words):
            if (odd := _odd(word)) and not (sentence.on_one_line and word.isspace()):  # running text has white space
                self.odd.add(f"{place_of(sentence, i)}: {odd}")
            if not word.isascii() and not is_normalized("NFC", word):
                composed = normalize("NFC", word)
                sizes = f"{len(word)} characters, {len(composed)} in NFC"
                self.decomposed.add(f"{place_of(sentence, i)}: {word!r} ({sizes})")
        for name, column in self.columns.items():
            column.add(sentence, sentence.columns.get(name, [""] * len(words)), place_of)
        self.sources.setdefault(_source_of(sentence), SourceCounts()).add(n_words, weight * _weight_of(sentence))
        self._compare(sentence, place)

    def _compare(self, sentence: Sentence, place: str) -> None:
        """Compare a sentence with its first copy, if it is not the first itself."""
        words = [not word.isspace() for word in sentence.words]
        key = _hash([*compress(sentence.words, words)])
        labels = tuple(_hash([*compress(sentence.columns.get(name, ()), words)]) for name in self.columns)
        self.copies[key] += 1
        self.repeated += self.copies[key] > 1
        first = self.distinct.setdefault(key, _Seen(place, len(sentence.words), labels))
        for column, own, other in zip(self.columns.values(), labels, first.labels, strict=True):
            if own != other and len(sentence.words) >= COMPARED:
                column.conflicts.add(f"{place}: {' '.join(sentence.words[:12])!r} has other labels than {first.place}")

    def without_empty_columns(self) -> CorpusCounts:
        """Return the counts without columns that hold no labels; if all are empty, with all."""
        used = {name: column for name, column in self.columns.items() if column.labels or column.unreadable.count}
        return replace(self, columns=used or self.columns)

    def quantiles(self) -> tuple[float, float]:
        """Return the median of the lengths, and what 95 % do not exceed."""
        median, most = np.percentile(self.lengths, [50, 95]).tolist()
        return median, most

    def as_json(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        names = ("median", "most", "longest", "where")
        lengths = dict(zip(names, (*self.quantiles(), *self.longest), strict=True)) if self.lengths else None
        return {
            "sentences": len(self.lengths),
            "tokens": self.tokens,
            "documents": self.documents,
            "words": len(self.words),
            "repeated_sentences": self.repeated,
            "lengths": lengths,
            "odd_tokens": vars(self.odd),
            "decomposed_tokens": vars(self.decomposed),
            "sources": {name: vars(source) for name, source in self.sources.items()},
            "columns": {name: column.as_json() for name, column in self.columns.items()},
        }


def _source_of(sentence: Sentence) -> str:
    """Return the origin of a text: the column or key "source", or its file."""
    column = sentence.columns.get(SOURCE)
    return (column[0] if column else sentence.comments.get(SOURCE)) or sentence.file


def _weight_of(sentence: Sentence) -> float:
    return next((float(value) for value in sentence.columns.get("weight", ()) if value != "_"), 1.0)


def count(
    sentences: Iterable[Sentence], schemes: Mapping[str, str], place_of: PlaceOf, weight: float = 1.0
) -> CorpusCounts:
    """Count the sentences of a file; `schemes` of the columns of labels, "plain" for tags.

    weight (float): That which the reader gives to all texts.
    """
    counts = CorpusCounts({name: Column(scheme) for name, scheme in schemes.items()})
    document = -1
    for sentence in sentences:
        counts.add(sentence, place_of, begins_document=sentence.document != document, weight=weight)
        document = sentence.document
    return counts


def _odd(word: str) -> str:
    if word.isspace():
        return f"a token of white space, {word!r}"
    if "\ufffd" in word:
        return f"{word!r} holds a character that could not be decoded"
    return f"a token of {len(word)} characters, {word[:30]!r}..." if len(word) > LONG_TOKEN else ""


def _others(sentence: Sentence, tokens: Sequence[int], place_of: PlaceOf) -> str:
    return others_at([place_of(sentence, i) for i in tokens])


def _hash(texts: Sequence[str]) -> bytes:
    return blake2b("\n".join(texts).encode("utf8", "surrogatepass"), digest_size=12).digest()


class Overlap(NamedTuple):
    """The overlap of a development part with the training part.

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


def overlap(train: CorpusCounts, dev: CorpusCounts) -> Overlap:
    """Compare two parts of a corpus."""
    long = [key for key, seen in dev.distinct.items() if seen.length >= COMPARED]
    both = [key for key in long if key in train.distinct]
    unseen = sum(n for word, n in dev.words.items() if word not in train.words)
    columns = [(name, column, dev.columns[name]) for name, column in train.columns.items()]
    return Overlap(
        sum(dev.copies[key] for key in both),
        sum(dev.copies[key] for key in long),
        unseen / max(1, dev.tokens),
        {name: sorted(set(in_dev.labels) - set(in_train.labels)) for name, in_train, in_dev in columns},
        {name: _seen_spans(own.spans, in_dev.spans) for name, own, in_dev in columns if own.scheme != PLAIN},
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


def findings_of(part: CorpusCounts, *, strict: bool = False, trainable: bool = True) -> list[Finding]:
    """Return the findings about a part that has sentences.

    strict: Whether the corpus reader rejects invalid tags.
    trainable: Whether it is the training part.
    """
    findings, (_, most), (longest, place) = list[Finding](), part.quantiles(), part.longest
    if most > LONG_SEQUENCE:
        text = (
            f"sequences are long, 5 % of them have {most:.0f} tokens or more. Are sentences marked? A CRF "
            "learns from sentences, and a Doc without sentence starts counts as one."
        )
        findings.append(Finding("warn", f"{place}: {text}"))
    elif longest > LONG_SEQUENCE:
        findings.append(Finding("warn", f"{place}: a sequence of {longest} tokens. Is it a sentence?"))
    if part.odd.count:
        text = f"{count_of(part.odd.count, 'odd token')}. Is the file in the right encoding, with the right columns?"
        findings.append(Finding("warn", text, part.odd.shown()))
    if part.decomposed.count:
        text = (
            f"{count_of(part.decomposed.count, 'token')} not in NFC, such as accents that are characters of their own. "
            "To a model, these are other words than those of most texts. Write the file in NFC, and texts to tag, too."
        )
        findings.append(Finding("warn", text, part.decomposed.shown()))
    if trainable and not any(source.weight for source in part.sources.values()):
        text = "all texts have the weight 0, so nothing can be learned. Give texts a weight above 0, or the reader."
        findings.append(Finding("fail", text))
    for name, column in part.columns.items():
        findings += _of_scheme(name, column, len(part.lengths), strict)
        if trainable:
            findings += _of_labels(name, column)
    return findings


def _of_scheme(name: str, column: Column, n_sequences: int, strict: bool) -> list[Finding]:
    findings = []
    if column.unreadable.count:
        advice = f"Check which column is {name!r}."
        number = count_of(column.unreadable.count, "sequence")
        near = _meant(column, tags=True)
        said = "".join(f" {tag!r}{question}" for tag in list(column.wrong)[:SHOWN] if (question := near(tag)))
        text = f"{name}: {number} with tags that are none of {column.scheme}.{said} {advice}"
        findings.append(Finding("fail", text, column.unreadable.shown()))
    broken = column.invalid.count - column.unreadable.count
    if broken > 0:
        advice, apart = "They are read as the CoNLL scorer does; fix them.", column.files_by_scheme
        if apart and not any(len(files) == len(column.files) for files in apart.values()):
            advice = " ".join(
                f"{_some(files)} {'look' if len(files) > 1 else 'looks'} like {scheme}, unlike other files: "
                f"convert FILE NEW --scheme {scheme} --to-scheme {column.scheme}."
                for scheme, files in apart.items()
            )
        elif apart:
            (scheme,) = apart
            advice = f'They look like {scheme}: give --scheme {scheme}, in a config scheme = "{scheme}".'
        elif broken / n_sequences > INVALID:
            advice = "Most likely the corpus is in another scheme."
        elif strict:
            advice = 'Fix them, or set on_invalid = "conlleval".'
        text = f"{name}: {broken:,} of {n_sequences:,} sequences have tags that are not valid {column.scheme}."
        findings.append(Finding("fail" if strict else "warn", f"{text} {advice}", column.invalid.shown()))
    return findings


def _of_labels(name: str, column: Column) -> list[Finding]:
    if not column.labels:
        return [Finding("fail", f"{name}: nothing is annotated, so nothing can be learned. Check the columns.")]
    findings: list[Finding] = []

    def warn(text: str, places: tuple[str, ...] = ()) -> None:
        findings.append(Finding("warn", f"{name}: {text}", places))

    if column.scheme == PLAIN and len(column.labels) < 2:
        warn(f"all tokens have the label {next(iter(column.labels))!r}; there is nothing to tell apart.")
    if len(column.labels) >= MANY:
        once = sum(n == 1 for n in column.labels.values())
        warn(
            f"{len(column.labels):,} labels, {once:,} of them once. Training takes time that grows with the square of "
            "their number: give --config for an estimate, merge rare labels, or learn parts of them apart."
        )
    if column.scheme != PLAIN and not column.n_outside and column.n_unknown:
        text = "no token is known to be outside of spans: a model learns to find them everywhere."
        warn(f"{text} Add texts whose rest is known.")
    if rare := [label for label, n in column.labels.most_common() if n < RARE]:
        counted = _some([f"{label} ({column.labels[label]})" for label in rare])
        number = count_of(len(rare), "label")
        text = f"{number} on fewer than {RARE} {column.unit}: {counted}. Correct mistakes, annotate more, or merge."
        near = _meant(column)
        places = [f"{column.first[label]}: {label!r}{near(label)}" for label in rare]
        places.sort(key=lambda place: "did you mean" not in place)
        warn(text, (*places[:KEPT], *(["..."] if len(places) > KEPT else [])))
    if said := alike_message(column.labels):
        warn(said)
    if column.conflicts.count:
        number = count_of(column.conflicts.count, "repeated sentence")
        warn(f"{number} labelled differently. Make them agree.", column.conflicts.shown())
    return findings or [
        Finding("good", f"{name}: {count_of(len(column.labels), 'label')}, all on {RARE} {column.unit} or more")
    ]


def _meant(column: Column, *, tags: bool = False) -> Callable[[str], str]:
    """Return a function that asks whether a rare label, or a tag with `tags`, stands for a common one."""
    common = [label for label, n in column.labels.items() if n >= RARE] or list(column.labels)
    names = [OUTSIDE, *(f"{prefix}-{label}" for label in common for prefix in "BI")] if tags else common
    cutoff = CLOSE_TAG if column.scheme == PLAIN else CLOSE

    def question(label: str) -> str:
        others = [name for name in names if name != label]
        near = [name for name in others if name.casefold() == label.casefold()]
        near = near or get_close_matches(label, others, n=1, cutoff=cutoff)
        return f"; did you mean {near[0]!r}?" if near else ""

    return question


def overlap_findings(train: CorpusCounts, dev: CorpusCounts) -> list[Finding]:
    """Return the findings about the two parts together."""
    shared = overlap(train, dev)
    leak = Leak(shared.same, shared.compared)
    first = Finding("warn" if leak.matters else "good", str(leak))
    larger = len(dev.lengths) > len(train.lengths)
    warnings = ["dev has more sentences than train. Are the files swapped?"] if larger else []
    warnings += [
        f"{name}: {count_of(len(labels), 'label')} in dev only, which can never be predicted: {_some(labels)}."
        for name, labels in shared.new_labels.items()
        if labels
    ]
    warnings += [
        f"{name}: {count_of(count, 'shared sentence')} labelled differently. Make them agree."
        for name, count in shared.conflicts.items()
        if count
    ]
    return [first, *(Finding("warn", text) for text in warnings)]


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
