"""The random numbers of optimizers: which seed they use, and what a seed may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import Optimizer

LARGEST = 2**32 - 1
"""The largest seed of spaCy, whose own random numbers use the same one."""


def generator(seed: int | None) -> np.random.Generator:
    """Return the random numbers of a seed, those of seed 0 for None."""
    return np.random.default_rng(seed or 0)


def check_seed(name: str, seed: int | None) -> None:
    """RAISES ConfigError: If a seed is not between 0 and `LARGEST`; name: Of the setting or its block."""
    if seed is not None and not 0 <= seed <= LARGEST:
        raise ConfigError(f"{name}: the seed must be between 0 and {LARGEST}, but {seed} was given.")


def seeded(optimizer: Optimizer, seed: int | None) -> Optimizer:
    """Return an optimizer that uses `seed`, unless its own settings have one or it draws no random numbers."""
    if seed is None or getattr(optimizer, "seed", 0) is not None:
        return optimizer
    check_seed("training.seed", seed)
    dataclass: Any = optimizer
    changed: Optimizer = replace(dataclass, seed=seed)
    return changed
