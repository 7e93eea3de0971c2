"""The results of a sweep: on disk, as a table, and how much each setting matters."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...corpora.outputs import cut_line
from ...errors import FormatError
from .search import show, varying

EFFECTS = (
    "Share: of the variance of the dev score, what the mean scores of a setting's values explain; the rest is other "
    "settings, their combinations and noise. By chance: what values without any effect would seem to explain."
)


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

    A line that a crash cut short is dropped.
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


class Effect(NamedTuple):
    """How much a setting matters: the main effect of a functional analysis of variance.

    share (float): The variance between the mean scores of its values, over that of all scores.
    chance (float): What that would be on average if the setting had no effect: (values - 1) / (results - 1).
    best, worst (str): The values with the highest and the lowest mean score, `high` and `low`.
    """

    setting: str
    share: float
    chance: float
    best: str
    high: float
    worst: str
    low: float


def effects(results: Sequence[Result]) -> list[Effect]:
    """Return how much each varying setting matters, the one that matters most first; nothing if all scores are equal.

    Where a combination has no such setting, that counts as a value of its own.  (Hutter, Hoos & Leyton-Brown 2014,
    "An efficient approach for assessing hyperparameter importance", computed on the results as they are.)
    """
    good = [result for result in results if result.score is not None]
    scores = np.array([result.score for result in good], np.float64)
    if not len(scores) or np.ptp(scores) == 0:
        return []
    found = []
    for key in varying([result.settings for result in good]):
        values = [show(result.settings[key]) if key in result.settings else "-" for result in good]
        groups = {value: scores[[other == value for other in values]] for value in values}
        means = {value: float(group.mean()) for value, group in groups.items()}
        between = sum(len(group) * (means[value] - scores.mean()) ** 2 for value, group in groups.items())
        best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        share, chance = float(between / ((scores - scores.mean()) ** 2).sum()), (len(groups) - 1) / (len(good) - 1)
        found.append(Effect(key, share, chance, best, means[best], worst, means[worst]))
    return sorted(found, key=lambda effect: -effect.share)


def effect_cells(found: Sequence[Effect]) -> tuple[list[str], list[list[str]]]:
    """Return the table of effects: its header and its rows."""
    rows = [
        [
            one.setting, f"{100 * one.share:.0f} %", f"{100 * one.chance:.0f} %",
            one.best, f"{100 * one.high:.2f}", one.worst, f"{100 * one.low:.2f}",
        ]
        for one in found
    ]  # fmt: skip
    return ["Setting", "Share", "By chance", "Best value", "Mean score", "Worst value", "Mean score"], rows
