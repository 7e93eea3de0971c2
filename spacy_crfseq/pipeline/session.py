"""What training inside spaCy needs between two calls of `update`.

spaCy hands over a batch at a time.  An online optimizer works on what came since the last step.  A batch optimizer
needs the whole epoch: examples are collected until as many as `initialize` saw are there, or until one comes for the
second time; from then on every epoch's worth of examples buys its iterations.  Examples are told apart by the identity
of their reference Docs, which survives spaCy's copies, so that each is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example

from ..training.objective import SAMPLE_SEQUENCES, CRFObjective, Dataset, join
from ..types import Floats, Optimizer, StepReport

MAX_CACHED_TOKENS = 5_000_000
"""Compiled examples are kept up to this many tokens, at some fifty bytes each."""

Compile = Callable[[Sequence[Example]], list[Dataset]]
Fingerprint = Callable[[Doc], int]


class Session:
    """A training run that spaCy drives.

    initial (Dataset | None): The whole training set as `initialize` saw it, until the first update.
    sample (Dataset | None): A part of it that stays, for choosing learning rates.
    n_total (int): Sequences in the whole training set, or as many as are known of: `initialize` sees only the
        beginning of a corpus that is streamed, a loaded model remembers what it was trained on.
    stale (bool): Whether the optimizer is ahead of the model's parameters.
    """

    def __init__(
        self, optimizer: Optimizer, initial: Dataset | None = None, n_examples: int = 0, n_total: int = 0
    ) -> None:
        self._optimizer = optimizer
        self._n_examples = n_examples
        self.initial = initial
        self.n_total = initial.n_sequences if initial is not None else n_total
        self.sample = initial.sample(SAMPLE_SEQUENCES) if initial is not None else None
        self.restart()

    def restart(self) -> None:
        """Forget compiled examples and the optimizer's state; parameters stay as the model has them."""
        self.stale = False
        self._state: Any = None
        self._report: StepReport | None = None
        self._cache = _Cache()
        self._pending: list[Dataset] = []
        self._collected: dict[int, Dataset] = {}
        self._epoch: Dataset | None = None
        self._seen = 0
        self._sinks: list[dict[str, float]] = []

    def add(
        self, examples: Sequence[Example], compile_: Compile, fingerprint: Fingerprint, losses: dict[str, float]
    ) -> None:
        """Take in a batch; `losses` is filled when the optimizer has worked on it."""
        if self._optimizer.online:
            self._pending += self._cache.get(examples, compile_, fingerprint)
            self.n_total = max(self.n_total, self._cache.n_sequences)
        else:
            if self._epoch is None:
                self._collect(examples, compile_, fingerprint)
            self._seen += len(examples)
        self.initial = None
        self._sinks.append(losses)

    def _collect(self, examples: Sequence[Example], compile_: Compile, fingerprint: Fingerprint) -> None:
        again = any(id(example.reference) in self._collected for example in examples)
        compiled = self._cache.get(examples, compile_, fingerprint)
        self._collected.update((id(eg.reference), data) for eg, data in zip(examples, compiled, strict=True))
        if again or (self._n_examples and len(self._collected) >= self._n_examples):
            self._n_examples = len(self._collected)
            self._seen = self._n_examples  # the first iteration is due
            self._epoch = join(list(self._collected.values()))
            self._collected, self._cache = {}, _Cache()

    def work(self, objective_on: Callable[[Dataset], CRFObjective], theta: Floats, name: str, iterations: int) -> None:
        """Let the optimizer work on what has come in; `theta` is where a new run begins."""
        data = self._due()
        if data is not None:
            if self._state is None:
                self._state = self._optimizer.start(theta)
            objective = objective_on(data)
            for _ in range(iterations):
                self._report = self._optimizer.iterate(objective, self._state)
                if self._report.converged and not self._optimizer.online:
                    break
            self.stale = True
            self._last_loss = self._report.loss / max(1, data.encoded.n_tokens) if self._report else 0.0
        if self._report is not None:
            for losses in self._sinks:
                losses[name] = losses.get(name, 0.0) + self._last_loss / len(self._sinks)
        self._sinks = []

    def _due(self) -> Dataset | None:
        """Return the data the optimizer should work on now, if any."""
        if self._optimizer.online:
            pending, self._pending = self._pending, []
            return join(pending) if pending else None
        done = self._report is not None and self._report.converged
        if self._epoch is None or self._seen < self._n_examples or done:
            return None
        self._seen = 0
        return self._epoch

    def export(self, theta: Floats) -> None:
        """Write the optimizer's current parameters to `theta` [D]."""
        self._optimizer.export(self._state, theta)
        self.stale = False


class _Cache:
    """Compiled examples by the identity of their reference Docs, which are held so that it stays theirs."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Doc, int, Dataset]] = {}
        self._tokens = 0
        self.n_sequences = 0

    def get(self, examples: Sequence[Example], compile_: Compile, fingerprint: Fingerprint) -> list[Dataset]:
        """Return the data sets of `examples`, compiling those that are unknown or whose inputs have changed."""
        prints = [fingerprint(example.predicted) for example in examples]
        keys = [id(example.reference) for example in examples]
        known = {key for key, mark in zip(keys, prints, strict=True) if self._mark(key) == mark}
        unknown = [i for i, key in enumerate(keys) if key not in known]
        compiled = dict(zip(unknown, compile_([examples[i] for i in unknown]), strict=True)) if unknown else {}
        found = [compiled[i] if i in compiled else self._entries[key][2] for i, key in enumerate(keys)]
        for i, data in compiled.items():
            self._remember(examples[i].reference, prints[i], data)
        return found

    def _mark(self, key: int) -> int | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def _remember(self, reference: Doc, mark: int, data: Dataset) -> None:
        if self._tokens > MAX_CACHED_TOKENS:
            self._entries, self._tokens = {}, 0
        self._tokens += data.encoded.n_tokens
        if id(reference) not in self._entries:
            self.n_sequences += data.n_sequences
        self._entries[id(reference)] = (reference, mark, data)
