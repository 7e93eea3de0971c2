"""Compiled loops over arrays: with those of `papers` and `tools`, the only modules that import numba.

A kernel takes C-contiguous arrays, tuples of them and plain numbers, allocates nothing that grows with the corpus,
releases the GIL and knows nothing of Docs, templates or plug-ins.  Kernels may call kernels of other files: a change of
a file makes numba compile again what imports it.

Others write ``kernels.rows.add_ragged(...)``: a file of kernels is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (  # noqa: F401
        blocks,
        chain,
        covariances,
        gather,
        hashing,
        kbest,
        lattice,
        lockstep,
        penalties,
        phrases,
        rows,
        updates,
        values,
        vectors,
        viterbi,
    )  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f".{name}", __name__)
