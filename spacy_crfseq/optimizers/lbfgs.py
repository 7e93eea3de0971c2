"""Limited-memory BFGS with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 7.5; `quasi_newton` computes the direction in its vector-free form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..types import Floats, Objective
from .batch import Point
from .line_search import search
from .quasi_newton import QuasiNewton, QuasiNewtonState

CURVATURE = 0.9
"""Maximum slope at the end of a step, as a fraction of the slope at its start."""


@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """L-BFGS (registered as ``spacy_crfseq.LBFGS.v1``).

    history (int): Number m of stored pairs of steps and gradient changes.  A longer history needs fewer iterations, but
        each takes longer with millions of parameters.  With 0, the history has 4 to 24 pairs, as many as fit into 64
        MiB.
    epochs (int): Epochs of AdaGrad before the first iteration, if training starts from zero with a log-loss; they save
        about 30 iterations, and the optimum is the same.
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"smooth"})
    longest: ClassVar[int] = 24
    stretch: ClassVar[float] = 2.0

    def _gradient(self, objective: Objective, point: Point, out: Floats) -> Floats:
        return point.gradient

    def _search(self, objective: Objective, state: QuasiNewtonState, out: Floats) -> tuple[Point | None, int]:
        slope = state.history.direction(out, objective.n_threads)
        first_step = 1.0 if state.history.used else 1.0 / max(1.0, (-slope) ** 0.5)
        found, _, count = search(objective, state, out, slope, first_step, CURVATURE)
        return found, count
