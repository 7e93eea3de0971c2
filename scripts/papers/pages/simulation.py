"""Rows of the page's tables and its figures: Sokolovska (2010), chapters 4 and 5."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from scripts.papers._harness import Results, Row
from scripts.papers.cells import ESTIMATORS, ORDINARY, WEIGHTED
from scripts.papers.figures import COLOURS, drawn
from scripts.papers.runs.simulation import PRECISE
from scripts.papers.tables import Section, by, section, stored

NAMES = {"ESTIMATORS": ESTIMATORS, "ORDINARY": ORDINARY, "WEIGHTED": WEIGHTED, "PRECISE": PRECISE}


def _risks(design: str, estimators: tuple[str, ...], rows: list[Row], _: Results) -> Section:
    """Return errors and excess risks, and their ratios to theory."""
    runs = by([row for row in rows if row["design"] == design], "estimator", "n")
    lines = [
        {**row, "ratio": {name: f"{_ratio(row, name):.3f}" for name in ("squared", "excess")}}
        for key in itertools.product(estimators, PRECISE)
        if (row := runs.get(key))
    ]

    def near(estimator: str, n: int, against: str = "theory") -> bool:
        return all(abs(_ratio(runs[estimator, n], name, against) - 1) <= 0.05 for name in ("squared", "excess"))

    return Section(lines, {**NAMES, "near": near})


def _ratio(row: Row, name: str, against: str = "theory") -> float:
    return float(row[name]["mean"] / row[against][name])


for _name, _design, _estimators in (("plain", "misspecified", ESTIMATORS[:2]), ("shifted", "shift", ESTIMATORS)):
    section(f"simulation-{_name}")(partial(_risks, _design, _estimators))


@section("simulation")
def levels(rows: list[Row], _: Results) -> Section:
    """Return the Bayes errors and the error of the best model, in per cent."""
    designs = by(rows, "design")
    right, wrong = designs["well specified"], designs["misspecified"]
    figures = (
        ("Bayes error, misspecified, %", 1.7, 100 * wrong["bayes"]),
        ("error of the best logistic model, %", 9.4, 100 * wrong["theory"]["error"]),
        ("Bayes error, well specified, %", 6.3, 100 * right["bayes"]),
    )
    return Section({"about": about, "published": published, "ours": ours} for about, published, ours in figures)


@section("simulation-well-specified")
def errors(rows: list[Row], _: Results) -> Section:
    """Return the mean errors of the well specified design."""
    runs = by([row for row in rows if row["design"] == "well specified"], "estimator", "n")
    return Section(names={**NAMES, "error": {key: row["error"]["mean"] for key, row in runs.items()}})


LEGEND: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2, "fontsize": 8}
"""Above the panel, where no box is."""


def _boxes(axis: Any, results: Results, design: str, name: str, estimators: tuple[str, ...], most: int) -> bool:
    """Draw a box for each size and estimator: quartiles, 5 % and 95 %; theory as dashed lines."""
    rows = [row for row in stored(results, "simulation") if row["design"] == design and row["n"] <= most]
    sizes = sorted({row["n"] for row in rows})
    for i, estimator in enumerate(estimators):
        own, colour = [row for row in rows if row["estimator"] == estimator], COLOURS[i]
        boxes = [
            dict(zip(("whislo", "q1", "med", "q3", "whishi"), row[name]["percentiles"], strict=True)) for row in own
        ]
        places = [sizes.index(row["n"]) + 0.26 * (i - (len(estimators) - 1) / 2) for row in own]
        style = {"color": colour, "linewidth": 1}
        styles = dict.fromkeys(("boxprops", "medianprops", "whiskerprops", "capprops"), style)
        axis.bxp(boxes, positions=places, widths=0.2, showfliers=False, manage_ticks=False, **styles)
        axis.plot([], [], color=colour, label=estimator)
        if own and name != "error":
            axis.axhline(own[0]["theory"][name], color=colour, linestyle="--", linewidth=1)
    axis.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes], rotation=60)
    axis.set(xlabel="n")
    return bool(rows)


@drawn("simulation", panels=2)
def draw_simulation(axes: Any, results: Results) -> bool:
    """Draw figures 5.1 and 5.2."""
    return _draw_pair(axes, results, "misspecified", ESTIMATORS[:2])


@drawn("simulation-shift", panels=2)
def draw_shift(axes: Any, results: Results) -> bool:
    """Draw figures 5.3 and 5.4."""
    return _draw_pair(axes, results, "shift", ESTIMATORS)


def _draw_pair(axes: Any, results: Results, design: str, estimators: tuple[str, ...]) -> bool:
    there = False
    for axis, name, label in zip(axes, ("squared", "excess"), ("n squared error", "n excess risk"), strict=True):
        there = _boxes(axis, results, design, name, estimators, PRECISE[-1])
        axis.set(yscale="log", ylabel=label)
    axes[0].legend(**LEGEND)
    return there


@drawn("simulation-well-specified")
def draw_well_specified(axis: Any, results: Results) -> bool:
    """Draw figure 5.5."""
    there = _boxes(axis, results, "well specified", "error", ESTIMATORS[:2], PRECISE[0])
    axis.set(ylabel="probability of error")
    axis.legend(**LEGEND)
    return there
