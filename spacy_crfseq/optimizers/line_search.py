"""Line search for the strong Wolfe conditions.

Nocedal & Wright (2006), algorithms 3.5 and 3.6, with cubic interpolation.  Near an optimum the values of a float32
objective differ by less than their rounding error; there a step is accepted on the slope alone, as in the approximate
Wolfe conditions of Hager & Zhang (2005), eq. 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..types import Floats

DECREASE = 1e-4
MAX_EVALUATIONS = 12
ROUNDING = 1e-6
"""Differences below this fraction of the objective carry little information (Hager & Zhang's epsilon)."""


@dataclass
class Point:
    """Parameters with the objective's value, the loss alone and the gradient."""

    theta: Floats
    value: float
    loss: float
    gradient: Floats


@dataclass
class _Trial:
    step: float
    slope: float
    point: Point


def strong_wolfe(
    evaluate: Callable[[float], tuple[Point, float]], start: Point, slope: float, first_step: float, curvature: float
) -> tuple[Point | None, int]:
    """Return a point along a direction that meets the conditions, and the number of evaluations.

    evaluate (Callable): Maps a step to the point there and its slope, the inner product of direction and gradient.
    slope (float): The slope at `start`, negative.
    curvature (float): The slope at the end is at most this fraction of that at `start`: 0.9 for quasi-Newton methods,
        0.1 to 0.4 for conjugate gradients.
    The best point found is returned where the conditions are not met within `MAX_EVALUATIONS`; None if none is better.
    """
    search = _Search(evaluate, start, slope, curvature)
    return search.run(first_step), search.evaluations


class _Search:
    def __init__(
        self, evaluate: Callable[[float], tuple[Point, float]], start: Point, slope: float, curvature: float
    ) -> None:
        self.evaluate, self.curvature = evaluate, curvature
        self.origin = _Trial(0.0, slope, start)
        self.noise = ROUNDING * abs(start.value)
        self.evaluations = 0
        self.best: _Trial | None = None

    def run(self, step: float) -> Point | None:
        before = self.origin
        while self.evaluations < MAX_EVALUATIONS:
            trial = self.try_step(step)
            if not self.decreases(trial) or (before.step and trial.point.value >= before.point.value + self.noise):
                return self.zoom(before, trial)
            if self.flat(trial):
                return trial.point
            if trial.slope >= 0:
                return self.zoom(trial, before)
            before, step = trial, 2 * step
        return self.fallback()

    def try_step(self, step: float) -> _Trial:
        self.evaluations += 1
        point, slope = self.evaluate(step)
        trial = _Trial(step, slope, point)
        if np.isfinite(point.value) and (self.best is None or point.value < self.best.point.value):
            self.best = trial
        return trial

    def decreases(self, trial: _Trial) -> bool:
        start = self.origin
        bound = start.point.value + DECREASE * trial.step * start.slope
        if trial.point.value <= bound:
            return True
        # the sum of the slopes stands for the decrease where values are too close to tell
        approximately = trial.slope <= (2 * DECREASE - 1) * start.slope
        return bool(trial.point.value <= start.point.value + self.noise and approximately)

    def flat(self, trial: _Trial) -> bool:
        return abs(trial.slope) <= -self.curvature * self.origin.slope

    def zoom(self, low: _Trial, high: _Trial) -> Point | None:
        """Shrink the bracket [low, high], where low is the better end."""
        while self.evaluations < MAX_EVALUATIONS:
            if abs(high.step - low.step) <= 1e-9 * max(low.step, high.step):
                break
            trial = self.try_step(_interpolate(low, high))
            if not self.decreases(trial) or trial.point.value >= low.point.value + self.noise:
                high = trial
                continue
            if self.flat(trial):
                return trial.point
            if trial.slope * (high.step - low.step) >= 0:
                high = low
            low = trial
        return self.fallback()

    def fallback(self) -> Point | None:
        if self.best is not None and self.best.point.value < self.origin.point.value:
            return self.best.point
        return None


def _interpolate(low: _Trial, high: _Trial) -> float:
    """Return the minimiser of the cubic through both ends, kept inside the bracket; the middle where there is none."""
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
