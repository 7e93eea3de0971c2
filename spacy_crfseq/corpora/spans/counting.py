"""Positions of spans in characters, whichever way a file counts those above U+FFFF: once, or as UTF-16 twice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from ...errors import FormatError
from ..utf16 import units_of
from .records import Annotated, CharSpan, Item, Notes, Skipped, Unusable


class Counting:
    """Whether a file counts characters above U+FFFF once, as Python does, or twice, as JavaScript does in UTF-16.

    All spans that come with their text decide, so the file is read at the first one for which it matters.
    """

    def __init__(self, items: Callable[[], Iterable[Item]]) -> None:
        self._items = items

    @cached_property
    def in_utf16(self) -> bool | None:
        """Whether the file counts in UTF-16; None if its spans fit both ways, or some only one and some the other."""
        python = utf16 = False
        for item in self._items():
            if isinstance(item, (Skipped, FormatError)):
                continue
            text = item[1]
            if not isinstance(units := units_of(text.text), range):
                for span in (*text.spans, *text.wrong):
                    plain, double = _fits(text.text, span), _fits(text.text, _from_utf16(span, units))
                    python, utf16 = python or plain > double, utf16 or double > plain
        return None if python == utf16 else utf16

    def placed(self, text: Annotated, line: int, notes: Notes) -> Annotated:
        """Return a text with its spans counted in Python's characters; `notes` receives spans that are in doubt."""
        units = units_of(text.text)
        if text.words is not None or isinstance(units, range):
            return text

        def place(span: CharSpan) -> CharSpan:
            double = _from_utf16(span, units)
            fits, in_utf16 = (_fits(text.text, span), _fits(text.text, double)), self.in_utf16
            if in_utf16 is None and fits[0] != fits[1]:
                in_utf16 = fits[1]
            elif in_utf16 is None:
                in_utf16 = text.in_utf16
                if all(fits) and span != double:
                    taken, other = (double, span) if in_utf16 else (span, double)
                    where = f"is read at {taken.start}-{taken.end}, but may be at {other.start}-{other.end}"
                    notes.doubtful.append((line, described(taken, text.text, where)))
            return double if in_utf16 else span

        unusable = [Unusable(place(span), reason) for span, reason in text.unusable]
        unknown = [place(CharSpan(*bounds, ""))[:2] for bounds in text.unknown]
        spans, wrong = [*map(place, text.spans)], [*map(place, text.wrong)]
        return text._replace(spans=spans, wrong=wrong, unusable=unusable, unknown=unknown)


def described(span: CharSpan, text: str, reason: str) -> str:
    """Return a line on a span, with the text around it."""
    context = text[max(0, span.start - 20) : max(0, span.end) + 20].replace("\n", " ")
    own = text[max(0, span.start) : max(0, span.end)]
    return f"{own!r} ({span.start}-{span.end}, {span.label}) {reason}, in {context!r}"


def _fits(text: str, span: CharSpan) -> bool:
    """Whether a span comes with its text, and this is there."""
    return bool(span.text) and 0 <= span.start < span.end and text[span.start : span.end] == span.text


def _from_utf16(span: CharSpan, units: Sequence[int]) -> CharSpan:
    """Return a span in Python's characters; one that is outside of the text stays so."""
    if not 0 <= span.start < span.end <= units[-1]:
        return span
    return span._replace(start=bisect_right(units, span.start) - 1, end=bisect_left(units, span.end))
