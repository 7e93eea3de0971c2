"""Compiled loops over arrays: the only room that imports numba.

A kernel takes C-contiguous arrays and plain numbers, allocates nothing that grows with the corpus, releases the GIL
and knows nothing of Docs, templates or plug-ins.  numba keys its cache by the source file of the called function
alone, so a kernel calls only kernels of its own file; a test holds this.

Other rooms write ``kernels.rows.add_fixed(...)``: a file of kernels is imported at its first use, so that what only
loads a model does not wait for numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import chain, gather, hashing, kbest, lattice, rows  # noqa: F401


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f".{name}", __name__)
