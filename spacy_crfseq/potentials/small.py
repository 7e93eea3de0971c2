"""Potentials of plug-ins, which have few parameters: every gradient covers all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.encoder import Encoded
from ..types import Floats, Hashes, Offsets, RowBlock, RowGradient, Scores, SupportPotential, TokenPotential
from .layout import shards
from .protocol import Part, tokens_of
from .rows import EVERYWHERE

Backprop = Callable[[Scores], Floats]
Adder = Callable[[Floats, Floats], None]


class Small(ABC):
    """Implements `protocol.Potential` with a plug-in, whose inputs are ``Encoded.inputs[number]``.

    width (int): Parameters in a row, for optimizers that treat those of a row alike.
    keys (Hashes | None): What each row belongs to, if that differs between training texts.
    needs_features (bool): Whether the scores depend on the features of the component, so that none may be removed.
    """

    width = 1
    needs_features = False
    keys: Hashes | None = None

    def __init__(self, plugin: TokenPotential | SupportPotential, n_labels: int, number: int = 0) -> None:
        self.plugin: Any = plugin
        self.n_labels, self.number, self.size = n_labels, number, plugin.size(n_labels)

    @abstractmethod
    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
        """Return the scores of a part, and a function from their gradient to that of theta [D]."""

    def blocks(self) -> list[RowBlock]:
        return [RowBlock(0, self.size, 0, self.size // self.width, self.width, *EVERYWHERE)]

    def zero_frozen(self, grad: Floats) -> None:  # noqa: B027 (all parameters are trained)
        pass

    def passes(self, text: Encoded, n_threads: int) -> SmallPasses:
        return SmallPasses(self, text, n_threads)

    def batches(self) -> SmallBatches:
        return SmallBatches(self)

    def source(self, theta: Floats, text: Encoded) -> SmallSource:
        return SmallSource(self, theta, text)


class TokenScores(Small):
    """The scores of a `types.TokenPotential`."""

    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
        tokens = tokens_of(text.offsets, part)
        offsets = text.offsets[part[0] : part[1] + 1] - tokens.start
        scores: tuple[Scores, Backprop] = self.plugin.forward(
            theta, text.inputs[self.number][tokens], offsets, self.n_labels
        )
        return scores


class Given(Small):
    """Emissions that are computed elsewhere, in training.  The inputs of a text are its tokens' numbers in them.

    gradient (Floats): [T, L] of the emissions, at the last visit of each token.
    """

    def __init__(self, emissions: Floats, number: int) -> None:
        self.emissions, self.gradient, self.number = emissions, np.zeros_like(emissions), number
        self.n_labels, self.size = emissions.shape[1], 0

    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
        tokens, n = text.inputs[self.number][tokens_of(text.offsets, part)], self.n_labels

        def backprop(d: Scores) -> Floats:
            self.gradient[tokens] = d.emissions
            return theta

        shared = np.zeros((1, n, n), theta.dtype), *np.zeros((2, n), theta.dtype)
        return Scores(self.emissions[tokens].astype(theta.dtype), *shared), backprop


class RowScores(Small):
    """Emissions from parameters [R, L] of a `types.SupportPotential`."""

    def __init__(self, plugin: SupportPotential, n_labels: int, number: int = 0) -> None:
        super().__init__(plugin, n_labels, number)
        self.width = n_labels

    @abstractmethod
    def emissions(self, weights: Floats, inputs: NDArray[Any], offsets: Offsets) -> tuple[Floats, Adder]:
        """Return emissions [T, L], and a function that adds their gradient to that of the weights [R, L]."""

    def forward(self, theta: Floats, text: Encoded, part: Part) -> tuple[Scores, Backprop]:
        tokens, n = tokens_of(text.offsets, part), self.n_labels
        offsets = text.offsets[part[0] : part[1] + 1] - tokens.start
        emissions, add = self.emissions(theta.reshape(-1, n), text.inputs[self.number][tokens], offsets)

        def backprop(d: Scores) -> Floats:
            grad = np.zeros_like(theta)
            add(d.emissions, grad.reshape(-1, n))
            return grad

        steps, ends = np.zeros((1, n, n), theta.dtype), np.zeros(n, theta.dtype)
        return Scores(emissions, steps, ends, ends.copy()), backprop


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
    """Implements `protocol.Batches`: every gradient has all rows."""

    def __init__(self, potential: Small) -> None:
        self._potential, self._ids = potential, np.arange(potential.size // potential.width, dtype=np.int32)

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
        rows = backprop(d).reshape(-1, self._potential.width)
        return [RowGradient(0, np.arange(len(self._ids) + 1), self._ids, rows)]
