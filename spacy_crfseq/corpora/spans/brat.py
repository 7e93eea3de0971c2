"""Standoff files of brat: a text in ``a.txt``, its spans in ``a.ann`` (https://brat.nlplab.org/standoff.html).

Relations, events, attributes and notes are not read.  A span of several fragments cannot be learned as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from ...errors import FormatError
from ..lines import Line, lines_of
from .records import Annotated, CharSpan, Item, Unusable

ENDING, TEXT = ".ann", ".txt"
_SPAN = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")


def read_brat(path: Path, encoding: str) -> Iterator[Item]:
    """Yield the text of an annotation file, or of a text with one beside it; none if a line is wrong in one of them."""
    path, source = path.with_suffix(ENDING), path.with_suffix(TEXT)
    for file, other in ((source, path), (path, source)):
        if not file.is_file():
            yield FormatError(other, 0, f"brat needs {file.name} beside it, which is missing.")
            return
    spans, unusable, wrong = list[CharSpan](), list[Unusable](), list[FormatError]()
    for line in lines_of(path, encoding):
        if isinstance(line, FormatError):
            wrong.append(line)
        elif line[1].startswith("T"):
            try:
                span, is_whole = _span_of(path, line)
            except FormatError as error:
                wrong.append(error)
                continue
            if is_whole:
                spans.append(span)
            else:
                unusable.append(Unusable(span, "is discontinuous"))
    pieces = list[str]()
    for line in lines_of(source, encoding, returns=True, ends=True):
        if isinstance(line, FormatError):
            wrong.append(line)
        else:
            pieces.append(line[1])
    yield from wrong
    if not wrong:
        yield 1, Annotated("".join(pieces), spans, unusable=unusable)


def _span_of(path: Path, line: Line) -> tuple[CharSpan, bool]:
    """Return a span of characters, and whether it is whole; RAISES FormatError: If the line has none."""
    assert not isinstance(line, FormatError)
    match = _SPAN.fullmatch(line[1])
    if match is None:
        raise FormatError(
            path, line[0], f"expected T1, a tab, a label and positions, a tab, a text; got {line[1][:80]!r}."
        )
    _, label, places, text = match.groups()
    fragments = [tuple(map(int, place.split())) for place in places.split(";")]
    start, end = min(first for first, _ in fragments), max(last for _, last in fragments)
    is_whole = all(before[1] + 1 >= after[0] for before, after in pairwise(fragments))
    return CharSpan(start, end, label, text or ""), is_whole
