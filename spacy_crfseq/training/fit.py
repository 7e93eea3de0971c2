"""The training loop outside spaCy: iterate, evaluate, keep the best parameters.  A callback gets every `Progress`."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..errors import ClusterError, ConfigError
from ..types import BY_OPTIMIZER, BatchObjective, Floats, Optimizer, Schedule, StepReport

DevScores: TypeAlias = dict[str, Any] | None


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
    scores_of_best, scores_of_last (DevScores): On the dev corpus, as `nlp.evaluate` names them; None without one, or
        where Docs are needed.
    fitted_to_best, fitted_to_last (dict): Settings of the component that were fitted to these parameters on the dev
        corpus, such as a temperature.
    """

    best: Floats
    last: Floats
    history: list[Progress]
    reason: str
    scores_of_best: DevScores = None
    scores_of_last: DevScores = None
    fitted_to_best: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    fitted_to_last: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    def __repr__(self) -> str:
        score = "" if self.best_score is None else f"best score {self.best_score:.4f}; "
        return f"<FitResult: {len(self.history)} iterations; {self.reason}; {score}{len(self.best):,} parameters>"

    @property
    def best_iteration(self) -> Progress:
        """The iteration with the highest development score, the last one if none was computed."""
        return next((progress for progress in reversed(self.history) if progress.best), self.history[-1])

    @property
    def best_score(self) -> float | None:
        """The highest development score, None if none was computed."""
        scores = [progress.score for progress in self.history if progress.score is not None]
        return max(scores) if scores else None


class RunState(NamedTuple):
    """A run after an iteration, from which it can continue.

    optimizer (Any): State of the optimizer.
    without_gain (int): The number of scores since the best.
    """

    optimizer: Any
    history: list[Progress]
    best: Floats | None
    best_score: float
    without_gain: int

    def scored(self, weights: Floats, score: float) -> RunState:
        """Return the run after a score of these weights [D]."""
        if score > self.best_score:
            return self._replace(best=weights.copy(), best_score=score, without_gain=0)
        return self._replace(without_gain=self.without_gain + 1)


class Saver(Protocol):
    """Stores a run now and then, such as `training.checkpoint.Checkpoint`."""

    def save(self, run: RunState, *, now: bool = False) -> None:
        """Store the run if it is time to, or `now`."""


def fit(
    objective: BatchObjective,
    optimizer: Optimizer,
    theta: Floats,
    *,
    evaluate: Callable[[Floats], float] | None = None,
    schedule: Schedule = BY_OPTIMIZER,
    callback: Callable[[Progress], None] | None = None,
    saver: Saver | None = None,
    begun: RunState | None = None,
) -> FitResult:
    """Train from `theta` until the optimizer converges, patience runs out, or Ctrl-C.

    Each iteration is a call of ``optimizer.iterate(objective, ...)``.  Optimizers may bypass the losses of the
    objective: where a loss provides "log_likelihood" or "softmax_margin", AdaGrad and others use kernels that compute
    the same in less time, see `types.Loss`.

    evaluate (Callable): Maps parameters to a development score.
    schedule (Schedule): When it is called, and when the run stops.
    saver (Saver | None): Gets the state after each iteration, and after the loss of a cluster.
    begun (RunState | None): A run to continue; without iterations, it may say the score of theta itself.
    After an interrupt the best parameters so far are returned.
    RAISES ClusterError: If the objective is lost, after its state was saved.
    RAISES ConfigError: If parameters are not finite at the end, and there are none with a best score.
    """
    every, patience = schedule.filled(optimizer)
    run = begun or RunState(optimizer.start(theta), [], None, -np.inf, 0)
    started = perf_counter() - (run.history[-1].seconds if run.history else 0.0)

    try:
        while not (reason := _reason_to_stop(run, patience, schedule.iterations)):
            report, iteration = optimizer.iterate(objective, run.optimizer), len(run.history) + 1
            value, active, before = None, None, run.best_score
            due = iteration % every == 0 or report.converged
            if due and np.isfinite(report.value):
                weights = optimizer.export(run.optimizer).astype(theta.dtype, copy=False)
                active = int(np.count_nonzero(weights != 0))  # twice as fast as without the comparison
                if evaluate is not None:
                    value = evaluate(weights)
                    run = run.scored(weights, value)
            best = run.best_score > before
            run.history.append(Progress(iteration, perf_counter() - started, report, value, best, active))
            if callback is not None:
                callback(run.history[-1])
            if saver is not None:
                saver.save(run)
    except KeyboardInterrupt:
        reason = "interrupted"
    except ClusterError:
        if saver is not None:
            saver.save(run, now=True)
        raise
    last = optimizer.export(run.optimizer).astype(theta.dtype, copy=False)
    if run.best is None and not np.isfinite(last).all():
        raise ConfigError(f"Training has no result: {reason}. No weights are kept.")
    return FitResult(last if run.best is None else run.best, last, run.history, reason)


def _reason_to_stop(run: RunState, patience: int, iterations: int | None) -> str:
    if run.history and run.history[-1].report.converged:
        return run.history[-1].report.message
    if run.history and patience and run.without_gain >= patience:
        return f"no better score in {patience} evaluations"
    if iterations is not None and len(run.history) >= iterations:
        return "all iterations that were asked for"
    return ""
