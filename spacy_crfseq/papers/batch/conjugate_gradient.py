"""Nonlinear conjugate gradients with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 5.4: the direction is ``-g + beta d``, with the previous direction d and::

    Fletcher & Reeves (1964)           beta = (g . g) / (g' . g')                     eq. 5.41a
    Polak & Ribiere (1969)             beta = max(0, g . (g - g') / (g' . g'))        eq. 5.44 and 5.45 (PR+)

where g' is the previous gradient.  The method restarts with the gradient if two gradients are far from orthogonal
(Powell's restart, eq. 5.52) or the direction is not a descent direction.  It stores four arrays, fewer than L-BFGS with
two pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...errors import ConfigError, suggest
from ...optimizers.batch import OPTIMUM, BatchMethod, BatchState, Point, add_scaled, dot, norm
from ...optimizers.line_search import search
from ...types import Floats, Objective

UPDATES = ("PR", "FR")
CURVATURE = 0.1
"""Directions stay conjugate only with an accurate line search; below 0.5, all are descent directions."""
ORTHOGONAL = 0.2
"""Gradients are far from orthogonal if their normalised product exceeds this (Powell's restart)."""


@dataclass(kw_only=True)
class ConjugateGradientState(BatchState):
    """A run in progress.

    direction (Floats): [D] of the last step; empty at the start and after a restart.
    expected (float): The last step times its slope, from which the length of the next step is estimated (eq. 3.60).
    """

    direction: Floats
    expected: float = 0.0


@dataclass(frozen=True)
class ConjugateGradient(BatchMethod[ConjugateGradientState]):
    """Conjugate gradients (registered as ``spacy_crfseq.ConjugateGradient.v1``).

    update (str): "PR" for Polak and Ribiere, variant PR+, or "FR" for Fletcher and Reeves, which is mostly slower.
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"smooth"})
    update: str = "PR"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update not in UPDATES:
            known = suggest(self.update, UPDATES)
            raise ConfigError(f"ConjugateGradient: update = {self.update!r} is unknown. {known}")

    def start(self, theta: Floats) -> ConjugateGradientState:
        return ConjugateGradientState(theta.copy(), direction=theta[:0].copy())

    def _begin(self, objective: Objective, state: ConjugateGradientState) -> None:
        super()._begin(objective, state)
        state.gradient_norm = norm(state.current.gradient, objective.n_threads)
        state.done = "" if state.gradient_norm else OPTIMUM

    def _step(self, objective: Objective, state: ConjugateGradientState) -> tuple[Point | None, int]:
        old, threads = state.current, objective.n_threads
        slope = dot(state.direction, old.gradient, threads) if len(state.direction) else 0.0
        restarted = not slope < 0
        if restarted:
            state.direction = np.negative(old.gradient, state.direction if len(state.direction) else None)
            slope = -(state.gradient_norm**2)
        step = 1.0 / max(1.0, state.gradient_norm) if not state.expected else state.expected / slope
        found, length, count = search(objective, state, state.direction, slope, step, CURVATURE)
        if found is None:
            if restarted:
                state.done = OPTIMUM
            state.direction, state.expected = state.direction[:0], 0.0
        else:
            state.expected = length * slope
            self._turn(state, old, found, threads)
        return found, count

    def _turn(self, state: ConjugateGradientState, old: Point, new: Point, n_threads: int) -> None:
        """Compute the direction that starts from the new point."""
        square, before = dot(new.gradient, new.gradient, n_threads), state.gradient_norm**2
        product = dot(new.gradient, old.gradient, n_threads)
        state.gradient_norm = float(np.sqrt(square))
        beta = square / before if self.update == "FR" else max(0.0, (square - product) / before)
        if abs(product) >= ORTHOGONAL * square:
            beta = 0.0
        downhill = np.negative(new.gradient, state.take())
        add_scaled(downhill, beta, state.direction, state.direction, n_threads)
        state.free.append(downhill)
