"""Several long calls at once, each in a forked process that shares what the parent has in memory.

Where processes cannot be forked, or for one call at a time, they run one after another in this process.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from multiprocessing import get_all_start_methods, get_context
from typing import Any, TypeAlias

from ...threads import available

Call: TypeAlias = Callable[[], Any]


def at_once(wanted: int) -> int:
    """Return how many of `wanted` calls run at once; 0 means two if there are two cores."""
    can_fork = "fork" in get_all_start_methods() and sys.platform != "darwin"  # system libraries there cannot
    return (wanted or min(2, available())) if can_fork else 1


def run_calls(calls: Iterator[tuple[Any, Call]], n: int) -> Generator[tuple[Any, Any], None, None]:
    """Yield the name of each call, and its result or the exception that it raised, as they end; `n` run at a time.

    A call is taken from `calls` only when it begins.  Whoever leaves the iteration ends the processes at work.
    """
    if n < 2:
        for name, call in calls:
            yield name, _result(call)
        return
    from multiprocessing import connection

    at_work: dict[Any, tuple[Any, Any]] = {}
    try:
        while True:
            while len(at_work) < n and (begun := next(calls, None)) is not None:
                receiver, process = _start(begun[1])
                at_work[receiver] = begun[0], process
            if not at_work:
                return
            ready: list[Any] = connection.wait(list(at_work))
            for receiver in ready:
                name, process = at_work[receiver]
                try:
                    result = receiver.recv()
                except EOFError:
                    process.join()
                    result = RuntimeError(f"the process that trained it ended with code {process.exitcode}")
                del at_work[receiver]
                process.join()
                yield name, result
    finally:
        for _, process in at_work.values():
            process.terminate()
            process.join()


def end_with_parent(parent: int) -> None:
    """End a process whose parent was killed; to be called now and then."""
    if parent not in (os.getpid(), os.getppid()):
        os._exit(1)


def _start(call: Call) -> tuple[Any, Any]:
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(_result(call)), daemon=True)
    # functions that are called at a fork would swallow Ctrl-C; the child inherits the mask, its parent ends it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries; ours end with each call
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sender.close()
    return receiver, process


def _result(call: Call) -> Any:
    try:
        return call()
    except Exception as error:  # whatever it is, other calls may work
        return error
