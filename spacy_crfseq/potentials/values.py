"""Features with values: emissions of a token are the sum of value times W[name] over the numbers that it has.

The numbers of a token are bytes, 16 for each: the hash of its name and the value.  Equal tokens share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..errors import ConfigError, DataError
from ..features.encoded import Encoded
from ..features.entries import names_in
from ..features.index import hash_of_name
from ..features.noted import noted_attributes
from ..types import Bools, Floats, Hashes, Ints, Offsets, TokenFunction
from .sums import GradientAdder, RowScores

_PACKED = np.dtype([("name", "<u8"), ("value", "<f8")])
_pack, _hash = Struct("<Qd").pack, lru_cache(1 << 16)(hash_of_name)


@dataclass
class Values:
    """Features with values, such as ``{"length": 0.7}`` (registered as ``spacy_crfseq.Values.v1``).

    Every name has a weight for each label, which is multiplied by the value.  Names that the training text does not
    have are ignored.  All numbers that `function` returns count, also 0 and 1; with this potential, templates leave
    numbers out, so that the same function may be one of their token functions.  A value as large as those of
    templates, 1, is best under the same penalty.

    function (TokenFunction | None): Token function that returns numbers by their names, or a list with pairs of name
        and number; a block that names a function of the registry ``crf_features``.  None for the numbers in
        ``doc._.crf_attributes``, which the reader `CRFsuiteReader` sets.
    """

    function: TokenFunction | None = None
    reads_numbers: ClassVar[bool] = True
    names: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise ConfigError(f"Values: function must be a token function, but {self.function!r} was given.")

    def read(self, docs: Sequence[Any]) -> NDArray[np.object_]:
        """Return the numbers of each token [T] as bytes.  RAISES DataError: If the function returns something else."""
        function, same = self.function or noted_attributes, dict[bytes, bytes]()
        packed_tokens: list[bytes] = []
        for tokens in map(list, docs):
            starts = [i for i, token in enumerate(tokens) if not i or token.is_sent_start]
            for begin, end in pairwise([*starts, len(tokens)]):
                sequence = tokens[begin:end]
                for i in range(end - begin):
                    values: dict[str, float] = {}
                    try:
                        names_in(function(sequence, i), values)
                    except DataError as error:
                        raise DataError(f"Values at the token {sequence[i].text!r}: {error}") from None
                    packed = b"".join(_pack(_hash(name), value) for name, value in values.items() if value)
                    packed_tokens.append(same.setdefault(packed, packed))
        return np.array([*packed_tokens, None], object)[:-1]  # without None, NumPy would take bytes apart

    def bind(self, text: Encoded, number: int) -> None:
        self.names = np.unique(_unpacked(text.inputs[number])[1] if text.inputs else np.zeros(0, np.uint64))

    def size(self, n_labels: int) -> int:
        return len(self.names) * n_labels

    def potential(self, n_labels: int, number: int) -> ValueScores:
        return ValueScores(self, n_labels, number)

    def to_state(self) -> Hashes:
        return self.names

    def from_state(self, state: Any) -> None:
        names = np.array(state).astype(np.uint64, casting="same_kind")
        if names.ndim != 1 or (names[1:] <= names[:-1]).any():
            raise ValueError("the names of values are not in order")
        self.names = names


Products: TypeAlias = tuple[Offsets, Ints, NDArray[np.float64]]
"""Of each token, rows of weights and their factors: starts [T + 1], rows, -1 for none, and values."""


class ValueScores(RowScores):
    """Scores of `Values`; the weights are [names, L].

    trained (Bools | None): [R, L] the weights that are trained, None for all; the others stay zero.
    """

    trained: Bools | None = None

    def __init__(self, plugin: Values, n_labels: int, number: int = 0) -> None:
        super().__init__(plugin, n_labels, number)
        self.keys: Hashes = plugin.names

    def products(self, inputs: NDArray[Any]) -> Products:
        """Return the rows and values of the inputs [T]."""
        ptr, names, values = _unpacked(inputs)
        places = np.searchsorted(self.keys, names)
        there = np.append(self.keys, np.uint64(0))[places] == names
        return ptr, np.where(there, places, -1).astype(np.int32), values

    def emissions(self, weights: Floats, inputs: NDArray[Any], offsets: Offsets) -> tuple[Floats, GradientAdder]:
        products, out = self.products(inputs), np.zeros((len(inputs), self.n_labels), weights.dtype)
        kernels.rows.add_products(*products, weights, out)

        def add(d: Floats, grad: Floats) -> None:
            kernels.rows.scatter_products(*products, d, grad)
            if self.trained is not None:
                grad *= self.trained

        return out, add


class ListedValues(ValueScores):
    """The same for inputs [T, K] of the type `features.interned.LISTED`; the row -1 is none."""

    def __init__(self, trained: Bools) -> None:
        self.trained, self.number, self.size, self.n_labels = trained, 0, trained.size, trained.shape[1]
        self.width = self.n_labels

    def products(self, inputs: NDArray[Any]) -> Products:
        columns = np.ascontiguousarray(inputs["row"]).ravel(), np.ascontiguousarray(inputs["value"]).ravel()
        return np.arange(len(inputs) + 1) * inputs.shape[1], *columns


def _unpacked(inputs: NDArray[np.object_]) -> tuple[Offsets, Hashes, NDArray[np.float64]]:
    """Return the numbers of all tokens: the start of each token's [T + 1], hashes of names, and values."""
    parts = inputs.tolist()
    ptr = np.append(0, np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))) // _PACKED.itemsize
    flat = np.frombuffer(b"".join(parts), _PACKED)
    return ptr, flat["name"].copy(), flat["value"].copy()  # which may be written, as kernels are compiled for
