"""Sokolovska (2010), section 6.1: which weights of an L2 model matter, on NetTalk and on CoNLL-2000."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.page import Section, against, by, columns, expanded, found, paper_rows, section, table
from scripts.papers.tasks import Task, read

OBSERVATIONS = ("words", "tags")
MOST = 600
"""Observations in the figure."""


@experiment("hierarchy", "CoNLL-2000: weights of words and of tags above some thresholds", 1)
def hierarchy(options: Options) -> list[Row]:
    """Return a row for each threshold: how many weights of (y,x) remain, and of how many words and tags."""
    import spacy

    settings, nlp = _harness.config("hierarchy"), spacy.blank("en")
    train, test = (read(nlp, options, settings, part, options.few(300)) for part in ("train", "test"))
    component = dict(settings["component"])
    task = Task(nlp, component, settings["features"], train, {"test": test}, quick=options.quick)
    theta = task.fit(settings["methods"]["SGD"]).theta
    templates, _ = task.features_of([example.predicted for example in train])
    weights = task.layout.views(theta).unigrams.reshape(-1, len(task.labels))
    rows = []
    for threshold in (0.0, *settings["screening"]["thresholds"]):
        smaller = np.where(np.abs(theta) > threshold, theta, 0)
        row: Row = {"threshold": threshold, "active": task.active(smaller), "F1": round(task.score("test", smaller), 2)}
        for name, template in zip(OBSERVATIONS, templates, strict=True):
            kept = (np.abs(weights[np.unique(template.features)]) > threshold).sum(axis=1)
            sizes = np.sort(kept[kept > 0])[::-1]
            row[name] = {"weights": int(sizes.sum()), "observations": len(sizes), "single": int((sizes == 1).sum())}
            row[name]["sizes"] = " ".join(map(str, sizes[:MOST])) if threshold else ""
        rows.append(row)
    return rows


# The page


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

    def beside(place: int, name: str) -> Any:
        return lambda row: against(published.get(row["threshold"], (None, None))[place], row[name]["weights"])

    text = columns(rows.values(), {
        "weights set to 0": lambda row: f"up to {row['threshold']:g}" if row["threshold"] else "none", "F1": "F1",
        "(y,x), words": beside(0, "words"), "(y,x), tags": beside(1, "tags"),
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
