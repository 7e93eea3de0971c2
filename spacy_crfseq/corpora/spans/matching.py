"""Finds the places of spans that come as texts without positions, as language models write them.

A phrase matches whole words: first as it is written, else without regard to case, accents, kinds of quotes and dashes,
and how much white space there is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from ...errors import DataError
from .records import Annotated, CharSpan, Notes
from .rules import LOOK_UP

_SINGLE, _DOUBLE = "\u2018\u2019\u201a\u201b\u2032\u2035`\u00b4", "\u201c\u201d\u201e\u201f\u2033\u2036\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SIGNS = str.maketrans({**dict.fromkeys(_SINGLE, "'"), **dict.fromkeys(_DOUBLE, '"'), **dict.fromkeys(_DASHES, "-")})
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without space between words, such as Thai and Chinese, where any letter may begin a word."""

Place: TypeAlias = tuple[int, int]
"""Characters of a text: the first, and the one after the last."""


def written_alike(text: str, other: str) -> bool:
    """Whether texts are the same but for kinds of quotes and dashes, and for white space."""
    return text.translate(_SIGNS).split() == other.translate(_SIGNS).split()


class Matched(NamedTuple):
    """Spans with their places in a text, and those without a place, with the reason."""

    spans: list[CharSpan]
    unmatched: list[tuple[CharSpan, str]]


def match_spans(text: str, mentions: Sequence[CharSpan], mode: str) -> Matched:
    """Return mentions at their places in a text; only their texts, labels and scores are read.

    mode (str): "all" marks every occurrence of a phrase, but not those within a longer phrase.  "first" marks the first
        one; a phrase that is given again, the next one.  "order" takes mentions to be in the order of the text: each
        is at its first occurrence after the one before.
    """
    phrases = _Phrases(text)
    return _match_all(phrases, mentions) if mode == "all" else _match_each(phrases, mentions, mode)


def with_places(text: Annotated, mode: str, line: int, notes: Notes) -> Annotated:
    """Return an annotated text with the places of its spans; `notes` receives those that have none.

    mode (str): As in `match_spans`, or "none".
    RAISES DataError: If a span has no position, and the mode is "none".
    """
    mentions = [span for span in text.spans if not span.placed]
    if not mentions:
        return text
    if mode == "none":
        raise DataError(
            f"the span {mentions[0].text!r} ({mentions[0].label}) is a text alone. The positions are missing: give "
            f"start and end in characters, or have the texts looked up by {LOOK_UP}."
        )
    matched = match_spans(text.text, mentions, mode)
    notes.total += len(matched.unmatched)
    notes.unmatched += [(line, span, reason) for span, reason in matched.unmatched]
    return text._replace(spans=[*(span for span in text.spans if span.placed), *matched.spans])


def _match_all(phrases: _Phrases, mentions: Sequence[CharSpan]) -> Matched:
    places_of = {span: next(phrases.places(span.text), []) for span in dict.fromkeys(mentions)}
    # of the places within others, none counts
    every = sorted(
        {place for places in places_of.values() for place in places}, key=lambda place: (place[0], -place[1])
    )
    outer, end = set[Place](), 0
    for place in every:
        if place[1] > end:
            outer.add(place)
            end = place[1]
    matched = Matched([], [])
    for span, places in places_of.items():
        kept = [place for place in places if place in outer]
        matched.spans.extend(phrases.placed(span, place) for place in kept)
        if not kept:
            reason = "only within a longer span" if places else phrases.reason(span.text)
            matched.unmatched.append((span, reason))
    return matched


def _match_each(phrases: _Phrases, mentions: Sequence[CharSpan], mode: str) -> Matched:
    matched, end, taken = Matched([], []), 0, Counter[str]()
    for span in mentions:
        tiers = list(phrases.places(span.text))
        if mode == "order":
            place = next((place for places in tiers for place in places if place[0] >= end), None)
            reason = "only before the end of the span before it"
        else:
            place = next((places[taken[span.text]] for places in tiers if len(places) > taken[span.text]), None)
            reason = "given more often than it is in the text"
            taken[span.text] += 1
        if place is None:
            matched.unmatched.append((span, reason if tiers else phrases.reason(span.text)))
        else:
            matched.spans.append(phrases.placed(span, place))
            end = place[1]
    return matched


class _Phrases:
    """Finds phrases in a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def folded(self) -> tuple[str, list[int]]:
        """The text without the differences that do not matter, and the place of each character."""
        return _folded(self.text)

    def places(self, phrase: str) -> Iterator[list[Place]]:
        """Yield the places of a phrase as it is written, then those where it is written in another way, if any."""
        phrase = phrase.strip()
        exact = [(at, at + len(phrase)) for at in _occurrences(self.text, phrase)]
        if exact := [place for place in exact if self._is_whole(place)]:
            yield exact
        text, at = self.folded
        folded = _folded(phrase)[0].strip()
        similar = [(at[i], self._end(at[i + len(folded) - 1] + 1)) for i in _occurrences(text, folded)]
        if (similar := [place for place in similar if self._is_whole(place)]) and similar != exact:
            yield similar

    def reason(self, phrase: str) -> str:
        """Return why a phrase has no place."""
        folded = _folded(phrase)[0].strip()
        return "only inside of words" if folded and folded in self.folded[0] else "not in the text of the record"

    def placed(self, span: CharSpan, place: Place) -> CharSpan:
        """Return a span at a place, with the text that is there."""
        return span._replace(start=place[0], end=place[1], text=self.text[slice(*place)])

    def _end(self, end: int) -> int:
        """Return the end of a place with the accents that follow it."""
        while end < len(self.text) and unicodedata.combining(self.text[end]):
            end += 1
        return end

    def _is_whole(self, place: Place) -> bool:
        return not any(self._is_inside(at) for at in place)

    def _is_inside(self, at: int) -> bool:
        around = self.text[at - 1 : at + 1] if at else ""
        return len(around) == 2 and all(map(str.isalnum, around)) and not _UNSPACED.search(around)


def _occurrences(text: str, phrase: str) -> Iterator[int]:
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        yield at
        at = text.find(phrase, at + len(phrase))


def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text in one case, without accents, with plain quotes and dashes and single spaces; and places in it."""
    chars, places = list[str](), list[int]()
    for place, char in enumerate(text):
        # before NFKD, which makes two characters of an accent that stands alone
        for part in unicodedata.normalize("NFKD", char.translate(_SIGNS)).casefold():
            folded = " " if part.isspace() else part
            invisible = unicodedata.combining(part) or unicodedata.category(part) == "Cf"
            if not invisible and not (folded == " " and chars[-1:] == [" "]):
                chars.append(folded)
                places.append(place)
    return "".join(chars), places
