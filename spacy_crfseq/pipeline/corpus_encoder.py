"""A corpus as numbers, encoded in portions: no document is kept, so that memory is needed for ids only.

These are some twenty bytes per token.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example, validate_examples

from ..errors import DataError, NoExamplesError
from ..features.encoded import BLOCK_TOKENS, Encoded, Ids, Renumbering, take_sequences
from ..features.encoder import Columns, FrozenEncoder
from ..features.index import Growable, Packed
from ..features.token_sets import TokenSets
from ..training.compatibility import is_unlabelled
from ..training.dataset import Dataset
from ..types import MISSING, Ints, Loss, Offsets, TextLoss
from .alignment import Unaligned
from .corpus import Corpus, in_portions
from .doc_builder import LabelledText
from .doc_model import DocModel
from .encode import ExampleEncoder, has_space, read_inputs, resolve_candidates, sequence_weights
from .evidence import Partial
from .labels import PartialTable, gold_tags, same_words
from .prediction import DocColumns
from .settings import TermSettings
from .white_space import wordwise


class EncodedCorpus(NamedTuple):
    """A corpus of `n_docs` documents as numbers.

    data (Dataset): Ids and gold labels; the labels are numbers of `tags`.
    complete (Encoded): As `data.encoded`, with the columns that earlier components will set in training.
    tags (Sequence[str]): The gold tags, in the order of first appearance, then those that are only possible; or those
        of the model that has these numbers.
    absent (list[str]): Columns set on gold Docs but on no predicted Doc; `complete` takes them from the gold Docs.
    unset (list[str]): Columns that features read, but that are on no predicted Doc.
    """

    data: Dataset
    complete: Encoded
    tags: Sequence[str]
    absent: list[str]
    unset: list[str]
    n_docs: int

    def take(self, sequences: Offsets) -> EncodedCorpus:
        """Return some sequences, in the given order."""
        data = self.data.take(sequences)
        same = self.complete is self.data.encoded
        return self._replace(data=data, complete=data.encoded if same else take_sequences(self.complete, sequences)[0])

    def numbered(self, model: DocModel, loss: Loss, partials: PartialTable) -> EncodedCorpus:
        """Return the corpus with the numbers of the model's tags.

        RAISES DataError: If the model does not have a tag.
        RAISES ConfigError: If the loss cannot learn from the labels.
        """
        numbers = np.append(model.labels.numbers(list(self.tags), partials), np.int32(MISSING))
        data = self.data._replace(gold=_renumbered(self.data.gold, numbers))
        resolve_candidates(model, data, loss, partials)
        return self._replace(data=data, tags=model.labels.tags)

    def renumbered(self, by: Renumbering) -> EncodedCorpus:
        """Return the corpus with the ids that features have in a model."""
        encoded = by(self.data.encoded)
        complete = encoded if self.complete is self.data.encoded else by(self.complete)
        return self._replace(data=self.data._replace(encoded=encoded), complete=complete)

    def as_predicted(self) -> EncodedCorpus:
        """Return the corpus without columns of gold Docs, on which only the features and weights of a model depend."""
        return self._replace(complete=self.data.encoded)


def _renumbered(gold: Ints, numbers: Ints) -> Ints:
    """Return labels [T] by their new numbers, the last of which is that of a missing label; candidate sets stay."""
    kind, parts = np.promote_types(gold.dtype, type_for(numbers)), [gold[:0]]
    for first in range(0, len(gold), BLOCK_TOKENS):  # an index of the whole text would take eight bytes a token
        part = gold[first : first + BLOCK_TOKENS]
        parts.append(np.where(part < MISSING, part, numbers[np.maximum(part, MISSING)]).astype(kind))
    return np.concatenate(parts).astype(kind, copy=False)


def type_for(labels: Ints) -> np.dtype[Any]:
    """Return the smallest type of signed numbers that holds the labels."""
    return np.min_scalar_type(min(labels.min(initial=0), -1 - labels.max(initial=0)))


def encode_corpus(
    model: DocModel, example_encoder: ExampleEncoder, examples: Iterable[Example], term: TermSettings | None = None
) -> EncodedCorpus:
    """Return examples as numbers, those of a term if its settings are given.

    An encoder that grows collects their features, those of gold columns included.
    RAISES NoExamplesError: If there are no examples.
    RAISES DataError: On annotation that cannot be read; both name the component.
    """
    loss, labelled = (model.method.loss, True) if term is None else (term.loss, not is_unlabelled(term.loss))
    without_docs = labelled and not model.reads_docs and not isinstance(loss, TextLoss)
    growing = _GrowingCorpus(model, example_encoder, loss, labelled)
    if without_docs and isinstance(examples, Corpus):
        portions = examples.portions(example_encoder.encoder.columns, model.annotation)
    else:
        portions = in_portions(examples)
    try:
        for portion in portions:
            growing.add(portion)
        return growing.finished()
    except DataError as error:
        kind = NoExamplesError if isinstance(error, NoExamplesError) else DataError
        raise kind(f"Component {model.name!r}: {error}") from None


class _PackedText:
    """Encoded texts of one encoder, packed and joined as they come, so that no array is in memory twice."""

    def __init__(self) -> None:
        self._packed: list[Packed] = []
        self._blocks: tuple[Ids, ...] = ()
        self._words: Growable | None = None
        self._inputs: list[tuple[NDArray[Any], ...]] = []
        self._offsets = Growable(np.int64)
        self._offsets.resize(1)

    def append(self, part: Encoded) -> None:
        """Append a text."""
        self._blocks = unigrams, bigrams = part[:2]
        self._packed = self._packed or [Packed(unigrams.columns.shape[1]), Packed(bigrams.columns.shape[1])]
        for packed, ids in zip(self._packed, self._blocks, strict=True):
            packed.append(ids.columns[:])
        if part.dictionary_ids is not None:
            self._words = self._words or Growable(np.int32)
            self._words.append(part.dictionary_ids)
        self._inputs.append(part.inputs)
        self._offsets.append(self._offsets.array[-1] + part.offsets[1:])

    def copy(self) -> _PackedText:
        other = copy(self)
        other._packed, other._inputs = [packed.copy() for packed in self._packed], [*self._inputs]
        other._words = None if self._words is None else self._words.copy()
        other._offsets = self._offsets.copy()
        return other

    def joined(self) -> Encoded:
        if self._words is not None:
            self._words.trim()
        self._offsets.trim()
        offsets, blocks = self._offsets.array, list[Ids]()
        for ids, packed in zip(self._blocks, self._packed, strict=True):
            packed.bytes.trim()
            blocks.append(ids._replace(columns=packed, offsets=offsets))
        inputs = tuple(map(np.concatenate, zip(*self._inputs, strict=True)))
        words = None if self._words is None else self._words.array
        return Encoded(blocks[0], blocks[1], offsets, words, inputs)


class _GrowingCorpus:
    """A corpus that grows by portions."""

    def __init__(self, model: DocModel, example_encoder: ExampleEncoder, loss: Loss, labelled: bool) -> None:
        self._model, self._example_encoder, self._encoder = model, example_encoder, example_encoder.encoder
        self._loss, self._labelled = loss, labelled
        self._numbers: dict[str | None, int] = {None: MISSING}
        self._unaligned = Unaligned()
        self._complete, self._gold, self._weights = _PackedText(), list[Ints](), [np.ones(0)]
        self._seen: _PackedText | None = None  # None as long as no column is missing: it equals `complete` then
        self._absent: dict[str, None] = {}
        self._present: set[str] = set()
        self._inputs: list[NDArray[Any]] = []
        self._n_docs = 0

    def add(self, portion: list[Example] | LabelledText) -> None:
        """Encode some examples, or some sentences of a file."""
        encoder, model = self._encoder, self._model
        if isinstance(portion, LabelledText):
            self._present.update(encoder.columns)
            self._append(portion.text, portion.text, self._numbered(portion.tags), portion.weights)
            self._n_docs += len(portion.text.offsets) - 1
            return
        validate_examples(portion, "CRFComponent.initialize")
        docs = [example.predicted for example in portion]
        columns = self._example_encoder.read(model, docs, encoder.columns)
        frozen = isinstance(encoder, FrozenEncoder)
        text, missing = (columns.text, []) if frozen else self._with_gold(columns, portion)
        self._absent.update(dict.fromkeys(missing))
        self._present.update([name for i, name in enumerate(encoder.columns) if columns.text.context[:, i].any()])
        if missing and self._seen is None:
            self._seen = self._complete.copy()
        labels = np.full(len(columns.text.orths), MISSING, np.int32)
        if self._labelled:
            # one Doc after another: lists that stay would let the garbage collector visit all Docs
            spaces, unaligned = repeat(has_space(columns, portion)), repeat(self._unaligned)
            tags = map(gold_tags, repeat(model.annotation), portion, repeat(model.name), unaligned, spaces)
            labels = self._numbered(columns.only_words(chain.from_iterable(tags)))
        self._append(text, columns.text if missing else text, labels, sequence_weights(portion, columns))
        if isinstance(self._loss, TextLoss):
            self._inputs.append(read_inputs(self._loss, columns, portion, model.name))
        self._n_docs += len(portion)

    def _append(self, text: Columns, seen: Columns, labels: Ints, weights: NDArray[np.float64]) -> None:
        encoded = self._encoder.encode(text)
        self._complete.append(encoded)
        if self._seen is not None:
            # encoding the text as it is adds no feature: all its features occur with the column, too
            self._seen.append(encoded if seen is text else self._encoder.encode(seen))
        self._gold.append(labels.astype(type_for(labels)))
        self._weights.append(weights)

    def _with_gold(self, columns: DocColumns, portion: list[Example]) -> tuple[Columns, list[str]]:
        """Return the text with what features would read from the gold Docs alone, and the names of its columns.

        So these features are known when ``annotating_components`` set the columns.  They are no input of the training,
        and what the task writes never is.
        """
        text, absent = self._with_gold_columns(columns, portion)
        sets, unset = self._gold_sets(portion)
        return (text if sets is None else text._replace(sets=sets)), [*absent, *unset]

    def _with_gold_columns(self, columns: DocColumns, portion: list[Example]) -> tuple[Columns, list[str]]:
        """Return the text with token columns of the gold Docs where no predicted Doc has them, and their names."""
        names, text = self._encoder.columns, columns.text
        answers = self._model.annotation.writes
        places = [i for i, name in enumerate(names) if name not in answers and not text.context[:, i].any()]
        absent = [names[i] for i in places]
        if absent:
            text = text._replace(context=text.context.copy())
            bounds = pairwise(columns.doc_offsets.tolist())
            for example, (begin, end) in zip(map(wordwise, portion), bounds, strict=True):
                if same_words(example):
                    values = example.reference.to_array([*absent])
                    text.context[begin:end, places] = values.reshape(end - begin, len(places))
        return text, absent

    def _gold_sets(self, portion: list[Example]) -> tuple[Mapping[str, TokenSets] | None, list[str]]:
        """Return the results of token functions on the gold Docs, and the columns that only these have.

        None, and no columns, if the predicted Docs have all that the functions read, or other words than the gold Docs.
        """
        model, functions = self._model, self._model.read_by_functions
        if not functions:
            return None, []
        portion, names = [*map(wordwise, portion)], self._encoder.columns
        read = sorted(functions - model.annotation.writes - {"NORM", "SPACY"})
        unset = [name for name in read if not any(example.predicted.has_annotation(name) for example in portion)]
        self._present.update(functions - {*unset, *names})
        if not unset or not all(map(same_words, portion)):
            return None, []
        references = [example.reference for example in portion]
        return self._example_encoder.read(model, references, names).text.sets, unset

    def _numbered(self, tags: Iterable[str | Partial | None]) -> Ints:
        table, numbers = self._example_encoder.partials, self._numbers
        labels = [
            table.number(tag) if isinstance(tag, Partial) else numbers.setdefault(tag, len(numbers) - 1) for tag in tags
        ]
        return np.array(labels, np.int32)

    def finished(self) -> EncodedCorpus:
        """Return all examples.  RAISES NoExamplesError: If there are none."""
        if not self._n_docs:
            raise NoExamplesError("There are no training examples. Check [corpora.train] and [paths].")
        table, joined = self._example_encoder.partials, self._complete.joined()
        encoded = joined if self._seen is None else self._seen.joined()
        read_by_loss = np.concatenate(self._inputs) if self._inputs else None
        gold, weights = np.concatenate(self._gold), np.concatenate(self._weights)
        data = Dataset(encoded, gold, weights, table, inputs=read_by_loss)
        never = [name for name in self._absent if name not in self._present]
        tags: list[Any] = list(self._numbers)[1:]  # without None
        unset = [name for name in self._encoder.columns if name not in {*self._present, "NORM", "SPACY"}]
        tags += table.new_tags(tags)
        if lost := self._unaligned.message(self._model.annotation.public_labels(tags)):
            warnings.warn(f"Component {self._model.name!r}: {lost}", stacklevel=2)
        return EncodedCorpus(data, joined, tags, never, unset, self._n_docs)
