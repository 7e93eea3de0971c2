"""Limited-memory BFGS with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 7.5; `history` has the vector-free form in which the direction is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError
from ..types import Floats, Objective, StepReport
from .batch import OPTIMUM, BatchMethod, BatchState, evaluate, search
from .history import History

LONGEST = 24
"""Most pairs in a history of automatic length."""
CURVATURE = 0.9
"""The slope at the end of a step is at most this fraction of the slope at its beginning."""


@dataclass(kw_only=True)
class LBFGSState(BatchState):
    """A run in progress, with what is known about the curvature."""

    history: History


@dataclass(frozen=True)
class LBFGS(BatchMethod):
    """L-BFGS (registered as ``spacy_crfseq.LBFGS.v1``).

    max_iterations (int): Upper bound on the iterations of a run.
    tolerance (float): Stop when the objective fell by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||).
    history (int): Pairs of steps and gradient changes kept, m.  More make fewer iterations, which take longer where
        there are millions of parameters; 0 takes from 4 to 24, as many as fit into 64 MiB.
    RAISES ConfigError: On a setting out of range.
    """

    history: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history < 0:
            raise ConfigError("LBFGS: history must be 0 or more.")

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: differentiable ones."""
        return frozenset({"smooth"})

    def start(self, theta: Floats) -> LBFGSState:
        """Return the state of a run that begins at `theta`."""
        return LBFGSState(theta.copy(), history=History.like(theta, self.history, LONGEST))

    def iterate(self, objective: Objective, state: LBFGSState) -> StepReport:
        """Run one iteration: direction, line search, update of the history."""
        evaluations, history, threads = 0, state.history, objective.n_threads
        if state.point is None:
            history.begin(state.begin(evaluate(objective, state.theta, state.take())).gradient, threads)
            state.gradient_norm = history.gradient_norm
            evaluations = 1
        if state.done:
            return state.report(0)
        direction = state.take()
        slope = history.direction(direction, threads)
        first_step = 1.0 if history.used else 1.0 / max(1.0, (-slope) ** 0.5)
        found, _, count = search(objective, state, direction, slope, first_step, CURVATURE)
        evaluations += count
        state.free.append(direction)
        if found is None:
            if not history.used:
                state.done = OPTIMUM
            history.forget()  # it may be at fault: begin again with the gradient
            return state.report(evaluations)
        history.remember(state.theta, found.theta, history.gradient, found.gradient, found.gradient, threads)
        state.gradient_norm = history.gradient_norm
        state.move(found)
        state.done = self.reason_to_stop(state, threads)
        return state.report(evaluations)
