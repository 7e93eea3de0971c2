"""Clusters: other processes, perhaps on other machines, that train and annotate; and how commands find one.

A kind of cluster is an entry point of the group ``spacy_crfseq_clusters``: a function that connects to the cluster at
an address, or of a client, and returns a context with a `Cluster`.  Its name is an option of ``fit`` and ``tag``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import ConfigError

if TYPE_CHECKING:
    from .encode import Remote

GROUP = "spacy_crfseq_clusters"
Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster(Protocol):
    """What a cluster can do."""

    def map(self, function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
        """Yield the results for all items in their order; what a worker has begun is done by another if it dies.

        RAISES ClusterError: If the cluster is lost.
        """

    def training(self, facts: Mapping[str, str], code: Path | None, made: Callable[[int, int], None]) -> Remote:
        """Return the training of a component there.

        facts (Mapping): Of an earlier run to continue, see `Remote.facts`; empty for a new one.
        code (Path | None): A Python file that workers import first.
        made (Callable): Called with the number of parts of the corpora that are encoded, and of all.
        """


class Place(NamedTuple):
    """Where a cluster is: its kind, such as "dask", and an address or a client."""

    kind: str
    where: Any


def connected(place: Place) -> AbstractContextManager[Cluster]:
    """Return a context with the cluster.

    RAISES ConfigError: If nothing is installed for clusters of this kind, or none answers.
    """
    try:
        entry = next(iter(entry_points(group=GROUP, name=place.kind)))
        connect: Callable[[Any], AbstractContextManager[Cluster]] = entry.load()
    except (ImportError, StopIteration) as error:
        raise ConfigError(
            f"--{place.kind}: nothing is installed that works on such a cluster (an entry point of {GROUP}). "
            f"Run: pip install 'spacy-crfseq[{place.kind}]'"
        ) from error
    return connect(place.where)
