"""The page: published numbers, tables, what was hoped for and met or not, and the template that is filled."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts import kit
from scripts.kit import NOT_RUN, machines
from scripts.papers._harness import ROOT, STUDY, Results, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPLATE = ROOT / "scripts" / "papers" / "papers.md.in"
FIGURES = "figures"
PUBLISHED = ROOT / "scripts" / "papers" / "published"
"""Tables of the papers, with the source in the first line; cells that are empty were not published."""


@cache
def paper_rows(name: str) -> dict[Any, Any]:
    """Return a published table: the cells of each row, a tuple if there are several, by its first cell."""
    _, _, *rows = _cells(name)
    return {row: cells[0] if len(cells) == 1 else tuple(cells) for row, *cells in rows}


@cache
def paper_cells(name: str) -> dict[tuple[Any, str], Any]:
    """Return the cells of a published table by the first cell of their row and the head of their column."""
    _, (_, *columns), *rows = _cells(name)
    pairs = ((row, zip(columns, cells, strict=True)) for row, *cells in rows)
    return {(row, column): cell for row, cells in pairs for column, cell in cells if cell is not None}


def _cells(name: str) -> list[list[Any]]:
    """Return the lines of a table: its source, its head, and its rows."""
    with (PUBLISHED / f"{name}.csv").open(encoding="utf8", newline="") as file:
        return [[_figure(cell) for cell in line] for line in csv.reader(file)]


def _figure(text: str) -> int | float | str | None:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or None


# Sections

SECTIONS: dict[str, Callable[[Results], str]] = {}
SOURCES: dict[str, str] = {}
"""The prefix of the names of the experiments behind a section."""


def section(name: str, source: str = "") -> Callable[[Callable[[Results], str]], Callable[[Results], str]]:
    """Register what makes a section's tables and figures from the results.

    source (str): Prefix of the names of its experiments; the section's name by default.
    """

    def register(make: Callable[[Results], str]) -> Callable[[Results], str]:
        SECTIONS[name], SOURCES[name] = make, source or name
        return make

    return register


def found(results: Results, name: str) -> list[Row]:
    """Return the rows of an experiment; none where it has not been run."""
    return list(results.get(name, {}).get("rows", []))


class Table(NamedTuple):
    """A table of figures and texts; short rows are filled up."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


def table(content: Table) -> str:
    """Return a table as Markdown.  Raises ValueError where a row is longer than the head."""
    return kit.table(content.head, [[*map(shown, row)] for row in content.rows])


def shown(value: Any) -> str:
    """Return a figure as text: with thousands separators and few digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value and abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.4g}"


def against(published: Any, ours: Any) -> str:
    """Return two figures as the cell of a table, a dash for one that is not known."""
    return " / ".join(shown(one) or "–" for one in (published, ours))


def compact(names: str, values: NDArray[Any]) -> dict[str, str]:
    """Return a table of numbers as texts, one a row, so that it takes few lines in a file of results."""
    return {name: " ".join(f"{value:.3g}" for value in row) for name, row in zip(names, values, strict=True)}


def expanded(rows: Mapping[str, str]) -> NDArray[Any]:
    """Return the numbers of a table that `compact` made."""
    return np.array([row.split() for row in rows.values()], float)


class Check(NamedTuple):
    """An expectation."""

    text: str
    holds: Callable[[], bool]


def checks(wanted: Sequence[Check]) -> str:
    """Return a list of expectations: met, not met, or unknown because a run is missing."""
    lines = []
    for one in wanted:
        try:
            lines.append(f"- {'met' if one.holds() else '**not met**'}: {one.text}")
        except (TypeError, ValueError, KeyError, IndexError):  # a figure is missing
            lines.append(f"- not known: {one.text}")
    return "\n".join(lines)


def figure(name: str, alt: str) -> str:
    """Return a figure as markdown."""
    return f"![{alt}]({FIGURES}/{name}.svg)"


# The whole page


def render(template: str, results: Results) -> str:
    """Fill the markers of a page: sections, how experiments were run, and the machines."""

    def made(name: str) -> str:
        sources = STUDY.named(SOURCES[name])
        return SECTIONS[name](results) if any(found(results, source) for source in sources) else NOT_RUN

    kinds = {"section": made, "runs": lambda prefix: runs(results, prefix), "machine": lambda _: machines(results)}
    text = kit.fill(template, kinds)
    if any(entry.get("quick") for entry in results.values()):
        text = (
            f"> **A quick run**: small parts of the data and a few iterations. No figure here means anything.\n\n{text}"
        )
    return text


def runs(results: Results, prefix: str) -> str:
    """Return which experiments made a section, their command, seed and time."""
    done = [name for name in STUDY.named(prefix) if found(results, name)]
    text = f"`python scripts/papers/run.py --only {prefix}`"
    if done:
        spent = sum(results[name]["processor seconds"] for name in done)
        seeds = sorted({results[name]["seed"] for name in done})
        text += f", seed {', '.join(map(str, seeds))}, {spent / 60:.1f} minutes of one core"
    return f"{text}."


def write(results: Results, folder: Path) -> None:
    """Write the page and its figures."""
    from scripts.papers import figures

    figures.draw(results, folder / FIGURES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "papers.md").write_text(render(TEMPLATE.read_text(encoding="utf8"), results), encoding="utf8")
