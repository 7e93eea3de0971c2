"""From a stream of examples to numbers: ids of features, gold labels and weights, chunk by chunk.

No document is kept, so that a training set needs memory for its ids only, some twenty bytes per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import minibatch

from ..errors import NoExamplesError
from ..features.encoder import Columns, Encoded, Encoder, Ids, take_sequences
from ..features.index import Growable, Packed
from ..training.compatibility import part_name
from ..training.dataset import Dataset
from ..types import MISSING, Ints, Loss, Offsets, TextLoss
from .evidence import Partial, weight_of
from .examples import Corpus, LabelledText
from .labels import PartialTable, gold_tags, same_words
from .prediction import DocColumns, check_rows
from .tasks import Annotation

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
    """Encoded texts of one encoder, packed and joined as they come, so that no array is in memory twice."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._packed: list[Packed] = []
        self._blocks: tuple[Ids, ...] = ()
        self._words = Growable(np.int32)
        self._inputs: list[tuple[NDArray[Any], ...]] = []
        self._offsets = Growable(np.int64)
        self._offsets.resize(1)

    def append(self, part: Encoded) -> None:
        """Append a text."""
        self._blocks = part.unigrams, part.bigrams
        self._packed = self._packed or [Packed(ids.columns.shape[1]) for ids in self._blocks]
        for packed, ids in zip(self._packed, self._blocks, strict=True):
            packed.append(ids.columns[:])
        if part.words is not None:
            self._words.append(part.words)
        self._inputs.append(part.inputs)
        self._offsets.append(self._offsets.array[-1] + part.offsets[1:])

    def copy(self) -> _Texts:
        return deepcopy(self, {id(self._encoder): self._encoder})

    def joined(self) -> Encoded:
        for column in (*(packed.bytes for packed in self._packed), self._words, self._offsets):
            column.trim()
        offsets, each = self._offsets.array, zip(self._blocks, self._packed, strict=True)
        unigrams, bigrams = (ids._replace(columns=packed, offsets=offsets) for ids, packed in each)
        inputs = tuple(np.concatenate(values) for values in zip(*self._inputs, strict=True))
        words = None if self._encoder.words is None else self._words.array
        return Encoded(unigrams, bigrams, offsets, words, inputs)


class Reading(NamedTuple):
    """How a component reads examples.

    read (Read): Reads the columns of predicted Docs.
    table (PartialTable): Numbers partial annotation of gold Docs, under the name of the component.
    read_by_functions (frozenset[str]): Columns that token functions read.
    loss (Loss | None): Of the examples; it may read them.
    labelled (bool): Whether gold labels are read; else all are missing.
    lexical (bool): Whether features are of words and columns alone, so that no Docs are needed.
    """

    annotation: Annotation
    read: Read
    table: PartialTable
    component: str
    read_by_functions: frozenset[str] = frozenset()
    loss: Loss | None = None
    labelled: bool = True
    lexical: bool = False


def encode_examples(examples: Iterable[Example], encoder: Encoder, reading: Reading) -> EncodedCorpus:
    """Compile all examples; an encoder that is not frozen collects their features, those of gold columns included.

    RAISES NoExamplesError: If there are no examples.
    """
    corpus, whole = _Corpus(encoder, reading), examples if isinstance(examples, Corpus) and reading.lexical else None
    if whole is not None and whole.portions is not None:
        parts = whole.portions(CHUNK_DOCS, encoder.columns, reading.annotation)
    else:
        whole, parts = None, minibatch(examples, CHUNK_DOCS)
    for part in parts:
        corpus.add(part)
    found = corpus.encoded()
    if whole is not None:  # else it has counted the examples that it has read
        whole.count(found.n_docs, found.data.encoded.n_tokens)
    return found


class _Corpus:
    """A corpus that grows by chunks of examples."""

    def __init__(self, encoder: Encoder, reading: Reading) -> None:
        self._encoder, self._reading = encoder, reading
        self._numbers: dict[str | None, int] = {None: MISSING}
        self._known, self._gold, self._weights = _Texts(encoder), list[Ints](), [np.ones(0)]
        self._seen: _Texts | None = None  # None as long as no column is missing: it equals `known` then
        self._absent: dict[str, None] = {}
        self._present: set[str] = set()
        self._inputs: list[NDArray[Any]] = []
        self._n_docs = 0

    def add(self, chunk: list[Example] | LabelledText) -> None:
        """Compile some examples, or some sentences of a file."""
        encoder, loss = self._encoder, self._reading.loss
        if isinstance(chunk, LabelledText):
            self._present.update(encoder.columns)
            n_docs = len(chunk.text.offsets) - 1
            self._append(chunk.text, chunk.text, self._numbered(chunk.tags), chunk.weights)
            self._n_docs += n_docs
            return
        validate_examples(chunk, "CRFComponent.initialize")
        docs = [example.predicted for example in chunk]
        columns = self._reading.read(docs, encoder.columns)
        text, missing = (columns.text, []) if encoder.frozen else self._with_gold(columns, chunk)
        self._absent.update(dict.fromkeys(missing))
        self._present.update(name for i, name in enumerate(encoder.columns) if columns.text.context[:, i].any())
        if missing and self._seen is None:
            self._seen = self._known.copy()
        labels = self._labels(chunk, len(columns.text.orths))
        self._append(text, columns.text if missing else text, labels, sequence_weights(chunk, columns))
        if isinstance(loss, TextLoss):
            self._inputs.append(read_inputs(loss, docs, self._reading.component))
        self._n_docs += len(chunk)

    def _append(self, text: Columns, seen: Columns, labels: Ints, weights: NDArray[np.float64]) -> None:
        encoded = self._encoder.encode(text)
        self._known.append(encoded)
        if self._seen is not None:
            # encoding the text as it is adds no feature: all its features occur with the column, too
            self._seen.append(encoded if seen is text else self._encoder.encode(seen))
        self._gold.append(labels.astype(type_for(labels)))
        self._weights.append(weights)

    def _with_gold(self, columns: DocColumns, chunk: list[Example]) -> tuple[Columns, list[str]]:
        """Return the text with columns of the gold Docs where no predicted one has them, and their names.

        So their features are known when ``annotating_components`` set them.  They are no input of the training, and
        what the task writes never is.
        """
        names, reading, text = self._encoder.columns, self._reading, columns.text
        answers = reading.annotation.writes
        absent = [i for i, name in enumerate(names) if name not in answers and not text.context[:, i].any()]
        missing = [names[i] for i in absent]
        if absent:
            text = text._replace(context=text.context.copy())
            for example, (begin, end) in zip(chunk, pairwise(columns.doc_offsets.tolist()), strict=True):
                if same_words(example):
                    values = example.reference.to_array([*missing])
                    text.context[begin:end, absent] = values.reshape(end - begin, len(absent))
        read = sorted(reading.read_by_functions - answers - {"NORM", "SPACY"})
        unset = [name for name in read if not any(example.predicted.has_annotation(name) for example in chunk)]
        if unset and all(map(same_words, chunk)):
            gold_sets = reading.read([example.reference for example in chunk], names).text.sets
            text, missing = text._replace(sets=gold_sets), [*missing, *unset]
        self._present.update(reading.read_by_functions - {*unset, *names})
        return text, missing

    def _labels(self, chunk: list[Example], n_tokens: int) -> Ints:
        reading = self._reading
        if not reading.labelled:
            return np.full(n_tokens, MISSING, np.int32)
        return self._numbered(
            tag for example in chunk for tag in gold_tags(reading.annotation, example, reading.component)
        )

    def _numbered(self, tags: Iterable[str | Partial | None]) -> Ints:
        table, numbers = self._reading.table, self._numbers
        return np.array(
            [
                table.number(tag) if isinstance(tag, Partial) else numbers.setdefault(tag, len(numbers) - 1)
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
        read_by_loss = np.concatenate(self._inputs) if self._inputs else None
        gold, weights = np.concatenate(self._gold), np.concatenate(self._weights)
        data = Dataset(encoded, gold, weights, table.candidates, inputs=read_by_loss)
        never = [name for name in self._absent if name not in self._present]
        found = [tag for tag in self._numbers if tag is not None]
        unset = [name for name in self._encoder.columns if name not in {*self._present, "NORM", "SPACY"}]
        return EncodedCorpus(data, joined, found + table.new_tags(found), never, unset, self._n_docs)


def type_for(labels: Ints) -> np.dtype[Any]:
    """Return the smallest type of signed numbers that holds the labels."""
    return np.min_scalar_type(min(labels.min(initial=0), -1 - labels.max(initial=0)))


def read_inputs(loss: TextLoss, docs: list[Doc], component: str) -> NDArray[Any]:
    """Return what a loss reads from Docs [T, ...].  RAISES ConfigError: If it does not have a row for each token."""
    inputs = loss.read(docs)
    check_rows(inputs, sum(map(len, docs)), f"{component}: the loss {part_name(loss)}")
    return inputs


def sequence_weights(examples: Sequence[Example], columns: DocColumns) -> NDArray[np.float64]:
    """Return the weight of each sequence of the predicted Docs, which is that of its gold Doc."""
    weights = np.array([weight_of(example.reference) for example in examples], np.float64)
    return np.repeat(weights, np.diff(np.searchsorted(columns.text.offsets, columns.doc_offsets)))
