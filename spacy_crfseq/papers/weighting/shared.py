"""What weightings share: bags of words, weights from counts, the last steps that make any ratio a weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, DataError
from ...types import Weights

Texts = Sequence[Sequence[str]]
_DIGIT = partial(re.compile(r"\d").sub, "0")


class Bags(NamedTuple):
    """Texts as counts of words: text ``texts[i]`` has word ``words[i]`` ``counts[i]`` times, for each entry i.

    texts, words (NDArray): [M] numbers of texts, ascending, and of words.
    counts (NDArray): [M] float64.
    n_texts, n_words (int): How many there are; a text without words has no entry.
    """

    texts: NDArray[np.int64]
    words: NDArray[np.int64]
    counts: NDArray[np.float64]
    n_texts: int
    n_words: int

    def of(self, chosen: NDArray[np.bool_]) -> Bags:
        """Return the chosen texts [N], renumbered."""
        entries, numbers = chosen[self.texts], np.cumsum(chosen) - 1
        texts = numbers[self.texts[entries]]
        return Bags(texts, self.words[entries], self.counts[entries], int(chosen.sum()), self.n_words)

    def per_text(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums [N] over each text of a value [M] for each entry."""
        return np.bincount(self.texts, values, self.n_texts).astype(np.float64, copy=False)  # whole numbers if M = 0

    def per_word(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums [words] over each word of a value [M] for each entry."""
        return np.bincount(self.words, values, self.n_words).astype(np.float64, copy=False)


def make_bags(texts: Texts) -> Bags:
    """Count the words of texts, in lower case and with 0 for each digit."""
    numbers: dict[str, int] = {}
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    words = (numbers.setdefault(_DIGIT(word.lower()), len(numbers)) for word in chain.from_iterable(texts))
    tokens = np.fromiter(words, np.int64, int(sizes.sum()))
    cells = np.repeat(np.arange(len(texts)), sizes) * max(1, len(numbers)) + tokens
    cells, counts = np.unique(cells, return_counts=True)
    place, word = np.divmod(cells, max(1, len(numbers)))
    return Bags(place, word, counts.astype(np.float64), len(texts), len(numbers))


def length_class(text: Sequence[str]) -> int:
    """Return the class of a text's length: 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, 16-22, 23-31 tokens and so on.

    From 4 tokens on, there are two classes for each doubling.
    """
    return len(text) if len(text) < 4 else int(2 * np.log2(len(text)))


def check_shared(name: str, flatten: float, cap: float) -> None:
    """Raise ConfigError on a setting out of range."""
    if not 0 <= flatten <= 1:
        raise ConfigError(f"{name}: flatten must be from 0 (equal weights) to 1 (full weights).")
    if not (cap == 0 or cap > 1):
        raise ConfigError(f"{name}: cap must be 0 (none) or more than 1, the mean of the weights.")


def check_texts(labelled: Texts, target: Texts) -> None:
    """Raise DataError where there is nothing to compare."""
    for texts, what in ((labelled, "labelled texts"), (target, "texts of the target")):
        if not len(texts):
            raise DataError(f"Weights compare labelled texts with those of a target, but there are no {what}.")


def normalised(ratio: NDArray[np.float64], flatten: float, cap: float, note: str) -> Weights:
    """Return a ratio [N] of densities as weights: to the power of `flatten`, at most `cap` times their mean, mean 1.

    RAISES DataError: If all are 0.
    """
    if not ratio.any():
        raise DataError(
            f"All weights are 0: {note}. Compare what repeats, such as clusters, or ExactCounts with observation = "
            '"length" or "shape".'
        )
    values = np.where(ratio > 0, ratio, 0.0) ** flatten * (ratio > 0)
    values /= values.mean()
    if cap:
        values = np.minimum(values, cap)
        values /= values.mean()
    return Weights(values, note)


def by_class(labelled: NDArray[np.int64], target: NDArray[np.int64], what: str) -> tuple[NDArray[np.float64], str]:
    """Return q(c) / p(c) for the class c of each labelled text [N]: (4.18) of Sokolovska (2010), times N.

    labelled, target (NDArray): Classes of labelled texts [N] and of the target's.
    RETURNS: The ratios, and a note on classes that only one side has.
    """
    n_classes = int(max(labelled.max(), target.max())) + 1
    p, q = (np.bincount(side, minlength=n_classes) / len(side) for side in (labelled, target))
    ratio = q[labelled] / p[labelled]
    note = f"{np.count_nonzero(p):,} {what} of labelled texts"
    if alone := float(q[p == 0].sum()):
        note += f"; {alone:.1%} of the target have {what} that no labelled text has"
    if zeros := float((ratio == 0).mean()):
        note += f"; {zeros:.1%} of the labelled texts have {what} that the target lacks, and weight 0"
    return ratio, note
