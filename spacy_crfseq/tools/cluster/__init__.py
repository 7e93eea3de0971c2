"""A Dask cluster at an address, or of processes on this machine: training and tagging there (``--dask``)."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import ClusterError, ConfigError
from .workers import gather, submit

if TYPE_CHECKING:
    from .shards import Shards

LOCAL = "local:"
TIMEOUT = 30
"""Seconds that a scheduler has to answer."""
AHEAD = 2
"""Items of a map that each thread is given before the first of them is done."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Dask:
    """A cluster; implements `pipeline.clusters.Cluster`.

    client (Client): Of `distributed`.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(self, function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
        """See `Cluster.map`; an item has its file under `source`."""
        client, waiting = self.client, deque[tuple[Any, str]]()

        def first() -> Result:
            future, name = waiting[0]
            result: Result = gather(client, [future], name)[0]
            waiting.popleft()
            return result

        try:
            for item in items:
                waiting.append((submit(client, function, item), str(getattr(item, "source", "A part"))))
                if len(waiting) > AHEAD * (sum(client.nthreads().values()) or 1):
                    yield first()
            while waiting:
                yield first()
        finally:
            if client.status == "running":
                client.cancel([future for future, _ in waiting], force=True)

    def training(self, facts: Mapping[str, str], code: Path | None, made: Callable[[int, int], None]) -> Shards:
        """See `Cluster.training`."""
        from .shards import Shards

        return Shards(self.client, facts, None if code is None else str(code.absolute()), made)


def _block_interrupts(blocks: bool) -> None:
    """Let Ctrl-C wait while a cluster starts; processes that it starts inherit this, and a terminal sends it to all."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if blocks else signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def connect(where: Any) -> Iterator[Dask]:
    """Yield the cluster of a client, that at an address, or for "local:N" one of N new processes of one thread each.

    RAISES ConfigError: If dask is not installed, or no scheduler answers.
    RAISES ClusterError: If the new processes do not start.
    """
    if not isinstance(where, str):
        yield Dask(where)
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigError("--dask needs Dask, which is not installed. Run: pip install 'spacy-crfseq[dask]'") from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it logs what is raised here
    if where.startswith(LOCAL):
        number = where.removeprefix(LOCAL)
        if not number.isdecimal() or not int(number):
            raise ConfigError(f"--dask {where}: give a number of processes, such as local:2.")
        settings: dict[str, Any] = {"n_workers": int(number), "threads_per_worker": 1, "dashboard_address": ":0"}
        ensure_running()  # when it starts, it unblocks signals
        _block_interrupts(True)
        try:
            cluster = LocalCluster(**settings, silence_logs=logging.CRITICAL)
        except RuntimeError as error:
            _block_interrupts(False)
            raise ClusterError(
                f"--dask {where}: processes have ended while they started ({error}) Give fewer if memory is short."
            ) from error
        with cluster, Client(cluster, direct_to_workers=True) as client:
            _block_interrupts(False)
            cluster.adapt(minimum=int(number), maximum=int(number))  # replaces what no nanny restarts
            yield Dask(client)
        return
    try:
        client = Client(where, timeout=TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"--dask {where}: no Dask scheduler answers ({error}). Start one with 'dask scheduler', and workers with "
            f"'dask worker {where}'."
        ) from error
    with client:
        yield Dask(client)
