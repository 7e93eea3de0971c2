"""Pages as tests read them: their tags, which must match, their links and their text."""

import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Tags, links and text of a page; raises if a tag is not closed in turn, or the page asks something of the net."""

    VOID = ("meta", "link", "br", "img", "wbr")

    def __init__(self, html: str) -> None:
        super().__init__()
        assert not re.search(r"https?:|src=|@import|url\(|<script|<link", html)
        self.text, self.seen, self.links, self.open = "", list[str](), list[str](), list[str]()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
