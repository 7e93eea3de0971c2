"""Sokolovska (2010), chapters 4 and 5: the estimator weighted by (4.18), simulated and compared with its theory."""

from __future__ import annotations

import math

import numpy as np

from scripts.papers._harness import Options, Row, experiment
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

REPETITIONS, CHUNK = 1000, 1000
PRECISE, MORE = (5_000, 100_000), 10
"""Sizes at which theory is checked, with so many times the repetitions."""
SIZES = (10, 20, 30, 50, 100, 200, 500, 1000, 2000, *PRECISE)
STRENGTHS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Candidates for rho_n, as multiples of 1 / n; one is chosen for each n on draws of its own."""
TUNING = 200
MARKS = (5, 25, 50, 75, 95)
"""Percentiles that boxes show."""


@experiment(
    "simulation", "Simulated documents: the estimator weighted by (4.18) and the ordinary one against theory", 1
)
def simulation(options: Options) -> list[Row]:
    """Return a row for each design, size of the sample and estimator."""
    rows = []
    for design_name, design in DESIGNS.items():
        for estimator in ESTIMATORS if design_name == "shift" else ESTIMATORS[:2]:
            limit = theory(design, estimator)
            for n in SIZES[:: options.few(4, 1)]:
                rng = np.random.default_rng([options.seed, n])  # the same samples for all estimators
                repetitions = options.few(50, REPETITIONS * (MORE if n in PRECISE else 1))
                row = {"design": design_name, "estimator": estimator, "n": n, "repetitions": repetitions}
                rows.append({**row, **_summary(rng, design, estimator, limit, n, repetitions)})
    return rows


def _summary(rng: np.random.Generator, design: Design, estimator: str, limit: Theory, n: int, repetitions: int) -> Row:
    q, eta = target_of(design, estimator), design.eta
    tuning = draw(rng, design, n, TUNING)
    tried = {rho: risks(estimates(design, tuning, estimator, rho, limit.theta), q, eta).mean() for rho in STRENGTHS}
    strength = min(tried, key=lambda rho: tried[rho])
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
