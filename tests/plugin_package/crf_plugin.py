"""Plug-ins of another package by its entry points alone: a loss, a function of a word, a potential and an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.types import Batch, BatchObjective, Floats, Offsets, Scores, StepReport


@dataclass(frozen=True)
class ScaledLog:
    """The log-loss times a factor."""

    factor: float = 2.0

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        return SequentialLog()(scores, batch._replace(weights=batch.weights * self.factor), grad)


@dataclass(frozen=True)
class Vowels:
    """The number of vowels of a word, None where there are none."""

    vowels: str = "aeiou"

    def __call__(self, text: str) -> str | None:
        return str(sum(text.lower().count(vowel) for vowel in self.vowels) or "") or None


@dataclass(frozen=True)
class Capital:
    """A weight per label [L] for words that begin with a capital letter."""

    factor: float = 3.0

    def read(self, docs: Sequence[Any]) -> Floats:
        return np.array([self.factor * token.is_title for doc in docs for token in doc], np.float32)

    def size(self, n_labels: int) -> int:
        return n_labels

    def forward(
        self, theta: Floats, inputs: Floats, offsets: Offsets, n_labels: int
    ) -> tuple[Scores, Callable[[Scores], Floats]]:
        values, nothing = inputs.astype(theta.dtype), np.zeros(n_labels, theta.dtype)
        scores = Scores(np.outer(values, theta), np.zeros((1, n_labels, n_labels), theta.dtype), nothing, nothing)
        return scores, lambda gradient: values @ gradient.emissions


@dataclass
class Run:
    """A run in progress: parameters [D], and the length of the next step."""

    theta: Floats
    step: float
    iterations: int = 0


@dataclass(frozen=True)
class GradientDescent:
    """Steps against the gradient, halved where the objective would rise."""

    step: float = 0.5
    max_iterations: int = 300
    requires: frozenset[str] = field(default=frozenset({"value_and_grad"}), init=False, repr=False)
    penalties: frozenset[str] = field(default=frozenset({"smooth"}), init=False, repr=False)
    online: bool = field(default=False, init=False, repr=False)

    def start(self, theta: Floats) -> Run:
        return Run(theta.copy(), self.step)

    def iterate(self, objective: BatchObjective, state: Run) -> StepReport:
        value, loss, gradient = objective.value_and_grad(state.theta)
        norm = float(np.linalg.norm(gradient))
        done = state.iterations >= self.max_iterations or norm < 1e-3
        while not done and objective.value(state.theta - state.step * gradient) > value:
            state.step /= 2
        if not done:
            state.theta = state.theta - np.float32(state.step) * gradient
            state.iterations += 1
        return StepReport(value, loss, norm, 1, done, "it came to its end" if done else "")

    def export(self, state: Run) -> Floats:
        return state.theta
