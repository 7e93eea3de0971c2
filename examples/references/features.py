"""Features of words in references: the columns of anystyle's template, and attributes of the parts of a reference.

The option `--code features.py` of spaCy's commands loads them, and `spacy package` copies this file into the package.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from spacy.strings import hash_string
from spacy.tokens import Token

from spacy_crfseq import registry
from spacy_crfseq.features.token_sets import TokenSets, make_token_sets

QUOTES = "\"'`´‘’‚“”„«»「」『』"  # noqa: RUF001
DASHES = "‐‑‒–—―"  # noqa: RUF001
DASHES += "-"  # the last, because it would mean a range elsewhere in the brackets of a pattern
TAIL = f"[,;:.!?{DASHES}]?"
"""A mark that may follow a bracket or a quotation mark."""

KEYWORDS = {
    "editor": "ed eds edit edited editor editors editeur editeurs hg hrsg herausgeber compilador",
    "translator": "trans transl translated translator translators translation trad traduit traduction traducteur"
    " traducteurs übers übersetzt übersetzung",
    "thesis": "dissertation thesis",
    "proceedings": "proceedings* conference* meeting* transactions* communications* seminar* symposion* symposium*",
    "journal": "journal* zeitschrift* quarterly* magazin* times* rev* bulletin* news* week* gazette* gazetta*",
    "in": "in",
    "and": "& and und y e",
    "etal": "etal others",
    "page": "p pp page pages s seite seiten f ff",
    "volume": "vol vols volume volumes iss issue n no nr number fasc fascicle suppl supplement",
    "series": "ser serie series reihe collection collektion kollektion",
    "patent": "patent",
    "edition": "edn edition editio* expanded rev revised preprint preprinted reprint reprinted illustrated aufl"
    " auflage ausg ausgabe",
    "date": "nd date spring summer sommer autumn fall winter frühling herbst jan january januar feb february"
    " februar mar march märz apr april may mai jun june juni jul july juli aug august sep sept september oct okt"
    " october oktober nov november dec dez december dezember",
    "locator": "doi* url*",
    "pubmed": "pmid* pmcid*",
    "arxiv": "arxiv*",
    "accessed": "retrieved accessed retirado",
}
"""Words of bibliographies in lower case, of which the first in the order here counts; a star is any ending."""

NUMBERS = (
    ("volume", r".*\d[(:;]\d.*"),
    ("isbn", rf"(97[89][{DASHES}]?)?\d([{DASHES}]?\d){{9}}"),
    ("year", r".*\b(1\d|20)\d\d\b.*"),
    ("quad", r"\d{4}"),
    ("triple", r"\d{3}"),
    ("double", r"\d{2}"),
    ("single", r"\d"),
    ("all", r"\d+"),
    ("range", rf"\d+[{DASHES}]+\d+"),
    ("idnum", rf"[A-Z][A-Z/{DASHES}]+\d+[,.:]?"),
    ("ordinal", r".*\d[^\W\d_]{1,3}\b.*"),
    ("numeric", r".*\d.*"),
    ("roman", r"([IVXLCDM]+|[ivx]+)\b.*"),
)
BRACKETS = (
    ("none", r"[^][()<>]+"),
    ("parens", rf"\(.*\){TAIL}"),
    ("square", rf"\[.*\]{TAIL}"),
    ("angle", rf"<.*>{TAIL}"),
    ("parens-close", rf".*\){TAIL}"),
    ("parens-open", r"\(.*"),
    ("square-close", rf".*\]{TAIL}"),
    ("square-open", r"\[.*"),
    ("angle-close", rf".*>{TAIL}"),
    ("angle-open", r"<.*"),
)
TERMINALS = (
    ("strong", rf".*([.)\]][{QUOTES})\]]?|,[{QUOTES})\]]|[{QUOTES}],)"),
    ("moderate", rf".*[:{QUOTES}]{TAIL}"),
    ("weak", rf".*[!?,;{DASHES}][{QUOTES}]?"),
)
CAPITALS = (("single", r"[A-Z]"), ("initial", r"[A-Z][a-z].*"), ("caps", r"[A-Z]+"), ("lower", r"[a-z]+"))
LOCATORS = (
    ("T", r".*\b(DOI|doi|ISBN|URL|Url|PMID|PMCID|PMC\d+|PubMed)\b.*"),
    ("T", r".*(10.\d{4,9}/[\w()./:;-]|[A-Za-z][A-Za-z+.-]+:\S).*"),
)


def first_match(cases: Sequence[tuple[str, str]], default: str) -> Callable[[str], str]:
    """Return a function of a text: the name of the first pattern that matches all of it, or else `default`."""
    patterns = [(name, re.compile(pattern, re.DOTALL)) for name, pattern in cases]
    return lambda text: next((name for name, pattern in patterns if pattern.fullmatch(text)), default)


def letters(text: str) -> str:
    """Return the letters and digits of a word, without accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if char.isalnum())


def canonical(text: str) -> str:
    """Return the letters and digits of a word, without accents, in lower case; BLANK if it has none."""
    return letters(text).lower() or "BLANK"


def category(char: str) -> str:
    """Return the Unicode category of a character; only some letters and punctuation marks have one of their own."""
    name = unicodedata.category(char)
    return name if name in ("Lu", "Ll", "Lm", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf") else name[0]


def keyword(text: str) -> str:
    """Return the kind of word in a bibliography, such as "editor" for "(eds.)", or "none"."""
    word = "".join(char for char in text if char.isalnum()) or text
    lower = word.lower()
    if lower in _WHOLE:
        return _WHOLE[lower]
    if lower.startswith(tuple(_BEGIN)):
        return next(kind for beginning, kind in _BEGIN.items() if lower.startswith(beginning))
    return "roman" if re.fullmatch("[IVXLCDM]{2,}", word) else "none"


_PAIRS = [(word, kind) for kind, words in KEYWORDS.items() for word in words.split()]
_WHOLE = {word: kind for word, kind in reversed(_PAIRS) if not word.endswith("*")}
_BEGIN = {word[:-1]: kind for word, kind in _PAIRS if word.endswith("*")}


def punctuation(text: str) -> str:
    """Return the most telling punctuation mark in a word, "other" for one that tells little, or "none"."""
    names = {":": "colon", **dict.fromkeys(DASHES, "hyphen"), ".": "period", "&": "amp"}
    if not any(unicodedata.category(char)[0] == "P" for char in text):
        return "none"
    return next((name for mark, name in names.items() if mark in text), "other")


_capitals = first_match(CAPITALS, "other")

COLUMNS: dict[str, Callable[[str], str]] = {
    "canonical": canonical,
    "first": lambda text: category(text[0]),
    "last": lambda text: category(text[-1]),
    "start1": lambda text: text[:1],
    "start2": lambda text: text[:2],
    "end1": lambda text: text[-1:],
    "end2": lambda text: text[-2:],
    "capitals": lambda text: _capitals(letters(text)),
    "number": first_match(NUMBERS, "none"),
    "keyword": keyword,
    "punctuation": punctuation,
    "brackets": first_match(BRACKETS, "other"),
    "terminal": first_match(TERMINALS, "none"),
    "locator": first_match(LOCATORS, "F"),
}
"""The columns that depend on nothing but the word."""

DICTIONARY = ("name", "place", "publisher", "journal")
"""Lists of the folder `lists` that are columns, too."""


class Listed:
    """Function of a word: "T" if it occurs in a phrase of the file, else "F".  A model stores the words."""

    def __init__(self, path: Path) -> None:
        self.path, self.words = path, set[str]()
        if path.exists():  # not where a packaged pipeline is loaded
            self.words = {canonical(word) for word in path.read_text(encoding="utf8").split()}

    def __call__(self, text: str) -> str:
        """Return the value for a word."""
        return "T" if canonical(text) in self.words else "F"

    def to_state(self) -> list[str]:
        """Return the words, for the model file."""
        return sorted(self.words)

    def from_state(self, state: list[str]) -> None:
        """Use the words of a model file."""
        self.words = set(state)


@registry.features("references.columns.v1")
def create_columns(lists: Path | None = None) -> dict[str, Callable[[str], str]]:
    """Return the columns that are functions of a word.

    lists (Path | None): Folder with a file for each list of the dictionary; None for no dictionary.
    """
    listed = {} if lists is None else {name: Listed(Path(lists) / f"{name}.txt") for name in DICTIONARY}
    return {**COLUMNS, **listed}


def tenth(i: int, n: int) -> str:
    """Return the part of a reference of n words that word i is in, as a number of tenths."""
    ends = {0: "first" if n > 1 else "only", n - 1: "last" if n > 1 else "only"}
    return ends.get(i) or str(int(10 * i / n + 0.5))


def tenths(i: int, n: int) -> str:
    """Return the tenths of the word before and of word i."""
    return f"{tenth(i - 1, n) if i else ''}|{tenth(i, n) if i < n else ''}"


@registry.features("references.positions.v1")
def create_positions() -> dict[str, Callable[[Sequence[Token], int], list[str]]]:
    """Return the columns of the place of a word; pairs are a column, because templates cannot join these values."""
    return {
        "position": lambda words, i: [tenth(i, len(words))],
        "positions": lambda words, i: [tenths(i, len(words))],
    }


@cache
def clues(word: str) -> frozenset[str]:
    """Return what a word reveals about its part of a reference."""
    kind, number = keyword(word), COLUMNS["number"](word)
    found = {kind} if kind not in ("none", "roman") else set()
    return frozenset(found | {f"number:{number}"} if number not in ("none", "roman") else found)


@cache
def ends_part(word: str) -> bool:
    """Return whether a part of a reference may end with a word: with punctuation that does not mark an initial."""
    return word[-1] in ".,;:?!)]\"”»’'" and not (len(word) == 2 and word[0].isupper() and word[1] == ".")  # noqa: RUF001


def parts_of(words: Sequence[str]) -> list[Sequence[str]]:
    """Split a reference after punctuation."""
    ends = [i for i, word in enumerate(words, start=1) if ends_part(word)]
    return [words[start:end] for start, end in pairwise((0, *ends, len(words))) if start < end]


@registry.attributes("references.parts.v1")
class Parts:
    """Attributes of the part of a reference that a word is in, where parts end with punctuation.

    They are: the first and the last word of the part, what its words and those of its neighbours reveal, its size, its
    number from both ends, the place of the word in it, whether quotation marks and brackets are open, and how many
    words with a full stop came before.
    """

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the set of attributes."""
        return [block]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [f"{block}[0]"]

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the attributes of all words of some references."""
        rows = [set(row) for doc in docs for row in attributes_of([token.text for token in doc])]
        hashes = [_hash(text) for row in rows for text in row]
        if strings is not None:
            strings.update(zip(hashes, (text for row in rows for text in row), strict=True))
        return {block: make_token_sets([len(row) for row in rows], hashes)}


@cache
def _hash(text: str) -> int:
    return int(hash_string(text))


def attributes_of(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the attributes of each word; see `Parts`."""
    parts = parts_of(words)
    revealed = [set[str]().union(*map(clues, part)) or {"nothing"} for part in parts]
    around = [{"start"}, *revealed, {"end"}]
    places = _places(words)
    for number, part in enumerate(parts):
        of_part = [f"first={canonical(part[0])}", f"last={canonical(part[-1])}", f"size={min(len(part), 8)}"]
        of_part += [f"number={number}", f"left={len(parts) - number}"]
        for name, clue in zip(("before", "here", "after"), around[number : number + 3], strict=True):
            of_part += [f"{name}={label}" for label in clue]
        for i in range(len(part)):
            of_word = [f"place={min(i, 3)}", f"to-end={min(len(part) - i - 1, 3)}"]
            yield [*of_part, *of_word, *next(places)]


def _places(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield for each word what is open at it, and how many words with a full stop came before."""
    quoted, bracketed, stops = False, False, 0
    for word in words:
        quoted |= word[0] in QUOTES
        bracketed |= word[0] in "(["
        yield [f"quoted={quoted},{bracketed}", f"stops={min(stops, 5)}"]
        quoted &= not re.search(f"[{QUOTES}]\\W*$", word[1:])
        bracketed &= not re.search(r"[)\]]", word)
        stops += len(word) > 3 and word[-1] == "."
