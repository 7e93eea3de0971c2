"""From results to text: a summary of one benchmark, and the pages with all tables."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bench._harness import PAGES
from scripts import kit
from scripts.kit import NOT_RUN, ROOT, Entry, Results, fill, machines

COMPARED = ("what", "ours", "against", "theirs", "median", "spread", "target")
PLAIN = ("what", "median", "spread", "target")
CROWDED = 0.9
"""Share of a core below which a run on one thread was held up by others."""


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
    lines: list[list[str]] = []
    notes: list[str] = []
    for row in entry["rows"]:
        mark = ""
        if row["note"]:
            notes.append(f"{len(notes) + 1}. {row['note'][0].upper()}{row['note'][1:]}.")
            mark = f" ({len(notes)})"
        lines.append(_cells(row, mark, compared))
    parts = [kit.table(COMPARED if compared else PLAIN, lines), "\n".join(notes), _crowded(entry)]
    return "\n\n".join(part for part in parts if part)


def _cells(row: Entry, mark: str, compared: bool) -> list[str]:
    results = list(shown(row))
    if not compared:
        return [row["label"] + mark, *results]
    peer = f"{number(median(row['peer']))} {row['unit']}" if row["peer"] else ""
    return [row["label"] + mark, f"{number(median(row['ours']))} {row['unit']}", row["against"], peer, *results]


def _crowded(entry: Entry) -> str:
    share = _share(entry)
    timed = any(row["unit"] != "MB" for row in entry["rows"])
    if not timed or entry["clock"] != "wall" or share >= CROWDED:
        return ""
    return f"Others used the machine too: on average this run had {100 * share:.0f} % of a core."


def _share(entry: Entry) -> float:
    """Return the share of a core that a run had; well below 1 where others used the core, too."""
    return float(entry["processor seconds"] / entry["seconds"])


def summary(name: str, entry: Entry) -> str:
    """Return a few lines on one benchmark, for the terminal."""
    lines = [f"{name} ({entry['seconds']:.0f} s, {100 * _share(entry):.0f} % of a core)"]
    for row in entry["rows"]:
        result, spread, target = shown(row)
        against = f" against {row['against']} {number(median(row['peer']))} {row['unit']}" if row["peer"] else ""
        text = f"  {row['label']}: ours {number(median(row['ours']))} {row['unit']}{against}: {result}"
        text += f" ({spread})" if spread else ""
        text += f", target {target}" if target else ""
        lines.append(text + (f"; {row['note']}" if row["note"] else ""))
    return "\n".join(lines)


def write(results: Results, folder: Path) -> None:
    """Write the pages that are made of the results and of texts in bench/.

    Their markers are `table: NAME` for a benchmark's text and table, and `machine: all` for where benchmarks ran.
    """

    def described(name: str) -> str:
        if name not in results:
            return f"`{name}`: {NOT_RUN[0].lower()}{NOT_RUN[1:]}"
        return f"`{name}`: {results[name]['about']}\n\n{table(results[name])}"

    kinds = {"table": described, "machine": lambda _: machines(results)}
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        template = (ROOT / "bench" / f"{name}.md.in").read_text(encoding="utf8")
        (folder / f"{name}.md").write_text(fill(template, kinds), encoding="utf8")
