"""The inline ranker: a loss that learns from costs of whole labellings, where gold labels may be unknown.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions", algorithm 1.  Let
y1 be the best labelling of a text, and y* the cheapest one of the k best.  If y1 costs more than y*, the loss is
``score(y1) - score(y*)``, else 0.  A step of size 1 down its gradient adds ``Phi(y*) - Phi(y1)`` to the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...decoders.viterbi import Viterbi
from ...errors import ConfigError, DataError
from ...losses.perceptron import Perceptron
from ...schemes import transition_table
from ...training.compatibility import part_name
from ...types import Batch, Bools, Constraints, Ints, LossProperty, Scores
from .costs import Cost, CostFunction, Evidence

NAME = "spacy_crfseq.InlineRanker.v1"
PROVIDES: frozenset[LossProperty] = frozenset({"minibatches", "best_path", "evidence"})


class GoldToken(NamedTuple):
    """A token of an annotated Doc, which the ranker reads for each token of a text.

    number (int): Its number in the Doc.
    """

    doc: Any
    number: int

    def __deepcopy__(self, memo: Any) -> GoldToken:
        return self  # it does not change


@dataclass(frozen=True)
class InlineRanker:
    """Step toward the cheapest of the k best labellings (registered as ``spacy_crfseq.InlineRanker.v1``).

    Its texts are those of a term.  What is annotated there is evidence for the cost, and need not be gold labels; texts
    without evidence are left out.  Each sentence is a text of its own.  All labellings fit the scheme of the component.
    Use it with an optimizer that updates on mistakes, such as AveragedPerceptron, from a trained model.

    cost (Cost): A function of the registry crf_costs.
    k (int): Number of best labellings that are compared.
    RAISES ConfigError: If k is less than 2.
    """

    cost: Cost
    k: int = 10

    provides: ClassVar[frozenset[LossProperty]] = PROVIDES

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ConfigError(f"{NAME}: k = {self.k} must be at least 2, or there is nothing to choose from.")

    def bind(self, labels: Sequence[str], scheme: str | None) -> BoundRanker:
        self.cost.check(labels, scheme or "plain")
        return BoundRanker(self.cost, self.k, tuple(labels), transition_table(labels, scheme or "plain"))

    def read(self, docs: Sequence[Any], gold: Sequence[Any]) -> NDArray[Any]:
        """Return the tokens of annotated Docs [T].  RAISES DataError: If a text has other tokens there."""
        for doc, annotated in zip(docs, gold, strict=True):
            if [token.text for token in doc] != [token.text for token in annotated]:
                raise DataError(
                    f"{doc.text[:60]!r} has other tokens in its gold document than in the predicted one, so that "
                    f"{part_name(self.cost)} cannot compare them. Use a reader that keeps the file's tokens."
                )
        tokens = np.empty(sum(map(len, gold)), object)
        tokens[:] = [GoldToken(doc, number) for doc in gold for number in range(len(doc))]
        return tokens

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        raise ConfigError(f"{NAME} needs the names of labels: call bind(labels, scheme) first.")


@dataclass(frozen=True)
class BoundRanker:
    """The inline ranker for a component with these labels [L].

    A text's cost function is made at its first visit.
    """

    cost: Cost
    k: int
    labels: Sequence[str]
    constraints: Constraints
    _made: dict[Any, tuple[Any, CostFunction | None]] = field(default_factory=dict, repr=False, compare=False)

    provides: ClassVar[frozenset[LossProperty]] = PROVIDES

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the loss: without the texts that it has met."""
        return BoundRanker, (self.cost, self.k, self.labels, self.constraints)

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        possible = scores.constrained(self.constraints)
        best = Viterbi()(possible, batch.offsets, self.constraints)
        target, weights = best.copy(), np.zeros_like(batch.weights)
        for number, (begin, end), cost in self._costs(batch):
            lowest = self._checked(cost, best[begin:end])
            if batch.weights[number] and lowest > 0:
                cheapest = self._cheapest(cost, lowest, _part(possible, begin, end))
                if cheapest is not None:
                    target[begin:end], weights[number] = cheapest, batch.weights[number]
        if not weights.any():
            return 0.0
        return Perceptron()(possible, batch._replace(gold=target, weights=weights), grad)

    def learns_from(self, batch: Batch) -> Bools:
        """Return which sequences [N] the cost can judge."""
        judged = np.zeros(len(batch.weights), np.bool_)
        judged[[number for number, _, _ in self._costs(batch)]] = True
        return judged

    def _costs(self, batch: Batch) -> Iterator[tuple[int, tuple[int, int], CostFunction]]:
        """Yield the sequences that the cost can judge: their numbers, tokens and cost functions."""
        if batch.inputs is None:
            raise ConfigError(f"{NAME} needs annotated texts: batch.inputs must be what read(docs, gold) returned.")
        for number, (begin, end) in enumerate(pairwise(batch.offsets.tolist())):
            if begin == end:
                continue
            doc, first = batch.inputs[begin]
            gold = batch.gold[begin:end]
            key = id(doc), first, gold.tobytes()
            if key not in self._made:
                self._made[key] = doc, self._cost_of(doc, first, gold)  # which keeps the Doc, and so its id
            _, cost = self._made[key]
            if cost is not None:
                yield number, (begin, end), cost

    def _cost_of(self, doc: Any, first: int, gold: Ints) -> CostFunction | None:
        """Return the cost function of the tokens of an annotated Doc from `first` on, whose labels [T] are `gold`."""
        reference = doc if len(gold) == len(doc) else doc[first : first + len(gold)].as_doc()
        labels = [self.labels[label] if label >= 0 else None for label in gold.tolist()]
        return self.cost(Evidence([token.text for token in reference], labels, reference))

    def _cheapest(self, cost: CostFunction, lowest: float, scores: Scores) -> Ints | None:
        """Return the first labelling with the least cost among the k best ones of a text, None if `lowest` is less."""
        n_tokens, chosen = len(scores.emissions), None
        ranked, values = kernels.paths.best_labellings(scores, np.array([0, n_tokens]), self.k)
        for labels, value in zip(ranked, values[:, 0], strict=True):
            if value == -np.inf:  # there are fewer labellings, or the others are forbidden
                break
            this = self._checked(cost, labels)
            if this < lowest:
                chosen, lowest = labels, this
            if lowest == 0:
                break
        return chosen

    def _checked(self, cost: CostFunction, labels: Ints) -> float:
        """Return the cost of labels [T].  RAISES DataError: If it is negative or not finite."""
        value = float(cost([self.labels[label] for label in labels.tolist()]))
        if not 0 <= value < np.inf:
            raise DataError(
                f"{part_name(self.cost)} gave a cost of {value}; it must be finite and 0 or more. Only differences "
                "between labellings of a text matter, so make a score up to 1 the cost 1 - score."
            )
        return value


def _part(scores: Scores, begin: int, end: int) -> Scores:
    """Return the scores of the tokens of a sequence."""
    steps = scores.transitions if len(scores.transitions) == 1 else scores.transitions[begin:end]
    return scores._replace(emissions=scores.emissions[begin:end], transitions=steps)
