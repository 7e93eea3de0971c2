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
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ..corpora.template_files import (
    Macro,
    TemplateLine,
    format_template_line,
    parse_template_lines,
    python_pattern,
    read_template_file,
)
from ..errors import ConfigError, FormatError, suggest
from ..threads import cached_property
from ..types import LexemeFunction, TokenFunction
from .attributes import BUILT_IN
from .plan import Plan
from .sets import FeatureSet
from .templates import MAX_OFFSET
from .wapiti_patterns import Row, WapitiPatterns

UNUSED = "_"
ALWAYS = "ALWAYS"
"""The attribute of templates without macros, present at every token."""
NO_MATCH = "(none)"
"""The value of a macro %m without a match, because an empty value would be no attribute."""


class Imported(NamedTuple):
    """The templates of a file, and whether a line scores pairs of labels independently of the text."""

    features: FeatureSet
    transitions: bool


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
                known = ("word", UNUSED, *own, *(attribute.lower() for attribute in BUILT_IN))
                what = f"columns: {name!r} is neither known nor a function"
                raise ConfigError(f"TemplateFile: {what}. {suggest(name, known)}")

    @cached_property
    def lines(self) -> list[TemplateLine]:
        """The templates of the file, or those stored in a model."""
        return read_template_file(self.path)

    @cached_property
    def imported(self) -> Imported:
        """The templates in the syntax of this package; FormatError with the line of an unsupported template."""
        return import_templates(self.lines, self.columns, self.path, *self._own)

    @property
    def templates(self) -> tuple[str, ...]:
        """Templates whose attributes score a label."""
        return self.imported.features.templates

    @property
    def bigram_templates(self) -> tuple[str, ...]:
        """Templates whose attributes score a label together with the previous one."""
        return self.imported.features.bigram_templates

    @property
    def functions(self) -> Mapping[str, LexemeFunction]:
        """Those that compute columns, and tests and matches of regular expressions."""
        return self.imported.features.functions

    @property
    def token_functions(self) -> Mapping[str, TokenFunction]:
        """Those that compute columns."""
        return self.imported.features.token_functions

    def plans(self) -> tuple[Plan, Plan]:
        """Return the parsed templates as plans: for single labels and for label pairs."""
        return self.imported.features.plans()

    def check_transitions(self, component: str, transitions: bool) -> None:
        """Raise ConfigError if a component's setting contradicts the file."""
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
    transitions = False
    for line in lines:
        parts = [_part(macro, line.number, columns, path, names, functions, computed) for macro in line.macros]
        template = "|".join(dict.fromkeys(parts))
        if line in joint:
            continue
        if not template and line.kind in "B*":
            transitions = True
        elif template and line.kind in "B*":
            pair.append(template)
        if not template and line.kind in "U*":
            functions[ALWAYS] = always
        if line.kind in "U*":
            state.append(template or f"{ALWAYS}[0]")
    sets: dict[str, TokenFunction] = {}
    used = {columns[macro.column] for line in joint for macro in line.macros}
    row = Row([name if name in used else UNUSED for name in columns], {**_of_tokens(own), **token_functions})
    for kind, name, templates in (("U", "JOINT", state), ("B", "JOINT_PAIRS", pair)):
        if any(line.kind in (kind, "*") for line in joint):
            sets[name] = WapitiPatterns([*map(format_template_line, joint)], function=row, pairs=kind == "B")
            templates.append(f"{name}[0]")
    if not state and not pair:
        raise FormatError(path, 0, "no template uses the text; add one, such as U00:%x[0,0].")
    return Imported(FeatureSet(tuple(state), tuple(pair), functions, sets), transitions)


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
            "Say in columns what it holds.",
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
