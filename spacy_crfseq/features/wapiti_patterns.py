"""The patterns of a model of Wapiti as a token function: the same observations, letter by letter.

Unlike `template_file`, which turns patterns into templates, this works on the bytes of a text and on the markers beyond
the ends of a sequence as Wapiti does, so that a trained model meets the observations that it has weights for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

from ..corpora.template_files import KINDS, Macro, TemplateLine, parse_template_lines, python_pattern
from ..errors import ConfigError, DataError, suggest
from ..types import TokenFunction
from .attributes import TEXT_FUNCTIONS, TOKEN_COLUMNS
from .noted import noted_attributes

UNUSED = "_"
DOLLAR = "%d"
_OF_TOKENS = {
    name: f"{name}_" for name in ("lower", "shape", "norm", "tag", "pos", "lemma", "morph", "dep", "ent_type")
}


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
        self._readers = [_reader(name) for name in self.columns]
        self.reads = tuple(name.upper() for name in self.columns if name.upper() in TOKEN_COLUMNS)
        self._kinds = KINDS[1:] if self.pairs else KINDS[::2]
        patterns = [pattern.replace(DOLLAR, "$") for pattern in self.patterns]
        lines = parse_template_lines(patterns, "patterns", shared=True) if patterns else []
        self._parts = [_compiled(line) for line in lines if line.kind in self._kinds]
        self._last: tuple[Any, list[list[str]]] = (None, [])

    def __reduce__(self) -> tuple[type[WapitiPatterns], tuple[Any, ...]]:
        return WapitiPatterns, (self.patterns, self.columns, self.function, self.pairs)

    def __call__(self, sequence: Sequence[Any], i: int) -> list[str]:
        """Return the observations of token `i`.  RAISES DataError: If it has too few columns."""
        if self._last[0] is not sequence:
            self._last = sequence, [self._columns_of(sequence, k) for k in range(len(sequence))]
        rows = self._last[1]
        if not self.patterns:
            return [text for text in rows[i] if text[:1].upper() in self._kinds]
        try:
            found = ["".join([one if isinstance(one, str) else one(rows, i) for one in parts]) for parts in self._parts]
        except IndexError:
            has = f"{sequence[i].text!r} or a neighbour has {len(rows[i])} columns"
            raise DataError(f"{has}, but a pattern uses more. Name all of them in columns.") from None
        return [text if text.isascii() else _as_text(text) for text in found]

    def _columns_of(self, sequence: Sequence[Any], i: int) -> list[str]:
        if self.columns:
            texts = [read(sequence[i]) for read in self._readers]
        else:
            texts = list(map(str, (self.function or noted_attributes)(sequence, i)))
        if not self.patterns:
            return texts
        return [text if text.isascii() else _as_bytes(text) for text in texts]


def _reader(name: str) -> Callable[[Any], str]:
    if name in _OF_TOKENS:
        return attrgetter(_OF_TOKENS[name]) if name != "morph" else lambda token: str(token.morph)
    if name == "word":
        return attrgetter("text")
    if name == UNUSED:
        return lambda token: UNUSED
    if function := TEXT_FUNCTIONS.get(name.upper()):
        return lambda token: function(token.text) or ""
    known = ("word", UNUSED, *_OF_TOKENS, *(attribute.lower() for attribute in TEXT_FUNCTIONS))
    raise ConfigError(f"WapitiPatterns: columns: {name!r} is not known. {suggest(name, known)}")


def _as_bytes(text: str) -> str:
    """Return the UTF-8 bytes of a text, each as one character."""
    return text.encode("utf8", "surrogatepass").decode("latin-1")


def _as_text(observation: str) -> str:
    """Return the text of such bytes, as `corpora.wapiti_model.name_of` does."""
    return observation.encode("latin-1").decode("utf8", "backslashreplace")


def _compiled(line: TemplateLine) -> list[str | Callable[[list[list[str]], int], str]]:
    pieces = [line.kind.lower(), *line.pieces]
    return [_as_bytes(piece) if isinstance(piece, str) else _value(piece) for piece in pieces]


def _value(macro: Macro) -> Callable[[list[list[str]], int], str]:
    """Return a function from the columns of a sequence and a token's number to the value of a macro."""
    row, column = macro.row, macro.column
    pattern = re.compile(python_pattern(_as_bytes(macro.pattern)), re.DOTALL)

    def read(rows: list[list[str]], i: int) -> str:
        place = i + row
        if place < 0:
            text = f"_x-{-place if place > -5 else '#'}"
        elif place >= len(rows):
            after = place - len(rows) + 1
            text = f"_x+{after if after < 5 else '#'}"
        else:
            text = rows[place][column]
        if macro.command != "x":
            match = pattern.search(text)
            text = ("false" if match is None else "true") if macro.command == "t" else match[0] if match else ""
        return text.encode("latin-1").lower().decode("latin-1") if macro.lower else text

    return read
