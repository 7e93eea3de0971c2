"""Shards on the workers of a Dask cluster: where they are, sums over them, and a new start when workers die.

Each shard stays in the memory of one worker, which Dask moves to disk where it does not fit.  A call is repeated until
no worker has died in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from ...errors import ClusterError

TICK = 0.5
"""Seconds between two looks at the workers."""
RETURN = 10.0
"""Seconds that a worker has to come back, as a nanny restarts it, before others make its shards."""
WAIT = 120.0
"""Seconds that a cluster has to get a worker."""
FAILURES = 10
"""Attempts in a row that may fail."""
SLOW = 3.0
"""A worker that takes so many times as long as the median is reported."""

LOST = "The connection to the scheduler of the Dask cluster is lost."


@dataclass
class Share:
    """A value that all workers have, such as parameters; it is sent again when one of them has died.

    copies (dict): By the addresses of workers.
    losses (int): How many losses of workers it has seen.
    """

    value: Any
    copies: dict[str, Any] = field(default_factory=dict)
    losses: int = -1


class Summed(NamedTuple):
    """Results added over shards, and the seconds that each worker took."""

    values: tuple[Any, ...]
    seconds: dict[str, float]


Function = Callable[..., Any]
Arguments = Callable[[int], Sequence[Any]]


class Cluster:
    """The shards of one training set.

    client (Client): Of `distributed`.
    n_shards (int): Their number; they are spread evenly over the threads of the workers there are.
    report (Callable): Called with lines about workers that died or are slow.
    """

    def __init__(self, client: Any, n_shards: int, report: Callable[[str], None]) -> None:
        self._client, self._report, self.n_shards = client, report, n_shards
        self._steps: list[tuple[Function, Arguments]] = []
        self._futures: list[Any] = [None] * n_shards
        self._homes: list[str] = [""] * n_shards
        self._applied = [0] * n_shards  # how many of the steps each future has
        self._size = self._failures = self._losses = 0
        self._slow: set[str] = set()
        self._waiter = ThreadPoolExecutor(FAILURES + 1)  # a call that failed may still wait

    def make(self, function: Function, arguments: Arguments, done: Callable[[int], None] = lambda n: None) -> None:
        """Replace each shard by function(shard, *arguments(number)); the first call makes them from None.

        done (Callable): Called with the number of shards that are made, to show progress.
        RAISES CrfError: The first error that a shard has raised.
        """
        self._steps.append((function, arguments))
        self._repeated(lambda: [self._submit(_ready, number, one) for number, one in enumerate(self._futures)], done)
        done(self.n_shards)

    def each(self, function: Function, *arguments: Any) -> list[Any]:
        """Return function(shard, *arguments) of each shard."""
        return self._repeated(
            lambda: [self._submit(function, number, future, *arguments) for number, future in enumerate(self._futures)]
        )

    def sum(self, function: Function, theta: Any, *arguments: Any) -> tuple[Any, ...]:
        """Return the sum of function(shard, theta, *arguments), tuples, over all shards, element by element.

        Each worker adds up its shards; their sums are added in a tree, always in the same order.
        """
        shared = Share(theta)

        def submit() -> list[Any]:
            last: dict[str, Any] = {}
            for number, future in enumerate(self._futures):
                home = self._homes[number]
                last[home] = self._submit(_add_to, number, last.get(home), function, future, shared, *arguments)
            level = list(last.items())
            while len(level) > 1:
                pairs = zip(level[::2], level[1::2], strict=False)
                rest = level[len(level) // 2 * 2 :]
                level = [(one[0], self._on(one[0], _added, one[1], other[1])) for one, other in pairs] + rest
            return [level[0][1]]

        (found,) = self._repeated(submit)
        self._watch(found.seconds)
        values: tuple[Any, ...] = found.values
        return values

    def close(self) -> None:
        """Release all shards."""
        self._futures = []
        self._waiter.shutdown(wait=False)

    # Placing

    def _on(self, home: str, function: Function, *arguments: Any) -> Any:
        given = [self._copies(argument)[home] if isinstance(argument, Share) else argument for argument in arguments]
        return self._client.submit(function, *given, workers=[home], pure=False)

    def _submit(self, function: Function, number: int, *arguments: Any) -> Any:
        return self._on(self._homes[number], function, *arguments)

    def _copies(self, share: Share) -> dict[str, Any]:
        """Return the copies of a value on all workers, which they make in a tree.

        Dask's own broadcast never ends if a worker dies in it, nor do later ones.
        """
        if share.losses < self._losses:
            homes = list(dict.fromkeys(self._homes))
            share.losses, copies = self._losses, [self._sent(homes[0], share.value)]
            for number, home in enumerate(homes[1:], start=1):
                parent, is_leaf = copies[(number - 1) // 2], 2 * number + 1 >= len(homes)
                copies.append(parent if is_leaf else self._on(home, _same, parent))  # a task fetches what it needs
            share.copies = dict(zip(homes, copies, strict=True))
        return share.copies

    def _sent(self, home: str, value: Any) -> Any:
        scatter = partial(self._client.scatter, [value], workers=[home], hash=False, direct=False)
        try:
            return self._awaited(scatter)[0]
        except (OSError, KeyError) as error:  # of the scheduler, about a worker that it cannot reach or has given up
            raise _WorkerLostError(type(error).__name__) from error

    def _settle(self) -> None:
        """Give the shards of workers that have died to others, and make them there."""
        living, until = alive(self._client), monotonic()
        while not living or (len(living) < self._size and monotonic() < until + RETURN):
            if monotonic() > until + WAIT:
                raise ClusterError(f"The Dask cluster has had no worker for {WAIT:.0f} seconds.")
            sleep(TICK)
            living = alive(self._client)
        self._size, loads = len(living), Counter(dict.fromkeys(living, 0))
        loads.update(home for home in self._homes if home in living)
        for number, home in enumerate(self._homes):
            if home not in living:
                self._homes[number] = min(living, key=lambda worker: (loads[worker] + 1) / living[worker])
                loads[self._homes[number]] += 1
                self._losses += 1
            future = self._futures[number]
            if home not in living or future is None or future.status in ("lost", "cancelled", "error"):
                self._futures[number], self._applied[number] = None, 0
        for number, done in enumerate(self._applied):
            for function, arguments in self._steps[done:]:
                self._futures[number] = self._submit(function, number, self._futures[number], *arguments(number))
                self._applied[number] += 1

    # Waiting

    def _repeated(self, submit: Callable[[], list[Any]], done: Callable[[int], None] = lambda n: None) -> list[Any]:
        """Return the results of what `submit` starts; start again if workers die, as they do."""
        while True:
            try:
                self._settle()
                results = self._gathered(submit(), done)
                self._failures = 0
                return results
            except _WorkerLostError as error:
                self._failures, self._losses = self._failures + 1, self._losses + 1
                if self._failures >= FAILURES:
                    raise ClusterError(
                        f"Workers of the Dask cluster have died {FAILURES} times in a row ({error}), perhaps for lack "
                        "of memory: give them more, or use more of them."
                    ) from error
                sleep(TICK)
                alive(self._client)  # raises an error if the scheduler is lost, too
                self._report(f"A worker was lost ({error}); its part is computed anew")

    def _gathered(self, futures: list[Any], done: Callable[[int], None]) -> list[Any]:
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        def look() -> None:
            if (ready := sum(future.done() for future in futures)) < len(futures):
                done(ready)

        try:
            results: list[Any] = self._awaited(partial(self._client.gather, futures), look)
            return results
        except BaseException as error:
            if self._client.status == "running":
                self._client.cancel(futures, force=True)
            if isinstance(error, CancelledError):  # a shard that has lost its arguments stays pending
                self._futures = [one if one.status == "finished" else None for one in self._futures]
            if isinstance(error, CancelledError | KilledWorker | CommClosedError | TimeoutError):
                raise _WorkerLostError(type(error).__name__) from error
            raise

    def _awaited(self, call: Callable[[], Any], look: Callable[[], None] = lambda: None) -> Any:
        """Return the result of a call, which may hang if workers die.  RAISES _WorkerLostError: If they do."""
        homes, waiting = set(self._homes), self._waiter.submit(call)
        while not wait([waiting], TICK).done:
            look()
            if gone := homes - alive(self._client).keys():
                raise _WorkerLostError(", ".join(sorted(gone)))
        return waiting.result()

    def _watch(self, seconds: dict[str, float]) -> None:
        """Report a worker that is much slower than the others, once."""
        usual = float(np.median(list(seconds.values())))
        for worker, own in seconds.items():
            if own > max(1.0, SLOW * usual) and worker not in self._slow:
                self._slow.add(worker)
                self._report(f"The worker {worker} takes {own:.1f} s for its part, the others about {usual:.1f} s")


def alive(client: Any) -> dict[str, int]:
    """Return the workers and their threads.  RAISES ClusterError: If the scheduler does not answer."""
    try:
        if client.status == "running":
            return dict(client.nthreads())
    except Exception as error:  # of the network or of the client, which are many
        raise ClusterError(LOST) from error
    raise ClusterError(LOST)


class _WorkerLostError(Exception):
    """A worker has died during a call."""


def await_result(client: Any, future: Any, name: str) -> Any:
    """Return the result of a task, which another worker begins anew if one dies.

    name (str): What the task works on, for messages.
    RAISES CrfError: What the task raises; `ClusterError` if scheduler or workers are lost.
    """
    from distributed import CancelledError, KilledWorker

    heard = monotonic()
    while True:
        try:
            return future.result(timeout=TICK)
        except TimeoutError:
            if alive(client):
                heard = monotonic()
            elif monotonic() > heard + WAIT:
                raise ClusterError(f"The Dask cluster has had no worker for {WAIT:.0f} seconds.") from None
        except KilledWorker:
            raise ClusterError(f"{name}: workers die of it, perhaps for lack of memory.") from None
        except CancelledError as error:
            raise ClusterError(LOST) from error
        except OSError:
            alive(client)  # raises an error if the scheduler is lost
            raise


# On workers


def _ready(shard: Any) -> bool:
    return shard is not None


def _same(value: Any) -> Any:
    return value


def _add_to(so_far: Summed | None, function: Function, shard: Any, theta: Any, *arguments: Any) -> Summed:
    from distributed import get_worker

    began = perf_counter()
    values = function(shard, theta, *arguments)
    summed = Summed(values, {get_worker().address: perf_counter() - began})
    return summed if so_far is None else _added(so_far, summed)


def _added(first: Summed, other: Summed) -> Summed:
    values = tuple(a + b for a, b in zip(first.values, other.values, strict=True))
    return Summed(values, dict(Counter(first.seconds) + Counter(other.seconds)))
