"""Axes of charts: positions of values, ticks at round numbers, and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from unicodedata import east_asian_width

MINUS = "\u2212"
EM = 12.0
"""Size of letters in a chart, in its own units."""
_ROUND = (1.0, 2.0, 5.0, 10.0)
_TINY = 1e-9


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
        if self.log:
            return [number(tick, 2) for tick in self.ticks]
        return tick_labels(self.ticks)


def scale(
    values: Iterable[float], start: float, end: float, *, log: bool = False, count: int = 5, wide: bool = True
) -> Scale:
    """Return an axis that covers some values, with about `count` ticks; if `wide`, its ends are round numbers."""
    found = [value for value in values if isfinite(value) and (value > 0 or not log)]
    low, high = (min(found), max(found)) if found else (1.0, 10.0) if log else (0.0, 1.0)
    if log:
        return _log_scale(low, high, start, end, count)
    if high - low < _TINY * max(1.0, abs(low), abs(high)):
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    step = (high - low) / count
    size = 10.0 ** floor(log10(step))
    step = next(m * size for m in _ROUND if step <= m * size * (1 + _TINY))
    if high - low >= 2 and all(float(value).is_integer() for value in found):
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
    marks = [m * 10.0**p for p in powers for m in (_ROUND[:3] if top - bottom < 2 else _ROUND[:1]) if p % every == 0]
    return Scale(bottom, top, start, end, [m for m in marks if bottom - _TINY <= log10(m) <= top + _TINY], log=True)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the labels of equidistant ticks, with the same number of decimals and the same unit."""
    if len(ticks) < 2:
        return [number(tick) for tick in ticks]
    step, most = abs(ticks[1] - ticks[0]), max(map(abs, ticks))
    if most < 1e-3:
        return [number(tick) for tick in ticks]
    unit, letter = next(((u, s) for u, s in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if most >= 10 * u), (1.0, ""))
    decimals = max(0, -floor(log10(step / unit) + _TINY))
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


def _minus(written: str) -> str:
    return written.replace("-", MINUS)
