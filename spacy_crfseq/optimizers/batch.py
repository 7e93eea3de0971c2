"""Code that batch methods share: settings, states, stopping rules, long vectors.

Arrays have the length of the parameters, so they are reused, and threads share the passes over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..threads import parts, run
from ..types import NO_PENALTY, BatchObjective, Floats, LossProperty, RowBlock, StepReport
from .states import Kinds, StoredState

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")
OPTIMUM = "no step lowers the objective: the optimum is reached to working precision"
"""The reason for the end of a run without further improvement."""
SHARED = 1 << 20
"""The length from which vectors are shared by threads: starting one takes the time of a pass over 100,000 numbers."""


class Point(NamedTuple):
    """Parameters [D] with the objective's value, the loss alone and the gradient [D]."""

    theta: Floats
    value: float
    loss: float
    gradient: Floats


@dataclass(kw_only=True)
class BatchState(StoredState):
    """A run in progress, at the parameters theta [D] with this value of the objective, loss and gradient [D].

    gradient (Floats): Empty before the first evaluation, and where the gradient at theta is not needed.
    gradient_norm (float): Norm of the objective's gradient, or of its subgradient of least norm.
    values (list[float]): Objective at the start and after each iteration.
    free (list[Floats]): Arrays [D] for reuse.
    done (str): The reason for the end of the run; empty before.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"free"})
    theta: Floats
    value: float = float("nan")
    loss: float = float("nan")
    gradient: Floats
    gradient_norm: float = float("nan")
    values: list[float] = field(default_factory=list)
    free: list[Floats] = field(default_factory=list)
    done: str = ""

    @classmethod
    def at(cls, theta: Floats, **fields: Any) -> Self:
        """Return the state of a run that begins at theta [D]."""
        return cls(theta=theta.copy(), gradient=theta[:0].copy(), **fields)

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of `gradient` and `values`, see `StoredState`."""
        return {"gradient": (self.gradient, self.theta), "values": ([0.0, ...],)}

    def check(self) -> None:
        """RAISES ValueError: If there is a gradient before the first evaluation, or none afterwards."""
        if bool(len(self.gradient)) != bool(self.values):
            raise ValueError(f"a gradient of {len(self.gradient)} numbers after {len(self.values)} values")

    def take(self) -> Floats:
        """Return an uninitialised array [D]."""
        return self.free.pop() if self.free else np.empty_like(self.theta)

    def give(self, point: Point) -> None:
        """Release the arrays of a point."""
        self.free += [point.theta, point.gradient]

    @property
    def current(self) -> Point:
        """The current point, after the first evaluation."""
        return Point(self.theta, self.value, self.loss, self.gradient)

    def begin(self, point: Point) -> Point:
        """Store the first evaluation and return it."""
        self.theta, self.value, self.loss, self.gradient = point
        self.values.append(point.value)
        return point

    def leave(self) -> None:
        """Release the arrays of the current point."""
        self.give(self.current)

    def move(self, point: Point) -> None:
        """Continue from another point, with no higher objective."""
        self.leave()
        self.begin(point)

    def report(self, evaluations: int) -> StepReport:
        return StepReport(self.value, self.loss, self.gradient_norm, evaluations, bool(self.done), self.done)


State = TypeVar("State", bound=BatchState)


@dataclass(frozen=True)
class BatchMethod(Generic[State]):
    """A method that uses all data in every iteration: its settings and stopping rules.

    max_iterations (int): Maximum number of iterations of a run.
    tolerance (float): Stop when the objective decreased by less than this fraction over the last `period` iterations.
    period (int): See `tolerance`.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||).
    """

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"value_and_grad"})
    online: ClassVar[bool] = False
    max_iterations: int = 500
    tolerance: float = 1e-5
    period: int = 10
    gradient_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        name = type(self).__name__
        if min(self.max_iterations, self.period) < 1:
            raise ConfigError(f"{name}: max_iterations and period must be at least 1.")
        if min(self.tolerance, self.gradient_tolerance) < 0:
            raise ConfigError(f"{name}: tolerance and gradient_tolerance must be 0 or more.")

    def export(self, state: BatchState) -> Floats:
        return state.theta  # a copy may cost a tenth of a step

    def iterate(self, objective: BatchObjective, state: State) -> StepReport:
        """Run one iteration: a step from the current point, unless the run has ended."""
        evaluations = int(not state.values)
        if evaluations:
            self._begin(objective, state)
        if state.done:
            return state.report(evaluations)
        point, count = self._step(objective, state)
        if point is not None:
            state.move(point)
            state.done = self.reason_to_stop(state, objective.n_threads)
        return state.report(evaluations + count)

    def _begin(self, objective: BatchObjective, state: State) -> None:
        state.begin(evaluate(objective, state.theta, state.take()))

    def _step(self, objective: BatchObjective, state: State) -> tuple[Point | None, int]:
        """Return the next point, None if there is no better one, and the number of evaluations of the objective.

        The gradient norm becomes that of the next point.  If no further step can help, `state.done` says so.
        """
        raise NotImplementedError

    def reason_to_stop(self, state: BatchState, n_threads: int) -> str:
        """Return why the run ends after this iteration, or an empty string if it continues."""
        values = state.values
        if len(values) > self.period and values[-self.period - 1] - values[-1] < self.tolerance * abs(values[-1]):
            return f"the objective fell by no more than {self.tolerance:g} of its value in {self.period} iterations"
        if state.gradient_norm < self.gradient_tolerance * max(1.0, norm(state.theta, n_threads)):
            return f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        if len(values) > self.max_iterations:
            return f"{self.max_iterations} iterations were run"
        return ""


def evaluate(objective: BatchObjective, theta: Floats, gradient: Floats) -> Point:
    """Return the point theta [D], its gradient written to `gradient` [D]."""
    value, loss, gradient = objective.value_and_grad(theta, gradient)
    return Point(theta, value, loss, gradient)


def shared(function: Callable[[slice], Result], length: int, n_threads: int) -> list[Result]:
    """Return the results of `function` for the parts of a long range, computed in threads."""
    return run([partial(function, part) for part in parts(length, n_threads)])


def elementwise(kernel: Callable[..., Result], n_threads: int, first: Floats, *others: Floats | float) -> list[Result]:
    """Return the results of a kernel for the parts of arrays [D], computed in threads; numbers are passed to all."""

    def call(part: slice) -> Result:
        return kernel(first[part], *(other[part] if isinstance(other, np.ndarray) else other for other in others))

    return shared(call, len(first), n_threads if len(first) >= SHARED else 1)


def dot(x: Floats, y: Floats, n_threads: int) -> float:
    """Return the inner product."""
    return sum(elementwise(kernels.vectors.dot, n_threads, x, y))


def norm(x: Floats, n_threads: int) -> float:
    """Return ||x||."""
    return float(np.sqrt(dot(x, x, n_threads)))


def add_scaled(x: Floats, factor: float, y: Floats, out: Floats, n_threads: int) -> None:
    """Write ``x + factor * y`` to out [D]."""
    elementwise(kernels.vectors.add_scaled, n_threads, x, factor, y, out)


def l1_strength(objective: BatchObjective) -> float:
    """Return the strength of the penalty's L1 norm."""
    return (objective.regularizer.strengths or NO_PENALTY).l1


def pseudo_gradient(objective: BatchObjective, point: Point, out: Floats) -> Floats:
    """Write the subgradient of least norm to out [D] and return it; without an L1 norm, that is the gradient."""
    l1 = l1_strength(objective)
    elementwise(kernels.vectors.pseudo_gradient, objective.n_threads, point.theta, point.gradient, l1, out)
    return out
