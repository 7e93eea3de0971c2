"""Rows of the page's tables: Weights of examples on real data."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from scripts.papers._harness import Results, Row
from scripts.papers.runs.shift import BIASED, TRUE, UNBIASED
from scripts.papers.tables import Section, section


class Means(NamedTuple):
    """Averages over the draws of a run: F1 on both parts, the deviation of that on testb, and the effective size."""

    dev: float
    test: float
    deviation: float
    size: float


def _means(rows: list[Row], features: str, shifted: bool) -> dict[str, Means]:
    """Return the averages of each method."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if (row["features"], row["shift"]) == (features, shifted):
            groups.setdefault(row["method"], []).append(row)
    means = {}
    for name, draws in groups.items():
        dev, test, size = (np.array([row[key] for row in draws]) for key in ("dev", "test", "effective size"))
        means[name] = Means(*map(float, (dev.mean(), test.mean(), test.std(), size.mean())))
    return means


def gap_closed(means: dict[str, Means], method: str) -> float:
    """Return the share of the gap between biased and unbiased training that a method closes on testb, in per cent."""
    low, high = means[BIASED].test, means[UNBIASED].test
    return 100 * (means[method].test - low) / (high - low)


def _averages(features: str, shifted: bool, rows: list[Row], _: Results) -> Section:
    means = _means(rows, features, shifted)
    lines = []
    for name, average in means.items():
        line = {"method": name, **average._asdict(), "size": round(average.size)}
        if shifted and name not in (UNBIASED, BIASED):
            line["closed"] = f"{gap_closed(means, name):.0f} %"
        lines.append(line)
    return Section(lines)


section("shift-spelling")(partial(_averages, "spelling", True))
section("shift-none")(partial(_averages, "spelling", False))
section("shift-words")(partial(_averages, "words", True))


@section("shift")
def best_weighting(rows: list[Row], _: Results) -> Section:
    """Return the weighting with the highest F1 on testa."""
    shifted, none = (_means(rows, "spelling", shifted) for shifted in (True, False))
    best = max((name for name in shifted if name not in (UNBIASED, BIASED, TRUE)), key=lambda name: shifted[name].dev)
    names = {"best": best, "closed": gap_closed(shifted, best), "none": none, "BIASED": BIASED}
    return Section([], names, f"The highest F1 on testa under shift has *{best}*.")
