"""Rows of the page's tables and its figures: Sokolovska (2010), table 7.1 and figures 7.2 to 7.6."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.papers._harness import Results, Row, config
from scripts.papers.figures import COLOURS, draw_lines, draw_maps, drawn
from scripts.papers.hidden_markov import LETTERS, make_hmm
from scripts.papers.runs.synthetic import BOXES
from scripts.papers.tables import Section, by, paper_column, paper_rows, section, stored
from scripts.papers.weights import expanded


@section("synthetic-models")
def models(rows: list[Row], _: Results) -> Section:
    """Return the rows of all models, and the Bayes error below them."""
    runs = by(rows, "model")
    best = runs.pop("Bayes", {}).get("test error", float("nan"))
    kept, errors = paper_rows("synthetic"), paper_rows("synthetic-errors")
    gap = {model: row["test error"] - row["train error"] for model, row in runs.items()}

    def near(model: str) -> bool:
        """Return whether mean numbers of kept weights are within a quarter of those published, or within one."""
        pairs = [(theirs, runs[model][kind]) for kind, theirs in kept[model].items()]
        return all(abs(ours - theirs) <= max(1.0, theirs / 4) for theirs, ours in pairs)

    def line(row: Row) -> Row:
        rho = row.get("rho1", row.get("rho2"))
        return {**row, "rho": rho, "ms": 1000 * row["seconds"], "published error": errors.get(row["model"], {})}

    text = f"The Bayes error on these test sequences is {best:.2f} % (published: about 15)."
    return Section(map(line, runs.values()), {"gap": gap, "kept": kept, "near": near, "best": best}, text)


@drawn("synthetic-models", panels=2)
def draw_models(axes: Any, results: Results) -> bool:
    """Draw box plots, a panel for each part; whiskers end at the 5th and the 95th percentile."""
    rows = [row for row in stored(results, "synthetic-models") if "boxes" in row]
    names = ("whislo", "q1", "med", "q3", "whishi")
    for panel, (_, part) in zip(axes, BOXES, strict=True):
        boxes = [{"label": row["model"], **dict(zip(names, row["boxes"][part], strict=True))} for row in rows]
        if boxes:
            panel.bxp(boxes, showfliers=False, medianprops={"color": COLOURS[1]})
        panel.set(ylabel=f"{'training' if part == 'train' else part} error, %")
    return bool(rows)


@section("synthetic-selection")
def selection(rows: list[Row], _: Results) -> Section:
    """Return which weights are kept, and which are expected to be."""
    maps = {row["map"]: expanded(row["rows"]) for row in rows}
    hmm = make_hmm(**config("synthetic")["hmm"])
    strong = {tuple(place) for place in np.argwhere(hmm.step > 1 / 2).tolist()}
    last = f"bigrams kept, {LETTERS[len(hmm.emit.T) - 1]}"
    names = {
        "kept": maps["unigrams kept"],
        "own": hmm.emit.T > 1 / 2,
        "most": _most(maps, len(strong)),
        "expected": {(last, *pair) for pair in strong},
    }
    return Section(names=names)


def _most(maps: dict[str, NDArray[Any]], count: int) -> set[tuple[str, int, int]]:
    """Return the label pairs that are kept most often: map, previous label and label."""
    kept = [
        (-share, name, *place)
        for name, values in maps.items()
        if name.startswith("bigrams")
        for place, share in np.ndenumerate(values)
    ]
    return {(name, previous, label) for _, name, previous, label in sorted(kept)[:count]}


@drawn("synthetic-unigrams", panels=2)
def draw_unigrams(axes: Any, results: Results) -> bool:
    """Draw shares and means, a panel each."""
    rows = by(stored(results, "synthetic-selection"), "map")
    titles = {"unigrams kept": "share kept", "unigrams": "mean weight"}
    maps = {title: (rows[name]["rows"], LETTERS[:6].upper()) for name, title in titles.items() if name in rows}
    return draw_maps(axes, maps, "label", "symbol")


@drawn("synthetic-bigrams", panels=5)
def draw_bigrams(axes: Any, results: Results) -> bool:
    """Draw shares, a panel for each symbol."""
    rows = [row for row in stored(results, "synthetic-selection") if row["map"].startswith("bigrams")]
    maps = {f"share kept, symbol {row['map'][-1]}": (row["rows"], "".join(row["rows"])) for row in rows}
    return draw_maps(axes, maps, "label", "previous label")


TITLES = {"block": "all weights of a symbol at a time", "coordinate": "one weight", "active": "one active weight"}


@section("synthetic-descent")
def descent(rows: list[Row], _: Results) -> Section:
    """Return the time of each method as a multiple of the block-wise one's, and the figures of the last iteration."""
    published = paper_column("descent", "seconds")
    seconds = {row["method"]: row["seconds"] for row in rows}

    def line(row: Row) -> Row:
        return {
            **row,
            "title": TITLES[row["method"]],
            "ms": 1000 * row["seconds"],
            "published times": published[row["method"]] / published["block"],
            "times": row["seconds"] / seconds.get("block", float("nan")),
            "last": {part: row[part][-1] for part in ("train", "test", "objective")},
        }

    lines = list(map(line, rows))
    order = [sorted(of, key=of.__getitem__) for of in (seconds, published)]
    last = {part: [row["last"][part] for row in lines] for part in ("test", "objective")}
    return Section(lines, {"order": order, "last": last})


@drawn("synthetic-descent", panels=3)
def draw_descent(axes: Any, results: Results) -> bool:
    """Draw errors and objective, one panel each."""
    rows = stored(results, "synthetic-descent")
    titles = {"train": "training error, %", "test": "test error, %", "objective": "objective"}
    for panel, (part, title) in zip(axes, titles.items(), strict=True):
        lines = {TITLES[row["method"]]: [*enumerate(row[part], 1)] for row in rows}
        draw_lines(panel, lines, legend=part == "train", xlabel="iteration", ylabel=title)
    return bool(rows)
