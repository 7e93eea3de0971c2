"""Pages are whole documents, one file each, and show texts as they are."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from spacy_crfseq.pages.frame import Markup, columns, facts, figure, folded, page, section, table, text

VOID = {"meta", "link", "br", "img"}
NASTY = '<script>alert("x & y")</script>'


class Checker(HTMLParser):
    """Raises if tags are not closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert not checker.open
    return checker


def a_page() -> str:
    body = section(NASTY, table([NASTY, "n"], [[NASTY, "1"], [Markup("<b>bold</b>"), "2"]], {1}), NASTY, anchor='a"b')
    body += columns(figure("<p>chart</p>", NASTY), facts([(NASTY, NASTY), (NASTY, NASTY, NASTY)]))
    body += folded(NASTY, "<p>inside</p>")
    return page(NASTY, body, about=NASTY, lang='e"n', direction="rtl", style="p { color: red }")


def test_a_page_is_well_formed_and_has_one_stylesheet():
    found = checked(a_page())
    assert found.seen.count("html") == found.seen.count("style") == found.seen.count("h1") == 1
    assert "p { color: red }" in a_page()
    assert 'dir="rtl"' in a_page()


def test_texts_are_escaped_and_markup_is_not():
    found = checked(a_page())
    assert "script" not in found.seen
    assert found.text.count(NASTY) == 14
    assert found.seen.count("b") == 1
    assert text("a < b") == "a &lt; b"
    assert text(Markup("<i>")) == "<i>"


def test_a_page_asks_nothing_of_the_net():
    assert not re.search(r"https?:|src=|@import|url\(", a_page())


def test_numbers_stand_flush():
    assert '<td class="number">1</td>' in a_page()
    assert a_page().count('class="number"') == 3
