"""From a stream of examples to numbers: ids of attributes and gold labels, chunk by chunk.

No document is kept, so that a training set needs memory for its ids only, some fifty bytes a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example, validate_examples

from ..errors import DataError
from ..features.encoder import Columns, Encoded, Encoder, Ids
from ..training.dataset import Dataset
from ..types import Ints
from .annotations import Annotation, Tags
from .extract import DocColumns

CHUNK_DOCS = 200
"""Documents that are compiled at a time."""

Read = Callable[[list[Doc], Sequence[str]], DocColumns]
"""Reads the columns that templates name from Docs."""


class Collected(NamedTuple):
    """A compiled training set.

    data (Dataset): Ids and gold labels; the labels are numbers of `tags`.
    known (Encoded): As `data.encoded`, with the columns that earlier components will set in training.
    tags (list[str]): The gold tags found, in the order of their first appearance.
    absent (list[str]): Columns that no predicted Doc has but the gold ones, taken from there for `known`.
    n_docs (int): Documents.
    """

    data: Dataset
    known: Encoded
    tags: list[str]
    absent: list[str]
    n_docs: int


def collect(examples: Iterable[Example], annotation: Annotation, encoder: Encoder, read: Read) -> Collected:
    """Compile all examples; the attributes of an encoder that is not frozen grow, the gold columns included.

    RAISES DataError: If there are no examples.
    """
    numbers: dict[str | None, int] = {None: -1}
    known: list[Encoded] = []
    seen: list[Encoded] = []
    gold: list[Ints] = []
    absent: dict[str, None] = {}
    n_docs = 0
    for chunk in _chunks(examples):
        validate_examples(chunk, "CRFComponent.initialize")
        columns = read([example.predicted for example in chunk], encoder.columns)
        text = columns.text
        missing: list[str] = []
        if not encoder.frozen:
            text, missing = _with_gold_columns(columns, chunk, encoder.columns, annotation.writes)
        absent.update(dict.fromkeys(missing))
        known.append(encoder.encode(text))
        # encoding the text as it is adds no attribute: what fires without a column fires with it, too
        seen.append(encoder.encode(columns.text) if missing else known[-1])
        tags = [tag for example in chunk for tag in gold_tags(annotation, example)]
        gold.append(np.array([numbers.setdefault(tag, len(numbers) - 1) for tag in tags], np.int32))
        n_docs += len(chunk)
    if not n_docs:
        raise DataError("There are no training examples. Check [corpora.train] and [paths].")
    if not absent:
        seen.clear()
    joined = _join(known)
    encoded = _join(seen) if absent else joined
    data = Dataset(encoded, _join_arrays(gold), np.ones(len(encoded.offsets) - 1))
    return Collected(data, joined, [tag for tag in numbers if tag is not None], list(absent), n_docs)


def gold_tags(annotation: Annotation, example: Example) -> Tags:
    """Return the gold tag of each predicted token, None where missing."""
    return annotation.gold_tags(example, same_words(example))


def same_words(example: Example) -> bool:
    """Whether predicted and gold Doc have the same tokens, so that no alignment is needed."""
    predicted, reference = example.predicted, example.reference
    return len(predicted) == len(reference) and bool(
        (predicted.to_array(["ORTH"]) == reference.to_array(["ORTH"])).all()
    )


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    stream = iter(examples)
    while chunk := list(islice(stream, CHUNK_DOCS)):
        yield chunk


def _with_gold_columns(
    columns: DocColumns, examples: Sequence[Example], names: Sequence[str], answers: frozenset[str]
) -> tuple[Columns, list[str]]:
    """Return the text as components before this one may annotate it in training, and the columns taken from gold.

    A column that no predicted Doc has takes its gold values, so that its attributes are known when
    ``annotating_components`` set it.  They are no input of the training: `answers` never are.
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


def _join(parts: list[Encoded]) -> Encoded:
    """Join encoded texts of one encoder, and empty the list: each part goes as soon as it is copied."""
    lengths = [np.diff(part.offsets) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    columns: list[list[Ints]] = [[], [], [], []]
    stores = parts[0].state.store, parts[0].pair.store
    for part in parts:
        for column, ids in zip(columns, (*part.state[:2], *part.pair[:2]), strict=True):
            column.append(ids)
    parts.clear()
    joined = [_join_arrays(column) for column in columns]
    return Encoded(Ids(joined[0], joined[1], stores[0]), Ids(joined[2], joined[3], stores[1]), offsets)


def _join_arrays(arrays: list[Ints]) -> Ints:
    """Join arrays along their first axis, and empty the list."""
    out = np.empty((sum(len(array) for array in arrays), *arrays[0].shape[1:]), np.int32)
    first = 0
    arrays.reverse()
    while arrays:
        array = arrays.pop()
        out[first : first + len(array)] = array
        first += len(array)
    return out
