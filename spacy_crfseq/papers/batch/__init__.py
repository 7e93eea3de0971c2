"""Batch methods beside L-BFGS and OWL-QN: conjugate gradients, the proximal gradient method, RPROP; the group lasso.

**Conjugate gradients**, nonlinear, with a strong Wolfe line search.  Nocedal & Wright (2006), algorithm 5.4: the
direction is ``-g + beta d``, with the previous direction d and::

    Fletcher & Reeves (1964)           beta = (g . g) / (g' . g')                     eq. 5.41a
    Polak & Ribiere (1969)             beta = max(0, g . (g - g') / (g' . g'))        eq. 5.44 and 5.45 (PR+)

where g' is the previous gradient.  The method restarts with the gradient if two gradients are far from orthogonal
(Powell's restart, eq. 5.52) or the direction is not a descent direction.  It stores four arrays, fewer than L-BFGS with
two pairs.

**FISTA**, the accelerated proximal gradient method, for every penalty with a proximal map.  Beck & Teboulle (2009), "A
fast iterative shrinkage-thresholding algorithm".  With f the smooth part of the objective and h the rest, a step leads
from y to ``z = prox(y - grad f(y) / c, 1 / c)``.  The curvature c is doubled until f at z is no higher than its
quadratic model (their FISTA with backtracking), and slightly reduced for the next iteration, so that steps can grow;
``t' = (1 + sqrt(1 + 4 t^2 c'/c)) / 2`` accounts for that (Scheinberg, Goldfarb & Bai 2014).  The next y is beyond z by
``(t - 1)/t'`` times the last step.  The momentum is reset if it points uphill or would increase the objective
(O'Donoghue & Candes 2015, section 3.2).  The objective therefore never increases, and the method benefits from strong
convexity without knowing its constant.

**RPROP**, resilient back-propagation: a step length for each weight, using only the signs of the gradient.  Riedmiller
& Braun (1993).  A weight's step grows by 1.2 while its gradient keeps its sign and is halved when it changes; a weight
whose gradient has just changed its sign pauses for one iteration (iRprop, Igel & Huesken 2003).  If the objective
increases, the whole step is reverted, and the weights that went too far retry with half of their step (iRprop+ reverts
single steps).  The objective never increases, and the method converges.  With an L1 norm, signs are those of the
pseudo-gradient, and a weight stops at zero instead of crossing it (Wapiti, Lavergne, Cappe & Yvon 2010).

**Group lasso**, a sum of Euclidean norms, one for each feature, which drops whole features.  Yuan & Lin
(2006), eq. 2.1 with K_j the identity times the size of group j::

    rho sum_r sqrt(n_r) ||w_r||_2

where w_r are the n_r weights of feature r for all labels.  Scores that all positions share, such as transitions,
are groups of one weight, whose norm is the absolute value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...errors import ConfigError, suggest
from ...optimizers import batch
from ...optimizers.batch import OPTIMUM, BatchMethod, BatchState, Point, add_scaled, dot, elementwise, evaluate, norm
from ...optimizers.lbfgs import search
from ...optimizers.states import Kinds
from ...regularizers._shared import Penalty
from ...threads import parts, run
from ...types import BatchObjective, Floats, Offsets, Regularizer, RowBlock, StepReport

UPDATES = ("PR", "FR")
CURVATURE = 0.1
"""Directions stay conjugate only with an accurate line search; below 0.5, all are descent directions."""
ORTHOGONAL = 0.2
"""Gradients are far from orthogonal if their normalised product exceeds this (Powell's restart)."""
RELAX, DOUBLE = 0.9, 2.0
MAX_TRIALS = 40
ROUNDING = 10.0
"""Differences of the objective below this number of units in the last place carry no information."""
UP, DOWN, LONGEST = 1.2, 0.5, 50.0
MAX_RETREATS = 40


@dataclass(kw_only=True)
class ConjugateGradientState(BatchState):
    """A run in progress.

    direction (Floats): [D] of the last step; empty at the start and after a restart.
    expected (float): The last step times its slope, from which the length of the next step is estimated (eq. 3.60).
    """

    direction: Floats
    expected: float = 0.0

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of more fields, see `StoredState`."""
        return {**super().kinds(blocks), "direction": (self.direction, self.theta)}


@dataclass(frozen=True)
class ConjugateGradient(BatchMethod[ConjugateGradientState]):
    """Nonlinear conjugate gradients with a line search (registered as ``spacy_crfseq.ConjugateGradient.v1``).

    update (str): "PR" for Polak and Ribiere, variant PR+, or "FR" for Fletcher and Reeves, which is mostly slower.
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"smooth"})
    update: str = "PR"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update not in UPDATES:
            hint = suggest(self.update, UPDATES)
            raise ConfigError(f"ConjugateGradient: update = {self.update!r} is unknown. {hint}")

    def start(self, theta: Floats) -> ConjugateGradientState:
        return ConjugateGradientState.at(theta, direction=theta[:0].copy())

    def _begin(self, objective: BatchObjective, state: ConjugateGradientState) -> None:
        super()._begin(objective, state)
        state.gradient_norm = norm(state.current.gradient, objective.n_threads)
        state.done = "" if state.gradient_norm else OPTIMUM

    def _step(self, objective: BatchObjective, state: ConjugateGradientState) -> tuple[Point | None, int]:
        old, threads = state.current, objective.n_threads
        slope = dot(state.direction, old.gradient, threads) if len(state.direction) else 0.0
        restarted = not slope < 0
        if restarted:
            state.direction = np.negative(old.gradient, state.direction if len(state.direction) else None)
            slope = -(state.gradient_norm**2)
        step = 1.0 / max(1.0, state.gradient_norm) if not state.expected else state.expected / slope
        point, length, count = search(objective, state, state.direction, slope, step, CURVATURE)
        if point is None:
            if restarted:
                state.done = OPTIMUM
            state.direction, state.expected = state.direction[:0], 0.0
        else:
            state.expected = length * slope
            self._turn(state, old, point, threads)
        return point, count

    def _turn(self, state: ConjugateGradientState, old: Point, new: Point, n_threads: int) -> None:
        """Compute the direction that starts from the new point."""
        square, before = dot(new.gradient, new.gradient, n_threads), state.gradient_norm**2
        product = dot(new.gradient, old.gradient, n_threads)
        state.gradient_norm = float(np.sqrt(square))
        beta = square / before if self.update == "FR" else max(0.0, (square - product) / before)
        if abs(product) >= ORTHOGONAL * square:
            beta = 0.0
        downhill = np.negative(new.gradient, state.take())
        add_scaled(downhill, beta, state.direction, state.direction, n_threads)
        state.free.append(downhill)


@dataclass(kw_only=True)
class FISTAState(BatchState):
    """A run in progress.

    start (Point | None): y with the gradient of the smooth part; None if it is not yet evaluated.
    beyond (float): Distance of y beyond the current point, in multiples of the last step.
    last (Floats | None): [D] the previous point, if `beyond` is not 0.
    curvature (float): c, the inverse step size; 0 before the first step.
    momentum (float): t.
    """

    start: Point | None = None
    beyond: float = 0.0
    last: Floats | None = None
    curvature: float = 0.0
    momentum: float = 1.0

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of more fields, see `StoredState`."""
        start = Point(self.theta, 0.0, 0.0, self.theta)
        return {**super().kinds(blocks), "start": (None, start), "last": (None, self.theta)}

    def check(self) -> None:
        """Do nothing: there is no gradient at theta."""

    def leave(self) -> None:
        """Keep the current point as the previous one."""
        if self.last is not None:
            self.free.append(self.last)
        self.last = self.theta


@dataclass(frozen=True)
class FISTA(BatchMethod[FISTAState]):
    """Accelerated proximal gradients with restarts (registered as ``spacy_crfseq.FISTA.v1``).

    An iteration computes the objective twice, once without its gradient.  For an elastic net, OWL-QN needs far fewer
    iterations.

    gradient_tolerance (float): Stop when ||c (theta - prox(theta - grad f / c, 1 / c))||, which is the norm of the
        gradient if the penalty is smooth, is below this times max(1, ||theta||).
    RAISES ConfigError: On a setting out of range.
    """

    penalties: ClassVar[frozenset[str]] = frozenset({"prox"})

    def start(self, theta: Floats) -> FISTAState:
        return FISTAState.at(theta)

    def iterate(self, objective: BatchObjective, state: FISTAState) -> StepReport:
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

    def _begin(self, objective: BatchObjective, state: FISTAState) -> None:
        state.start = evaluate(objective, state.theta.copy(), state.take())
        state.begin(Point(state.theta, state.start.value, state.start.loss, state.theta[:0]))
        state.curvature = (norm(state.start.gradient, objective.n_threads) or 1.0) / RELAX

    def _step(self, objective: BatchObjective, state: FISTAState) -> tuple[Point | None, int]:
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


def _choose_start(state: FISTAState, point: Floats, start: Point, before: float, work: Floats, n_threads: int) -> None:
    """Choose the next y; `before` is the curvature of the last step."""
    add_scaled(point, -1.0, state.theta, work, n_threads)
    uphill = dot(work, start.theta, n_threads) > dot(work, point, n_threads)  # (y - z) . (z - x) > 0
    state.free.append(work)
    last = 1.0 if uphill else state.momentum
    _drop_momentum(state)
    state.momentum = float((1 + np.sqrt(1 + 4 * last**2 * state.curvature / before)) / 2)
    state.beyond = max(0.0, (last - 1) / state.momentum)


def _ahead(objective: BatchObjective, state: FISTAState) -> Point:
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


def _proximal_step(objective: BatchObjective, start: Point, curvature: float, out: Floats) -> Floats:
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
    """A step length for each weight, by the signs of its gradient (registered as ``spacy_crfseq.RPROP.v1``).

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
        return RPROPState.at(theta, steps=np.full_like(theta, self.first_step), signs=np.zeros_like(theta))

    def _step(self, objective: BatchObjective, state: RPROPState) -> tuple[Point | None, int]:
        threads, old, signs, steps = objective.n_threads, state.current, state.signs, state.steps
        pseudo = batch.pseudo_gradient(objective, old, state.take())
        state.gradient_norm = norm(pseudo, threads)
        elementwise(_adapt_steps, threads, pseudo, signs, steps)
        stop = batch.l1_strength(objective) > 0
        for count in range(1, MAX_RETREATS + 1):
            theta = state.take()
            elementwise(_sign_step, threads, old.theta, signs, steps, stop, theta)
            point = evaluate(objective, theta, state.take())
            batch.pseudo_gradient(objective, point, pseudo)
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


@dataclass(frozen=True)
class GroupLasso(Penalty):
    """rho sum_r sqrt(n_r) ||w_r||_2 over the rows r of weights (registered as ``spacy_crfseq.GroupLasso.v1``).

    A feature's weights are zero for all labels or for none.  Use FISTA to minimise it.  Until `over` sets the rows,
    all weights form one row.

    rho (float): Strength.
    RAISES ConfigError: If rho is negative.
    """

    strengths: ClassVar[None] = None  # it is not an elastic net
    rho: float = 1.0

    @property
    def smooth(self) -> bool:
        return self.rho == 0

    def over(self, blocks: Sequence[RowBlock]) -> GroupLasso:
        # the groups of parameters are consecutive
        begins = (
            block.begin + (block.ptr[:-1] if len(block.ptr) else np.arange(block.n_rows) * block.width)
            for block in blocks
        )
        return _OverRows(self.rho, ptr=np.unique(np.concatenate([*begins, [blocks[-1].end]])))  # without empty groups

    def _begins(self, weights: Floats) -> Offsets:
        """Return where the groups that have weights begin, and the end of the last one."""
        return np.array([0, len(weights)])

    def _groups(self, weights: Floats) -> tuple[Floats, Offsets]:
        """Return sqrt(n_r) ||w_r||_2 of each group that has weights, in float64, and the sizes n_r."""
        ptr = self._begins(weights)
        norms = np.sqrt(np.add.reduceat(np.square(weights, dtype=np.float64), ptr[:-1]))
        return np.sqrt(np.diff(ptr)) * norms, np.diff(ptr)

    def value(self, weights: Floats) -> float:
        return self.rho * float(self._groups(weights)[0].sum())

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Do nothing, because there is no smooth part."""

    def prox(self, weights: Floats, step: float) -> None:
        norms, sizes = self._groups(weights)
        factors = np.maximum(0, 1 - step * self.rho * sizes / np.maximum(norms, 1e-300))
        weights *= np.repeat(factors, sizes).astype(weights.dtype)


@dataclass(frozen=True, kw_only=True)
class _OverRows(GroupLasso):
    """The penalty on parameters whose groups begin at `ptr`."""

    ptr: Offsets

    def __post_init__(self) -> None:
        """Do nothing: the strength was checked."""

    def _begins(self, weights: Floats) -> Offsets:
        return self.ptr
