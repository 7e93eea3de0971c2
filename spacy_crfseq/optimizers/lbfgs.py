"""Limited-memory BFGS with a strong Wolfe line search, and OWL-QN, its variant for objectives with an L1 norm.

Nocedal & Wright (2006), algorithm 7.5, in its vector-free form.  Chen, Wang & Zhou (2014), "Large-scale L-BFGS using
MapReduce": the direction of L-BFGS is a linear combination of the last m steps s, gradient changes y and the gradient,
and its coefficients depend only on their inner products.  An iteration passes over the history twice, once for inner
products and once for the combination; the two-loop recursion passes over it four times.  With many parameters these
passes cost as much as the objective.

Orthant-wise limited-memory quasi-Newton is by Andrew & Gao (2007), "Scalable training of L1-regularized log-linear
models".  Within an orthant, the L1 norm is linear, so L-BFGS applies.  The direction starts from the pseudo-gradient,
the subgradient of least norm (eq. 4).  Elements that are not descent directions are set to zero (the projection onto
the orthant of the pseudo-gradient).  In a line search for sufficient decrease, elements of a step stop at the border of
the orthant.  The curvature is that of the smooth part.

The line search of L-BFGS is for the strong Wolfe conditions: Nocedal & Wright (2006), algorithms 3.5 and 3.6, with
cubic interpolation.  Near an optimum, the values of a float32 objective differ by less than their rounding error.
There, the slope alone decides, as in the approximate Wolfe conditions of Hager & Zhang (2005), eq. 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import BatchObjective, Floats, RowBlock
from .adagrad import AdaGrad
from .batch import (
    OPTIMUM,
    BatchMethod,
    BatchState,
    Point,
    add_scaled,
    dot,
    elementwise,
    evaluate,
    l1_strength,
    pseudo_gradient,
    shared,
)  # fmt: skip
from .states import StoredState, restored

BYTES = 64 << 20
"""Maximum memory of a history of automatic length, unless it has only `SHORTEST` pairs."""
SHORTEST = 4
CURVATURE = 0.9
"""Maximum slope at the end of a step of L-BFGS, as a fraction of the slope at its start."""
DECREASE, SHORTER, SHORTENINGS = 1e-4, 0.5, 20
"""The least share of the expected decrease of a step; of OWL-QN, the factor of shorter steps, and their number."""


@dataclass
class History(StoredState):
    """The last m steps and gradient changes.

    rows (Floats): [2m + 1, D] the steps (rows 0..m-1), gradient changes (m..2m-1), and the gradient.
    gram (NDArray): [2m + 1, 2m + 1] their inner products, float64.
    used (int): Pairs in the history.
    slot (int): Index of the next pair.
    """

    rows: Floats
    gram: NDArray[np.float64]
    stretch: float
    used: int = 0
    slot: int = 0

    def to_state(self) -> dict[str, Any]:
        """Return the fields; each row is an array of its own, since msgpack limits the size of one."""
        return {**super().to_state(), "rows": list(self.rows)}

    def from_state(self, stored: Any, blocks: Sequence[RowBlock]) -> None:
        """Continue from stored fields, see `StoredState`."""
        for own, row in zip(self.rows, stored["rows"], strict=True):
            own[:] = restored(row, (own,), "rows", blocks)
        super().from_state({**stored, "rows": self.rows}, blocks)

    def check(self) -> None:
        """RAISES ValueError: If the places of pairs are outside of the history."""
        if not 0 <= max(self.used - 1, self.slot) < len(self.rows) // 2 or min(self.used, self.slot) < 0:
            raise ValueError(f"a history of {len(self.rows) // 2} pairs has {self.used}, the next at {self.slot}")

    @classmethod
    def empty(cls, theta: Floats, pairs: int, longest: int, stretch: float) -> History:
        """Return an empty history of this many pairs, with 0 of as many as `BYTES` and `longest` permit."""
        if not pairs:
            pairs = min(max(BYTES // max(1, 2 * theta.nbytes), SHORTEST), longest)
        rows: Floats = np.empty((2 * pairs + 1, len(theta)), theta.dtype)
        rows.fill(0)  # unlike the memory of np.zeros, that of np.empty comes in large pages, a fifth of the time
        return cls(rows, np.zeros((2 * pairs + 1, 2 * pairs + 1)), stretch)

    @property
    def gradient(self) -> Floats:
        """The gradient [D] from which the next direction starts."""
        last: Floats = self.rows[-1]
        return last

    @property
    def gradient_norm(self) -> float:
        return float(np.sqrt(self.gram[-1, -1]))

    def begin(self, gradient: Floats, n_threads: int) -> None:
        """Store the first gradient [D]."""
        self.gradient[:] = gradient
        self.gram[-1, -1] = dot(self.gradient, self.gradient, n_threads)

    def forget(self) -> None:
        """Restart with the gradient alone."""
        self.used = self.slot = 0

    def direction(self, out: Floats, n_threads: int) -> float:
        """Write the descent direction to out [D]; return its inner product with the gradient, which is negative."""
        coefficients = self._coefficients()
        slope = float(coefficients @ self.gram[:, -1])
        if not slope < 0:  # rounding errors damaged the history; steepest descent is always safe
            self.forget()
            np.negative(self.gradient, out)
            return -float(self.gram[-1, -1])
        factors = coefficients.astype(out.dtype)
        shared(
            lambda part: kernels.vectors.combine(self.rows, part.start, part.stop, factors, out), len(out), n_threads
        )
        return slope

    def remember(self, old: Point, new: Point, gradient: Floats, n_threads: int) -> None:
        """Add the step between two points to the history, with the change of the smooth part's gradient.

        gradient (Floats): [D] from which the next direction starts.
        """
        m, slot = len(self.rows) // 2, self.slot
        step, pairs = (old.theta, new.theta, old.gradient, new.gradient, gradient), max(slot, self.used) + 1

        def part(elements: slice) -> NDArray[np.float64]:
            products = np.empty((3, 2 * m + 1))
            kernels.vectors.remember(self.rows, slot, pairs, elements.start, elements.stop, step, products)
            return products

        dots = np.sum(shared(part, len(gradient), n_threads), axis=0)
        for row, values in zip((slot, m + slot, 2 * m), dots, strict=True):
            self.gram[row] = self.gram[:, row] = values
        if self.gram[slot, m + slot] > 1e-10 * self.gram[m + slot, m + slot]:
            self.slot, self.used = (slot + 1) % m, min(self.used + 1, m)
        elif self.used == m:  # the pair would destroy positive definiteness, and the oldest is overwritten
            self.used -= 1

    def _coefficients(self) -> NDArray[np.float64]:
        """Return the coefficients [2m + 1] of the direction: the two-loop recursion on inner products."""
        gram, m = self.gram, len(self.rows) // 2
        order = [(self.slot - self.used + i) % m for i in range(self.used)]  # oldest first
        delta, alphas = np.zeros(len(gram)), {}
        delta[-1] = -1.0
        for i in reversed(order):
            alphas[i] = (delta @ gram[:, i]) / gram[i, m + i]
            delta[m + i] -= alphas[i]
        if order:
            last = order[-1]
            delta *= self.stretch * gram[last, m + last] / gram[m + last, m + last]
        for i in order:
            delta[i] += alphas[i] - (delta @ gram[:, m + i]) / gram[i, m + i]
        return delta


@dataclass(kw_only=True)
class QuasiNewtonState(BatchState):
    """A run in progress, with a history of the curvature."""

    history: History


@dataclass(frozen=True)
class QuasiNewton(BatchMethod[QuasiNewtonState]):
    """A method that computes directions from a history.

    longest (int): Maximum number of pairs in a history of automatic length.
    stretch (float): Factor of the usual inverse curvature of directions without history, ``s.y / y.y``, which is that
        of steep directions.
    """

    longest: ClassVar[int]
    stretch: ClassVar[float] = 1.0
    history: int = 0
    epochs: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.history, self.epochs) < 0:
            raise ConfigError(f"{type(self).__name__}: history and epochs must be 0 or more.")

    def start(self, theta: Floats) -> QuasiNewtonState:
        return QuasiNewtonState.at(theta, history=History.empty(theta, self.history, self.longest, self.stretch))

    def _begin(self, objective: BatchObjective, state: QuasiNewtonState) -> None:
        # weights that are not zero come from earlier training, and are nearer to the optimum than an epoch's
        if objective.approachable and not state.theta.any():
            self._approach(objective, state)
        first, work = state.begin(evaluate(objective, state.theta, state.take())), state.take()
        state.history.begin(self._gradient(objective, first, work), objective.n_threads)
        state.free.append(work)
        state.gradient_norm = state.history.gradient_norm

    def _approach(self, objective: Any, state: QuasiNewtonState) -> None:
        """Move to the average of some epochs of AdaGrad, in an order that no setting changes."""
        online = AdaGrad(seed=0)
        run = online.start(state.theta)
        for _ in range(self.epochs):
            online.iterate(objective, run)
            state.theta = online.export(run)  # an interrupt keeps it

    def _step(self, objective: BatchObjective, state: QuasiNewtonState) -> tuple[Point | None, int]:
        history, work = state.history, state.take()
        point, count = self._search(objective, state, work)
        if point is None:
            if not history.used:
                state.done = OPTIMUM
            history.forget()  # the history may be at fault: restart with the gradient
        else:
            history.remember(state.current, point, self._gradient(objective, point, work), objective.n_threads)
            state.gradient_norm = history.gradient_norm
        state.free.append(work)
        return point, count

    def _gradient(self, objective: BatchObjective, point: Point, out: Floats) -> Floats:
        """Return the gradient that a direction starts from, possibly in out [D]."""
        raise NotImplementedError

    def _search(self, objective: BatchObjective, state: QuasiNewtonState, out: Floats) -> tuple[Point | None, int]:
        """Search along a direction, which is written to out [D]; return the result of `_step`."""
        raise NotImplementedError


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

    def _gradient(self, objective: BatchObjective, point: Point, out: Floats) -> Floats:
        return point.gradient

    def _search(self, objective: BatchObjective, state: QuasiNewtonState, out: Floats) -> tuple[Point | None, int]:
        slope = state.history.direction(out, objective.n_threads)
        first_step = 1.0 if state.history.used else 1.0 / max(1.0, (-slope) ** 0.5)
        point, _, count = search(objective, state, out, slope, first_step, CURVATURE)
        return point, count


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

    def _gradient(self, objective: BatchObjective, point: Point, out: Floats) -> Floats:
        return pseudo_gradient(objective, point, out)

    def _search(self, objective: BatchObjective, state: QuasiNewtonState, out: Floats) -> tuple[Point | None, int]:
        old, history, threads = state.current, state.history, objective.n_threads
        has_corners = bool(l1_strength(objective))
        history.direction(out, threads)
        # with corners, the direction is zero in elements that are not descent directions
        if has_corners and not sum(elementwise(kernels.vectors.align, threads, out, history.gradient)) < 0:
            history.forget()
            np.negative(history.gradient, out)
        step = 1.0 if history.used else 1.0 / max(1.0, history.gradient_norm)
        for count in range(1, SHORTENINGS + 1):
            theta = state.take()
            if has_corners:
                promises = elementwise(
                    kernels.vectors.orthant_step, threads, old.theta, step, out, history.gradient, theta
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
        return None, SHORTENINGS


# Line search

MAX_EVALUATIONS = 12
ROUNDING = 1e-6
"""Differences below this fraction of the objective carry little information (Hager & Zhang's epsilon)."""


def search(
    objective: BatchObjective, state: BatchState, direction: Floats, slope: float, first_step: float, curvature: float
) -> tuple[Point | None, float, int]:
    """Search along a direction [D] from the current point.

    slope (float): Inner product of direction and gradient, negative.
    curvature (float): Maximum slope at the end, as a fraction of the slope at the start: 0.9 for quasi-Newton
        methods, 0.1 to 0.4 for conjugate gradients.
    RETURNS: A point that satisfies the conditions, or the best one after `MAX_EVALUATIONS`, or None if none is better
        than the current one; the step to it; the number of evaluations of the objective.
    """
    return _Search(objective, state, direction, slope, curvature).run(first_step)


class _Trial(NamedTuple):
    step: float
    slope: float
    point: Point


class _Search:
    """The points tried; only the last and the best one keep their arrays."""

    def __init__(
        self, objective: BatchObjective, state: BatchState, direction: Floats, slope: float, curvature: float
    ) -> None:
        self.objective, self.state, self.direction, self.curvature = objective, state, direction, curvature
        self.origin = self.last = self.best = _Trial(0.0, slope, state.current)
        self.noise = ROUNDING * abs(state.current.value)
        self.evaluations = 0

    def run(self, first_step: float) -> tuple[Point | None, float, int]:
        trial = self.bracket(first_step)
        self.release(self.last, kept=trial)
        if self.best is not self.last:
            self.release(self.best, kept=trial)
        return (trial.point, trial.step, self.evaluations) if trial else (None, 0.0, self.evaluations)

    def bracket(self, step: float) -> _Trial | None:
        before = self.origin
        while self.evaluations < MAX_EVALUATIONS:
            trial = self.try_step(step)
            if not self.decreases(trial) or (before.step and trial.point.value >= before.point.value + self.noise):
                return self.zoom(before, trial)
            if self.flat(trial):
                return trial
            if trial.slope >= 0:
                return self.zoom(trial, before)
            before, step = trial, 2 * step
        return self.better()

    def try_step(self, step: float) -> _Trial:
        threads = self.objective.n_threads
        self.release(self.last, kept=self.best)
        theta = self.state.take()
        add_scaled(self.origin.point.theta, step, self.direction, theta, threads)
        point = evaluate(self.objective, theta, self.state.take())
        self.evaluations += 1
        self.last = _Trial(step, dot(point.gradient, self.direction, threads), point)
        if point.value < self.best.point.value:
            self.release(self.best, kept=self.last)
            self.best = self.last
        return self.last

    def release(self, trial: _Trial, kept: _Trial | None) -> None:
        if trial is not self.origin and trial is not kept:
            self.state.give(trial.point)

    def decreases(self, trial: _Trial) -> bool:
        start, noise = self.origin, self.noise
        if trial.point.value <= start.point.value + DECREASE * trial.step * start.slope:
            return True
        # the sum of the slopes replaces the decrease if the values are too close to compare
        return trial.point.value <= start.point.value + noise and trial.slope <= (2 * DECREASE - 1) * start.slope

    def flat(self, trial: _Trial) -> bool:
        return abs(trial.slope) <= -self.curvature * self.origin.slope

    def zoom(self, low: _Trial, high: _Trial) -> _Trial | None:
        """Shrink the bracket [low, high]; low is the better end."""
        while self.evaluations < MAX_EVALUATIONS:
            if abs(high.step - low.step) <= 1e-9 * max(low.step, high.step):
                break
            trial = self.try_step(_interpolate(low, high))
            if not self.decreases(trial) or trial.point.value >= low.point.value + self.noise:
                high = trial
                continue
            if self.flat(trial):
                return trial
            if trial.slope * (high.step - low.step) >= 0:
                high = low
            low = trial
        return self.better()

    def better(self) -> _Trial | None:
        return None if self.best is self.origin else self.best


def _interpolate(low: _Trial, high: _Trial) -> float:
    """Return the minimiser of the cubic through both ends, limited to the bracket; the middle if there is none."""
    width = high.step - low.step
    d1 = low.slope + high.slope - 3 * (low.point.value - high.point.value) / (low.step - high.step)
    square = d1 * d1 - low.slope * high.slope
    step = low.step + width / 2
    if np.isfinite(square) and square >= 0:
        d2 = np.sign(width) * np.sqrt(square)
        denominator = high.slope - low.slope + 2 * d2
        if denominator != 0:
            step = high.step - width * (high.slope + d2 - d1) / denominator
    lower, upper = sorted((low.step + 0.1 * width, high.step - 0.1 * width))
    return float(min(max(step, lower), upper)) if np.isfinite(step) else low.step + width / 2
