"""Limited-memory BFGS with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 7.5, in the vector-free form of Chen, Wang & Zhou (2014): the direction is a linear
combination of the last m steps s, gradient changes y and the gradient, and its coefficients follow from their inner
products alone.  So an iteration passes over the history twice, once for inner products and once for the combination,
where the two-loop recursion passes over it four times.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..types import Floats, Objective, StepReport
from .line_search import Point, strong_wolfe


@dataclass
class LBFGSState:
    """A run in progress.

    point (Point | None): Current parameters with value and gradient; None before the first evaluation.
    history (Floats): [2m + 1, D] the last steps (rows 0..m-1), gradient changes (m..2m-1), and the gradient.
    gram (NDArray): [2m + 1, 2m + 1] their inner products, float64.
    used (int): Pairs in the history.
    values (deque[float]): Objective of the last iterations.
    """

    theta: Floats
    history: Floats
    gram: NDArray[np.float64]
    point: Point | None = None
    used: int = 0
    slot: int = 0
    iterations: int = 0
    values: deque[float] = field(default_factory=deque)
    done: str = ""


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS (registered as ``spacy_crfseq.LBFGS.v1``).

    history (int): Pairs of steps and gradient changes kept, m.
    max_iterations (int): Upper bound on the iterations of a run.
    tolerance (float): Stop when the objective fell by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||).
    RAISES ConfigError: On a setting out of range.
    """

    history: int = 6
    max_iterations: int = 500
    tolerance: float = 1e-5
    period: int = 10
    gradient_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if min(self.history, self.max_iterations, self.period) < 1:
            raise ConfigError("LBFGS: history, max_iterations and period must be at least 1.")
        if min(self.tolerance, self.gradient_tolerance) < 0:
            raise ConfigError("LBFGS: tolerance and gradient_tolerance must be 0 or more.")

    @property
    def needs(self) -> frozenset[str]:
        """What is asked of the objective."""
        return frozenset({"value_and_grad"})

    @property
    def penalties(self) -> frozenset[str]:
        """Regularizers it can minimise: differentiable ones."""
        return frozenset({"smooth"})

    @property
    def online(self) -> bool:
        """False: every iteration needs all data."""
        return False

    def start(self, theta: Floats) -> LBFGSState:
        """Return the state of a run that begins at `theta`."""
        rows = 2 * self.history + 1
        return LBFGSState(theta.copy(), np.zeros((rows, len(theta)), theta.dtype), np.zeros((rows, rows)))

    def export(self, state: LBFGSState, theta: Floats) -> None:
        """Write the current parameters."""
        theta[:] = state.theta

    def iterate(self, objective: Objective, state: LBFGSState) -> StepReport:
        """Run one iteration: direction, line search, update of the history."""
        evaluations = 0
        if state.point is None:
            state.point = _evaluate(objective, state.theta)
            state.values.append(state.point.value)
            state.history[-1] = state.point.gradient
            self._update_gram(state, 2 * self.history)
            evaluations = 1
        if state.done:
            return self._report(state, 0)
        old = state.point
        direction, slope = self._direction(state, old)
        first_step = 1.0 if state.used else 1.0 / max(1.0, float(np.sqrt(-slope)))
        found, tried = strong_wolfe(lambda theta: _evaluate(objective, theta), old, direction, slope, first_step)
        evaluations += tried
        if found is None:
            if not state.used:
                state.done = "no step lowers the objective: the optimum is reached to working precision"
            state.used = state.slot = 0  # the history may be at fault: begin again with the gradient
            return self._report(state, evaluations)
        self._remember(state, old, found)
        state.point, state.theta = found, found.theta
        state.iterations += 1
        state.values.append(found.value)
        state.done = self._stop(state)
        return self._report(state, evaluations)

    def _direction(self, state: LBFGSState, point: Point) -> tuple[Floats, float]:
        """Return the descent direction and its inner product with the gradient."""
        from ..kernels import vectors

        n = 2 * self.history
        coefficients = self._coefficients(state.gram, self._order(state))
        direction = np.empty_like(point.gradient)
        vectors.combine(state.history, n + 1, coefficients.astype(direction.dtype), direction)
        slope = float(coefficients @ state.gram[:, n])
        if not slope < 0:  # rounding spoilt the history: steepest descent is always safe
            state.used = state.slot = 0
            return -point.gradient, -float(state.gram[n, n])
        return direction, slope

    def _order(self, state: LBFGSState) -> list[int]:
        """Return the slots in use, oldest first."""
        return [(state.slot - state.used + i) % self.history for i in range(state.used)]

    def _coefficients(self, gram: NDArray[np.float64], order: list[int]) -> NDArray[np.float64]:
        """Return the coefficients [2m + 1] of the direction: the two-loop recursion on inner products."""
        m, n = self.history, 2 * self.history
        delta = np.zeros(n + 1)
        delta[n] = -1.0
        alphas = {}
        for i in reversed(order):
            alphas[i] = (delta @ gram[:, i]) / gram[i, m + i]
            delta[m + i] -= alphas[i]
        if order:
            last = order[-1]
            delta *= gram[last, m + last] / gram[m + last, m + last]
        for i in order:
            beta = (delta @ gram[:, m + i]) / gram[i, m + i]
            delta[i] += alphas[i] - beta
        return delta

    def _remember(self, state: LBFGSState, old: Point, new: Point) -> None:
        """Put the step, the gradient's change and the gradient into the history."""
        from ..kernels import vectors

        m, slot = self.history, state.slot
        vectors.add_scaled(new.theta, -1.0, old.theta, state.history[slot])
        vectors.add_scaled(new.gradient, -1.0, old.gradient, state.history[m + slot])
        state.history[2 * m] = new.gradient
        self._update_gram(state, slot, m + slot, 2 * m)
        if state.gram[slot, m + slot] > 1e-10 * state.gram[m + slot, m + slot]:
            state.slot, state.used = (slot + 1) % m, min(state.used + 1, m)
        elif state.used == m:  # the pair would spoil positive definiteness, and the oldest is overwritten
            state.used -= 1

    def _update_gram(self, state: LBFGSState, *rows: int) -> None:
        from ..kernels import vectors

        products = np.empty((len(rows), len(state.gram)))
        vectors.products(state.history, np.array(rows, np.int32), products)
        for row, values in zip(rows, products, strict=True):
            state.gram[row] = state.gram[:, row] = values

    def _stop(self, state: LBFGSState) -> str:
        assert state.point is not None
        values = state.values
        if len(values) > self.period:
            earlier = values[-self.period - 1]
            while len(values) > self.period + 1:
                values.popleft()
            if earlier - values[-1] < self.tolerance * abs(values[-1]):
                return f"the objective fell by no more than {self.tolerance:g} of its value in {self.period} iterations"
        norm = float(np.linalg.norm(state.theta))
        if state.point.norm < self.gradient_tolerance * max(1.0, norm):
            return f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        if state.iterations >= self.max_iterations:
            return f"{self.max_iterations} iterations were run"
        return ""

    def _report(self, state: LBFGSState, evaluations: int) -> StepReport:
        point = state.point
        assert point is not None
        return StepReport(point.value, point.loss, point.norm, evaluations, bool(state.done), state.done)


def _evaluate(objective: Objective, theta: Floats) -> Point:
    value, loss, gradient = objective.value_and_grad(theta)
    from ..kernels import vectors

    return Point(theta, value, loss, gradient, float(np.sqrt(vectors.dot(gradient, gradient))))
