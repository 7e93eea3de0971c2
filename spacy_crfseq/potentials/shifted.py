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

Forward = tuple[Scores, Callable[[Scores], Any]]


class Shifted:
    """Implements `protocol.Potential` in training: the scores at `base` [D] plus those at theta times factors.

    factors (Floats): [L] for the scores of each label; those of two labels have the larger one.  A penalty on theta
        weighs changes of the scores by one over the factors, squared if it is a squared norm.
    """

    def __init__(self, potential: Potential, base: Floats, factors: Floats) -> None:
        self.potential, self.base = potential, base
        self.n_labels, self.size = potential.n_labels, potential.size
        self.blocks, self.zero_frozen, self.source = potential.blocks, potential.zero_frozen, potential.source
        steps = np.maximum.outer(factors, factors)[None]
        self._factors = Scores(*(each.astype(base.dtype) for each in (factors, steps, factors, factors)))

    def forward(self, fixed: Scores, own: Forward) -> Forward:
        """Return the scores and a function from their gradient to that of theta, given those at base and at theta."""
        scores = Scores(*(a + f * b for a, f, b in zip(fixed, self._factors, own[0], strict=True)))

        def backprop(d: Scores) -> Any:
            for factor, gradient in zip(self._factors, d, strict=True):  # in place: potentials know their own arrays
                gradient *= factor
            return own[1](d)

        return scores, backprop

    def passes(self, text: Encoded, n_threads: int) -> ShiftedPasses:
        return ShiftedPasses(self, *(self.potential.passes(text, n_threads) for _ in range(2)))

    def batches(self) -> ShiftedBatches:
        return ShiftedBatches(self, *(self.potential.batches() for _ in range(2)))


class ShiftedPasses:
    """Implements `protocol.Passes`; the first pass keeps the scores at `base`, unless each step has its own."""

    def __init__(self, potential: Shifted, fixed: Passes, own: Passes) -> None:
        self._potential, self._fixed, self._own = potential, fixed, own
        self._known: dict[Part, Scores] = {}
        self.rounds, self.zeros, self.flush, self.finish = own.rounds, own.zeros, own.flush, own.finish

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        if not self._known:
            self._fixed.begin(self._potential.base, None)
        self._own.begin(theta, grad)

    def forward(self, part: Part) -> Forward:
        fixed = self._known.get(part)
        if fixed is None:
            fixed = self._fixed.forward(part)[0]
            if len(fixed.transitions) == 1:
                self._known[part] = fixed
        return self._potential.forward(fixed, self._own.forward(part))


class ShiftedBatches:
    """Implements `protocol.Batches`."""

    def __init__(self, potential: Shifted, fixed: Batches, own: Batches) -> None:
        self._potential, self._fixed, self._own = potential, fixed, own
        self.zeros = own.zeros

    def load(self, text: Encoded) -> None:
        self._fixed.load(text)
        self._own.load(text)

    def forward(self, part: Part, theta: Floats, scale: float = 1.0) -> Forward:
        own = self._own.forward(part, theta, scale)
        return self._potential.forward(self._fixed.forward(part, self._potential.base)[0], own)
