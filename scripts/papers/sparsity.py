"""Sokolovska (2010), section 6.1: which weights of an L2 model matter, on NetTalk and on CoNLL-2000."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import draw_map, drawn
from scripts.papers.page import Check, Table, against, checks, expanded, figure, found, paper_rows, section, table
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
def thresholds_section(results: Results) -> str:
    """Table 6.3, and figures 6.1 and 6.2."""
    rows = {row["threshold"]: row for row in found(results, "nettalk-methods") if row.get("method") == "threshold"}
    published = paper_rows("thresholds")
    head = [
        "weights set to 0",
        "active",
        "active, %",
        "test error %",
        "of (y,x)",
        "of (y',y,x)",
        "of these, without (y,x)",
    ]
    content = []
    for threshold, row in rows.items():
        active, error, *groups = published[threshold]
        ours, whole = row["active"], rows[0.0]["active"]
        content.append([
            {0.0: "none", "positive": "negative ones"}.get(threshold, f"up to {threshold}"),
            against(active, ours),
            against(100 * active / published[0.0][0], 100 * ours / whole),
            against(error, row["test error"]),
            *map(against, groups or [None] * 3, (row["unigrams"], row["bigrams"], row["orphans"])),
        ])  # fmt: skip
    pictures = [
        figure("nettalk-norms", "Sizes of the weights of each letter and phoneme"),
        figure("nettalk-hierarchy", "Number of weights of label pairs left for each letter and phoneme"),
    ]
    return "\n\n".join([table(Table(head, content)), checks(_threshold_checks(rows, results)), *pictures])


def _threshold_checks(rows: dict[Any, Row], results: Results) -> list[Check]:
    """Return what the thesis says of its table and figures."""

    def error(threshold: Any) -> float:
        return float(rows[threshold]["test error"])

    def share(threshold: Any) -> float:
        return float(rows[threshold]["active"] / rows[0.0]["active"])

    def orphans(threshold: float) -> float:
        return float(rows[threshold]["orphans"] / rows[threshold]["bigrams"])

    return [
        Check(
            "a tenth of the weights or fewer is above 0.25 (published 7 %); they have the same error within 0.1 points",
            lambda: share(0.25) <= 0.1 and abs(error(0.25) - error(0.0)) <= 0.1,
        ),
        Check("each larger threshold has a higher error", lambda: error(0.5) < error(1.0) < error(2.0)),
        Check(
            "without weights up to 2, the error is at least a tenth higher (published a fifth)",
            lambda: error(2.0) >= 1.1 * error(0.0),
        ),
        Check(
            "negative weights matter: the positive ones alone raise the error by a tenth or more (published a fourth)",
            lambda: error("positive") >= 1.1 * error(0.0),
        ),
        Check(
            "at 0.25, few label pairs are left without their weight of (y,x), below 5 % (published 2 %)",
            lambda: orphans(0.25) < 0.05,
        ),
        Check("at 2, they are not negligible, above 5 % (published 10 %)", lambda: orphans(2.0) > 0.05),
        Check(
            "weights of (y',y,x) are large where those of (y,x) are (correlation above 0.5)",
            lambda: _correlation(results) > 0.5,
        ),
    ]


def _correlation(results: Results) -> float:
    maps = _maps(results)
    return float(np.corrcoef(expanded(maps["unigrams"]).ravel(), expanded(maps["bigrams"]).ravel())[0, 1])


def _maps(results: Results) -> dict[str, dict[str, str]]:
    return {row["map"]: row["rows"] for row in found(results, "nettalk-methods") if row.get("method") == "map"}


def _phonemes(results: Results) -> str:
    return next((row["phonemes"] for row in found(results, "nettalk-methods") if row.get("method") == "map"), "")


@drawn("nettalk-norms", panels=2)
def draw_norms(axes: Any, results: Results) -> bool:
    """Draw the sizes of weights (figure 6.1)."""
    titles = {"unigrams": "size of the weight of (y,x)", "bigrams": "sum of the sizes of (y',y,x)"}
    return _draw_maps(axes, results, titles)


@drawn("nettalk-hierarchy", panels=2)
def draw_hierarchy(axes: Any, results: Results) -> bool:
    """Draw the number of weights of label pairs, and mark those without a weight of (y,x) (figure 6.2)."""
    titles = {name: f"(y',y,x) above {name.split()[1]}" for name in _maps(results) if name.startswith("kept")}
    return _draw_maps(axes, results, titles)


def _draw_maps(axes: Any, results: Results, titles: dict[str, str]) -> bool:
    maps, phonemes = _maps(results), _phonemes(results)
    for panel, (name, title) in zip(axes, titles.items(), strict=False):
        if name in maps:
            draw_map(panel, maps[name], phonemes, title)
            panel.set(xlabel="phoneme", ylabel="letter")
    return bool(maps)


@section("hierarchy")
def hierarchy_section(results: Results) -> str:
    """Figure 6.3."""
    rows = {row["threshold"]: row for row in found(results, "hierarchy")}
    published = paper_rows("hierarchy")
    head = ["weights set to 0", "F1", "(y,x), words", "(y,x), tags", "words with one weight"]
    content = [
        [
            f"up to {threshold:g}" if threshold else "none", row["F1"],
            *(against(*pair) for pair in zip(
                published.get(threshold, (None, None)), (row[name]["weights"] for name in OBSERVATIONS), strict=True
            )),
            row["words"]["single"] if threshold else None,
        ]
        for threshold, row in rows.items()
    ]  # fmt: skip

    def kept(threshold: float) -> tuple[int, int]:
        return rows[threshold]["words"]["weights"], rows[threshold]["tags"]["weights"]

    def share(threshold: float) -> float:
        return kept(threshold)[1] / sum(kept(threshold))

    wanted = [
        Check(
            "without weights up to 1, more weights of words are left than of tags (published 2.5 times)",
            lambda: kept(1.0)[0] > kept(1.0)[1],
        ),
        Check(
            "without weights up to 3, more weights of tags are left than of words (published 2.3 times)",
            lambda: kept(3.0)[1] > kept(3.0)[0],
        ),
        Check(
            "the share of tags grows with the threshold (published 29, 51 and 69 %)",
            lambda: share(1.0) < share(2.0) < share(3.0),
        ),
    ]
    picture = figure("hierarchy", "Weights of each word and each tag above three thresholds")
    return f"{table(Table(head, content))}\n\n{checks(wanted)}\n\n{picture}"


@drawn("hierarchy", panels=2)
def draw_sizes(axes: Any, results: Results) -> bool:
    """Draw the number of weights of each observation, the largest first."""
    rows = [row for row in found(results, "hierarchy") if row["threshold"]]
    for panel, name in zip(axes, OBSERVATIONS, strict=True):
        for row in rows:
            sizes = [int(size) for size in row[name]["sizes"].split()]
            panel.plot(range(1, len(sizes) + 1), sizes, label=f"above {row['threshold']:g}")
        panel.set(xlabel=f"{name}, by their weights", ylabel="weights of (y,x)")
    if rows:
        axes[0].legend()
    return bool(rows)
