"""Features of references: anystyle's columns as functions of a word, and attributes of a word's place in its reference.

`spacy package --code features.py` copies this file into the package, so a packaged pipeline needs no other file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from spacy.strings import hash_string

from spacy_crfseq import registry
from spacy_crfseq.features.token_sets import TokenSets, make_token_sets

QUOTES = "\"'”’´‘“„‚`«»「」『』"
KEYWORDS = (
    ("editor", r"eds?|edit(or|ors|ed|eurs?)|hg|hrsg|herausgeber|compilador"),
    ("translator", r"trans|transl(ated|ators?|ation)?|übers(etz(t|ung))?|trad(uction|ucteurs?|uit)?"),
    ("thesis", r"dissertation|thesis"),
    ("proceedings", r"(proceedings|conference|meeting|transactions|communications|seminar|symposi(on|um)).*"),
    ("journal", r"(journal|zeitschrift|quarterly|magazine?|times|rev(iew|vue)?|bulletin|news|week|gazett[ea]).*"),
    ("in", r"in"),
    ("and", r"and|und|y|e"),
    ("etal", r"etal|others"),
    ("page", r"pp?|pages?|s(eiten?)?|ff?"),
    ("volume", r"vol(ume)?s?|iss(ue)?|n[or]?|number|fasc(icu?le)?|suppl(ement)?"),
    ("series", r"ser(ies?)?|reihe|[ck]oll(e[ck]tion)"),
    ("patent", r"patent"),
    (
        "edition",
        r"edn|edition|expanded|rev(ised)?|p?reprint(ed)?|illustrated|editio.*|.*aucta|aufl(age)?|\w*ausg(abe)?",
    ),
    (
        "date",
        r"nd|date|spring|s[uo]mmer|autumn|fall|winter|frühling|herbst|jan(uary?)?|feb(ruary?)?|mar(ch|z)?|apr(il)?"
        r"|ma[yi]|jun[ei]?|jul[yi]?|aug(ust)?|sep(tember)?|o[ck]t(ober)?|nov(ember)?|de[cz](ember)?",
    ),
    ("locator", r"(doi|url).*"),
    ("pubmed", r"(pmid|pmcid).*"),
    ("arxiv", r"arxiv.*"),
    ("accessed", r"retrieved|retirado|accessed"),
    ("roman", r"[ilxvmcd]{2,}"),
)
NUMBERS = (
    ("volume", r".*\d[(:;]\d.*"),
    ("isbn", r"97[89](-?\d){10}|\d(-?\d){9}"),
    ("year", r".*\b(1\d|20)\d\d\b.*"),
    ("quad", r"\d{4}"),
    ("triple", r"\d{3}"),
    ("double", r"\d\d"),
    ("single", r"\d"),
    ("all", r"\d+"),
    ("range", r"\d+[-‐-―]+\d+"),
    ("idnum", r"[A-Z][A-Z/‐-―-]+\d+[,.:]?"),
    ("ordinal", r".*\d[^\W\d_]{1,3}\b.*"),
    ("numeric", r".*\d.*"),
    ("roman", r"([IVXLDCM]+|[ivx]+)\b.*"),
)
END = r"[,;:.!?‐-―-]?"
BRACKETS = (
    ("none", r"[^][()<>]+"),
    ("parens", rf"\(.*\){END}"),
    ("square", rf"\[.*\]{END}"),
    ("angle", rf"<.*>{END}"),
    ("paren-closes", rf".*\){END}"),
    ("paren-opens", r"\(.*"),
    ("square-closes", rf".*\]{END}"),
    ("square-opens", r"\[.*"),
    ("angle-closes", rf".*>{END}"),
    ("angle-opens", r"<.*"),
)
TERMINALS = (
    ("strong", rf".*([.)\]][{QUOTES})\]]?|,[{QUOTES})\]]|[{QUOTES}],)"),
    ("moderate", rf".*[:{QUOTES}]{END}"),
    ("weak", rf".*[!?,;‐-―-][{QUOTES}]?"),
)
CAPITALS = (("single", r"[A-Z]"), ("initial", r"[A-Z][a-z].*"), ("caps", r"[A-Z]+"), ("lower", r"[a-z]+"))
LOCATOR = (
    (
        "T",
        r".*(\b(DOI|doi|ISBN|Url|URL|PMCID|PMID|PMC\d+|PubMed)\b|10.\d{4,9}/[-._;()/:\w]+|[A-Za-z][A-Za-z+.-]+:\S).*",
    ),
)


def first_of(cases: Iterable[tuple[str, str]], default: str, flags: int = 0) -> Callable[[str], str]:
    """Return a function of a text: the name of the first pattern that matches all of it, else `default`."""
    patterns = [(name, re.compile(pattern, re.DOTALL | flags)) for name, pattern in cases]
    return lambda text: next((name for name, pattern in patterns if pattern.fullmatch(text)), default)


def without_marks(text: str) -> str:
    """Return the letters and digits of a word."""
    return "".join(char for char in text if char.isalnum() and unicodedata.category(char) != "Lm")


def canonical(text: str) -> str:
    """Return the letters and digits of a word without accents, in lower case; BLANK if it has none."""
    return without_marks(unicodedata.normalize("NFKD", text)).lower() or "BLANK"


def category(char: str) -> str:
    """Return the Unicode category of a character; only letters and punctuation are subdivided."""
    found = unicodedata.category(char)
    return found if found in ("Lu", "Ll", "Lm", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf") else found[0]


def plain(text: str) -> str:
    """Return the letters and digits of a word, accented letters replaced by plain ones of the same case."""
    return without_marks(unicodedata.normalize("NFKD", text))


def keyword(text: str) -> str:
    """Return the kind of word that bibliographies use, such as "editor" for "eds.", or "none"."""
    return "and" if text == "&" else _keyword(without_marks(text))


def punctuation(text: str) -> str:
    """Return the kind of punctuation in a word."""
    marks = [char for char in text if unicodedata.category(char)[0] == "P"]
    if not marks:
        return "none"
    if ":" in marks:
        return "colon"
    if any(unicodedata.category(char) == "Pd" for char in marks):
        return "hyphen"
    return "period" if "." in marks else "amp" if "&" in marks else "other"


_keyword = first_of(KEYWORDS, "none", re.IGNORECASE)
_capitals = first_of(CAPITALS, "other")

COLUMNS: dict[str, Callable[[str], str]] = {
    "canonical": canonical,
    "first": lambda text: category(text[0]),
    "last": lambda text: category(text[-1]),
    "start1": lambda text: text[:1],
    "start2": lambda text: text[:2],
    "end1": lambda text: text[-1:],
    "end2": lambda text: text[-2:],
    "capitals": lambda text: _capitals(plain(text)),
    "number": first_of(NUMBERS, "none"),
    "keyword": keyword,
    "punctuation": punctuation,
    "brackets": first_of(BRACKETS, "other"),
    "terminal": first_of(TERMINALS, "none"),
    "locator": first_of(LOCATOR, "F"),
}
"""anystyle's columns that depend on the word only."""


class Context:
    """Base of attribute plug-ins that compute the attributes of all words of a reference at once, in `of`."""

    def of(self, words: Sequence[str]) -> Iterable[Sequence[str]]:
        """Return the attributes of each word."""
        raise NotImplementedError

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the set of attributes."""
        return [block]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [f"{block}[0]"]

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the attributes of all words of some references."""
        rows = [dict.fromkeys(row) for doc in docs for row in self.of([token.text for token in doc])]
        hashes = [_hash(text) for row in rows for text in row]
        if strings is not None:
            strings.update(zip(hashes, (text for row in rows for text in row), strict=True))
        return {block: make_token_sets([len(row) for row in rows], hashes)}


@cache
def _hash(text: str) -> int:
    return int(hash_string(text))


class Position(Context):
    """The tenth of the reference that a word is in, alone and with that of its neighbours."""

    def of(self, words: Sequence[str]) -> Iterable[Sequence[str]]:
        """Return the attributes of each word."""
        n = len(words)
        tenths = ["first", *(str(int(10 * i / n + 0.5)) for i in range(1, n - 1)), "last"] if n > 1 else ["only"] * n
        pairs = [f"{one}|{other}" for one, other in pairwise(("", *tenths, ""))]
        return [(f"here={here}", f"before={one}", f"after={two}") for here, one, two in zip(tenths, pairs, pairs[1:])]


@cache
def kinds(word: str) -> tuple[str, ...]:
    """Return what a word says about its part of the reference."""
    key, number = COLUMNS["keyword"](word), COLUMNS["number"](word)
    found = [f"key:{key}"] if key != "none" else []
    found += [f"number:{number}"] if number not in ("none", "roman") else []
    return tuple(found)


@cache
def ends_part(word: str) -> bool:
    """Return whether a part of a reference may end after a word: punctuation ends it, and it is no initial."""
    return word[-1:] in ".,;:?!)]\"”»’'" and not (len(word) == 2 and word[0].isupper() and word[1] == ".")


class Parts(Context):
    """The part of the reference between punctuation that a word is in: its first word, its last, and what it says.

    Further: what the parts before and after say, quotation marks and brackets that are open, what came before.
    """

    def __init__(self, on: str = "abcdefgh") -> None:
        self.on = on

    def of(self, words: Sequence[str]) -> Iterable[Sequence[str]]:
        """Return the attributes of each word."""
        on = self.on
        parts: list[list[str]] = [[]]
        for word in words:
            parts[-1].append(word)
            if ends_part(word):
                parts.append([])
        if not parts[-1]:
            parts.pop()
        says = [sorted({kind for word in part for kind in kinds(word)}) or ["nothing"] for part in parts]
        says = [["none"], *says, ["none"]]
        quoted = bracket = False
        seen: set[str] = set()
        total = len(parts)
        strong = 0
        for number, part in enumerate(parts, start=1):
            common = []
            if "a" in on:
                common += [f"first={canonical(part[0])}", f"last={canonical(part[-1])}"]
            if "b" in on:
                common += [f"here={each}" for each in says[number]]
                common += [f"before={each}" for each in says[number - 1]]
                common += [f"after={each}" for each in says[number + 1]]
            if "c" in on:
                common += [f"number={number}", f"left={total - number}", f"size={min(len(part), 8)}"]
            if "d" in on:
                common += [f"seen={each}" for each in seen if each.startswith("key") or each.endswith("year")] or [
                    "seen="
                ]
            if "e" in on:
                later = {each for says_ in says[number + 1 :] for each in says_}
                common += [f"later={each}" for each in later if each.startswith("key") or each.endswith("year")] or [
                    "later="
                ]
            for i, word in enumerate(part):
                row = list(common)
                if "f" in on:
                    row += [f"place={min(i, 3)}", f"to-end={min(len(part) - i - 1, 3)}"]
                if word[0] in "\"“„«‘`'":
                    quoted = True
                if word[0] in "([":
                    bracket = True
                if "g" in on:
                    row += [f"quoted={quoted},{bracket}"]
                if any(q in word[1:] for q in ('"', "”", "»", "''", "’,", "’.", "',", "'.")):
                    quoted = False
                if ")" in word or "]" in word:
                    bracket = False
                if "h" in on:
                    row += [f"strong={min(strong, 5)}"]
                if word[-1] == "." and ends_part(word) and len(word) > 3:
                    strong += 1
                yield row
            seen.update(says[number])
