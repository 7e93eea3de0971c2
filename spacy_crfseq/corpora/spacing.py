"""Where spaces go between words, for corpora that do not tell: a few rules for Latin, Greek and Cyrillic script."""

from __future__ import annotations

from collections.abc import Sequence

_APOSTROPHES = ("'", "\u2019")
_AFTER_WORD = frozenset(
    [
        ".",
        ",",
        ";",
        ":",
        "!",
        "?",
        "%",
        ")",
        "]",
        "}",
        "'",
        "''",
        "\u2019",
        "\u201d",
        "»",
        "…",
        "...",
        "n't",
        "n\u2019t",
    ]
)
"""What follows a word without a space."""
_BEFORE_WORD = frozenset(["(", "[", "{", "$", "£", "€", "`", "``", "\u2018", "\u201c", "«", "¿", "¡"])
"""What is followed by a word without a space."""


def guess_spaces(words: Sequence[str]) -> list[bool]:
    """Return whether a space follows each word of a text [T].

    Straight quotation marks open and close in turn.  Clitics such as *'s*, *n't* and *l'* join their word.
    """
    spaces = [True] * len(words)
    quoted = False
    for i, word in enumerate(words):
        joins_left, joins_right = word in _AFTER_WORD, word in _BEFORE_WORD
        if word == '"':
            joins_left, joins_right, quoted = quoted, not quoted, not quoted
        elif len(word) > 1:
            joins_left |= word[0] in _APOSTROPHES and word[1:].isalpha()
            joins_right |= word[-1] in _APOSTROPHES and word[:-1].isalpha()
        if joins_left and i:
            spaces[i - 1] = False
        spaces[i] = not joins_right
    return spaces
