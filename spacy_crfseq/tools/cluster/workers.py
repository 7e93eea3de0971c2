"""Shards as futures of Dask, and sums over them.

Each shard prefers the worker that it was given first, and lies in the memory of whichever has it; Dask moves it to disk
where memory is short.  When a worker dies, Dask makes again on others what it held, by the tasks that led there.  Only
parameters are no result of a task, so the scheduler keeps none of them: a sum that has lost them begins again.  The
order of additions does not depend on who does them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias

from ...errors import ClusterError

TICK = 0.5
"""Seconds between two looks at the workers."""
WAIT = 120.0
"""Seconds that a cluster has to get a worker."""
ATTEMPTS = 10
"""Sums in a row that may lose their parameters."""
LOST = "The connection to the scheduler of the Dask cluster is lost."

Function: TypeAlias = Callable[..., Any]


class Summed(NamedTuple):
    """Results added over shards, element by element."""

    values: tuple[Any, ...]


class ShardFutures:
    """The shards of one training set, functions of which run on the workers of a Dask cluster.

    client (Client): Of `distributed`.
    n_shards (int): Their number; they are spread evenly over the threads of the workers there are.
    report (Callable): Called with lines about workers that died.
    """

    def __init__(self, client: Any, n_shards: int, report: Callable[[str], None]) -> None:
        self._client, self._report, self.n_shards = client, report, n_shards
        self._futures: list[Any] = [None] * n_shards
        self._threads = wait_for_workers(client)
        self._homes = spread([""] * n_shards, self._threads)
        self._groups = list(self._homes)  # what is added up together, whoever does it

    def make(
        self, function: Function, arguments: Callable[[int], Sequence[Any]], done: Callable[[int], None] | None = None
    ) -> None:
        """Replace each shard by function(shard, *arguments(number)); the first call makes them from None.

        done (Callable | None): Called with the number of shards that are made, to show progress.
        RAISES CrfError: The first error that a shard has raised.
        """
        made = [
            self._submit(number, function, future, *arguments(number)) for number, future in enumerate(self._futures)
        ]
        self._gather([self._submit(number, _nothing, future) for number, future in enumerate(made)], done)
        self._futures = made

    def each(self, function: Function, *arguments: Any) -> list[Any]:
        """Return function(shard, *arguments) of each shard."""
        return self._gather([self._submit(n, function, future, *arguments) for n, future in enumerate(self._futures)])

    def sum(self, function: Function, theta: Any, *arguments: Any) -> tuple[Any, ...]:
        """Return the sum of function(shard, theta, *arguments), tuples, over all shards, element by element.

        The shards that began on one worker are added up one after another; these sums are added in a tree.
        """
        for _ in range(ATTEMPTS):
            self._follow_workers()
            try:
                return self._summed(function, theta, *arguments)
            except _LostArgumentError:
                sleep(TICK)
        raise ClusterError(
            f"Workers of the Dask cluster have died {ATTEMPTS} times in a row, perhaps for lack of memory: give them "
            "more, or use more of them."
        )

    def _summed(self, function: Function, theta: Any, *arguments: Any) -> tuple[Any, ...]:
        copies, last = self._copies(theta), dict[str, tuple[int, Any]]()
        for number, (group, shard) in enumerate(zip(self._groups, self._futures, strict=True)):
            so_far = last.get(group, (0, None))[1]
            copy = copies[self._homes[number]]
            last[group] = number, self._submit(number, _add_to, so_far, function, shard, copy, *arguments)
        level = list(last.values())
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            rest = level[len(level) // 2 * 2 :]
            level = [(own[0], self._submit(own[0], _added, own[1], other[1])) for own, other in pairs] + rest
        (total,) = self._gather([level[0][1]])
        values: tuple[Any, ...] = total.values
        return values

    def share(self, value: Any) -> Any:
        """Return a future of a value for all shards."""
        return submit(self._client, _same, value)

    def close(self) -> None:
        """Release all shards."""
        self._futures = []

    def _submit(self, number: int, function: Function, *arguments: Any) -> Any:
        """Return the future of a call that prefers the home of a shard."""
        return submit(self._client, function, *arguments, workers=[self._homes[number]], allow_other_workers=True)

    def _follow_workers(self) -> None:
        """Move shards where workers have come or gone: Dask makes those anew that are lost, but evens out none."""
        threads = wait_for_workers(self._client)
        if threads == self._threads:
            return
        if gone := self._threads.keys() - threads.keys():
            self._report(f"Workers were lost ({', '.join(sorted(gone))}); their parts are made anew")
        old, self._threads, self._homes = self._homes, threads, spread(self._homes, threads)
        for number, (before, now) in enumerate(zip(old, self._homes, strict=True)):
            if before != now:
                self._futures[number] = self._submit(number, _same, self._futures[number])

    def _copies(self, value: Any) -> dict[str, Any]:
        """Return the copies of a value by homes, which make them of each other in a tree."""
        numbers = {home: number for number, home in reversed(list(enumerate(self._homes)))}
        try:
            copies = self._client.scatter([value], workers=[next(iter(numbers))], hash=False, direct=False)
        except (OSError, KeyError) as error:  # of the scheduler, about a worker that has just died
            alive(self._client)
            raise _LostArgumentError from error
        for place, number in list(enumerate(numbers.values()))[1:]:
            parent, is_leaf = copies[(place - 1) // 2], 2 * place + 1 >= len(numbers)
            copies.append(parent if is_leaf else self._submit(number, _same, parent))  # a task fetches what it needs
        return dict(zip(numbers, copies, strict=True))

    def _gather(self, futures: Sequence[Any], done: Callable[[int], None] | None = None) -> list[Any]:
        return gather(self._client, futures, "The training corpus", done)


def spread(homes: Sequence[str], threads: Mapping[str, int]) -> list[str]:
    """Return a worker for each shard, evenly by their threads; the present ones stay where they can.

    homes (Sequence[str]): Present workers, "" or one that is gone for none.
    threads (Mapping[str, int]): The numbers of threads of all workers.
    """
    most = {worker: -(-len(homes) * n // sum(threads.values())) for worker, n in threads.items()}
    loads, stay = Counter[str](), list[bool]()
    for home in homes:
        stay.append(loads[home] < most.get(home, 0))
        loads[home] += stay[-1]
    assigned = list[str]()
    for home, stays in zip(homes, stay, strict=True):
        assigned.append(home if stays else min(threads, key=lambda worker: (loads[worker] + 1) / threads[worker]))
        loads[assigned[-1]] += not stays
    return assigned


class _LostArgumentError(Exception):
    """The worker with an argument of a call has died."""


def submit(client: Any, function: Function, *arguments: Any, **settings: Any) -> Any:
    """Return the future of a call; large arguments, such as a pipeline, go through the scheduler without a warning.

    RAISES ClusterError: If the scheduler is lost.
    """
    if client.status != "running":
        raise ClusterError(LOST)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return client.submit(function, *arguments, **settings, pure=False)


def gather(client: Any, futures: Sequence[Any], name: str, done: Callable[[int], None] | None = None) -> list[Any]:
    """Return the results of tasks, which other workers begin anew if one dies.

    name (str): What the tasks work on, for messages.
    done (Callable | None): Called now and then with the number of tasks that have ended.
    RAISES CrfError: What a task raises; `ClusterError` if scheduler or workers are lost.
    """
    from distributed import CancelledError, KilledWorker, wait

    try:
        while not any(future.status == "error" for future in futures):
            try:
                wait(futures, timeout=TICK)
                break
            except TimeoutError:
                wait_for_workers(client)
            if done is not None:
                done(sum(future.done() for future in futures))
        results: list[Any] = client.gather(futures)
        if done is not None:
            done(len(futures))
        return results
    except KilledWorker as error:
        raise ClusterError(f"{name}: workers die of it, perhaps for lack of memory.") from error
    except CancelledError as error:
        alive(client)  # raises an error if the scheduler is lost
        raise _LostArgumentError from error
    except OSError:
        alive(client)  # raises an error if the scheduler is lost
        raise
    finally:
        if client.status == "running":
            client.cancel([future for future in futures if not future.done()], force=True)


def alive(client: Any) -> dict[str, int]:
    """Return the workers and their threads.  RAISES ClusterError: If the scheduler does not answer."""
    try:
        if client.status == "running":
            return dict(client.nthreads())
    except Exception as error:  # of the network or of the client, which are many
        raise ClusterError(LOST) from error
    raise ClusterError(LOST)


def wait_for_workers(client: Any) -> dict[str, int]:
    """Return the workers and their threads, at least one.  RAISES ClusterError: If there is none for `WAIT`."""
    until = monotonic() + WAIT
    while not (living := alive(client)):
        if monotonic() > until:
            raise ClusterError(f"The Dask cluster has had no worker for {WAIT:.0f} seconds.")
        sleep(TICK)
    return living


# On workers


def _nothing(shard: Any) -> None:
    """Return nothing once a shard is made, which stays where it is."""


def _same(value: Any) -> Any:
    return value


def _add_to(so_far: Summed | None, function: Function, shard: Any, theta: Any, *arguments: Any) -> Summed:
    summed = Summed(function(shard, theta, *arguments))
    return summed if so_far is None else _added(so_far, summed)


def _added(first: Summed, other: Summed) -> Summed:
    return Summed(tuple(a + b for a, b in zip(first.values, other.values, strict=True)))
