"""The attributes that templates may name: of spaCy's lexemes, of a word's text, and of tokens in their Doc.

An attribute without a value at a token is absent: a false flag, an affix longer than the word, a tag not set.
"""

from __future__ import annotations

from .items import COLUMNS, TEXT_FUNCTIONS

LEXEME_HASHES = ("ORTH", "LOWER", "SHAPE", "PREFIX", "SUFFIX", "LANG")
"""spaCy's own hashes of a lexeme.  PREFIX is its first character, SUFFIX its last three in most languages."""

LEXEME_FLAGS = (
    "IS_ALPHA", "IS_ASCII", "IS_BRACKET", "IS_CURRENCY", "IS_DIGIT", "IS_LEFT_PUNCT", "IS_LOWER", "IS_PUNCT",
    "IS_QUOTE", "IS_RIGHT_PUNCT", "IS_SPACE", "IS_STOP", "IS_TITLE", "IS_UPPER", "IS_OOV",
    "LIKE_EMAIL", "LIKE_NUM", "LIKE_URL",
)  # fmt: skip
"""spaCy's lexical flags, present if true."""

TOKEN_COLUMNS = COLUMNS
"""Attributes of a token in its Doc, set by the tokenizer or by earlier components."""

SPELLING = (
    "INITIAL_LOWER", "INITIAL_UPPER", "INITIAL_DIGIT", "ALL_CAPS", "CAP_WITH_DOT", "HAS_HYPHEN", "HAS_DIGIT",
)  # fmt: skip
"""The spelling classes of Altun, Johnson & Hofmann (2003), section 4.2."""

BUILT_IN = frozenset({*LEXEME_HASHES, *LEXEME_FLAGS, *TOKEN_COLUMNS, *TEXT_FUNCTIONS})
