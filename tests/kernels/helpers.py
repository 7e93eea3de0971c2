"""Helpers of the tests of kernels: comparisons of scores, and how much rounding may change them."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from spacy_crfseq.kernels import chain, lattice, spans
from spacy_crfseq.types import Scores
from tests import reference
from tests.problems import Problem

DTYPES = (np.float32, np.float64)


def assert_close(actual: Scores, expected: Scores, *, rtol: float = 1e-7, atol: float = 0.0) -> None:
    for array, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(array, wanted, rtol=rtol, atol=atol)


def assert_finite(scores: Scores) -> None:
    assert all(np.isfinite(array).all() for array in scores)


def largest(scores: Scores) -> float:
    """Return the largest finite score, at least 1."""
    return float(max(np.abs(array[np.isfinite(array)]).max(initial=1.0) for array in scores))


def sequences(problem: Problem) -> Iterator[tuple[Scores, int, int]]:
    """Yield the scores of each sequence, and where it begins and ends."""
    for first, last in problem.sequence_bounds():
        yield reference.sequence(problem.scores, first, last), first, last


@contextmanager
def one_by_one() -> Iterator[None]:
    """Process no sequences in blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (chain, lattice, spans):
            patch.setattr(module, "PLAIN", True)
        yield
