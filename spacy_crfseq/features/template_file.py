"""A feature set from a template file of CRF++ or a pattern file of Wapiti.

In a config::

    [components.crf_chunker.features]
    @crf_features = "spacy_crfseq.TemplateFile.v1"
    path = "template"
    columns = ["word", "tag", "kind"]

    [components.crf_chunker.features.functions]
    @crf_features = "my_project.columns.v1"

The registered function returns functions of a word by the names of columns, here ``{"kind": ...}``.  A trained pipeline
contains the lines and does not need the file.

The patterns of a trained model of Wapiti are a token function instead, `WapitiPatterns`: it works on the bytes of a
text and on the markers beyond the ends of a sequence as Wapiti does, so that the model meets the observations that it
has weights for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ..corpora.template_files import (
    KINDS,
    Macro,
    TemplateLine,
    format_template_line,
    parse_template_lines,
    python_pattern,
    read_template_file,
)
from ..errors import ConfigError, DataError, FormatError, suggest
from ..threads import cached_property
from ..types import LexemeFunction, TokenFunction
from .attributes import BUILT_IN, LEXEME_FLAGS, TOKEN_COLUMNS
from .items import TEXT_FUNCTIONS
from .noted import noted_attributes
from .protocol import Attributes
from .sets import FeatureSet, columns_read
from .templates import MAX_OFFSET

UNUSED = "_"
DOLLAR = "%d"
"""Stands for a dollar sign in the patterns of a model."""
ALWAYS = "ALWAYS"
"""The attribute of templates without macros, present at every token."""
NO_MATCH = "(none)"
"""The value of a macro %m without a match, because an empty value would be no attribute."""


class Imported(NamedTuple):
    """The templates of a file.

    transitions (bool): Whether a line scores pairs of labels independently of the text.
    lines (dict): The lines that became templates, by whether they score pairs of labels and by the template.
    """

    features: FeatureSet
    transitions: bool
    lines: dict[tuple[bool, str], TemplateLine]


class TemplateFile:
    """The feature set in a template file (registered as ``spacy_crfseq.TemplateFile.v1``).

    path (Path | str): The file, in UTF-8.
    columns (list[str]): Content of the columns in the training files of CRF++ or Wapiti, from column 0: "word"; the
        lower-cased name of another attribute, such as "tag", "pos", "lemma" or "suffix3"; the name of one of your own
        functions; or "_" for a column that the templates do not use.
    functions, token_functions (dict | None): Functions that compute columns: of a word's text, or of a token in its
        sequence, as `Templates` takes them.  A function of a word returns the value, an empty one for none.
    RAISES ConfigError: If a column name is unknown.  An error in the file raises a FormatError at its first use.
    """

    def __init__(
        self,
        path: Path | str,
        columns: list[str] | tuple[str, ...] = ("word", "tag"),
        functions: dict[str, Any] | None = None,
        token_functions: dict[str, Any] | None = None,
    ) -> None:
        self.path, self.columns = Path(path), tuple(columns)
        self._own = functions or {}, token_functions or {}
        own = {*self._own[0], *self._own[1]}
        for name in self.columns:
            if name not in ("word", UNUSED, *own) and name.upper() not in BUILT_IN:
                names = ("word", UNUSED, *own, *(attribute.lower() for attribute in BUILT_IN))
                raise ConfigError(
                    f"TemplateFile: columns: {name!r} is neither known nor a function. {suggest(name, names)}"
                )

    @cached_property
    def lines(self) -> list[TemplateLine]:
        """The templates of the file, or those stored in a model."""
        return read_template_file(self.path)

    @cached_property
    def imported(self) -> Imported:
        """The templates in the syntax of this package; FormatError with the line of an unsupported template."""
        return import_templates(self.lines, self.columns, self.path, *self._own)

    def observations(self, pairs: bool) -> tuple[list[TemplateLine], WapitiPatterns]:
        """Return the templates that score pairs of labels, or the others, and the function of their observations."""
        row = Row(self.columns, {**_of_tokens(self._own[0]), **self._own[1]})
        lines = [line for line in self.lines if line.kind in (KINDS[1:] if pairs else KINDS[::2])]
        return lines, WapitiPatterns([*map(format_template_line, lines)], function=row, pairs=pairs)

    def with_attributes(self, attributes: Mapping[str, Attributes]) -> FeatureSet:
        """See `FeatureSet.with_attributes`."""
        return self.imported.features.with_attributes(attributes)

    def check_transitions(self, component: str, transitions: bool) -> None:
        """RAISES ConfigError: If a component's setting contradicts the file."""
        if transitions == self.imported.transitions:
            return
        if transitions:
            raise ConfigError(
                f"[components.{component}]: {self.path} has no line B, so CRF++ and Wapiti would learn no "
                "transitions. Write transitions = false for the same, or add a line B to the file to learn them."
            )
        raise ConfigError(
            f"[components.{component}]: {self.path} has a line B, which requires transitions. Write transitions = "
            "true, or take the line out."
        )

    def to_state(self) -> list[str]:
        """Return the data that a model stores: the templates, one per line."""
        return [format_template_line(line) for line in self.lines]

    def from_state(self, state: list[str]) -> None:
        """Use the templates that a model has stored."""
        self.lines = parse_template_lines(state, self.path)
        vars(self).pop("imported", None)


Features: TypeAlias = FeatureSet | TemplateFile


class RegexTest:
    """Function of a word's text: macro "t" returns "true" or "false", macro "m" the matching part or `NO_MATCH`.

    column: Function that computes the column which is searched; None for the word itself.
    """

    def __init__(self, macro: Macro, column: LexemeFunction | None = None) -> None:
        self.macro, self._column = macro, column
        self._pattern = re.compile(python_pattern(macro.pattern), re.DOTALL)

    def __call__(self, text: str) -> str:
        """Return the value for a word."""
        match = self._pattern.search(text if self._column is None else self._column(text) or "")
        if self.macro.command == "t":
            return "false" if match is None else "true"
        part = match[0] if match else ""
        return (part.lower() if self.macro.lower else part) or NO_MATCH


def always(text: str) -> str:
    """Return "1" for every word."""
    return "1"


def import_templates(
    lines: list[TemplateLine],
    columns: tuple[str, ...],
    path: Path,
    own: Mapping[str, LexemeFunction] = MappingProxyType({}),
    token_functions: Mapping[str, TokenFunction] = MappingProxyType({}),
) -> Imported:
    """Return the templates of a file in the syntax of this package.

    own, token_functions: Functions that compute columns.

    RAISES FormatError: With the line of a macro that names an unknown column, has an offset beyond `MAX_OFFSET`, or
        applies a regular expression to a column other than the word or a function of the word.
    """
    state: list[str] = []
    pair: list[str] = []
    functions, computed = dict[str, LexemeFunction](own), {*own, *token_functions}
    names: dict[tuple[str, bool, str, str], str] = {}
    joint = _joint(lines, columns, token_functions)
    transitions, sources = False, dict[tuple[bool, str], TemplateLine]()
    for line in lines:
        parts = [_part(macro, line.number, columns, path, names, functions, computed) for macro in line.macros]
        template = "|".join(dict.fromkeys(parts))
        if line in joint:
            continue
        if not template and line.kind in "B*":
            transitions = True
        elif template and line.kind in "B*":
            pair.append(template)
            sources.setdefault((True, template), line)
        if not template and line.kind in "U*":
            functions[ALWAYS] = always
        if line.kind in "U*":
            state.append(template or f"{ALWAYS}[0]")
            sources.setdefault((False, state[-1]), line)
    sets: dict[str, TokenFunction] = {}
    used = {columns[macro.column] for line in joint for macro in line.macros}
    row = Row([name if name in used else UNUSED for name in columns], {**_of_tokens(own), **token_functions})
    for kind, name, templates in (("U", "JOINT", state), ("B", "JOINT_PAIRS", pair)):
        if any(line.kind in (kind, "*") for line in joint):
            sets[name] = WapitiPatterns([*map(format_template_line, joint)], function=row, pairs=kind == "B")
            templates.append(f"{name}[0]")
    if not state and not pair:
        raise FormatError(path, 0, "no template uses the text; add one, such as U00:%x[0,0].")
    return Imported(FeatureSet(tuple(state), tuple(pair), functions, sets), transitions, sources)


def _joint(lines: list[TemplateLine], columns: tuple[str, ...], of_tokens: Collection[str]) -> list[TemplateLine]:
    """Return the lines that one token function computes, value by value, because templates cannot.

    They use columns that are functions of a token, or have the same text around macros of the same columns, such as
    U:%x[-1,0] and U:%x[0,0], which gives both common weights (a bag of words).
    """

    def keys(line: TemplateLine) -> list[tuple[Any, ...]]:
        content = (line.literal, *(macro.column for macro in line.macros))
        return [(kind, *content) for kind in "UB" if line.kind in (kind, "*")]

    counts = Counter(key for line in lines if line.macros for key in keys(line))
    names = [name in of_tokens for name in columns]
    return [
        line
        for line in lines
        if any(counts[key] > 1 for key in keys(line)) or any(any(names[m.column : m.column + 1]) for m in line.macros)
    ]


def _of_tokens(functions: Mapping[str, LexemeFunction]) -> dict[str, TokenFunction]:
    """Return functions of a word's text as functions of a token."""

    def of_token(function: LexemeFunction) -> TokenFunction:
        return lambda sequence, i: function(sequence[i].text) or ""

    return {name: of_token(function) for name, function in functions.items()}


def _part(
    macro: Macro,
    number: int,
    columns: tuple[str, ...],
    path: Path,
    names: dict[tuple[str, bool, str, str], str],
    functions: dict[str, LexemeFunction],
    own: Set[str],
) -> str:
    """Return a part such as ``ORTH[-1]``; the functions of regular expressions are added to `functions`.

    own: The names of columns that functions compute.
    """
    if macro.column >= len(columns) or columns[macro.column] == UNUSED:
        raise FormatError(
            path,
            number,
            f"there is no column {macro.column}: columns = {list(columns)} names those from 0 to {len(columns) - 1}. "
            "Name its content in columns.",
        )
    if abs(macro.row) > MAX_OFFSET:
        raise FormatError(path, number, f"offset {macro.row}: offsets beyond {MAX_OFFSET} are not supported.")
    column = columns[macro.column]
    if macro.command == "x":
        attribute = "LOWER" if macro.lower else "ORTH"
        if column != "word":
            attribute = column if column in own else column.upper()
    elif column != "word" and column not in own:
        raise FormatError(
            path, number, f"column {macro.column} is {column!r}, but regular expressions apply to the word only."
        )
    else:
        lower = macro.lower and macro.command == "m"  # true and false are lower-case already
        kind = "TEST" if macro.command == "t" else "MATCH"
        attribute = names.setdefault((kind, lower, macro.pattern, column), f"{kind}{len(names) + 1}")
        functions.setdefault(attribute, RegexTest(macro, functions.get(column)))
    return f"{attribute}[{macro.row}]"


@dataclass
class WapitiPatterns:
    """A token function that returns Wapiti's observations (registered as ``spacy_crfseq.WapitiPatterns.v1``).

    `crfseq import-model` writes it for a model of Wapiti.

    patterns (list[str]): Those of the model, where ``%d`` stands for a dollar sign, which spaCy's configs do not keep.
        Without any, the columns themselves are observations.
    columns (list[str]): Content of the columns of Wapiti's files, from column 0: "word", or the lower-cased name
        of an attribute, such as "tag", "lemma", "shape" or "suffix3"; "_" for a column that no pattern uses.
    function (TokenFunction | None): Returns the columns of a token as a list of texts, instead of `columns`.  Without
        either, they are those in ``doc._.crf_attributes``.
    pairs (bool): Return the observations that score a label together with the previous label, instead of the others.
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
        self._parts = [
            [_reader_of(piece) for piece in (x.kind.lower(), *x.pieces)] for x in lines if x.kind in self._kinds
        ]
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
        names = ("word", "_", *sorted(attribute.lower() for attribute in BUILT_IN))
        raise ConfigError(f"WapitiPatterns: columns: {name!r} is not known. {suggest(name, names)}")
    flag = name.upper() in LEXEME_FLAGS or name == "morph"  # others have their text under a name that ends in _
    read = attrgetter(name if flag else "whitespace_" if name == "spacy" else f"{name}_")
    return lambda sequence, i: read(sequence[i])


def _as_bytes(text: str) -> str:
    """Return the UTF-8 bytes of a text, each as one character."""
    return text if text.isascii() else text.encode("utf8", "surrogatepass").decode("latin-1")


def _as_text(text: str) -> str:
    """Return the text of such bytes, as `corpora.saved_models` reads observations."""
    return text if text.isascii() else text.encode("latin-1").decode("utf8", "backslashreplace")


def _reader_of(piece: str | Macro) -> Callable[[list[list[str]], int], str]:
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
