"""The one compile policy of the package.

Kernels are compiled lazily, once per set of argument types, and cached on disk beside the source, in
``NUMBA_CACHE_DIR`` or in the user's cache folder, until a file of this folder changes.  ``fastmath`` leaves out the
flags that assume there are no infinities and no NaNs: masked labels have a score of minus infinity.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding
import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils, types

Function = TypeVar("Function", bound=Callable[..., Any])

FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def _vector_bytes() -> int:
    """Return the length of the processor's vectors in bytes, 32 where nothing better is known."""
    try:
        return 64 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 32
    except RuntimeError:  # LLVM cannot tell
        return 32


VECTOR_BYTES = _vector_bytes()
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "no_cfunc_wrapper": True}

_warned = False


def _digest() -> str:
    """Return a hash of all files of this folder: a kernel holds the code of the kernels of other files it calls."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


FOLDER_STAMP = _digest()


def kernel(function: Function) -> Function:
    """Compile `function` with numba, cached where a folder can be written and uncached (with one warning) elsewhere."""
    try:
        compiled: Function = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # numba found no place for its cache: read-only install and no home
        _warn_once()
        return cast(Function, numba.njit(**OPTIONS)(function))
    # numba stamps a cached kernel with the file of the kernel alone.  These attributes are private; in a version of
    # numba without them a kernel stays cached when a callee in another file changes, which only developers do.
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = (index._source_stamp, FOLDER_STAMP)
    return compiled


def inlined(function: Function) -> Function:
    """Make `function` a part of the machine code of each kernel that calls it.

    LLVM inlines it.  Where numba does so before it compiles (``inline="always"``), arguments that are arrays become
    variables, whose references are counted at each call: 5 to 15 percent of the time of whole kernels.
    """
    part: Function = numba.njit(forceinline=True, **OPTIONS)(function)
    return part


def intrinsic(function: Callable[..., Any]) -> Any:
    """Let `function` write the LLVM code of a call: for the few loops whose sums must stay in vector registers.

    It takes numba's typing context and the types of the arguments, and returns a signature and a code generator.
    """
    return numba.extending.intrinsic(function)


def fetch(builder: Any, pointer: Any) -> None:
    """Write the instruction that asks for the cache line of a pointer, which may lie outside of its array."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    read, keep, data = number(0), number(3), number(1)
    builder.call(function, [builder.bitcast(pointer, byte), read, keep, data])


@intrinsic
def prefetch(typing_context: Any, array: Any, i: Any, j: Any) -> Any:
    """Ask for the cache line of ``array[i, j]``, j being 0 for an array of one dimension.

    Many small reads from large tables spend most of their time waiting; asking some tokens ahead makes them overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        struct = context.make_array(kind)(context, builder, arguments[0])
        indices = [
            context.cast(builder, value, given, types.intp)
            for value, given in zip(arguments[1:], signature.args[1:], strict=True)
        ][: kind.ndim]
        pointer = cgutils.get_item_pointer(context, builder, kind, struct, indices, wraparound=False)
        fetch(builder, pointer)

    return types.void(array, i, j), generate


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        message = (
            "spacy_crfseq: numba found no writable folder for its cache, so kernels are compiled anew in every "
            "process (a few seconds). Set NUMBA_CACHE_DIR to a writable folder to avoid this."
        )
        warnings.warn(message, UserWarning, stacklevel=4)
