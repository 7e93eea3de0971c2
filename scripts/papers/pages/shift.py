"""Tables of the page: Weights of examples on real data."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from scripts.papers._harness import Results, Row
from scripts.papers.page import Section, found, section, table
from scripts.papers.runs.shift import BIASED, TRUE, UNBIASED


class Means(NamedTuple):
    """Averages over the draws of a run: F1 on both parts, the deviation of that on testb, and the effective size."""

    dev: float
    test: float
    deviation: float
    size: float


def _means(results: Results, features: str, shifted: bool) -> dict[str, Means]:
    """Return the averages of each method."""
    groups: dict[str, list[Row]] = {}
    for row in found(results, "shift"):
        if (row["features"], row["shift"]) == (features, shifted):
            groups.setdefault(row["method"], []).append(row)
    means = {}
    for name, rows in groups.items():
        dev, test, size = (np.array([row[key] for row in rows]) for key in ("dev", "test", "effective size"))
        means[name] = Means(*map(float, (dev.mean(), test.mean(), test.std(), size.mean())))
    return means


def gap_closed(means: dict[str, Means], method: str) -> float:
    """Return the share of the gap between biased and unbiased training that a method closes on testb, in per cent."""
    low, high = means[BIASED].test, means[UNBIASED].test
    return 100 * (means[method].test - low) / (high - low)


def _section(features: str, shifted: bool, results: Results) -> Section:
    means = _means(results, features, shifted)
    lines = []
    for name, average in means.items():
        closed = [f"{gap_closed(means, name):.0f} %"] if shifted and name not in (UNBIASED, BIASED) else []
        lines.append([name, round(average.size), average.dev, average.test, average.deviation, *closed])
    head = ["training", "effective size", "testa", "testb", "+/-", *(["gap closed, testb"] if shifted else [])]
    return Section(table(head, lines))


section("shift-spelling", "shift")(partial(_section, "spelling", True))
section("shift-none", "shift")(partial(_section, "spelling", False))
section("shift-words", "shift")(partial(_section, "words", True))


@section("shift")
def shift_section(results: Results) -> Section:
    """The weighting with the highest F1 on testa."""
    shifted, none = (_means(results, "spelling", shifted) for shifted in (True, False))
    best = max((name for name in shifted if name not in (UNBIASED, BIASED, TRUE)), key=lambda name: shifted[name].dev)
    text = f"The highest F1 on testa under shift has *{best}*."
    return Section(text, {"best": best, "closed": gap_closed(shifted, best), "none": none, "BIASED": BIASED})
