"""The compile policy: what a kernel may call, and what happens where numba cannot store its cache."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numba
import pytest

from spacy_crfseq.kernels import _jit

FOLDER = Path(_jit.__file__).parent
KERNEL_FILES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the kernels folder that a file of it imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and (not node.level or node.level == 2):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split("kernels.")[1].split(".")[0] for name in names if "kernels." in name}
    return found


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_kernels_call_only_their_own_file(path: Path) -> None:
    """numba does not notice that a cached kernel's callee in another file has changed."""
    assert imported_modules(path) <= {"_jit"}


def double(x: int) -> int:
    return 2 * x


def test_without_a_cache_folder_kernels_are_compiled_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_function = numba.njit

    def refuse_cache(*function: Any, **options: Any) -> Any:
        if not options.get("cache"):  # numba's own modules, which compiling imports, too
            return compile_function(*function, **options)

        def fail(_: Any) -> Any:
            raise RuntimeError("cannot cache function: no locator available")

        return fail

    monkeypatch.setattr(numba, "njit", refuse_cache)
    monkeypatch.setattr(_jit, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernels = [_jit.kernel(double), _jit.kernel(double)]
    assert [kernel(21) for kernel in kernels] == [42, 42]
    assert len(caught) == 1
    assert "NUMBA_CACHE_DIR" in str(caught[0].message)
    assert caught[0].filename != _jit.__file__
