"""What `fit` shows while it trains: a table on a terminal, plain lines in a pipe, and every iteration in a log file."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm
from wasabi.tables import row

if TYPE_CHECKING:
    from ..training.fit import Progress

COLUMNS = ("Component", "#", "Objective", "|Gradient|", "Loss/token", "Dev score", "Seconds", "")
WIDTHS = (14, 5, 12, 10, 10, 9, 8, 1)
ALIGNS = ("l", *"rrrrrr", "l")


class Reporter:
    """Shows and logs the progress of one component after another; an instance is a callback of `fit`.

    log (Path): A new file, one JSON object a line.
    """

    def __init__(self, log: Path) -> None:
        self._log = log.open("w", encoding="utf8")
        self._table = sys.stdout.isatty()
        self._bar: Any = None
        self._name, self._tokens, self._every, self._scored = "", 1, 1, False

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with the component `name`, trained on this many tokens and shown every so many iterations."""
        self._name, self._tokens, self._every, self._scored = name, max(1, tokens), every, scored
        if self._table:
            self._print_row(COLUMNS)
            self._print_row(["-" * width for width in WIDTHS])

    def __call__(self, progress: Progress) -> None:
        """Take in one iteration."""
        self._write_log(progress)
        due = progress.iteration % self._every == 0 or progress.report.converged
        if progress.score is None and not (due and not self._scored):
            self._tick()
            return
        self._close_bar()
        if self._table:
            self._print_row(self._cells(progress))
        else:
            print(self._line(progress), flush=True)

    def close(self) -> None:
        """Close the log and take the bar away."""
        self._close_bar()
        self._log.close()

    def _tick(self) -> None:
        """Move the bar between two evaluations; tqdm shows it on terminals only."""
        if self._bar is None:
            self._bar = tqdm(total=self._every, disable=None, leave=False, file=sys.stderr, desc=self._name)
        self._bar.update(1)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _write_log(self, progress: Progress) -> None:
        report = progress.report
        entry = {
            "component": self._name,
            "iteration": progress.iteration,
            "seconds": round(progress.seconds, 4),
            "objective": finite(report.value),
            "loss": finite(report.loss),
            "grad_norm": finite(report.grad_norm),
            "score": None if progress.score is None else finite(progress.score),
            "best": bool(progress.best),
        }
        self._log.write(json.dumps(entry, allow_nan=False) + "\n")
        self._log.flush()

    def _cells(self, progress: Progress) -> list[str]:
        report = progress.report
        return [
            self._name if len(self._name) <= WIDTHS[0] else self._name[: WIDTHS[0] - 3] + "...",
            str(progress.iteration),
            f"{report.value:.2f}",
            "-" if math.isnan(report.grad_norm) else f"{report.grad_norm:.4g}",
            f"{report.loss / self._tokens:.4f}",
            "-" if progress.score is None else f"{100 * progress.score:.2f}",
            f"{progress.seconds:.2f}",
            "*" if progress.best else "",
        ]

    def _line(self, progress: Progress) -> str:
        names = ("iteration", "objective", "gradient", "loss/token", "score", "seconds")
        _, *values, best = self._cells(progress)
        pairs = [f"{name}={value}" for name, value in zip(names, values, strict=True) if value != "-"]
        return " ".join([self._name, *pairs, *best])

    def _print_row(self, cells: Any) -> None:
        print(row(list(cells), widths=WIDTHS, aligns=ALIGNS, spacing=2), flush=True)


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for what it cannot."""
    return float(value) if math.isfinite(value) else None
