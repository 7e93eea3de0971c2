"""Scores of a dual perceptron: sums of a polynomial kernel over the positions of its training text.

    score(y, x_t) = sum_s c_s(y) ((1 + n_ts)^degree - 1)        n_ts: features that the tokens t and s share

Altun, Johnson & Hofmann (2003), section 6; the coefficients c_s(y) are sums of their alpha.  The features are those of
the component that score single labels.  See `optimizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import ConfigError
from ...features.encoder import Encoded
from ...potentials.protocol import Part
from ...potentials.row_sums import listed
from ...potentials.small import Backprop, Small
from ...types import Bools, Floats, Ints, Offsets, Scores
from .kernels import add_products

MOST = 64
"""Numbers of features for each entry of the supports, at most: tables of them take memory."""


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


class KernelScores(Small):
    """Implements `protocol.Potential` with a `PolynomialKernel`, for prediction and for `DualPerceptron`."""

    needs_features = True
    keys = np.zeros(0, np.uint64)  # tokens of different texts have nothing in common

    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
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
            here = ptr[tokens.start : None if tokens.stop is None else tokens.stop + 1]
            out = np.zeros((len(here) - 1, self.n_labels), coefs.dtype)
            used: Bools = np.any(coefs, axis=1)  # it changes in training
            add_products(here, ids, row_ptr, supports, used, coefs, self.plugin.degree, counts, touched, out)
            return out

        return scores


def _refuse(d: Scores) -> Floats:
    raise ConfigError("Only the optimizer spacy_crfseq.DualPerceptron.v1 trains a PolynomialKernel.")
