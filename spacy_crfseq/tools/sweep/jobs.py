"""Several long tasks at once, each in a forked process that shares what the parent has in memory.

Where processes cannot be forked, or for one task at a time, they run one after another in this process.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context
from typing import Any, NamedTuple, TypeAlias

Watch: TypeAlias = Callable[[Any], None]
"""Takes in what a task reports while it works."""
Work: TypeAlias = Callable[[Watch], Any]
"""Does a task and returns its result."""


class Task(NamedTuple):
    """A task and the functions that take its reports and its result: an exception if it fails, None if interrupted."""

    work: Work
    watch: Watch
    done: Callable[[Any], None]


def at_once(wanted: int, cores: int) -> int:
    """Return how many of `wanted` tasks run at once; 0 means two if there are two cores."""
    can_fork = "fork" in get_all_start_methods() and sys.platform != "darwin"  # system libraries there cannot
    return (wanted or min(2, cores)) if can_fork else 1


def run_tasks(tasks: Iterator[Task], n: int) -> None:
    """Do all tasks, `n` at a time; each is taken from `tasks` only when it begins, and is done in this order.

    An exception here, such as KeyboardInterrupt, ends the processes that are at work.
    """
    if n < 2:
        for task in tasks:
            task.done(_result(task.work, task.watch))
        return
    at_work: dict[Any, tuple[Task, Any]] = {}
    waiting: list[_Waiting] = []  # begun and not done, in order
    try:
        left = True
        while left or at_work:
            while left and len(at_work) < n:
                begun = next(tasks, None)
                left = begun is not None
                if begun is not None:
                    receiver, process = _start(begun.work)
                    at_work[receiver] = begun, process
                    waiting.append(_Waiting(begun, receiver))
            for receiver, found in _receive(at_work):
                next(one for one in waiting if one.receiver is receiver).found = [found]
            while waiting and waiting[0].found:
                waiting[0].task.done(waiting.pop(0).found[0])
    finally:
        for _, process in at_work.values():
            process.terminate()
            process.join()
        for one in waiting:
            if one.found and one.found[0] is not None:
                one.task.done(one.found[0])


@dataclass
class _Waiting:
    """A task that has begun; found: its result, empty before."""

    task: Task
    receiver: Any
    found: list[Any] = field(default_factory=list)


def _start(work: Work) -> tuple[Any, Any]:
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(work, sender, os.getpid()), daemon=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # functions that are called at a fork would swallow it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries; ours end with each call
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sender.close()
    return receiver, process


def _serve(work: Work, sender: Any, parent: int) -> None:
    def watch(report: Any) -> None:
        if os.getppid() != parent:  # killed
            os._exit(1)
        sender.send((False, report))

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        found = _result(work, watch)
    except KeyboardInterrupt:
        found = None
    sender.send((True, found))


def _result(work: Work, watch: Watch) -> Any:
    try:
        return work(watch)
    except Exception as error:  # whatever it is, other tasks may work
        return error


def _receive(at_work: dict[Any, tuple[Task, Any]]) -> Iterator[tuple[Any, Any]]:
    """Wait for what the processes send; hand on what they report and yield what came of those that end."""
    from multiprocessing import connection

    ready: list[Any] = connection.wait(list(at_work)) if at_work else []
    for receiver in ready:
        task, process = at_work[receiver]
        try:
            ended, found = receiver.recv()
        except EOFError:
            process.join()
            ended, found = True, RuntimeError(f"the process that trained it ended with code {process.exitcode}")
        if not ended:
            task.watch(found)
            continue
        del at_work[receiver]
        process.join()
        yield receiver, found
