"""Resilient back-propagation: a step length for each weight, using only the signs of the gradient.

Riedmiller & Braun (1993).  A weight's step grows by 1.2 while its gradient keeps its sign and is halved when it
changes; a weight whose gradient has just changed its sign pauses for one iteration (iRprop, Igel & Huesken 2003).
If the objective increases, the whole step is reverted, and the weights that went too far retry with half of their step
(iRprop+ reverts single steps).  The objective never increases, and the method converges.  With an L1 norm, signs are
those of the pseudo-gradient, and a weight stops at zero instead of crossing it (Wapiti, Lavergne, Cappe & Yvon 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Floats, Objective
from .batch import OPTIMUM, BatchMethod, BatchState, Point, elementwise, evaluate, l1_strength, norm, pseudo_gradient

UP, DOWN, LONGEST = 1.2, 0.5, 50.0
MAX_RETREATS = 40


@dataclass(kw_only=True)
class RPROPState(BatchState):
    """A run in progress.

    steps (Floats): [D] length of each weight's next step.
    signs (Floats): [D] signs of the gradient at the last step; zero for weights that paused.
    """

    steps: Floats
    signs: Floats


@dataclass(frozen=True)
class RPROP(BatchMethod[RPROPState]):
    """RPROP (registered as ``spacy_crfseq.RPROP.v1``).

    first_step (float): Length of every weight's first step.
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    first_step: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first_step > 0:
            raise ConfigError("RPROP: first_step must be positive.")

    def start(self, theta: Floats) -> RPROPState:
        return RPROPState(theta.copy(), steps=np.full_like(theta, self.first_step), signs=np.zeros_like(theta))

    def _step(self, objective: Objective, state: RPROPState) -> tuple[Point | None, int]:
        threads, old, signs, steps = objective.n_threads, state.current, state.signs, state.steps
        pseudo = pseudo_gradient(objective, old, state.take())
        state.gradient_norm = norm(pseudo, threads)
        elementwise(kernels.penalties.adapt_steps, threads, pseudo, signs, steps, UP, DOWN, LONGEST)
        stop = l1_strength(objective) > 0
        for count in range(1, MAX_RETREATS + 1):
            theta = state.take()
            elementwise(kernels.penalties.sign_step, threads, old.theta, signs, steps, stop, theta)
            point = evaluate(objective, theta, state.take())
            pseudo_gradient(objective, point, pseudo)
            if point.value <= old.value:
                state.gradient_norm = norm(pseudo, threads)
                state.free.append(pseudo)
                return point, count
            # weights that went too far get shorter steps; all do if the objective is not convex or not finite
            if not sum(elementwise(kernels.penalties.retreat, threads, old.theta, theta, pseudo, steps, DOWN)):
                steps *= steps.dtype.type(DOWN)
            state.give(point)
        state.done = OPTIMUM
        return None, MAX_RETREATS
