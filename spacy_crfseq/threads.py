"""Running kernels side by side: they release the interpreter lock, so plain threads suffice.

Threads are made for each call and gone after it, so that a forked process never inherits a pool.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def available() -> int:
    """Return how many threads to start: one for each core this process may use, one alone in a worker process.

    Workers, such as those of ``nlp.pipe(n_process=2)``, share the cores among themselves.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Call all tasks, each in a thread of its own and the first in the present one; return their results in order.

    RAISES: The first exception of a task, after all have ended.
    """
    if len(tasks) < 2:
        return [task() for task in tasks]
    results: list[list[Result]] = [[] for _ in tasks]
    errors: list[BaseException] = []

    def call(number: int) -> None:
        try:
            results[number].append(tasks[number]())
        except BaseException as error:
            errors.append(error)

    started: list[Thread] = []
    try:
        for number in range(1, len(tasks)):
            started.append(Thread(target=call, args=(number,)))
            started[-1].start()
        call(0)
    except BaseException as error:  # Ctrl-C on the way
        errors.append(error)
    _join([thread for thread in started if thread.ident is not None], errors)
    if errors:
        raise errors[0]
    return [result[0] for result in results]


def _join(others: Sequence[Thread], errors: list[BaseException]) -> None:
    """Wait for all threads, whatever happens: they work on arrays that the caller will use again."""
    for thread in others:
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                errors.append(error)


def over(function: Callable[[Item], Result], items: Sequence[Item], n: int) -> list[Result]:
    """Return what `function` makes of each item; n threads take the next item whenever they are free.

    RAISES: The first exception, after all threads have ended; none takes another item after one.
    """
    results: list[Result | None] = [None] * len(items)
    waiting = deque(range(len(items)))

    def take() -> int | None:
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def work() -> None:
        while (number := take()) is not None:
            try:
                results[number] = function(items[number])
            except BaseException:
                waiting.clear()
                raise

    run([work] * max(1, min(n, len(items))))
    return results  # type: ignore[return-value]


def parts(length: int, n: int) -> list[slice]:
    """Cut range(length) into at most n slices of about the same size; one that is empty where length is 0."""
    n = max(1, min(n, length))
    return [slice(length * i // n, length * (i + 1) // n) for i in range(n)]
