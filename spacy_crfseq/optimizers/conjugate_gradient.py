"""Nonlinear conjugate gradients with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 5.4: the direction is ``-g + beta d``, d the direction before, with::

    Fletcher & Reeves (1964)           beta = (g . g) / (g' . g')                     eq. 5.41a
    Polak & Ribiere (1969)             beta = max(0, g . (g - g') / (g' . g'))        eq. 5.44 and 5.45 (PR+)

g' being the gradient before.  It begins again with the gradient where two gradients are far from orthogonal (Powell's
restart, eq. 5.52) or the direction is none of descent.  It keeps four arrays, less than L-BFGS with two pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, suggest
from ..types import Floats, Objective, StepReport
from .batch import OPTIMUM, BatchMethod, BatchState, add_scaled, dot, evaluate, norm, search
from .line_search import Point

UPDATES = ("PR", "FR")
CURVATURE = 0.1
"""Directions stay conjugate only if a line search is accurate; with less than 0.5, all are of descent."""
ORTHOGONAL = 0.2
"""Gradients are far from orthogonal where their cosine, so to say, is above (Powell's restart)."""


@dataclass(kw_only=True)
class ConjugateGradientState(BatchState):
    """A run in progress.

    direction (Floats): [D] of the last step; empty at the beginning and after a restart.
    expected (float): The last step times its slope, from which the next step's length is guessed (eq. 3.60).
    """

    direction: Floats
    expected: float = 0.0


@dataclass(frozen=True)
class ConjugateGradient(BatchMethod):
    """Conjugate gradients (registered as ``spacy_crfseq.ConjugateGradient.v1``).

    max_iterations (int): Upper bound on the iterations of a run.
    tolerance (float): Stop when the objective fell by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||).
    update (str): "PR" for Polak and Ribiere, in its variant PR+, or "FR" for Fletcher and Reeves, mostly slower.
    RAISES ConfigError: On a setting out of range.
    """

    update: str = "PR"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update not in UPDATES:
            raise ConfigError(
                f"ConjugateGradient: update = {self.update!r} is unknown. " + suggest(self.update, UPDATES)
            )

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: differentiable ones."""
        return frozenset({"smooth"})

    def start(self, theta: Floats) -> ConjugateGradientState:
        """Return the state of a run that begins at `theta`."""
        return ConjugateGradientState(theta.copy(), direction=theta[:0].copy())

    def iterate(self, objective: Objective, state: ConjugateGradientState) -> StepReport:
        """Run one iteration: line search along the direction, and the next direction."""
        evaluations, threads = 0, objective.n_threads
        if state.point is None:
            state.gradient_norm = norm(state.begin(evaluate(objective, state.theta, state.take())).gradient, threads)
            evaluations = 1
            state.done = "" if state.gradient_norm else OPTIMUM
        if state.done:
            return state.report(evaluations)
        old = state.current
        slope = dot(state.direction, old.gradient, threads) if len(state.direction) else 0.0
        restarted = not slope < 0
        if restarted:
            _restart(state, old)
            slope = -(state.gradient_norm**2)
        step = 1.0 / max(1.0, state.gradient_norm) if not state.expected else state.expected / slope
        found, length, count = search(objective, state, state.direction, slope, step, CURVATURE)
        evaluations += count
        if found is None:
            if restarted:
                state.done = OPTIMUM
            state.direction, state.expected = state.direction[:0], 0.0
            return state.report(evaluations)
        state.expected = length * slope
        self._turn(state, old, found, threads)
        state.move(found)
        state.done = self.reason_to_stop(state, threads)
        return state.report(evaluations)

    def _turn(self, state: ConjugateGradientState, old: Point, new: Point, n_threads: int) -> None:
        """Compute the direction that starts from the new point."""
        square, before = dot(new.gradient, new.gradient, n_threads), state.gradient_norm**2
        product = dot(new.gradient, old.gradient, n_threads)
        state.gradient_norm = float(np.sqrt(square))
        beta = square / before if self.update == "FR" else max(0.0, (square - product) / before)
        if abs(product) >= ORTHOGONAL * square:
            beta = 0.0
        direction = state.direction
        add_scaled(_negative(new.gradient, state.take()), beta, direction, direction, n_threads)


def _negative(gradient: Floats, out: Floats) -> Floats:
    return np.negative(gradient, out)


def _restart(state: ConjugateGradientState, point: Point) -> None:
    """Let the direction be that of steepest descent."""
    if not len(state.direction):
        state.direction = np.empty_like(point.gradient)
    _negative(point.gradient, state.direction)
