"""Sequence boosting: each round updates one feature, chosen by a bound on the loss.

Altun, Hofmann & Johnson (2002), "Discriminative learning for label sequences via boosting"; Altun, Johnson & Hofmann
(2003), algorithm 2.  The loss is ``sum_n w_n phi(u_n)`` with u_n = -log P(y_n | x_n) and phi convex and increasing: the
identity, or their exp(u) - 1.  Let the weight of feature k increase by x.  A label sequence y of n has the feature
v(y) = count_k(y) - count_k(y_n) times more often than the gold sequence, and 1 / P(y_n) is multiplied by::

    z_n(x) = sum_y P(y) exp(x v(y))         phi(u + log z) <= phi(u) + phi'(u) (z - 1)

The inequality is true for the identity because log z <= z - 1, and for exp(u) - 1 with equality.  Beyond a cap c, phi
is a tangent with slope e^c, and ``e^c log z <= e^c (z - 1)``.  If u + log z is below the cap, with s = u - c, the
inequality is ``e^s z <= s + z``, which follows from z < e^-s and 1 - e^-s <= s.  The sum over n of s_n (z_n - 1), with
s_n = w_n phi'(u_n), therefore bounds the change of the loss; without a cap it is the paper's Z_k.  Choices of `bound`:

* *exact* (2002, eq. 13-14): z_n from the probability of each v, by a recursion with an accumulator.
* *tight* (2002, eq. 16-18): a sequence other than the gold one has v in [-l, h].  The chord of the exponential gives
  ``z - 1 <= sum_{y != y_n} P(y) ((h - v) e^{-x l} + (v + l) e^{x h}) / (l + h) - (1 - P(y_n))``, for each n with its
  own interval; sequences without the feature's attribute change nothing.  A line search finds the minimum.
* *loose* (2002, eq. 19-21; 2003, algorithm 2): one interval for all n, also those without the attribute.  With
  W = sum_n s_n (1 - P(y_n)) and G = sum_n s_n sum_y P(y) v(y) the minimum is in closed form::

      x = log(l (h W - G) / (h (G + l W))) / (l + h)

If gold labels are missing, Q = P(. | known labels) and v(y) = count_k(y) - E_Q[count_k]: sequences that agree with the
known labels contribute the same to both sides, and ``1 / E_Q[exp(x count)] <= exp(-x E_Q[count])`` for the others, so
the same formulas apply.

Transitions, start and end scores are features like all others.  They are in every sequence, so a step of one costs a
pass over the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...optimizers.states import StoredState
from ...types import Floats, IndexedObjective, LossProperty, StepReport

if TYPE_CHECKING:
    from .work import Memory

BOUNDS = ("exact", "tight", "loose")
SHRUNK = 0.5
"""All sums are recomputed when the loss has decreased to this fraction, so that rounding errors do not accumulate."""


@dataclass
class BoostingState(StoredState):
    """A run in progress.

    memory (Memory | None): None before the first iteration, and after an interrupt, which requires recomputation.
    rounds (int): Steps taken.
    shrunk (float): The loss at the last computation of all sums.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"memory"})
    theta: NDArray[np.float64]
    memory: Memory | None = None
    rounds: int = 0
    iterations: int = 0
    shrunk: float = 0.0
    done: str = ""


@dataclass(frozen=True)
class Boosting:
    """Sequence boosting (registered as ``spacy_crfseq.Boosting.v1``); its penalty is the number of rounds.

    It requires a loss that is a function of the likelihood of whole sequences, and no regularizer.  A weight stays
    exactly zero until its feature is chosen.

    bound (str): "loose", "tight" or "exact", see the module's docstring.  "exact" was best on development parts; with
        many labels, its rounds take several times as long as those of "tight".
    rounds (int): Steps per iteration; the run reports, and can be scored and stopped, after each iteration.  Boosting
        memorizes separable training data in some thousand rounds: stop by the score on other data.
    max_iterations (int): Iterations of a run.
    max_step (float | None): Maximum step.  None: no step is limited but an infinite one, of a feature that is never
        wrong, which becomes 10.
    candidates (int): Attributes whose best feature a round of "tight" or "exact" searches, those of largest estimate,
        beside one transition, start or end score.  0 searches all features that may be the best: exactly the papers'
        choice, at the cost of a search for each.
    longest (int): Sequences of more tokens are cut into pieces of similar lengths for training, because a few long
        ones dominate the exponential loss (2002, section 7.3); 0 for none.  The reported loss is that of the pieces.
    tolerance (float): Stop when the guaranteed decrease of the best step is less than this fraction of the loss.
    gradient_tolerance (float): Stop when ||gradient|| is below this times max(1, ||theta||) after an iteration.
    RAISES ConfigError: On a setting out of range.
    """

    bound: str = "exact"
    rounds: int = 100
    max_iterations: int = 100
    max_step: float | None = None
    candidates: int = 16
    longest: int = 0
    tolerance: float = 1e-6
    gradient_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.bound not in BOUNDS:
            raise ConfigError(f"Boosting: bound must be one of {', '.join(BOUNDS)}, but {self.bound!r} was given.")
        if min(self.rounds, self.max_iterations) < 1:
            raise ConfigError("Boosting: rounds and max_iterations must be at least 1.")
        if min(self.candidates, self.longest) < 0:
            raise ConfigError("Boosting: candidates and longest must be 0 or more.")
        if (self.max_step is not None and not self.max_step > 0) or not min(
            self.tolerance, self.gradient_tolerance
        ) >= 0:
            raise ConfigError("Boosting: max_step must be positive, tolerance and gradient_tolerance 0 or more.")

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"likelihood"})
    penalties: ClassVar[frozenset[str]] = frozenset({"none"})
    online: ClassVar[bool] = False

    def start(self, theta: Floats) -> BoostingState:
        return BoostingState(theta.astype(np.float64))

    def export(self, state: BoostingState) -> Floats:
        return state.theta

    def iterate(self, objective: IndexedObjective, state: BoostingState) -> StepReport:
        """Run `rounds` rounds, fewer if no step helps."""
        from .work import Memory

        memory, state.memory = state.memory, None
        if memory is None:
            memory = Memory(objective, state.theta, self.bound, self.max_step, self.longest)
        else:
            memory.begin(objective)  # so that a run that was stored in between goes on in the same way
        state.shrunk = memory.value
        visited = memory.visited
        for _ in range(0 if state.done else self.rounds):
            step = memory.best_step(self.candidates)
            if step.gain <= self.tolerance * memory.value:
                state.done = f"no step promises to lower the loss by more than {self.tolerance:g} of its value"
                break
            memory.take(objective, step)
            state.rounds += 1
            if memory.value < SHRUNK * state.shrunk:
                memory.begin(objective)
                state.shrunk = memory.value
        norm = memory.grad_norm()
        if not state.done:
            state.iterations += 1
            if norm < self.gradient_tolerance * max(1.0, float(np.linalg.norm(state.theta))):
                state.done = f"the gradient norm is below {self.gradient_tolerance:g} of the parameters' norm"
            elif state.iterations >= self.max_iterations:
                state.done = f"{self.max_iterations} iterations of {self.rounds} rounds were run"
        state.memory = memory  # it stays None after an interrupt
        passes = -(-(memory.visited - visited) // max(1, memory.n_tokens))
        return StepReport(memory.value, memory.value, norm, passes, bool(state.done), state.done)
