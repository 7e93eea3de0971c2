"""Compiled loops over arrays: with those of `papers` and `tools`, the only modules that import numba.

A kernel takes C-contiguous arrays, tuples of them and plain numbers, allocates nothing that grows with the corpus,
releases the GIL and knows nothing of Docs, templates or plug-ins.  Kernels may call kernels of other files: a change of
the code of a function makes numba compile again what calls it.

Docstrings of kernels give the shape of each array, which `tests/shapes.py` checks, except that these names
always mean offsets [N + 1], gold [T], log_z [N], left [N], ptr [T + 1], row_ptr [R + 1], cols [ptr[R]], x [D], y [D].

Others write ``kernels.rows.add_ragged(...)``: a file of kernels is imported at its first use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (  # noqa: F401
        borders,
        chain,
        contexts,
        hashing,
        lattice,
        lockstep,
        occurrences,
        paths,
        rows,
        spans,
        updates,
        vectors,
    )

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Whether Python runs all kernels, slowly, so that a debugger can step through them: the variable is numba's own."""
PLAIN = UNCOMPILED or bool(os.environ.get("SPACY_CRFSEQ_PLAIN_NUMBA"))
"""Whether numba is used only as its documentation describes it: nothing private to it, and no code for LLVM.

For versions of numba in which something else has changed.  Training takes up to three times as long, compiling twice.
"""


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f".{name}", __name__)
