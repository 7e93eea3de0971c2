"""A hidden Markov model whose sequences are the synthetic data of Sokolovska (2010), section 7.3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class HiddenMarkov(NamedTuple):
    """A hidden Markov model: K labels, S symbols.

    start (NDArray): [K] probabilities of the first label.
    step (NDArray): [K, K] of the next label, given the one before.
    emit (NDArray): [K, S] of the symbol, given the label.
    """

    start: NDArray[np.float64]
    step: NDArray[np.float64]
    emit: NDArray[np.float64]

    def sample(self, rng: np.random.Generator, count: int, length: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return labels and symbols [count, length]."""
        labels = np.empty((count, length), np.int64)
        labels[:, 0] = _draw(rng, np.broadcast_to(self.start, (count, len(self.start))))
        for t in range(1, length):
            labels[:, t] = _draw(rng, self.step[labels[:, t - 1]])
        symbols = _draw(rng, self.emit[labels.ravel()]).reshape(labels.shape)
        return labels, symbols

    def best_labels(self, symbols: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable label of each position [count, length]: no method has a lower error on average."""
        evidence = self.emit.T[symbols]
        forward = np.empty_like(evidence)
        forward[:, 0] = self.start * evidence[:, 0]
        for t in range(1, symbols.shape[1]):
            forward[:, t] = (forward[:, t - 1] @ self.step) * evidence[:, t]
        backward = np.ones_like(evidence)
        for t in range(symbols.shape[1] - 2, -1, -1):
            backward[:, t] = (evidence[:, t + 1] * backward[:, t + 1]) @ self.step.T
        best: NDArray[Any] = (forward * backward).argmax(axis=2)
        return best


def _draw(rng: np.random.Generator, probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return one draw from each row of probabilities."""
    drawn_at = rng.random(len(probabilities))[:, None]
    picks: NDArray[Any] = (probabilities.cumsum(axis=1) < drawn_at).sum(axis=1)
    return np.minimum(picks, probabilities.shape[1] - 1)


def make_hmm(labels: int, symbols: int, strong: float, clear: float) -> HiddenMarkov:
    """Return a model where a label emits a symbol of its own, and only two transitions are not uniform.

    strong (float): Probability of the last label but one after the first, and of the last after the second; the others
        share the rest.  The other labels have uniform transitions.
    clear (float): Probability of a label's own symbol; the others share the rest.  Labels beyond the number of symbols
        have the last symbol, too: only the two transitions distinguish them.
    """
    step = np.full((labels, labels), 1 / labels)
    step[:2] = (1 - strong) / (labels - 1)
    step[[0, 1], [labels - 2, labels - 1]] = strong
    emit = np.full((labels, symbols), (1 - clear) / (symbols - 1))
    emit[np.arange(labels), np.minimum(np.arange(labels), symbols - 1)] = clear
    return HiddenMarkov(np.full(labels, 1 / labels), step, emit)


def as_texts(labels: NDArray[Any], symbols: NDArray[Any]) -> list[tuple[list[str], list[str]]]:
    """Return sequences as symbols and labels, both named by letters."""
    return [
        ([LETTERS[symbol] for symbol in row], [LETTERS[label].upper() for label in gold])
        for gold, row in zip(labels, symbols, strict=True)
    ]
