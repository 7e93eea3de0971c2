"""The results of a sweep, on disk and as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..corpora.resumable import cut_line
from ..errors import FormatError
from .search import show, varying


class Result(NamedTuple):
    """The result of one combination.

    key, settings: A hash of everything that the result depends on; the combination, as in the grid.
    error: The reason for a missing score.
    score: The best dev score; the other figures are those of its parameters.
    objective, loss: Values on the training set, summed over its sequences.
    active, weights, n_bytes: Number of non-zero weights, and of all; the size of the model's file without zeros.
    iterations, seconds, reason: Figures of the whole run, including scores; why it ended.
    """

    key: str
    settings: dict[str, Any]
    error: str | None = None
    score: float | None = None
    objective: float | None = None
    loss: float | None = None
    active: int = 0
    weights: int = 0
    n_bytes: int = 0
    iterations: int = 0
    seconds: float = 0.0
    reason: str = ""


class Journal:
    """The results of a sweep in a file, one JSON object per line, written incrementally.

    A line that was truncated by a crash is dropped.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> dict[str, Result]:
        """Return all results by key.

        RAISES FormatError: If the file has other contents.
        """
        if not self._file.exists():
            return {}
        cut_line(self._file)
        results: dict[str, Result] = {}
        for number, line in enumerate(self._file.read_bytes().splitlines(), start=1):
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError) as error:
                message = f"this is no result of a sweep ({error}). Give another --output, or move the file away."
                raise FormatError(self._file, number, message) from error
            results[result.key] = result
        return results

    def add(self, result: Result) -> None:
        """Append a result and flush it to disk."""
        with self._file.open("a", encoding="utf8") as file:
            file.write(json.dumps(result._asdict(), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def cells(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of results: its header and its rows."""
    keys = list(varying([result.settings for result in results]))
    header = ["#", "Dev score", *keys, "Objective", "Active", "Iterations", "Seconds", "KB"]
    rows = []
    for number, result in enumerate(results, start=1):
        settings = [show(result.settings[key]) if key in result.settings else "-" for key in keys]
        if result.score is None:
            rows.append(["-", "failed", *settings, *["-"] * 5])
            continue
        objective = "-" if result.objective is None else f"{result.objective:,.1f}"
        first = [str(number), f"{100 * result.score:.2f}"]
        figures = [objective, f"{result.active:,}", str(result.iterations)]
        rows.append([*first, *settings, *figures, f"{result.seconds:.2f}", f"{result.n_bytes / 1e3:,.0f}"])
    return header, rows
