"""Charts hold what they are given, where it belongs, and nothing breaks them."""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from spacy.displacy.render import EntityRenderer

from spacy_crfseq.tools._pages import html
from spacy_crfseq.tools._pages.charts import brief, number, scale, shortened, tick_labels, width, wilson
from spacy_crfseq.tools._pages.html import (
    PALETTE,
    Bar,
    Series,
    bar_chart,
    heat_map,
    line_chart,
    reliability,
    render,
    strength,
)
from tests.html import Page

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


def drawing(markup: str) -> ET.Element:
    result = ET.fromstring(markup)
    return result if result.tag == "svg" else result.find("svg")


def texts(root: ET.Element) -> list[str]:
    return [item.text or "" for item in root.iter("text")]


def titles(root: ET.Element) -> list[str]:
    return [item.text or "" for item in root.iter("title")]


@given(st.lists(FINITE, min_size=1, max_size=5), st.booleans())
def test_ticks_are_few_round_and_inside(values, wide):
    result = scale(values, 0, 100, wide=wide)
    assert len(result.ticks) <= 8
    assert all(-1e-6 <= result(tick) <= 100 + 1e-6 for tick in result.ticks)
    assert all(-1e-6 <= result(value) <= 100 + 1e-6 for value in values)
    assert len(set(result.labels)) == len(result.labels)
    if wide:
        assert len(result.ticks) >= 2


@pytest.mark.parametrize(("values", "labels"), [
    ([0, 1], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ([1, 7], ["0", "2", "4", "6", "8"]),
    ([3, 4], ["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]),
    ([0, 48_000], ["0", "10k", "20k", "30k", "40k", "50k"]),
    ([-3, 3], ["\u22124", "\u22122", "0", "2", "4"]),
])  # fmt: skip
def test_ticks_at_round_numbers(values, labels):
    assert scale(values, 0, 1).labels == labels


@pytest.mark.parametrize(("value", "written"), [
    (12345.678, "12,346"), (0.0, "0"), (-1.5, "\u22121.5"), (0.012346, "0.01235"), (1e-7, "1e\u22127"),
    (1234567, "1,234,567"), (3.0, "3"), (100, "100"), (2.5e13, "2.5e13"), (math.inf, "\u221e"),
    (-math.inf, "\u2212\u221e"), (math.nan, "none"),
])  # fmt: skip
def test_numbers_are_short(value, written):
    assert number(value) == written


def test_long_names_are_cut_to_their_room():
    assert shortened("short", 100) == "short"
    cut = shortened("a very long name of a template", 100)
    assert cut.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert width(cut) <= 100
    assert width("日本") > width("ab")
    assert tick_labels([5.0]) == ["5"]


def test_a_curve_goes_through_its_points_in_place():
    root = drawing(line_chart([Series("up", [(0, 0), (5, 5), (10, 10)])], x="x", y="y"))
    line = root.find("polyline")
    (ax, ay), (bx, by), (cx, cy) = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert ax < bx < cx
    assert ay > by > cy  # down is up on a screen
    assert bx - ax == pytest.approx(cx - bx, abs=0.2)
    assert titles(root)[-1] == "up 10 at x 10"


def test_bars_have_lengths_by_value_and_name_it():
    root = drawing(bar_chart([Bar("one", 10), Bar("two", 20, part=5), Bar("three", -10, low=-15, high=-5)], unit="%"))
    whole = [float(r.get("width")) for r in root.iter("rect") if r.get("class") in ("f1", "f2", "whole")]
    first, two, part, three = whole
    assert two == pytest.approx(2 * first, abs=0.2)
    assert part == pytest.approx(first / 2, abs=0.2)
    assert three == pytest.approx(first, abs=0.2)
    assert {"10%", "5 of 20%", "\u221210%"} <= set(texts(root))
    assert titles(root)[2].endswith("interval \u221215 to \u22125")


def test_cells_are_coloured_by_value():
    values = np.array([[2.0, -4.0], [0.0, -np.inf]])
    root = drawing(heat_map(["a", "b"], ["c", "d"], values, diverging=True, row="from", column="to"))
    cells = [g for g in root.iter("g") if g.get("class") == "cell"]
    colors = [(g.findall("rect")[-1].get("class"), g.findall("rect")[-1].get("fill-opacity")) for g in cells]
    assert colors == [("heat f1", "0.500"), ("heat f2", "1.000"), ("heat f1", "0.000"), ("hit", None)]
    assert titles(root)[:2] == ["from a, to c: 2.0", "from a, to d: \u22124.0"]
    assert {"2.0", "\u22124.0", "0.0"} <= set(texts(root))
    assert titles(root)[3] == "from b, to d: none"


@pytest.mark.parametrize(("value", "most", "written"), [
    (-0.04, 3, "0.0"), (12.3, 45, "12.3"), (1234.5, 2000, "1234"), (0.123, 0.5, "0.12"), (3e5, 3e5, "300,000"),
    (0.001, 0.002, "0.001"),
])  # fmt: skip
def test_numbers_of_a_table_are_brief(value, most, written):
    assert brief(value, most) == written


def test_a_reliability_diagram_places_its_bins():
    bins = [SimpleNamespace(low=0.4, high=0.6, total=100, predicted=0.5, correct=0.5)]
    root = drawing(reliability(bins))
    dot = next(c for c in root.iter("circle") if c.get("class") == "f1")
    ideal = next(line for line in root.iter("line") if line.get("class") == "ideal")
    middle = [(float(ideal.get(f"{a}1")) + float(ideal.get(f"{a}2"))) / 2 for a in "xy"]
    assert [float(dot.get("cx")), float(dot.get("cy"))] == pytest.approx(middle, abs=0.1)
    assert "100 predictions" in titles(root)[0]
    drawing(reliability([]))


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_the_interval_is_that_of_the_score_test(total, right):
    share = min(right, total) / total
    low, high = wilson(share, total)
    assert low - 1e-9 <= share <= high + 1e-9
    for end in (low, high):  # where the test statistic reaches its limit, unless cut at 0 or 1
        if 1e-9 < end < 1 - 1e-9:
            assert abs(share - end) / math.sqrt(end * (1 - end) / total) == pytest.approx(1.96, rel=1e-3)


# --- pages are whole documents, one file each, and show texts as they are -------------------------------------------


NASTY = '<script>alert("x & y")</script>'


TEMPLATE = """{% extends "tools/_pages/frame.html" %}{% import "tools/_pages/macros.html" as ui %}{% block body %}
{{ ui.section(nasty, ui.table([nasty, "n"], [[nasty, "1"], ["<b>bold</b>"|safe, "2"]], [1]), nasty, anchor='a"b') }}
{{ ui.columns(ui.figure("<p>chart</p>"|safe, nasty)) }}{% endblock %}"""


def a_page() -> str:
    return html._environment.from_string(TEMPLATE).render(title=NASTY, nasty=NASTY, about=NASTY)


def test_texts_are_escaped_and_markup_is_not() -> None:
    page = Page(a_page())
    assert page.seen.count("html") == page.seen.count("style") == page.seen.count("h1") == 1
    assert "script" not in page.seen
    assert page.text.count(NASTY) == 8
    assert page.seen.count("b") == 1
    assert '<td class="number">1</td>' in a_page()
    assert a_page().count('class="number"') == 3


def test_a_name_that_a_template_lacks_is_an_error() -> None:
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


def contrast(first: Color, other: Color) -> float:
    low, high = sorted((luminance(first), luminance(other)))
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
