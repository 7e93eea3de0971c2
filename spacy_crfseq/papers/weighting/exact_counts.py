"""Weights by the counts of observations that repeat.

Sokolovska (2010), "Contributions to the estimation of probabilistic discriminative models", (4.18): the weight of text
i is q(X_i) / #{j: X_j = X_i}, where q is the distribution of observations in the target.  The same weights make an
estimator consistent under covariate shift (Proposition 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError, suggest
from ...types import Weights
from .shared import Texts, by_class, check_shared, check_texts, length_class, normalised


def _shape(text: Sequence[str]) -> Hashable:
    tests: tuple[Callable[[str], bool], ...] = (str.isupper, str.istitle, lambda word: any(map(str.isdigit, word)))
    shares = (sum(map(test, text)) * 3 // max(1, len(text)) for test in tests)
    return length_class(text), *shares


OBSERVATIONS: dict[str, tuple[Callable[[Sequence[str]], Hashable], str]] = {
    "text": (tuple, "texts"),
    "length": (length_class, "classes of length"),
    "shape": (_shape, "shapes"),
}
"""For each kind of observation, how it is made of a text, and its name in messages."""


@dataclass(frozen=True)
class ExactCounts:
    """Weights by counts of equal observations (registered as ``spacy_crfseq.ExactCounts.v1``).

    A labelled text gets the share of its observation in the target, divided by that in the labelled texts.  Texts whose
    observation the target lacks get weight 0.

    observation (str): What is counted.  "text" is the sequence of words, useful only where texts repeat.  "length" is a
        class of the number of tokens, with two classes for each doubling.  "shape" is this class and, in thirds, the
        shares of words in capitals, with an initial capital, and with digits.
    flatten (float): Power to which weights are raised: 1 leaves them, 0 makes them equal (Shimodaira's lambda).
    cap (float): Largest weight before the last normalisation, as a multiple of the mean; 0 is none.
    RAISES ConfigError: On a setting out of range.
    RAISES DataError: If no observation is on both sides.
    """

    observation: str = "text"
    flatten: float = 1.0
    cap: float = 0.0

    def __post_init__(self) -> None:
        check_shared("ExactCounts", self.flatten, self.cap)
        if self.observation not in OBSERVATIONS:
            raise ConfigError(f"ExactCounts: observation: {suggest(self.observation, OBSERVATIONS)}")

    def __call__(self, labelled: Texts, target: Texts) -> Weights:
        check_texts(labelled, target)
        make, what = OBSERVATIONS[self.observation]
        numbers: dict[Hashable, int] = {}
        of_labelled, of_target = (
            np.array([numbers.setdefault(make(text), len(numbers)) for text in texts]) for texts in (labelled, target)
        )
        ratio, note = by_class(of_labelled, of_target, what)
        return normalised(ratio, self.flatten, self.cap, note)
