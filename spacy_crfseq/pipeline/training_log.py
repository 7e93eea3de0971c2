"""The log of a training run: one JSON object per iteration, in the same form for ``crfseq fit`` and ``spacy train``."""

from __future__ import annotations

import json

from ..prf import finite
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
    """Return the line of an iteration, counted from 1; `best` marks the best model so far."""
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
