"""The page: tables, expectations met or not, and the template that is filled."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts import kit
from scripts.kit import NOT_RUN, machines
from scripts.papers import pages, tables
from scripts.papers._harness import ROOT, STUDY, Results

TEMPLATE = ROOT / "scripts" / "papers" / "papers.md.in"
FIGURES = "figures"


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
    """Import the modules that make rows and figures, and the experiments behind them."""
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
    table, body = NOT_RUN, text[marker.end() :]
    if any(tables.stored(results, run) for run in STUDY.named(tables.tables()[marker[1]].results)):
        table, names = tables.filled(marker[1], results)
        body = _EXPECTED.sub(lambda match: expectation(match[1], match[2], names), body)
    else:
        body = _DRAWN.sub("", _EXPECTED.sub("", body))
    return kit.fill(table + body if table else body.lstrip("\n"), kinds)


def runs(results: Results, prefix: str) -> str:
    """Return which experiments made a section, their command, seed and time."""
    done = [name for name in STUDY.named(prefix) if tables.stored(results, name)]
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
