"""Tables of the page: a data file beside those of the other papers says what they are made of.

Each file of the folder `tables` has the tables of one paper by the names of the page's sections.  The keys of a table:

about: Place of the table in the paper.
results: The experiments whose stored rows it shows, or the beginning of their names; its own name by default.
published: A file of `published`; `key` is the figure by which its rows belong to ours, and where ours are named, too.
columns: A key of the rows, or a title and a key, for each column.  Dots separate keys from those of rows within, those
    of a published row begin with "published", "published.test / test" is a published figure beside ours, and
    "{rho:g}" is a text; a title may have names of expectations in braces.
figures: Names for expectations: a figure of each row by `key`, or the row itself for "row".

A function of `pages` makes rows of those stored where a table has figures that are computed from them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from typing import Any, NamedTuple

from scripts import kit
from scripts.papers._harness import ROOT, STUDY, Results, Row

FOLDER = ROOT / "scripts" / "papers" / "tables"
PUBLISHED = ROOT / "scripts" / "papers" / "published"
"""Tables of the papers, with the source in the first line; cells that are empty were not published."""


class Table(NamedTuple):
    """A table as its data file describes it."""

    about: str
    results: str
    columns: Sequence[str | Mapping[str, str]] = ()
    published: str = ""
    key: str | Sequence[str] = ""
    figures: Mapping[str, str] = {}

    def cells(self, names: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return title and key of each column."""
        pairs = ((column, column) if isinstance(column, str) else next(iter(column.items())) for column in self.columns)
        return [(title.format_map(names), key) for title, key in pairs]


class Section(NamedTuple):
    """The rows of a table, text below it, and the names that expectations of it may use."""

    rows: Iterable[Row] = ()
    names: Mapping[str, Any] = {}
    text: str = ""


Make = Callable[[list[Row], Results], Section]
MAKERS: dict[str, Make] = {}
"""Functions that make the rows of tables of those stored, by the names of the tables."""


def section(*names: str) -> Callable[[Make], Make]:
    """Register a function that makes the rows of tables, and names for expectations, of the rows that are stored."""

    def register(make: Make) -> Make:
        MAKERS.update(dict.fromkeys(names, make))
        return make

    return register


@cache
def tables() -> dict[str, Table]:
    """Return the tables of all data files by name."""
    from srsly import read_yaml

    blocks = [block for file in sorted(FOLDER.glob("*.yml")) for block in read_yaml(file).items()]
    return {name: Table(**{"results": name, **block}) for name, block in blocks if not name.startswith("_")}


def filled(name: str, results: Results) -> tuple[str, Mapping[str, Any]]:
    """Return a table as Markdown, empty where it has no columns, and the names that expectations of it may use."""
    described = tables()[name]
    rows = [row for run in STUDY.named(described.results) for row in stored(results, run)]
    if described.published:
        published = paper_rows(described.published)
        rows = [{**row, "published": published.get(row.get(described.key), {})} for row in rows]
    made = MAKERS[name](rows, results) if name in MAKERS else Section(rows)
    rows, keys = list(made.rows), [described.key] if isinstance(described.key, str) else described.key
    figures = {figure: figures_by(rows, keys, path) for figure, path in described.figures.items()}
    names = {**figures, **made.names}
    text = columns(rows, described.cells(names)) if described.columns else ""
    return "\n\n".join(filter(None, (text, made.text))), names


def stored(results: Results, name: str) -> list[Row]:
    """Return the rows of an experiment with its name as "run"; none where it has not been run."""
    return [{**row, "run": name} for row in results.get(name, {}).get("rows", [])]


def by(rows: Iterable[Row], *keys: str) -> dict[Any, Row]:
    """Return the rows that have some keys by their values: a tuple if there are several keys."""
    chosen = [row for row in rows if all(key in row for key in keys)]
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in chosen}


def figures_by(rows: Iterable[Row], keys: Sequence[str], path: str) -> dict[Any, Any]:
    """Return a figure of the rows that have some keys by their values, or the rows themselves for the path "row"."""
    return {value: row if path == "row" else cell(row, path) for value, row in by(rows, *keys).items()}


# The cells of a table


def columns(rows: Iterable[Row], chosen: Sequence[tuple[str, str]]) -> str:
    """Return rows as a table; one that was skipped has the reason after its first cell.

    chosen (Sequence): Title and key of each column.
    """
    first, *others = (key for _, key in chosen)
    lines = []
    for row in rows:
        rest = [f"not run: {row['skipped']}"] if "skipped" in row else [shown(cell(row, key)) for key in others]
        lines.append([shown(cell(row, first)), *rest])
    return kit.table([title for title, _ in chosen], lines)


def cell(row: Row, key: str) -> Any:
    """Return a figure of a row, None where there is none, or a text, see above."""
    if "{" in key:
        return key.format_map(row)
    if " / " in key:
        return against(*(cell(row, path) for path in key.split(" / ")))
    return reduce(lambda inner, name: (inner or {}).get(name), key.split("."), row)


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
    """Return two figures as the cell of a table, a dash for one that is missing."""
    return " / ".join(shown(figure) or "–" for figure in (published, ours))


# Published tables


@cache
def paper_rows(name: str) -> dict[Any, dict[str, Any]]:
    """Return a published table: its figures by the first cell of their row, then by the head of their column."""
    with (PUBLISHED / f"{name}.csv").open(encoding="utf8", newline="") as file:
        _, (_, *heads), *rows = [[_figure(text) for text in line] for line in csv.reader(file)]
    return {
        row: {head: figure for head, figure in zip(heads, cells, strict=False) if figure is not None}
        for row, *cells in rows
    }


def paper_column(name: str, column: str) -> dict[Any, Any]:
    """Return the figures of a published table in a column, by the first cell of their row."""
    return {row: cells[column] for row, cells in paper_rows(name).items() if column in cells}


def _figure(text: str) -> int | float | str | None:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or None
