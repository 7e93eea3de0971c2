"""Rows of the page's tables and its figures: Sokolovska (2010) on CoNLL-2003."""

from __future__ import annotations

from typing import Any

from scripts.papers._harness import Results, Row
from scripts.papers.figures import draw_lines, drawn
from scripts.papers.pages.chunks import score_of
from scripts.papers.runs.names import CUT_OFF, INFORMATION
from scripts.papers.tables import Section, section, stored

THRESHOLD, NORM = "small weights dropped", "L1 norm"
WAYS = {"THRESHOLD": THRESHOLD, "NORM": NORM, "CUT_OFF": CUT_OFF, "INFORMATION": INFORMATION}
Point = tuple[int, float, float]
"""Weights left, error and F1 on B."""


@section("names-path")
def path(rows: list[Row], _: Results) -> Section:
    """Return the rows along rho1 with the number of weights that are left of words."""
    return Section({**row, "words left": _left(row, "x1")} for row in rows)


def _left(row: Row, symbol: str) -> int:
    return sum(left for pattern, (_, left) in row["kept"].items() if symbol in pattern)


def _points(results: Results) -> dict[str, list[Point]]:
    """Return, for each way to fewer features, the models that it leads to."""
    points: dict[str, list[Point]] = {
        NORM: [_point(row) for row in stored(results, "names-sparse")],
        THRESHOLD: [
            (row["active"]["all"], 100 - score_of(row, "B accuracy"), score_of(row, "B f1"))
            for row in stored(results, "names-patterns")
            if "threshold" in row
        ],
    }
    for how in (CUT_OFF, INFORMATION):
        points[how] = [_point(row) for row in stored(results, "names-selection") if row["how"] == how]
    return {how: sorted(models) for how, models in points.items()}


def _point(row: Row) -> Point:
    return row["active"]["all"], row["errors"]["B"], row["f1"]["B"]


@section("names-selection")
def selection(_: list[Row], results: Results) -> Section:
    """Return the models that each way leads to."""
    points = _points(results)
    lines = (
        {"how": how, "left": left, "error": error, "f1": f1}
        for how, models in points.items()
        for left, error, f1 in models
    )

    def best(how: str, most: int) -> float:
        return max(f1 for left, _, f1 in points[how] if left <= most)

    left, errors = ({how: [point[column] for point in models] for how, models in points.items()} for column in (0, 1))
    return Section(lines, {**WAYS, "best": best, "left": left, "errors": errors})


@drawn("names-path", panels=2)
def draw_path(axes: Any, results: Results) -> bool:
    """Draw errors, and what is left of each observation, along rho1."""
    rows = stored(results, "names-sparse")
    errors = {part: [(row["rho1"], row["errors"][part]) for row in rows] for part in ("train", "A", "B")}
    left = {
        name: [(row["rho1"], _left(row, symbol)) for row in rows]
        for symbol, name in (("x1", "words"), ("x2", "parts of speech"), ("x3", "chunks"))
    }
    draw_lines(axes[0], errors, "o-", xscale="log", xlabel="rho1", ylabel="error, %")
    draw_lines(axes[1], left, "o-", xscale="log", yscale="log", xlabel="rho1", ylabel="weights left")
    return bool(rows)


@drawn("names-selection", panels=2)
def draw_selection(axes: Any, results: Results) -> bool:
    """Draw error and F1 against weights left."""
    points = {how: models for how, models in _points(results).items() if models}
    for axis, column, title in zip(axes, (1, 2), ("error on B, %", "F1 on B"), strict=True):
        lines = {how: [(point[0], point[column]) for point in models] for how, models in points.items()}
        draw_lines(axis, lines, "o-", legend=column == 1, xscale="log", xlabel="weights left", ylabel=title)
    return bool(points)
