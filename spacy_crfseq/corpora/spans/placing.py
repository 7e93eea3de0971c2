"""Puts the spans of a text on its tokens.  A span that does not match their boundaries is never moved.

Of spans that overlap, the one with the highest score is kept, then the longest; the other tokens of the others are
unknown, as are those of spans that cannot be used, or are not sure enough.  Spans with the same start and end are one
span: if several of its labels have the highest score, they are candidates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from ...errors import DataError
from ...schemes import OUTSIDE
from ..columns import MISSING_ENTITY
from ..lines import Sentence, SpanAlternatives
from .counting import described
from .matching import written_alike
from .records import INCORRECT, Annotated, CharSpan, Notes
from .rules import SpanRules


class TokenBounds(NamedTuple):
    """The tokens of a text [T]: words, whether a space follows each, where they start and end."""

    words: Sequence[str]
    spaces: Sequence[bool]
    starts: Sequence[int]
    ends: Sequence[int]

    def touched(self, start: int, end: int) -> range:
        """Return the tokens that characters touch."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return range(first, max(first, last))


def tokens_of(words: Sequence[str], spaces: Sequence[bool]) -> TokenBounds:
    """Return the tokens of a text."""
    sizes = [len(word) + space for word, space in zip(words, spaces, strict=True)]
    starts = [0, *accumulate(sizes)][:-1]
    return TokenBounds(words, spaces, starts, [start + len(word) for start, word in zip(starts, words, strict=True)])


def bounds_of_words(words: Sequence[str]) -> TokenBounds:
    """Return words as the tokens of a text that has one space between them."""
    return tokens_of(words, [True] * (len(words) - 1) + [False] * bool(words))


def sentence_of(
    text: Annotated, tokens: TokenBounds, rules: SpanRules, place: tuple[int, int], notes: Notes
) -> Sentence:
    """Return a text as a sentence with IOB2 tags in "ent", "-" where nothing is known; `notes` receives what is lost.

    place: Its line, and its number in the file.
    RAISES DataError: If a label is a tag, or a score is to be compared with the least, but is no probability.
    """
    line, number = place
    n, rest_is_outside = len(tokens.words), text.complete and rules.outside == "known"
    unknown = [tokens.touched(*characters) for characters in text.unknown]
    spans = list(dict.fromkeys(text.spans))
    notes.total += len(spans) + len(text.unusable)

    def lose(span: CharSpan, reason: str, into: list[tuple[int, str]]) -> None:
        into.append((line, described(span, text.text, reason)))
        unknown.append(tokens.touched(span.start, span.end))

    for span in (*spans, *text.wrong):
        _check(span, rules)
    for span, reason in text.unusable:
        lose(span, reason, notes.spans)
    usable = []
    for span in spans:
        if span.score is not None and span.score < rules.min_score:
            notes.unsure += 1
            unknown.append(tokens.touched(span.start, span.end))
        elif reason := _mismatch(span, tokens, text.text):
            notes.n_short += _is_short(span, tokens, text.text)
            lose(span, reason, notes.spans)
        else:
            usable.append(span)
    places, worse = _by_place(usable, rules.alternatives)
    kept, beaten, equal = _resolved([labelled[0] for labelled in places.values()])
    for span in (*worse, *beaten):
        lose(span, "overlaps a better span", notes.overlapping)
    for span in equal:
        lose(span, "overlaps another span of the same score and length", notes.spans)
    tags = ["O" if rest_is_outside else MISSING_ENTITY] * n
    for i in (i for touched in unknown for i in touched):
        tags[i] = MISSING_ENTITY
    alternatives = list[SpanAlternatives]()
    for span in kept:
        touched, labels = tokens.touched(span.start, span.end), {other.label for other in places[span[:2]]}
        if len(labels) == 1:
            _mark(tags, touched, span.label)
            continue
        tags[touched.start : touched.stop] = [MISSING_ENTITY] * len(touched)
        alternatives.append(SpanAlternatives(touched.start, touched.stop, tuple(sorted(labels))))
        others = " or ".join(sorted(labels - {span.label}))
        notes.alternatives.append((line, described(span, text.text, f"may be {others}, too")))
    columns = {"ent": tags}
    for span in text.wrong:
        if reason := _mismatch(span, tokens, text.text):
            notes.spans.append((line, described(span, text.text, reason)))
        else:
            _mark(columns.setdefault(INCORRECT, ["O"] * n), tokens.touched(span.start, span.end), span.label)
    if text.weight != 1:
        columns["weight"] = [str(text.weight), *["_"] * (n - 1)]
    return Sentence(
        [*tokens.words], columns, [*tokens.spaces], line, number, comments=text.keys, on_one_line=True,
        alternatives=alternatives,
    )  # fmt: skip


def _check(span: CharSpan, rules: SpanRules) -> None:
    """RAISES DataError: If the label of a span is a tag, or its score cannot be compared with the least."""
    if span.label == OUTSIDE or span.label.startswith("I-"):  # "B-cell" is a label
        raise DataError(
            f"{span.label!r} is a tag of tokens, not the label of a span ({span.start}-{span.end}). "
            "Give labels such as PER, and no span where there is no entity."
        )
    if rules.min_score and span.score is not None and not 0 <= span.score <= 1:
        raise DataError(
            f"the score {span.score:g} of the span {span.start}-{span.end} ({span.label}) is no probability from 0 "
            f"to 1, as min_score = {rules.min_score:g} is."
        )


def _mark(tags: list[str], place: range, label: str) -> None:
    tags[place.start : place.stop] = [f"B-{label}", *[f"I-{label}"] * (len(place) - 1)]


def _mismatch(span: CharSpan, tokens: TokenBounds, text: str) -> str:
    """Return the fault of a span, an empty string if there is none."""
    if not 0 <= span.start < span.end <= len(text):
        return f"is outside the {len(text)} characters of the text"
    if span.text and not written_alike(text[span.start : span.end], span.text):
        return f"should be {span.text!r} according to the file"
    place, words = tokens.touched(span.start, span.end), tokens.words
    fits = place and tokens.starts[place.start] == span.start and tokens.ends[place.stop - 1] == span.end
    if not fits or words[place.start].isspace() or words[place.stop - 1].isspace():
        return f"does not match the tokens {' '.join(words[i] for i in place)!r}"
    return ""


def _is_short(span: CharSpan, tokens: TokenBounds, text: str) -> bool:
    """Whether a span would fit if its end were that of the last character, not the one after it."""
    return not _mismatch(span._replace(end=span.end + 1), tokens, text)


def _by_place(
    spans: Sequence[CharSpan], alternatives: str
) -> tuple[dict[tuple[int, int], list[CharSpan]], list[CharSpan]]:
    """Return the spans by their start and end, the best first, and those with a worse score than others there."""
    places, worse = dict[tuple[int, int], list[CharSpan]](), list[CharSpan]()
    for span in sorted(spans, key=_sureness, reverse=True):
        others = places.setdefault(span[:2], [])
        is_kept = not others or alternatives == "all" or _sureness(span) == _sureness(others[0])
        (others if is_kept else worse).append(span)
    return places, worse


def _sureness(span: CharSpan) -> float:
    return 1.0 if span.score is None else span.score


def _resolved(spans: Sequence[CharSpan]) -> tuple[list[CharSpan], list[CharSpan], list[CharSpan]]:
    """Return the spans that are kept, those that overlap a better one, and those that overlap one as good."""

    def rank(span: CharSpan) -> tuple[float, int]:
        return -_sureness(span), span.start - span.end

    kept: list[CharSpan] = []  # in the order of the text
    beaten, equal = list[CharSpan](), list[CharSpan]()
    for _, group in groupby(sorted(spans, key=lambda span: (rank(span), span.start)), key=rank):
        open_to = list[CharSpan]()
        for span in group:
            (beaten if _overlaps(span, kept) else open_to).append(span)
        for i, span in enumerate(open_to):  # all of one length, by their starts
            before = i > 0 and open_to[i - 1].end > span.start
            after = i + 1 < len(open_to) and open_to[i + 1].start < span.end
            if before or after:
                equal.append(span)
            else:
                insort(kept, span, key=lambda kept: kept.start)
    return kept, beaten, equal


def _overlaps(span: CharSpan, kept: Sequence[CharSpan]) -> bool:
    at = bisect_left(kept, span.end, key=lambda other: other.start)
    return at > 0 and kept[at - 1].end > span.start
