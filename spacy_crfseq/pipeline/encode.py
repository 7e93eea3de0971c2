"""From examples to numbers: the features of the predicted Docs, the gold labels and weights of the gold Docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from ..features.attributes import TOKEN_COLUMNS
from ..features.documents import APART
from ..features.encoder import FrozenEncoder, GrowingEncoder
from ..features.noted import hash_of
from ..training.compatibility import check_candidates, check_distributions, part_name
from ..training.dataset import Dataset
from ..types import Ints, Loss, NetworkPotential, TextLoss
from .doc_model import DocModel
from .evidence import weight_of
from .labels import PartialTable, gold_evidence, gold_tags
from .prediction import DocColumns, check_rows
from .soft_labels import read_soft_labels
from .white_space import is_space, words_of, wordwise


class ExampleEncoder(NamedTuple):
    """Encodes the examples of a training.

    encoder (GrowingEncoder | FrozenEncoder): Of all texts, which can be joined.
    partials (PartialTable): Partial knowledge about gold tokens.
    strings (dict | None): The strings that features are made of, while they are collected.
    first (DocModel | None): The first stage that comes with the model to be; None for that of the model.
    held_out (Mapping): Labels of training Docs, by their keys, from first stages that have not seen them.
    """

    encoder: GrowingEncoder | FrozenEncoder
    partials: PartialTable
    strings: dict[int, str] | None = None
    first: DocModel | None = None
    held_out: Mapping[int, Ints] = {}

    def read(self, model: DocModel, docs: list[Doc], columns: Sequence[str], networks: bool = False) -> DocColumns:
        """Return the columns of training Docs, with labels that are held out.

        networks (bool): Read the scores of networks, too, which training steps compute.
        """
        reader = model.reader(self.strings)._replace(held_out=self.held_out)
        if self.first is not None:
            reader = reader._replace(first=self.first.current() if self.first.has_weights else None)
        if not networks and model.networks:
            potentials = {
                name: None if isinstance(potential, NetworkPotential) else potential
                for name, potential in reader.potentials.items()
            }
            reader = reader._replace(potentials=potentials)
        model.vocab_in_use.use(docs)
        return reader.read(docs, columns)

    def compile(self, model: DocModel, examples: Sequence[Example], networks: bool = False) -> list[Dataset]:
        """Return each example as a data set in the numbers of a model, whose encoder this is; `networks` as in `read`.

        RAISES ConfigError: If the loss of the model cannot learn from the labels.
        """
        loss, docs = model.method.loss, [example.predicted for example in examples]
        columns = self.read(model, docs, self.encoder.columns, networks)
        encoded = self.encoder.encode(columns.text)
        spaces = has_space(columns, examples)
        of_examples = (gold_tags(model.annotation, example, model.name, spaces=spaces) for example in examples)
        tags = [*columns.only_words(chain.from_iterable(of_examples))]
        gold, weights = model.labels.numbers(tags, self.partials), sequence_weights(examples, columns)
        inputs = read_inputs(loss, columns, examples, model.name) if isinstance(loss, TextLoss) else None
        whole = Dataset(encoded, gold, weights, self.partials, inputs=inputs)
        resolve_candidates(model, whole, loss, self.partials)
        bounds = np.searchsorted(encoded.offsets, columns.doc_offsets)
        return [whole.slice(int(first), int(last)) for first, last in pairwise(bounds)]


def resolve_candidates(model: DocModel, data: Dataset, loss: Loss, partials: PartialTable) -> None:
    """Bring the candidate sets of data up to date.  RAISES ConfigError: If the loss cannot learn from them."""
    if data.has_candidates:
        check_candidates(model.name, loss, model.method.optimizer)
        partials.resolve(model.labels.tags)
        if data.has_distributions:
            check_distributions(model.name, loss)


def has_space(columns: DocColumns, examples: Sequence[Example]) -> bool:
    """Whether predicted or gold Docs have white space, given the columns of the predicted ones."""
    return columns.gaps is not None or bool(is_space([example.reference for example in examples]).any())


def read_inputs(loss: TextLoss, columns: DocColumns, examples: Sequence[Example], component: str) -> NDArray[Any]:
    """Return the inputs [T, ...] that a loss reads from texts, given the columns of their predicted Docs.

    RAISES ConfigError: If it does not have a row for each token.
    RAISES DataError: If it cannot learn from them.
    """
    docs = [*columns.without_space([example.predicted for example in examples])]
    inputs = loss.read(docs, [*words_of([example.reference for example in examples])])
    check_rows(inputs, sum(map(len, docs)), f"{component}: the loss {part_name(loss)}")
    return inputs


def sequence_weights(examples: Sequence[Example], columns: DocColumns) -> NDArray[np.float64]:
    """Return the weight of each sequence of the predicted Docs, which is that of its gold Doc."""
    weights = np.array([weight_of(example.reference) for example in examples], np.float64)
    return np.repeat(weights, np.diff(np.searchsorted(columns.text.offsets, columns.doc_offsets)))


def content_key(model: DocModel, example: Example) -> int:
    """Return a hash of the content of an example: words, token columns, gold labels and weight."""
    evidence = gold_evidence(model.annotation, example.reference, model.name)
    soft = read_soft_labels(example.reference, model.name)
    example = wordwise(example)
    reference = example.reference
    has_functions = bool(model.features.set_names)  # they may read anything, most likely these columns
    read = TOKEN_COLUMNS if has_functions else model.encoder.columns
    return hash((
        example.predicted.to_array(["ORTH", "SENT_START", *read]).tobytes(),
        (hash_of(example.predicted), APART in example.predicted.user_data) if has_functions else 0,
        reference.to_array(["ORTH"]).tobytes(),
        model.annotation.gold_content(reference),
        repr((evidence.spans, sorted(evidence.allowed.items()), soft)),
        weight_of(reference),
    ))  # fmt: skip
