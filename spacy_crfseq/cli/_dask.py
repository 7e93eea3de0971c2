"""The option --dask: a cluster at an address, or one of processes on this machine."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.resource_tracker import ensure_running
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..errors import ClusterError, ConfigError

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local:"
Dask: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Dask scheduler to work on, such as tcp://host:8786; local:N starts N processes",
    ),
]
TIMEOUT = 30
"""Seconds that a scheduler has to answer."""


def _block_interrupts(blocks: bool) -> None:
    """Let Ctrl-C wait while a cluster starts; processes that it starts inherit this, and a terminal sends it to all."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if blocks else signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Yield a client of the cluster at an address, or of N new processes of one thread each for "local:N".

    RAISES ConfigError: If dask is not installed, or no scheduler answers.
    RAISES ClusterError: If the new processes do not start.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigError("--dask needs Dask, which is not installed. Run: pip install 'spacy-crfseq[dask]'") from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it logs what is raised here
    if address.startswith(LOCAL):
        number = address.removeprefix(LOCAL)
        if not number.isdecimal() or not int(number):
            raise ConfigError(f"--dask {address}: give a number of processes, such as local:2.")
        settings: dict[str, Any] = {"n_workers": int(number), "threads_per_worker": 1, "dashboard_address": ":0"}
        ensure_running()  # when it starts, it unblocks signals
        _block_interrupts(True)
        try:
            cluster = LocalCluster(**settings, silence_logs=logging.CRITICAL)
        except RuntimeError as error:
            _block_interrupts(False)
            raise ClusterError(
                f"--dask {address}: processes have ended while they started ({error}) Give fewer if memory is short."
            ) from error
        with cluster, Client(cluster, direct_to_workers=True) as client:
            _block_interrupts(False)
            cluster.adapt(minimum=int(number), maximum=int(number))  # replaces what no nanny restarts
            yield client
        return
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"--dask {address}: no Dask scheduler answers ({error}). Start one with 'dask scheduler', and workers with "
            f"'dask worker {address}'."
        ) from error
    with client:
        yield client
