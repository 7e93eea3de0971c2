"""Limited-memory BFGS with a strong Wolfe line search.

Nocedal & Wright (2006), algorithm 7.5, in the vector-free form of Chen, Wang & Zhou (2014): the direction is a linear
combination of the last m steps s, gradient changes y and the gradient, and its coefficients follow from their inner
products alone.  So an iteration passes over the history twice, once for inner products and once for the combination,
where the two-loop recursion passes over it four times.  With many parameters these passes cost as much as the
objective: threads share them, and arrays are used again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..threads import parts, run
from ..types import Floats, Objective, StepReport
from .line_search import Point, strong_wolfe

HISTORY_BYTES = 64 << 20
"""Memory that a history of automatic length may take, as long as it has `SHORTEST` pairs."""
SHORTEST, LONGEST = 4, 24


@dataclass
class LBFGSState:
    """A run in progress.

    theta (Floats): [D] current parameters.
    history (Floats): [2m + 1, D] the last steps (rows 0..m-1), gradient changes (m..2m-1), and the gradient.
    gram (NDArray): [2m + 1, 2m + 1] their inner products, float64.
    point (Point | None): Current parameters with value and gradient; None before the first evaluation.
    used (int): Pairs in the history.
    values (deque[float]): Objective of the last iterations.
    free (list[Floats]): Arrays [D] that are not needed any more.
    """

    theta: Floats
    history: Floats
    gram: NDArray[np.float64]
    point: Point | None = None
    used: int = 0
    slot: int = 0
    iterations: int = 0
    values: deque[float] = field(default_factory=deque)
    free: list[Floats] = field(default_factory=list)
    done: str = ""

    @property
    def pairs(self) -> int:
        """m, the pairs that the history has room for."""
        return len(self.history) // 2

    def take(self) -> Floats:
        """Return an array [D] with any content."""
        return self.free.pop() if self.free else np.empty_like(self.theta)

    def give(self, point: Point) -> None:
        """Let the arrays of a point be used again."""
        self.free += [point.theta, point.gradient]


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS (registered as ``spacy_crfseq.LBFGS.v1``).

    history (int): Pairs of steps and gradient changes kept, m.  More make fewer iterations, which take longer where
        there are millions of parameters; 0 takes from 4 to 24, as many as fit into 64 MiB.
    max_iterations (int): Upper bound on the iterations of a run.
    tolerance (float): Stop when the objective fell by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||).
    RAISES ConfigError: On a setting out of range.
    """

    history: int = 0
    max_iterations: int = 500
    tolerance: float = 1e-5
    period: int = 10
    gradient_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if min(self.max_iterations, self.period) < 1:
            raise ConfigError("LBFGS: max_iterations and period must be at least 1.")
        if min(self.history, self.tolerance, self.gradient_tolerance) < 0:
            raise ConfigError("LBFGS: history, tolerance and gradient_tolerance must be 0 or more.")

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
        fitting = HISTORY_BYTES // max(1, 2 * theta.nbytes)
        rows = 2 * (self.history or min(max(fitting, SHORTEST), LONGEST)) + 1
        return LBFGSState(theta.copy(), np.zeros((rows, len(theta)), theta.dtype), np.zeros((rows, rows)))

    def export(self, state: LBFGSState, theta: Floats) -> None:
        """Write the current parameters."""
        theta[:] = state.theta

    def iterate(self, objective: Objective, state: LBFGSState) -> StepReport:
        """Run one iteration: direction, line search, update of the history."""
        evaluations = 0
        if state.point is None:
            self._begin(objective, state)
            evaluations = 1
        if state.done:
            return self._report(state, 0)
        old = state.point
        assert old is not None
        direction, slope = self._direction(state, old, objective.n_threads)
        first_step = 1.0 if state.used else 1.0 / max(1.0, float(np.sqrt(-slope)))
        tried: list[Point] = []

        def evaluate(step: float) -> tuple[Point, float]:
            if len(tried) > 1:  # a search returns its last point or its best one
                worse = max(reversed(tried), key=lambda point: point.value if np.isfinite(point.value) else np.inf)
                tried[:] = [point for point in tried if point is not worse]
                state.give(worse)
            theta = state.take()
            _add_scaled(old.theta, step, direction, theta, objective.n_threads)
            tried.append(_evaluate(objective, theta, state.take()))
            return tried[-1], _dot(tried[-1].gradient, direction, objective.n_threads)

        found, count = strong_wolfe(evaluate, old, slope, first_step)
        evaluations += count
        state.free.append(direction)
        for point in tried:
            if point is not found:
                state.give(point)
        if found is None:
            if not state.used:
                state.done = "no step lowers the objective: the optimum is reached to working precision"
            state.used = state.slot = 0  # the history may be at fault: begin again with the gradient
            return self._report(state, evaluations)
        self._remember(state, old, found, objective.n_threads)
        state.give(old)
        state.point, state.theta = found, found.theta
        state.iterations += 1
        state.values.append(found.value)
        state.done = self._stop(state, objective.n_threads)
        return self._report(state, evaluations)

    def _begin(self, objective: Objective, state: LBFGSState) -> None:
        """Evaluate the objective for the first time."""
        state.point = _evaluate(objective, state.theta, state.take())
        state.values.append(state.point.value)
        state.history[-1] = state.point.gradient
        state.gram[-1, -1] = _dot(state.point.gradient, state.point.gradient, objective.n_threads)

    def _direction(self, state: LBFGSState, point: Point, n_threads: int) -> tuple[Floats, float]:
        """Return the descent direction and its inner product with the gradient."""
        from ..kernels import vectors

        coefficients = self._coefficients(state)
        slope = float(coefficients @ state.gram[:, -1])
        if not slope < 0:  # rounding spoilt the history: steepest descent is always safe
            state.used = state.slot = 0
            return -point.gradient, -float(state.gram[-1, -1])
        direction = state.take()
        factors = coefficients.astype(direction.dtype)

        def part(elements: slice) -> None:
            vectors.combine(state.history, elements.start, elements.stop, factors, direction)

        run([partial(part, elements) for elements in parts(len(direction), n_threads)])
        return direction, slope

    def _order(self, state: LBFGSState) -> list[int]:
        """Return the slots in use, oldest first."""
        return [(state.slot - state.used + i) % state.pairs for i in range(state.used)]

    def _coefficients(self, state: LBFGSState) -> NDArray[np.float64]:
        """Return the coefficients [2m + 1] of the direction: the two-loop recursion on inner products."""
        m, gram, order = state.pairs, state.gram, self._order(state)
        delta = np.zeros(len(gram))
        delta[-1] = -1.0
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

    def _remember(self, state: LBFGSState, old: Point, new: Point, n_threads: int) -> None:
        """Put the step, the gradient's change and the gradient into the history."""
        from ..kernels import vectors

        m, slot = state.pairs, state.slot

        def part(elements: slice) -> NDArray[np.float64]:
            products = np.empty((3, 2 * m + 1))
            vectors.remember(
                state.history, slot, elements.start, elements.stop, old.theta, new.theta, new.gradient, products
            )
            return products

        found = run([partial(part, elements) for elements in parts(len(new.theta), n_threads)])
        for row, values in zip((slot, m + slot, 2 * m), np.sum(found, axis=0), strict=True):
            state.gram[row] = state.gram[:, row] = values
        if state.gram[slot, m + slot] > 1e-10 * state.gram[m + slot, m + slot]:
            state.slot, state.used = (slot + 1) % m, min(state.used + 1, m)
        elif state.used == m:  # the pair would spoil positive definiteness, and the oldest is overwritten
            state.used -= 1

    def _stop(self, state: LBFGSState, n_threads: int) -> str:
        assert state.point is not None
        values = state.values
        if len(values) > self.period:
            earlier = values[-self.period - 1]
            while len(values) > self.period + 1:
                values.popleft()
            if earlier - values[-1] < self.tolerance * abs(values[-1]):
                return f"the objective fell by no more than {self.tolerance:g} of its value in {self.period} iterations"
        norm = float(np.sqrt(_dot(state.theta, state.theta, n_threads)))
        if np.sqrt(state.gram[-1, -1]) < self.gradient_tolerance * max(1.0, norm):
            return f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        if state.iterations >= self.max_iterations:
            return f"{self.max_iterations} iterations were run"
        return ""

    def _report(self, state: LBFGSState, evaluations: int) -> StepReport:
        point = state.point
        assert point is not None
        norm = float(np.sqrt(state.gram[-1, -1]))
        return StepReport(point.value, point.loss, norm, evaluations, bool(state.done), state.done)


def _evaluate(objective: Objective, theta: Floats, gradient: Floats) -> Point:
    value, loss, gradient = objective.value_and_grad(theta, gradient)
    return Point(theta, value, loss, gradient)


def _dot(x: Floats, y: Floats, n_threads: int) -> float:
    from ..kernels import vectors

    return sum(run([partial(vectors.dot, x[part], y[part]) for part in parts(len(x), n_threads)]))


def _add_scaled(x: Floats, factor: float, y: Floats, out: Floats, n_threads: int) -> None:
    from ..kernels import vectors

    run([partial(vectors.add_scaled, x[part], factor, y[part], out[part]) for part in parts(len(x), n_threads)])
