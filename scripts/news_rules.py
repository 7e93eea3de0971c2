"""Five rules that find names in English news, as sources of labels for `aggregate --code scripts/news_rules.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from spacy.tokens import Doc, Span

from spacy_crfseq import registry

Rule: TypeAlias = Callable[[Doc], Iterator[Span]]

DATE = re.compile(r"\d{4}-\d\d-\d\d$")
NAME = re.compile(r"[A-Z]['\u2019]?[A-Za-z.-]*[a-z][A-Za-z.'\u2019-]*$|[A-Z]\.$")
TITLES = frozenset(
    "Mr. Mrs. Ms. Dr. Mr Mrs Ms Dr President Minister Premier Chancellor Sen. Senator Rep. Gov. Governor King Queen "  # noqa: SIM905
    "Prince Princess Pope Judge Justice General Gen. Col. Colonel Lt. Capt. Captain Sir Lord Lady Chairman Secretary "
    "Ambassador Bishop Archbishop Sheikh captain coach manager spokesman spokeswoman chairman president minister "
    "analyst striker midfielder defender goalkeeper economist director trader dealer".split()
)
SPEAKERS = frozenset(
    "He She They It We I You Police Officials Analysts Traders Dealers Sources Witnesses Reuters Reuter Who Others "  # noqa: SIM905
    "Some Many Both But And So What This That There Economists Investigators Doctors Diplomats Residents "
    "Moscow".split()
)
"""Words with a capital before a verb of speech that are no people."""
SPEECH = frozenset("said told says added".split())  # noqa: SIM905
ORGANISATIONS = frozenset(
    "Inc Inc. Corp Corp. Ltd Ltd. Plc PLC Co Co. Group Bank University Party Ministry Association Committee Court "  # noqa: SIM905
    "Council Commission Agency Department Institute Union Federation Exchange Newsroom newsroom Airlines Airways "
    "Industries Holdings Securities Partners Bureau Board Fund Congress Parliament Senate Club United".split()
)


@registry.sources("news.datelines.v1")
def datelines() -> Rule:
    """Return a rule for a place in capitals before a date, as in LONDON 1996-08-30."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        end = next((place for place, word in enumerate(words[:5]) if DATE.match(word)), 0)
        stop = words.index(",") if "," in words[:end] else end
        if stop and all(word.isupper() or word in ".,/" for word in words[:end]):
            yield Span(doc, 0, stop, "LOC")

    return find


@registry.sources("news.people.v1")
def people() -> Rule:
    """Return a rule for names after a title and before a verb of speech."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        for place, word in enumerate(words):
            if word in TITLES:
                end = _end_of_names(words, place + 1, 3)
                if end > place + 1 and words[place + 1] not in TITLES:
                    yield Span(doc, place + 1, end, "PER")
            if word in SPEECH:
                begin = _begin_of_names(words, place)
                if place - begin in (2, 3) or (place - begin == 1 and words[begin] not in SPEAKERS):
                    yield Span(doc, begin, place, "PER")

    return find


@registry.sources("news.organisations.v1")
def organisations() -> Rule:
    """Return a rule for words with a capital that end with a word such as Corp."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        for place, word in enumerate(words):
            begin = place
            while begin and (_is_name(words[begin - 1]) or words[begin - 1] in ("&", "of")):
                begin -= 1
            while begin < place and words[begin] in ("The", "of", "&"):
                begin += 1
            if word in ORGANISATIONS and begin < place:
                yield Span(doc, begin, place + 1, "ORG")

    return find


@registry.sources("news.athletes.v1")
def athletes() -> Rule:
    """Return a rule for people before a country in brackets, as in Michael Johnson ( U.S. ), and in lists of people."""

    def find(doc: Doc) -> Iterator[Span]:
        words, listed = _words(doc), list[tuple[int, int]]()
        for place, word in enumerate(words):
            if word == "(" and ")" in words[place + 1 : place + 5]:
                begin, end = _begin_of_names(words, place), words.index(")", place)
                inside = words[place + 1 : end]
                if place - begin in (2, 3) and inside and all(_is_name(name) or name.isupper() for name in inside):
                    yield Span(doc, begin, place, "PER")
                    yield Span(doc, place + 1, end, "LOC")
            elif word in ",:;-":
                end = _end_of_names(words, place + 1, 4)
                closes = end == len(words) or words[end] in ",;.(" or words[end][0].isdigit()
                if end - place - 1 in (2, 3) and closes:
                    listed.append((place + 1, end))
        for span in listed if len(listed) > 2 else []:
            yield Span(doc, *span, "PER")

    return find


@registry.sources("news.results.v1")
def results() -> Rule:
    """Return a rule for teams in lines of nothing but names and numbers, and in lines such as BOSTON AT TORONTO."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        numbers = [_is_number(word) for word in words]
        names = [_is_team(word) for word in words]
        versus = len(words) > 2 and words.count("AT") == 1 and all(word.isupper() for word in words)
        only = all(number or name for number, name in zip(numbers, names, strict=True))
        if not versus and not (only and sum(numbers) >= 2 and not any(map(DATE.match, words))):
            return
        begin = 0
        for place, word in enumerate([*words, "AT"]):
            if word == "AT" or not names[place]:
                if place > begin:
                    yield Span(doc, begin, place, "ORG")
                begin = place + 1

    return find


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def _is_name(word: str) -> bool:
    return NAME.match(word) is not None


def _is_number(word: str) -> bool:
    return word in "-=" or (any(map(str.isdigit, word)) and not any(map(str.isalpha, word)))


def _is_team(word: str) -> bool:
    return (_is_name(word) or word.isupper()) and word.replace(".", "").replace("-", "").isalpha()


def _end_of_names(words: Sequence[str], begin: int, most: int) -> int:
    """Return the end of a row of at most so many names from a word on."""
    end = begin
    while end < min(len(words), begin + most) and _is_name(words[end]):
        end += 1
    return end


def _begin_of_names(words: Sequence[str], end: int) -> int:
    """Return the begin of a row of at most four names before a word."""
    begin = end
    while begin > max(0, end - 4) and _is_name(words[begin - 1]):
        begin -= 1
    return begin
