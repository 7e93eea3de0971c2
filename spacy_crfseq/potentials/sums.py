"""Sums of potentials: scores are added, and each addend maps their gradient to that of its own parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..features.encoder import Encoded
from ..types import Floats, RowBlock, RowGradient, Scores
from .protocol import Batches, Part, Passes, Potential, Source


def added(first: Scores, second: Scores) -> Scores:
    """Return the sum of two scores; transitions are per position if those of either are."""
    return Scores(*(a + b for a, b in zip(first, second, strict=True)))


def _like(scores: Scores, d: Scores) -> Scores:
    """Return the gradient of a sum as that of an addend, whose transitions may be shared by all positions."""
    if len(scores.transitions) == len(d.transitions):
        return d
    return d._replace(transitions=d.transitions.sum(0, keepdims=True))


class Sum:
    """Implements `protocol.Potential` for one or more addends, whose parameters are consecutive in theta.

    The first addend determines the parts of texts.
    """

    def __init__(self, addends: tuple[Potential, ...]) -> None:
        self.addends, self.n_labels, self.size = addends, addends[0].n_labels, sum(one.size for one in addends)

    def split(self, theta: Floats) -> list[Floats]:
        """Return the part of theta [D], or of an array like it, of each addend."""
        ends = list(accumulate((one.size for one in self.addends), initial=0))
        return [theta[begin:end] for begin, end in pairwise(ends)]

    def blocks(self) -> list[RowBlock]:
        groups: list[RowBlock] = []
        begin = first = 0
        for one in self.addends:
            own = one.blocks()
            groups += [
                group._replace(begin=group.begin + begin, end=group.end + begin, first=group.first + first)
                for group in own
            ]
            begin, first = begin + one.size, first + sum(group.n_rows for group in own)
        return groups

    def zero_frozen(self, grad: Floats) -> None:
        for one, part in zip(self.addends, self.split(grad), strict=True):
            one.zero_frozen(part)

    def passes(self, text: Encoded, n_threads: int) -> SumPasses:
        return SumPasses(self, [one.passes(text, n_threads) for one in self.addends])

    def batches(self) -> SumBatches:
        return SumBatches(self, [one.batches() for one in self.addends])

    def source(self, theta: Floats, text: Encoded) -> SumSource:
        parts = zip(self.addends, self.split(theta), strict=True)
        return SumSource(tuple(one.source(part, text) for one, part in parts))


class SumSource:
    """Implements `protocol.Source`."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources, first = sources, sources[0]
        self.n_labels, self.offsets, self.parts = first.n_labels, first.offsets, first.parts

    def rest(self, part: Part) -> Scores:
        """Return the scores of all sources but the first."""
        return reduce(added, (source.forward(part)[0] for source in self._sources[1:]))

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], Floats]]:
        pairs = [source.forward(part) for source in self._sources]
        return reduce(added, (scores for scores, _ in pairs)), lambda d: np.concatenate(_backprop(pairs, d))


def _backprop(pairs: Sequence[tuple[Scores, Callable[[Scores], Any]]], d: Scores) -> list[Any]:
    return [backprop(_like(scores, d)) for scores, backprop in pairs]


class SumPasses:
    """Implements `protocol.Passes`."""

    def __init__(self, potential: Sum, passes: Sequence[Passes]) -> None:
        self._potential, self._passes = potential, passes

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        grads = [None] * len(self._passes) if grad is None else self._potential.split(grad)
        for one, part, target in zip(self._passes, self._potential.split(theta), grads, strict=True):
            one.begin(part, target)

    def rounds(self) -> Iterator[list[Part]]:
        return self._passes[0].rounds()

    def forward(self, part: Part) -> tuple[Scores, Callable[[Scores], None]]:
        pairs = [one.forward(part) for one in self._passes]

        def backprop(d: Scores) -> None:
            _backprop(pairs, d)

        return reduce(added, (scores for scores, _ in pairs)), backprop

    def zeros(self, scores: Scores) -> Scores:
        return self._passes[0].zeros(scores)

    def flush(self) -> None:
        for one in self._passes:
            one.flush()

    def finish(self) -> None:
        for one in self._passes:
            one.finish()


class SumBatches:
    """Implements `protocol.Batches`."""

    def __init__(self, potential: Sum, batches: Sequence[Batches]) -> None:
        self._potential, self._batches = potential, batches
        counts = [len(one.blocks()) for one in potential.addends]
        self._first = list(accumulate(counts, initial=0))[:-1]
        self._theta: Floats | None = None

    def load(self, text: Encoded) -> None:
        for one in self._batches:
            one.load(text)

    def forward(
        self, part: Part, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if theta is not self._theta:  # addends identify parameters by object identity
            self._theta, self._parts = theta, self._potential.split(theta)
        pairs = [one.forward(part, own, scale) for one, own in zip(self._batches, self._parts, strict=True)]
        return reduce(added, (scores for scores, _ in pairs)), partial(self._rows, pairs)

    def zeros(self, scores: Scores) -> Scores:
        return scores.zeros_like()

    def _rows(self, pairs: Sequence[tuple[Scores, Callable[[Scores], Any]]], d: Scores) -> list[RowGradient]:
        found = zip(self._first, _backprop(pairs, d), strict=True)
        return [row._replace(block=row.block + first) for first, rows in found for row in rows]
