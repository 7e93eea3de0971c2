"""Pages are whole documents, one file each, and show texts as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from spacy.displacy.render import EntityRenderer

from spacy_crfseq.tools._pages import html
from spacy_crfseq.tools._pages.html import PALETTE, render, strength
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


STYLE = Path(html.__file__).with_name("style.css").read_text(encoding="utf8")
Color = tuple[float, float, float]
LIGHT, DARK = (
    dict(re.findall(r"(--[a-z0-9]+): ([^;}]+?) ?;", part))
    for part in re.findall(r":root \{(.*?)\}", STYLE.replace("\n", " "))
)
SCHEMES = pytest.mark.parametrize("scheme", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
AA, AA_LARGE = 4.5, 3.0


def parsed(color: str) -> Color:
    digits = color.strip().lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def mixed(color: Color, share: float, ground: Color) -> Color:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(color, ground, strict=True))
    return red, green, blue


def luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@SCHEMES
@pytest.mark.parametrize(("share", "colors", "ground"), [
    ("--full", [*PALETTE, *dict(EntityRenderer().colors).values()], "--paper"),
    ("--tint", ["--s1"], "--paper"),
    ("--heat", ["--s1", "--s2"], "--band"),
])  # fmt: skip
def test_certain_is_stronger_and_readable(scheme: dict[str, str], share: str, colors: list[str], ground: str) -> None:
    back, ink = parsed(scheme[ground]), parsed(scheme["--ink"])
    for color in (parsed(scheme.get(color, color)) for color in colors):
        shades = [mixed(color, float(scheme[share]) * strength(p), back) for p in (0.0, 0.5, 0.9, 0.99, 1.0)]
        assert all(contrast(shade, ink) >= AA for shade in shades), color
        distances = [sum(abs(a - b) for a, b in zip(shade, back, strict=True)) for shade in shades]
        assert distances == sorted(set(distances)), color


@SCHEMES
def test_texts_and_lines_are_readable(scheme: dict[str, str]) -> None:
    paper = parsed(scheme["--paper"])
    for name in ("--ink", "--soft", *(f"--s{i}" for i in range(1, 7))):
        assert contrast(parsed(scheme[name]), paper) >= AA, name
    assert contrast(parsed(scheme["--wrong"]), paper) >= AA_LARGE
