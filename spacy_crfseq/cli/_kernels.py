"""What numba has compiled and where it keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def cache_counts() -> tuple[int, int]:
    """Return how many versions of kernels this process has compiled, and how many loaded from the cache."""
    stats = _stats()
    return sum(sum(stat.cache_misses.values()) for stat in stats), sum(sum(stat.cache_hits.values()) for stat in stats)


def cache_folder() -> str | None:
    """Return the folder that keeps compiled kernels, None where none can be written."""
    return next((str(stat.cache_path) for stat in _stats() if stat.cache_path), None)


def is_cold() -> bool:
    """Whether nothing has been compiled for this machine yet."""
    folder = cache_folder()
    return folder is None or not any(Path(folder).glob("*.nbi"))


def _stats() -> list[Any]:
    from ..kernels import blocks, chain, gather, hashing, kbest, lattice, local, rows, updates, vectors, viterbi

    modules = (blocks, chain, gather, hashing, kbest, lattice, local, rows, updates, vectors, viterbi)
    kernels = {id(kernel): kernel for module in modules for kernel in vars(module).values()}  # some in several modules
    return [kernel.stats for kernel in kernels.values() if hasattr(kernel, "stats")]
