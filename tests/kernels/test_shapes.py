"""Tests refuse arrays that a kernel does not document: of other types, of other sizes, not contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacy_crfseq.kernels import jit, rows
from spacy_crfseq.types import Floats, Ints, Offsets, Scores
from tests.shapes import documented_arrays


@jit.kernel
def add_labels(scores: Scores, gold: Ints, bounds: Offsets, out: Floats) -> None:
    """Write something to out [T, L]; bounds [N + 1 or 1] count tokens."""


T, L = 5, 3
SCORES = Scores(np.zeros((T, L)), np.zeros((1, L, L)), np.zeros(L), np.zeros(L))
ARGUMENTS = {
    "scores": SCORES,
    "gold": np.zeros(T, np.int32),
    "bounds": np.zeros(2, np.int64),
    "out": np.zeros((T, L), np.float32),
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gold", np.zeros(T, np.int64), "gold is int64"),
        ("gold", np.zeros(T + 1, np.int32), r"gold has the shape \(6,\), not \[T\]"),
        ("out", np.zeros((L, T)).T, "out is not contiguous float64"),
        ("out", np.zeros(T * L), r"out has the shape \(15,\), not \[T, L\]"),
        ("scores", SCORES._replace(transitions=np.zeros((2, L, L))), r"transitions .*not \[1 or T, L, L\]"),
        ("scores", SCORES._replace(end=np.zeros(L + 1)), r"end has the shape \(4,\), not \[L\]"),
    ],
)
def test_a_call_with_an_array_that_is_not_as_documented(name: str, value: Any, message: str) -> None:
    add_labels(*ARGUMENTS.values())
    add_labels(*(ARGUMENTS | {"scores": SCORES._replace(transitions=np.zeros((T, L, L)))}).values())
    with pytest.raises(TypeError, match=message):
        add_labels(*(ARGUMENTS | {name: value}).values())


def test_kernels_of_the_package_are_checked_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows.add_ragged, "calls", 0)  # of later ones only a part is, and other tests have made many
    arrays = {array.name: array.dimensions for array in documented_arrays(rows.add_ragged.py_func)}
    assert arrays == {"ptr": ("T + 1",), "ids": ("ptr[T]",), "weights": ("R", "C"), "out": ("T", "C")}
    arguments: Any = np.array([0, 1]), np.zeros(1, np.int32), np.ones((1, 2)), np.zeros((1, 2))
    for _ in range(2):  # numba's dispatcher has not taken the kernel's place after the first
        rows.add_ragged(*arguments)
        with pytest.raises(TypeError, match="weights is int64"):
            rows.add_ragged(*arguments[:2], np.ones((1, 2), np.int64), arguments[3])
