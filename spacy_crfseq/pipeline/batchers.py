"""A batcher for spaCy's training configs: the whole epoch as one batch, for batch optimizers."""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..errors import DataError

Item = TypeVar("Item")


def create_full_batch() -> Callable[[Iterable[Item]], Iterator[list[Item]]]:
    """Return a batcher that yields all items as one batch (``spacy_crfseq.full_batch.v1``)."""
    return full_batch


def full_batch(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield all items as one batch.  RAISES DataError: If there are none, where spaCy would wait forever."""
    batch = list(items)
    if not batch:
        raise DataError(
            "spacy_crfseq.full_batch.v1 got no examples: the training corpus is empty. "
            "Check [corpora.train] and --paths.train."
        )
    yield batch
