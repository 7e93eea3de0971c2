"""Charts as SVG inside a page: as wide as the space allows, with exact values as tooltips.

They use the colours of the stylesheet (`frame.STYLE`), which has a dark set as well.  No chart relies on colour alone:
curves and bars are labelled directly, and the negative cells of a heat map show their sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import isfinite, sqrt
from types import MappingProxyType
from typing import Any, NamedTuple

from ..evaluation.calibration import Bin
from ._axes import EM, Scale, brief, number, scale, shortened, width
from .frame import Markup

WIDTH = 420.0
"""Width of a chart in its own units: pixels, unless it is scaled to fit."""
GROWTH = 1.15
"""Factor by which a chart grows in a wider space."""
HEIGHT = 250.0
LINE = EM + 2
COLORS = 6
MOST_POINTS = 150
"""Number of points of a curve that have a tooltip."""
FEW_POINTS = 30
"""A curve with at most this many points shows them as dots."""
FEW_COLUMNS, MOST_WITH_VALUES = 12, 60
"""A heat map has large cells up to the first number of columns, and cells with values up to the second."""
SMALL = 10 / EM
"""Size of the letters in small cells, relative to others."""
Z = 1.96
"""Quantile of the normal distribution for the 95 % intervals of a reliability diagram."""


class Series(NamedTuple):
    """A curve, or separate points if not `joined`; if `right`, it has its own axis on the right.

    labels (Sequence[str]): Words beside the points, one each or none.
    """

    name: str
    points: Sequence[tuple[float, float]]
    right: bool = False
    joined: bool = True
    labels: Sequence[str] = ()


class Bar(NamedTuple):
    """A bar, optionally with a `part` of its value in full colour and the ends of an interval around its value."""

    name: str
    value: float
    part: float | None = None
    low: float | None = None
    high: float | None = None


def line_chart(series: Sequence[Series], *, x: str, y: str, log_x: bool = False, log_y: bool = False) -> Markup:
    """Return curves, each labelled at its end, or above its axis if there are two axes."""
    shown = [one._replace(points=_usable(one, log_x, log_y and not one.right)) for one in series]
    left, right = [one for one in shown if not one.right], [one for one in shown if one.right]
    top, bottom = 24.0, HEIGHT - 40
    y_scale = scale([py for one in left or right for _, py in one.points], bottom, top, log=log_y and bool(left))
    right_scale = scale([py for one in right for _, py in one.points], bottom, top) if right and left else y_scale
    named = not right and (len(shown) > 1 or any(one.name not in (y, "") for one in shown))
    names = [shortened(one.name, 130) for one in shown] if named else []
    labels = right_scale.labels if right else names
    margin = max(map(width, labels), default=0) + (12 if labels else 0)
    x0, x1 = max(map(width, y_scale.labels), default=0) + 10, WIDTH - max(margin, 12)
    x_scale = scale([px for one in shown for px, _ in one.points], x0, x1, log=log_x, count=6, wide=False)
    places = [[(x_scale(px), (right_scale if one.right else y_scale)(py)) for px, py in one.points] for one in shown]
    parts = [_grid(y_scale, x0, x1), _bottom_axis(x_scale, x0, x1, bottom, x)]
    if right:
        words = ", ".join(one.name for one in right)
        parts += [_text(x1 + 6, at + 4, label, "soft") for at, label in _labelled(right_scale)]
        parts += [_text(x1 + margin, 12, words, "end f2" if len(right) == 1 else "end")]
    parts.append(_text(0, 12, y, "f1" if right and len(left) == 1 else "soft"))
    for i, (one, at) in enumerate(zip(shown, places, strict=True)):
        parts += [_curve(at, i) if one.joined else "", _dots(one, at, i, x, y)]
    ends = _apart([at[-1][1] if at else bottom for at in places], top, bottom)
    parts += [
        _text(x1 + 8, end + 4, name, f"f{_color(i)}") for i, (name, end) in enumerate(zip(names, ends, strict=False))
    ]
    if not any(places):
        parts.append(_text((x0 + x1) / 2, (top + bottom) / 2, "nothing to show", "soft mid"))
    return _svg(WIDTH, HEIGHT, f"{y} by {x}: {', '.join(one.name for one in shown)}", parts)


def _usable(series: Series, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    finite = [(x, y) for x, y in series.points if isfinite(x) and isfinite(y)]
    return [(x, y) for x, y in finite if (x > 0 or not log_x) and (y > 0 or not log_y)]


def _curve(at: Sequence[tuple[float, float]], i: int) -> str:
    dash = "" if i < COLORS else " dash"
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in at)
    return f'<polyline class="curve l{_color(i)}{dash}" points="{points}"/>' if len(at) > 1 else ""


def _dots(series: Series, at: Sequence[tuple[float, float]], i: int, x: str, y: str) -> str:
    every = -(-len(at) // MOST_POINTS) if at else 1
    faint = ' class="faint"' if len(at) > FEW_POINTS else ""
    what = series.name or y
    labels = series.labels if len(series.labels) == len(at) else [""] * len(at)
    words = [_text(px + 4, py - 4, label, "soft") for (px, py), label in zip(at, labels, strict=True) if label]
    return "".join(words) + "".join(
        f"<g{faint}><circle class='hit' cx='{px:.1f}' cy='{py:.1f}' r='7'/>"
        f"<circle class='f{_color(i)}' cx='{px:.1f}' cy='{py:.1f}' r='2.5'/>"
        f"<title>{escape(what)} {number(vy)} at {escape(x)} {number(vx)}</title></g>"
        for (px, py), (vx, vy) in list(zip(at, series.points, strict=True))[::every]
    )


def _apart(places: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return positions for labels that do not overlap, as close as possible to their own."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + LINE)
    limit = max(bottom, top + LINE * (len(order) - 1))
    for i in reversed(order):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - LINE
    return moved


def bar_chart(bars: Sequence[Bar], *, unit: str = "") -> Markup:
    """Return horizontal bars, each with its name and its value."""
    step, top, bottom = 22.0, 4.0, 4.0 + 22.0 * max(1, len(bars))
    x0 = min(170.0, max((width(bar.name) for bar in bars), default=0)) + 8
    words = _bar_words(bars, "%" if unit == "%" else "")
    x1 = WIDTH - max((width(word) for word in words), default=0) - 10
    values = [v for bar in bars for v in (0.0, bar.value, bar.part, bar.low, bar.high) if v is not None]
    values.append(100.0 if unit == "%" else 0.0)
    place = scale(values, x0, x1, count=max(2, int((x1 - x0) / 60)), wide=False)
    each = enumerate(zip(bars, words, strict=True))
    parts = [_vertical_grid(place, top, bottom)]
    parts += [_bar(bar, word, place, (top + step * i, x0, x1), unit) for i, (bar, word) in each]
    parts += [_line("axis", place(0), place(0), top, bottom), _tick_labels(place, bottom + 15)]
    below = bottom + (15 if len(unit) < 2 else 30)  # a word would lie over the last tick
    parts.append(_text(WIDTH, below, unit, "soft end") if unit else "")
    return _svg(WIDTH, below + 7, f"{unit}: {', '.join(bar.name for bar in bars)}", parts)


def _bar_words(bars: Sequence[Bar], unit: str) -> list[str]:
    plain = [number(bar.value) for bar in bars]
    decimals = max((len(word.partition(".")[2]) for word in plain if "e" not in word), default=0)
    words = []
    for bar, word in zip(bars, plain, strict=True):
        alike = word if "e" in word or not isfinite(bar.value) else number(bar.value, least=decimals)
        words.append(f"{alike}{unit}" if bar.part is None else f"{number(bar.part)} of {alike}{unit}")
    return words


def _bar(bar: Bar, words: str, place: Scale, box: tuple[float, float, float], unit: str) -> str:
    y, x0, x1 = box
    name = _text(x0 - 8, y + 15, shortened(bar.name, 170), "end")
    if not isfinite(bar.value):
        return name
    interval = ""
    tip = f"{bar.name}: {words} {unit if unit != '%' else ''}".rstrip()
    if bar.low is not None and bar.high is not None:
        a, b, middle = place(bar.low), place(bar.high), y + 11
        path = f"M{a:.1f} {middle}H{b:.1f}M{a:.1f} {middle - 4}v8M{b:.1f} {middle - 4}v8"
        interval = f'<path class="whisker" d="{path}"/>'
        tip += f", interval {number(bar.low)} to {number(bar.high)}"
    color = "f2" if bar.value < 0 else "f1"
    whole = _rect(place(0), place(bar.value), y + 4, 14, "whole" if bar.part is not None else color)
    part = _rect(place(0), place(bar.part), y + 4, 14, color) if bar.part is not None else ""
    return (
        f"<g>{_rect(x0, x1, y, 22, 'hit')}{name}{whole}{part}{interval}"
        f"{_text(WIDTH, y + 15, words, 'end')}<title>{escape(tip)}</title></g>"
    )


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _vertical_grid(place: Scale, top: float, bottom: float) -> str:
    return "".join(_line("grid", place(tick), place(tick), top, bottom) for tick in place.ticks)


def _labelled(place: Scale) -> Iterable[tuple[float, str]]:
    """Yield the position and the label of each tick of an axis."""
    return zip(map(place, place.ticks), place.labels, strict=True)


def _tick_labels(place: Scale, y: float) -> str:
    return "".join(_text(x, y, label, "soft mid") for x, label in _labelled(place))


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Any,
    *,
    diverging: bool,
    row: str = "",
    column: str = "",
    shown: Sequence[Sequence[str]] | None = None,
    links: Mapping[tuple[int, int], str] = MappingProxyType({}),
) -> Markup:
    """Return a table of coloured cells with their values, or the texts `shown`; very wide tables have only colours.

    values (Floats): [R, C]; cells of values that are not finite have no colour.
    diverging (bool): Whether values above and below zero have different colours; otherwise the scale begins at zero.
    links (Mapping): Anchors on the page to which cells (row, column) link.
    """
    finite = [abs(float(v)) for line in values for v in line if isfinite(v)]
    most = max(finite, default=0.0) or 1.0
    if shown is None:
        shown = [[brief(float(v), most) if isfinite(v) else "" for v in line] for line in values]
    few = len(columns) <= FEW_COLUMNS
    widest = max((width(words) for line in shown for words in line), default=0) * (1 if few else SMALL)
    cell_width, cell_height = (44.0, 26.0) if few else (max(18.0, widest + 4), 18.0)
    if len(columns) > MOST_WITH_VALUES:
        cell_width = 18.0
    x0 = min(150.0, max(map(width, rows), default=0)) + 8
    head = min(110.0, max(map(width, columns), default=0))
    upright = not few or head > cell_width - 4
    y0 = (head if upright else LINE) + 8 + (LINE + 4 if column else 0)
    across, down = x0 + cell_width * len(columns), y0 + cell_height * len(rows)
    parts = []
    for j, name in enumerate(columns):
        x, words = x0 + cell_width * (j + 0.5), shortened(name, 110)
        turned = f' transform="rotate(-90 {x + 4:.1f} {y0 - 6:.1f})"' if upright else ""
        parts.append(_text(x + 4 if upright else x, y0 - 6, words, "" if upright else "mid", turned))
    for i, name in enumerate(rows):
        y = y0 + cell_height * i
        parts.append(_text(x0 - 8, y + cell_height / 2 + 4, shortened(name, 150), "end"))
        for j, other in enumerate(columns):
            value = float(values[i][j])
            tip = f"{row} {name}, {column} {other}: {shown[i][j] or 'none'}".strip()
            box = (x0 + cell_width * j, y, cell_width - 1, cell_height - 1)
            words = shown[i][j] if len(columns) <= MOST_WITH_VALUES else ""
            cell = _cell(box, value / most, diverging, (words, "" if few else " small"), tip)
            parts.append(f'<a href="#{escape(links[i, j])}">{cell}</a>' if (i, j) in links else cell)
    parts.append(_text(x0 - 8, y0 - 6, shortened(row, x0), "soft end") if row else "")
    parts.append(_text(x0, 11, column, "soft") if column else "")
    parts.append(_scale_legend(most, diverging, down, x0))
    return _svg(max(across, x0 + 190), down + 28, f"{row} by {column}".strip(), parts, fits=across <= WIDTH)


def _cell(
    box: tuple[float, float, float, float], share: float, diverging: bool, label: tuple[str, str], tip: str
) -> str:
    """Return a cell; share (float): Value as a share of the largest one; label: Text and additional classes."""
    x, y, wide, high = box
    words = _text(x + wide / 2, y + high / 2 + 4, label[0], f"mid{label[1]}") if label[0] else ""
    back, color, opacity = "", "hit", ""
    if isfinite(share):
        back, opacity = _rect(x, x + wide, y, high, "void"), f' fill-opacity="{abs(share):.3f}"'
        color = "heat f2" if diverging and share < 0 else "heat f1"
    shape = _rect(x, x + wide, y, high, color, opacity)
    return f'<g class="cell">{back}{shape}{words}<title>{escape(tip)}</title></g>'


def _scale_legend(most: float, diverging: bool, y: float, x: float) -> str:
    shares = (-1.0, -0.5, 0.0, 0.5, 1.0) if diverging else (0.0, 0.25, 0.5, 0.75, 1.0)
    low, high = number(shares[0] * most, 3), number(most, 3)
    start = x + width(low) + 6
    boxes = "".join(
        _rect(
            start + 16 * i, start + 16 * i + 15, y + 10, 10, f"heat f{2 if s < 0 else 1}", f' fill-opacity="{abs(s)}"'
        )
        for i, s in enumerate(shares)
    )
    ground = _rect(start, start + 79, y + 10, 10, "void")
    return _text(x, y + 19, low, "soft") + ground + boxes + _text(start + 86, y + 19, high, "soft")


def reliability(bins: Sequence[Bin]) -> Markup:
    """Return a reliability diagram: the share of correct predictions by probability, and the number of predictions.

    On the dashed line the model is calibrated.  Whiskers are 95 % intervals of Wilson (1927).
    """
    size, top = 300.0, 24.0
    x0, bottom = 46.0, 24.0 + 240.0
    x1, low = x0 + size, bottom + 56
    across = scale([0, 1], x0, x1, count=5)
    up = scale([0, 1], bottom, top, count=5)
    most = max((part.total for part in bins), default=1)
    parts = [_grid(up, x0, x1), _vertical_grid(across, top, bottom)]
    parts.append(_line("ideal", across(0), across(1), up(0), up(1)))
    parts.append(_curve([(across(part.predicted), up(part.correct)) for part in bins], 0))
    parts += [_reliability_bin(part, across, up, low, 34 * part.total / most) for part in bins]
    parts += [_line("axis", x0, x1, low, low), _tick_labels(across, bottom + 15)]
    parts += [_text(0, 12, "share that is right", "soft"), _text(x1, low + 15, "probability", "soft end")]
    parts += [_text(x0, low + 15, f"predictions, at most {most:,}", "soft")]
    return _svg(x1 + 12, low + 20, "share of right predictions by probability", parts)


def _reliability_bin(part: Bin, across: Scale, up: Scale, ground: float, high: float) -> str:
    x, y = across(part.predicted), up(part.correct)
    lower, upper = (up(end) for end in _wilson(part.correct, part.total))
    left, right = across(part.low) + 0.5, across(part.high) - 0.5
    tip = (
        f"probability {part.low:.2f} to {part.high:.2f}: {part.total:,} predictions, mean {part.predicted:.3f}, "
        f"right {part.correct:.3f}"
    )
    return (
        f'<g><path class="whisker" d="M{x:.1f} {lower:.1f}V{upper:.1f}"/>'
        f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="9"/><circle class="f1" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        f"{_rect(left, max(right, left + 1), ground - max(high, 0.75), max(high, 0.75), 'whole')}"
        f"<title>{escape(tip)}</title></g>"
    )


def _wilson(share: float, total: int) -> tuple[float, float]:
    """Return the score interval of a share of `total` cases (Wilson 1927)."""
    square = Z * Z / total
    middle = (share + square / 2) / (1 + square)
    reach = Z * sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _svg(wide: float, high: float, label: str, parts: Iterable[str], *, fits: bool = True) -> Markup:
    """Return an SVG element; if it does not fit a narrow window, it keeps its size and scrolls."""
    room = f"max-width:{wide * GROWTH:.0f}px" if fits else f"width:{wide:.0f}px"
    drawn = (
        f'<svg class="chart" viewBox="0 0 {wide:.0f} {high:.0f}" style="{room}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
    return Markup(drawn if fits else f'<div class="scroll">{drawn}</div>')


def _text(x: float, y: float, words: str, kind: str = "", more: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}{more}>{escape(words)}</text>'


def _rect(a: float, b: float, y: float, high: float, kind: str, more: str = "") -> str:
    left, wide = min(a, b), abs(a - b)
    return f'<rect class="{kind}" x="{left:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:g}"{more}/>'


def _grid(place: Scale, x0: float, x1: float) -> str:
    return "".join(
        _line("grid", x0, x1, y, y) + _text(x0 - 6, y + 4, label, "soft end") for y, label in _labelled(place)
    )


def _bottom_axis(place: Scale, x0: float, x1: float, y: float, name: str) -> str:
    ticks = "".join(_line("axis", place(tick), place(tick), y, y + 4) for tick in place.ticks)
    return _line("axis", x0, x1, y, y) + ticks + _tick_labels(place, y + 17) + _text(x1, y + 34, name, "soft end")


def _color(i: int) -> int:
    return i % COLORS + 1
