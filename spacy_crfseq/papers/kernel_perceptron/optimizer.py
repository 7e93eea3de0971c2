"""The perceptron in its dual form, for kernels of observations.

Altun, Johnson & Hofmann (2003), section 6: the weights are ``sum_i sum_y alpha_i(y) (F(x_i, y_i) - F(x_i, y))``, where
alpha_i(y) is how often y was predicted for the sequence i by mistake.  Features are sums over positions, so only the
counts c_s(y) = gold less predicted labels of each training position s matter, and scalar products of observations can
be replaced by a kernel.  Transitions, start and end scores keep their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ConfigError
from ...optimizers.mistakes import AveragedPerceptron, MistakeState
from ...types import Batch, Floats, RowBlock, Scores
from .potential import KernelScores


@dataclass(frozen=True)
class DualPerceptron(AveragedPerceptron):
    """Dual structured perceptron (registered as ``spacy_crfseq.DualPerceptron.v1``).

    It trains the coefficients of the potential `PolynomialKernel`.  An epoch compares each token with all supports
    that share a feature with it: time grows with the square of the tokens, memory with tokens times labels.  Without
    that potential the kernel is linear, and it trains the weights themselves, like `AveragedPerceptron`.

    It requires the loss Perceptron, or Hinge for a margin, and the whole training set at once.  It refuses label-pair
    features, other potentials, and weights that are not zero at the start, for which the kernel has no dual form.

    average (bool): Predict with the average of the coefficients after each sequence.
    RAISES ConfigError: On a setting out of range.
    """

    average: bool = True

    def _pass(self, objective: Any, state: MistakeState) -> tuple[float, int]:
        addends = getattr(objective.potential, "addends", ())
        kernel = next((one for one in addends if isinstance(one, KernelScores)), None)
        if kernel is None:
            return super()._pass(objective, state)
        blocks, batch, allowed, n = objective.blocks, objective.batch, objective.allowed, kernel.n_labels
        if blocks[1].n_rows or len(blocks) > 4 or blocks[0].of(state.weights).any():
            raise ConfigError(
                "DualPerceptron: with a PolynomialKernel, it cannot train label-pair features (bigram_templates), "
                "other potentials, or weights that are not zero at the start."
            )
        learned = np.ones_like(state.weights)
        objective.potential.zero_frozen(learned)
        learned, shared = (blocks[2].of(array) for array in (learned, state.weights))
        score, loss, mistakes = kernel.scorer(blocks[3].of(state.weights), objective.data.encoded), 0.0, 0
        for number in state.rng.permutation(len(batch.weights)):
            tokens = slice(*batch.offsets[number : number + 2])
            emissions = score(tokens)
            if allowed is not None:
                emissions[~allowed[tokens]] = -np.inf
            scores = Scores(emissions, shared[: n * n].reshape(1, n, n), *shared[n * n :].reshape(2, n))
            grad, offsets = scores.zeros_like(), np.array([0, len(emissions)])
            loss += objective.loss(scores, Batch(offsets, batch.gold[tokens], batch.weights[[number]]), grad)
            if grad.emissions.any():
                mistakes += 1
                d = np.concatenate([grad.transitions.ravel(), grad.start, grad.end])
                self._move(state, blocks[2], slice(None), d * learned)
                self._move(state, blocks[3], slice(n * tokens.start, n * tokens.stop), grad.emissions.ravel())
            state.clock += 1.0
        return loss, mistakes

    def _move(self, state: MistakeState, block: RowBlock, where: slice, d: Floats) -> None:
        block.of(state.weights)[where] -= self.rate * d
        if len(state.sums):
            block.of(state.sums)[where] -= state.clock * self.rate * d
