"""Sentences of a development corpus that are in the training corpus, too: scores on them say nothing of other texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COMPARED = 5
"""Tokens; shorter sentences are the same, and annotated differently, for good reasons."""
LEAK, MOST = 0.01, 0.5
"""Shares of development sentences in the training part from which scores are unreliable, and are of known texts."""


class Leak(NamedTuple):
    """How many development sentences of `COMPARED` tokens or more, `compared` in all, are training sentences, too."""

    same: int
    compared: int

    @property
    def share(self) -> float:
        """Their share, 0 if none were compared."""
        return self.same / max(1, self.compared)

    @property
    def matters(self) -> bool:
        """Whether scores are unreliable."""
        return self.share > LEAK

    def __str__(self) -> str:
        text = f"{self.same:,} of {self.compared:,} dev sentences of {COMPARED} tokens or more are in train, too"
        if not self.matters:
            return text
        cure = "Take them out of one, unless the parts are to stay as published."
        return f"{text} ({100 * self.share:.1f} %): scores may be too good. {cure}"


def sentence_keys(sentences: Iterable[Sequence[str]]) -> NDArray[np.int64]:
    """Return the keys of the sentences of `COMPARED` words or more."""
    return np.fromiter((key_of(words) for words in sentences if len(words) >= COMPARED), np.int64)


def key_of(words: Sequence[str]) -> int:
    """Return a number that is the same for the same words in one process; words of spaces make no difference."""
    return hash(tuple(word for word in words if not word.isspace()))


def leak(train: NDArray[np.int64], dev: NDArray[np.int64]) -> Leak:
    """Compare the keys of the sentences of two parts."""
    return Leak(int(np.isin(dev, train).sum()), len(dev))
