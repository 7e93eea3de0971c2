"""Coordinate descent: one weight, or all weights of one feature, after another.

Sokolovska (2010), "Contributions to the estimation of probabilistic discriminative models", chapter 7, and Sokolovska,
Lavergne, Cappé & Yvon (2010).  For a weight w_k, with gradient g_k of the loss and the diagonal of its Hessian per
position, h_k = sum P (1 - P) (eq. 7.3), the penalty ``l1 ||w||_1 + l2/2 ||w||^2`` gives the step ::

    w_k = S(h_k w_k - g_k, l1) / (h_k + l2)          S(x, a) = sign(x) max(|x| - a, 0)

Only the sequences that hold the feature are visited.  Where most label-pair weights are zero, as under an L1 norm,
forward and backward recursions cost L + nnz instead of L^2 operations a position, so that sweeps get faster as the
model gets sparser.  What the step control of eq. 7.4 is for is done as follows: h is multiplied by a factor, the
curvature that was seen in the last step of the same weights, no weight moves by more than 2, and a step that does not
lower the objective by a share of the predicted decrease is repeated with a shorter length. The objective therefore
never increases.

`kernels` has the algorithm; here are its indices, the order of visits and the end of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...optimizers.online import check_seed, generator
from ...types import NONE, Floats, IndexedObjective, StepReport

if TYPE_CHECKING:
    from .work import Work


@dataclass
class CoordinateState:
    """A run in progress.

    factors (NDArray): What multiplies the curvature of each row, or of each weight; empty before the first sweep.
    full (bool): The next sweep visits zeros too.
    work (Work | None): Indices and scores.
    """

    varying: ClassVar[frozenset[str]] = frozenset({"factors"})  # see `training.checkpoint`
    theta: NDArray[np.float64]
    rng: np.random.Generator
    factors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0
    value: float = float("inf")
    full: bool = True
    last: StepReport | None = None
    work: Work | None = None


@dataclass(frozen=True)
class BlockCoordinateDescent:
    """All weights of one feature at a time (registered as ``spacy_crfseq.BlockCoordinateDescent.v1``).

    Algorithm 9 of the thesis, "SBCD".  Transitions, start and end scores are blocks of their own.

    kappa (float): What multiplies the curvature at the first visit of a feature.
    revisit (int): Every so many sweeps all weights are visited, in the others those that are not zero; and so are all
        before the run may end.  1 visits all weights every time.
    shuffle (bool): Visit the features in a random order, another one in each sweep.
    max_iterations (int): Sweeps of a run.
    tolerance (float): Stop when the objective fell by less than this fraction in a sweep over all weights.
    gradient_tolerance (float): Stop when the norm of the smallest subgradient, as met on the way, is below this times
        max(1, ||theta||).
    seed (int | None): Of the order, where it is random; None for ``training.seed`` of the config, or 0 outside of one.
    RAISES ConfigError: On a setting out of range; at the first sweep, if there are too many different sets of
        label-pair features for a matrix each.
    """

    kappa: float = 1.5
    revisit: int = 5
    shuffle: bool = False
    max_iterations: int = 200
    tolerance: float = 1e-5
    gradient_tolerance: float = 1e-4
    seed: int | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if min(self.max_iterations, self.revisit) < 1:
            raise ConfigError(f"{name}: max_iterations and revisit must be at least 1.")
        if not self.kappa > 0 or not min(self.tolerance, self.gradient_tolerance) >= 0:
            raise ConfigError(f"{name}: kappa must be positive, tolerance and gradient_tolerance 0 or more.")
        check_seed(name, self.seed)

    requires: ClassVar[frozenset[str]] = frozenset({"log_likelihood"})
    penalties: ClassVar[frozenset[str]] = frozenset({"elastic"})
    online: ClassVar[bool] = False
    _single: ClassVar[bool] = False  # whether weights are visited one at a time

    def start(self, theta: Floats) -> CoordinateState:
        return CoordinateState(theta.astype(np.float64), generator(self.seed))

    def export(self, state: CoordinateState, theta: Floats) -> None:
        theta[:] = state.theta

    def iterate(self, objective: IndexedObjective, state: CoordinateState) -> StepReport:
        """Run one sweep."""
        from .work import Work

        if state.last is not None and state.last.converged:
            return state.last._replace(evaluations=0)
        strengths = objective.regularizer.strengths or NONE
        if state.work is None or state.work.objective is not objective:
            state.work = Work(objective)
        work = state.work
        before = work.begin(state.theta) + objective.regularizer.value(state.theta)
        full = state.full or state.iterations % self.revisit == 0
        n_factors = len(state.theta) if self._single else work.n_rows
        if len(state.factors) != n_factors:
            state.factors = np.full(n_factors, self.kappa)
        violation, visited = 0.0, 0  # the squared norm of the gradient as it was met, and sequences passed through
        for chunk in work.chunks(state.rng if self.shuffle else None, self._single):
            found = work.sweep(chunk, self._single, full, state.theta, state.factors, strengths)
            violation, visited = violation + found[0], visited + found[1]
        loss = work.loss()
        state.value = loss + objective.regularizer.value(state.theta)
        state.iterations += 1
        norm = float(np.sqrt(violation))
        message = self._stop(state, before, norm, full)
        if message:
            norm = work.subgradient_norm(state.theta, strengths)
        passes = 1 + round(visited / max(1, objective.n_sequences))
        state.last = StepReport(state.value, loss, norm, passes, bool(message), message)
        return state.last

    def _stop(self, state: CoordinateState, before: float, norm: float, full: bool) -> str:
        message = ""
        if norm < self.gradient_tolerance * max(1.0, float(np.linalg.norm(state.theta))):
            message = f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
        elif before - state.value < self.tolerance * abs(state.value):
            message = f"the objective fell by less than {self.tolerance:g} of its value in a sweep"
        state.full = bool(message) and not full
        if message and full:
            return message
        if state.iterations >= self.max_iterations:
            return f"{self.max_iterations} sweeps were run"
        return ""


@dataclass(frozen=True)
class CoordinateDescent(BlockCoordinateDescent):
    """One weight at a time (registered as ``spacy_crfseq.CoordinateDescent.v1``).

    Algorithm 8 of the thesis.  A sweep passes over the sequences of a feature once for each of its weights: for
    small problems, or few weights a feature.  Settings and errors are those of `BlockCoordinateDescent`.
    """

    _single: ClassVar[bool] = True
