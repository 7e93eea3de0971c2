"""The text of HTML, and places in it as Label Studio counts them.

Label Studio counts units of UTF-16 in the texts between tags, one after the other as in the body of a page; a ``<br>``
is one more (https://github.com/HumanSignal/label-studio, `domManager.ts`).  The text here has a line feed between
elements that begin lines or cells, so that their words stay apart, and neither scripts nor styles.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from html.parser import HTMLParser

from ...errors import DataError
from ..utf16 import units_of

_LINES = frozenset((
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav",
    "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
))  # fmt: skip
"""Elements that begin a line or a cell."""
_HIDDEN = frozenset({"script", "style"})
_ALONE = frozenset((
    "area", "base", "body", "br", "caption", "col", "colgroup", "dd", "dt", "head", "hr", "html", "img", "input", "li",
    "link", "meta", "optgroup", "option", "p", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
    "track", "wbr",
))  # fmt: skip
"""Elements that may stand without an end tag."""
_ENDED = _LINES | frozenset((
    "a", "abbr", "acronym", "audio", "b", "bdi", "bdo", "big", "button", "canvas", "center", "cite", "code", "data",
    "datalist", "del", "dfn", "dialog", "em", "font", "hgroup", "i", "iframe", "ins", "kbd", "label", "legend", "map",
    "mark", "menu", "meter", "noscript", "object", "output", "picture", "progress", "q", "ruby", "s", "samp", "script",
    "search", "select", "slot", "small", "span", "strike", "strong", "style", "sub", "sup", "svg", "template",
    "textarea", "time", "title", "tt", "u", "var", "video",
))  # fmt: skip
"""Elements that may have an end tag (https://html.spec.whatwg.org/multipage/syntax.html#optional-tags)."""
_BEGINS = re.compile(r"\s*<(!doctype html|!--|(?P<name>[a-z][a-z0-9]*)(\s[^<>]*)?/?>)", re.IGNORECASE)


def begins_as_html(text: str) -> bool:
    """Whether a text begins with an element of HTML, with its end if it must have one; others may stand for words."""
    begin = _BEGINS.match(text)
    if begin is None or begin["name"] is None:
        return begin is not None
    name = begin["name"].lower()
    return name in _ALONE or (name in _ENDED and f"</{name}" in text.lower())


class HtmlText(HTMLParser):
    """The text of HTML, under `text`, and its places.  RAISES DataError: If the parser cannot read the HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._begin()
        try:
            self.feed(html.replace("\r\n", "\n").replace("\r", "\n").lstrip())
            self.close()
        except AssertionError as error:  # "<![" in the parser of older versions of Python
            raise DataError(
                f'this HTML cannot be read: {error}. Remove from its text what begins with "<![", to the next ">"; '
                "pages do not show it, and the positions of spans stay right."
            ) from None
        self.text = "".join(self._parts)

    def _begin(self) -> None:
        self._parts: list[str] = []
        self._counted = self._written = 0
        self._from, self._to = [0], [0]
        self._apart = self._hidden = False

    def place(self, position: int, *, is_end: bool = False) -> int:
        """Return the place in the text, in units of UTF-16, that Label Studio counts as a position.

        is_end (bool): Whether a span ends there; a line feed may be between such a place and the one behind it.
        """
        i = max(0, bisect_right(self._from, position - is_end) - 1)
        return self._to[i] + position - self._from[i]

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin an element; what is before the body of a page does not count."""
        if tag == "body":
            self._begin()
        self._hidden = tag in _HIDDEN
        self._apart |= tag in _LINES
        if tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if tag == "head":
            self._begin()
        self._hidden = False
        self._apart |= tag in _LINES

    def handle_data(self, data: str) -> None:
        """Take a text between tags."""
        n_units = units_of(data)[-1]
        if not self._hidden:
            if self._apart and self._parts and not self._parts[-1][-1].isspace() and not data[0].isspace():
                self._parts.append("\n")
                self._written += 1
            self._from.append(self._counted)
            self._to.append(self._written)
            self._parts.append(data)
            self._written += n_units
            self._apart = False
        self._counted += n_units
