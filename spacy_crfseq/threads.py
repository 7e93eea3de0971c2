"""Running kernels side by side: they release the interpreter lock, so plain threads suffice.

Threads are made for each call and gone after it, so that a forked process never inherits a pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def available() -> int:
    """Return how many cores this process may use."""
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

    others = [Thread(target=call, args=(number,)) for number in range(1, len(tasks))]
    for thread in others:
        thread.start()
    try:
        call(0)
    finally:
        for thread in others:
            thread.join()
    if errors:
        raise errors[0]
    return [result[0] for result in results]


def over(function: Callable[[Item], Result], items: Sequence[Item], n: int) -> list[Result]:
    """Return what `function` makes of each item; n threads take the next item whenever they are free.

    RAISES: The first exception, after all threads have ended.
    """
    results: list[Result | None] = [None] * len(items)
    waiting = iter(range(len(items)))

    def work() -> None:
        for number in waiting:  # the interpreter lock makes taking the next one safe
            results[number] = function(items[number])

    run([work] * max(1, min(n, len(items))))
    return results  # type: ignore[return-value]


def parts(length: int, n: int) -> list[slice]:
    """Cut range(length) into at most n slices of about the same size, none of them empty."""
    n = max(1, min(n, length))
    return [slice(length * i // n, length * (i + 1) // n) for i in range(n)]
