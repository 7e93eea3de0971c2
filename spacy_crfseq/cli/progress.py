"""What `fit` shows while it trains: a table on a terminal, plain lines in a pipe, and every iteration in a log file."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..pipeline.spacy_train import LiveCurve, log_line
from .console import Rows, cut

if TYPE_CHECKING:
    from ..training.fit import Progress

COLUMNS = ("Component", "#", "Objective", "|Grad|", "Loss/token", "Active", "Score", "Seconds", "")
NAMES = ("", "iteration", "objective", "gradient", "loss/token", "active", "score", "seconds", "")
WIDTHS = (12, 4, 11, 9, 10, 8, 6, 7, 1)
ALIGNS = ("l", *"rrrrrrr", "l")


class Reporter:
    """Shows and logs the progress of one component after another; an instance is a callback of `fit`.

    kept (int): Lines of the log that stay, those of the run that continues.
    """

    def __init__(self, log: Path, kept: int = 0) -> None:
        self._path, self._kept = log, kept
        self._log: IO[str] | None = None  # that of an earlier training stays until there is something to say
        self._rows = Rows(COLUMNS, NAMES, WIDTHS, ALIGNS)
        self._curve = LiveCurve(sys.stderr)
        self._name, self._tokens, self._every, self._scored = "", 1, 1, False

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with the component `name`, trained on this many tokens and shown every so many iterations."""
        self._name, self._tokens, self._every, self._scored = name, max(1, tokens), every, scored
        self._curve.clear()
        self._rows.begin()

    def __call__(self, progress: Progress) -> None:
        """Take in one iteration."""
        report = progress.report
        figures = (progress.active, progress.score, progress.best)
        if self._log is None:
            lines = self._path.read_text("utf8").splitlines(True)[: self._kept] if self._path.exists() else []
            self._log = self._path.open("w", encoding="utf8")
            self._log.writelines(lines)
        self._log.write(log_line(self._name, progress.iteration, progress.seconds, report, *figures))
        self._log.flush()
        if math.isfinite(report.value):
            self._curve.add("objective", report.value, log=True)
        if progress.score is not None:
            self._curve.add("score", 100 * progress.score)
        due = progress.iteration % self._every == 0 or progress.report.converged
        if progress.score is not None or (due and not self._scored):
            self._curve.hide()
            self._rows.add(self._cells(progress))
        self._curve.show(f"{self._name} {progress.iteration}")

    def close(self) -> None:
        """Close the log and take the curves away."""
        self._curve.hide()
        if self._log is not None:
            self._log.close()

    def _cells(self, progress: Progress) -> list[str]:
        report, score, active = progress.report, progress.score, progress.active
        gradient = "-" if math.isnan(report.grad_norm) else f"{report.grad_norm:.4g}"
        figures = [f"{report.value:.2f}", gradient, f"{report.loss / self._tokens:.4f}"]
        figures += ["-" if active is None else str(active), "-" if score is None else f"{100 * score:.2f}"]
        name = cut(self._name, WIDTHS[0])
        return [name, str(progress.iteration), *figures, f"{progress.seconds:.2f}", "*" if progress.best else ""]
