"""Trained models of CRFsuite (Okazaki 2007): the binary file, and the text that ``crfsuite dump`` writes.

The binary file is little-endian: a header with offsets, the features (kind, source, target, weight), and two constant
databases with the names of labels and attributes.  Each name stands in a record ``number, size, name, NUL``; an array
at the end of its database has the place of each record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, ModelFileError
from ._lines import check_file

MAGIC, DUMP_MAGIC = b"lCRF", b"FILEHEADER = {"
_HEADER, _DATABASE, _CHUNK = Struct("<4sI4s9I"), Struct("<4s5I"), Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BYTE_ORDER, _VERSION = 0x62445371, 100
_SECTIONS = ("LABELS", "ATTRIBUTES", "TRANSITIONS", "STATE_FEATURES")


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


def no_weights() -> NamedWeights:
    """Return an empty table."""
    none = np.zeros(0, np.int64)
    return NamedWeights([], none, none, np.zeros(0))


def read_crfsuite_model(path: Path | str, encoding: str = "utf8") -> SavedModel:
    """Return the model in a file of ``crfsuite learn`` or python-crfsuite, or in the output of ``crfsuite dump``.

    RAISES ModelFileError: If the file is damaged, cut short or foreign.
    RAISES FormatError: The same for the text, with the line.
    """
    path = check_file(path)
    data = path.read_bytes()
    if data.startswith(DUMP_MAGIC):
        return _Dump(path, data, encoding).model()
    try:
        return _binary(data, encoding)
    except (ValueError, LookupError) as error:  # of NumPy and codecs, too
        raise ModelFileError(f"{path}: this is no model of CRFsuite, or it is damaged: {error}.") from None


def _binary(data: bytes, encoding: str) -> SavedModel:
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise ValueError("it has no header of CRFsuite")
    _, size, kind, version, _, n_labels, n_attributes, at_features, at_labels, at_attributes, *_ = _HEADER.unpack_from(
        data
    )
    if kind != b"FOMC" or version != _VERSION:
        raise ValueError(f"it is a model of type {kind!r}, version {version}; only first-order CRFs can be read")
    if size > len(data):
        raise ValueError(f"it has {len(data):,} bytes of {size:,}; copy it again")
    labels = _names(data, at_labels, n_labels, encoding, "labels")
    attributes = _names(data, at_attributes, n_attributes, encoding, "attributes")
    chunk, _, n_features = _unpack(_CHUNK, data, at_features)
    if chunk != b"FEAT":
        raise ValueError("its features are not where the header says")
    first = at_features + _CHUNK.size
    if first + n_features * _FEATURE.itemsize > len(data):
        raise ValueError("its features are incomplete; copy it again")
    return _assembled(labels, attributes, np.frombuffer(data, _FEATURE, n_features, first))


def _unpack(form: Struct, data: bytes, at: int) -> tuple[bytes, int, int]:
    if at + form.size > len(data):
        raise ValueError("an offset lies behind its end; copy it again")
    found: tuple[bytes, int, int] = form.unpack_from(data, at)[:3]
    return found


def _names(data: bytes, begin: int, number: int, encoding: str, what: str) -> list[str]:
    """Return the names in a constant database, in the order of their numbers."""
    _unpack(_DATABASE, data, begin)
    magic, size, _, order, _, at_places = _DATABASE.unpack_from(data, begin)
    if magic != b"CQDB" or begin + size > len(data):
        raise ValueError(f"the names of its {what} are not where the header says")
    if order != _BYTE_ORDER:
        raise ValueError("it was written on a big-endian machine; write the text by 'crfsuite dump' there")
    database = np.frombuffer(data, np.uint8, size, begin)
    if at_places + 4 * number > size:
        raise ValueError(f"the names of its {what} are incomplete")
    places = np.frombuffer(data, "<u4", number, begin + at_places).astype(np.int64)
    if number and (places.min() < _DATABASE.size or places.max() + 8 > size):
        raise ValueError(f"the names of its {what} are incomplete")
    pairs = np.ascontiguousarray(database[places[:, None] + np.arange(8)]).view("<u4").reshape(number, 2)
    begins, ends = places + 8, places + 7 + pairs[:, 1]
    if (pairs[:, 0] != np.arange(number)).any() or (pairs[:, 1] < 1).any() or (ends >= size).any():
        raise ValueError(f"the names of its {what} are damaged")
    bounds = zip((begins + begin).tolist(), (ends + begin).tolist(), strict=True)
    try:
        return [data[first:last].decode(encoding) for first, last in bounds]
    except UnicodeDecodeError as error:
        raise ValueError(f"a name of its {what} is not in {encoding} ({error}); give --encoding") from None


def _assembled(labels: list[str], attributes: list[str], features: NDArray[np.void]) -> SavedModel:
    """Return a model from its features.  RAISES ValueError: If they do not fit the labels and attributes."""
    check_names(labels, attributes)
    n = len(labels)
    kind, source, target = (features[name].astype(np.int64) for name in ("kind", "source", "target"))
    weights = features["weight"].astype(np.float64)
    limit = np.where(kind == 0, len(attributes), n)
    if (kind > 1).any() or (source >= limit).any() or (target >= n).any():
        raise ValueError("it has weights of labels or attributes that are not there")
    if not np.isfinite(weights).all():
        raise ValueError(f"{int((~np.isfinite(weights)).sum())} of its weights are no finite numbers; train it again")
    transitions, state = np.zeros((n, n)), kind == 0
    np.add.at(transitions, (source[~state], target[~state]), weights[~state])
    named = NamedWeights(attributes, source[state], target[state], weights[state])
    return SavedModel(labels, named, no_weights(), transitions)


def check_names(labels: Sequence[str], *attributes: Sequence[str]) -> None:
    """RAISES ValueError: If there are no labels, or names that are empty or occur twice."""
    if not labels:
        raise ValueError("it has no labels")
    for names in (labels, *attributes):
        if "" in names or len(set(names)) < len(names):
            raise ValueError("a name of its labels or attributes is empty or occurs twice")


class _Dump:
    """The text of a model.

    path (Path): Its file, for messages.
    """

    def __init__(self, path: Path, data: bytes, encoding: str) -> None:
        self._path = path
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise FormatError(path, 0, f"the text is not in {encoding} ({error}); give --encoding.") from None
        self._lines = text.split("\n")
        self._line = 0  # the number of the line at hand

    def model(self) -> SavedModel:
        """Return the model.  RAISES FormatError: With the line that cannot be read."""
        at = {name: self._find(name) for name in _SECTIONS}
        labels, attributes = (self._listed(at[name]) for name in _SECTIONS[:2])
        numbers = [{name: number for number, name in enumerate(names)} for names in (attributes, labels)]
        features = [
            (kind, *found)
            for kind, name in ((1, "TRANSITIONS"), (0, "STATE_FEATURES"))
            for found in self._weights(at[name], numbers[kind], numbers[1])
        ]
        try:
            return _assembled(labels, attributes, np.array(features, _FEATURE))
        except ValueError as error:
            raise FormatError(self._path, 0, f"{error}.") from None

    def _find(self, section: str) -> int:
        try:
            return self._lines.index(f"{section} = {{")
        except ValueError:
            raise FormatError(self._path, 0, f"there is no section {section}; dump the model again.") from None

    def _inside(self, begin: int) -> Iterator[str]:
        """Yield the entries of a section; names may have several lines."""
        entry, self._line = "", begin
        for number in range(begin + 1, len(self._lines)):
            line = self._lines[number]
            if not line.startswith("  ") and line != "}":
                entry += "\n" + line
                continue
            if entry:
                yield entry
            if line == "}":
                return
            entry, self._line = line, number
        raise self._wrong("the text ends within a section; dump the model again")

    def _listed(self, begin: int) -> list[str]:
        names: list[str] = []
        for line in self._inside(begin):
            number, found, name = line.partition(": ")
            if not found or number.strip() != str(len(names)):
                raise self._wrong(f"{line[:60]!r} where number {len(names)} of a list is due")
            names.append(name)
        return names

    def _weights(
        self, begin: int, sources: dict[str, int], targets: dict[str, int]
    ) -> Iterator[tuple[int, int, float]]:
        """Yield source, target and weight from lines such as ``  (0) attribute --> label: 0.5``."""
        for line in self._inside(begin):
            body, _, weight = line[6:].rpartition(": ")
            source, _, target = body.rpartition(" --> ")
            try:
                yield sources[source], targets[target], float(weight)
            except (KeyError, ValueError):
                raise self._wrong(f"{line[:60]!r} is no weight of a known name and label") from None

    def _wrong(self, what: str) -> FormatError:
        return FormatError(self._path, self._line + 1, f"{what}.")
