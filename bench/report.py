"""From results to text: a summary of one benchmark, and the page with all tables."""

from __future__ import annotations

import re
from statistics import median
from typing import Any

COMPARED = "| what | ours | against | theirs | median | spread | target |\n| --- | --- | --- | --- | --- | --- | --- |"
PLAIN = "| what | median | spread | target |\n| --- | --- | --- | --- |"
CROWDED = 0.9
"""Share of a core below which a run on one thread was held up by others."""
_MARKER = re.compile(r"<!-- (table|machine|paper): ([\w-]+) -->")
Entry = dict[str, Any]


def scores(row: Entry) -> list[float]:
    """Return the ratio, share or figure of each round."""
    if row["kind"] == "value" or not row["peer"]:
        return list(row["ours"])
    faster_is_more = row["unit"].endswith("/s")
    ratios = [a / b if faster_is_more else b / a for a, b in zip(row["ours"], row["peer"], strict=True)]
    return [100 * ratio for ratio in ratios] if row["kind"] == "share" else ratios


def shown(row: Entry) -> tuple[str, str, str]:
    """Return median, spread and target of a row as text."""
    values = scores(row)
    unit = {"times": " x", "share": " %"}.get(row["kind"], f" {row['unit']}")
    if not row["peer"]:
        unit = f" {row['unit']}"
    spread = f"{number(min(values))}-{number(max(values))}" if len(values) > 1 else ""
    bound = "at most " if row["kind"] == "value" and not row["unit"].endswith("/s") else ""
    target = "" if row["target"] is None else f"{bound}{number(row['target'])}{unit}"
    return f"{number(median(values))}{unit}", spread, target


def number(value: float) -> str:
    """Return three digits of a number, thousands apart."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(entry: Entry) -> str:
    """Return the rows of a benchmark as a markdown table, notes below."""
    compared = any(row["peer"] for row in entry["rows"])
    lines = [COMPARED if compared else PLAIN]
    notes: list[str] = []
    for row in entry["rows"]:
        mark = ""
        if row["note"]:
            notes.append(f"{len(notes) + 1}. {row['note'][0].upper()}{row['note'][1:]}.")
            mark = f" ({len(notes)})"
        lines.append(f"| {' | '.join(_cells(row, mark, compared))} |")
    parts = ["\n".join(lines), "\n".join(notes), _crowded(entry)]
    return "\n\n".join(part for part in parts if part)


def _cells(row: Entry, mark: str, compared: bool) -> list[str]:
    results = list(shown(row))
    if not compared:
        return [row["label"] + mark, *results]
    peer = f"{number(median(row['peer']))} {row['unit']}" if row["peer"] else ""
    return [row["label"] + mark, f"{number(median(row['ours']))} {row['unit']}", row["against"], peer, *results]


def _crowded(entry: Entry) -> str:
    share = entry.get("cpu share", 1)
    timed = any(row["unit"] != "MB" for row in entry["rows"])
    if not timed or entry.get("clock", "wall") != "wall" or share >= CROWDED:
        return ""
    return f"Others used the machine too: on average this run had {100 * share:.0f} % of a core."


def summary(name: str, entry: Entry) -> str:
    """Return a few lines on one benchmark, for the terminal."""
    lines = [f"{name} ({entry['seconds']:.0f} s, {100 * entry['cpu share']:.0f} % of a core)"]
    for row in entry["rows"]:
        result, spread, target = shown(row)
        against = f" against {row['against']} {number(median(row['peer']))} {row['unit']}" if row["peer"] else ""
        text = f"  {row['label']}: ours {number(median(row['ours']))} {row['unit']}{against}: {result}"
        text += f" ({spread})" if spread else ""
        text += f", target {target}" if target else ""
        lines.append(text + (f"; {row['note']}" if row["note"] else ""))
    return "\n".join(lines)


def render(template: str, results: dict[str, Entry]) -> str:
    """Fill the markers of a page.

    These are `table: NAME` for a benchmark's text and table, `paper: NAME` for a table of `paper`, and `machine: all`
    for where benchmarks ran.
    """
    from bench import paper

    def fill(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "machine":
            return machines(results)
        if kind == "paper":
            return paper.table(name, results)
        if name not in results:
            return f"`{name}`: not run yet."
        return f"`{name}`: {results[name]['about']}\n\n{table(results[name])}"

    return _MARKER.sub(fill, template)


def machines(results: dict[str, Entry]) -> str:
    """Return a line for each machine and set of packages that the figures come from."""
    groups: dict[str, list[str]] = {}
    for name, entry in results.items():
        described = _describe(entry["machine"] | {"clock": entry.get("clock", "wall")})
        groups.setdefault(described, []).append(f"{name} ({entry['date'][:10]})")
    if not groups:
        return "Nothing has been measured yet."
    return "\n".join(f"- {text}. Benchmarks: {', '.join(names)}." for text, names in groups.items())


def _describe(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    text = f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}"
    clock = "" if machine.get("clock", "wall") == "wall" else "; processor time, not wall time"
    return f"{text}, {packages}{clock}"
