"""The one compile policy of the package: what numba makes of kernels; `jit` imports it when one has to be compiled.

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
from importlib.util import find_spec, resolve_name
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from uuid import uuid4

if os.environ.get("NO_COLOR"):  # numba knows a name of its own, else it makes colorama write codes to terminals
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
from numba.core import event

from ..threads import surviving
from . import PLAIN

FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
INTERNAL: dict[str, Any] = {}
INLINED: dict[str, Any] = {}
"""Options of all kernels, and what is added for functions that only kernels call."""

if not PLAIN:
    from numba.core import caching, codegen, compiler, compiler_lock

    surviving(compiler_lock.global_compiler_lock._lock)  # threads may compile while a process forks

    class _Internal(codegen.JITCodeLibrary):
        """The code of a function that only kernels call: LLVM optimizes it, and makes code of it, in these alone.

        The first fit takes 18 seconds of processor time instead of 32.
        """

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        @property
        def codegen(self) -> _Internal:
            return self

        def set_env(self, name: str, env: Any) -> None:
            """Do nothing: kernels set their own environments when they are loaded."""

    class _InternalCompiler(compiler.Compiler):
        """numba's compiler, with a `_Internal` as the library of the function."""

        def define_pipelines(self) -> Any:
            self.state.library = _Internal(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    OPTIONS["no_cfunc_wrapper"] = True  # nobody calls kernels from C
    INTERNAL = {"pipeline_class": _InternalCompiler, "no_cpython_wrapper": True}
    INLINED = {**INTERNAL, "forceinline": True}

ROOT = __package__.partition(".")[0]
IMPORT = re.compile(r"^ *from (\.[\w.]*) import (?:\(([^)]*)\)|([\w, ]*))", re.MULTILINE)
"""Imports of a file from its package."""
NOTICE_AFTER = 2.0
"""Seconds of compilation in one process after which a notice says why it takes so long."""
logger = logging.getLogger("spacy_crfseq")
folders: set[str] = set()
made: list[Any] = []
"""Where compiled kernels are kept, and the kernels of this process, as numba's dispatchers."""


@cache
def _stamp(module: str) -> str:
    """Return a hash of this file and of a module with the kernels that it imports: kernels hold what they call."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not module.startswith(ROOT):  # a kernel from elsewhere
        return ""
    text, package = Path(spec.origin).read_text("utf8"), module.rpartition(".")[0]
    stamp = hashlib.sha256(Path(__file__).read_bytes() + text.encode())
    for place, several, names in re.findall(IMPORT, text):
        base = resolve_name(place, package)
        for name in (several or names).replace("\n", ",").split(","):
            names_of_it = [base, f"{base}.{name.split()[0]}"] if name.split() else [base]
            inside = [each for each in names_of_it if each.rpartition(".")[0] in (package, __package__)]
            stamp.update("".join(_stamp(each) for each in inside if each != module and find_spec(each)).encode())
    return stamp.hexdigest()


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with numba, cached in a folder that can be written or at least read, uncached elsewhere."""
    compiled: Any
    try:
        compiled = numba.njit(cache=True, **OPTIONS)(function)
        folders.add(compiled.stats.cache_path)
    except RuntimeError:  # no folder can be written
        compiled = numba.njit(**OPTIONS)(function) if PLAIN else _read_only(function)
    # In a version of numba without these attributes, a kernel stays cached when a callee in another file changes, which
    # only developers do, and a full disk is an error.
    own = None if PLAIN else getattr(compiled, "_cache", None)
    index: Any = getattr(own, "_cache_file", None)
    if own is not None and hasattr(index, "_source_stamp"):  # numba stamps it with the file of the kernel alone
        index._source_stamp = (index._source_stamp, _stamp(function.__module__))
        index._load_index = partial(_intact, index._load_index, {})
        index._load_data = partial(_intact, index._load_data, None)  # none makes numba compile
        own.save_overload = partial(_save, own.save_overload, index)
    made.append(compiled)
    return compiled


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


def _intact(load: Callable[..., Any], nothing: Any, *name: str) -> Any:
    """Return the content of a file of the cache, or `nothing` if it was cut short, as when a process was killed."""
    try:
        return load(*name)
    except (UnpicklingError, EOFError, ValueError, LookupError, AttributeError, TypeError, ImportError):
        return nothing


def _save(save: Callable[..., None], index: Any, *compiled: Any) -> None:
    """Keep a compiled kernel, unless the disk is full or cannot be written.

    numba numbers the files of a kernel by what its index holds.  Processes that read the index at the same time would
    give one name to two files, and one of them would later be loaded in the place of the other.
    """
    stem = index._index_name.removesuffix(".nbi")
    index._data_name_pattern = f"{stem}.{uuid4().hex}-{{number:d}}.nbc"
    with suppress(OSError):
        save(*compiled)


def compile_internal(function: Callable[..., Any]) -> Any:
    """Compile `function` for kernels that call it."""
    return numba.njit(**INTERNAL, **OPTIONS)(function)


def llvm(function: Any) -> Any:
    """Return an intrinsic as it is; compile the function that stands for one where there is to be none."""
    return compile_internal(function) if PLAIN else function


def compile_inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` as a part of the kernels that call it."""
    return numba.njit(**INLINED, **OPTIONS)(function)


class Notice(event.TimingListener):
    """Logs once in a process that kernels are being compiled, when that has taken a noticeable time.

    silent (bool): Say nothing (any more).
    """

    silent = False

    def on_start(self, event: Any) -> None:
        """Take note of a compilation that begins, perhaps inside of another one."""
        super().on_start(event)
        ours = event.data["dispatcher"].py_func.__module__.startswith("spacy_crfseq.")
        if ours and not self.silent and (self.duration if self.done else 0.0) >= NOTICE_AFTER:
            self.silent = True
            folder = next(iter(folders), None)
            kept = f"Later processes find them in {folder}" if folder else "No folder can be written to keep them"
            logger.warning(
                "spacy_crfseq compiles its kernels, which takes up to a minute. %s; NUMBA_CACHE_DIR names another "
                "folder. To compile ahead of time, run: python -m spacy crfseq warmup --all",
                kept,
            )


NOTICE = Notice()
event.register("numba:compile", NOTICE)
