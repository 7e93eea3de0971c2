"""What `fit` shows while it trains: a table on a terminal, plain lines in a pipe, and every iteration in a log file."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasabi.tables import row

from ..pipeline.curve import LiveCurve
from ..pipeline.training_log import log_line

if TYPE_CHECKING:
    from ..training.fit import Progress

COLUMNS = ("Component", "#", "Objective", "|Grad|", "Loss/token", "Active", "Score", "Seconds", "")
WIDTHS = (12, 4, 11, 9, 10, 8, 6, 7, 1)
ALIGNS = ("l", *"rrrrrrr", "l")


class Reporter:
    """Shows and logs the progress of one component after another; an instance is a callback of `fit`.

    log (Path): A new file, one JSON object a line.
    """

    def __init__(self, log: Path) -> None:
        self._log = log.open("w", encoding="utf8")
        self._table = sys.stdout.isatty()
        self._curve = LiveCurve(sys.stderr)
        self._name, self._tokens, self._every, self._scored = "", 1, 1, False

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with the component `name`, trained on this many tokens and shown every so many iterations."""
        self._name, self._tokens, self._every, self._scored = name, max(1, tokens), every, scored
        self._curve.clear()
        if self._table:
            self._print_row(COLUMNS)
            self._print_row(["-" * width for width in WIDTHS])

    def __call__(self, progress: Progress) -> None:
        """Take in one iteration."""
        report = progress.report
        self._log.write(
            log_line(
                self._name,
                progress.iteration,
                progress.seconds,
                report,
                progress.active,
                progress.score,
                progress.best,
            )
        )
        self._log.flush()
        if math.isfinite(report.value):
            self._curve.add("objective", report.value, log=True)
        if progress.score is not None:
            self._curve.add("score", 100 * progress.score)
        due = progress.iteration % self._every == 0 or progress.report.converged
        if progress.score is not None or (due and not self._scored):
            self._curve.hide()
            if self._table:
                self._print_row(self._cells(progress))
            else:
                print(self._line(progress), flush=True)
        self._curve.show(f"{self._name} {progress.iteration}")

    def close(self) -> None:
        """Close the log and take the curves away."""
        self._curve.hide()
        self._log.close()

    def _cells(self, progress: Progress) -> list[str]:
        report = progress.report
        return [
            self._name if len(self._name) <= WIDTHS[0] else self._name[: WIDTHS[0] - 3] + "...",
            str(progress.iteration),
            f"{report.value:.2f}",
            "-" if math.isnan(report.grad_norm) else f"{report.grad_norm:.4g}",
            f"{report.loss / self._tokens:.4f}",
            "-" if progress.active is None else str(progress.active),
            "-" if progress.score is None else f"{100 * progress.score:.2f}",
            f"{progress.seconds:.2f}",
            "*" if progress.best else "",
        ]

    def _line(self, progress: Progress) -> str:
        names = ("iteration", "objective", "gradient", "loss/token", "active", "score", "seconds")
        _, *values, best = self._cells(progress)
        pairs = [f"{name}={value}" for name, value in zip(names, values, strict=True) if value != "-"]
        return " ".join([self._name, *pairs, *best])

    def _print_row(self, cells: Any) -> None:
        print(row(list(cells), widths=WIDTHS, aligns=ALIGNS, spacing=2), flush=True)
