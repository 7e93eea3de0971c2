"""Rows of the page's tables and its figures: Sokolovska (2010) on NetTalk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scripts.papers._harness import Results, Row
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.runs.nettalk import ALPHABET
from scripts.papers.tables import Section, by, paper_column, paper_rows, section, stored
from scripts.papers.weights import expanded


@section("nettalk-patterns")
def patterns(rows: list[Row], _: Results) -> Section:
    """Return the rows, and the ratios of our errors to those published."""
    ours = by([row for row in rows if "size" in row], "pattern")
    published = paper_rows("nettalk")
    pairs = [(row["test"], ours[name]["test error"]) for name, row in published.items() if name in ours]
    ratios, text = sorted(mine / theirs for theirs, mine in pairs), ""
    if ratios:
        text = f"Our test errors are {ratios[0]:.2f} to {ratios[-1]:.2f} times the published ones."
    names = {
        "overfits": {name: row["test error"] / row["train error"] for name, row in ours.items()},
        "published": published,
        "C": "C = (y, x-2 x-1 x x+1 x+2)",
        "last": "D + E + (y,x) + (y',y,x)",
        "rank_correlation": rank_correlation,
        "pairs": pairs,
    }
    return Section(rows, names, text)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation.  Raises ValueError on fewer than three pairs."""
    from scipy.stats import spearmanr

    if len(a) < 3:
        raise ValueError(len(a))
    return float(spearmanr(a, b).statistic)


@section("nettalk-methods")
def methods(rows: list[Row], results: Results) -> Section:
    """Return the rows of block descent, each rho1 a method, before those of other methods."""
    others = [row for row in rows if row["method"] not in ("threshold", "map")]
    ours = {**by(reversed(stored(results, "nettalk-path")), "rho1"), **by(others, "method")}
    published = paper_rows("sparse")

    def line(key: Any, row: Row) -> Row:
        title = f"SBCD, rho1 = {key:g}" if "rho1" in row else str(key)
        return {**row, "title": title, "published": published.get(key, {})}

    test, active = ({name: row.get(key) for name, row in ours.items()} for key in ("test error", "active"))
    rhos = [name for name in published if isinstance(name, float)]
    lines = [line(key, row) for key, row in ours.items()]
    return Section(lines, {"ours": ours, "test": test, "active": active, "rhos": rhos})


@drawn("nettalk-methods")
def draw_methods(axes: Any, results: Results) -> bool:
    """Draw error against time."""
    rows = [row for row in stored(results, "nettalk-methods") if row.get("trace")]
    lines = {row["method"]: [(note["seconds"], note["test error"]) for note in row["trace"]] for row in rows}
    there = draw_lines(axes, lines, xscale="log", xlabel="processor time, seconds", ylabel="test error, %")
    if there:
        axes.set_ylim(top=min(60, axes.get_ylim()[1]))
    return there


@section("nettalk-path")
def path(rows: list[Row], _: Results) -> Section:
    """Return the rows with the time of a sweep as a share of that without a norm."""
    whole = {row["rho1"]: row["sweep"] for row in rows}.get(0.0)
    minutes = paper_column("sparse", "minutes")

    def line(row: Row) -> Row:
        theirs = row["published"]
        return {
            **row,
            "published active": theirs["unigrams"] + theirs["bigrams"],
            "published share": theirs["minutes"] / minutes[0.0],
            "share": row["sweep"] / whole if whole else None,
        }

    return Section([line(row) for row in rows], {"rows": rows, "rank_correlation": rank_correlation})


@drawn("nettalk-path")
def draw_path(axes: Any, results: Results) -> bool:
    """Draw the time of a sweep against active features."""
    rows = [row for row in stored(results, "nettalk-path") if "rho1" in row]
    points = [(row["active"]["all"], row["sweep"]) for row in rows]
    x, y = "active features (beside the points: rho1)", "seconds of a sweep"
    draw_lines(axes, {"": points}, "o-", xscale="log", xlabel=x, ylabel=y)
    for point, row in zip(points, rows, strict=True):
        axes.annotate(f"{row['rho1']:g}", point, xytext=(5, -9), textcoords="offset points")
    axes.set_ylim(bottom=0)
    return bool(rows)


@section("nettalk-weights")
def weights(rows: list[Row], _: Results) -> Section:
    """Return the weights of silence, and how many label pairs vowels and other letters have."""
    maps = by(rows, "map")
    vowels = [ALPHABET.index(letter) for letter in "aeiou"]
    pairs = (expanded(maps["bigrams"]["rows"]) != 0).sum(axis=1)
    silence = expanded(maps["unigrams"]["rows"])[:, maps["unigrams"]["phonemes"].index("-")]
    names = {"silence": silence, "of_vowels": pairs[vowels].mean(), "of_others": np.delete(pairs, vowels).mean()}
    return Section(names=names)


@drawn("nettalk-weights", panels=2)
def draw_weights(axes: Any, results: Results) -> bool:
    """Draw the weights of (y,x), and the summed sizes of those of (y',y,x)."""
    rows, values = by(stored(results, "nettalk-weights"), "map"), "weight of (y,x)"
    titles = {"unigrams": values, "bigrams": "sum of the sizes of (y',y,x)"}
    maps = {titles[name]: (row["rows"], row["phonemes"]) for name, row in rows.items()}
    return draw_maps(axes, maps, "phoneme", "letter", signed=values)
