"""Sequences, labels and weights as users give them, checked and as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import threads
from ..errors import DataError, count_of
from ..features.entries import attribute_of, entries_in, shown
from ..features.interned import AttributeCodes, AttributeText, joined
from ..types import Floats, Offsets

READING = threads.surviving(Lock())
"""Held while a text is read, because estimators remember entries and sets of attributes."""
TOKENS_AT_ONCE = 4096
"""Tokens whose features are in memory at a time, where an iterator makes the sequences."""


def read_sequences(attributes: AttributeCodes, sequences: Iterable[Any], name: str) -> tuple[AttributeText, Offsets]:
    """Return the attributes of the tokens, and the starts of the sequences [N + 1]; `name` is for errors.

    Few sequences are in memory at a time, so that an iterator may make them.
    """
    texts, sizes, first = list[AttributeText](), [0], 0
    for chunk in _chunks(sequences, name):
        try:
            with READING:
                texts.append(attributes.read(chunk))
        except DataError:
            for i, j, token in (
                (i, j, token) for i, tokens in enumerate(chunk, first) for j, token in enumerate(tokens)
            ):
                try:
                    for entry in entries_in(token):
                        attribute_of(entry)
                except DataError as error:
                    raise DataError(f"{name}[{i}][{j}]: {error}") from None
            raise
        sizes += map(len, chunk)
        first += len(chunk)
    return joined(texts), np.cumsum(sizes, dtype=np.int64)


def _chunks(sequences: Any, name: str) -> Iterator[list[Any]]:
    """Yield sequences, some at a time.  RAISES DataError: If one has no tokens that can be counted."""
    if not isinstance(sequences, Iterable):
        raise DataError(f"{name} is {shown(sequences)}, but must be a list of sequences.")
    chunk, n_tokens = list[Any](), 0
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, Mapping | str) or not hasattr(sequence, "__len__"):
            raise DataError(
                f"{name}[{i}] is {shown(sequence)}, but {name} must be a list of sequences, each a list of tokens. If "
                "it is one sequence, pass it in a list."
            )
        chunk.append(sequence)
        n_tokens += len(sequence)
        if n_tokens >= TOKENS_AT_ONCE:
            yield chunk
            chunk, n_tokens = [], 0
    yield chunk


def read_labels(sequences: Iterable[Any], offsets: Offsets, name: str) -> list[str]:
    """Return the labels of the tokens [T] of sequences that start at `offsets` [N + 1]."""
    if not isinstance(sequences, Iterable):
        raise DataError(f"{name} is {shown(sequences)}, but must be a list of sequences.")
    sequences, x = list(sequences), name.replace("y", "X")
    if len(sequences) != len(offsets) - 1:
        raise DataError(f"{x} has {count_of(len(offsets) - 1, 'sequence')}, but {name} has {len(sequences)}.")
    for i, (labels, size) in enumerate(zip(sequences, np.diff(offsets).tolist(), strict=True)):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise DataError(f"{name}[{i}] is {shown(labels)}, but must be a list of labels, one for each token.")
        if len(labels) != size:
            raise DataError(
                f"{x}[{i}] has {count_of(size, 'token')}, but {name}[{i}] has {count_of(len(labels), 'label')}."
            )
    flat = list(chain.from_iterable(sequences))
    if not all(issubclass(kind, str) for kind in set(map(type, flat))):
        wrong = next(number for number, label in enumerate(flat) if not isinstance(label, str))
        i = int(np.searchsorted(offsets, wrong, side="right")) - 1
        raise DataError(f"{name}[{i}][{wrong - offsets[i]}] is {shown(flat[wrong])}, but labels must be strings.")
    return flat


def read_weights(given: Iterable[float] | None, n: int) -> Floats:
    """Return the weights of n sequences.  RAISES DataError: If they are not numbers of 0 or more, one a sequence."""
    if given is None:
        return np.ones(n)
    weights = np.asarray(given if hasattr(given, "__len__") else list(given))
    if weights.shape != (n,) or weights.dtype.kind not in "fiu":
        raise DataError(
            f"sample_weight must have a number for each of {n} sequences, but has the shape {weights.shape}."
        )
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(f"sample_weight[{wrong[0]}] is {weights[wrong[0]]}, but weights must be numbers of 0 or more.")
    if not weights.any():
        raise DataError("All of sample_weight is 0, so there is nothing to learn from.")
    return weights


def split(values: list[Any], offsets: Offsets) -> NDArray[Any]:
    """Return the values of tokens as an array of lists, one for each sequence."""
    return np.array([values[begin:end] for begin, end in pairwise(offsets.tolist())], dtype=object)
