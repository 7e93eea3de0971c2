"""The protocol of potentials, which score texts with parameters theta [D].

As in thinc, `forward` returns the scores of some sequences and a function that maps their gradient to that of the
parameters.  There are two variants, each with its own optimized plan: passes over the same text while theta changes,
and mini-batches that touch few parameters.  For prediction with one theta, see `linear.Source`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from ..features.encoded import Encoded
from ..types import Floats, Offsets, RowBlock, RowGradient, Scores

SequenceRange: TypeAlias = tuple[int, int]
"""Sequences ``first..last-1``, scored together; the token offsets of a part start at 0."""


class Addend(Protocol):
    """A potential whose scores and gradients of a part are complete arrays; `sums.SmallPotential` is its base class."""

    @abstractmethod
    def forward(self, theta: Floats, text: Encoded, part: SequenceRange) -> tuple[Scores, Callable[[Scores], Floats]]:
        """Return the scores of a part, and a function from their gradient to that of theta [D]."""


class Passes(Protocol):
    """Passes over one text, each with different parameters.

    A pass calls ``begin``, then, for each round, ``forward`` and its backprop for every part, in several threads and
    any order, and ``flush``.  It may go through the rounds more than once.  It ends with ``finish``.

    rounds (list[list[SequenceRange]]): The parts of the text in order, in lists that threads share.
    """

    rounds: list[list[SequenceRange]]

    def begin(self, theta: Floats, grad: Floats | None) -> None:
        """Start a pass at theta [D]; the gradient is added to `grad` [D], if given."""

    def forward(self, part: SequenceRange) -> tuple[Scores, Callable[[Scores], None]]:
        """Return the scores of a part, and a function that collects their gradient."""

    def zeros(self, scores: Scores) -> Scores:
        """Return zeros for a loss to add the gradient of `scores` to, valid until `flush`."""

    def flush(self) -> None:
        """Add the gradients collected in this round."""

    def finish(self) -> None:
        """Complete the gradient."""


class Batches(Protocol):
    """Mini-batches of consecutive texts, for steps that touch only the parameters of a few sequences."""

    def load(self, text: Encoded) -> None:
        """Prepare the text that parts refer to."""

    def forward(
        self, part: SequenceRange, theta: Floats, scale: float = 1.0
    ) -> tuple[Scores, Callable[[Scores], list[RowGradient]]]:
        """Return scores at ``scale * theta``, and a function from their gradient to that of the parameters, by rows.

        All arrays are valid until the next call.
        """

    def zeros(self, scores: Scores) -> Scores:
        """Return zeros for a loss to add the gradient of `scores` to, valid until the next call of `forward`."""


@runtime_checkable
class Potential(Protocol):
    """Scores texts with parameters theta [D]."""

    @property
    def n_labels(self) -> int:
        """L."""

    @property
    def size(self) -> int:
        """D."""

    def blocks(self) -> list[RowBlock]:
        """Return the groups of rows in theta."""

    def zero_frozen(self, grad: Floats) -> None:
        """Set the gradient [D] of parameters that are not trained to zero."""

    def passes(self, text: Encoded, n_threads: int) -> Passes:
        """Return passes over a text; results are identical for the same number of threads."""

    def batches(self) -> Batches:
        """Return a plan for mini-batches."""


def tokens_of(offsets: Offsets, part: SequenceRange) -> slice:
    """Return the tokens of a part."""
    return slice(int(offsets[part[0]]), int(offsets[part[1]]))
