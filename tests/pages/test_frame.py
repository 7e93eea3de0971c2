"""Pages are whole documents, one file each, and show texts as they are."""

from __future__ import annotations

from spacy_crfseq.pages.frame import Markup, columns, contents, facts, figure, folded, page, section, table, text
from tests.html import Page

NASTY = '<script>alert("x & y")</script>'


def a_page() -> str:
    body = section(NASTY, table([NASTY, "n"], [[NASTY, "1"], [Markup("<b>bold</b>"), "2"]], {1}), NASTY, anchor='a"b')
    body += columns(figure("<p>chart</p>", NASTY), facts([(NASTY, NASTY), (NASTY, NASTY, NASTY)]))
    body += folded(NASTY, "<p>inside</p>", anchor='a"b') + contents([(NASTY, [(NASTY, 'a"b')])])
    return page(NASTY, body, about=NASTY, note=NASTY, lang='e"n', direction="rtl", style="p { color: red }")


def test_a_page_is_well_formed_and_has_one_stylesheet():
    found = Page(a_page())
    assert found.seen.count("html") == found.seen.count("style") == found.seen.count("h1") == 1
    assert "p { color: red }" in a_page()
    assert 'dir="rtl"' in a_page()


def test_texts_are_escaped_and_markup_is_not():
    found = Page(a_page())
    assert "script" not in found.seen
    assert found.text.count(NASTY) == 17
    assert found.seen.count("b") == 1
    assert text("a < b") == "a &lt; b"
    assert text(Markup("<i>")) == "<i>"
    assert '<td class="number">1</td>' in a_page()
    assert a_page().count('class="number"') == 3
