"""A potential whose parameters are counted from given ones, so that a penalty on them is one on the change.

With a squared norm this is a Gaussian prior whose mean is a trained model: Chelba & Acero (2004), "Adaptation of
maximum entropy capitalizer: little data can help a lot".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..features.encoder import Encoded
from ..types import Floats, Scores
from .protocol import Batches, Part, Passes, Potential


class Shifted:
    """Implements `protocol.Potential` in training: theta is the change of the weights from `base` over their factors.

    A penalty on theta so weighs changes by one over the factors, squared if it is a squared norm.
    factors (Floats): [L] of each label; weights of two labels have the larger one.
    scale (Floats): [D] the factor of each weight.
    """

    def __init__(self, potential: Potential, base: Floats, factors: Floats, scale: Floats) -> None:
        self.potential, self.base, self.scale = potential, base, scale
        self.n_labels, self.size = potential.n_labels, potential.size
        self.blocks, self.zero_frozen, self.source = potential.blocks, potential.zero_frozen, potential.source
        steps = np.maximum.outer(factors, factors)[None]
        self.factors = Scores(*(each.astype(base.dtype) for each in (factors, steps, factors, factors)))

    def passes(self, text: Encoded, n_threads: int) -> ShiftedPasses:
        return ShiftedPasses(self, self.potential.passes(text, n_threads))

    def batches(self) -> ShiftedBatches:
        return ShiftedBatches(self, *(self.potential.batches() for _ in range(2)))


class ShiftedPasses:
    """Implements `protocol.Passes`, at the weights."""

    def __init__(self, potential: Shifted, own: Passes) -> None:
        self._potential, self._own = potential, own
        self.rounds, self.forward, self.zeros, self.flush = own.rounds, own.forward, own.zeros, own.flush

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        self._grad, self._own_grad = grad, None if grad is None else np.zeros_like(grad)
        self._own.begin(self._potential.base + self._potential.scale * theta, self._own_grad)

    def finish(self) -> None:
        self._own.finish()
        if self._grad is not None:
            self._grad += self._potential.scale * self._own_grad


class ShiftedBatches:
    """Implements `protocol.Batches`, with the scores at `base` plus those at theta, as a batch has few weights."""

    def __init__(self, potential: Shifted, fixed: Batches, own: Batches) -> None:
        self._potential, self._fixed, self._own = potential, fixed, own
        self.zeros = own.zeros

    def load(self, text: Encoded) -> None:
        self._fixed.load(text)
        self._own.load(text)

    def forward(self, part: Part, theta: Floats, scale: float = 1.0) -> tuple[Scores, Callable[[Scores], Any]]:
        fixed, factors = self._fixed.forward(part, self._potential.base)[0], self._potential.factors
        own, own_backprop = self._own.forward(part, theta, scale)

        def backprop(d: Scores) -> Any:
            for factor, gradient in zip(factors, d, strict=True):  # in place: potentials know their own arrays
                gradient *= factor
            return own_backprop(d)

        return Scores(*(a + f * b for a, f, b in zip(fixed, factors, own, strict=True))), backprop
