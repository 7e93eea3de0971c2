"""Tables of the page: Sokolovska (2010) on NetTalk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from scripts.papers._harness import Results, Row
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.page import Section, against, beside, by, columns, found, paper_rows, section
from scripts.papers.runs.nettalk import ALPHABET
from scripts.papers.weights import expanded


@section("nettalk-patterns")
def patterns_section(results: Results) -> Section:
    """Table 3.2."""
    rows, published = found(results, "nettalk-patterns"), paper_rows("nettalk")
    ours = by([row for row in rows if "size" in row], "pattern")
    test = {name: row["test error"] for name, row in ours.items()}

    both = partial(beside, published, "pattern")
    text = columns(rows, {
        "pattern": "pattern", "weights": both(0, "size"), "training error %": both(1, "train error"),
        "test error %": both(2, "test error"), "ours, dev": "dev error", "seconds": "seconds",
        "optimality": "optimality",
    })  # fmt: skip
    pairs = [(published[name][2], test[name]) for name in published if name in test]
    if ratios := sorted(ours / theirs for theirs, ours in pairs):
        text += f"\n\nOur test errors are {ratios[0]:.2f} to {ratios[-1]:.2f} times the published ones."
    overfits = {name: test[name] / row["train error"] for name, row in ours.items()}
    size = {name: row["size"] for name, row in ours.items()}
    wide, last = "C = (y, x-2 x-1 x x+1 x+2)", "D + E + (y,x) + (y',y,x)"
    names = {
        "test": test,
        "size": size,
        "overfits": overfits,
        "published": published,
        "C": wide,
        "last": last,
        "rank_correlation": rank_correlation,
    }
    return Section(text, {**names, "pairs": pairs})


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation.  Raises ValueError on fewer than three pairs."""
    from scipy.stats import spearmanr

    if len(a) < 3:
        raise ValueError(len(a))
    return float(spearmanr(a, b).statistic)


@section("nettalk-methods")
def methods_section(results: Results) -> Section:
    """Table 7.2."""
    path = by(reversed(found(results, "nettalk-path")), "rho1")
    others = [row for row in found(results, "nettalk-methods") if row["method"] not in ("threshold", "map")]
    ours = {**path, **by(others, "method")}
    published = paper_rows("sparse")

    def title(row: Row) -> str:
        return f"SBCD, rho1 = {row['rho1']:g}" if "rho1" in row else str(row["method"])

    def key(row: Row) -> Any:
        return row.get("rho1", row.get("method"))

    both = partial(beside, published, key)
    text = columns(ours.values(), {
        "method": title, "iterations": both(0, "iterations"),
        "minutes, published": lambda row: published[key(row)][1] if key(row) in published else None,
        "seconds, ours": "seconds", "training error %": both(2, "train error"),
        "test error %": both(3, "test error"), "weights of (y,x)": both(4, "active.state"),
        "weights of (y',y,x)": both(5, "active.pair"), "objective": "objective", "optimality": "optimality",
    })  # fmt: skip
    test = {name: row.get("test error") for name, row in ours.items()}
    active = {name: row.get("active") for name, row in ours.items()}
    rhos = [name for name in published if isinstance(name, float)]
    return Section(text, {"ours": ours, "test": test, "active": active, "rhos": rhos})


@drawn("nettalk-methods")
def draw_methods(axes: Any, results: Results) -> bool:
    """Draw error against time."""
    rows = [row for row in found(results, "nettalk-methods") if row.get("trace")]
    lines = {row["method"]: [(note["seconds"], note["test error"]) for note in row["trace"]] for row in rows}
    there = draw_lines(axes, lines, xscale="log", xlabel="processor time, seconds", ylabel="test error, %")
    if there:
        axes.set_ylim(top=min(60, axes.get_ylim()[1]))
    return there


@section("nettalk-norms")
def norms_section(results: Results) -> Section:
    """Return the errors of SGD under two norms."""
    chosen = {"rho of SGD": "rho", "training error %": "train error", "dev error %": "dev error"}
    rows = found(results, "nettalk-norms")
    return Section(columns(rows, {**chosen, "test error %": "test error", "optimality": "optimality"}))


@section("nettalk-path")
def path_section(results: Results) -> Section:
    """Figure 7.8."""
    rows, published = found(results, "nettalk-path"), paper_rows("sparse")
    seconds = {row["rho1"]: row["sweep"] for row in rows}
    minutes = {rho1: figures[1] for rho1, figures in published.items()}

    def share(row: Row) -> str:
        dense = seconds.get(0.0)
        return against(minutes[row["rho1"]] / minutes[0.0], row["sweep"] / dense if dense else None)

    text = columns(rows, {
        "rho1": "rho1",
        "active features": lambda row: against(sum(published[row["rho1"]][-2:]), row["active"]["all"]),
        "minutes of 30 sweeps, published": lambda row: minutes[row["rho1"]],
        "seconds of a sweep, ours": "sweep", "share of the time of rho1 = 0": share,
    })  # fmt: skip
    return Section(text, {"rows": rows, "seconds": seconds, "rank_correlation": rank_correlation})


@drawn("nettalk-path")
def draw_path(axes: Any, results: Results) -> bool:
    """Draw the time of a sweep against active features."""
    rows = [row for row in found(results, "nettalk-path") if "rho1" in row]
    points = [(row["active"]["all"], row["sweep"]) for row in rows]
    x, y = "active features (beside the points: rho1)", "seconds of a sweep"
    draw_lines(axes, {"": points}, "o-", xscale="log", xlabel=x, ylabel=y)
    for point, row in zip(points, rows, strict=True):
        axes.annotate(f"{row['rho1']:g}", point, xytext=(5, -9), textcoords="offset points")
    axes.set_ylim(bottom=0)
    return bool(rows)


@section("nettalk-weights")
def weights_section(results: Results) -> Section:
    """Figure 7.7."""
    maps = by(found(results, "nettalk-weights"), "map")
    vowels = [ALPHABET.index(letter) for letter in "aeiou"]
    pairs = (expanded(maps["bigrams"]["rows"]) != 0).sum(axis=1)
    silence = expanded(maps["unigrams"]["rows"])[:, maps["unigrams"]["phonemes"].index("-")]
    names = {"silence": silence, "of_vowels": pairs[vowels].mean(), "of_others": np.delete(pairs, vowels).mean()}
    return Section("", names)


@drawn("nettalk-weights", panels=2)
def draw_weights(axes: Any, results: Results) -> bool:
    """Draw the weights of (y,x), and the summed sizes of those of (y',y,x)."""
    rows, values = by(found(results, "nettalk-weights"), "map"), "weight of (y,x)"
    titles = {"unigrams": values, "bigrams": "sum of the sizes of (y',y,x)"}
    maps = {titles[name]: (row["rows"], row["phonemes"]) for name, row in rows.items()}
    return draw_maps(axes, maps, "phoneme", "letter", signed=values)
