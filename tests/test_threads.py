"""Sharing work among threads: order, errors, and parts that cover everything."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import threads


def test_results_come_in_the_order_of_the_tasks() -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if all three run at the same time

    def task(number: int) -> int:
        barrier.wait()
        return number

    assert threads.run([partial(task, number) for number in range(3)]) == [0, 1, 2]
    assert threads.run([lambda: 5]) == [5]
    assert threads.run([]) == []


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_after_all_have_ended(failing: int, kind: type[BaseException]) -> None:
    done: list[int] = []

    def task(number: int) -> None:
        if number == failing:
            raise kind("mistake")
        done.append(number)

    with pytest.raises(kind, match="mistake"):
        threads.run([partial(task, number) for number in range(3)])
    assert sorted(done) == sorted({0, 1, 2} - {failing})


def test_a_failure_releases_those_that_wait_for_it() -> None:
    released = threading.Event()

    def fail() -> None:
        raise ValueError("mistake")

    with pytest.raises(ValueError, match="mistake"):
        threads.run([fail, lambda: released.wait(10) and None], released.set)
    assert released.is_set()


@given(st.integers(0, 30), st.integers(1, 5))
def test_each_item_is_taken_once(n_items: int, n: int) -> None:
    taken: list[int] = []

    def square(item: int) -> int:
        taken.append(item)
        return item * item

    assert threads.over(square, range(n_items), n) == [item * item for item in range(n_items)]
    assert sorted(taken) == list(range(n_items))


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_no_item_is_taken_after_an_error(kind: type[BaseException]) -> None:
    taken: list[int] = []

    def fail(item: int) -> None:
        taken.append(item)
        raise kind

    with pytest.raises(kind):
        threads.over(fail, range(1000), 2)
    assert len(taken) <= 2


def test_worker_processes_get_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.available() >= 1
    monkeypatch.setattr(threads.multiprocessing, "parent_process", lambda: object())
    assert threads.available() == 1


@given(st.integers(0, 50), st.integers(1, 60))
def test_parts_cover_everything_once(length: int, n: int) -> None:
    parts = threads.parts(length, n)
    assert [i for part in parts for i in range(length)[part]] == list(range(length))
    sizes = [part.stop - part.start for part in parts]
    assert len(parts) <= n
    assert max(sizes) - min(sizes) <= 1
    assert length == 0 or min(sizes) > 0
