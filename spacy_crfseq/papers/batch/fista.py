"""FISTA, the accelerated proximal gradient method, for every penalty with a proximal map.

Beck & Teboulle (2009), "A fast iterative shrinkage-thresholding algorithm".  With f the smooth part of the objective
and h the rest, a step leads from y to ``z = prox(y - grad f(y) / c, 1 / c)``.  The curvature c is doubled until f at z
is no higher than its quadratic model (their FISTA with backtracking), and slightly reduced for the next iteration, so
that steps can grow; ``t' = (1 + sqrt(1 + 4 t^2 c'/c)) / 2`` accounts for that (Scheinberg, Goldfarb & Bai 2014).  The
next y is beyond z by ``(t - 1)/t'`` times the last step.  The momentum is reset if it points uphill or would increase
the objective (O'Donoghue & Candes 2015, section 3.2).  The objective therefore never increases, and the method benefits
from strong convexity without knowing its constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...optimizers.batch import OPTIMUM, BatchMethod, BatchState, Point, add_scaled, dot, evaluate, norm
from ...threads import parts, run
from ...types import Floats, Objective, Regularizer, StepReport

RELAX, DOUBLE = 0.9, 2.0
MAX_TRIALS = 40
ROUNDING = 10.0
"""Differences of the objective below this number of units in the last place carry no information."""


@dataclass
class FISTAState(BatchState):
    """A run in progress.

    start (Point | None): y with the gradient of the smooth part; None if it is not yet evaluated.
    beyond (float): Distance of y beyond the current point, in multiples of the last step.
    last (Floats | None): [D] the previous point, if `beyond` is not 0.
    curvature (float): c, the inverse step size; 0 before the first step.
    momentum (float): t.
    """

    varying: ClassVar[frozenset[str]] = frozenset({"gradient"})  # that of `point` is empty
    start: Point | None = None
    beyond: float = 0.0
    last: Floats | None = None
    curvature: float = 0.0
    momentum: float = 1.0

    def leave(self) -> None:
        """Keep the current point as the previous one."""
        if self.last is not None:
            self.free.append(self.last)
        self.last = self.theta


@dataclass(frozen=True)
class FISTA(BatchMethod[FISTAState]):
    """FISTA with backtracking and restarts (registered as ``spacy_crfseq.FISTA.v1``).

    An iteration computes the objective twice, once without its gradient.  For an elastic net, OWL-QN needs far fewer
    iterations.

    gradient_tolerance (float): Stop when ||c (theta - prox(theta - grad f / c, 1 / c))||, which is the norm of the
        gradient if the penalty is smooth, is below this times max(1, ||theta||).
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"prox"})

    def start(self, theta: Floats) -> FISTAState:
        return FISTAState(theta.copy())

    def iterate(self, objective: Objective, state: FISTAState) -> StepReport:
        """Run one iteration: a proximal step from y, and the next y."""
        ended = bool(state.done)
        report = super().iterate(objective, state)
        if ended or not state.done:
            return report
        # so far the gradient norm was that of the proximal gradient at y
        _drop_momentum(state)
        state.start, threads = _ahead(objective, state), objective.n_threads
        there = _proximal_step(objective, state.start, state.curvature, state.take())
        add_scaled(state.start.theta, -1.0, there, there, threads)
        state.gradient_norm = state.curvature * norm(there, threads)
        state.free.append(there)
        if state.done != OPTIMUM:
            state.done = self.reason_to_stop(state, threads)
        return state.report(report.evaluations + 1)

    def _begin(self, objective: Objective, state: FISTAState) -> None:
        state.start = evaluate(objective, state.theta.copy(), state.take())
        state.begin(Point(state.theta, state.start.value, state.start.loss, state.theta[:0]))
        state.curvature = (norm(state.start.gradient, objective.n_threads) or 1.0) / RELAX

    def _step(self, objective: Objective, state: FISTAState) -> tuple[Point | None, int]:
        regularizer, threads, count = objective.regularizer, objective.n_threads, 0
        work, before = state.take(), state.curvature
        state.curvature *= RELAX
        for _ in range(MAX_TRIALS):
            if state.start is None:
                state.start = _ahead(objective, state)
                count += 1
            start = state.start
            theta = _proximal_step(objective, start, state.curvature, state.take())
            value = objective.value(theta)
            count += 1
            loss = value - regularizer.value(theta)
            smooth = loss + _smooth_penalty(regularizer, theta, work, threads)
            smooth_before = start.loss + _smooth_penalty(regularizer, start.theta, work, threads)
            add_scaled(theta, -1.0, start.theta, work, threads)
            square = dot(work, work, threads)
            model = smooth_before + dot(work, start.gradient, threads) + state.curvature / 2 * square
            model += ROUNDING * float(np.finfo(theta.dtype).eps) * abs(smooth_before)
            if smooth <= model and value <= state.current.value:
                state.gradient_norm = state.curvature * float(np.sqrt(square))
                _choose_start(state, theta, start, before, work, threads)
                return Point(theta, value, loss, theta[:0]), count
            state.free.append(theta)
            if smooth <= model and state.beyond:  # the momentum points uphill
                _drop_momentum(state)
            else:
                state.curvature *= DOUBLE
        state.done = OPTIMUM
        return None, count


def _choose_start(state: FISTAState, found: Floats, start: Point, before: float, work: Floats, n_threads: int) -> None:
    """Choose the next y; `before` is the curvature of the last step."""
    add_scaled(found, -1.0, state.theta, work, n_threads)
    uphill = dot(work, start.theta, n_threads) > dot(work, found, n_threads)  # (y - z) . (z - x) > 0
    state.free.append(work)
    last = 1.0 if uphill else state.momentum
    _drop_momentum(state)
    state.momentum = float((1 + np.sqrt(1 + 4 * last**2 * state.curvature / before)) / 2)
    state.beyond = max(0.0, (last - 1) / state.momentum)


def _ahead(objective: Objective, state: FISTAState) -> Point:
    """Return y with the gradient of the smooth part."""
    y, threads = state.take(), objective.n_threads
    if state.beyond and state.last is not None:
        add_scaled(state.theta, -1.0, state.last, y, threads)
        add_scaled(state.theta, state.beyond, y, y, threads)
    else:
        y[:] = state.theta
    return evaluate(objective, y, state.take())


def _drop_momentum(state: FISTAState) -> None:
    if state.start is not None:
        state.give(state.start)
    state.start, state.beyond, state.momentum = None, 0.0, 1.0


def _proximal_step(objective: Objective, start: Point, curvature: float, out: Floats) -> Floats:
    """Write ``prox(y - grad f(y) / c, 1 / c)`` to out [D]."""
    threads, regularizer = objective.n_threads, objective.regularizer
    add_scaled(start.theta, -1.0 / curvature, start.gradient, out, threads)
    whole = [slice(0, len(out))]  # penalties other than elastic nets may not be separable
    pieces = whole if regularizer.strengths is None else parts(len(out), threads)
    run([partial(regularizer.prox, out[piece], 1.0 / curvature) for piece in pieces])
    return out


def _smooth_penalty(regularizer: Regularizer, theta: Floats, work: Floats, n_threads: int) -> float:
    """Return the smooth part of the penalty at theta [D], a quadratic form if there is another part."""
    if regularizer.smooth:
        return regularizer.value(theta)
    work[:] = 0
    regularizer.add_grad(theta, work)
    return dot(work, theta, n_threads) / 2
