"""The one compile policy of the package: what numba makes of kernels; `jit` imports it when one has to be compiled.

Kernels are compiled lazily, once per set of argument types, and kept on disk (`_cache`).  ``fastmath`` leaves out the
flags that assume there are no infinities and no NaNs: masked labels have a score of minus infinity.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any

if os.environ.get("NO_COLOR"):  # numba knows a name of its own, else it makes colorama write codes to terminals
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
from numba.core import event

from ..threads import surviving
from . import PLAIN
from ._cache import KernelCache, fingerprint, folder_of

FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
INTERNAL: dict[str, Any] = {}
INLINED: dict[str, Any] = {}
"""Options of all kernels, and what is added for functions that only kernels call."""
INHERITED: dict[str, Any] = {}
"""Options of numba's own functions in kernels."""

if not PLAIN:
    from numba.core import codegen, compiler, compiler_lock, cpu
    from numba.core.target_extension import CPU, jit_registry
    from numba.core.targetconfig import ConfigStack

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

    class _Inherited(compiler.Flags):
        """The options that numba's own functions, such as np.zeros, get from kernels.

        numba compiles a function once for a set of options.  Here that is one object for all kernels, which a
        dictionary finds by its address: numba compares 30 options each time, some thousand times for a kernel.
        """

        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    _inherited = _Inherited()
    # loops in float64 take 8 percent longer where LLVM leaves some calls of numba's own functions
    INHERITED.update(OPTIONS, forceinline=True)
    cpu.CPUTargetOptions.parse_as_flags(_inherited, INHERITED)

    class _KernelFlags(compiler.Flags):
        """The options of a kernel, which only numba's own functions get in part."""

        def copy(self) -> _Inherited:
            return _inherited

    class _KernelCompiler(compiler.Compiler):
        """numba's compiler, for kernels."""

        def __init__(
            self, typing: Any, target: Any, library: Any, args: Any, returned: Any, flags: Any, variables: Any
        ) -> None:
            super().__init__(typing, target, library, args, returned, _KernelFlags(flags), variables)

    class _InternalCompiler(_KernelCompiler):
        """The same, with a `_Internal` as the library of the function."""

        def define_pipelines(self) -> Any:
            self.state.library = _Internal(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    _jit = jit_registry.pop(CPU)

    def _jit_overload(**options: Any) -> Any:
        """Compile functions of numba's own; those that kernels call are internal, too.

        The first kernel of a process, `covariances`, takes 5.9 seconds of processor time instead of 7.1.
        """
        from_kernel = isinstance(ConfigStack.top_or_none(), _Inherited)
        return _jit(**options | INTERNAL | {"no_cfunc_wrapper": True}) if from_kernel else _jit(**options)

    jit_registry[CPU] = _jit_overload
    OPTIONS.update(no_cfunc_wrapper=True, pipeline_class=_KernelCompiler)  # nobody calls kernels from C
    INTERNAL = {"pipeline_class": _InternalCompiler, "no_cpython_wrapper": True}
    INLINED = {**INTERNAL, "forceinline": True}

NOTICE_AFTER = 2.0
"""Seconds of compilation in one process after which a notice says why it takes so long."""
logger = logging.getLogger("spacy_crfseq")
folders: set[str] = set()
made: list[Any] = []
"""Where compiled kernels are kept, and the kernels of this process, as numba's dispatchers."""


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with numba, cached in a folder that can be written or at least read, uncached elsewhere."""
    compiled: Any
    if PLAIN:  # numba's own cache, in which a kernel stays valid when another file changes
        try:
            compiled = numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder can be written
            compiled = numba.njit(**OPTIONS)(function)
    else:
        compiled = numba.njit(**OPTIONS)(function)
        folder = folder_of(inspect.getfile(function), getattr(numba.config, "CACHE_DIR", ""))
        if folder is not None:
            compiled._cache = KernelCache(function, folder, _policy())
    if compiled.stats.cache_path:
        folders.add(compiled.stats.cache_path)
    made.append(compiled)
    return compiled


@cache
def _policy() -> bytes:
    """Return a hash of how kernels and the functions that they call are compiled."""
    classes = _Internal, _InternalCompiler, _KernelCompiler
    methods = [method for made in classes for method in vars(made).values()]
    functions = [compile_inlined, *filter(inspect.isfunction, methods)]
    inherited = sorted(
        (name, sorted(map(repr, value)) if isinstance(value, set) else value) for name, value in INHERITED.items()
    )
    return b"".join(map(fingerprint, functions)) + repr(inherited).encode()


def compile_internal(function: Callable[..., Any]) -> Any:
    """Compile `function` for kernels that call it."""
    return numba.njit(**OPTIONS | INTERNAL)(function)


def llvm(function: Any) -> Any:
    """Return an intrinsic as it is; compile the function that stands for one where there is to be none."""
    return compile_internal(function) if PLAIN else function


def compile_inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` as a part of the kernels that call it."""
    return numba.njit(**OPTIONS | INLINED)(function)


class Notice(event.TimingListener):
    """Logs once in a process that kernels are being compiled, when that has taken a noticeable time.

    silent (bool): Say nothing (any more).
    """

    silent = False

    def on_start(self, event: Any) -> None:
        """Take note of a compilation that begins, perhaps inside of another one."""
        super().on_start(event)
        ours = event.data["dispatcher"].py_func.__module__.startswith("spacy_crfseq.")
        if ours and not self.silent and self.seconds >= NOTICE_AFTER:
            self.silent = True
            folder = next(iter(folders), None)
            kept = f"Later ones find them in {folder}" if folder else "No folder can be written to keep them"
            logger.warning(
                "spacy_crfseq compiles the kernels that no earlier command has needed, which takes up to a minute. %s; "
                "NUMBA_CACHE_DIR names another folder. To compile all, run: python -m spacy crfseq warmup --all",
                kept,
            )

    @property
    def seconds(self) -> float:
        """The time that this process has spent on compiling so far."""
        return self.duration if self.done else 0.0


NOTICE = Notice()
event.register("numba:compile", NOTICE)
