"""The perceptron in its dual form, for kernels of observations.

Altun, Johnson & Hofmann (2003), section 6: the weights are ``sum_i sum_y alpha_i(y) (F(x_i, y_i) - F(x_i, y))``, where
alpha_i(y) is how often y was predicted for the sequence i by mistake.  Features are sums over positions, so only the
counts c_s(y) = gold less predicted labels of each training position s matter, and scalar products of observations can
be replaced by a kernel.  Transitions, start and end scores keep their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import Batch, OnlineObjective, Scores
from .averaged_perceptron import AveragedPerceptron
from .online import MistakeState


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

    online: ClassVar[bool] = False

    def _pass(self, objective: OnlineObjective, state: MistakeState) -> tuple[float, int]:
        kernel = objective.kernel  # type: ignore[attr-defined]
        if kernel is None:
            return super()._pass(objective, state)
        batch: Batch = objective.batch  # type: ignore[attr-defined]
        blocks, n = objective.blocks, kernel.n_labels
        pieces = [block.of(state.weights) for block in blocks]
        if blocks[1].n_rows or len(blocks) > 4 or pieces[0].any():
            raise ConfigError(
                "DualPerceptron: with a PolynomialKernel, it cannot train label-pair features (bigram_templates), "
                "other potentials, or weights that are not zero at the start."
            )
        learned = np.ones_like(state.weights)
        objective.potential.zero_frozen(learned)  # type: ignore[attr-defined]
        sums = [block.of(state.sums) if len(state.sums) else None for block in blocks]
        allowed, (ptr, ids) = objective.allowed, kernel.supports_of(objective.data.encoded)  # type: ignore[attr-defined]
        index, coefs, loss, mistakes = kernel.index(ptr, ids), pieces[3].reshape(-1, n), 0.0, 0
        used, work = coefs.any(1), np.zeros((2, len(coefs)), np.int32)
        for number in state.rng.permutation(len(batch.weights)):
            first, last = batch.offsets[number : number + 2]
            emissions = np.zeros((last - first, n), coefs.dtype)
            degree = kernel.plugin.degree
            kernels.polynomial.add_products(ptr[first : last + 1], ids, *index, used, coefs, degree, *work, emissions)
            if allowed is not None:
                emissions[~allowed[first:last]] = -np.inf
            steps, ends = pieces[2][: n * n].reshape(1, n, n), pieces[2][n * n :].reshape(2, n)
            scores = Scores(emissions, steps, *ends)
            grad, one = scores.zeros_like(), Batch(np.array([0, last - first]), *_part(batch, number))
            loss += objective.loss(scores, one, grad)  # type: ignore[attr-defined]
            if grad.emissions.any():
                mistakes += 1
                d = np.concatenate([grad.transitions.ravel(), grad.start, grad.end]) * blocks[2].of(learned)
                places = slice(n * int(first), n * int(last))
                for block, where, step in ((2, slice(None), d), (3, places, grad.emissions.ravel())):
                    pieces[block][where] -= self.rate * step
                    if sums[block] is not None:
                        sums[block][where] -= state.clock * self.rate * step
                used[first:last] = coefs[first:last].any(1)
            state.clock += 1.0
        return loss, mistakes


def _part(batch: Batch, number: int) -> tuple[np.ndarray, np.ndarray]:
    tokens = slice(*batch.offsets[number : number + 2])
    return batch.gold[tokens], batch.weights[number : number + 1]
