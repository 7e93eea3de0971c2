"""Line search for the strong Wolfe conditions.

Nocedal & Wright (2006), algorithms 3.5 and 3.6, with cubic interpolation.  Near an optimum, the values of a float32
objective differ by less than their rounding error.  There, the slope alone decides, as in the approximate Wolfe
conditions of Hager & Zhang (2005), eq. 4.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import Floats, Objective
from .batch import BatchState, Point, add_scaled, dot, evaluate

DECREASE = 1e-4
MAX_EVALUATIONS = 12
ROUNDING = 1e-6
"""Differences below this fraction of the objective carry little information (Hager & Zhang's epsilon)."""


def search(
    objective: Objective, state: BatchState, direction: Floats, slope: float, first_step: float, curvature: float
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
        self, objective: Objective, state: BatchState, direction: Floats, slope: float, curvature: float
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
