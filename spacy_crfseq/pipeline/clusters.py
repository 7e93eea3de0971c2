"""The contract with a Dask cluster: other processes, perhaps on other machines, that train and annotate.

`tools/cluster/` keeps it.  Nothing here imports that: an entry point of the group ``spacy_crfseq_dask`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import ConfigError

if TYPE_CHECKING:
    from .encode import Remote

GROUP = "spacy_crfseq_dask"
Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster(Protocol):
    """Other processes that annotate and train."""

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


def connected(where: Any) -> AbstractContextManager[Cluster]:
    """Return a context with the Dask cluster of a client, or at an address; ``local:N`` starts N processes here.

    RAISES ConfigError: If Dask is not installed, or no scheduler answers.
    """
    try:
        entry = next(iter(entry_points(group=GROUP)))
        connect: Callable[[Any], AbstractContextManager[Cluster]] = entry.load()
    except (ImportError, StopIteration) as error:
        raise ConfigError(
            "--dask: nothing is installed that works on a cluster. Run: pip install 'spacy-crfseq[dask]'"
        ) from error
    return connect(where)
