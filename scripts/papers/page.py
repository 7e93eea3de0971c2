"""The page: published numbers, tables, what was hoped for and met or not, and the template that is filled."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.papers._harness import REGISTRY, ROOT, Results, Row

TEMPLATE = ROOT / "scripts" / "papers" / "papers.md.in"
FIGURES = "figures"
NOT_RUN = "Not run yet."
_MARKER = re.compile(r"<!-- (section|runs|machine): ([\w-]+) -->")


def _by(methods: Sequence[str], features: str, figures: Sequence[float]) -> dict[tuple[str, str], float]:
    return {(method, features): figure for method, figure in zip(methods, figures, strict=True)}


_LOSSES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
PUBLISHED: dict[str, dict[Any, float]] = {
    # Altun, Johnson & Hofmann (2003), tables 2 and 3: F1 on esp.testb
    "entities": {
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S1", (59.92, 59.68, 56.73, 58.26, 59.77, 48.23)),
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S2", (69.75, 67.30, 68.28, 69.51, 69.29, 66.11)),
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S3", (73.62, 72.11, 73.17, 73.82, 72.97, 71.07)),
    },
    # ... table 1: accuracy on the Penn Treebank, and boosting in the text of section 6
    "tags": {
        **_by((*_LOSSES, "Boosting"), "S1", (94.91, 94.57, 94.90, 94.66, 89.42)),
        **_by((*_LOSSES, "Boosting"), "S2", (95.68, 95.25, 95.71, 95.31, 94.92)),
    },
    # Sokolovska (2010), table 3.2: per cent of wrong phonemes
    "nettalk": {"(y,x)": 38.7, "(y',y) + (y,x)": 18.5, "(y',y,x)": 14.8, "(y,x) + (y',y,x)": 14.0},
}
"""Published numbers, where available."""
_FIVE = ("SequentialLog", "SequentialExp", "Boosting", "PointwiseLog", "PointwiseExp")
ERRORS: dict[str, dict[tuple[str, str], float]] = {
    "entities": {
        **_by(_FIVE, "S1", (6.60, 6.95, 8.05, 6.73, 7.33)),
        **_by(_FIVE, "S2", (6.72, 7.03, 6.93, 6.67, 7.49)),
        **_by(_FIVE, "S3", (6.15, 5.84, 6.77, 5.90, 5.10)),
    },
    "tags": {
        **_by(_FIVE, "S1", (4.69, 5.04, 10.58, 4.88, 4.96)),
        **_by(_FIVE, "S2", (4.37, 4.74, 5.09, 4.71, 4.90)),
    },
}
"""Altun, Hofmann & Johnson (2002), tables 1 and 2: per cent of wrong labels."""


# Sections

SECTIONS: dict[str, Callable[[Results], str]] = {}


def section(name: str) -> Callable[[Callable[[Results], str]], Callable[[Results], str]]:
    """Register what makes a section's tables and figures from the results."""

    def register(make: Callable[[Results], str]) -> Callable[[Results], str]:
        SECTIONS[name] = make
        return make

    return register


def found(results: Results, name: str) -> list[Row]:
    """Return the rows of an experiment; none where it has not been run."""
    return list(results.get(name, {}).get("rows", []))


class Table(NamedTuple):
    """A table; short rows are filled up."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


def table(content: Table) -> str:
    """Return a table as markdown."""
    if not content.rows:
        return NOT_RUN
    lines = [_line(content.head), _line(["---"] * len(content.head))]
    lines += [_line([*map(shown, row), *[""] * (len(content.head) - len(row))]) for row in content.rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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

    def fill(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "section":
            return SECTIONS[name](results) if any(found(results, one) for one in _named(name)) else NOT_RUN
        if kind == "runs":
            return runs(results, name)
        return machines(results)

    text = _MARKER.sub(fill, template)
    if any(entry.get("quick") for entry in results.values()):
        text = (
            f"> **A quick run**: small parts of the data and a few iterations. No figure here means anything.\n\n{text}"
        )
    return text


def _named(prefix: str) -> list[str]:
    return [name for name in REGISTRY if name.startswith(prefix)]


def runs(results: Results, prefix: str) -> str:
    """Return which experiments made a section, their command, seed and time."""
    names = _named(prefix)
    done = [name for name in names if found(results, name)]
    lines = [f"`python scripts/papers/run.py --only {prefix}`"]
    skipped: dict[str, list[str]] = {}
    for name in names:
        if "skipped" in results.get(name, {}):
            skipped.setdefault(results[name]["skipped"], []).append(name)
    lines += [f"not run, {reason}: {', '.join(those)}" for reason, those in skipped.items()]
    if done:
        spent = sum(results[name]["processor seconds"] for name in done)
        seeds = sorted({results[name]["seed"] for name in done})
        lines[0] += f", seed {', '.join(map(str, seeds))}, {spent / 60:.1f} minutes of one core"
    return "; ".join(lines) + "."


def machines(results: Results) -> str:
    """Return a line for each machine and set of packages that figures come from."""
    groups: dict[str, list[str]] = {}
    for name, entry in results.items():
        if entry["rows"]:
            groups.setdefault(_describe(entry["machine"]), []).append(f"{name} ({entry['date'][:10]})")
    return (
        "\n".join(f"- {text}. Experiments: {', '.join(names)}." for text, names in groups.items())
        or "Nothing has been run yet."
    )


def _describe(machine: dict[str, Any]) -> str:
    wanted = ("spacy-crfseq", "spacy", "numpy", "numba")
    packages = ", ".join(f"{name} {machine['packages'][name]}" for name in wanted if name in machine["packages"])
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {packages}"


def write(page: Path, results: Results) -> None:
    """Write the page and its figures."""
    from scripts.papers import figures

    figures.draw(results, page.parent / FIGURES)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(TEMPLATE.read_text(encoding="utf8"), results), encoding="utf8")
