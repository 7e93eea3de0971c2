"""Splits a corpus into folds for cross-validation; each fold is held out once while the others are trained on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..errors import ConfigError, DataError
from ..types import Offsets


def folds(keys: Sequence[Hashable], k: int, seed: int = 0) -> list[Offsets]:
    """Return the document numbers of each of k folds, in ascending order.

    Documents are shuffled, and folds have about the same number of them.
    keys: One for each document.  Documents with equal keys, such as copies of a text, share a fold, so that no model is
        tested on a text that it was trained on.
    RAISES ConfigError: If k is less than 2.
    RAISES DataError: If there are fewer different documents than folds.
    """
    if k < 2:
        raise ConfigError(f"--cross-validate {k}: give a number of folds from 2 on; 5 and 10 are usual.")
    groups: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    if len(groups) < k:
        raise DataError(f"--cross-validate {k}: the training corpus has only {len(groups)} different documents.")
    order = np.random.default_rng(seed).permutation(len(groups))
    found: list[list[int]] = [[] for _ in range(k)]
    each = list(groups.values())
    for group in sorted((each[i] for i in order), key=len, reverse=True):  # each into the smallest fold so far
        min(found, key=len).extend(group)
    return [np.array(sorted(numbers), np.int64) for numbers in found]
