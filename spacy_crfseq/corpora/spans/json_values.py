"""Values in JSON files: one a line, one array, one object around an array, or several objects over many lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from ...errors import FormatError
from ..lines import Line, lines_of

Record: TypeAlias = tuple[int, dict[str, Any]]
"""An object in JSON, after its line."""
WRAPPERS = ("annotations", "data", "examples", "common_examples", "documents", "records", "rows")
"""Keys of one object around all texts of a file."""
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
"""Halves of characters in JSON."""
_BETWEEN = re.compile(r"[ \t\r\n,]*")


def json_records(path: Path, encoding: str, stream: IO[bytes] | None = None) -> Iterator[Record | FormatError]:
    """Yield the objects of JSON Lines, or of one array, with the line on which each begins, and errors."""
    for item in json_values(path, encoding, stream):
        if isinstance(item, FormatError) or isinstance(item[1], dict):
            yield item
        else:
            yield FormatError(path, item[0], no_text(item[1]))


def no_text(value: Any) -> str:
    """Return a description of a value in JSON that is no record with a text, and what to do."""
    if not isinstance(value, dict):
        return 'expected an object with a string under "text".'
    strings = [key for key, other in value.items() if isinstance(other, str) and key != "text"]
    cure = f' Rename {" or ".join(map(repr, strings))} to "text", whichever is the text.' if strings else ""
    return f'no string under "text"; there is {", ".join(map(repr, value)) or "nothing"}.{cure}'


def parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return an object in JSON.  RAISES FormatError: If there is none, or a string that no file can hold."""
    value = _parsed(path, number, line)
    if not isinstance(value, dict):
        raise FormatError(path, number, no_text(value))
    return value


def json_values(path: Path, encoding: str, stream: IO[bytes] | None = None) -> Iterator[tuple[int, Any] | FormatError]:
    """Yield the values of a file, with the line on which each begins, and errors in place of what is no JSON.

    A list of a text and an object is a value, as spaCy's training data has them; other lists have values.
    """
    lines = lines_of(path, encoding, stream, returns=True)
    first = next((line for line in lines if isinstance(line, FormatError) or line[1].strip()), None)
    if first is None:
        return
    if isinstance(first, FormatError) or _is_whole(first[1]):
        second = next((line for line in lines if isinstance(line, FormatError) or line[1].strip()), None)
        if second is None and not isinstance(first, FormatError):
            yield from _unwrapped(path, *first)
        else:
            yield from _each_line(path, chain((first,), (second,) if second else (), lines))
        return
    held = list(lines)
    texts = [line[1] for line in held if not isinstance(line, FormatError)]
    text = "\n".join([*[""] * (first[0] - 1), first[1], *texts])
    if first[1].lstrip()[0] == "[" or _is_over_lines(text):
        wrong = next((line for line in held if isinstance(line, FormatError)), None)
        if wrong is not None:  # a value over several lines would lack one of them
            yield FormatError(wrong.file, wrong.line, wrong.what, ends=True)
            return
        yield from _unwrapped(path, 1, text)
    else:
        yield from _each_line(path, chain((first,), held))


def _each_line(path: Path, lines: Iterator[Line]) -> Iterator[tuple[int, Any] | FormatError]:
    for line in lines:
        if isinstance(line, FormatError):
            yield line
        elif line[1] and not line[1].isspace():
            try:
                yield line[0], _parsed(path, *line)
            except FormatError as error:
                yield error


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_over_lines(text: str) -> bool:
    """Whether a text begins with an object over several lines."""
    start = len(text) - len(text.lstrip())
    try:
        return "\n" in text[start : json.JSONDecoder().raw_decode(text, start)[1]]
    except (ValueError, RecursionError):
        return False


def _unwrapped(path: Path, line: int, text: str) -> Iterator[tuple[int, Any] | FormatError]:
    """Yield the values of an array or of the array in one object, or values after one another."""
    start = text[: len(text) - len(text.lstrip())].count("\n") + line
    whole = None
    with suppress(ValueError, RecursionError):
        whole = json.loads(text)
    if whole is not None and not isinstance(whole, (list, dict)):
        yield FormatError(path, start, no_text(whole))
    elif is_pair(whole):
        yield from _checked(path, start, text)
    elif isinstance(whole, dict) and (at := _array_in(whole, text)) is not None:
        yield from _values(path, line, text, at)
    elif isinstance(whole, dict):
        yield from _checked(path, start, text)
    else:
        is_array = text.lstrip().startswith("[")
        yield from _values(path, line, text, text.index("[") + 1 if is_array else 0, ends="]" * is_array)


def is_pair(value: Any) -> bool:
    """Whether a value is a text with its annotation, as in spaCy's training data."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def _array_in(whole: Mapping[str, Any], text: str) -> int | None:
    """Return where the array of texts begins in an object around it, None if the object is a text itself."""
    values = [(key, value) for key, value in whole.items() if isinstance(value, dict)]  # as Rasa has them
    inner = dict(item for _, value in values for item in value.items()) | dict(whole)
    if "text" in whole or "tokens" in whole or isinstance(whole.get("data"), dict):
        return None
    for key in WRAPPERS:
        value = inner.get(key)
        if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
            match = re.search(rf'"{key}"\s*:\s*\[', text)
            return match.end() if match else None
    return None


def _checked(path: Path, line: int, text: str) -> Iterator[tuple[int, Any] | FormatError]:
    try:
        yield line, _parsed(path, line, text)
    except FormatError as error:
        yield error


def _values(path: Path, line: int, text: str, at: int, ends: str = "]") -> Iterator[tuple[int, Any] | FormatError]:
    """Yield the values from a place on, to a closing bracket or, without `ends`, the end of the text."""
    decoder, counted = json.JSONDecoder(), 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] == ends:
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError) as error:
            yield FormatError(path, line, f"no JSON ({error}).", ends=True)
            return
        yield from _checked(path, line, text[at:end])
        at = end


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, number, f"no JSON ({error}). Each line must be an object with a text.") from None
    try:
        if _SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode("utf8")
    except UnicodeEncodeError:
        raise FormatError(path, number, "half a character (\\ud800 to \\udfff, alone); no file can hold it.") from None
    return value
