"""Calls in processes of their own: results, failures, interrupts."""

from __future__ import annotations

import os
import time
from functools import partial
from multiprocessing import active_children
from typing import Any

import pytest

from spacy_crfseq.tools.sweep.jobs import at_once, run_calls

pytestmark = pytest.mark.skipif(at_once(2) < 2, reason="processes cannot be forked here")


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("n", [1, 3])
def test_all_results_come(n: int) -> None:
    seconds = (0.2, 0.0, 0.1, 0.01)
    results = list(run_calls(((name, partial(sleep, name)) for name in seconds), n))
    assert all(name == result for name, result in results)
    assert sorted(name for name, _ in results) == sorted(seconds)


def test_failures_are_results() -> None:
    calls: list[Any] = [lambda: 1 / 0, lambda: os._exit(3), lambda: 7]
    results = dict(run_calls(iter(enumerate(calls)), 2))
    assert isinstance(results[0], ZeroDivisionError)
    assert "ended with code 3" in str(results[1])
    assert results[2] == 7


def test_whoever_leaves_ends_the_processes() -> None:
    results = run_calls(((name, partial(sleep, name)) for name in (60.0, 0.0, 50.0)), 2)
    assert next(results) == (0.0, 0.0)
    results.close()
    assert not active_children()


def test_how_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, number in ((1, 1), (16, 2)):
        monkeypatch.setattr("spacy_crfseq.tools.sweep.jobs.available", lambda cores=cores: cores)
        assert at_once(0) == number
    assert at_once(5) == 5
