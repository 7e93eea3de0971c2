"""Parts of a corpus for cross-validation: each is held out once, while a model is trained on the others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..errors import ConfigError, DataError
from ..types import Offsets

LEAST = 2


def folds(keys: Sequence[Hashable], k: int, seed: int = 0) -> list[Offsets]:
    """Return the numbers of the documents in each of k folds, ascending: shuffled, of about the same size.

    keys: One for each document.  Documents with the same key, such as copies of a text, are in one fold: a model
        must not have seen what it is asked about.
    RAISES ConfigError: If k is less than 2.
    RAISES DataError: If there are fewer different documents than folds.
    """
    if k < LEAST:
        raise ConfigError(f"--cross-validate {k}: give a number of folds from {LEAST} on; 5 and 10 are usual.")
    groups: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    if len(groups) < k:
        raise DataError(f"--cross-validate {k}: the training corpus has only {len(groups)} different documents.")
    order = np.random.default_rng(seed).permutation(len(groups))
    found: list[list[int]] = [[] for _ in range(k)]
    each = list(groups.values())
    for group in sorted((each[i] for i in order), key=len, reverse=True):  # each to the smallest fold so far
        min(found, key=len).extend(group)
    return [np.array(sorted(numbers), np.int64) for numbers in found]
