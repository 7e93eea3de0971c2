"""Potentials of `types.TokenPotential` plug-ins, which have few parameters: every gradient covers all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..features.encoder import Encoded
from ..types import Floats, RowBlock, RowGradient, Scores, TokenPotential
from .layout import shards
from .protocol import Part, tokens_of
from .rows import EVERYWHERE

Backprop = Callable[[Scores], Floats]


class Small:
    """Implements `protocol.Potential` with a plug-in, whose inputs are ``Encoded.inputs[number]``."""

    def __init__(self, plugin: TokenPotential, n_labels: int, number: int = 0) -> None:
        self.plugin, self.n_labels, self.number = plugin, n_labels, number
        self.size = plugin.size(n_labels)

    def blocks(self) -> list[RowBlock]:
        return [RowBlock(0, self.size, 0, self.size, 1, *EVERYWHERE)]

    def zero_frozen(self, grad: Floats) -> None:
        pass

    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
        tokens = tokens_of(text.offsets, part)
        offsets = text.offsets[part[0] : part[1] + 1] - tokens.start
        return self.plugin.forward(theta, text.inputs[self.number][tokens], offsets, self.n_labels)

    def passes(self, text: Encoded, n_threads: int) -> SmallPasses:
        return SmallPasses(self, text, n_threads)

    def batches(self) -> SmallBatches:
        return SmallBatches(self)

    def source(self, theta: Floats, text: Encoded) -> SmallSource:
        return SmallSource(self, theta, text)


class SmallSource:
    """Implements `protocol.Source`."""

    def __init__(self, potential: Small, theta: Floats, text: Encoded) -> None:
        self.n_labels, self.offsets = potential.n_labels, text.offsets
        self.forward = partial(potential.forward, theta, text)

    def parts(self, n_threads: int = 1) -> Iterator[Part]:
        return shards(self.offsets, self.n_labels, n_threads=n_threads)


class SmallPasses:
    """Implements `protocol.Passes`; gradients are added in the order of the text."""

    def __init__(self, potential: Small, text: Encoded, n_threads: int) -> None:
        self._potential, self._text, self._n_threads = potential, text, n_threads
        self._taken: dict[int, Floats] = {}

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        self._theta, self._grad = theta, grad

    def rounds(self) -> Iterator[list[Part]]:
        yield list(shards(self._text.offsets, self._potential.n_labels, n_threads=self._n_threads))

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], None]]:
        scores, backprop = self._potential.forward(self._theta, self._text, part)
        return scores, partial(self._take, part, backprop)

    def _take(self, part: Part, backprop: Backprop, d: Scores) -> None:
        self._taken[part[0]] = backprop(d)

    def zeros(self, scores: Scores) -> Scores:
        return scores.zeros_like()

    def flush(self) -> None:
        for first in sorted(self._taken):
            if self._grad is not None:
                self._grad += self._taken[first]
        self._taken.clear()

    def finish(self) -> None:
        pass


class SmallBatches:
    """Implements `protocol.Batches`: every parameter is a row of its own."""

    def __init__(self, potential: Small) -> None:
        self._potential, self._ids = potential, np.arange(potential.size, dtype=np.int32)

    def load(self, text: Encoded) -> None:
        self._text = text

    def forward(
        self, part: Part, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if scale != 1.0:
            theta = theta * theta.dtype.type(scale)
        scores, backprop = self._potential.forward(theta, self._text, part)
        return scores, partial(self._backprop, backprop)

    def zeros(self, scores: Scores) -> Scores:
        return scores.zeros_like()

    def _backprop(self, backprop: Backprop, d: Scores) -> list[RowGradient]:
        return [RowGradient(0, np.arange(len(self._ids) + 1), self._ids, backprop(d)[:, None])]
