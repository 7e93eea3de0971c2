"""The page: published numbers, tables, expectations met or not, and the template that is filled."""

from __future__ import annotations

import ast
import csv
import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scripts import kit
from scripts.kit import NOT_RUN, machines
from scripts.papers import pages
from scripts.papers._harness import ROOT, STUDY, Results, Row

if TYPE_CHECKING:
    pass

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


class Section(NamedTuple):
    """A table of the page, and the names that expectations of it may use."""

    text: str
    names: Mapping[str, Any] = {}


SECTIONS: dict[str, Callable[[Results], Section]] = {}
SOURCES: dict[str, str] = {}
"""The prefix of the names of the experiments behind a section."""


def section(name: str, source: str = "") -> Callable[[Callable[[Results], Section]], Callable[[Results], Section]]:
    """Register a function that makes a section of the page from the results.

    source (str): Prefix of the names of its experiments; the section's name by default.
    """

    def register(make: Callable[[Results], Section]) -> Callable[[Results], Section]:
        SECTIONS[name], SOURCES[name] = make, source or name
        return make

    return register


def found(results: Results, name: str) -> list[Row]:
    """Return the rows of an experiment; none where it has not been run."""
    return list(results.get(name, {}).get("rows", []))


def by(rows: Iterable[Row], *keys: str) -> dict[Any, Row]:
    """Return the rows that have some keys by their values: a tuple if there are several keys."""
    chosen = [row for row in rows if all(key in row for key in keys)]
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in chosen}


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of figures and texts as Markdown; short rows are filled up.

    RAISES ValueError: If a row is longer than the head.
    """
    return kit.table(head, [[*map(shown, row)] for row in rows])


def columns(rows: Iterable[Row], chosen: Mapping[str, str | Callable[[Row], Any]]) -> str:
    """Return rows as a table; one that was skipped has the reason after its first cell.

    chosen (Mapping): For each header, a key of the rows (dots separate it from those of rows within), or a function.
    """
    head, (first, *others) = list(chosen), chosen.values()
    return table(
        head,
        (
            [
                cell(row, first),
                *([f"not run: {row['skipped']}"] if "skipped" in row else (cell(row, key) for key in others)),
            ]
            for row in rows
        ),
    )


def cell(row: Any, key: str | Callable[[Row], Any]) -> Any:
    """Return a figure of a row by its key, None where there is none."""
    if callable(key):
        return key(row)
    return reduce(lambda inner, name: (inner or {}).get(name), key.split("."), row)


def beside(
    published: Mapping[Any, Sequence[Any]], key: str | Callable[[Row], Any], place: int, own: str
) -> Callable[[Row], str]:
    """Return a column for `columns`: a cell of the published row of the same key, and our figure by its key."""

    def both(row: Row) -> str:
        theirs = published.get(cell(row, key))
        return against(theirs[place] if theirs else None, cell(row, own))

    return both


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
    return " / ".join(shown(figure) or "–" for figure in (published, ours))


# Expectations: lines of the template, such as
# - {loss}: S1 < S2, as published <!-- if: score("S1", loss) < score("S2", loss); for loss in LOSSES -->


def expectation(text: str, condition: str, names: Mapping[str, Any]) -> str:
    """Return an expectation as lines of a list: met, not met, or unknown because a figure is missing.

    text (str): May have replacement fields, as for `str.format`.
    condition (str): An expression; a semicolon and ``for ... in ...`` make a line for each value.
    names (Mapping): Those that text and condition use.
    RAISES NameError, SyntaxError: On a condition that is wrong whatever the figures are.
    """
    holds, _, loop = condition.partition("; for ")
    lines = []
    for values in _values(loop, names):
        here = {**names, **values}
        try:
            verdict = "met" if _evaluated(holds, here) else "**not met**"
        except (TypeError, ValueError, KeyError, IndexError):  # a figure is missing
            verdict = "not known"
        lines.append(f"- {verdict}: {text.format_map(here)}\n")
    return "".join(lines)


def _values(loop: str, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the values that a loop gives to its names, one dictionary a turn."""
    if not loop:
        return [{}]
    tree: Any = ast.parse(f"[0 for {loop}]", mode="eval").body
    targets = [node.id for part in tree.generators for node in ast.walk(part.target) if isinstance(node, ast.Name)]
    made: list[dict[str, Any]] = _evaluated(f"[dict({', '.join(f'{t}={t}' for t in targets)}) for {loop}]", names)
    return made


def _evaluated(expression: str, names: Mapping[str, Any]) -> Any:
    return eval(expression, dict(names))


# The whole page

_EXPECTED = re.compile(r"^- (.+) <!-- if: (.+) -->\n", re.MULTILINE)
_DRAWN = re.compile(rf"^!\[.*\]\({FIGURES}/.*\)\n", re.MULTILINE)


def load() -> None:
    """Import the modules that register sections and figures, and the experiments behind them."""
    STUDY.load()
    for module in pkgutil.iter_modules(pages.__path__, f"{pages.__name__}."):
        importlib.import_module(module.name)


def render(template: str, results: Results) -> str:
    """Fill the markers of a page: sections with expectations, how experiments were run, and the machines."""
    load()
    text = "".join(_part(part, results) for part in re.split("(?=<!-- section: )", template))
    if any(entry.get("quick") for entry in results.values()):
        text = (
            f"> **A quick run**: small parts of the data and a few iterations. No figure here means anything.\n\n{text}"
        )
    return text


def _part(text: str, results: Results) -> str:
    """Fill a part of the template, which begins with the marker of a section; only the first part has none."""
    kinds = {"runs": lambda name: runs(results, name), "machine": lambda _: machines(results)}
    marker = re.match(r"<!-- section: ([\w-]+) -->", text)
    if not marker:
        return kit.fill(text, kinds)
    made, body = Section(NOT_RUN), text[marker.end() :]
    if any(found(results, source) for source in STUDY.named(SOURCES[marker[1]])):
        made = SECTIONS[marker[1]](results)
        body = _EXPECTED.sub(lambda match: expectation(match[1], match[2], made.names), body)
    else:
        body = _DRAWN.sub("", _EXPECTED.sub("", body))
    return kit.fill(made.text + body if made.text else body.lstrip("\n"), kinds)


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

    load()
    figures.draw(results, folder / FIGURES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "papers.md").write_text(render(TEMPLATE.read_text(encoding="utf8"), results), encoding="utf8")
