"""A Dask cluster of two processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield the client of a cluster of two workers of one thread each."""
    pytest.importorskip("distributed")
    from spacy_crfseq.tools.cluster import connect

    with connect("local:2") as cluster:
        yield cluster.client


def kill_worker(client: Any) -> None:
    """Kill one of the workers, which a nanny starts anew."""
    pids = [nanny.pid for nanny in client.cluster.workers.values() if nanny.pid]
    os.kill(pids[0], signal.SIGKILL)
