"""The averaged perceptron: after each sequence, ``w -= g``, g the features of the best labels less those of the gold.

Collins (2002), "Discriminative training methods for hidden Markov models", with the average of all weights (Freund &
Schapire 1999), to which a weight is added when it changes and not at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import OnlineObjective
from .online import MistakeState, MistakeSteps


@dataclass(frozen=True)
class AveragedPerceptron(MistakeSteps):
    """Averaged structured perceptron (registered as ``spacy_crfseq.AveragedPerceptron.v1``).

    Takes the loss Perceptron, or Hinge for a perceptron with a margin.  There is no penalty to be chosen, and the rate
    matters only where training does not begin at zero: the size of the weights does not change what is predicted.

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

    def _pass(self, objective: OnlineObjective, state: MistakeState) -> tuple[float, int]:
        add, blocks, loss, mistakes = kernels.updates.add_rows, objective.blocks, 0.0, 0
        for batch in objective.minibatches(1, state.rng):
            batch_loss, gradients = batch.loss_and_grad(state.weights)
            loss += batch_loss
            for number, ptr, ids, d in gradients:
                if number == 0:
                    wrong = int(np.count_nonzero(d.any(1)))
                    mistakes += wrong
                    if not wrong:
                        break  # where the labels of all tokens are right, so is whatever else depends on them
                if self.rate != 1:
                    d *= self.rate
                rows = ptr, ids, d, blocks[number].ptr, blocks[number].cols
                add(*rows, -1.0, blocks[number].of(state.weights))
                if self.average:
                    add(*rows, -state.clock, blocks[number].of(state.sums))
            state.clock += 1.0  # here, so that the average is sound if an interrupt ends the epoch
        return loss, mistakes
