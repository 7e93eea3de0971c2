"""The averaged perceptron: after each sequence, ``w -= g``, g the features of the best labels less those of the gold.

Collins (2002), "Discriminative training methods for hidden Markov models", with the average of all weights (Freund &
Schapire 1999), to which a weight is added when it changes and not at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import ConfigError
from ..types import Floats, OnlineObjective, StepReport
from .mistakes import MistakeState


@dataclass(frozen=True)
class AveragedPerceptron:
    """Averaged structured perceptron (registered as ``spacy_crfseq.AveragedPerceptron.v1``).

    Takes the loss Perceptron, or Hinge for a perceptron with a margin.  There is no penalty to be chosen, and the rate
    matters only where training does not begin at zero: the size of the weights does not change what is predicted.

    rate (float): Size of the steps; weights of a trained CRF are small, those of a perceptron count mistakes.
    max_iterations (int): Epochs of a run.
    tolerance (float): Stop when the loss, as met on the way, fell by less than this fraction in three epochs.
    seed (int): Of the order of the sequences.
    RAISES ConfigError: On a setting out of range.
    """

    needs: ClassVar = frozenset({"minibatches", "best_path"})
    penalties: ClassVar = frozenset({"none"})
    online: ClassVar = True

    max_iterations: int = 20
    tolerance: float = 0.1
    seed: int = 0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < np.inf:
            raise ConfigError(f"AveragedPerceptron: rate must be positive, but {self.rate} was given.")
        if self.max_iterations < 1 or not 0 <= self.tolerance < 1:
            raise ConfigError("AveragedPerceptron: max_iterations must be at least 1, and 0 <= tolerance < 1.")

    def start(self, theta: Floats) -> MistakeState:
        """Return the state of a run that begins at `theta`."""
        return MistakeState(theta.copy(), np.zeros_like(theta), theta[:0].copy(), np.random.default_rng(self.seed))

    def export(self, state: MistakeState, theta: Floats) -> None:
        """Write the average."""
        state.average(theta)

    def iterate(self, objective: OnlineObjective, state: MistakeState) -> StepReport:
        """Pass once over the data of `objective`."""
        from ..kernels.updates import perceptron

        parts = [(block.ptr, block.cols, block.of(state.weights), block.of(state.sums)) for block in objective.blocks]
        loss, mistakes = 0.0, 0
        for batch in objective.minibatches(1, state.rng):
            batch_loss, gradients = batch.loss_and_grad(state.weights)
            loss += batch_loss
            for number, ptr, ids, d in gradients:
                if self.rate != 1:
                    d *= self.rate
                row_ptr, cols, weights, sums = parts[number]
                wrong = perceptron(ptr, ids, d, row_ptr, cols, state.clock, weights, sums)
                if number == 0:
                    mistakes += wrong
                    if not wrong:
                        break  # where the labels of all tokens are right, so is whatever else depends on them
            state.clock += 1.0  # here, so that the average is sound if an interrupt ends the epoch
        return state.report(loss, mistakes, self.max_iterations, self.tolerance)
