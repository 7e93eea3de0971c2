"""From a stream of examples to numbers: ids of features, gold labels and weights, chunk by chunk.

No document is kept, so that a training set needs memory for its ids only, about fifty bytes per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example, validate_examples

from ..errors import ConfigError, NoExamplesError
from ..features.encoder import Columns, Encoded, Encoder, Ids, take_sequences
from ..features.index import BagStore, Growable
from ..training.compatibility import part_name
from ..training.dataset import Dataset
from ..types import MISSING, Ints, Loss, Offsets, TextLoss
from .evidence import Partial, weight_of
from .extract import DocColumns
from .gold import gold_tags, same_words
from .labels import PartialTable
from .tasks.base import Annotation

CHUNK_DOCS = 200
"""Documents compiled at a time."""

Read = Callable[[list[Doc], Sequence[str]], DocColumns]
"""Reads the columns that templates name from Docs."""


class EncodedCorpus(NamedTuple):
    """A compiled training set of `n_docs` documents.

    data (Dataset): Ids and gold labels; the labels are numbers of `tags`.
    known (Encoded): As `data.encoded`, with the columns that earlier components will set in training.
    tags (list[str]): The gold tags found, in the order of first appearance, then those that are only possible.
    absent (list[str]): Columns set on gold Docs but on no predicted Doc; `known` takes them from the gold Docs.
    unset (list[str]): Columns that features read, but that are on no predicted Doc.
    """

    data: Dataset
    known: Encoded
    tags: list[str]
    absent: list[str]
    unset: list[str]
    n_docs: int

    def take(self, sequences: Offsets) -> EncodedCorpus:
        """Return some sequences, in the given order."""
        data = self.data.take(sequences)
        same = self.known is self.data.encoded
        return self._replace(data=data, known=data.encoded if same else take_sequences(self.known, sequences)[0])


class _Texts:
    """Encoded texts of one encoder, joined as they come, so that no array is in memory twice."""

    def __init__(self) -> None:
        self._ids: list[Growable] = []
        self._stores: list[BagStore] = []
        self._inputs: list[tuple[NDArray[Any], ...]] = []
        self._offsets = Growable(np.int64)
        self._offsets.resize(1)

    def append(self, part: Encoded) -> None:
        arrays = [*part.unigrams[:2], *part.bigrams[:2], *([] if part.words is None else [part.words])]
        if not self._ids:
            self._ids = [Growable(np.int32, *ids.shape[1:]) for ids in arrays]
        for column, ids in zip(self._ids, arrays, strict=True):
            column.append(ids)
        self._inputs.append(part.inputs)
        self._stores = [part.unigrams.store, part.bigrams.store]
        self._offsets.append(self._offsets.array[-1] + part.offsets[1:])

    def copy(self) -> _Texts:
        return deepcopy(self, {id(store): store for store in self._stores})

    def joined(self) -> Encoded:
        for column in (*self._ids, self._offsets):
            column.trim()
        bags, attrs, bigram_bags, bigram_attrs, *rest = (column.array for column in self._ids)
        unigrams, bigrams = Ids(bags, attrs, self._stores[0]), Ids(bigram_bags, bigram_attrs, self._stores[1])
        inputs = tuple(np.concatenate(values) for values in zip(*self._inputs, strict=True))
        return Encoded(unigrams, bigrams, self._offsets.array, rest[0] if rest else None, inputs)


class Reading(NamedTuple):
    """How a component reads examples.

    read (Read): Reads the columns of predicted Docs.
    table (PartialTable): Numbers partial annotation of gold Docs, under the name of the component.
    read_by_functions (frozenset[str]): Columns that token functions read.
    loss (Loss | None): Of the examples; it may read them.
    labelled (bool): Whether gold labels are read; else all are missing.
    """

    annotation: Annotation
    read: Read
    table: PartialTable
    component: str
    read_by_functions: frozenset[str] = frozenset()
    loss: Loss | None = None
    labelled: bool = True


def encode_examples(examples: Iterable[Example], encoder: Encoder, reading: Reading) -> EncodedCorpus:
    """Compile all examples; an encoder that is not frozen collects their features, those of gold columns included.

    RAISES NoExamplesError: If there are no examples.
    """
    corpus, stream = _Corpus(encoder, reading), iter(examples)
    while chunk := list(islice(stream, CHUNK_DOCS)):
        validate_examples(chunk, "CRFComponent.initialize")
        corpus.add(chunk)
    return corpus.encoded()


class _Corpus:
    """A corpus that grows by chunks of examples."""

    def __init__(self, encoder: Encoder, reading: Reading) -> None:
        self._encoder, self._reading = encoder, reading
        self._numbers: dict[str | None, int] = {None: MISSING}
        self._known, self._gold, self._weights = _Texts(), Growable(np.int32), [np.ones(0)]
        self._seen: _Texts | None = None  # None as long as no column is missing: it equals `known` then
        self._absent: dict[str, None] = {}
        self._present: set[str] = set()
        self._inputs: list[NDArray[Any]] = []
        self._n_docs = 0

    def add(self, chunk: list[Example]) -> None:
        """Compile some examples."""
        encoder, loss = self._encoder, self._reading.loss
        docs = [example.predicted for example in chunk]
        columns = self._reading.read(docs, encoder.columns)
        text, missing = (columns.text, []) if encoder.frozen else self._with_gold(columns, chunk)
        self._absent.update(dict.fromkeys(missing))
        self._present.update(name for i, name in enumerate(encoder.columns) if columns.text.context[:, i].any())
        if missing and self._seen is None:
            self._seen = self._known.copy()
        encoded = encoder.encode(text)
        self._known.append(encoded)
        if self._seen is not None:
            # encoding the text as it is adds no feature: all its features occur with the column, too
            self._seen.append(encoder.encode(columns.text) if missing else encoded)
        if isinstance(loss, TextLoss):
            self._inputs.append(read_inputs(loss, docs, self._reading.component))
        self._gold.append(self._labels(chunk, encoded.n_tokens))
        self._weights.append(sequence_weights(chunk, columns))
        self._n_docs += len(chunk)

    def _with_gold(self, columns: DocColumns, chunk: list[Example]) -> tuple[Columns, list[str]]:
        """Return the text with columns of the gold Docs where the predicted ones have none, and their names."""
        encoder, reading = self._encoder, self._reading
        text, missing = _with_gold_columns(columns, chunk, encoder.columns, reading.annotation.writes)
        unset = _unset(chunk, reading.read_by_functions - reading.annotation.writes - {"NORM", "SPACY"})
        if unset and all(map(same_words, chunk)):
            gold_sets = reading.read([example.reference for example in chunk], encoder.columns).text.sets
            text, missing = text._replace(sets=gold_sets), [*missing, *unset]
        self._present.update(reading.read_by_functions - {*unset, *encoder.columns})
        return text, missing

    def _labels(self, chunk: list[Example], n_tokens: int) -> Ints:
        reading, numbers = self._reading, self._numbers
        if not reading.labelled:
            return np.full(n_tokens, MISSING, np.int32)
        tags = (tag for example in chunk for tag in gold_tags(reading.annotation, example, reading.component))
        return np.array(
            [
                reading.table.number(tag) if isinstance(tag, Partial) else numbers.setdefault(tag, len(numbers) - 1)
                for tag in tags
            ],
            np.int32,
        )

    def encoded(self) -> EncodedCorpus:
        """Return all examples.  RAISES NoExamplesError: If there are none."""
        if not self._n_docs:
            raise NoExamplesError("There are no training examples. Check [corpora.train] and [paths].")
        table = self._reading.table
        joined = self._known.joined()
        encoded = joined if self._seen is None else self._seen.joined()
        self._gold.trim()
        read_by_loss = np.concatenate(self._inputs) if self._inputs else None
        data = Dataset(encoded, self._gold.array, np.concatenate(self._weights), table.candidates, inputs=read_by_loss)
        never = [name for name in self._absent if name not in self._present]
        found = [tag for tag in self._numbers if tag is not None]
        unset = [name for name in self._encoder.columns if name not in {*self._present, "NORM", "SPACY"}]
        return EncodedCorpus(data, joined, found + table.new_tags(found), never, unset, self._n_docs)


def read_inputs(loss: TextLoss, docs: list[Doc], component: str) -> NDArray[Any]:
    """Return what a loss reads from Docs [T, ...].  RAISES ConfigError: If it does not have a row for each token."""
    inputs = loss.read(docs)
    check_rows(inputs, sum(map(len, docs)), f"{component}: the loss {part_name(loss)}")
    return inputs


def check_rows(found: NDArray[Any], n_tokens: int, what: str) -> None:
    """RAISES ConfigError: If `what` has not read a row for each token."""
    if len(found) != n_tokens:
        raise ConfigError(
            f"{what} read {len(found)} rows for {n_tokens} tokens; its function read(docs) must return one row a token."
        )


def sequence_weights(examples: Sequence[Example], columns: DocColumns) -> NDArray[np.float64]:
    """Return the weight of each sequence of the predicted Docs, which is that of its gold Doc."""
    weights = np.array([weight_of(example.reference) for example in examples], np.float64)
    return np.repeat(weights, np.diff(np.searchsorted(columns.text.offsets, columns.doc_offsets)))


def _unset(examples: Sequence[Example], columns: Iterable[str]) -> list[str]:
    return [name for name in sorted(columns) if not any(e.predicted.has_annotation(name) for e in examples)]


def _with_gold_columns(
    columns: DocColumns, examples: Sequence[Example], names: Sequence[str], answers: frozenset[str]
) -> tuple[Columns, list[str]]:
    """Return the text with the annotation of earlier components in training, and the columns taken from gold.

    A column that no predicted Doc has takes its gold values, so that its features are known when
    ``annotating_components`` set it.  They are no input of the training, and `answers` never are.
    """
    context = columns.text.context
    absent = [i for i, name in enumerate(names) if name not in answers and not context[:, i].any()]
    if not absent:
        return columns.text, []
    context = context.copy()
    for example, (begin, end) in zip(examples, pairwise(columns.doc_offsets.tolist()), strict=True):
        if same_words(example):
            values = example.reference.to_array([names[i] for i in absent])
            context[begin:end, absent] = values.reshape(end - begin, len(absent))
    return columns.text._replace(context=context), [names[i] for i in absent]
