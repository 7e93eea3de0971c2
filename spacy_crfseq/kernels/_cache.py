"""Compiled kernels on disk: where they are kept, and what they are valid for.

numba's own cache keeps a kernel until a line of its file changes, and would not see a change of what the kernel calls
in other files.  Here a kernel is valid until its own code changes, or the code or value of something that it names:
kernels contain the functions that they call.  Comments, docstrings and lines do not matter.

One file has one kernel for one signature, processor, Python and numba.  It begins with two hashes: that of the kernel's
source, and that of the rest of the file, so that one that was cut short, as when a process was killed, is not used.
"""

from __future__ import annotations

import inspect
import pickle
import platform
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from hashlib import sha1, sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from .. import files

SIZE = 32
"""Bytes of a hash."""


class KernelCache:
    """The compiled forms of one function on disk, for numba's dispatcher.

    policy (bytes): A hash of what else decides about the compiled code.
    """

    def __init__(self, function: Any, folder: Path, policy: bytes) -> None:
        self._function, self._folder, self._policy = function, folder, policy

    @property
    def cache_path(self) -> str:
        """The folder, by numba's name."""
        return str(self._folder)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code that numba had compiled for a signature, or None if there is no valid file."""
        rtsys.initialize(
            target
        )  # numba's memory of arrays, which compiled code calls; compiling would import much more
        try:
            content = self._file(signature, target).read_bytes()
        except OSError:
            return None
        source, check, data = content[:SIZE], content[SIZE : 2 * SIZE], content[2 * SIZE :]
        if source != self._source() or check != sha256(data).digest():
            return None
        return CompileResult._rebuild(target, *pickle.loads(data))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled kernel, unless its code has addresses of this process; a full disk keeps none."""
        if result.library.has_dynamic_globals:
            return
        data = dumps(result._reduce())
        with suppress(OSError), files.replacing(self._file(signature, result.target_context)) as file:
            file.write_bytes(self._source() + sha256(data).digest() + data)

    def _source(self) -> bytes:
        return sha256(self._policy + fingerprint(self._function)).digest()

    def _file(self, signature: Any, target: Any) -> Path:
        versions = platform.python_implementation(), platform.python_version(), numba.__version__
        key = repr((signature, target.codegen().magic_tuple(), versions))
        name = f"{self._function.__module__}.{self._function.__qualname__}".replace("<", "").replace(">", "")
        return self._folder / f"{name}-{sha256(key.encode()).hexdigest()[:16]}.nbc"


@cache
def folder_of(source: str, shared: str) -> Path | None:
    """Return the folder for compiled kernels of a file: the first that can be written, else one that can be read.

    They are one in the folder `shared`, if that is set; the one beside the file where Python keeps its own; one in the
    user's cache.
    """
    beside, user = Path(source).parent, AppDirs(appname="numba", appauthor=False).user_cache_dir
    own = f"{beside.name}_{sha1(str(beside).encode()).hexdigest()}"
    folders = [*([Path(shared, own)] if shared else []), beside / "__pycache__", Path(user, own)]
    return next(filter(_writable, folders), None) or next(filter(Path.is_dir, folders), None)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def fingerprint(function: Any) -> bytes:
    """Return a hash of the code of a function, and of everything that it names."""
    functions, digest = [inspect.unwrap(function)], sha256()
    for caller in functions:  # which grows
        description, named = _describe_function(caller)
        digest.update(description.encode())
        functions.extend(callee for callee in named if callee not in functions)
    return digest.digest()


@cache
def _describe_function(function: FunctionType) -> tuple[str, list[FunctionType]]:
    """Return a description of the code of a function, and the functions that it names."""
    named: list[FunctionType] = []
    codes = [*_codes(function.__code__)]
    names = {name for code in codes for name in code.co_names}
    values = [*(function.__defaults__ or ()), *(cell.cell_contents for cell in function.__closure__ or ())]
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        values.append(value)
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == __name__.partition(".")[0]:
            values += [getattr(value, attribute) for attribute in sorted(names) if hasattr(value, attribute)]
    described = [_describe(value, named) for value in values]
    return repr((function.__qualname__, [_describe_code(code, function.__doc__) for code in codes], described)), named


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _describe_code(code: CodeType, docstring: str | None) -> Any:
    """Return a description of code without its lines and docstring; any other text among its constants counts."""
    constants = [constant for constant in code.co_consts if docstring is None or constant != docstring]
    plain = [_describe(constant, []) for constant in constants if not isinstance(constant, CodeType)]
    return code.co_code, plain, code.co_names, code.co_varnames


def _describe(value: Any, named: list[FunctionType]) -> Any:
    """Return a description of a value that code names; add functions, the value or in it, to `named`."""
    if isinstance(value, ModuleType):
        return value.__name__
    policy = ""
    if hasattr(value, "policy"):  # a `jit.Kernel`, which may be numba's dispatcher later unless it is a part of others
        policy, value = value.policy if value.part else "", value.source
    function = inspect.unwrap(value) if callable(value) else value
    if isinstance(function, FunctionType):
        named.append(function)
        return policy, function.__module__, function.__qualname__
    if isinstance(value, partial):
        return [_describe(part, named) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, type):
        return value.__module__, value.__qualname__, getattr(value, "_fields", ())
    if isinstance(value, tuple | list):
        return [_describe(part, named) for part in value]
    if isinstance(value, dict):
        return [(key, _describe(part, named)) for key, part in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return repr(value)
