"""Splits texts into tokens: the matches of a regular expression, for the tokenizer and for readers of texts."""

from __future__ import annotations

import re

from ..errors import ConfigError, suggest

SPACES = r"\S+"
"""The pattern that splits at white space."""
WORDS = r"\w+|[^\w\s]"
"""The pattern that also makes a token of each punctuation mark."""
PARTED = r"[^\W\d]+|\d+|[^\w\s]"
"""The pattern that also parts digits from letters."""
BETWEEN = ("words", "nothing", "everything")
_PIECES = re.compile(r"\s+|\S+")


class Splitter:
    """Function from a text to its T tokens, and whether white space follows each, both [T].

    pattern (str): A regular expression, whose matches are the tokens; empty ones are none.
    between (str): Which text between the matches becomes tokens of its own: "words", each run without white space;
        "nothing"; or "everything", so that also white space beyond a single space is a token, as in spaCy.
    RAISES ConfigError: If the pattern cannot be compiled or matches the empty text, or `between` is unknown.
    """

    def __init__(self, pattern: str = SPACES, between: str = "words") -> None:
        if between not in BETWEEN:
            raise ConfigError(f"between = {between!r} is not known. {suggest(str(between), BETWEEN)}")
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise ConfigError(f"pattern = {pattern!r} is not a regular expression: {error}.") from None
        if not isinstance(pattern, str) or compiled.match(""):
            what = "is not a text" if not isinstance(pattern, str) else "matches the empty text, which is no token"
            raise ConfigError(f"pattern = {pattern!r} {what}. Write one such as {SPACES!r}, with + in place of *.")
        self.pattern, self.between = pattern, between
        self._matches = compiled.finditer
        self._find = str.split if pattern == SPACES else compiled.findall if not compiled.groups else None

    def __call__(self, text: str) -> tuple[list[str], list[bool]]:
        """Return the tokens of a text, and whether white space follows each."""
        words: list[str] = self._find(text) if self._find is not None else [""]
        if " ".join(words) == text and "" not in words:  # the usual case: a space between all tokens
            return words, [True] * (len(words) - 1) + [False] * bool(words)
        words, done = [], 0
        spaces: list[bool] = []
        for match in self._matches(text):
            start, end = match.span()
            if start == end:
                continue
            if start > done:
                self._add(text[done:start], words, spaces)
            words.append(match[0])
            spaces.append(False)
            done = end
        if done < len(text):
            self._add(text[done:], words, spaces)
        return words, spaces

    def matches(self, word: str) -> bool:
        """Whether a token is a match, by itself, and not what is between matches."""
        return self.between == "nothing" or next(self._matches(word), [None])[0] == word

    def _add(self, text: str, words: list[str], spaces: list[bool]) -> None:
        """Add the text between two matches, or before the first or after the last."""
        if self.between == "nothing":  # which leaves a space
            spaces[-1:] = [True] * bool(words)
            return
        everything = self.between == "everything"
        for piece in _PIECES.findall(text):
            if piece.isspace():
                if words and (piece[0] == " " or not everything):
                    spaces[-1] = True
                    piece = piece[1:]
                if not everything or not piece:
                    continue
            words.append(piece)
            spaces.append(False)
