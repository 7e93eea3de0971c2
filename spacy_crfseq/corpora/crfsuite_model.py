"""Trained models of CRFsuite (Okazaki 2007).

The file is little-endian: a header with offsets, the features (kind, source, target, weight), and two constant
databases with the names of labels and attributes.  Each name stands in a record ``number, size, name, NUL``; an array
at the end of its database has the place of each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFileError
from .lines import check_file

MAGIC = b"lCRF"
LEAST, MOST = 16 << 20, 64
"""Bytes that the transitions of any model may take, and how many for each byte of a larger file."""
_HEADER, _DATABASE, _CHUNK = Struct("<4sI4s9I"), Struct("<4s5I"), Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BYTE_ORDER = 0x62445371


class NamedWeights(NamedTuple):
    """W weights of named attributes.

    names (list[str]): Distinct names of A attributes.
    rows, columns (NDArray): [W] the attribute of each weight; its label, or ``previous * L + label``.
    values (NDArray): [W].
    """

    names: list[str]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


NO_WEIGHTS = NamedWeights([], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class SavedModel(NamedTuple):
    """The model of another program.

    labels (list[str]): L labels.
    attributes, pairs (NamedWeights): Weights of attributes that score a label, and those that score it together with
        the previous one.
    transitions (NDArray): [L, L] scores from a label to the next.
    patterns (list[str] | None): The patterns that make attributes from columns; None if a program makes attributes.
    """

    labels: list[str]
    attributes: NamedWeights
    pairs: NamedWeights
    transitions: NDArray[np.float64]
    patterns: list[str] | None = None


def read_crfsuite_model(path: Path | str, encoding: str = "utf8") -> SavedModel:
    """Return the model in a file of ``crfsuite learn`` or python-crfsuite.

    RAISES ModelFileError: If the file is damaged, cut short or foreign.
    """
    path = check_file(path)
    try:
        return _of_bytes(path.read_bytes(), encoding)
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: the names are not in {encoding} ({error}). Give --encoding.") from None
    except (ValueError, LookupError) as error:  # of NumPy and codecs, too
        raise ModelFileError(f"{path}: this is no model of CRFsuite, or it is damaged: {error}.") from None


def _of_bytes(data: bytes, encoding: str) -> SavedModel:
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise ValueError("it has no header of CRFsuite")
    _, size, kind, version, _, n_labels, n_attributes, *places = _HEADER.unpack_from(data)
    if (kind, version) != (b"FOMC", 100):
        raise ValueError(f"it is a model of type {kind!r}, version {version}; only first-order CRFs can be read")
    if max(size, places[0] + _CHUNK.size) > len(data):
        raise ValueError(f"it has {len(data):,} bytes of {size:,}; copy it again")
    labels = _names(data, places[1], n_labels, encoding)
    attributes = _names(data, places[2], n_attributes, encoding)
    chunk, _, n_features = _CHUNK.unpack_from(data, places[0])
    if chunk != b"FEAT":
        raise ValueError("its features are not where the header says")
    return _assembled(labels, attributes, np.frombuffer(data, _FEATURE, n_features, places[0] + _CHUNK.size), len(data))


def _names(data: bytes, begin: int, number: int, encoding: str) -> list[str]:
    """Return the names in a constant database, in the order of their numbers."""
    if begin + _DATABASE.size > len(data):
        raise ValueError("an offset lies behind its end; copy it again")
    magic, size, _, order, _, at_places = _DATABASE.unpack_from(data, begin)
    if magic != b"CQDB" or begin + size > len(data):
        raise ValueError("its names are not where the header says")
    if order != _BYTE_ORDER:
        raise ValueError("it was written on a big-endian machine; train it again on another")
    database = np.frombuffer(data, np.uint8, size, begin)
    places = np.frombuffer(database, "<u4", number, at_places).astype(np.int64)
    heads = np.ascontiguousarray(database[places[:, None] + np.arange(8)]).view("<u4").reshape(number, 2)
    begins, ends = places + 8, places + 7 + heads[:, 1]
    if (heads[:, 0] != np.arange(number)).any() or (heads[:, 1] < 1).any() or (ends >= size).any():
        raise ValueError("its names are damaged")
    bounds = zip((begins + begin).tolist(), (ends + begin).tolist(), strict=True)
    return [data[first:last].decode(encoding) for first, last in bounds]


def _assembled(labels: list[str], attributes: list[str], features: NDArray[np.void], size: int) -> SavedModel:
    """Return a model from its features.  RAISES ValueError: If they do not fit the labels and attributes."""
    check_names(labels, attributes)
    check_transitions(len(labels), size)
    kind, source, target = (features[name].astype(np.int64) for name in ("kind", "source", "target"))
    weights, state, n = features["weight"].astype(np.float64), kind == 0, len(labels)
    if (kind > 1).any() or (source >= np.where(state, len(attributes), n)).any() or (target >= n).any():
        raise ValueError("it has weights of labels or attributes that are not there")
    if not np.isfinite(weights).all():
        raise ValueError("some of its weights are no finite numbers; train it again")
    transitions = np.zeros((n, n))
    transitions[source[~state], target[~state]] = weights[~state]
    named = NamedWeights(attributes, source[state], target[state], weights[state])
    return SavedModel(labels, named, NO_WEIGHTS, transitions)


def check_transitions(n_labels: int, n_bytes: int) -> None:
    """RAISES ValueError: If the transitions of so many labels take far more memory than a model's file has bytes."""
    needed, limit = 8 * n_labels**2, max(LEAST, MOST * n_bytes)
    if needed > limit:
        raise ValueError(
            f"the transitions of its {n_labels:,} labels would take {needed:,} bytes, and at most {limit:,} are taken "
            f"for a file of {n_bytes:,}"
        )


def check_names(labels: Sequence[str], *attributes: Sequence[str]) -> None:
    """RAISES ValueError: If there are no labels, or names that are empty or occur twice."""
    if not labels:
        raise ValueError("it has no labels")
    for names in (labels, *attributes):
        if "" in names or len(set(names)) < len(names):
            raise ValueError("a name of its labels or attributes is empty or occurs twice")
