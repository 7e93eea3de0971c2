"""Divide work, and run kernels in parallel: they release the GIL, so plain threads suffice.

Each call starts its own threads, so that a forked process never inherits a pool.  A fork waits until other threads
have left what our locks guard, so that a child has whole tables and free locks.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Thread, local
from time import monotonic
from typing import Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")
PATIENCE = 30.0
"""Seconds for which a fork waits for other threads, at most; some kernels take ten to compile."""
SHARD_FLOATS = 1 << 18
"""Number of scores that are computed at a time, so that they stay in the cache."""
_locks, _forking = WeakKeyDictionary[Any, bool](), local()


def surviving(lock: Item, *, waits: bool = True) -> Item:
    """Return a Lock or RLock that is free in forked children, whatever other threads do at the fork.

    waits (bool): Whether a fork waits for it; not if it is held for long, and guards nothing that children use.
    """
    _locks[lock] = waits
    return lock


def _before_fork() -> None:
    until = monotonic() + PATIENCE
    waiting = [lock for reference in _locks.keyrefs() if (lock := reference()) and _locks[lock]]
    while True:  # waits for one lock while it holds none, because threads take them in any order
        left = max(0.0, until - monotonic())
        held = [lock for number, lock in enumerate(waiting) if lock.acquire(timeout=0.0 if number else left)]
        if len(held) == len(waiting) or not left:
            break
        for lock in held:
            lock.release()
        waiting.sort(key=held.__contains__)
    _forking.held = held


def _in_parent() -> None:
    for lock in _forking.held:
        lock.release()


def _in_child() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # what the locks of the standard library do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


class cached_property(Generic[Item]):  # noqa: N801
    """As that of functools, which up to Python 3.11 has one lock for all instances.

    That serialises threads, and a lock that is taken at a fork stays taken in the child.
    """

    def __init__(self, function: Callable[[Any], Item]) -> None:
        self._function, self._name, self.__doc__ = function, function.__name__, function.__doc__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> cached_property[Item]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Item: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value


def available() -> int:
    """Return the number of cores for this process; 1 in workers, such as those of ``nlp.pipe(n_process=2)``."""
    if multiprocessing.parent_process() is not None:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(tasks: Sequence[Callable[[], Result]], release: Callable[[], None] = lambda: None) -> list[Result]:
    """Call all tasks, the first in this thread and each of the others in a new one; return their results in order.

    release: Called when a task has failed, or cannot begin, so that tasks that wait for it end too.
    RAISES: The first exception of a task, after all have ended.
    """
    if len(tasks) < 2:
        return [tasks[0]()] if tasks else []
    results: list[Any] = [None] * len(tasks)
    errors: list[BaseException] = []

    def call(number: int) -> None:
        try:
            results[number] = tasks[number]()
        except BaseException as error:
            errors.append(error)
            release()

    threads: list[Thread] = []
    try:
        for number in range(1, len(tasks)):
            threads.append(Thread(target=call, args=(number,)))
            threads[-1].start()
        call(0)
    except BaseException as error:  # Ctrl-C during the wait
        errors.append(error)
        release()
    for thread in threads:  # always wait, because the threads use arrays that the caller will reuse
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                errors.append(error)
    if errors:
        raise errors[0]
    return results


def over(function: Callable[[Item], Result], items: Sequence[Item], n: int) -> list[Result]:
    """Return the function's result for each item; each of n threads takes the next item when it is free.

    RAISES: The first exception, after all threads have ended; it stops them from taking further items.
    """
    if min(n, len(items)) < 2:
        return list(map(function, items))
    results: list[Any] = [None] * len(items)
    waiting = deque(range(len(items)))

    def work() -> None:
        while True:
            try:  # another thread may take the last one
                number = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = function(items[number])
            except BaseException:
                waiting.clear()
                raise

    run([work] * min(n, len(items)))
    return results


def parts(length: int, n: int) -> list[slice]:
    """Split range(length) into at most n slices of about the same size; one empty slice if length is 0."""
    n = max(1, min(n, length))
    return [slice(length * i // n, length * (i + 1) // n) for i in range(n)]


def shards(
    offsets: NDArray[np.int64], floats_per_token: int, times: int = 1, n_threads: int = 1
) -> Iterator[tuple[int, int]]:
    """Yield ranges of sequences whose scores take about `times` `SHARD_FLOATS` numbers, at least one sequence each.

    They are smaller if their number would not be a multiple of n_threads.
    """
    tokens = max(1, times * SHARD_FLOATS // max(1, floats_per_token))
    if n_threads > 1 and len(offsets) > 1:
        share = -(-int(offsets[-1] - offsets[0]) // n_threads)
        tokens = max(1, -(-share // max(1, -(-share // tokens))))
    first, n = 0, len(offsets) - 1
    while first < n:
        last = int(np.searchsorted(offsets, offsets[first] + tokens, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last
