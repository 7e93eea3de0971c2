"""INCEpTION's exports: WebAnno TSV 3 and UIMA CAS in JSON.  Positions are those of Java, in UTF-16.

WebAnno TSV 3 (https://inception-project.github.io, user guide, "WebAnno TSV"): a header names layers and features, each
token is a line, and a layer has a column for each feature; a number in brackets joins the tokens of a span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError, FormatError
from ..lines import lines_of
from ..utf16 import units_of
from .records import Annotated, CharSpan, Item

MARK = "#FORMAT=WebAnno TSV 3"
"""The beginning of the first line."""
ENTITIES = "NamedEntity"
"""The layer that is read if there are several."""
FEATURES = ("value", "label", "identifier")
_LAYER = re.compile(r"#T_SP=([^|]*)\|?(.*)")
_TOKEN = re.compile(r"\d+-\d+\t(\d+)-(\d+)\t([^\t]*)\t?(.*)")
_PART = re.compile(r"\d+-\d+\.\d+\t(\d+)-(\d+)\t([^\t]*)\t?(.*)")
_VALUE = re.compile(r"(.*?)(?:\[(\d+)\])?")
_ESCAPED = re.compile(r"\\(.)")
_SEVERAL = re.compile(r"(?<!\\)\|")


class _Token(NamedTuple):
    """A token, or an annotated part of one."""

    start: int
    end: int
    text: str
    values: Sequence[str]
    is_part: bool = False


def read_webanno(path: Path, encoding: str) -> Iterator[Item]:
    """Yield the sentences of a file in WebAnno TSV 3, but those with lines that are wrong."""
    place, width, layers = None, 0, list[tuple[str, list[str]]]()
    tokens, first, spoilt = list[_Token](), 0, False
    for line in chain(lines_of(path, encoding, returns=True), [(0, "")]):  # a blank line ends a sentence that is open
        if isinstance(line, FormatError):
            yield line
            spoilt = True
            continue
        number, text = line
        if number == 1 and not text.startswith(MARK):
            what = f"this is no WebAnno TSV 3, which begins with {MARK}. Give --format or --columns."
            yield FormatError(path, 1, what, ends=True)
            return
        if match := _LAYER.fullmatch(text):
            layers.append((match[1], [name for name in match[2].split("|") if name]))
        elif match := _TOKEN.fullmatch(text) or _PART.fullmatch(text):
            if place is None:
                place, width = _place(layers)
            if place < 0:
                what = "the header names no layer of spans with a feature (#T_SP)."
                yield FormatError(path, number, what, ends=True)
                return
            values = match[4].split("\t")
            if len(values) <= place:
                yield FormatError(path, number, f"expected {width} columns of annotation, but found {len(values)}.")
                spoilt = True
                continue
            first = first or number
            bounds, is_part = (int(match[1]), int(match[2])), match.re is _PART
            tokens.append(_Token(*bounds, _unescaped(match[3], bounds), _SEVERAL.split(values[place]), is_part))
        elif not text.strip():
            if tokens and not spoilt:
                yield _sentence(path, first, tokens)
            tokens, first, spoilt = [], 0, False


def _place(layers: Sequence[tuple[str, list[str]]]) -> tuple[int, int]:
    """Return the column of the labels and the number of columns; -1 if there is none."""
    columns = [(layer, feature) for layer, features in layers for feature in (features or [""])]
    wanted = [i for i, (layer, _) in enumerate(columns) if layer.rpartition(".")[2] == ENTITIES] or range(len(columns))
    named = [i for name in FEATURES for i in wanted if columns[i][1] == name]
    return next(iter((*named, *wanted)), -1), len(columns)


def _unescaped(text: str, bounds: tuple[int, int]) -> str:
    """Return the text of a token without backslashes before signs, if it is as long as it should be only then."""
    plain, size = _ESCAPED.sub(r"\1", text), bounds[1] - bounds[0]
    return plain if units_of(text)[-1] != size == units_of(plain)[-1] else text


def _sentence(path: Path, line: int, tokens: Sequence[_Token]) -> Item:
    text, bounds, spans = "", list[tuple[int, int]](), dict[tuple[str, str], list[int]]()
    begin, end = tokens[0].start, tokens[0].start  # of the last token
    for i, token in enumerate(tokens):
        if token.start < (begin if token.is_part else end):
            return FormatError(path, line + i, f"the token {token.text!r} begins at {token.start}, in the one before.")
        if token.is_part:
            start = len(text) - (end - token.start)
            bounds.append((start, start + len(token.text)))
        else:
            text += " " * (token.start - end)
            bounds.append((len(text), len(text) + len(token.text)))
            text, begin, end = text + token.text, token.start, token.end
        for value in token.values:
            match = _VALUE.fullmatch(value)
            label, number = (match[1], match[2]) if match else (value, None)
            if label not in ("_", ""):
                spans.setdefault((_ESCAPED.sub(r"\1", label), number or f"token {i}"), []).append(i)
    placed, unknown = list[CharSpan](), list[tuple[int, int]]()
    for (label, _), places in spans.items():
        start, stop = bounds[places[0]][0], bounds[places[-1]][1]
        if label == "*":  # a span without a value
            unknown.append((start, stop))
        else:
            placed.append(CharSpan(start, stop, label))
    return line, Annotated(text, placed, unknown=unknown)


# UIMA CAS in JSON


def is_cas(entry: Mapping[str, Any]) -> bool:
    """Whether an object is a UIMA CAS."""
    return isinstance(entry.get("%FEATURE_STRUCTURES"), list)


def of_cas(entry: Mapping[str, Any]) -> Annotated:
    """Return the text and the entities of a UIMA CAS; RAISES DataError: If it has no text, or an entity no place."""
    parts = [part for part in entry["%FEATURE_STRUCTURES"] if isinstance(part, dict)]
    sofa = next((part for part in parts if isinstance(part.get("sofaString"), str) and part["sofaString"]), None)
    if sofa is None:
        raise DataError('the CAS has no text (a "sofaString").')
    spans, unknown = list[CharSpan](), list[tuple[int, int]]()
    for part in parts:
        if str(part.get("%TYPE", "")).rpartition(".")[2] != ENTITIES or part.get("@sofa") != sofa.get("%ID"):
            continue
        label = next((part[name] for name in FEATURES if isinstance(part.get(name), str) and part[name]), None)
        start, end = part.get("begin"), part.get("end")
        if type(start) is not int or type(end) is not int:
            raise DataError(f"expected an entity with begin and end, but found {part!r}.")
        if label is None:
            unknown.append((start, end))
        else:
            spans.append(CharSpan(start, end, label))
    in_utf16 = "32" not in str(entry.get("%HEADER", ""))
    return Annotated(sofa["sofaString"], spans, unknown=unknown, in_utf16=in_utf16)
