"""The log of a training run: one JSON object an iteration, the same by ``crfseq fit`` and ``spacy train``."""

from __future__ import annotations

import json
import math

from ..types import StepReport


def log_line(
    component: str,
    iteration: int,
    seconds: float,
    report: StepReport,
    active: int | None,
    score: float | None,
    best: bool,
) -> str:
    """Return a line of the log, of an iteration from 1; `best` marks the model to keep so far."""
    entry = {
        "component": component,
        "iteration": iteration,
        "seconds": round(seconds, 4),
        "objective": finite(report.value),
        "loss": finite(report.loss),
        "grad_norm": finite(report.grad_norm),
        "active": active,
        "score": None if score is None else finite(score),
        "best": bool(best),
    }
    return json.dumps(entry, allow_nan=False) + "\n"


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for what it cannot."""
    return float(value) if math.isfinite(value) else None
