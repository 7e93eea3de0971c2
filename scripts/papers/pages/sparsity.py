"""Tables of the page: Sokolovska (2010), section 6.1."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from scripts.papers._harness import Results
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.page import Section, against, beside, by, columns, found, paper_rows, section, table
from scripts.papers.runs.sparsity import OBSERVATIONS
from scripts.papers.weights import expanded


@section("nettalk-thresholds", "nettalk-methods")
def thresholds_section(results: Results) -> Section:
    """Table 6.3, and figures 6.1 and 6.2."""
    rows, published = by(found(results, "nettalk-methods"), "threshold"), paper_rows("thresholds")
    titles = {0.0: "none", "positive": "negative ones"}
    lines = []
    for threshold, row in rows.items():
        active, error, *groups = published[threshold]
        lines.append([
            titles.get(threshold, f"up to {threshold}"),
            against(active, row["active"]),
            against(100 * active / published[0.0][0], 100 * row["active"] / rows[0.0]["active"]),
            against(error, row["test error"]),
            *map(against, groups or [None] * 3, (row["unigrams"], row["bigrams"], row["orphans"])),
        ])  # fmt: skip
    head = ["weights set to 0", "active", "active, %", "test error %", "of (y,x)", "of (y',y,x)"]
    unigrams, bigrams = (expanded(_maps(results)[name]).ravel() for name in ("unigrams", "bigrams"))
    names = {
        "correlation": np.corrcoef(unigrams, bigrams)[0, 1],
        "error": {threshold: row["test error"] for threshold, row in rows.items()},
        "share": {threshold: row["active"] / rows[0.0]["active"] for threshold, row in rows.items()},
        "orphans": {threshold: row["orphans"] / row["bigrams"] for threshold, row in rows.items() if row["bigrams"]},
    }
    return Section(table([*head, "of these, without (y,x)"], lines), names)


def _maps(results: Results) -> dict[str, dict[str, str]]:
    return {row["map"]: row["rows"] for row in found(results, "nettalk-methods") if row.get("method") == "map"}


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
    rows = by([row for row in found(results, "nettalk-methods") if row.get("method") == "map"], "map")
    maps = {title: (rows[name]["rows"], rows[name]["phonemes"]) for name, title in titles.items() if name in rows}
    return draw_maps(axes, maps, "phoneme", "letter")


@section("hierarchy")
def hierarchy_section(results: Results) -> Section:
    """Figure 6.3."""
    rows, published = by(found(results, "hierarchy"), "threshold"), paper_rows("hierarchy")

    both = partial(beside, published, "threshold")
    text = columns(rows.values(), {
        "weights set to 0": lambda row: f"up to {row['threshold']:g}" if row["threshold"] else "none", "F1": "F1",
        "(y,x), words": both(0, "words.weights"), "(y,x), tags": both(1, "tags.weights"),
        "words with one weight": lambda row: row["words"]["single"] if row["threshold"] else None,
    })  # fmt: skip
    words, tags = ({threshold: row[name]["weights"] for threshold, row in rows.items()} for name in OBSERVATIONS)
    share = {threshold: tags[threshold] / (words[threshold] + tags[threshold]) for threshold in rows}
    return Section(text, {"words": words, "tags": tags, "share": share})


@drawn("hierarchy", panels=2)
def draw_sizes(axes: Any, results: Results) -> bool:
    """Draw the number of weights of each observation, the largest first."""
    rows = [row for row in found(results, "hierarchy") if row["threshold"]]
    for panel, name in zip(axes, OBSERVATIONS, strict=True):
        lines = {f"above {row['threshold']:g}": [*enumerate(map(int, row[name]["sizes"].split()), 1)] for row in rows}
        x, y = f"{name}, by their weights", "weights of (y,x)"
        draw_lines(panel, lines, legend=panel is axes[0], xlabel=x, ylabel=y)
    return bool(rows)
