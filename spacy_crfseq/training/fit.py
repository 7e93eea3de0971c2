"""The training loop outside spaCy: iterate, evaluate, keep the best parameters; a callback gets every `Progress`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..optimizers.batch import BatchState
from ..types import Floats, Objective, Optimizer, StepReport

ONLINE_PATIENCE = 5
"""The default patience of online optimizers."""

Scores: TypeAlias = dict[str, Any] | None


class Progress(NamedTuple):
    """State of a run after an iteration.

    iteration (int): Iterations so far, from 1.
    seconds (float): Wall time since the start, including evaluation.
    score (float | None): Development score, higher is better; None if it was not computed.
    best (bool): Whether this is the best score so far.
    active (int | None): Number of non-zero weights; None without an evaluation.
    """

    iteration: int
    seconds: float
    report: StepReport
    score: float | None
    best: bool
    active: int | None = None


class FitResult(NamedTuple):
    """Outcome of a run.

    best, last (Floats): [D] parameters with the best development score, if any was computed, and the final parameters.
    history (list[Progress]): One entry per iteration.
    reason (str): Reason for the end of the run.
    scores (tuple[Scores, Scores]): Those of `best` and `last` on the dev corpus, as `nlp.evaluate` names them; None
        where Docs are needed.
    """

    best: Floats
    last: Floats
    history: list[Progress]
    reason: str
    scores: tuple[Scores, Scores] = (None, None)

    @property
    def best_score(self) -> float | None:
        """The highest development score, None if none was computed."""
        scores = [progress.score for progress in self.history if progress.score is not None]
        return max(scores) if scores else None


def fit(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    *,
    evaluate: Callable[[Floats], float] | None = None,
    evaluate_every: int = 1,
    patience: int | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> FitResult:
    """Train from `theta` until the optimizer converges, patience runs out, or Ctrl-C.

    evaluate (Callable): Maps parameters to a development score.
    patience (int | None): Evaluations without improvement before stopping; 0 never stops, None means
        `ONLINE_PATIENCE` with an online optimizer and 0 with another.
    After an interrupt the best parameters so far are returned.
    """
    if patience is None:
        patience = ONLINE_PATIENCE if optimizer.online else 0
    state = optimizer.start(theta)
    iterate, export = partial(optimizer.iterate, objective, state), partial(optimizer.export, state)
    if isinstance(state, BatchState):  # it holds the parameters as they are exported; a copy may cost a tenth of a step
        return repeat(iterate, lambda out: state.theta, theta, evaluate, evaluate_every, patience, callback)
    return repeat(iterate, export, theta, evaluate, evaluate_every, patience, callback)


def repeat(
    iterate: Callable[[], StepReport],
    export: Callable[[Floats], Floats | None],
    theta: Floats,
    evaluate: Callable[[Floats], float] | None,
    evaluate_every: int,
    patience: int,
    callback: Callable[[Progress], None] | None,
    score: float = -np.inf,
) -> FitResult:
    """Iterate until a report says `converged`, patience runs out, or Ctrl-C; keep the best parameters.

    export (Callable): Writes the parameters for prediction to an array like theta [D], or returns its own array.
    score (float): Score of theta itself, the best one until another exceeds it.
    The other arguments are those of `fit`.
    """
    run = _Run(export, theta, evaluate, evaluate_every, patience, score)
    reason = ""
    try:
        while not reason:
            report = iterate()
            progress = run.record(report)
            if callback is not None:
                callback(progress)
            reason = report.message if report.converged else run.out_of_patience()
    except KeyboardInterrupt:
        reason = "interrupted"
    last = run.current()
    return FitResult(last if run.best is None else run.best, last, run.history, reason)


class _Run:
    """Development scores of a run and the best parameters."""

    def __init__(
        self,
        export: Callable[[Floats], Floats | None],
        theta: Floats,
        evaluate: Callable[[Floats], float] | None,
        every: int,
        patience: int,
        score: float,
    ) -> None:
        self.export, self.evaluate, self.every, self.patience = export, evaluate, max(1, every), patience
        self.history: list[Progress] = []
        self.best: Floats | None = theta.copy() if score > -np.inf else None
        self._room, self._best_score = np.empty_like(theta), score
        self._without_gain, self._started = 0, perf_counter()

    def current(self) -> Floats:
        """Return the current parameters for prediction [D]; the next step may change them."""
        own = self.export(self._room)
        return self._room if own is None else own

    def record(self, report: StepReport) -> Progress:
        iteration = len(self.history) + 1
        score, best, active = None, False, None
        due = iteration % self.every == 0 or report.converged
        if due and np.isfinite(report.value):
            current = self.current()
            active = int(np.count_nonzero(current != 0))  # twice as fast as without the comparison
        if self.evaluate is not None and active is not None:
            score = self.evaluate(current)
            best = score > self._best_score
            self._without_gain = 0 if best else self._without_gain + 1
            if best:
                self._best_score, self.best = score, current.copy()
        progress = Progress(iteration, perf_counter() - self._started, report, score, best, active)
        self.history.append(progress)
        return progress

    def out_of_patience(self) -> str:
        if self.patience and self._without_gain >= self.patience:
            return f"no better score in {self.patience} evaluations"
        return ""
