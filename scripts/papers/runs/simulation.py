"""Sokolovska (2010), chapters 4 and 5: the estimator weighted by (4.18), simulated and compared with its theory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scripts.papers._harness import Options, Row
from scripts.papers.cells import (
    DESIGNS,
    ESTIMATORS,
    WEIGHTED,
    Design,
    Theory,
    draw,
    errors,
    estimates,
    risks,
    target_of,
    theory,
)

CHUNK = 1000
"""Samples that are drawn at a time."""
PRECISE = (5_000, 100_000)
"""Sizes at which theory is checked."""
MARKS = (5, 25, 50, 75, 95)
"""Percentiles that boxes show."""


def simulation(options: Options, sizes: Mapping[int, int], strengths: Sequence[float], tuning: int) -> list[Row]:
    """Return a row for each design, size of the sample and estimator.

    sizes (Mapping[int, int]): Number of samples by their size.
    strengths (Sequence[float]): Candidates for the strength of the penalty, times n.
    tuning (int): Number of other samples on which one is chosen.
    """
    rows = []
    for design_name, design in DESIGNS.items():
        for estimator in ESTIMATORS if design_name == "shift" else ESTIMATORS[:2]:
            limit = theory(design, estimator)
            for n, most in [*sizes.items()][:: options.few(4, 1)]:
                rng = np.random.default_rng([options.seed, n])  # the same samples for all estimators
                repetitions = options.few(50, most)
                samples = draw(rng, design, n, tuning)
                strength = _best_strength(design, estimator, limit, samples, strengths)
                row = {"design": design_name, "estimator": estimator, "n": n, "repetitions": repetitions}
                rows.append({**row, **_summary(rng, design, estimator, limit, n, repetitions, strength)})
    return rows


def _best_strength(
    design: Design, estimator: str, limit: Theory, samples: tuple[Any, Any], strengths: Sequence[float]
) -> float:
    q, eta = target_of(design, estimator), design.eta
    tried = {rho: risks(estimates(design, samples, estimator, rho, limit.theta), q, eta).mean() for rho in strengths}
    return min(tried, key=lambda rho: tried[rho])


def _summary(
    rng: np.random.Generator,
    design: Design,
    estimator: str,
    limit: Theory,
    n: int,
    repetitions: int,
    strength: float,
) -> Row:
    q, eta = target_of(design, estimator), design.eta
    thetas = np.concatenate(
        [
            estimates(design, draw(rng, design, n, min(CHUNK, repetitions)), estimator, strength, limit.theta)
            for _ in range(math.ceil(repetitions / CHUNK))
        ]
    )
    figures = {
        "squared": n * ((thetas - limit.theta) ** 2).sum(axis=1),
        "excess": n * (risks(thetas, q, eta) - limit.risk),
        "error": errors(thetas, design.q, eta),
    }
    row: Row = {"rho n": strength, "theory": {"squared": limit.squared, "excess": limit.excess, "error": limit.error}}
    if estimator == WEIGHTED:
        finite = theory(design, estimator, n)
        row["finite theory"] = {"squared": finite.squared, "excess": finite.excess}
    row["bayes"] = design.bayes()
    row["target risk"] = float(risks(thetas, design.q, eta).mean())
    for name, values in figures.items():
        row[name] = {"mean": float(values.mean()), "percentiles": np.percentile(values, MARKS).tolist()}
    return row
