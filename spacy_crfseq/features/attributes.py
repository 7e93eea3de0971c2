"""The attributes that templates may name: of spaCy's lexemes, of a word's text, and of tokens in their Doc.

An attribute without a value at a token is absent: a false flag, an affix longer than the word, a tag not set.
"""

from __future__ import annotations

from ..types import LexemeFunction

LEXEME_HASHES = ("ORTH", "LOWER", "SHAPE", "PREFIX", "SUFFIX", "LANG")
"""spaCy's own hashes of a lexeme.  PREFIX is its first character, SUFFIX its last three in most languages."""

LEXEME_FLAGS = (
    "IS_ALPHA", "IS_ASCII", "IS_BRACKET", "IS_CURRENCY", "IS_DIGIT", "IS_LEFT_PUNCT", "IS_LOWER", "IS_PUNCT",
    "IS_QUOTE", "IS_RIGHT_PUNCT", "IS_SPACE", "IS_STOP", "IS_TITLE", "IS_UPPER", "IS_OOV",
    "LIKE_EMAIL", "LIKE_NUM", "LIKE_URL",
)  # fmt: skip
"""spaCy's lexical flags, present if true."""

TOKEN_COLUMNS = ("NORM", "TAG", "POS", "LEMMA", "MORPH", "DEP", "ENT_TYPE", "ENT_IOB", "SPACY")
"""Attributes of a token in its Doc, set by the tokenizer or by earlier components."""


def _prefix(length: int) -> LexemeFunction:
    return lambda text: text[:length].lower() if len(text) >= length else None


def _suffix(length: int) -> LexemeFunction:
    return lambda text: text[-length:].lower() if len(text) >= length else None


def _fires(condition: bool) -> str | None:
    return "1" if condition else None


def brief_shape(text: str) -> str:
    """Return the word's shape with runs collapsed: ``Xx`` for "Paris", ``d-d`` for "1990-95"."""
    shape = ""
    for char in text:
        kind = "X" if char.isupper() else "x" if char.isalpha() else "d" if char.isdigit() else char
        if not shape.endswith(kind):
            shape += kind
    return shape


TEXT_FUNCTIONS: dict[str, LexemeFunction] = {
    **{f"PREFIX{n}": _prefix(n) for n in range(1, 7)},
    **{f"SUFFIX{n}": _suffix(n) for n in range(1, 7)},
    "BRIEF_SHAPE": brief_shape,
    "LENGTH": lambda text: str(len(text)),
    "INITIAL_LOWER": lambda text: _fires(text[:1].islower()),
    "INITIAL_UPPER": lambda text: _fires(text[:1].isupper()),
    "INITIAL_DIGIT": lambda text: _fires(text[:1].isdigit()),
    "ALL_CAPS": lambda text: _fires(text.isupper()),
    "CAP_WITH_DOT": lambda text: _fires(text[:1].isupper() and "." in text),
    "HAS_HYPHEN": lambda text: _fires("-" in text),
    "HAS_DIGIT": lambda text: _fires(any(char.isdigit() for char in text)),
}
"""Functions of a word's text.  Affixes are lower-cased, and absent if the word is shorter."""

SPELLING = (
    "INITIAL_LOWER", "INITIAL_UPPER", "INITIAL_DIGIT", "ALL_CAPS", "CAP_WITH_DOT", "HAS_HYPHEN", "HAS_DIGIT",
)  # fmt: skip
"""The spelling classes of Altun, Johnson & Hofmann (2003), section 4.2."""

PADDED = frozenset({"ORTH", "LOWER", "SHAPE", "PREFIX", "SUFFIX", "BRIEF_SHAPE", *TOKEN_COLUMNS})
"""Attributes that have a value beyond the ends of a sequence."""

BUILT_IN = frozenset({*LEXEME_HASHES, *LEXEME_FLAGS, *TOKEN_COLUMNS, *TEXT_FUNCTIONS})
