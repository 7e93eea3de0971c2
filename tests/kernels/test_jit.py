"""The compile policy: when kernels are compiled again, and what happens where numba cannot store its cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numba
import pytest

from spacy_crfseq.kernels import _jit

CALLEE = """
from ._jit import inlined, kernel

@{policy}
def factor(x):
    return {factor} * x
"""
CALLER = """
from ._jit import kernel
from .callee import factor

@kernel
def scaled(x):
    return factor(x)
"""
REPORT = """
from kernels_copy.caller import scaled
print(scaled(21), sum(scaled.stats.cache_hits.values()), sum(scaled.stats.cache_misses.values()))
"""


@pytest.mark.parametrize("policy", ["kernel", "inlined"])
def test_a_kernel_is_compiled_again_only_when_a_callee_of_another_file_changes(tmp_path: Path, policy: str) -> None:
    folder = tmp_path / "kernels_copy"
    folder.mkdir()
    (folder / "__init__.py").touch()
    shutil.copy(_jit.__file__, folder)
    (folder / "caller.py").write_text(CALLER)
    paths = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment = {**os.environ, **paths, "PYTHONDONTWRITEBYTECODE": "1"}  # whose stamps are too coarse for a test
    found = []
    for factor in (2, 2, 3):
        (folder / "callee.py").write_text(CALLEE.format(policy=policy, factor=factor))
        done = subprocess.run(
            [sys.executable, "-c", REPORT], env=environment, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.split())
    assert found == [["42", "0", "1"], ["42", "1", "0"], ["63", "0", "1"]]


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
