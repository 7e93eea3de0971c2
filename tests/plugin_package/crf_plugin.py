"""What another package adds by its entry points alone: a loss, a function of a word and an optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.types import Batch, Floats, Objective, Scores, StepReport


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
    needs: frozenset[str] = field(default=frozenset({"value_and_grad"}), init=False, repr=False)
    penalties: frozenset[str] = field(default=frozenset({"smooth"}), init=False, repr=False)
    online: bool = field(default=False, init=False, repr=False)

    def start(self, theta: Floats) -> Run:
        return Run(theta.copy(), self.step)

    def iterate(self, objective: Objective, state: Run) -> StepReport:
        value, loss, gradient = objective.value_and_grad(state.theta)
        norm = float(np.linalg.norm(gradient))
        done = state.iterations >= self.max_iterations or norm < 1e-3
        while not done and objective.value(state.theta - state.step * gradient) > value:
            state.step /= 2
        if not done:
            state.theta = state.theta - np.float32(state.step) * gradient
            state.iterations += 1
        return StepReport(value, loss, norm, 1, done, "it came to its end" if done else "")

    def export(self, state: Run, theta: Floats) -> None:
        theta[:] = state.theta
