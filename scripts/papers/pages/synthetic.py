"""Tables of the page: Sokolovska (2010), table 7.1 and figures 7.2 to 7.6."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.papers._harness import Results, Row, config
from scripts.papers.figures import COLOURS, draw_lines, draw_maps, drawn
from scripts.papers.hidden_markov import LETTERS, make_hmm
from scripts.papers.page import Section, against, beside, by, columns, found, paper_rows, section
from scripts.papers.runs.synthetic import BOXES
from scripts.papers.weights import expanded


@section("synthetic-models")
def models_section(results: Results) -> Section:
    """Table 7.1 and figure 7.2."""
    rows = by(found(results, "synthetic-models"), "model")
    best = rows.pop("Bayes", {}).get("test error", float("nan"))
    kept, errors = paper_rows("synthetic"), paper_rows("synthetic-errors")

    text = columns(rows.values(), {
        "model": "model", "rho": lambda row: row.get("rho1", row.get("rho2")),
        "weights of (y,x)": beside(kept, "model", 0, "unigrams"),
        "weights of (y',y,x)": beside(kept, "model", 1, "bigrams"),
        "training error %": beside(errors, "model", 0, "train error"),
        "test error %": beside(errors, "model", 1, "test error"),
        "ms": lambda row: 1000 * row["seconds"],
    })  # fmt: skip
    text += f"\n\nThe Bayes error on these test sequences is {best:.2f} % (published: about 15)."
    test = {model: row["test error"] for model, row in rows.items()}
    gap = {model: row["test error"] - row["train error"] for model, row in rows.items()}

    def near(model: str) -> bool:
        """Return whether mean numbers of kept weights are within a quarter of those published, or within one."""
        pairs = zip(kept[model], (rows[model]["unigrams"], rows[model]["bigrams"]), strict=True)
        return all(abs(ours - published) <= max(1.0, published / 4) for published, ours in pairs)

    return Section(text, {"test": test, "gap": gap, "kept": kept, "near": near, "best": best})


@drawn("synthetic-models", panels=2)
def draw_models(axes: Any, results: Results) -> bool:
    """Draw box plots, a panel for each part; whiskers end at the 5th and the 95th percentile."""
    rows = [row for row in found(results, "synthetic-models") if "boxes" in row]
    names = ("whislo", "q1", "med", "q3", "whishi")
    for panel, (_, part) in zip(axes, BOXES, strict=True):
        boxes = [{"label": row["model"], **dict(zip(names, row["boxes"][part], strict=True))} for row in rows]
        if boxes:
            panel.bxp(boxes, showfliers=False, medianprops={"color": COLOURS[1]})
        panel.set(ylabel=f"{'training' if part == 'train' else part} error, %")
    return bool(rows)


@section("synthetic-selection")
def selection_section(results: Results) -> Section:
    """Figures 7.3 and 7.4."""
    maps = {row["map"]: expanded(row["rows"]) for row in found(results, "synthetic-selection")}
    hmm = make_hmm(**config("synthetic")["hmm"])
    strong = {tuple(place) for place in np.argwhere(hmm.step > 1 / 2).tolist()}
    last = f"bigrams kept, {LETTERS[len(hmm.emit.T) - 1]}"
    names = {
        "kept": maps["unigrams kept"],
        "own": hmm.emit.T > 1 / 2,
        "most": _most(maps, len(strong)),
        "expected": {(last, *pair) for pair in strong},
    }
    return Section("", names)


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
    rows = by(found(results, "synthetic-selection"), "map")
    titles = {"unigrams kept": "share kept", "unigrams": "mean weight"}
    maps = {title: (rows[name]["rows"], LETTERS[:6].upper()) for name, title in titles.items() if name in rows}
    return draw_maps(axes, maps, "label", "symbol")


@drawn("synthetic-bigrams", panels=5)
def draw_bigrams(axes: Any, results: Results) -> bool:
    """Draw shares, a panel for each symbol."""
    rows = [row for row in found(results, "synthetic-selection") if row["map"].startswith("bigrams")]
    maps = {f"share kept, symbol {row['map'][-1]}": (row["rows"], "".join(row["rows"])) for row in rows}
    return draw_maps(axes, maps, "label", "previous label")


@section("synthetic-descent")
def descent_section(results: Results) -> Section:
    """Figures 7.5 and 7.6."""
    rows, published = by(found(results, "synthetic-descent"), "method"), paper_rows("descent")
    seconds = {name: row["seconds"] for name, row in rows.items()}
    block = seconds.get("block", float("nan"))

    def times(row: Row) -> str:
        return against(published[row["method"]] / published["block"], row["seconds"] / block)

    text = columns(rows.values(), {
        "method": lambda row: NAMES[row["method"]], "seconds, published": lambda row: published[row["method"]],
        "ms, ours": lambda row: 1000 * row["seconds"], "times the block-wise method's": times,
        "training error %": lambda row: row["train"][-1], "test error %": lambda row: row["test"][-1],
        "objective": lambda row: row["objective"][-1],
    })  # fmt: skip
    order = [sorted(of, key=of.__getitem__) for of in (seconds, published)]
    last = {part: [row[part][-1] for row in rows.values()] for part in ("test", "objective")}
    return Section(text, {"seconds": seconds, "order": order, "last": last})


NAMES = {"block": "all weights of a symbol at a time", "coordinate": "one weight", "active": "one active weight"}


@drawn("synthetic-descent", panels=3)
def draw_descent(axes: Any, results: Results) -> bool:
    """Draw errors and objective, one panel each."""
    rows = found(results, "synthetic-descent")
    titles = {"train": "training error, %", "test": "test error, %", "objective": "objective"}
    for panel, (part, title) in zip(axes, titles.items(), strict=True):
        lines = {NAMES[row["method"]]: [*enumerate(row[part], 1)] for row in rows}
        draw_lines(panel, lines, legend=part == "train", xlabel="iteration", ylabel=title)
    return bool(rows)
