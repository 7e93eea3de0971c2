"""The compile policy: when kernels are compiled again, what is said, and what happens where nothing can be stored."""

import errno
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event

from spacy_crfseq import files, kernels, threads, types
from spacy_crfseq.kernels import _cache, _compile, intrinsics, jit

CALLEE = """
from .jit import inlined, kernel

{comment}
@{policy}
def factor(x):
    {docstring}
    return {factor} * x

def unused(x):
    return x * {unused}
"""
CALLER = """
from .jit import kernel
from .callee import factor

@kernel
def scaled(x):
    return factor(x)
"""


COMPILED = pytest.mark.skipif(kernels.UNCOMPILED, reason="nothing is compiled")
PRIVATE = pytest.mark.skipif(kernels.PLAIN, reason="numba alone does not")


@pytest.fixture(autouse=True)
def kernels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and cache folders of these tests are not among those that `warmup` counts and names."""
    monkeypatch.setattr(_compile, "folders", set())
    monkeypatch.setattr(_compile, "made", [])


@PRIVATE
@pytest.mark.parametrize("policy", ["kernel", "inlined"])
def test_a_kernel_is_compiled_again_only_when_the_code_of_a_callee_changes(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All modules are imported anew each time, as in a process of their own."""
    folder = tmp_path / "package_copy/kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    shutil.copy(kernels.__file__, folder)
    for module in (files, threads, types):
        shutil.copy(module.__file__, folder.parent)
    for module in (jit, _cache, _compile, intrinsics):
        shutil.copy(module.__file__, folder)
    (folder / "caller.py").write_text(CALLER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose stamps are too coarse for a test
    first = {"factor": "2", "comment": "", "docstring": "'First.'", "unused": "1"}
    comment, docstring, unused = {"comment": "# a line more"}, {"docstring": "'Other.'"}, {"unused": "2"}
    results = []
    for change in ({}, {}, comment, docstring, unused, {"factor": "3"}, {"factor": "3"}):
        (folder / "callee.py").write_text(CALLEE.format(policy=policy, **(first | change)))
        importlib.invalidate_caches()
        scaled = importlib.import_module("package_copy.kernels.caller").scaled
        result, hits, misses = scaled(21), scaled.compiled.stats.cache_hits, scaled.compiled.stats.cache_misses
        results.append((result, sum(hits.values()), sum(misses.values())))
        event.unregister("numba:compile", sys.modules["package_copy.kernels._compile"].NOTICE)
        for name in [name for name in sys.modules if name.startswith("package_copy")]:
            del sys.modules[name]
    assert results == [(42, 0, 1), *[(42, 1, 0)] * 4, (63, 0, 1), (63, 1, 0)]


FINGERPRINTS = """
import importlib, pkgutil, sys
import spacy_crfseq.kernels, spacy_crfseq.papers.boosting.kernels, spacy_crfseq.papers.coordinate.kernels
from spacy_crfseq.kernels import _cache, _compile, jit
for module in pkgutil.iter_modules(spacy_crfseq.kernels.__path__, "spacy_crfseq.kernels."):
    importlib.import_module(module.name)
print(_compile._policy().hex())
for name in sorted(name for name in sys.modules if name.startswith("spacy_crfseq.")):
    for kernel in vars(sys.modules[name]).values():
        if isinstance(kernel, jit.Kernel):
            print(kernel.py_func.__qualname__, _cache.fingerprint(kernel).hex())
"""


def test_a_text_that_is_no_docstring_counts_in_fingerprints() -> None:
    def fingerprint_with(text: str) -> bytes:
        names: dict[str, Any] = {}
        exec(f"def kernel():\n    return max({text!r} for _ in range(2))", names)
        return _cache.fingerprint(names["kernel"])

    assert fingerprint_with("first") != fingerprint_with("second")


@PRIVATE
def test_fingerprints_do_not_depend_on_the_process() -> None:
    """Sets have another order, and objects another address, in each."""
    command = [sys.executable, "-c", FINGERPRINTS]
    first, two = (
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in "12"
    )
    assert len(first.splitlines()) > 200
    assert first == two


def double(x: int) -> int:
    return 2 * x


double.__module__ = "spacy_crfseq.kernels.double"


@COMPILED
def test_a_notice_says_once_that_kernels_are_compiled(caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(_compile.NOTICE, "silent", True)
    monkeypatch.setattr(_compile, "folders", {"/opt/numba"})
    caplog.set_level("WARNING", "spacy_crfseq")
    notice = _compile.Notice()
    kernel = numba.njit(double)
    event.register("numba:compile", notice)
    try:
        kernel(1)
        assert not caplog.messages, "that was quick"
        monkeypatch.setattr(_compile, "NOTICE_AFTER", 0.0)
        kernel(1.0)
        kernel(1j)
    finally:
        event.unregister("numba:compile", notice)
    [message] = caplog.messages
    assert "NUMBA_CACHE_DIR" in message
    assert "crfseq warmup" in message
    assert "/opt/numba" in message


def filled_array(n: int) -> Any:
    return np.ones(n, np.int16)


def sum_of_ones(n: int) -> int:
    return filled_array(n).sum()


@PRIVATE
@pytest.mark.parametrize("policy", [jit.inlined, jit.internal])
def test_kernels_share_what_numba_compiles_of_its_own_functions(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel calls np.ones by itself, the next in a part of it, and code of others has np.ones of its own."""
    monkeypatch.setattr(_compile, "folder_of", lambda *_: None)
    with event.install_recorder("numba:compile") as recorder:
        assert len(jit.kernel(filled_array)(3)) == 3
        compiled = len(recorder.buffer)
        monkeypatch.setattr(sys.modules[__name__], "filled_array", policy(filled_array))
        assert jit.kernel(sum_of_ones)(4) == 4
    names = [record.data["dispatcher"].py_func.__qualname__ for _, record in recorder.buffer[compiled:]]
    assert "filled_array" in names
    assert not [name for name in names if "ol_np_ones" in name]
    assert numba.njit(lambda n: np.ones(n, np.int16).sum())(5) == 5


def test_without_a_cache_folder_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_function = numba.njit

    def refuse_cache(*function: Any, **options: Any) -> Any:
        if not options.get("cache"):  # numba's own modules, which compiling imports, too
            return compile_function(*function, **options)

        def fail(_: Any) -> Any:
            raise RuntimeError("cannot cache function: no locator available")

        return fail

    monkeypatch.setattr(numba, "njit", refuse_cache)
    monkeypatch.setattr(_compile, "folder_of", lambda *_: None)
    doubles = [jit.kernel(double), jit.kernel(double)]
    assert [kernel(21) for kernel in doubles] == [42, 42]


@PRIVATE
def test_each_signature_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that save at the same time cannot mix them up."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert [jit.kernel(double)(x) for x in (21, 0.5)] == [42, 1.0]
    assert len([*tmp_path.rglob("*.nbc")]) == 2
    again = jit.kernel(double)
    assert [again(x) for x in (0.5, 21)] == [1.0, 42]
    assert sum(again.compiled.stats.cache_hits.values()) == 2


@PRIVATE
def test_a_full_disk_keeps_no_kernel_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "write_bytes", fail)
    assert jit.kernel(double)(21) == 42
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


@PRIVATE
@pytest.mark.parametrize("writable", [True, False])
def test_files_that_were_cut_short_are_compiled_again(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process, or a disk that was full, leaves a file that ends anywhere."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    jit.kernel(double)(21)
    [file] = tmp_path.rglob("*.nbc")
    whole = file.read_bytes()
    for size in (0, 1, 15, 63, 64, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with monkeypatch.context() as patch:
            if not writable:
                patch.setattr(_cache, "_writable", lambda folder: False)
                patch.setattr(Path, "write_bytes", refuse)
            _cache.folder_of.cache_clear()
            kernel = jit.kernel(double)
            assert kernel(21) == 42
            assert sum(kernel.compiled.stats.cache_misses.values()) == 1
        if writable:
            again = jit.kernel(double)
            assert again(21) == 42
            assert sum(again.compiled.stats.cache_hits.values()) == 1, "the damaged file was replaced"


@pytest.mark.parametrize(("features", "size"), [("", 32), ("+avx2,+avx512f", 64), ("+avx2", 32)])
def test_vectors_are_those_of_the_processor_that_is_compiled_for(features: str, size: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
    assert intrinsics._vector_bytes() == size
