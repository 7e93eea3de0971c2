"""The perceptron in its dual form, for polynomial kernels of observations: its potential, its kernel, its optimizer.

Altun, Johnson & Hofmann (2003), section 6: the weights are ``sum_i sum_y alpha_i(y) (F(x_i, y_i) - F(x_i, y))``, where
alpha_i(y) is how often y was predicted for the sequence i by mistake.  Features are sums over positions, so only the
counts c_s(y) = gold less predicted labels of each training position s matter, and scalar products of observations can
be replaced by a kernel.  Transitions, start and end scores keep their weights.  The scores of labels are::

    score(y, x_t) = sum_s c_s(y) ((1 + n_ts)^degree - 1)        n_ts: features that the tokens t and s share

The features are those of the component that score single labels.  The constant is left out because it would be a bias
of the label: tokens without a common feature have the product 0, and degree 1 is the scalar product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError
from ...features.encoded import Encoded
from ...kernels.jit import kernel
from ...optimizers.mistakes import AveragedPerceptron, MistakeState
from ...potentials.linear import listed
from ...potentials.protocol import SequenceRange
from ...potentials.sums import Backprop, SmallPotential
from ...types import Batch, Bools, Floats, Ints, Offsets, RowBlock, Scores

MOST = 64
"""Numbers of features for each entry of the supports, at most: tables of them take memory."""


@kernel
def add_products(
    ptr: Offsets, ids: Ints, row_ptr: Offsets, tokens: Ints, used: Bools, coefs: Floats, degree: int, counts: Ints,
    touched: Ints, out: Floats,
) -> None:  # fmt: skip
    """Add ``sum_s kernel(t, s) coefs[s]`` over the used supports s to out [T, L].

    ptr [T + 1], ids: Features of each token of the text.  row_ptr [R + 1], tokens: Supports with each feature.
    coefs [S, L].  counts [S] is zero before and after; touched [S] is work space.
    """
    n_labels = coefs.shape[1]
    for t in range(ptr.shape[0] - 1):
        n = 0
        for a in ids[ptr[t] : ptr[t + 1]]:
            for s in tokens[row_ptr[a] : row_ptr[a + 1]]:
                if used[s]:
                    if counts[s] == 0:
                        touched[n] = s
                        n += 1
                    counts[s] += 1
        for s in touched[:n]:
            product = (1.0 + counts[s]) ** degree - 1.0
            counts[s] = 0
            for j in range(n_labels):
                out[t, j] += product * coefs[s, j]


@dataclass
class PolynomialKernel:
    """Polynomial kernel of observations (registered as ``spacy_crfseq.PolynomialKernel.v1``).

    Its parameters [S, L] are the coefficients of the tokens of the training text; most are zero.  The model stores the
    features of all of them.  The time of a prediction grows with the number of supports, that of training with its
    square.

    degree (int): 1 for the linear model, 2 for pairs of features, and so on.
    max_tokens (int): Tokens of the training text, at most.
    RAISES ConfigError: On a setting out of range.
    """

    transferable: ClassVar[bool] = False  # other texts have other supports
    degree: int = 2
    max_tokens: int = 50_000
    supports: tuple[Offsets, Ints] = field(
        default=(np.zeros(1, np.int64), np.zeros(0, np.int32)), init=False, repr=False
    )

    def __post_init__(self) -> None:
        if not 1 <= self.degree <= 10 or self.max_tokens < 1:
            raise ConfigError("PolynomialKernel: degree must be from 1 to 10, max_tokens at least 1.")

    def bind(self, text: Encoded, number: int = 0) -> None:
        """Make the tokens of a training text the supports.  RAISES ConfigError: If there are too many."""
        if text.n_tokens > self.max_tokens:
            raise ConfigError(
                f"PolynomialKernel: the training text has {text.n_tokens:,} tokens, and time grows with the square of "
                f"their number. Train on at most max_tokens = {self.max_tokens:,}, or raise that setting."
            )
        self.supports = listed(text.unigrams)

    def read(self, docs: Sequence[Any]) -> NDArray[Any]:
        return np.zeros((sum(map(len, docs)), 0), np.bool_)  # the features of the component are enough

    def size(self, n_labels: int) -> int:
        return (len(self.supports[0]) - 1) * n_labels

    def potential(self, n_labels: int, number: int) -> KernelScores:
        return KernelScores(self, n_labels, number)

    def to_state(self) -> list[NDArray[Any]]:
        """Return the supports, for the model file."""
        return [*self.supports]

    def from_state(self, state: Sequence[NDArray[Any]]) -> None:
        """Take up what `to_state` returned."""
        kinds = zip(state, (np.int64, np.int32), strict=True)
        ptr, ids = (np.array(part).astype(kind, casting="same_kind") for part, kind in kinds)
        if len(ptr) < 1 or ptr[0] or ptr[-1] != len(ids) or (np.diff(ptr) < 0).any() or (ids < 0).any():
            raise ValueError("supports and their features do not fit together")
        if ids.max(initial=0) > MOST * (len(ids) + MOST):  # nearly all features of the model are in its training text
            raise ValueError(f"the feature {ids.max()} among {len(ids)} entries")
        self.supports = ptr, ids


class KernelScores(SmallPotential):
    """Implements `protocol.Potential` with a `PolynomialKernel`, for prediction and for `DualPerceptron`."""

    needs_features = True
    keys = np.zeros(0, np.uint64)  # tokens of different texts have nothing in common

    def forward(self, theta: Floats, text: Encoded, part: SequenceRange) -> tuple[Scores, Backprop]:
        n = self.n_labels
        emissions = self._scorer(theta, *listed(text.slice(*part).unigrams))
        steps, ends = np.zeros((1, n, n), theta.dtype), np.zeros(n, theta.dtype)
        return Scores(emissions(slice(0, None)), steps, ends, ends.copy()), _refuse

    def scorer(self, theta: Floats, text: Encoded) -> Callable[[slice], Floats]:
        """Return a function to the scores of some tokens of the training text, at the current values of theta.

        RAISES ConfigError: If the tokens are not the supports.
        """
        ptr, ids = listed(text.unigrams)
        if not np.array_equal(ptr, self.plugin.supports[0]) or not np.array_equal(ids, self.plugin.supports[1]):
            raise ConfigError(
                "DualPerceptron: a PolynomialKernel learns from the training set that the component was initialized "
                "with, all of it at once and in one order. Train by the command crfseq fit, or by pipe.fit()."
            )
        return self._scorer(theta, ptr, ids)

    def _scorer(self, theta: Floats, ptr: Offsets, ids: Ints) -> Callable[[slice], Floats]:
        """Return a function to the scores of tokens t of a text with the features ids[ptr[t]:ptr[t + 1]]."""
        own_ptr, own_ids = self.plugin.supports
        n_rows = 1 + int(max(own_ids.max(initial=-1), ids.max(initial=-1)))
        row_ptr, supports = np.empty(n_rows + 1, np.int64), np.empty(len(own_ids), np.int32)
        kernels.rows.transpose(own_ptr, own_ids, row_ptr, supports)
        coefs = theta.reshape(-1, self.n_labels)
        counts, touched = np.zeros((2, len(coefs)), np.int32)

        def scores(tokens: slice) -> Floats:
            bounds = ptr[tokens.start : None if tokens.stop is None else tokens.stop + 1]
            out = np.zeros((len(bounds) - 1, self.n_labels), coefs.dtype)
            used: Bools = np.any(coefs, axis=1)  # it changes in training
            add_products(bounds, ids, row_ptr, supports, used, coefs, self.plugin.degree, counts, touched, out)
            return out

        return scores


def _refuse(d: Scores) -> Floats:
    raise ConfigError("Only the optimizer spacy_crfseq.DualPerceptron.v1 trains a PolynomialKernel.")


@dataclass(frozen=True)
class DualPerceptron(AveragedPerceptron):
    """Structured perceptron in its dual form (registered as ``spacy_crfseq.DualPerceptron.v1``).

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
        small = getattr(objective.potential, "small", ())
        kernel = next((potential for potential in small if isinstance(potential, KernelScores)), None)
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
