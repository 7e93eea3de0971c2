"""The objective: losses of several data sets and one penalty, as a function of the flat parameters.

    objective(theta) = sum over terms of weight * loss(scores(theta), data) + penalty(theta)

Batch optimizers use value and gradient on all data, online optimizers mini-batches of all terms in turn, index-wise
optimizers the tokens of each feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from heapq import merge
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .. import kernels, threads
from ..errors import ConfigError
from ..optimizers.batch import SHARED
from ..potentials.layout import Layout
from ..potentials.linear import Linear, listed
from ..potentials.protocol import Batches, Potential, SequenceRange, tokens_of
from ..potentials.sums import Shifted
from ..potentials.tag_dictionary import EmissionMask, TagDictionary
from ..threads import cached_property
from ..types import (
    Batch,
    Bools,
    ChainText,
    CorpusLoss,
    Floats,
    Ints,
    Loss,
    Numbers,
    Occurrences,
    Offsets,
    Regularizer,
    RowBlock,
    RowGradient,
    Scores,
)
from .compatibility import provided
from .dataset import SAMPLE_SEQUENCES, Dataset
from .progress import shown

SCORES = 64
"""The scores of transitions that take the time of a token's features for one label."""
LOADED = 1024
"""Number of sequences, or groups, that online training prepares at a time."""


class Term(NamedTuple):
    """A data set with its loss, times a weight.

    weight (float): Factor of the loss.
    name (str): For reports.
    sample (Dataset | None): Data for choosing learning rates; a part of `data` if None.  Of terms after the first, all
        data, of which `data` may be a part.
    visits (float): How often online training visits each sequence in an epoch, on average.
    """

    data: Dataset
    loss: Loss
    weight: float = 1.0
    name: str = ""
    sample: Dataset | None = None
    visits: float = 1.0

    @property
    def n_visited(self) -> int:
        """Number of sequences that an epoch of online training visits."""
        return round(self.visits * self.data.n_sequences)

    def weighted(self) -> Term:
        """Return the term with its weight multiplied into those of its sequences, if its loss is a sum over them."""
        if self.weight == 1 or isinstance(self.loss, CorpusLoss):
            return self
        samples = [data and data._replace(weights=self.weight * data.weights) for data in (self.data, self.sample)]
        return self._replace(data=samples[0] or self.data, sample=samples[1], weight=1.0)

    def batches(
        self, plan: Batches, mask: EmissionMask | None, size: int, rng: np.random.Generator | None
    ) -> Iterator[MiniBatch]:
        """Yield as many sequences as an epoch visits, `size` at a time and shuffled by `rng`."""
        for sequences in self.blocks(size, rng):
            part = self.data.take(sequences)
            plan.load(part.encoded)
            for first in range(0, len(sequences), size):
                bounds, words = (first, min(first + size, len(sequences))), None
                if mask is not None and part.encoded.dictionary_ids is not None:
                    words = part.encoded.dictionary_ids[tokens_of(part.encoded.offsets, bounds)]
                yield MiniBatch(plan, self.loss, bounds, part.batch(*bounds), mask, words)

    def blocks(self, size: int, rng: np.random.Generator | None) -> list[Offsets]:
        """Return the numbers of the sequences of an epoch, shuffled by `rng`, in blocks for whole mini-batches."""
        n, n_visited, block = self.data.n_sequences, self.n_visited, max(1, LOADED // size) * size
        passes = [np.arange(n) if rng is None else rng.permutation(n) for _ in range(-(-n_visited // max(1, n)))]
        order = np.concatenate(passes)[:n_visited] if passes else np.zeros(0, np.int64)
        return [order[start : start + block] for start in range(0, n_visited, block)]


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
        self._mask = mask if data.encoded.dictionary_ids is not None else None
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
                self._sum(slope, True)
        else:
            value = float(self._sum(loss, grad is not None))
        self._passes.finish()
        return value

    def totals(self, theta: Floats) -> Any:
        """Return the sums of a `CorpusLoss` over the data at theta [D]; 0 for any other loss."""
        if not isinstance(self._loss, CorpusLoss):
            return 0.0
        self._passes.begin(theta, None)
        result = self._totals(self._loss)
        self._passes.finish()
        return result

    def _totals(self, loss: CorpusLoss) -> Any:
        return self._sum(lambda scores, batch, _: loss.totals(scores, batch), False)

    def _sum(self, loss: Callable[[Scores, Batch, Scores], Any], training: bool) -> Any:
        """Return the sum of a loss over all parts; in training, pass its gradient on."""
        passes, data, mask, total = self._passes, self._data, self._mask, 0.0

        def of_part(part: SequenceRange) -> Any:
            scores, backprop = passes.forward(part)
            batch = data.batch(*part)
            if mask is not None and data.encoded.dictionary_ids is not None:
                mask.add(
                    data.encoded.dictionary_ids[tokens_of(data.encoded.offsets, part)], scores.emissions, batch.gold
                )
            gradient = passes.zeros(scores)
            value = loss(scores, batch, gradient)
            if training:
                backprop(gradient)
            return value

        for parts in shown(passes.rounds, len(passes.rounds), "Pass"):
            for value in threads.over(of_part, parts, self._n_threads):
                total = total + value
            passes.flush()
        return total


class FullPasses:
    """The full passes over the data of some terms, prepared when they are first needed.

    Objectives that differ in the penalty alone share them.
    """

    def __init__(
        self, potential: Potential, terms: Sequence[Term], n_threads: int, mask: EmissionMask | None = None
    ) -> None:
        self._potential, self._terms, self._n_threads, self._mask = potential, terms, n_threads, mask

    @cached_property
    def of_terms(self) -> list[FullPass]:
        """The full pass of each term."""
        make = partial(FullPass, self._potential, n_threads=self._n_threads, mask=self._mask)
        return [make(term.data, term.loss, weight=term.weight) for term in self._terms]


class MiniBatch:
    """A few sequences of the text that `plan` has loaded; implements `types.OnlineBatch`.

    words (Ints | None): [T] indices of the words in the tag dictionary of `mask`, if there is one.
    """

    __slots__ = ("_batch", "_loss", "_mask", "_part", "_plan", "_words")

    def __init__(
        self,
        plan: Batches,
        loss: Loss,
        part: SequenceRange,
        batch: Batch,
        mask: EmissionMask | None,
        words: Ints | None,
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


class Objective:
    """Implements `types.OnlineObjective` and `types.IndexedObjective`.

    terms (Sequence[Term]): Data sets with their losses, at least one; the first is that of the training corpus.
    n_sequences (int): Number of sequences that an epoch of online training visits: all once, or as terms say.
    n_total (int): Number of sequences of all terms in the whole training set, if the terms' data are a part of it.
    n_threads (int): Threads of passes over all data; 0: one per core.
    dictionary (TagDictionary | None): Restricts the labels of the words in ``data.encoded.dictionary_ids``.  Gold
        labels are always allowed at their token, so that no loss is infinite.
    templates (Numbers | None): [F] the number of the template of each feature that scores a label.
    """

    def __init__(
        self,
        potential: Potential,
        terms: Sequence[Term],
        regularizer: Regularizer,
        *,
        n_total: int = 0,
        n_threads: int = 1,
        dictionary: TagDictionary | None = None,
        templates: Numbers | None = None,
    ) -> None:
        self.potential, self.terms, self.dictionary = potential, [term.weighted() for term in terms], dictionary
        self.n_sequences = sum(term.n_visited for term in terms)
        self._mask = None if dictionary is None else EmissionMask(dictionary)
        self.blocks = potential.blocks()
        self.regularizer = regularizer.over(self.blocks)
        self._n_total, self._templates = n_total, templates
        self.n_threads = n_threads or threads.available()
        self._passes = FullPasses(potential, self.terms, self.n_threads, self._mask)

    def under(self, regularizer: Regularizer, loss: Loss | None = None) -> Objective:
        """Return the objective with another penalty, and another loss of the first term if one is given."""
        # a copy shares the preparation for passes over the data
        other = copy(self if loss is None else self.on([self.terms[0]._replace(loss=loss), *self.terms[1:]]))
        other.regularizer = regularizer.over(self.blocks)
        return other

    def around(self, *change: Floats) -> Objective:
        """Return the objective as a function of the change from given weights; arguments as of `Shifted`."""
        other = copy(self)
        other.potential = Shifted(self.potential, *change)
        other._passes = FullPasses(other.potential, self.terms, self.n_threads, self._mask)
        return other

    def on(self, terms: Sequence[Term]) -> Objective:
        """Return the objective with other terms."""
        other = copy(self)
        other.terms = list(terms)
        other.n_sequences = sum(term.n_visited for term in terms)
        other._passes = FullPasses(self.potential, other.terms, self.n_threads, self._mask)
        return other

    def labelled(self) -> Objective:
        """Return the objective on the sequences in which a gold label is known."""
        return self.on([term._replace(data=term.data.labelled()) for term in self.terms])

    @property
    def n_total(self) -> int:
        """Number of sequences in the whole training set."""
        return max(self._n_total, self.n_sequences)

    # For batch methods

    @property
    def approachable(self) -> bool:
        """Whether some short epochs of AdaGrad from zero come near the optimum: of one log-loss with an elastic net."""
        elastic_net = self.regularizer.strengths is not None and not isinstance(self.potential, Shifted)
        one_log_loss = len(self.terms) == 1 and bool(provided(self.terms[0].loss) & {"log_likelihood", "local"})
        return elastic_net and one_log_loss and self._epochs_are_short

    @property
    def _epochs_are_short(self) -> bool:
        """Whether the transitions, which every mini-batch changes, take less time than the tokens.

        With 5,000 labels and sequences of one token, which have no transitions, an epoch would take 20 minutes.
        """
        offsets, n = self.terms[0].data.encoded.offsets, self.potential.n_labels
        n_steps = int(offsets[-1] - offsets[0]) - len(offsets) + 1
        return len(offsets) * n < SCORES * int(offsets[-1] - offsets[0]) + n * n_steps

    def value(self, theta: Floats) -> float:
        """Return the objective at theta [D]."""
        return self.losses(theta, None) + self.regularizer.value(theta)

    def losses(self, theta: Floats, grad: Floats | None, totals: Mapping[str, Any] = MappingProxyType({})) -> float:
        """Return the sum of all losses at theta [D], without the penalty, and add its gradient to `grad` [D], if given.

        totals (Mapping): By the names of terms, sums over all parts of their data sets, if these terms have only one of
            them: the gradient is that of this part, and their losses are not part of the result.
        """
        value = 0.0
        for run, term in zip(self._passes.of_terms, self.terms, strict=True):
            loss = run(theta, grad, totals.get(term.name))
            value += 0.0 if term.name in totals else loss
        return value

    def totals(self, theta: Floats) -> dict[str, Any]:
        """Return the sums of each `types.CorpusLoss` over its data, by the names of the terms; 0 for other losses."""
        return {term.name: run.totals(theta) for run, term in zip(self._passes.of_terms, self.terms, strict=True)}

    def value_and_grad(self, theta: Floats, out: Floats | None = None) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the objective's gradient [D], written to `out` if given."""
        grad = np.empty_like(theta) if out is None else out
        grad.fill(0)
        loss = self.losses(theta, grad)
        # a penalty without strengths may not be a sum over weights
        whole = self.regularizer.strengths is None or len(theta) < SHARED
        n_threads = 1 if whole else self.n_threads

        def penalise(piece: slice) -> float:
            self.regularizer.add_grad(theta[piece], grad[piece])
            return self.regularizer.value(theta[piece])

        penalty = sum(threads.over(penalise, threads.parts(len(theta), n_threads), n_threads))
        self.potential.zero_frozen(grad)
        return loss + penalty, loss, grad

    # For online methods

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield mini-batches of `size` sequences, shuffled by `rng`.

        All sequences of all terms are yielded once, or as often as a term says, and mini-batches of different terms are
        evenly interleaved: in expectation, their sum is the objective.
        """
        if len(self.terms) == 1:
            yield from shown(self.batches_of(self.terms[0], size, rng), self._n_batches(0, size), "Epoch")
            return
        streams = [self._spread(number, size, rng) for number in range(len(self.terms))]
        merged = map(itemgetter(2), merge(*streams, key=itemgetter(0, 1)))
        total = sum(self._n_batches(number, size) for number in range(len(self.terms)))
        yield from shown(merged, total, "Epoch")

    def _n_batches(self, number: int, size: int) -> int:
        """Return the number of mini-batches of a term in an epoch, or nearly so."""
        return -(-self.terms[number].n_visited // size)

    def batches_of(self, term: Term, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield the mini-batches of a term."""
        return term.batches(self.potential.batches(), self._mask, size, rng)

    def chains(self, size: int, rng: np.random.Generator | None, n_threads: int) -> Iterator[ChainText] | None:
        """See `types.OnlineObjective`; blocks of sequences are faster than a `ChainText` for large mini-batches."""
        term, potential = self.terms[0], self.potential
        simple = len(self.terms) == 1 and self._mask is None and size < kernels.lattice.MANY
        simple = simple and bool({"log_likelihood", "softmax_margin"} & provided(term.loss))
        if not simple or not isinstance(potential, Linear) or potential.layout.bigrams.n_rows:
            return None
        if term.data.has_candidates:
            return None
        return self._chains(term, potential.layout.trainable(), term.blocks(size, rng), n_threads)

    def _chains(self, term: Term, trainable: Bools, blocks: list[Offsets], n_threads: int) -> Iterator[ChainText]:
        n, margin = self.potential.n_labels, getattr(term.loss, "costs", None)
        costs = np.zeros((0, 0)) if margin is None else margin(n)

        def load(sequences: Offsets) -> ChainText:
            part = term.data.take(sequences)
            return ChainText(*part.batch(0, len(sequences))[:3], *listed(part.encoded.unigrams), trainable, costs)

        for first in shown(range(0, len(blocks), n_threads), -(-len(blocks) // n_threads), "Epoch"):
            yield from threads.run([partial(load, block) for block in blocks[first : first + n_threads]])

    def _spread(
        self, number: int, size: int, rng: np.random.Generator | None
    ) -> Iterator[tuple[float, int, MiniBatch]]:
        """Yield the mini-batches of a term with their places in the epoch, between 0 and 1."""
        n = self._n_batches(number, size)
        for i, batch in enumerate(self.batches_of(self.terms[number], size, rng)):
            yield (i + 0.5) / n, number, batch

    def sample(self) -> Objective:
        """Return the objective on a fixed sample of each term's data, scaled down in proportion to the first term's."""
        wholes = [term.sample or term.data for term in self.terms]
        terms = [
            term._replace(data=whole.sample(SAMPLE_SEQUENCES)) for term, whole in zip(self.terms, wholes, strict=True)
        ]
        first = self.n_total - sum(whole.n_sequences for whole in wholes[1:])  # the sample of the first may be a part
        factor = terms[0].data.n_sequences / max(1, first)
        for number, whole in enumerate(wholes[1:], start=1):
            share = terms[number].data.n_sequences / max(1, whole.n_sequences)
            terms[number] = terms[number]._replace(weight=factor / (share or 1.0))
        return Objective(self.potential, terms, _Scaled(self.regularizer, factor), dictionary=self.dictionary)

    # For index-wise methods, which compute the scores of one data set under a linear potential themselves

    @property
    def layout(self) -> Layout:
        """The layout of the linear potential; ConfigError for any other."""
        if not isinstance(self.potential, Linear):
            raise ConfigError(
                "This method works on the weights of single features, but scores come from "
                f"{type(self.potential).__name__} here. Use for example spacy_crfseq.LBFGS.v1 or AdaGrad.v1."
            )
        return self.potential.layout

    @property
    def term(self) -> Term:
        """The only term; ConfigError if there are several."""
        if len(self.terms) > 1:
            raise ConfigError(
                f"This method learns from one data set, but the objective has {len(self.terms)}: "
                f"{', '.join(term.name for term in self.terms)}. Use for example spacy_crfseq.LBFGS.v1 or AdaGrad.v1."
            )
        return self.terms[0]

    @property
    def data(self) -> Dataset:
        """The data of the only term."""
        return self.term.data

    @property
    def loss(self) -> Loss:
        """The loss of the only term."""
        return self.term.loss

    @property
    def batch(self) -> Batch:
        """All sequences of the current data."""
        return self.data.batch(0, self.data.n_sequences)

    @property
    def allowed(self) -> Bools | None:
        """The labels that each token may have [T, L], including gold labels; None for all."""
        words = self.data.encoded.dictionary_ids
        if self.dictionary is None or words is None:
            return None
        return self.dictionary.labels_of(words, self.data.gold)

    @property
    def trainable(self) -> Bools:
        """Which of the shared scores are learned."""
        return self.layout.trainable()

    @property
    def templates(self) -> Numbers:
        """The number of the template of each feature that scores a label [F]; zeros if unknown."""
        if self._templates is None:
            return np.zeros(self.layout.unigrams.n_rows, np.uint16)
        return self._templates

    def occurrences(self, block: int) -> Occurrences:
        """Return the rows of a group (0 unigrams, 1 bigrams) of each token, and the tokens of each row."""
        group, encoded = (
            (self.layout.unigrams, self.layout.bigrams)[block],
            (self.data.encoded.unigrams, self.data.encoded.bigrams),
        )
        ptr, ids = listed(encoded[block])
        row_ptr, tokens = np.empty(group.n_rows + 1, np.int64), np.empty(len(ids), np.int32)
        kernels.rows.transpose(ptr, ids, row_ptr, tokens)
        return Occurrences(ptr, ids, row_ptr, tokens)


class _Scaled:
    """A regularizer times a factor."""

    def __init__(self, regularizer: Regularizer, factor: float) -> None:
        self._regularizer, self._factor = regularizer, factor
        self.smooth, strengths = regularizer.smooth, regularizer.strengths
        self.strengths = None if strengths is None else type(strengths)(*(factor * strength for strength in strengths))

    def over(self, blocks: Sequence[RowBlock]) -> _Scaled:
        return _Scaled(self._regularizer.over(blocks), self._factor)

    def value(self, weights: Floats) -> float:
        return self._factor * self._regularizer.value(weights)

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        unscaled = np.zeros_like(grad)
        self._regularizer.add_grad(weights, unscaled)
        grad += grad.dtype.type(self._factor) * unscaled

    def prox(self, weights: Floats, step: float) -> None:
        self._regularizer.prox(weights, step * self._factor)
