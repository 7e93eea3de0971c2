"""A potential whose parameters are counted from given ones, so that a penalty on them is one on the change.

With a squared norm this is a Gaussian prior whose mean is a trained model: Chelba & Acero (2004), "Adaptation of
maximum entropy capitalizer: little data can help a lot", section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable

from ..features.encoder import Encoded
from ..types import Floats, RowGradient, Scores
from .protocol import Batches, Part, Passes, Potential, Source
from .sums import added


class Shifted:
    """Implements `protocol.Potential`: scores at ``base + theta`` [D]."""

    def __init__(self, potential: Potential, base: Floats) -> None:
        self._potential, self._base = potential, base
        self.n_labels, self.size = potential.n_labels, potential.size
        self.blocks, self.zero_frozen = potential.blocks, potential.zero_frozen

    def passes(self, text: Encoded, n_threads: int) -> ShiftedPasses:
        return ShiftedPasses(self._potential.passes(text, n_threads), self._base)

    def batches(self) -> ShiftedBatches:
        return ShiftedBatches(self._potential.batches(), self._potential.batches(), self._base)

    def source(self, theta: Floats, text: Encoded) -> Source:
        return self._potential.source(self._base + theta, text)


class ShiftedPasses:
    """Implements `protocol.Passes`."""

    def __init__(self, passes: Passes, base: Floats) -> None:
        self._passes, self._base = passes, base
        self.rounds, self.forward, self.zeros = passes.rounds, passes.forward, passes.zeros
        self.flush, self.finish = passes.flush, passes.finish

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        self._passes.begin(self._base + theta, grad)


class ShiftedBatches:
    """Implements `protocol.Batches`."""

    def __init__(self, fixed: Batches, batches: Batches, base: Floats) -> None:
        self._fixed, self._batches, self._base = fixed, batches, base
        self.zeros = batches.zeros

    def load(self, text: Encoded) -> None:
        self._fixed.load(text)
        self._batches.load(text)

    def forward(
        self, part: Part, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        scores, backprop = self._batches.forward(part, theta, scale)
        return added(self._fixed.forward(part, self._base)[0], scores), backprop
