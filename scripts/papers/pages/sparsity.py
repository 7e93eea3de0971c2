"""Rows of the page's tables and its figures: Sokolovska (2010), section 6.1."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.papers._harness import Results, Row
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.runs.sparsity import OBSERVATIONS
from scripts.papers.tables import Section, by, paper_column, section, stored
from scripts.papers.weights import expanded


@section("nettalk-thresholds")
def thresholds(rows: list[Row], results: Results) -> Section:
    """Return the rows of the L2 model without some weights, and how its weights are related."""
    runs, whole = by(rows, "threshold"), paper_column("thresholds", "active")[0.0]
    titles = {0.0: "none", "positive": "negative ones"}

    def line(threshold: Any, row: Row) -> Row:
        return {
            **row,
            "title": titles.get(threshold, f"up to {threshold}"),
            "published": {**row["published"], "share": 100 * row["published"]["active"] / whole},
            "share": 100 * row["active"] / runs[0.0]["active"],
        }

    unigrams, bigrams = (expanded(_maps(results)[name]).ravel() for name in ("unigrams", "bigrams"))
    names = {
        "correlation": np.corrcoef(unigrams, bigrams)[0, 1],
        "share": {threshold: row["active"] / runs[0.0]["active"] for threshold, row in runs.items()},
        "orphans": {threshold: row["orphans"] / row["bigrams"] for threshold, row in runs.items() if row["bigrams"]},
    }
    return Section([line(threshold, row) for threshold, row in runs.items()], names)


def _maps(results: Results) -> dict[str, dict[str, str]]:
    return {row["map"]: row["rows"] for row in stored(results, "nettalk-methods") if row.get("method") == "map"}


@drawn("nettalk-norms", panels=2)
def draw_norms(axes: Any, results: Results) -> bool:
    """Draw the sizes of weights (figure 6.1)."""
    return _draw(axes, results, {"unigrams": "size of the weight of (y,x)", "bigrams": "sum of the sizes of (y',y,x)"})


@drawn("nettalk-hierarchy", panels=2)
def draw_hierarchy(axes: Any, results: Results) -> bool:
    """Draw the number of weights of label pairs, and mark those without a weight of (y,x) (figure 6.2)."""
    kept = [name for name in _maps(results) if name.startswith("kept")]
    return _draw(axes, results, {name: f"(y',y,x) above {name.split()[1]}" for name in kept})


def _draw(axes: Any, results: Results, titles: dict[str, str]) -> bool:
    rows = by([row for row in stored(results, "nettalk-methods") if row.get("method") == "map"], "map")
    maps = {title: (rows[name]["rows"], rows[name]["phonemes"]) for name, title in titles.items() if name in rows}
    return draw_maps(axes, maps, "phoneme", "letter")


@section("hierarchy")
def hierarchy(rows: list[Row], _: Results) -> Section:
    """Return the weights of words and of tags above some thresholds."""
    lines, share = [], {}
    for row in rows:
        threshold, (words, tags) = row["threshold"], (row[name]["weights"] for name in OBSERVATIONS)
        share[threshold] = tags / (words + tags)
        title, single = (f"up to {threshold:g}", row["words"]["single"]) if threshold else ("none", None)
        lines.append({**row, "title": title, "single": single})
    return Section(lines, {"share": share})


@drawn("hierarchy", panels=2)
def draw_sizes(axes: Any, results: Results) -> bool:
    """Draw the number of weights of each observation, the largest first."""
    rows = [row for row in stored(results, "hierarchy") if row["threshold"]]
    for panel, name in zip(axes, OBSERVATIONS, strict=True):
        lines = {f"above {row['threshold']:g}": [*enumerate(map(int, row[name]["sizes"].split()), 1)] for row in rows}
        x, y = f"{name}, by their weights", "weights of (y,x)"
        draw_lines(panel, lines, legend=panel is axes[0], xlabel=x, ylabel=y)
    return bool(rows)
