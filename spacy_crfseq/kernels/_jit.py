"""The one compile policy of the package.

Kernels are compiled lazily, once per set of argument types, and cached on disk beside the source, in
``NUMBA_CACHE_DIR`` or in the user's cache folder.  ``fastmath`` leaves out the flags that assume there are no
infinities and no NaNs: masked labels have a score of minus infinity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])

FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}

_warned = False


def kernel(function: Function) -> Function:
    """Compile `function` with numba, cached where a folder can be written and uncached (with one warning) elsewhere."""
    try:
        compiled: Function = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # numba found no place for its cache: read-only install and no home
        _warn_once()
        compiled = numba.njit(**OPTIONS)(function)
    return compiled


def intrinsic(function: Callable[..., Any]) -> Any:
    """Let `function` write the LLVM code of a call: for the few loops whose sums must stay in vector registers.

    It takes numba's typing context and the types of the arguments, and returns a signature and a code generator.
    """
    return numba.extending.intrinsic(function)


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        message = (
            "spacy_crfseq: numba found no writable folder for its cache, so kernels are compiled anew in every "
            "process (a few seconds). Set NUMBA_CACHE_DIR to a writable folder to avoid this."
        )
        warnings.warn(message, UserWarning, stacklevel=4)
