"""Training inside spaCy, which passes one batch at a time: `update` takes it in, `finish_update` works on it.

An online optimizer works on the examples since the last step.  A batch optimizer needs the whole epoch: examples are
collected until as many as `initialize` saw are there, or a batch brings nothing new; a new example begins a new
collection.  Examples are identified by their content, so that they are compiled once.  The texts of further terms are
there from the beginning: a batch optimizer uses all of them in each iteration, an online optimizer a share of each term
with every batch, so that an epoch visits them once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from spacy.training import Example

from ..potentials.sums import GivenEmissions, Sum
from ..training.dataset import SAMPLE_SEQUENCES, Dataset, join
from ..training.objective import Objective, Term
from ..types import Floats, Optimizer, StepReport
from .corpus_encoder import EncodedCorpus
from .doc_model import DocModel
from .encode import ExampleEncoder
from .objectives import corpus_term, further_terms, objective_of
from .white_space import is_space

MAX_CACHED_TOKENS = 5_000_000
"""Compiled examples are kept up to this many tokens, of some fifty bytes each; least recently used ones go first."""
Keyed: TypeAlias = tuple[int, Example]
"""An example, after the `content_key` that identifies it."""


class Run:
    """A training run that spaCy drives.

    example_encoder (ExampleEncoder): Encodes the examples in the numbers of the model.
    corpus (EncodedCorpus | None): The training corpus in these numbers, as far as it is known.
    terms (Mapping): The texts of terms in these numbers, by their names.
    streamed (bool): Whether more examples come than the training corpus has.

    report (StepReport | None): Of the last iteration.
    n_sequences, seen_all: Of the training set, see `DocModel`, which follows the run.
    """

    def __init__(
        self,
        model: DocModel,
        example_encoder: ExampleEncoder,
        corpus: EncodedCorpus | None,
        terms: Mapping[str, EncodedCorpus],
        optimizer: Optimizer,
        *,
        streamed: bool = False,
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._example_encoder, self._texts_of_terms = example_encoder, terms
        self._n_examples = 0 if streamed or corpus is None else corpus.n_docs
        self._sample = None if corpus is None else corpus.data.sample(SAMPLE_SEQUENCES)  # for learning rates
        # whether n_sequences counts the examples so far, of a corpus that is streamed or of unknown size
        self.n_sequences, self._grows = model.n_sequences, streamed or not model.n_sequences
        self._newer: Callable[[], Floats] | None = None
        self.restart()

    def restart(self) -> None:
        """Forget compiled examples and the optimizer's state, as is needed after a new label."""
        self._state: Any = None
        self.report: StepReport | None = None
        self._sinks: list[dict[str, float]] = []  # dictionaries that get the loss of the next step
        self._estimate = _Estimate()
        self.seen_all, self._left = False, self.n_sequences  # those left to be visited until weights of zero stay zero
        cache = _Cache(self._model, self._example_encoder)
        self._terms = further_terms(self._model, self._texts_of_terms)
        self._batches = _Batches(cache) if self._optimizer.online else _Epochs(cache, self._n_examples)
        self._streams: list[_Stream] | None = None
        self._objective: tuple[Dataset, Objective] | None = None

    def update(self, batch: Sequence[Keyed], losses: dict[str, float], drop: float = 0.0) -> None:
        """Add a batch, see `Training.update`."""
        docs, model = [example.predicted for _, example in batch], self._model
        # a network that fails must leave no examples behind
        passes = {number: network.begin_update(docs, drop) for number, network in model.networks.items()}
        self._add(batch)
        self._sinks.append(losses)
        if passes:
            words = ~is_space(docs)
            given = {number: GivenEmissions(emissions[words], number) for number, (emissions, _) in passes.items()}
            self.work(given)
            for number, (emissions, backprop) in passes.items():
                gradient = np.zeros_like(emissions, given[number].gradient.dtype)
                gradient[words] = given[number].gradient
                backprop(gradient)

    def _add(self, batch: Sequence[Keyed]) -> None:
        if self._batches.add(batch):
            self._state, self.report, self._grows = None, None, True
        if self._grows:
            self.n_sequences = self._batches.count(self.n_sequences)

    def begin_without_networks(self, data: Dataset) -> None:
        """Train all other parameters on the whole training set first, for as many epochs as networks ask for."""
        model, optimizer = self._model, self._optimizer
        n_epochs = max(network.sparse_epochs for network in model.networks.values())
        if n_epochs:
            none = np.zeros((1, len(model.labels.tags)), model.crf.theta.dtype)  # the inputs of all tokens are 0
            objective = self.with_networks(data, {number: GivenEmissions(none, number) for number in model.networks})
            self._state = optimizer.start(model.crf.theta)
            for _ in range(n_epochs):
                self.report = optimizer.iterate(objective, self._state)
            self._newer = partial(optimizer.export, self._state)

    def newer(self) -> Floats | None:
        """Return the parameters [D] if they have changed since the last call."""
        if self._newer is None:
            return None
        theta = self._newer().astype(self._model.trained()[0].theta.dtype)
        self._newer = None
        return theta

    def work(self, given: Mapping[int, GivenEmissions] | None = None) -> None:
        """Run the optimizer on the examples added, with these scores of networks, which get their gradient."""
        model, optimizer = self._model, self._optimizer
        data = self._batches.due(self.report is not None and self.report.converged)
        if data is not None:
            if self._state is None:
                self._state = optimizer.start(model.trained()[0].theta)
            if given or self._objective is None or self._objective[0] is not data:
                self._objective = data, self._on(data, given)
            for _ in range(model.method.inner_iterations):
                self.report = optimizer.iterate(self._objective[1], self._state)
                if self.report.converged and not optimizer.online:
                    break
            self._newer = partial(optimizer.export, self._state)
            self._left -= data.n_sequences
            self.seen_all = self.seen_all or self._left <= 0
        if self.report is not None:
            if data is not None:
                self._estimate.add(self.report, data, anew=not optimizer.online)
            for losses in self._sinks:
                losses[model.name] = losses.get(model.name, 0.0) + self._estimate.per_token / len(self._sinks)
        self._sinks = []

    def _on(self, data: Dataset, given: Mapping[int, GivenEmissions] | None) -> Objective:
        """Return the objective on a batch or an epoch."""
        model = self._model
        if not given:
            first = corpus_term(model, data, self._sample)
            shares = self._shares(data) if self._optimizer.online else self._terms
            n_total = self.n_sequences + sum(term.data.n_sequences for term in self._terms)
            return objective_of(model, [first, *shares], n_total)
        inputs = list(data.encoded.inputs)
        for number in given:
            inputs[number] = np.arange(data.encoded.n_tokens)
        return self.with_networks(data._replace(encoded=data.encoded._replace(inputs=tuple(inputs))), given)

    def with_networks(self, data: Dataset, given: Mapping[int, GivenEmissions]) -> Objective:
        """Return the objective on data with the scores of networks, by the numbers of their inputs."""
        model = self._model
        crf, _ = model.trained()
        potential = Sum(crf.linear, [given.get(number, small) for number, small in enumerate(crf.small)])
        return objective_of(model, [corpus_term(model, data)], self.n_sequences, potential)

    def _shares(self, data: Dataset) -> list[Term]:
        """Return the terms with the texts that go with a batch."""
        if self._streams is None:
            seed = getattr(self._optimizer, "seed", 0) or 0
            self._streams = [_Stream(term, (seed, number)) for number, term in enumerate(self._terms)]
        share = data.n_sequences / max(1, self.n_sequences)
        return [stream.next(share) for stream in self._streams]

    def figures(self, *, restart: bool = False) -> StepReport | None:
        """Return the last report of the optimizer, None before its first iteration.

        Objective and loss are those of the whole training set; those of an online optimizer are estimated from the
        examples since the last restart.
        restart (bool): Start a new estimate with the next examples.
        """
        return None if self.report is None else self._estimate.of(self.report, self.n_sequences, restart)


class _Batches:
    """The examples that an online optimizer has not seen yet."""

    def __init__(self, cache: _Cache) -> None:
        self._cache, self._parts = cache, list[Dataset]()

    def add(self, batch: Sequence[Keyed]) -> bool:
        """Add examples; return whether a new run has to begin with them."""
        self._parts += self._cache.get(batch)
        return False

    def count(self, before: int) -> int:
        """Return the number of sequences of the training set, as far as it has been met; `before` is the last one."""
        return max(before, self._cache.n_sequences)

    def due(self, done: bool) -> Dataset | None:
        """Return the data to work on now, if there are any; `done` tells that the optimizer has converged."""
        parts, self._parts = self._parts, []
        return join(parts) if parts else None


class _Epochs:
    """The examples of an epoch, for a batch optimizer; methods as of `_Batches`."""

    def __init__(self, cache: _Cache, n_examples: int) -> None:
        self._cache, self._n_examples = cache, n_examples
        self._parts, self._keys = list[Dataset](), set[int]()
        self._epoch: Dataset | None = None
        self._size = self._seen = 0

    def add(self, batch: Sequence[Keyed]) -> bool:
        keys = {key for key, _ in batch}
        nothing_new = keys <= self._keys
        if again := self._epoch is not None and not nothing_new:  # different data: collect again
            self._epoch, self._keys, self._n_examples = None, set(), 0
        if self._epoch is not None:
            self._seen += len(batch)
            return False
        if self._n_examples or not nothing_new:
            self._parts += self._cache.get(batch)
            self._keys.update(keys)
        if len(self._parts) >= self._n_examples if self._n_examples else nothing_new:
            self._epoch = join(self._parts)
            self._size = self._seen = len(self._parts)  # the first iteration is due
            self._parts, self._cache = [], self._cache.emptied()
        return again

    def count(self, before: int) -> int:
        return before if self._epoch is None else self._epoch.n_sequences

    def due(self, done: bool) -> Dataset | None:
        if done or self._epoch is None or self._seen < self._size:
            return None
        self._seen = 0
        return self._epoch


class _Estimate:
    """The loss of a training set, estimated from the steps since the last restart.

    per_token (float): The loss of the last step.
    """

    def __init__(self) -> None:
        self._loss, self._n_sequences, self._refill, self.per_token = 0.0, 0, False, 0.0

    def add(self, report: StepReport, data: Dataset, *, anew: bool) -> None:
        """Take in a step."""
        if self._refill or anew:
            self._loss, self._n_sequences, self._refill = 0.0, 0, False
        self._loss += report.loss
        self._n_sequences += data.n_sequences
        self.per_token = report.loss / max(1, data.encoded.n_tokens)

    def of(self, report: StepReport, n_total: int, restart: bool) -> StepReport:
        """Return the last report with the estimate for `n_total` sequences; `restart` with the next step."""
        self._refill = self._refill or restart
        loss = self._loss * n_total / max(1, self._n_sequences)
        return report._replace(value=loss + (report.value - report.loss), loss=loss)


class _Stream:
    """The sequences of a term, share after share, in an order that is drawn anew for each pass over them."""

    def __init__(self, term: Term, seed: tuple[int, int]) -> None:
        self._term, self._rng = term, np.random.default_rng(seed)
        self._order, self._begin = np.zeros(0, np.int64), 0  # of the part from sequence number `_begin` on
        self._epochs = 0.0

    def next(self, share: float) -> Term:
        """Return the term with the sequences that the next share of an epoch visits."""
        n = self._term.data.n_sequences
        self._epochs += share
        end = int(self._epochs * self._term.visits * n + 1e-6)
        while self._begin + len(self._order) < end:
            self._order = np.append(self._order, self._rng.permutation(n))
        chosen, self._order = np.split(self._order, [end - self._begin])
        self._begin = end
        return self._term._replace(data=self._term.data.take(chosen), visits=1.0)


class _Cache:
    """Compiled examples by the hash of their content; `n_sequences` counts all that were ever added."""

    def __init__(self, model: DocModel, example_encoder: ExampleEncoder) -> None:
        self._model, self._example_encoder, self.n_sequences = model, example_encoder, 0
        self._entries: OrderedDict[int, Dataset] = OrderedDict()
        self._n_tokens, self._keys = 0, set[int]()

    def emptied(self) -> _Cache:
        """Return an empty cache for examples of the same training."""
        return _Cache(self._model, self._example_encoder)

    def get(self, batch: Sequence[Keyed]) -> list[Dataset]:
        """Return the data sets of examples, compiling those that are missing."""
        unknown = {key: example for key, example in batch if key not in self._entries}
        compiled = self._example_encoder.compile(self._model, list(unknown.values())) if unknown else []
        if compiled and self._entries and compiled[0].store is not next(iter(self._entries.values())).store:
            self._entries, self._n_tokens = OrderedDict(), 0  # the encoder had to restart its tables
            return self.get(batch)
        for key, data in zip(unknown, compiled, strict=True):
            self._entries[key] = data
            self._n_tokens += data.encoded.n_tokens
            self.n_sequences += 0 if key in self._keys else data.n_sequences
            self._keys.add(key)
        for key, _ in batch:
            self._entries.move_to_end(key)
        cached = [self._entries[key] for key, _ in batch]
        while self._n_tokens > MAX_CACHED_TOKENS and len(self._entries) > 1:
            self._n_tokens -= self._entries.popitem(last=False)[1].encoded.n_tokens
        return cached
