"""Mistake-driven methods: the averaged perceptron, passive-aggressive steps and AROW.

They step after each sequence with something wrong, along the gradient g of its loss l:

- the perceptron: ``w -= g``, g the features of the best labels less those of the gold.  Collins (2002),
  "Discriminative training methods for hidden Markov models", with the average of all weights (Freund & Schapire 1999),
  to which a weight is added when it changes and not at every step.
- passive-aggressive: ``w -= tau g``, the smallest step that corrects the sequence, with ``tau = l / ||g||^2`` (PA),
  ``min(C, l / ||g||^2)`` (PA-I) or ``l / (||g||^2 + 1 / 2C)`` (PA-II).  Crammer, Dekel, Keshet, Shalev-Shwartz &
  Singer (2006), "Online passive-aggressive algorithms".
- AROW: each weight has a variance, the diagonal of Sigma, and steps are long where it is large.  Crammer, Kulesza &
  Dredze (2009), "Adaptive regularization of weight vectors", figure 1::

    beta = 1 / (g' Sigma g + r)        w -= l beta Sigma g        Sigma_ii -= beta (Sigma_ii g_i)^2
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError
from ..types import Floats, LossProperty, OnlineObjective, RowBlock, RowGradient, StepReport
from .online import OnlineMethod, OnlineState, check_seed, generator

PATIENCE = 3
"""Epochs that may pass without a smaller loss; from one to the next it may rise."""
VARIANTS = ("PA", "PA-I", "PA-II")


class Collector:
    """Lists the gradient of one sequence with each parameter once."""

    def __init__(self, blocks: list[RowBlock], like: Floats) -> None:
        self._blocks, self._scratch = blocks, np.zeros_like(like)
        self._make_room(1024)

    def _make_room(self, size: int) -> None:
        self._places, self._values = np.empty(size, np.int64), np.empty(size, self._scratch.dtype)

    def collect(self, gradients: list[RowGradient]) -> tuple[NDArray[np.int64], Floats, int]:
        """Return the places and values of the sum of some gradients, in longer arrays, and their number."""
        places, values, n = self._places, self._values, 0
        for number, ptr, ids, d in gradients:
            block = self._blocks[number]
            gradient, rows = (ptr, ids, d), (block.ptr, block.cols)
            n = kernels.updates.collect(gradient, rows, block.begin, self._scratch, places, values, n)
            if n < 0:
                self._make_room(-2 * n)
                return self.collect(gradients)
        return places, values, n


@dataclass(kw_only=True)
class MistakeState(OnlineState):
    """A run in progress.

    sums (Floats): [D] of the steps, each times the clock when it was made; empty where no average is kept.
    variances (Floats): [D] of each weight; empty where the method has none.
    clock (float): Sequences seen.
    work (Collector | None): Room for gradients; made where it is needed.
    """

    derived: ClassVar[frozenset[str]] = frozenset({"work"})
    variances: Floats
    clock: float = 0.0
    work: Collector | None = None


class MistakeSteps(OnlineMethod):
    """An online method that makes a step for each sequence where something is wrong.

    average (bool): Predict with the average of the weights after each sequence.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    """

    requires: ClassVar[frozenset[LossProperty]] = frozenset({"minibatches", "best_path"})
    penalties: ClassVar[frozenset[str]] = frozenset({"none"})
    diverged: ClassVar[str] = "the loss is not finite"
    average: bool = True

    def __post_init__(self) -> None:
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            raise ConfigError(f"{type(self).__name__}: max_iterations must be at least 1, and 0 <= tolerance < 1.")
        check_seed(type(self).__name__, self.seed)

    def start(self, theta: Floats) -> MistakeState:
        sums = np.zeros_like(theta) if self.average else theta[:0].copy()
        return MistakeState(theta.copy(), sums, generator(self.seed), variances=self._variances(theta))

    def export(self, state: MistakeState) -> Floats:
        """Return the average of the weights after each sequence, or the weights where none is kept.

        A step that was made at clock c is part of the weights from then on, so that the average is
        ``weights - sums / clock`` (Daume 2006, figure 2.3).
        """
        theta = np.empty_like(state.weights)
        if len(state.sums) and state.clock:
            kernels.vectors.average(state.weights, 1.0, state.sums, -1 / state.clock, theta)
        else:
            theta[:] = state.weights
        return theta

    def again(self, state: MistakeState, theta: Floats, seen: float) -> MistakeState:
        new: MistakeState = super().again(state, theta, seen)
        new.variances = state.variances
        return new

    def iterate(self, objective: OnlineObjective, state: MistakeState) -> StepReport:
        loss, mistakes = self._pass(objective, state)
        return self.report(state, loss, done="" if mistakes else "nothing is wrong any more")

    def _pass(self, objective: OnlineObjective, state: MistakeState) -> tuple[float, int]:
        """Pass over the sequences and make the steps; return the sum of the losses and the number of mistakes."""
        loss, mistakes = 0.0, 0
        for batch in objective.minibatches(1, state.rng):
            batch_loss, gradients = batch.loss_and_grad(state.weights)
            loss += batch_loss
            mistakes += self._correct(objective.blocks, state, batch_loss, gradients)
            state.clock += 1.0  # here, so that the average is sound if an interrupt ends the epoch
        return loss, mistakes

    def _settled(self, values: list[float]) -> str:
        before, lately = values[:-PATIENCE], values[-PATIENCE:]
        if before and min(lately) > (1 - self.tolerance) * min(before):
            return f"the loss fell by less than {self.tolerance:g} of its value in {PATIENCE} epochs"
        return ""

    def _variances(self, theta: Floats) -> Floats:
        """Return the variance of each weight [D] at the start; an empty array if there are none."""
        return theta[:0].copy()

    @abstractmethod
    def _correct(self, blocks: list[RowBlock], state: MistakeState, loss: float, gradients: list[RowGradient]) -> int:
        """Make the step for a sequence of this loss and gradient; return the number of mistakes in it."""


@dataclass(frozen=True)
class AveragedPerceptron(MistakeSteps):
    """Averaged structured perceptron (registered as ``spacy_crfseq.AveragedPerceptron.v1``).

    Takes the loss Perceptron, or Hinge for a perceptron with a margin.  There is no penalty to be chosen, and the rate
    matters only where training does not begin at zero: the size of the weights does not change predictions.

    rate (float): Size of the steps; weights of a trained CRF are small, those of a perceptron count mistakes.
    RAISES ConfigError: On a setting out of range.
    """

    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int | None = None
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < np.inf:
            raise ConfigError(f"AveragedPerceptron: rate must be positive, but {self.rate} was given.")
        super().__post_init__()

    def _correct(self, blocks: list[RowBlock], state: MistakeState, loss: float, gradients: list[RowGradient]) -> int:
        mistakes = 0
        for number, ptr, ids, d in gradients:
            if number == 0:
                mistakes = int(np.count_nonzero(d.any(1)))
                if not mistakes:
                    break  # where the labels of all tokens are right, so is whatever else depends on them
            if self.rate != 1:
                d *= self.rate
            rows = ptr, ids, d, blocks[number].ptr, blocks[number].cols
            kernels.updates.add_rows(*rows, -1.0, blocks[number].of(state.weights))
            if self.average:
                kernels.updates.add_rows(*rows, -state.clock, blocks[number].of(state.sums))
        return mistakes


class MarginSteps(MistakeSteps):
    """An online method that makes a step along the gradient of the hinge loss where a sequence has one."""

    requires: ClassVar[frozenset[LossProperty]] = MistakeSteps.requires | {"margin"}

    def _correct(self, blocks: list[RowBlock], state: MistakeState, loss: float, gradients: list[RowGradient]) -> int:
        if loss <= 0:
            return 0
        if state.work is None:
            state.work = Collector(blocks, state.weights)
        listed = state.work.collect(gradients)
        square = kernels.updates.weighted_square(listed, state.variances)
        if square > 0:
            steps = self._step(loss, square)
            kernels.updates.step_at(listed, *steps, state.clock, state.weights, state.variances, state.sums)
        return 1

    @abstractmethod
    def _step(self, loss: float, square: float) -> tuple[float, float]:
        """Return the length of the step along a gradient g, and how much of g's direction the variances lose.

        square (float): The squared norm of g, weighted by the variances where there are any.
        """


@dataclass(frozen=True)
class PassiveAggressive(MarginSteps):
    """Passive-aggressive steps (registered as ``spacy_crfseq.PassiveAggressive.v1``); takes the loss Hinge.

    variant (str): "PA", "PA-I" or "PA-II"; the latter two bear with noisy labels.
    aggressiveness (float): C, the larger the longer the steps; PA has none.
    RAISES ConfigError: On a setting out of range.
    """

    variant: str = "PA-I"
    aggressiveness: float = 1.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ConfigError(f"PassiveAggressive: variant must be one of {VARIANTS}, but {self.variant!r} was given.")
        if not self.aggressiveness > 0:
            raise ConfigError(f"PassiveAggressive: aggressiveness must be positive, not {self.aggressiveness}.")
        super().__post_init__()

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        if self.variant == "PA-II":
            return loss / (square + 0.5 / self.aggressiveness), 0.0
        return loss / square if self.variant == "PA" else min(self.aggressiveness, loss / square), 0.0


@dataclass(frozen=True)
class AROW(MarginSteps):
    """Adaptive regularization of weights (registered as ``spacy_crfseq.AROW.v1``); takes the loss Hinge.

    variance (float): Of every weight at the start.
    regularization (float): r, the larger the shorter the steps, and the slower the variances fall.
    RAISES ConfigError: On a setting out of range.
    """

    variance: float = 1.0
    regularization: float = 10.0
    average: bool = True
    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (self.variance > 0 and self.regularization > 0):
            raise ConfigError("AROW: variance and regularization must be positive.")
        super().__post_init__()

    def _variances(self, theta: Floats) -> Floats:
        return np.full_like(theta, self.variance)

    def _step(self, loss: float, square: float) -> tuple[float, float]:
        share = 1 / (square + self.regularization)
        return loss * share, share
