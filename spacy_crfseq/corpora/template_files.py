"""Template files of CRF++ (Kudo 2005) and pattern files of Wapiti (Lavergne, Cappe & Yvon 2010).

Each line is a template: a letter for what it scores, then text with macros::

    U05:%x[-1,0]/%x[0,0]         CRF++: scores a label; the previous and the current word
    B                            scores a label and the previous one; without macros, transitions
    *:Pos=%x[0,1]                Wapiti: both; column 1
    u:Suf=%m[0,0,".?.?$"]        Wapiti: the part of the word that the regular expression matches
    u:Caps=%t[0,0,"^\\u"]        Wapiti: whether it matches

Offsets count tokens from the current one, columns from 0.  A macro with a capital letter lower-cases its result.
A ``#`` at the start of a line or after white space starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import FormatError
from .lines import check_file, read_lines

KINDS = ("U", "B", "*")
_COMMENT = re.compile(r"(?:^|\s)\s*#.*")
_MACRO = re.compile(
    r"""%(?P<command>[xXtTmM])\[\s*
    (?P<row>[+-]?\d+)\s*,\s*(?P<column>\d+)\s*
    (?:,\s*"(?P<pattern>(?:\\.|[^"\\])*)"\s*)?\]""",
    re.VERBOSE,
)
_CLASSES = {
    "a": "A-Za-z", "d": "0-9", "l": "a-z", "u": "A-Z", "w": "0-9A-Za-z",
    "s": r"\ \t\n\r\f\v", "p": r"!-/:-@\[-`{-~",
}  # fmt: skip
"""Character classes of Wapiti's regular expressions, in the C locale."""


class Macro(NamedTuple):
    """A value at one position of the text.

    command: "x" the value itself, "t" whether the pattern matches it, "m" the part that the pattern matches.
    row, column: Its token, relative to the current one, and its column in the file.
    pattern: A regular expression in Wapiti's notation; empty for "x".
    """

    command: str
    row: int
    column: int
    lower: bool = False
    pattern: str = ""


class TemplateLine(NamedTuple):
    """One template.

    number: Its line in the file, counted from 1.
    kind: "U" for labels, "B" for pairs of labels, "*" for both.
    pieces: The rest of the line: text and macros, without empty or adjacent texts.
    """

    number: int
    kind: str
    pieces: tuple[str | Macro, ...]

    @property
    def macros(self) -> list[Macro]:
        """The macros alone."""
        return [piece for piece in self.pieces if isinstance(piece, Macro)]

    @property
    def literal(self) -> tuple[str, ...]:
        """The text around the macros."""
        return tuple("%" if isinstance(piece, Macro) else piece for piece in self.pieces)


def read_template_file(path: Path | str) -> list[TemplateLine]:
    """Return the templates of a file, in UTF-8.

    RAISES FormatError: With the line of an invalid template, and on a file without templates.
    """
    path = check_file(path)
    return parse_template_lines((line for _, line in read_lines(path, "utf8")), path)


def parse_template_lines(lines: Iterable[str], path: Path | str) -> list[TemplateLine]:
    """Return the templates in the lines of a file; see `read_template_file`."""
    without_comments = (_COMMENT.sub("", line).rstrip() for line in lines)
    parsed = [_parse(path, number, line) for number, line in enumerate(without_comments, start=1) if line]
    if not parsed:
        raise FormatError(path, 0, "no template in the file; write one per line, such as U00:%x[0,0].")
    return parsed


def format_template_line(line: TemplateLine) -> str:
    """Return the text of this template."""
    text = line.kind
    for piece in line.pieces:
        if isinstance(piece, str):
            text += piece
        else:
            command = piece.command.upper() if piece.lower else piece.command
            pattern = f',"{piece.pattern}"' if piece.command != "x" else ""
            text += f"%{command}[{piece.row},{piece.column}{pattern}]"
    return text


def python_pattern(pattern: str) -> str:
    r"""Return a regular expression of Wapiti's in Python's notation.

    Its letters are \a \d \l \u \w \s \p, and capital letters for the complements.  As in Wapiti, ``*`` is non-greedy
    and ``?`` is greedy.
    RAISES ValueError: If * or ? follows nothing.
    """
    parts: list[str] = []
    repeatable = False
    for match in re.finditer(r"\\(?s:.)|(?s:.)", pattern):
        text, first, last = match[0], match.start() == 0, match.end() == len(pattern)
        if text in ("*", "?"):
            if not repeatable:
                raise ValueError(f"{text} follows nothing that it could repeat")
            parts.append("*?" if text == "*" else "?")
            repeatable = False
        elif text == "^" and first:
            parts.append(text)
        elif text == "$" and last:
            parts.append(r"\Z")
        else:
            parts.append(_one_character(text))
            repeatable = True
    return "".join(parts)


def _one_character(text: str) -> str:
    if text == ".":
        return text
    letter = text[-1]
    if len(text) == 1 or letter.lower() not in _CLASSES:
        return re.escape(letter)
    return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"


def _parse(path: Path | str, number: int, line: str) -> TemplateLine:
    kind = line[0].upper()
    if kind not in KINDS:
        kinds = "U (a label), B (a pair of labels) and * (both, in Wapiti)"
        raise FormatError(path, number, f"{line!r} begins with none of {kinds}.")
    pieces: list[str | Macro] = []
    position = 1
    while position < len(line):
        if text := line[position:].partition("%")[0]:
            pieces.append(text)
            position += len(text)
        elif match := _MACRO.match(line, position):
            pieces.append(_macro(path, number, match))
            position = match.end()
        else:
            raise FormatError(path, number, _wrong_macro(line[position:]))
    return TemplateLine(number, kind, tuple(pieces))


def _macro(path: Path | str, number: int, match: re.Match[str]) -> Macro:
    command, pattern = match["command"], match["pattern"]
    if (command in "xX") != (pattern is None):
        hint = "takes no regular expression" if command in "xX" else "needs a regular expression in double quotes"
        raise FormatError(path, number, f'{match[0]}: %{command} {hint}, as in %x[-1,0] or %m[0,0,"^.?.?"].')
    try:
        re.compile(python_pattern(pattern or ""))
    except (ValueError, re.error) as error:
        raise FormatError(path, number, f"{match[0]}: the regular expression cannot be read ({error}).") from None
    return Macro(command.lower(), int(match["row"]), int(match["column"]), command.isupper(), pattern or "")


def _wrong_macro(text: str) -> str:
    macro = text[: text.find("]") + 1] or text
    if re.match(r"%[xtmXTM]\[\s*[@*]", macro):
        sign = "an absolute position" if "@" in macro else "a position given by a column"
        return f"{macro}: {sign} is not supported; offsets count from the current token, as in %x[-1,0]."
    return (
        f"{macro}: not a macro; write %x[row,column], such as %x[-1,0], or, as in Wapiti, "
        '%t[row,column,"pattern"] or %m[row,column,"pattern"].'
    )
