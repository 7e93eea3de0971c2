"""The results of a sweep: on disk, as a table, and as a page."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FormatError
from ._grid import Combination, show, varying


class Result(NamedTuple):
    """What came of one combination.

    key (str): A hash of everything that the result depends on.
    settings (dict): The combination, as the grid has it.
    error (str | None): Why there is no score.
    score (float | None): The best dev score; the other figures are those of its parameters.
    objective, loss (float | None): Of the training set, summed over its sequences.
    active, weights (int): Weights other than zero, and all.
    n_bytes (int): Of the model's file without the zeros.
    iterations (int), seconds (float): Of the whole run, scores included.
    reason (str): Why it ended.
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
    """The results of a sweep in a file, one JSON object a line, written one by one.

    A line that a crash has cut short is dropped.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> dict[str, Result]:
        """Return all results by their keys.

        RAISES FormatError: If the file is something else.
        """
        if not self._file.exists():
            return {}
        whole = self._file.read_bytes()
        text, end, _ = whole.rpartition(b"\n")
        if len(text + end) < len(whole):
            with self._file.open("r+b") as file:
                file.truncate(len(text + end))
        results: dict[str, Result] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError) as error:
                message = f"this is no result of a sweep ({error}). Give another --output, or move the file away."
                raise FormatError(self._file, number, message) from error
            results[result.key] = result
        return results

    def add(self, result: Result) -> None:
        """Write a result down, so that nothing but the loss of the disk can take it."""
        with self._file.open("a", encoding="utf8") as file:
            file.write(json.dumps(result._asdict(), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def cells(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of results: its header and its rows."""
    keys = _varying(results)
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


def make_page(
    component: str, file: str, results: Sequence[Result], skipped: Mapping[str, Sequence[Combination]]
) -> str:
    """Return a page with the table, the time that each score took, and the scores along each numeric setting.

    file (str): Name of the grid's file.
    results (Sequence[Result]): Best first, failed ones last.
    skipped (Mapping[str, Sequence]): Combinations that cannot work, by the reason.
    """
    from ..pages.charts import line_chart
    from ..pages.frame import columns, figure, page, section, table

    header, rows = cells(results)
    good = [result for result in results if result.score is not None]
    parts = [section("Results", table(header, rows, [1, *range(len(header) - 5, len(header))]), "Best first.")]
    charts = [
        figure(line_chart(series, x="seconds", y="dev score", log_x=_wide(series)), f"What a score costs, by {key}")
        for key, series in _by_time(good)
    ]
    charts += [
        figure(line_chart(series, x=key, y="dev score", log_x=_wide(series)), f"The best score by {key}{of}")
        for key, of, series in _along(good)
    ]
    parts.append(section("Scores", columns(*charts)))
    failed = [[_label(result), result.error or ""] for result in results if result.score is None]
    left_out = [[str(one), reason] for reason, all_ in skipped.items() for one in all_]
    for title, lines in (("Failed", failed), ("Skipped", left_out)):
        if lines:
            parts.append(section(title, table(("Combination", "Reason"), lines)))
    return page(f"Sweep of {component}", "".join(parts), about=f"{file}, {len(good)} trained")


def _label(result: Result) -> str:
    return str(Combination(result.settings, {}))


def _by_time(results: Sequence[Result]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the settings that are not numbers, and time and score of all results by their values."""
    from ..pages.charts import Series

    for key in _words(results) or [""]:
        clouds: dict[str, list[tuple[float, float]]] = {}
        for result in sorted(results, key=lambda result: result.seconds):
            name = show(result.settings[key]) if key in result.settings else "-"
            clouds.setdefault(name, []).append((result.seconds, 100 * (result.score or 0.0)))
        yield key or "combination", [Series(name, points, joined=False) for name, points in clouds.items()]


def _along(results: Sequence[Result]) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield the numeric settings with three values or more, and the best score by them for each value of another."""
    from ..pages.charts import Series

    numeric = [key for key in _varying(results) if key not in _words(results)]
    for key in numeric:
        having = [result for result in results if key in result.settings]
        if len({result.settings[key] for result in having}) < 3:
            continue
        for other in _words(results) or [""]:
            curves: dict[str, dict[float, float]] = {}
            for result in having:
                name = show(result.settings[other]) if other in result.settings else "dev score"
                curve = curves.setdefault(name, {})
                at = float(result.settings[key])
                curve[at] = max(curve.get(at, -math.inf), 100 * (result.score or 0.0))
            yield key, f" and {other}" * bool(other), [Series(name, sorted(c.items())) for name, c in curves.items()]


def _varying(results: Sequence[Result]) -> list[str]:
    return list(varying([Combination(result.settings, {}) for result in results]))


def _words(results: Sequence[Result]) -> list[str]:
    """Return the settings that vary and are not numbers."""
    return [
        key
        for key in _varying(results)
        if not all(_is_number(result.settings[key]) for result in results if key in result.settings)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wide(series: Iterable[Any]) -> bool:
    """Tell whether the values of an axis ask for a logarithmic one."""
    places: list[float] = [x for one in series for x, _ in one.points]
    return min(places) > 0 and max(places) >= 10 * min(places)
