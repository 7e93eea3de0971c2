"""Sums of potentials: a linear one, and small ones of plug-ins, whose gradients cover all of their few parameters.

Scores are added, and each addend maps their gradient to that of its own parameters.  `Shifted` counts parameters from
given ones, so that a penalty on them is one on the change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.encoded import Encoded
from ..types import Floats, Hashes, Offsets, RowBlock, RowGradient, Scores, SupportPotential, TokenPotential
from .layout import EVERYWHERE
from .linear import Linear, add_scores
from .protocol import Addend, Batches, Passes, Potential, SequenceRange, tokens_of

Backprop = Callable[[Scores], Floats]
GradientAdder = Callable[[Floats, Floats], None]


class SmallPotential(Addend):
    """Scores of a plug-in, whose inputs are ``Encoded.inputs[number]``.

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


class TokenScores(SmallPotential):
    """The scores of a `types.TokenPotential`."""

    def forward(self, theta: Floats, text: Encoded, part: SequenceRange) -> tuple[Scores, Backprop]:
        tokens = tokens_of(text.offsets, part)
        offsets, inputs = text.offsets[part[0] : part[1] + 1] - tokens.start, text.inputs[self.number][tokens]
        scores: tuple[Scores, Backprop] = self.plugin.forward(theta, inputs, offsets, self.n_labels)
        return scores


class RowScores(SmallPotential):
    """Emissions from parameters [R, L] of a `types.SupportPotential`."""

    def __init__(self, plugin: SupportPotential, n_labels: int, number: int = 0) -> None:
        super().__init__(plugin, n_labels, number)
        self.width = n_labels

    @abstractmethod
    def emissions(self, weights: Floats, inputs: NDArray[Any], offsets: Offsets) -> tuple[Floats, GradientAdder]:
        """Return emissions [T, L], and a function that adds their gradient to that of the weights [R, L]."""

    def forward(self, theta: Floats, text: Encoded, part: SequenceRange) -> tuple[Scores, Backprop]:
        tokens, n = tokens_of(text.offsets, part), self.n_labels
        offsets, inputs = text.offsets[part[0] : part[1] + 1] - tokens.start, text.inputs[self.number][tokens]
        emissions, add = self.emissions(theta.reshape(-1, n), inputs, offsets)

        def backprop(d: Scores) -> Floats:
            grad = np.zeros_like(theta)
            add(d.emissions, grad.reshape(-1, n))
            return grad

        return only_emissions(emissions), backprop


class GivenEmissions(SmallPotential):
    """Emissions that are computed elsewhere, in training.  The inputs of a text are its tokens' numbers in them.

    gradient (Floats): [T, L] of the emissions, at the last visit of each token.
    """

    def __init__(self, emissions: Floats, number: int) -> None:
        self.emissions, self.gradient, self.number = emissions, np.zeros_like(emissions), number
        self.n_labels, self.size = emissions.shape[1], 0

    def forward(self, theta: Floats, text: Encoded, part: SequenceRange) -> tuple[Scores, Backprop]:
        tokens = text.inputs[self.number][tokens_of(text.offsets, part)]

        def backprop(d: Scores) -> Floats:
            self.gradient[tokens] = d.emissions
            return theta

        return only_emissions(self.emissions[tokens].astype(theta.dtype)), backprop


def only_emissions(emissions: Floats) -> Scores:
    """Return emissions [T, L] as scores; the others are zero."""
    n, dtype = emissions.shape[1], emissions.dtype
    return Scores(emissions, np.zeros((1, n, n), dtype), *np.zeros((2, n), dtype))


class Sum:
    """Implements `protocol.Potential` for a linear potential and small ones, whose parameters follow in theta."""

    def __init__(self, linear: Linear, small: Sequence[SmallPotential]) -> None:
        self.linear, self.small, self.n_labels = linear, tuple(small), linear.n_labels
        self._ends = list(accumulate((potential.size for potential in self.small), initial=linear.size))
        self.size = self._ends[-1]

    def split(self, theta: Floats) -> list[Floats]:
        """Return the part of theta [D], or of an array like it, of each potential."""
        return [theta[begin:end] for begin, end in pairwise([0, *self._ends])]

    def blocks(self) -> list[RowBlock]:
        groups = self.linear.blocks()
        for potential, (begin, end) in zip(self.small, pairwise(self._ends), strict=True):
            first = groups[-1].first + groups[-1].n_rows
            groups.append(RowBlock(begin, end, first, potential.size // potential.width, potential.width, *EVERYWHERE))
        return groups

    def zero_frozen(self, grad: Floats) -> None:
        self.linear.zero_frozen(self.split(grad)[0])

    def forward(
        self, theta: Sequence[Floats], text: Encoded, part: SequenceRange, scores: Scores
    ) -> tuple[Scores, Any]:
        """Return scores with those of the small potentials at theta, and functions to the gradients of these."""
        pairs = [potential.forward(own, text, part) for potential, own in zip(self.small, theta, strict=True)]
        backprops = [partial(_backprop, len(own.transitions), backprop) for own, backprop in pairs]
        return reduce(add_scores, (own for own, _ in pairs), scores), backprops

    def passes(self, text: Encoded, n_threads: int) -> SumPasses:
        return SumPasses(self, text, n_threads)

    def batches(self) -> SumBatches:
        return SumBatches(self)


def _backprop(n_transitions: int, backprop: Callable[[Scores], Any], d: Scores) -> Any:
    """Pass the gradient of a sum to an addend, whose transitions may be shared by all positions."""
    if n_transitions != len(d.transitions):
        d = d._replace(transitions=d.transitions.sum(0, keepdims=True))
    return backprop(d)


class SumPasses:
    """Implements `protocol.Passes`; the gradients of small potentials are added in the order of the text."""

    def __init__(self, potential: Sum, text: Encoded, n_threads: int) -> None:
        self._potential, self._text, self._own = potential, text, potential.linear.passes(text, n_threads)
        self.rounds, self.zeros, self.finish = self._own.rounds, self._own.zeros, self._own.finish
        self._taken: dict[int, list[Floats]] = {}

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        own, *self._theta = self._potential.split(theta)
        grads = [] if grad is None else self._potential.split(grad)
        self._grads = grads[1:]
        self._own.begin(own, grads[0] if grads else None)

    def forward(self, part: SequenceRange) -> tuple[Scores, Callable[[Scores], None]]:
        own, own_backprop = self._own.forward(part)
        scores, others = self._potential.forward(self._theta, self._text, part, own)

        def backprop(d: Scores) -> None:
            self._taken[part[0]] = [give_back(d) for give_back in others]
            _backprop(len(own.transitions), own_backprop, d)

        return scores, backprop

    def flush(self) -> None:
        self._own.flush()
        for first in sorted(self._taken):
            for target, gradient in zip(self._grads, self._taken[first], strict=False):
                target += gradient
        self._taken.clear()


class SumBatches:
    """Implements `protocol.Batches`."""

    def __init__(self, potential: Sum) -> None:
        self._potential, self._own = potential, potential.linear.batches()
        self._ids = [np.arange(values.size // values.width, dtype=np.int32) for values in potential.small]
        self._first = len(potential.linear.blocks())
        self._theta: Floats | None = None

    def load(self, text: Encoded) -> None:
        self._text = text
        self._own.load(text)

    def forward(
        self, part: SequenceRange, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        if theta is not self._theta:  # the linear potential identifies parameters by object identity
            self._theta, (self._linear, *self._small) = theta, self._potential.split(theta)
        own, own_backprop = self._own.forward(part, self._linear, scale)
        small = self._small if scale == 1.0 else [values * theta.dtype.type(scale) for values in self._small]
        scores, others = self._potential.forward(small, self._text, part, own)

        def backprop(d: Scores) -> list[RowGradient]:
            rows = _backprop(len(own.transitions), own_backprop, d)
            gradients = zip(self._ids, self._potential.small, others, strict=True)
            for number, (ids, potential, gradient_of) in enumerate(gradients, start=self._first):
                gradient = gradient_of(d).reshape(len(ids), potential.width)
                rows.append(RowGradient(number, np.arange(len(ids) + 1), ids, gradient))
            return rows  # type: ignore[no-any-return]

        return scores, backprop

    def zeros(self, scores: Scores) -> Scores:
        return scores.zeros_like()


class Shifted:
    """Implements `protocol.Potential` in training: theta is the change of the weights from `base` over their factors.

    A penalty on theta so weighs changes by one over the factors, squared if it is a squared norm, which is a Gaussian
    prior whose mean is a trained model: Chelba & Acero (2004), "Adaptation of maximum entropy capitalizer: little data
    can help a lot".
    factors (Floats): [L] of each label; weights of two labels have the larger one.
    scale (Floats): [D] the factor of each weight.
    """

    def __init__(self, potential: Potential, base: Floats, factors: Floats, scale: Floats) -> None:
        self.potential, self.base, self.scale = potential, base, scale
        self.n_labels, self.size = potential.n_labels, potential.size
        self.blocks, self.zero_frozen = potential.blocks, potential.zero_frozen
        steps = np.maximum.outer(factors, factors)[None]
        self.factors = Scores(*(factor.astype(base.dtype) for factor in (factors, steps, factors, factors)))

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

    def forward(self, part: SequenceRange, theta: Floats, scale: float = 1.0) -> tuple[Scores, Callable[[Scores], Any]]:
        fixed, factors = self._fixed.forward(part, self._potential.base)[0], self._potential.factors
        own, own_backprop = self._own.forward(part, theta, scale)

        def backprop(d: Scores) -> Any:
            for factor, gradient in zip(factors, d, strict=True):  # in place: potentials know their own arrays
                gradient *= factor
            return own_backprop(d)

        return Scores(*(a + f * b for a, f, b in zip(fixed, factors, own, strict=True))), backprop
