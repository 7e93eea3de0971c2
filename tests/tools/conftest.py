"""Fixtures of tests of commands."""

import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

from tests.commands import configure, corpus, local, optimizers, paths, run, train_on, trained  # noqa: F401

LOADED = ("distributed", "numba", "spacy", "spacy_crfseq.tools.cluster.shards", "spacy_crfseq.tools.tag.tagger")
"""Modules that the workers of a cluster import, which takes two seconds."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield the client of a cluster of two workers, of a thread each, that are forks of a process with the package."""
    pytest.importorskip("distributed")
    import dask
    from distributed.utils import get_mp_context

    from spacy_crfseq.tools.cluster import connect

    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    with dask.config.set({"distributed.worker.multiprocessing-method": method}):
        if method == "forkserver":
            get_mp_context().set_forkserver_preload([*LOADED])
        with connect("local:2") as cluster:
            yield cluster.client
