"""Trained models of CRFsuite (Okazaki 2007) and of Wapiti (Lavergne, Cappe & Yvon 2010).

Those of CRFsuite are little-endian: a header with offsets, the features (kind, source, target, weight), and two
constant databases with the names of labels and attributes.  Each name stands in a record ``number, size, name, NUL``;
an array at the end of its database has the place of each record.

Those of Wapiti are text: a header, the patterns, labels and observations as strings ``length:text,``, and a line
``number=weight`` for each weight that is not zero.  An observation that begins with "u" has a weight for each of L
labels, one with "b" for each of L * L pairs of labels, one with "*" both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFileError
from .lines import check_file

CRFSUITE, WAPITI = b"lCRF", b"#mdl#"
"""What models of CRFsuite and Wapiti begin with."""
LEAST, MOST = 16 << 20, 64
"""Bytes that the transitions of any model may take, and how many for each byte of a larger file."""
_HEADER, _DATABASE, _CHUNK = Struct("<4sI4s9I"), Struct("<4s5I"), Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BYTE_ORDER = 0x62445371
_HEAD = re.compile(rb"#mdl#(?:(\d+)#)?(\d+)\n#rdr#(\d+)/\d+(?:/(\d+))?\n")
_NAMES, _LENGTH = re.compile(rb"#qrk#(\d+)\n"), re.compile(rb"\s*(\d+):")
_CRF = b"2"


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


def read_saved_model(path: Path, encoding: str = "utf8") -> SavedModel | None:
    """Return the trained model in a file, None if it holds something else.  RAISES CrfError: If it is damaged."""
    with check_file(path).open("rb") as file:
        first = file.read(len(WAPITI))
    if first == WAPITI:
        return read_wapiti_model(path)
    return read_crfsuite_model(path, encoding) if first.startswith(CRFSUITE) else None


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


# CRFsuite


def read_crfsuite_model(path: Path | str, encoding: str = "utf8") -> SavedModel:
    """Return the model in a file of ``crfsuite learn`` or python-crfsuite.

    RAISES ModelFileError: If the file is damaged, cut short or foreign.
    """
    path = check_file(path)
    try:
        return _crfsuite_of(path.read_bytes(), encoding)
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: the names are not in {encoding} ({error}). Give --encoding.") from None
    except (ValueError, LookupError) as error:  # of NumPy and codecs, too
        raise ModelFileError(f"{path}: this is no model of CRFsuite, or it is damaged: {error}.") from None


def _crfsuite_of(data: bytes, encoding: str) -> SavedModel:
    if len(data) < _HEADER.size or not data.startswith(CRFSUITE):
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
    return _crfsuite_model(
        labels, attributes, np.frombuffer(data, _FEATURE, n_features, places[0] + _CHUNK.size), len(data)
    )


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


def _crfsuite_model(labels: list[str], attributes: list[str], features: NDArray[np.void], size: int) -> SavedModel:
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


# Wapiti


def read_wapiti_model(path: Path | str) -> SavedModel:
    """Return the model in a file of ``wapiti train``.

    RAISES ModelFileError: If the file is damaged, cut short or foreign, or if the model is no CRF.
    """
    path = check_file(path)
    try:
        return _wapiti_of(path.read_bytes())
    except (ValueError, LookupError, OverflowError) as error:
        raise ModelFileError(f"{path}: this is no model of Wapiti, or it is damaged: {error}.") from None


def _wapiti_of(data: bytes) -> SavedModel:
    head = _matched(_HEAD, data, 0)
    kind, n_weights, n_patterns, single = head.groups()
    if kind not in (None, _CRF) or int(single or 0):
        raise ValueError("it is a model of type maxent or memm; only those of type crf have the same form here")
    patterns, at = _strings(data, head.end(), int(n_patterns))
    names = _matched(_NAMES, data, at)
    labels, at = _strings(data, names.end(), int(names[1]))
    names = _matched(_NAMES, data, at)
    observations, at = _strings(data, names.end(), int(names[1]))
    lines = [line.partition("=") for line in data[at:].decode("ascii").split()]
    if len(lines) != int(n_weights):
        raise ValueError(f"it has {len(lines)} of {int(n_weights)} weights; copy it again")
    values = [float.fromhex(value) if "x" in value else float(value) for _, _, value in lines]
    places = np.array([int(place) for place, _, _ in lines], np.int64)
    check_transitions(len(labels), len(data))
    return _wapiti_model(patterns, labels, observations, places, np.array(values, np.float64))


def _matched(pattern: re.Pattern[bytes], data: bytes, at: int) -> re.Match[bytes]:
    match = pattern.match(data, at)
    if match is None:
        raise ValueError(f"there is no header at byte {at}")
    return match


def _strings(data: bytes, at: int, number: int) -> tuple[list[str], int]:
    """Return so many strings ``length:text,``, and the place behind them; Wapiti may have cut the last character."""
    found: list[str] = []
    for _ in range(number):
        match = _matched(_LENGTH, data, at)
        end = match.end() + int(match[1])
        if data[end : end + 1] != b",":
            raise ValueError(f"there is no string of a length and a comma at byte {at}")
        found.append(data[match.end() : end].decode("utf8", "backslashreplace"))
        at = end + 2
    return found, at


def _wapiti_model(
    patterns: list[str], labels: list[str], names: list[str], places: NDArray[np.int64], values: NDArray[np.float64]
) -> SavedModel:
    check_names(labels, names)
    n, kinds = len(labels), np.array([name[0] for name in names])
    own, paired = np.isin(kinds, ["u", "*"]), np.isin(kinds, ["b", "*"])
    if not (own | paired).all():
        raise ValueError(f"the observation {names[(own | paired).argmin()][:40]!r} begins with none of u, b and *")
    ends = np.cumsum(n * own + n * n * paired)
    if len(places) and not 0 <= places.min() <= places.max() < ends[-1]:
        raise ValueError("it has weights of observations that are not there")
    if not np.isfinite(values).all():
        raise ValueError("some of its weights are no finite numbers; train it again")
    rows = np.searchsorted(ends, places, side="right")
    columns = places - np.append(0, ends)[rows]
    of_pair = ~own[rows] | (columns >= n)
    columns -= n * (of_pair & own[rows])
    constant = {text for text in patterns if "%" not in text}  # there at every token
    everywhere = paired & np.array([name in constant for name in names])
    steps, transitions = of_pair & everywhere[rows], np.zeros(n * n)
    np.add.at(transitions, columns[steps], values[steps])

    def taken(kept: NDArray[np.bool_], which: NDArray[np.bool_]) -> NamedWeights:
        left = [name for name, stays in zip(names, kept.tolist(), strict=True) if stays]
        return NamedWeights(left, (np.cumsum(kept) - 1)[rows[which]], columns[which], values[which])

    pairs = taken(paired & ~everywhere, of_pair & ~steps)
    return SavedModel(labels, taken(own, ~of_pair), pairs, transitions.reshape(n, n), patterns)
