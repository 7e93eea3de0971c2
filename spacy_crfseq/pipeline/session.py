"""The state of training inside spaCy between two calls of `update`.

spaCy passes one batch at a time.  An online optimizer works on what came since the last step.  A batch optimizer
needs the whole epoch: examples are collected until as many as `initialize` saw are there, or a batch brings nothing
new; a new example begins a new collection.  Examples are identified by their content, so each is compiled once.
The texts of further terms are there from the beginning: a batch optimizer uses all of them in each iteration, an online
one a share of each term with every batch, so that an epoch visits them once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from spacy.training import Example

from ..training.dataset import SAMPLE_SEQUENCES, Dataset, join
from ..training.objective import Objective
from ..training.terms import Term
from ..types import Floats, Optimizer, StepReport
from .terms import TermData

MAX_CACHED_TOKENS = 5_000_000
"""Compiled examples are kept up to this many tokens, of some fifty bytes each; least recently used ones go first."""

Compile = Callable[[Sequence[Example]], list[Dataset]]


class Session:
    """A training run that spaCy drives.

    initial (Dataset | None): The whole training set as `initialize` saw it, until the first update.
    terms (Sequence[TermData]): Terms in addition to the training set, with all of their texts.
    sample (Dataset | None): A part of it that is kept to choose learning rates.
    n_total (int): Sequences in the whole training set.
    seen_all (bool): Whether the optimizer has visited the whole training set, so that weights of zero stay zero.
    grows (bool): Whether n_total counts what has been seen so far, of a corpus that is streamed or of unknown size.
    stale (bool): Whether the optimizer has newer parameters than the model.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        initial: Dataset | None = None,
        *,
        terms: Sequence[TermData] = (),
        n_examples: int = 0,
        n_total: int = 0,
        streamed: bool = False,
        seen_all: bool = False,
    ) -> None:
        self._optimizer = optimizer
        self._n_examples = 0 if streamed else n_examples
        self.initial, self.terms = initial, terms
        self.n_total = initial.n_sequences if initial is not None else n_total
        self.grows = streamed or not self.n_total
        self.sample = initial.sample(SAMPLE_SEQUENCES) if initial is not None else None
        self.seen_all, self._to_see = seen_all, self.n_total
        self.restart()

    def restart(self) -> None:
        """Forget compiled examples and the optimizer's state; the parameters of the model are kept."""
        self.stale = False
        self._state: Any = None
        self._report: StepReport | None = None
        self._cache = _Cache()
        self._pending: list[Dataset] = []
        self._collected: list[Dataset] = []
        self._keys: set[int] = set()
        self._epoch: Dataset | None = None
        self._objective: tuple[Dataset, Objective] | None = None
        self._begin_streams()
        self._epoch_size = self._seen = 0
        self._sinks: list[dict[str, float]] = []
        self._met_loss, self._met_sequences, self._refill = 0.0, 0, False

    @property
    def weighted(self) -> list[Term]:
        """The terms of the objective, without the training set."""
        return [term.term() for term in self.terms if term.settings.weight]

    def add_terms(self, terms: Sequence[TermData]) -> None:
        """Use these terms from now on."""
        self.terms, self._objective = terms, None
        self._begin_streams()

    def _begin_streams(self) -> None:
        seed = getattr(self._optimizer, "seed", 0) or 0
        self._epochs, self._streams = 0.0, [_Stream(term, (seed, i)) for i, term in enumerate(self.weighted)]

    def expect_all(self) -> None:
        """Restart; the optimizer has to visit the whole training set again, as it does after a new label."""
        self.restart()
        self.seen_all, self._to_see = False, self.n_total

    def release(self) -> None:
        """Free all data, after the last step of a run."""
        self.initial, self.sample, self.terms = None, None, ()
        self.restart()

    def add(
        self, examples: Sequence[Example], keys: Sequence[int], compile_: Compile, losses: dict[str, float]
    ) -> None:
        """Add a batch, with a hash of what training reads of each example; `losses` is filled later."""
        if self._optimizer.online:
            self._pending += self._cache.get(examples, keys, compile_)
            self.n_total = max(self.n_total, self._cache.n_sequences if self.grows else 0)
        else:
            self._collect(examples, keys, compile_)
        self.initial = None
        self._sinks.append(losses)

    def _collect(self, examples: Sequence[Example], keys: Sequence[int], compile_: Compile) -> None:
        nothing_new = self._keys.issuperset(keys)
        if self._epoch is not None and not nothing_new:  # different data: collect again
            self._epoch, self._state, self._report = None, None, None
            self._collected, self._keys, self._seen, self._n_examples = [], set(), 0, 0
            self.grows = True
        if self._epoch is not None:
            self._seen += len(examples)
            return
        if self._n_examples or not nothing_new:
            self._collected += self._cache.get(examples, keys, compile_)
            self._keys.update(keys)
        if len(self._collected) >= self._n_examples if self._n_examples else nothing_new:
            self._epoch = join(self._collected)
            self._epoch_size = self._seen = len(self._collected)  # the first iteration is due
            self._collected, self._cache = [], _Cache()
            self.n_total = self._epoch.n_sequences if self.grows else self.n_total

    def begin(self, objective: Objective, theta: Floats, iterations: int) -> None:
        """Start a new run at `theta` with some iterations on an objective."""
        self._state = self._optimizer.start(theta)
        for _ in range(iterations):
            self._report = self._optimizer.iterate(objective, self._state)
        self.stale = True

    def work(
        self,
        objective_on: Callable[[Dataset, Sequence[Term]], Objective],
        theta: Floats,
        name: str,
        iterations: int,
    ) -> None:
        """Run the optimizer on the examples added; a new run starts at `theta`."""
        data = self._due()
        if data is not None:
            if self._state is None:
                self._state = self._optimizer.start(theta)
            if self._objective is None or self._objective[0] is not data:
                self._objective = data, objective_on(data, self._due_terms(data))
            for _ in range(iterations):
                self._report = self._optimizer.iterate(self._objective[1], self._state)
                if self._report.converged and not self._optimizer.online:
                    break
            self.stale = True
            self._to_see -= data.n_sequences
            self.seen_all = self.seen_all or self._to_see <= 0
            self._account(data)
            self._last_loss = self._report.loss / max(1, data.encoded.n_tokens) if self._report else 0.0
        if self._report is not None:
            for losses in self._sinks:
                losses[name] = losses.get(name, 0.0) + self._last_loss / len(self._sinks)
        self._sinks = []

    def _account(self, data: Dataset) -> None:
        if self._report is None:
            return
        if self._refill or not self._optimizer.online:
            self._met_loss, self._met_sequences, self._refill = 0.0, 0, False
        self._met_loss += self._report.loss
        self._met_sequences += data.n_sequences

    def figures(self, restart: bool = False) -> StepReport | None:
        """Return what the optimizer reported last, None before its first iteration.

        Objective and loss are those of the whole training set; those of an online optimizer are estimated from the
        examples since the last restart.
        restart (bool): Start a new estimate with the next examples.
        """
        if self._report is None:
            return None
        self._refill = self._refill or restart
        loss = self._met_loss * self.n_total / max(1, self._met_sequences)
        penalty = self._report.value - self._report.loss
        return self._report._replace(value=loss + penalty, loss=loss)

    def _due(self) -> Dataset | None:
        if self._optimizer.online:
            pending, self._pending = self._pending, []
            return join(pending) if pending else None
        done = self._report is not None and self._report.converged
        if self._epoch is None or self._seen < self._epoch_size or done:
            return None
        self._seen = 0
        return self._epoch

    def _due_terms(self, data: Dataset) -> Sequence[Term]:
        """Return the terms with the texts that go with a batch."""
        if not self._optimizer.online:
            return self.weighted
        self._epochs += data.n_sequences / max(1, self.n_total)
        return [stream.until(self._epochs) for stream in self._streams]

    def export(self, theta: Floats) -> None:
        """Write the optimizer's current parameters to `theta` [D]."""
        self._optimizer.export(self._state, theta)
        self.stale = False


class _Stream:
    """The sequences of a term one share after another, in an order that is drawn anew for each epoch."""

    def __init__(self, term: Term, seed: tuple[int, int]) -> None:
        self._term, self._rng = term, np.random.default_rng(seed)
        self._order, self._begin = np.zeros(0, np.int64), 0  # of the part from sequence number `_begin` on

    def until(self, epochs: float) -> Term:
        """Return the term with the sequences from the last call up to so many epochs."""
        n = self._term.data.n_sequences
        end = int(epochs * n + 1e-6)
        while self._begin + len(self._order) < end:
            self._order = np.append(self._order, self._rng.permutation(n))
        share, self._order = np.split(self._order, [end - self._begin])
        self._begin = end
        return self._term._replace(data=self._term.data.take(share))


class _Cache:
    """Compiled examples by the hash of their content; `n_sequences` counts all that were ever added."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Dataset] = OrderedDict()
        self._tokens = 0
        self._known: set[int] = set()
        self.n_sequences = 0

    def get(self, examples: Sequence[Example], keys: Sequence[int], compile_: Compile) -> list[Dataset]:
        """Return the data sets of `examples`, compiling those that are missing."""
        unknown = {key: example for key, example in zip(keys, examples, strict=True) if key not in self._entries}
        compiled = compile_(list(unknown.values())) if unknown else []
        if compiled and self._entries and compiled[0].store is not next(iter(self._entries.values())).store:
            self._entries, self._tokens = OrderedDict(), 0  # the encoder had to restart its tables
            return self.get(examples, keys, compile_)
        for key, data in zip(unknown, compiled, strict=True):
            self._remember(key, data)
        for key in keys:
            self._entries.move_to_end(key)
        found = [self._entries[key] for key in keys]
        while self._tokens > MAX_CACHED_TOKENS and len(self._entries) > 1:
            self._tokens -= self._entries.popitem(last=False)[1].encoded.n_tokens
        return found

    def _remember(self, key: int, data: Dataset) -> None:
        self._entries[key] = data
        self._tokens += data.encoded.n_tokens
        if key not in self._known:
            self._known.add(key)
            self.n_sequences += data.n_sequences
