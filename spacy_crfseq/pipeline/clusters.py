"""The contract with a Dask cluster: other processes, perhaps on other machines, that train and annotate.

`tools/cluster/` implements it.  Nothing here imports that: an entry point of the group ``spacy_crfseq_dask`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import ConfigError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

    from ..training.objective import Objective
    from ..types import Optimizer
    from .doc_model import DocModel

GROUP = "spacy_crfseq_dask"
Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster(Protocol):
    """Other processes that annotate and train."""

    def map(self, function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
        """Yield the results for all items in their order; another worker does the work of one that dies.

        RAISES ClusterError: If the cluster is lost.
        """

    def training(self, facts: Mapping[str, str], code: Path | None, made: Callable[[int, int], None]) -> Remote:
        """Return the training of a component there.

        facts (Mapping): Of an earlier run to continue, see `Remote.facts`; empty for a new one.
        code (Path | None): A Python file that workers import first.
        made (Callable): Called with the number of parts of the corpora that are encoded, and of all.
        """


class Workers(NamedTuple):
    """The workers of a Dask cluster.

    where (str | Client): Its address, or a client, see `connected`.
    code (Path | None): A Python file that workers import first.
    """

    where: Any
    code: Path | None = None


class RemoteTags(NamedTuple):
    """The gold tags of the corpora on other machines: of the training corpus, and of each term."""

    corpus: Sequence[str]
    terms: Mapping[str, Sequence[str]]


class Remote(Protocol):
    """The training of a component on other machines, which have its texts."""

    def encode(
        self,
        model: DocModel,
        nlp: Language | None,
        examples: Iterable[Example],
        annotators: Sequence[Any],
        report: Callable[[str], None],
    ) -> RemoteTags:
        """Encode the corpora of a config there.

        examples (Iterable[Example]): The training corpus as this process would read it, which is told its size.
        annotators (Sequence[Any]): Earlier components, which annotate the texts there.
        report (Callable): Called with lines of progress.
        RAISES ConfigError: If the component cannot be trained there.
        """

    def start(self, model: DocModel) -> None:
        """Begin with a model of zero weights for the tags that were set."""

    def objective(self, model: DocModel, report: Callable[[str], None]) -> Objective:
        """Return the objective over all texts."""

    def optimizer(self, optimizer: Optimizer, component: str) -> Optimizer:
        """Return an optimizer for this objective."""

    def facts(self) -> dict[str, str]:
        """Return the facts that must be the same where a run continues."""

    def finish(self, model: DocModel) -> None:
        """Give the names of features to a trained model, and release the texts."""


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
