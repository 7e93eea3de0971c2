"""Terms of an objective: data sets with a loss, evaluated by full passes or mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..potentials.protocol import Batches, Part, Potential, tokens_of
from ..potentials.tag_dictionary import EmissionMask
from ..threads import over
from ..types import AddGradient, Batch, CorpusLoss, Floats, Ints, Loss, Offsets, RowGradient, Scores
from .dataset import Dataset

Evaluate: TypeAlias = Callable[[Scores, Batch, Callable[[Scores], None]], Any]
"""Maps the scores of a part, its batch and a function that takes their gradient to what is added up."""
LOADED = 1024
"""Number of sequences, or groups, that online training prepares at a time."""


class Term(NamedTuple):
    """A data set with its loss, times a weight.

    weight (float): Factor of the loss.
    repeats (int): Mini-batches of the term per turn, if an objective has several terms; 0: in proportion to its data.
    name (str): For reports.
    sample (Dataset | None): Data for choosing learning rates; a part of `data` if None.  Of terms after the first, all
        data, of which `data` may be a part.
    """

    data: Dataset
    loss: Loss
    weight: float = 1.0
    repeats: int = 0
    name: str = ""
    sample: Dataset | None = None

    def weighted(self) -> Term:
        """Return the term with its weight multiplied into those of its sequences, if its loss is a sum over them."""
        if self.weight == 1 or isinstance(self.loss, CorpusLoss):
            return self
        samples = [data and data._replace(weights=self.weight * data.weights) for data in (self.data, self.sample)]
        return self._replace(data=samples[0] or self.data, sample=samples[1], weight=1.0)

    def batches(
        self, plan: Batches, mask: EmissionMask | None, size: int, rng: np.random.Generator | None
    ) -> Iterator[MiniBatch]:
        """Yield all sequences, or all groups, once, `size` at a time and shuffled by `rng`."""
        for groups in self.blocks(size, rng):
            sequences, ends = self.data.members(groups)
            part = self.data.take(sequences)
            plan.load(part.encoded)
            for first in range(0, len(ends) - 1, size):
                here = int(ends[first]), int(ends[min(first + size, len(ends) - 1)])
                batch, words = part.batch(*here), None
                if self.data.groups is not None:
                    batch = batch._replace(sequences=sequences[slice(*here)])
                if mask is not None and part.encoded.words is not None:
                    words = part.encoded.words[tokens_of(part.encoded.offsets, here)]
                yield MiniBatch(plan, self.loss, here, batch, mask, words)

    def blocks(self, size: int, rng: np.random.Generator | None) -> list[Offsets]:
        """Return the numbers of all sequences, or groups, shuffled by `rng`, in blocks for whole mini-batches."""
        n = self.data.n_groups
        order, block = np.arange(n) if rng is None else rng.permutation(n), max(1, LOADED // size) * size
        return [order[start : start + block] for start in range(0, n, block)]


class FullPass:
    """A function from parameters to the loss of a data set and its gradient; only the scores of a few parts exist at a
    time.

    Threads process different parts of a round.  Gradients are added in the order of the text, so results are identical
    for the same number of threads.
    """

    def __init__(
        self,
        potential: Potential,
        data: Dataset,
        loss: Loss,
        n_threads: int,
        mask: EmissionMask | None = None,
        weight: float = 1.0,
    ) -> None:
        self._data, self._loss, self._weight, self._n_threads = data, loss, weight, n_threads
        self._mask = mask if data.encoded.words is not None else None
        self._passes = potential.passes(data.encoded, n_threads)

    def __call__(self, theta: Floats, grad: Floats | None, totals: Any = None) -> float:
        """Return the loss at theta [D] and, unless `grad` is None, add its gradient to `grad` [D].

        totals: Of a `CorpusLoss` whose data set has other parts elsewhere, the sums over all of them.
        """
        loss = self._loss
        self._passes.begin(theta, grad)
        if isinstance(loss, CorpusLoss):
            value, slope = loss.at(self._totals(loss) if totals is None else totals, self._weight)
            if grad is not None:
                self._sum(partial(self._evaluate, slope, True))
        else:
            value = float(self._sum(partial(self._evaluate, loss, grad is not None)))
        self._passes.finish()
        return value

    def totals(self, theta: Floats) -> Any:
        """Return the sums of a `CorpusLoss` over the data at theta [D]; 0 for any other loss."""
        if not isinstance(self._loss, CorpusLoss):
            return 0.0
        self._passes.begin(theta, None)
        found = self._totals(self._loss)
        self._passes.finish()
        return found

    def _totals(self, loss: CorpusLoss) -> Any:
        return self._sum(lambda scores, batch, backprop: loss.totals(scores, batch))

    def _sum(self, evaluate: Evaluate) -> Any:
        """Return the sum of a function over all parts."""
        total: Any = 0.0
        for parts in self._passes.rounds():
            for value in over(partial(self._part, evaluate), parts, self._n_threads):
                total = total + value
            self._passes.flush()
        return total

    def _part(self, evaluate: Evaluate, part: Part) -> Any:
        scores, backprop = self._passes.forward(part)
        batch = self._data.batch(*part)
        if self._mask is not None and self._data.encoded.words is not None:
            tokens = tokens_of(self._data.encoded.offsets, part)
            self._mask.add(self._data.encoded.words[tokens], scores.emissions, batch.gold)
        return evaluate(scores, batch, backprop)

    def _evaluate(
        self, loss: AddGradient, training: bool, scores: Scores, batch: Batch, backprop: Callable[[Scores], None]
    ) -> float:
        gradient = self._passes.zeros(scores)
        value = loss(scores, batch, gradient)
        if training:
            backprop(gradient)
        return value


class MiniBatch:
    """A few sequences of the text that `plan` has loaded; implements `types.OnlineBatch`.

    words (Ints | None): [T] indices of the words in the tag dictionary of `mask`, if there is one.
    """

    __slots__ = ("_batch", "_loss", "_mask", "_part", "_plan", "_words")

    def __init__(
        self, plan: Batches, loss: Loss, part: Part, batch: Batch, mask: EmissionMask | None, words: Ints | None
    ) -> None:
        self._plan, self._loss, self._part, self._batch = plan, loss, part, batch
        self._mask, self._words = mask, words

    @property
    def n_sequences(self) -> int:
        """N."""
        return len(self._batch.weights)

    def loss_and_grad(self, theta: Floats, scale: float = 1.0) -> tuple[float, list[RowGradient]]:
        """See `types.OnlineBatch`."""
        scores, backprop = self._plan.forward(self._part, theta, scale)
        if self._mask is not None and self._words is not None:
            self._mask.add(self._words, scores.emissions, self._batch.gold)
        gradient = self._plan.zeros(scores)
        loss = self._loss(scores, self._batch, gradient)
        return loss, backprop(gradient)
