"""Kernels: functions that numba compiles when they are first needed, or that Python runs while that suffices.

Importing numba and loading the compiled kernels of one label takes half a second and 120 MB, compiling them seconds.
A light kernel does without: Python runs the same function until this process has asked for `STEPS` steps, or `LARGE`
at once, or has imported numba, as any other kernel does.  Results are the same.  The first text then takes 0.28 s and
10 MB instead of 0.49 s and 131 MB.

With ``NUMBA_DISABLE_JIT=1``, Python runs all kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np

from ..threads import surviving
from . import PLAIN, UNCOMPILED

Function = TypeVar("Function", bound=Callable[..., Any])

STEPS, LARGE = 40_000, 400
"""Lengths of the first arguments of light kernels, in all and in one call.  A token takes about a hundred steps, each
some 8 microseconds, so that Python runs for a third of a second at most."""
_left = -1 if PLAIN else STEPS
"""Steps that Python may still run in this process; negative once light kernels are compiled like all others."""
_loading = surviving(RLock())
"""Held while numba is imported: a fork in the middle would leave modules locked in the child."""


def _python_suffices(first: Any) -> bool:
    """Return whether Python may run a light kernel with this first argument, and count its steps."""
    global _left
    while isinstance(first, tuple):
        first = first[0]
    length = len(first) if isinstance(first, np.ndarray) else 0
    # whoever imports numba, such as a server before its first request, wants compiled kernels
    _left = -1 if _left < length or "numba" in sys.modules else _left - length
    return _left >= 0 and length <= LARGE


LIGHT: list[Kernel] = []
"""All light kernels."""


class Kernel:
    """A function that numba compiles when it, or a kernel that calls it, is first needed.

    policy (str): Name of a function of `_compile`.
    plain (Callable | None): What Python may run instead.
    part (bool): Whether only kernels call it; Python always runs `plain`.
    """

    def __init__(self, function: Any, policy: str = "compile_kernel", plain: Any = None, part: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func, self.policy = function, policy
        self._plain: Any = plain or (function if UNCOMPILED else None)
        self.part = part or UNCOMPILED  # Python runs it, whatever calls it
        self._compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        """Call the compiled kernel, or the plain function while that suffices."""
        if self.part or (self._compiled is None and self._plain and _python_suffices(args[0])):
            with np.errstate(all="ignore"):  # as in compiled code
                return self._plain(*args)
        return (self._compiled or self.compiled)(*args)

    @property
    def compiled(self) -> Any:
        """numba's dispatcher, or an intrinsic; numba is imported here."""
        if self._compiled is None:
            with _loading:
                from . import _compile

                if not PLAIN:  # numba has to know of all before it begins to compile
                    from . import intrinsics  # noqa: F401
            made = getattr(_compile, self.policy)(self.source)
            self._compiled = self._compiled or made  # the first one, where threads come at once
            names, name = self.py_func.__globals__, self.py_func.__name__
            if not self.part and names.get(name) is self:  # later calls need no detour
                names[name] = self._compiled
        return self._compiled

    @property
    def source(self) -> Any:
        """The function that numba compiles, or the intrinsic that stands for it."""
        if self.policy != "llvm" or PLAIN:
            return self.py_func
        from . import intrinsics

        return getattr(intrinsics, self.py_func.__name__)

    @property
    def _numba_type_(self) -> Any:
        """The type of the function for numba when it compiles a kernel that calls it."""
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self.compiled)


def kernel(function: Function) -> Function:
    """Make `function` a kernel that is compiled at its first call."""
    return cast(Function, Kernel(function))


def light(by: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Make a function a kernel that Python may run at first, or another function that is faster then.

    If the first argument is an array, or a tuple of arrays, its length is that of the work.
    """

    def make(function: Function) -> Function:
        LIGHT.append(Kernel(function, plain=by or function))
        return cast(Any, LIGHT[-1])

    return make


def inlined(function: Function) -> Function:
    """Make `function` a part of the machine code of each kernel that calls it.

    LLVM inlines it.  Where numba does so before it compiles (``inline="always"``), arguments that are arrays become
    variables, whose references are counted at each call: 5 to 15 percent of the time of whole kernels.
    """
    return cast(Function, Kernel(function, "compile_inlined", function, part=True))


def internal(function: Function) -> Function:
    """Make `function`, or that of a kernel, one that only kernels call, which takes half the time to compile."""
    function = getattr(function, "py_func", function)
    return cast(Function, Kernel(function, "compile_internal", function, part=True))


def llvm(function: Function) -> Function:
    """Make `function` the meaning of the function of its name in `intrinsics`, which kernels call."""
    return cast(Function, Kernel(function, "llvm", function, part=True))


@llvm
def prefetch(array: Any, i: Any, j: Any) -> None:
    """Ask for the cache line of ``array[i, j]``, j being 0 for an array of one dimension; nothing in Python.

    Many small reads from large tables spend most of their time waiting; asking some tokens ahead makes them overlap.
    """
