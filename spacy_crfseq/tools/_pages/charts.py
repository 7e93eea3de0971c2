"""Where things lie in charts: axes with ticks at round numbers, labels that fit, curves; `charts.html` draws them.

A chart is as wide as the space allows, with exact values as tooltips, in the colours of `style.css`.  No chart relies
on colour alone: curves and bars are labelled directly, and the negative cells of a heat map show their sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10, sqrt
from typing import NamedTuple
from unicodedata import east_asian_width

MINUS = "\u2212"
EM = 12.0
"""Size of letters in a chart, in its own units."""
LINE = EM + 2
WIDTH, TOP, BOTTOM = 420.0, 24.0, 210.0
"""Width of a chart in its own units, pixels unless it is scaled to fit; ends of the upright axis of curves."""
_ROUND = (1.0, 2.0, 5.0, 10.0)
_TINY = 1e-9
Z = 1.96
"""Quantile of the normal distribution for the 95 % intervals of a reliability diagram."""


class Series(NamedTuple):
    """A curve, or separate points if not `joined`; if `right`, it has its own axis on the right.

    labels (Sequence[str]): Words at the points, one each or none.
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


@dataclass(frozen=True)
class Scale:
    """Maps values to positions between `start` and `end`; if `log`, `low` and `high` are decimal logarithms."""

    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        share = ((log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def labels(self) -> list[str]:
        """The labels of the ticks."""
        return [number(tick, 2) for tick in self.ticks] if self.log else tick_labels(self.ticks)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """The position and the label of each tick."""
        return list(zip(map(self, self.ticks), self.labels, strict=True))


def scale(
    values: Iterable[float], start: float, end: float, *, log: bool = False, count: int = 5, wide: bool = True
) -> Scale:
    """Return an axis that covers some values, with about `count` ticks; if `wide`, its ends are round numbers."""
    covered = [value for value in values if isfinite(value) and (value > 0 or not log)]
    low, high = (min(covered), max(covered)) if covered else (1.0, 10.0) if log else (0.0, 1.0)
    if log:
        return _log_scale(low, high, start, end, count)
    if high - low < _TINY * max(1.0, abs(low), abs(high)):
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    size = 10.0 ** floor(log10((high - low) / count))
    step = next(m * size for m in _ROUND if (high - low) / count <= m * size * (1 + _TINY))
    if high - low >= 2 and all(float(value).is_integer() for value in covered):
        step = max(step, 1.0)
    if wide:
        low, high = floor(low / step + _TINY) * step, ceil(high / step - _TINY) * step
    first, last = ceil(low / step - _TINY), floor(high / step + _TINY)
    return Scale(low, high, start, end, [n * step for n in range(first, last + 1)])


def _log_scale(low: float, high: float, start: float, end: float, count: int) -> Scale:
    bottom, top = log10(low), log10(high)
    if top - bottom < 0.1:
        bottom, top = bottom - 0.15, top + 0.15
    powers = range(floor(bottom), ceil(top) + 1)
    every = max(1, ceil((top - bottom) / count))
    ticks = [m * 10.0**p for p in powers for m in (_ROUND[:3] if top - bottom < 2 else _ROUND[:1]) if p % every == 0]
    return Scale(bottom, top, start, end, [m for m in ticks if bottom - _TINY <= log10(m) <= top + _TINY], log=True)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the labels of equidistant ticks, with the same number of decimals and the same unit."""
    most = max(map(abs, ticks), default=0.0)
    if len(ticks) < 2 or most < 1e-3:
        return [number(tick) for tick in ticks]
    unit, letter = next(((u, s) for u, s in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if most >= 10 * u), (1.0, ""))
    decimals = max(0, -floor(log10(abs(ticks[1] - ticks[0]) / unit) + _TINY))
    return [_minus(f"{tick / unit + 0.0:,.{decimals}f}") + (letter if abs(tick) > _TINY else "") for tick in ticks]


def number(value: float, digits: int = 4, *, least: int = 0) -> str:
    """Return a number with few characters: with `digits` significant digits, and at least `least` decimals."""
    if not isfinite(value):
        return "none" if value != value else "\u221e" if value > 0 else f"{MINUS}\u221e"
    size = floor(log10(abs(value))) if value else 0
    if size < -4 or size > 9:
        mantissa, exponent = f"{value:.{max(0, digits - 1)}e}".split("e")
        return _minus(f"{_trimmed(mantissa, 0)}e{int(exponent)}")
    return _minus(_trimmed(f"{value:,.{max(least, digits - 1 - size, 0)}f}", least))


def brief(value: float, most: float) -> str:
    """Return a number with about three characters; `most` is the largest of its table and determines the decimals."""
    if not 0.1 <= most < 1e4:
        return number(value, 2)
    decimals = 0 if most >= 100 else 1 if most >= 1 else 2
    return _minus(f"{round(value, decimals) + 0.0:.{decimals}f}")


def _trimmed(written: str, least: int) -> str:
    whole, _, decimals = written.partition(".")
    decimals = decimals[:least] + decimals[least:].rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def _minus(written: str) -> str:
    return written.replace("-", MINUS)


def bar_words(bars: Sequence[Bar], unit: str) -> list[str]:
    """Return the values of bars in words, all with as many decimals."""
    plain = [number(bar.value) for bar in bars]
    decimals = max((len(word.partition(".")[2]) for word in plain if "e" not in word), default=0)
    words = []
    for bar, word in zip(bars, plain, strict=True):
        alike = word if "e" in word or not isfinite(bar.value) else number(bar.value, least=decimals)
        words.append(f"{alike}{unit}" if bar.part is None else f"{number(bar.part)} of {alike}{unit}")
    return words


def bar_scale(bars: Sequence[Bar], start: float, end: float, unit: str) -> Scale:
    """Return the axis of bars, which has zero, and 100 if they are per cent."""
    values = [v for bar in bars for v in (bar.value, bar.part, bar.low, bar.high) if v is not None]
    return scale(
        [0.0, 100.0 if unit == "%" else 0.0, *values], start, end, count=max(2, int((end - start) / 60)), wide=False
    )


def width(words: str) -> float:
    """Return the approximate width of a text in a chart."""
    return EM * sum(1 if east_asian_width(c) in "WF" else 0.7 if c.isupper() or c in "%…" else 0.6 for c in words)


def shortened(words: str, room: float) -> str:
    """Return a text, shortened to a width of `room`."""
    if width(words) <= room:
        return words
    kept = words
    while kept and width(kept + "…") > room:
        kept = kept[:-1]
    return kept + "…"


def apart(places: Sequence[float], top: float, bottom: float) -> list[float]:
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


class Plot(NamedTuple):
    """The place of curves: their axes, the margin at the right, names at their ends, and points.

    right (Scale | None): The axis at the right, if a curve has one.
    points (list): Of each curve, the values that are shown: without infinite ones, and those that a logarithm lacks.
    """

    across: Scale
    left: Scale
    right: Scale | None
    margin: float
    names: list[str]
    points: list[list[tuple[float, float]]]
    places: list[list[tuple[float, float]]]

    @property
    def ends(self) -> list[float]:
        """The upright positions of the names."""
        return apart([place[-1][1] if place else BOTTOM for place in self.places], TOP, BOTTOM)


def plot(series: Sequence[Series], y: str, log_x: bool, log_y: bool) -> Plot:
    """Return the place of curves; `y` is the name of the axis at the left."""
    points = [_usable(curve, log_x, log_y and not curve.right) for curve in series]
    sides: tuple[list[float], list[float]] = [], []
    for curve, line in zip(series, points, strict=True):
        sides[curve.right].extend(py for _, py in line)
    has_right, has_left = any(curve.right for curve in series), any(not curve.right for curve in series)
    left = scale(sides[0] if has_left else sides[1], BOTTOM, TOP, log=log_y and has_left)
    right = (scale(sides[1], BOTTOM, TOP) if has_left else left) if has_right else None
    named = right is None and (len(series) > 1 or any(curve.name not in (y, "") for curve in series))
    names = [shortened(curve.name, 130) for curve in series] if named else []
    labels = names if right is None else right.labels
    margin = max(map(width, labels), default=0.0) + (12 if labels else 0)
    begin, end = max(map(width, left.labels), default=0.0) + 10, WIDTH - max(margin, 12)
    across = scale([px for line in points for px, _ in line], begin, end, log=log_x, count=6, wide=False)
    places = [
        [(across(px), (right if right and curve.right else left)(py)) for px, py in line]
        for curve, line in zip(series, points, strict=True)
    ]
    return Plot(across, left, right, margin, names, points, places)


def _usable(series: Series, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    finite = [(x, y) for x, y in series.points if isfinite(x) and isfinite(y)]
    return [(x, y) for x, y in finite if (x > 0 or not log_x) and (y > 0 or not log_y)]


def largest(values: Iterable[Iterable[float]]) -> float:
    """Return the largest absolute value of a table that is finite; 1 if there is none, or it is 0."""
    return max((abs(float(value)) for row in values for value in row if isfinite(value)), default=0.0) or 1.0


def brief_cells(values: Sequence[Sequence[float]], most: float) -> list[list[str]]:
    """Return the values of a table in words, empty where there is none; `most` is the largest."""
    return [[brief(float(value), most) if isfinite(value) else "" for value in row] for row in values]


def wilson(share: float, total: int) -> tuple[float, float]:
    """Return the score interval of a share of `total` cases (Wilson 1927)."""
    square = Z * Z / total
    middle = (share + square / 2) / (1 + square)
    reach = Z * sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)
