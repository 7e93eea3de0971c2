"""Pages are whole documents, one file each, and show texts as they are."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from spacy_crfseq.tools._pages import html
from spacy_crfseq.tools._pages.html import render
from tests.html import Page

NASTY = '<script>alert("x & y")</script>'


TEMPLATE = """{% extends "tools/_pages/frame.html" %}{% import "tools/_pages/macros.html" as ui %}{% block body %}
{{ ui.section(nasty, ui.table([nasty, "n"], [[nasty, "1"], ["<b>bold</b>"|safe, "2"]], [1]), nasty, anchor='a"b') }}
{{ ui.columns(ui.figure("<p>chart</p>"|safe, nasty)) }}{% endblock %}"""


def a_page() -> str:
    return html._environment.from_string(TEMPLATE).render(title=NASTY, nasty=NASTY, about=NASTY)


def test_texts_are_escaped_and_markup_is_not() -> None:
    found = Page(a_page())
    assert found.seen.count("html") == found.seen.count("style") == found.seen.count("h1") == 1
    assert "script" not in found.seen
    assert found.text.count(NASTY) == 8
    assert found.seen.count("b") == 1
    assert '<td class="number">1</td>' in a_page()
    assert a_page().count('class="number"') == 3


def test_what_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        render("tools/_pages/frame.html")
