"""Loss of a whole data set and its gradient, part by part, so that the scores of only a few parts exist at a time.

Threads take different parts of a round; gradients are added in the order of the text, so that results are the same, bit
for bit, for the same number of threads.
"""

from __future__ import annotations

from functools import partial

from ..potentials.protocol import Part, Potential, tokens_of
from ..potentials.tag_dictionary import EmissionMask
from ..threads import over
from ..types import Floats, Loss
from .dataset import Dataset


class FullPass:
    """A function from parameters to the loss of `data` and its gradient; `mask` is that of a tag dictionary."""

    def __init__(
        self, potential: Potential, data: Dataset, loss: Loss, n_threads: int, mask: EmissionMask | None = None
    ) -> None:
        self._data, self._loss, self._n_threads = data, loss, n_threads
        self._mask = mask if data.encoded.words is not None else None
        self._passes = potential.passes(data.encoded, n_threads)

    def __call__(self, theta: Floats, grad: Floats | None) -> float:
        """Return the loss at theta [D] and, unless `grad` is None, add its gradient to `grad` [D]."""
        self._passes.begin(theta, grad)
        total = 0.0
        for parts in self._passes.rounds():
            for loss in over(partial(self._part, training=grad is not None), parts, self._n_threads):
                total += loss
            self._passes.flush()
        self._passes.finish()
        return total

    def _part(self, part: Part, training: bool) -> float:
        scores, backprop = self._passes.forward(part)
        batch = self._data.batch(*part)
        if self._mask is not None and self._data.encoded.words is not None:
            tokens = tokens_of(self._data.encoded.offsets, part)
            self._mask.add(self._data.encoded.words[tokens], scores.emissions, batch.gold)
        gradient = self._passes.zeros(scores)
        loss = self._loss(scores, batch, gradient)
        if training:
            backprop(gradient)
        return loss
