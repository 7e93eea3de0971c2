"""Orthant-wise limited-memory quasi-Newton: L-BFGS for objectives with an L1 norm.

Andrew & Gao (2007), "Scalable training of L1-regularized log-linear models".  Within an orthant, the L1 norm is linear,
so L-BFGS applies.  The direction starts from the pseudo-gradient, the subgradient of least norm (eq. 4).  Elements that
are not descent directions are set to zero (the projection onto the orthant of the pseudo-gradient).  In a line search
for sufficient decrease, elements of a step stop at the border of the orthant.  The curvature is that of the smooth
part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import kernels
from ..types import Floats, Objective
from .batch import Point, add_scaled, dot, elementwise, evaluate, l1_strength, pseudo_gradient
from .quasi_newton import QuasiNewton, QuasiNewtonState

DECREASE, SHORTER = 1e-4, 0.5
MAX_EVALUATIONS = 20


@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """OWL-QN (registered as ``spacy_crfseq.OWLQN.v1``).

    Weights that the L1 norm eliminates are exactly zero.  Without an L1 norm, OWL-QN is L-BFGS with a simpler line
    search; use LBFGS instead.

    max_iterations (int): Maximum number of iterations; OWL-QN needs more than L-BFGS.
    gradient_tolerance (float): Stop when ||pseudo-gradient|| is below this times max(1, ||theta||).
    history (int): Number of stored pairs of steps and gradient changes; 0: 4 to 8, as many as fit into 64 MiB.
    epochs (int): As in LBFGS; with an L1 norm, they save as much time as they take.
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    longest: ClassVar[int] = 8  # older pairs are from other orthants and slow convergence
    max_iterations: int = 1000
    epochs: int = 0

    def _gradient(self, objective: Objective, point: Point, out: Floats) -> Floats:
        return pseudo_gradient(objective, point, out)

    def _search(self, objective: Objective, state: QuasiNewtonState, out: Floats) -> tuple[Point | None, int]:
        old, history, threads = state.current, state.history, objective.n_threads
        has_corners = bool(l1_strength(objective))
        history.direction(out, threads)
        # with corners, the direction is zero in elements that are not descent directions
        if has_corners and not sum(elementwise(kernels.penalties.align, threads, out, history.gradient)) < 0:
            history.forget()
            np.negative(history.gradient, out)
        step = 1.0 if history.used else 1.0 / max(1.0, history.gradient_norm)
        for count in range(1, MAX_EVALUATIONS + 1):
            theta = state.take()
            if has_corners:
                promises = elementwise(
                    kernels.penalties.orthant_step, threads, old.theta, step, out, history.gradient, theta
                )
                slope = float(sum(promises))
            else:
                add_scaled(old.theta, step, out, theta, threads)
                slope = step * dot(history.gradient, out, threads)
            point = evaluate(objective, theta, state.take())
            if point.value <= old.value + DECREASE * min(slope, 0.0):
                return point, count
            state.give(point)
            step *= SHORTER
        return None, MAX_EVALUATIONS
