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

from ...errors import ConfigError
from ...optimizers.batch import (
    OPTIMUM,
    BatchMethod,
    BatchState,
    Point,
    elementwise,
    evaluate,
    l1_strength,
    norm,
    pseudo_gradient,
)
from ...types import Floats, Objective

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
        elementwise(_adapt_steps, threads, pseudo, signs, steps)
        stop = l1_strength(objective) > 0
        for count in range(1, MAX_RETREATS + 1):
            theta = state.take()
            elementwise(_sign_step, threads, old.theta, signs, steps, stop, theta)
            point = evaluate(objective, theta, state.take())
            pseudo_gradient(objective, point, pseudo)
            if point.value <= old.value:
                state.gradient_norm = norm(pseudo, threads)
                state.free.append(pseudo)
                return point, count
            # weights that went too far get shorter steps; all do if the objective is not convex or not finite
            if not any(elementwise(_retreat, threads, old.theta, theta, pseudo, steps)):
                steps *= steps.dtype.type(DOWN)
            state.give(point)
        state.done = OPTIMUM
        return None, MAX_RETREATS


def _adapt_steps(pseudo: Floats, signs: Floats, steps: Floats) -> None:
    """Let steps [D] grow where the sign of pseudo, the gradient, is that of signs, and shrink where it is the other.

    signs [D] receives the gradient's signs, and zero where they changed: such an element rests for once.
    """
    now = np.sign(pseudo)
    same, other = now * signs > 0, now * signs < 0
    steps[same] = np.minimum(UP * steps[same], LONGEST)
    steps[other] *= DOWN
    signs[:] = np.where(other, 0, now)


def _sign_step(x: Floats, signs: Floats, steps: Floats, stop: bool, out: Floats) -> None:
    """Write ``x - signs * steps`` to out [D]; with `stop`, elements stop at zero where they would cross it."""
    np.subtract(x, signs * steps, out=out)
    if stop:
        out[np.sign(x) * out < 0] = 0


def _retreat(x: Floats, there: Floats, pseudo: Floats, steps: Floats) -> bool:
    """Shorten the steps [D] that went from x too far, to where the gradient, pseudo, points ahead; whether any did."""
    far = pseudo * (there - x) > 0
    steps[far] *= DOWN
    return bool(far.any())
