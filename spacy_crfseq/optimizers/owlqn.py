"""Orthant-wise limited-memory quasi-Newton: L-BFGS for objectives with an L1 norm.

Andrew & Gao (2007), "Scalable training of L1-regularized log-linear models".  Within an orthant the L1 norm is linear,
so L-BFGS works there: the direction starts from the pseudo-gradient, the subgradient of least norm (eq. 4); what of it
is no descent is set to zero (the projection onto the pseudo-gradient's orthant); and a step's elements end where they
would leave the orthant, in a line search for sufficient decrease.  The curvature is that of the smooth part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..types import NONE, Floats, Objective, StepReport
from .batch import OPTIMUM, BatchMethod, BatchState, add_scaled, dot, evaluate, pseudo_gradient, shared
from .history import History
from .line_search import Point

LONGEST = 8
"""Most pairs in a history of automatic length: older ones are from other orthants, and more of them cost steps."""
DECREASE, SHORTER = 1e-4, 0.5
MAX_EVALUATIONS = 20


@dataclass(kw_only=True)
class OWLQNState(BatchState):
    """A run in progress, with what is known about the curvature; the history's gradient is the pseudo-gradient."""

    history: History


@dataclass(frozen=True)
class OWLQN(BatchMethod):
    """OWL-QN (registered as ``spacy_crfseq.OWLQN.v1``).

    Weights that the L1 norm holds at zero are exactly zero.  Without an L1 norm it is L-BFGS with a simpler line
    search, and LBFGS the better choice.

    max_iterations (int): Upper bound on the iterations of a run; it takes more than L-BFGS.
    tolerance (float): Stop when the objective fell by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||pseudo-gradient|| is below this times max(1, ||theta||).
    history (int): Pairs of steps and gradient changes kept; 0 takes from 4 to 8, as many as fit into 64 MiB.
    RAISES ConfigError: On a setting out of range.
    """

    max_iterations: int = 1000
    history: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history < 0:
            raise ConfigError("OWLQN: history must be 0 or more.")

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: elastic nets."""
        return frozenset({"elastic"})

    def start(self, theta: Floats) -> OWLQNState:
        """Return the state of a run that begins at `theta`."""
        return OWLQNState(theta.copy(), history=History.like(theta, self.history, LONGEST))

    def iterate(self, objective: Objective, state: OWLQNState) -> StepReport:
        """Run one iteration: direction, line search within the orthant, update of the history."""
        evaluations, history, threads = 0, state.history, objective.n_threads
        l1 = (objective.regularizer.strengths or NONE).l1
        if state.point is None:
            first = state.begin(evaluate(objective, state.theta, state.take()))
            pseudo = state.take()
            pseudo_gradient(first, l1, pseudo, threads)
            history.begin(pseudo, threads)
            state.free.append(pseudo)
            state.gradient_norm = history.gradient_norm
            evaluations = 1
        if state.done:
            return state.report(0)
        direction = state.take()
        _direction(history, direction, bool(l1), threads)
        found, count = _search(objective, state, direction, bool(l1))
        evaluations += count
        state.free.append(direction)
        if found is None:
            if not history.used:
                state.done = OPTIMUM
            history.forget()  # it may be at fault: begin again with the gradient
            return state.report(evaluations)
        old, pseudo = state.current, state.take()
        pseudo_gradient(found, l1, pseudo, threads)
        history.remember(old.theta, found.theta, old.gradient, found.gradient, pseudo, threads)
        state.free.append(pseudo)
        state.gradient_norm = history.gradient_norm
        state.move(found)
        state.done = self.reason_to_stop(state, threads)
        return state.report(evaluations)


def _direction(history: History, out: Floats, has_corners: bool, n_threads: int) -> None:
    """Write the direction to out [D], where there are corners zero in elements that are no descent."""
    from ..kernels import penalties

    history.direction(out, n_threads)
    if not has_corners:
        return
    slope = sum(shared(lambda p: penalties.align(out[p], history.gradient[p]), len(out), n_threads))
    if not slope < 0:
        history.forget()
        np.negative(history.gradient, out)


def _search(objective: Objective, state: OWLQNState, direction: Floats, has_corners: bool) -> tuple[Point | None, int]:
    """Return the first point along the direction [D] that is low enough, None if there is none; and the evaluations."""
    old, history = state.current, state.history
    advance = _within_orthant if has_corners else _straight
    step = 1.0 if history.used else 1.0 / max(1.0, history.gradient_norm)
    for count in range(1, MAX_EVALUATIONS + 1):
        theta = state.take()
        slope = advance(old.theta, step, direction, history.gradient, theta, objective.n_threads)
        point = evaluate(objective, theta, state.take())
        if point.value <= old.value + DECREASE * min(slope, 0.0):
            return point, count
        state.give(point)
        step *= SHORTER
    return None, MAX_EVALUATIONS


Advance = Callable[[Floats, float, Floats, Floats, Floats, int], float]


def _within_orthant(
    theta: Floats, step: float, direction: Floats, pseudo: Floats, out: Floats, n_threads: int
) -> float:
    """Write the end of a step to out [D]; return the decrease that the pseudo-gradient promises, as a slope."""
    from ..kernels import penalties

    def part(p: slice) -> float:
        return float(penalties.orthant_step(theta[p], step, direction[p], pseudo[p], out[p]))

    return sum(shared(part, len(out), n_threads))


def _straight(theta: Floats, step: float, direction: Floats, pseudo: Floats, out: Floats, n_threads: int) -> float:
    """Do what `_within_orthant` does where there are no orthants."""
    add_scaled(theta, step, direction, out, n_threads)
    return step * dot(pseudo, direction, n_threads)
