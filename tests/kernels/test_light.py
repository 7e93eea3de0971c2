"""Kernels that Python runs at first: they pass the tests of compiled ones, and label texts alike."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

from spacy_crfseq import Chain
from spacy_crfseq.errors import DataError
from spacy_crfseq.kernels import jit
from tests import forks
from tests.features import test_attributes
from tests.kernels import test_hashing, test_paths, test_rows
from tests.kernels.helpers import DTYPES
from tests.problems import Problem, problems


@contextmanager
def in_python() -> Iterator[None]:
    """Let Python run all light kernels, as in a process without numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "_python_suffices", lambda _: True)
        for kernel in jit.LIGHT:
            patch.setattr(kernel, "_compiled", None)
            patch.setitem(kernel.py_func.__globals__, kernel.__name__, kernel)
        yield


@pytest.mark.parametrize(
    "test",
    [
        test_hashing.test_mix,
        test_hashing.test_keys_of_values,
        test_hashing.test_ids_of_words,
        test_hashing.test_index_numbers_keys_as_a_dict_does,
        test_hashing.test_shift,
        test_rows.test_sparse_rows_sorted_for_reading_are_added,
        test_rows.test_dense_rows_are_added_and_scattered,
        test_paths.test_best_score_and_its_path,
        test_attributes.test_values_are_those_of_a_search,
    ],
)
def test_python_passes_the_tests_of_compiled_kernels(test: Callable[..., None]) -> None:
    with in_python():
        test()


@given(problems(scales=(0.0, 1.0, 1000.0), dtypes=DTYPES))
def test_best_paths_are_the_same(problem: Problem) -> None:
    labels, scores = test_paths.best_paths(problem)
    with in_python():
        plain_labels, plain_scores = test_paths.best_paths(problem)
    assert plain_labels.tolist() == labels.tolist()
    np.testing.assert_allclose(plain_scores, scores, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8"])
def test_labels_beyond_any_range_are_refused_alike(dtype: str) -> None:
    chain, limits = Chain(np.zeros((3, 2)), np.zeros((2, 2))), np.iinfo(dtype)
    for value in {2, int(limits.max), int(limits.min)} - {0}:
        messages = set()
        for run in (nullcontext, in_python):
            with run(), pytest.raises(DataError) as error:
                chain.log_prob(np.array([0, value, 1], dtype))
            messages.add(str(error.value))
        assert len(messages) == 1
        assert messages.pop().endswith(f"labels[1] is {value}.")


def test_python_runs_until_much_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_left", 3 * jit.LARGE)
    monkeypatch.setattr(jit, "sys", SimpleNamespace(modules={}))
    numbers = np.zeros(jit.LARGE + 1)
    assert jit._python_suffices(numbers[1:])
    assert not jit._python_suffices(((numbers,), numbers)), "that is a large call"
    assert jit._python_suffices(3)
    assert not jit._python_suffices(numbers[1:]), "and now all steps are taken"
    assert not jit._python_suffices(numbers[:0])
    monkeypatch.setattr(jit, "_left", 3 * jit.LARGE)
    monkeypatch.setattr(jit, "sys", SimpleNamespace(modules={"numba": None}))
    assert not jit._python_suffices(3), "numba is here"


def test_all_numbers_of_a_chain_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few tokens with many labels, or few sequences of many tokens, are no small calls."""
    lengths: list[int] = []
    with in_python():
        monkeypatch.setattr(jit, "_python_suffices", lambda first: not lengths.append(len(first)))  # type: ignore[func-returns-value]
        chain = Chain(np.zeros((1, 3, 20)), np.zeros((20, 20)), mask=[[1, 0, 1]])
        assert sorted(lengths) == [3, 40, 440]
        lengths.clear()
        Chain(np.zeros((3, 20)), np.zeros((3, 20, 20)))
        assert sorted(lengths) == [40, 60, 1200]
    assert chain.offsets.tolist() == [0, 2]


PROGRAM = """
import spacy
from spacy.training import Example

nlp = spacy.blank("en")
ner = nlp.add_pipe("crf_ner")
doc = nlp.make_doc("Ada Lovelace lived in London")
example = Example.from_dict(doc, {"entities": [(0, 12, "PERSON"), (22, 28, "GPE")]})
nlp.initialize(lambda: [example])
ner.fit()
print([(ent.text, ent.label_) for ent in nlp(doc.text).ents], ner.posterior([nlp.make_doc("Ada")]).labels)
"""


def test_python_trains_and_labels_where_numba_compiles_nothing() -> None:
    """So that a debugger can step through kernels; their tests pass in the same way, with few examples each."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    compiled = forks.run(["-c", PROGRAM])
    assert done.stdout == compiled.stdout, compiled.stderr
    assert "PERSON" in done.stdout
