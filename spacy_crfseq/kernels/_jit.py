"""The one compile policy of the package.

Kernels are compiled lazily, once per set of argument types, and cached on disk: in ``NUMBA_CACHE_DIR``, beside the
source or in the user's cache folder, whichever is set or can be written first.  They stay valid until
their file or one that it imports changes, on processors with the same features.  ``fastmath`` leaves out the flags
that assume there are no infinities and no NaNs: masked labels have a score of minus infinity.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar, cast
from uuid import uuid4

if os.environ.get("NO_COLOR"):  # numba knows a name of its own, else it makes colorama write codes to terminals
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import llvmlite.binding
import numba
import numba.extending
from llvmlite import ir
from numba.core import caching, cgutils, event, types

Function = TypeVar("Function", bound=Callable[..., Any])

FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def _vector_bytes() -> int:
    """Return the length in bytes of the vectors of the processor that numba compiles for, 32 where it is unknown."""
    features: str | None = getattr(numba.config, "CPU_FEATURES", None)
    if features is not None:  # set by NUMBA_CPU_FEATURES, or by NUMBA_CPU_NAME=generic
        return 64 if "+avx512f" in features else 32
    try:
        return 64 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 32
    except RuntimeError:  # LLVM cannot tell
        return 32


VECTOR_BYTES = _vector_bytes()
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "no_cfunc_wrapper": True}

NOTICE_AFTER = 2.0
"""Seconds of compilation in one process after which a notice says why it takes so long."""
logger = logging.getLogger("spacy_crfseq")
_folders: set[str] = set()


@cache
def _stamp(module: str) -> str:
    """Return a hash of a file of this folder and of those it imports: a kernel holds the code of those it calls."""
    file = Path(__file__).with_name(f"{module}.py")
    if not file.exists():  # a kernel from elsewhere
        return ""
    found = hashlib.sha256(file.read_bytes())
    for of, names in re.findall(r"^from \.(\w*) import ([\w, ]*)", file.read_text("utf8"), re.MULTILINE):
        for name in [of] if of else [each.split()[0] for each in names.split(",")]:
            found.update(_stamp(name).encode())
    return found.hexdigest()


def kernel(function: Function) -> Function:
    """Compile `function` with numba, cached in a folder that can be written or at least read, uncached elsewhere."""
    compiled: Any
    try:
        compiled = numba.njit(cache=True, **OPTIONS)(function)
        _folders.add(compiled.stats.cache_path)
    except RuntimeError:  # no folder can be written
        compiled = _read_only(function)
    # These attributes are private.  In a version of numba without them, a kernel stays cached when a callee in another
    # file changes, which only developers do, and a full disk is an error.
    own = getattr(compiled, "_cache", None)
    index: Any = getattr(own, "_cache_file", None)
    if own is not None and hasattr(index, "_source_stamp"):  # numba stamps it with the file of the kernel alone
        index._source_stamp = (index._source_stamp, _stamp(function.__module__.rpartition(".")[2]))
        own.save_overload = partial(_save, own.save_overload, index)
    return cast(Function, compiled)


def _read_only(function: Callable[..., Any]) -> Any:
    """Compile `function` with a cache that can only be read, such as one in an image, uncached if there is none."""
    locator: Any = getattr(caching, "_CacheLocator", None)
    ensure = getattr(locator, "ensure_cache_path", None)
    try:
        if ensure is not None:  # numba takes folders only where it can write
            locator.ensure_cache_path = lambda self: os.scandir(self.get_cache_path()).close()
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:
        return numba.njit(**OPTIONS)(function)
    finally:
        if ensure is not None:
            locator.ensure_cache_path = ensure


def _save(save: Callable[..., None], index: Any, *compiled: Any) -> None:
    """Keep a compiled kernel, unless the disk is full or cannot be written.

    numba numbers the files of a kernel by what its index holds.  Processes that read the index at the same time would
    give one name to two files, and one of them would later be loaded in the place of the other.
    """
    stem = index._index_name.removesuffix(".nbi")
    index._data_name_pattern = f"{stem}.{uuid4().hex}-{{number:d}}.nbc"
    with suppress(OSError):
        save(*compiled)


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


class Notice(event.Listener):
    """Logs once in a process that kernels are being compiled, when that has taken a noticeable time.

    silent (bool): Say nothing (any more).
    """

    def __init__(self) -> None:
        self.silent = False
        self._spent, self._began, self._depth = 0.0, 0.0, 0

    def on_start(self, event: Any) -> None:
        """Take note of a compilation that begins, perhaps inside of another one."""
        self._began = self._began if self._depth else perf_counter()
        self._depth += 1
        ours = event.data["dispatcher"].py_func.__module__.startswith("spacy_crfseq.")
        if ours and not self.silent and self._spent + perf_counter() - self._began >= NOTICE_AFTER:
            self.silent = True
            folder = next(iter(_folders), None)
            kept = f"Later processes find them in {folder}" if folder else "No folder can be written to keep them"
            logger.warning(
                "spacy_crfseq compiles its kernels, which takes up to a minute. %s; NUMBA_CACHE_DIR names another "
                "folder. To compile ahead of time, run: python -m spacy crfseq warmup",
                kept,
            )

    def on_end(self, event: Any) -> None:
        """Take note of a compilation that ends."""
        self._depth -= 1
        self._spent += 0.0 if self._depth else perf_counter() - self._began


NOTICE = Notice()
event.register("numba:compile", NOTICE)
