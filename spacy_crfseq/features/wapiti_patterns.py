"""The patterns of a model of Wapiti as a token function: the same observations, letter by letter.

Unlike `template_file`, which turns patterns into templates, this works on the bytes of a text and on the markers beyond
the ends of a sequence as Wapiti does, so that a trained model meets the observations that it has weights for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar

from ..corpora.template_files import KINDS, Macro, parse_template_lines, python_pattern
from ..errors import ConfigError, DataError, suggest
from ..types import TokenFunction
from .attributes import BUILT_IN, LEXEME_FLAGS, TEXT_FUNCTIONS, TOKEN_COLUMNS
from .noted import noted_attributes
from .sets import columns_read

DOLLAR = "%d"


@dataclass
class WapitiPatterns:
    """A token function that returns Wapiti's observations (registered as ``spacy_crfseq.WapitiPatterns.v1``).

    `crfseq convert` writes it for a model of Wapiti.

    patterns (list[str]): Those of the model, where ``%d`` stands for a dollar sign, which spaCy's configs do not keep.
        Without any, the columns themselves are observations.
    columns (list[str]): Content of the columns of Wapiti's files, from column 0: "word", or the lower-cased name
        of an attribute, such as "tag", "lemma", "shape" or "suffix3"; "_" for a column that no pattern uses.
    function (TokenFunction | None): Returns the columns of a token as a list of texts, instead of `columns`.  Without
        either, they are those in ``doc._.crf_attributes``.
    pairs (bool): Return the observations that score a label together with the previous one, instead of the others.
    RAISES ConfigError: If a column is unknown, or `function` cannot be called or stands beside `columns`.
    RAISES FormatError: If a pattern cannot be read.
    """

    patterns: list[str] | tuple[str, ...]
    columns: list[str] | tuple[str, ...] = ()
    function: TokenFunction | None = None
    pairs: bool = False
    repeats: ClassVar[bool] = True  # patterns may share observations, whose weights add up

    def __post_init__(self) -> None:
        if self.function is not None and (self.columns or not callable(self.function)):
            raise ConfigError("WapitiPatterns: function must be a token function, and then columns must be empty.")
        self._row = Row(self.columns) if self.columns else self.function or noted_attributes
        self.reads = columns_read(self._row)
        self._kinds = KINDS[1:] if self.pairs else KINDS[::2]
        patterns = [pattern.replace(DOLLAR, "$") for pattern in self.patterns]
        lines = parse_template_lines(patterns, "patterns") if patterns else []
        self._parts = [[_part(one) for one in (x.kind.lower(), *x.pieces)] for x in lines if x.kind in self._kinds]
        self._last: tuple[Any, list[list[str]]] = (None, [])

    def __reduce__(self) -> tuple[type[WapitiPatterns], tuple[Any, ...]]:
        return WapitiPatterns, (self.patterns, self.columns, self.function, self.pairs)

    def __call__(self, sequence: Sequence[Any], i: int) -> list[str]:
        """Return the observations of token `i`.  RAISES DataError: If it has too few columns."""
        last = self._last  # which another thread may replace
        if last[0] is not sequence:
            last = sequence, [[_as_bytes(str(x)) for x in self._row(sequence, k)] for k in range(len(sequence))]
            self._last = last
        rows = last[1]
        if not self.patterns:
            return [_as_text(text) for text in rows[i] if text[:1].upper() in self._kinds]
        try:
            return [_as_text("".join([part(rows, i) for part in parts])) for parts in self._parts]
        except IndexError:
            has = f"{sequence[i].text!r} or a neighbour has {len(rows[i])} columns"
            raise DataError(f"{has}, but a pattern uses more. Name all of them in columns.") from None


class Row:
    """Function of a token that returns the texts of columns.

    computed (Mapping[str, TokenFunction]): Functions of columns that are no attributes.
    RAISES ConfigError: If there is no such column.
    """

    def __init__(self, columns: Sequence[str], computed: Mapping[str, TokenFunction] = MappingProxyType({})) -> None:
        self._readers = [computed[name] if name in computed else _reader(name) for name in columns]
        self.reads = tuple(name.upper() for name in columns if name.upper() in TOKEN_COLUMNS and name not in computed)

    def __call__(self, sequence: Sequence[Any], i: int) -> list[Any]:
        """Return the values of token `i`."""
        return [read(sequence, i) for read in self._readers]


def _reader(name: str) -> TokenFunction:
    function = TEXT_FUNCTIONS.get(name.upper(), str if name in ("word", "_") else None)
    if function is not None:
        return lambda sequence, i: function(sequence[i].text) or ""
    if name.upper() not in BUILT_IN:
        known = ("word", "_", *sorted(each.lower() for each in BUILT_IN))
        raise ConfigError(f"WapitiPatterns: columns: {name!r} is not known. {suggest(name, known)}")
    flag = name.upper() in LEXEME_FLAGS or name == "morph"  # others have their text under a name that ends in _
    read = attrgetter(name if flag else "whitespace_" if name == "spacy" else f"{name}_")
    return lambda sequence, i: read(sequence[i])


def _as_bytes(text: str) -> str:
    """Return the UTF-8 bytes of a text, each as one character."""
    return text if text.isascii() else text.encode("utf8", "surrogatepass").decode("latin-1")


def _as_text(text: str) -> str:
    """Return the text of such bytes, as `corpora.wapiti_model` reads observations."""
    return text if text.isascii() else text.encode("latin-1").decode("utf8", "backslashreplace")


def _part(piece: str | Macro) -> Callable[[list[list[str]], int], str]:
    """Return a function from the columns of a sequence and a token's number to the text of a part of a pattern."""
    if isinstance(piece, str):
        constant = _as_bytes(piece)
        return lambda rows, i: constant
    command, row, column, lower, expression = piece
    pattern = re.compile(python_pattern(_as_bytes(expression)), re.DOTALL)

    def read(rows: list[list[str]], i: int) -> str:
        beyond = -i - row if i + row < 0 else i + row - len(rows) + 1
        if beyond > 0:
            text = f"_x{'-' if i + row < 0 else '+'}{beyond if beyond < 5 else '#'}"
        else:
            text = rows[i + row][column]
        if command != "x":
            match = pattern.search(text)
            text = ("false" if match is None else "true") if command == "t" else match[0] if match else ""
        return text.encode("latin-1").lower().decode("latin-1") if lower else text

    return read
