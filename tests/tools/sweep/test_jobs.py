"""Tasks in processes of their own: order, reports, failures, interrupts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import active_children
from typing import Any

import pytest

from spacy_crfseq.tools.sweep.jobs import Task, at_once, run_tasks

pytestmark = pytest.mark.skipif(at_once(2, 2) < 2, reason="processes cannot be forked here")


def sleeper(seconds: float, watch: Any) -> float:
    watch(seconds)
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("n", [1, 2, 3])
def test_results_come_in_order_and_tasks_begin_late(n: int) -> None:
    reports: list[float] = []
    done: list[float] = []
    begun: list[int] = []

    def tasks() -> Iterator[Task]:
        for seconds in (0.2, 0.0, 0.1, 0.01):
            begun.append(len(done))
            yield Task(partial(sleeper, seconds), reports.append, done.append)

    run_tasks(tasks(), n)
    assert done == [0.2, 0.0, 0.1, 0.01]
    assert sorted(reports) == sorted(done)
    assert begun[:n] == [0] * n
    if n == 1:
        assert begun == [0, 1, 2, 3]


def test_failures_are_results() -> None:
    done: list[Any] = []
    works: list[Any] = [lambda watch: 1 / 0, lambda watch: os._exit(3), lambda watch: 7]
    run_tasks((Task(work, print, done.append) for work in works), 2)
    assert isinstance(done[0], ZeroDivisionError)
    assert "ended with code 3" in str(done[1])
    assert done[2] == 7


def test_an_interrupt_ends_the_processes_and_keeps_what_is_finished() -> None:
    done: list[Any] = []

    def interrupt(report: float) -> None:
        if report == 50:
            raise KeyboardInterrupt

    def tasks() -> Iterator[Task]:
        for seconds in (60.0, 0.0, 50.0):
            yield Task(partial(sleeper, seconds), interrupt, done.append)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks(), 2)
    assert done == [0.0]
    assert not active_children()


def test_how_many_at_once() -> None:
    assert at_once(0, 1) == 1
    assert at_once(0, 16) == 2
    assert at_once(5, 2) == 5
