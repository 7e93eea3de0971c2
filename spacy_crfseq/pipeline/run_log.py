"""The iterations of a training as it shows them: lines of a log, and live curves at the bottom of a terminal.

Nothing of the curves is shown in piped output.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from time import monotonic
from typing import IO, Any

from tqdm import tqdm

from ..prf import finite
from ..types import StepReport

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-~=+*#"
WIDEST, NARROWEST = 32, 6
PAUSE = 0.1
"""Seconds between two updates, so that they cost almost nothing."""


def log_line(
    component: str,
    iteration: int,
    seconds: float,
    report: StepReport,
    active: int | None,
    score: float | None,
    best: bool,
) -> str:
    """Return the line of an iteration, counted from 1; `best` marks the best model so far."""
    entry = {
        "component": component,
        "iteration": iteration,
        "seconds": round(seconds, 4),
        "objective": finite(report.value),
        "loss": finite(report.loss),
        "grad_norm": finite(report.grad_norm),
        "active": active,
        "score": None if score is None else finite(score),
        "best": bool(best),
    }
    return json.dumps(entry, allow_nan=False) + "\n"


def sparkline(values: Sequence[float], width: int, *, log: bool = False, levels: str = BLOCKS) -> str:
    """Return a curve of at most `width` characters; of values that share a character, the last counts.

    log (bool): Use logarithmic heights if all values are positive.
    levels (str): Characters from the lowest to the highest.
    """
    n = len(values)
    chosen = [values[(i + 1) * n // width - 1] for i in range(width)] if n > width else list(values)
    heights = [value if math.isfinite(value) else math.nan for value in chosen]
    numbers = [height for height in heights if not math.isnan(height)]
    if not numbers:
        return ""
    if log and min(numbers) > 0:
        heights, numbers = [math.log(height) for height in heights], [math.log(height) for height in numbers]
    low, span, top = min(numbers), max(numbers) - min(numbers), len(levels) - 1
    return "".join(
        " " if math.isnan(height) else levels[round(top * (height - low) / span) if span else 0] for height in heights
    )


class LiveCurve:
    """Curves of an objective and a score at the bottom of a terminal.

    stream (IO): Stream to draw on.
    live (bool): Whether it is a terminal; else nothing is drawn or stored.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self.live = stream, stream.isatty()
        try:
            BLOCKS.encode(getattr(stream, "encoding", None) or "ascii")
            self._levels = BLOCKS
        except (UnicodeEncodeError, LookupError):
            self._levels = ASCII
        self._curves: dict[str, tuple[list[float], bool]] = {}
        self._bar: Any = None
        self._drawn = 0.0

    def add(self, name: str, value: float, *, log: bool = False) -> None:
        """Add a point to a curve."""
        if self.live:
            self._curves.setdefault(name, ([], log))[0].append(value)

    def show(self, title: str) -> None:
        """Draw the curves, unless they were drawn a moment ago."""
        now = monotonic()
        if not self.live or (self._bar is not None and now - self._drawn < PAUSE):
            return
        if self._bar is None:
            self._bar = tqdm(leave=False, file=self._stream, bar_format="{desc}")
        self._bar.set_description_str(self._text(title))
        self._drawn = now

    def hide(self) -> None:
        """Remove the curves, so that something else can be printed."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _text(self, title: str) -> str:
        """Return all curves after their last values, limited to the width of the terminal; the values always fit."""
        ends = [(name, points, log, f"{points[-1]:,.4g}") for name, (points, log) in self._curves.items() if points]
        words = len(title) + sum(len(name) + len(end) + 4 for name, _, _, end in ends)
        room = (shutil.get_terminal_size().columns - words - 1) // max(1, len(ends))
        if room < NARROWEST:
            return "  ".join([title, *(f"{name} {end}" for name, _, _, end in ends)]).strip()
        parts = [f"{name} {end} {sparkline(points, min(WIDEST, room), log=log, levels=self._levels)}"
                 for name, points, log, end in ends]  # fmt: skip
        return "  ".join([title, *parts]).strip()
