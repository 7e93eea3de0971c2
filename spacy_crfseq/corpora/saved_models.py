"""Trained models of CRFsuite (Okazaki 2007) and of Wapiti (Lavergne, Cappe & Yvon 2010), read and written.

Those of CRFsuite are little-endian: a header with offsets, the features (kind, source, target, weight), and two
constant databases with the names of labels and attributes.  Each name stands in a record ``number, size, name, NUL``;
256 hash tables lead from a name to its record, an array at the end of the database from a number.  Two lists of
features follow, by the label and by the attribute that they begin with.

Those of Wapiti are text: a header, the patterns, labels and observations as strings ``length:text,``, and a line
``number=weight`` for each weight that is not zero.  An observation that begins with "u" has a weight for each of L
labels, one with "b" for each of L * L pairs of labels, one with "*" both.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFileError
from ..files import replacing
from .lines import ZIPPED, check_file, opened

CRFSUITE, WAPITI = b"lCRF", b"#mdl#"
"""The first bytes of models of CRFsuite and Wapiti."""
LEAST, MOST = 16 << 20, 64
"""Bytes that the transitions of any model may take, and their number for each byte of a larger file."""
_HEADER, _DATABASE, _CHUNK = Struct("<4sI4s9I"), Struct("<4s5I"), Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BYTE_ORDER, _TABLES = 0x62445371, 256
_BUCKET = np.dtype([("hash", "<u4"), ("place", "<u4")])
_HEAD = re.compile(rb"#mdl#(?:(\d+)#)?(\d+)\n#rdr#(\d+)/\d+(?:/(\d+))?\n")
_NAMES, _LENGTH = re.compile(rb"#qrk#(\d+)\n"), re.compile(rb"\s*(\d+):")
_CRF = b"2"
_KINDS = {"u": 1, "b": 2, "*": 3}
"""Weights of observations by their first letter: of labels (1), of pairs of labels (2), or of both."""
UNREADABLE = (ValueError, LookupError, OverflowError, error)
"""Errors at models that a format cannot hold, also those of NumPy, codecs and struct."""
_COLUMN = re.compile(r"%[xXtTmM]\[@?[+-]?\d+,(\d+)")
_CUT = re.compile(rb"\\x([89a-f][0-9a-f])")


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
    with opened(check_file(path)) as file:
        first = file.read(len(WAPITI))
    if first == WAPITI:
        return read_wapiti_model(path)
    return read_crfsuite_model(path, encoding) if first.startswith(CRFSUITE) else None


def check_transitions(n_labels: int, n_bytes: int) -> None:
    """RAISES ValueError: If the transitions of `n_labels` labels take far more memory than a model's file has bytes."""
    needed, limit = 8 * n_labels**2, _limit(n_bytes)
    if needed > limit:
        raise ValueError(
            f"the transitions of its {n_labels:,} labels would take {needed:,} bytes, and at most {limit:,} are taken "
            f"for a file of {n_bytes:,}"
        )


def check_names(labels: Sequence[str], *attributes: Sequence[str]) -> None:
    """RAISES ValueError: If there are no labels, or names that occur twice."""
    if not labels:
        raise ValueError("it has no labels")
    for names in (labels, *attributes):
        if len(set(names)) < len(names):
            raise ValueError("a name of its labels or attributes occurs twice")


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
    except UNREADABLE as error:
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


def write_crfsuite_model(path: Path, model: SavedModel, encoding: str = "utf8") -> None:
    """Write a model without weights of pairs to a file, byte by byte as CRFsuite does.

    Weights of zero, and attributes without any other, are left out.
    RAISES ModelFileError: If the format cannot hold the model, so that `read_crfsuite_model` would refuse the file or
        return other names; nothing is written then.
    """
    try:
        data = _crfsuite_bytes(model, encoding)
        names = [model.attributes.names[row] for row in _active(model.attributes)]
        _check_same(_crfsuite_of(data, encoding), model.labels, names)
    except UnicodeEncodeError as reason:
        raise ModelFileError(f"{path}: a name is not in {encoding} ({reason}). Give --encoding utf8.") from None
    except UNREADABLE as reason:
        raise ModelFileError(f"{path}: CRFsuite cannot hold this model: {reason}.") from None
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _active(table: NamedWeights) -> list[int]:
    """Return the rows of a table that have a weight other than zero, in ascending order."""
    return np.unique(table.rows[table.values != 0]).tolist()  # type: ignore[no-any-return]


def _check_same(again: SavedModel, labels: Sequence[str], names: Iterable[str]) -> None:
    """RAISES ValueError: If a model that was written and read again lacks a label, or an attribute with a weight."""
    if lost := [label for label in labels if label not in again.labels]:
        raise ValueError(f"the label {lost[0]!r} would become {again.labels[labels.index(lost[0])]!r}")
    kept = {*again.attributes.names, *again.pairs.names, *(again.patterns or ())}
    if lost := [name for name in names if name not in kept]:
        raise ValueError(f"the attribute {lost[0]!r} would get another name")


def _crfsuite_bytes(model: SavedModel, encoding: str) -> bytes:
    if model.pairs.values.any():
        raise ValueError("it has weights of label pairs with attributes")
    n, (names, rows, columns, values) = len(model.labels), model.attributes
    kept = np.unique(rows[values != 0])
    state, (before, after) = np.flatnonzero(values), np.nonzero(model.transitions)
    order = state[np.lexsort((columns[state], rows[state]))]
    features = np.zeros(len(order) + len(before), _FEATURE)
    features["kind"][len(order) :] = 1
    features["source"] = np.append(np.searchsorted(kept, rows[order]), before)
    features["target"] = np.append(columns[order], after)
    features["weight"] = np.append(values[order], model.transitions[before, after])
    by_label = np.searchsorted(before, np.arange(n + 1)) + len(order)
    by_attribute = np.searchsorted(features["source"][: len(order)], np.arange(len(kept) + 1))
    chunks = [_CHUNK.pack(b"FEAT", _CHUNK.size + features.nbytes, len(features)) + features.tobytes()]
    chunks += [_database(texts, encoding) for texts in (model.labels, [names[row] for row in kept.tolist()])]
    places = [_HEADER.size, *(_HEADER.size + np.cumsum(list(map(len, chunks)))).tolist()]
    for kind, bounds, n_empty in ((b"LFRF", by_label, 2), (b"AFRF", by_attribute, 0)):
        gap = -places[-1] % 4
        places[-1] += gap
        chunks[-1] += bytes(gap)
        chunks.append(_references(kind, bounds, n_empty, places[-1]))
        places.append(places[-1] + len(chunks[-1]))
    head = _HEADER.pack(CRFSUITE, places[-1], b"FOMC", 100, 0, n, len(kept), *places[:-1])
    return b"".join([head, *chunks])


def _database(names: Sequence[str], encoding: str) -> bytes:
    """Return a constant database.  RAISES ValueError: If a name has the character NUL, which ends names there."""
    keys = [name.encode(encoding) + b"\0" for name in names]
    if nul := next((name for name, key in zip(names, keys, strict=True) if b"\0" in key[:-1]), None):
        raise ValueError(f"the name {nul!r} has a NUL")
    sizes = np.fromiter(map(len, keys), np.int64, len(keys))
    begin = _DATABASE.size + _TABLES * _BUCKET.itemsize
    places = begin + np.append(0, np.cumsum(8 + sizes))
    records = b"".join(
        part for i, key in enumerate(keys) for part in (i.to_bytes(4, "little"), len(key).to_bytes(4, "little"), key)
    )
    hashes, references, tables, at = _hashes(keys, sizes), np.zeros(_TABLES, _BUCKET), list[bytes](), int(places[-1])
    order, spread = np.argsort(hashes % _TABLES, kind="stable"), hashes.tolist()
    bounds = np.searchsorted(hashes[order] % _TABLES, np.arange(_TABLES + 1))
    for number, (first, last) in enumerate(pairwise(bounds.tolist())):
        table, owners = np.zeros(2 * (last - first), _BUCKET), [-1] * (2 * (last - first))
        references[number] = at if owners else 0, len(owners)
        for key in order[first:last].tolist():  # half of the places stay free, so that the next free one is near
            place = (spread[key] >> 8) % len(owners)
            while owners[place] >= 0:
                place = (place + 1) % len(owners)
            owners[place] = key
        taken = np.array(owners, np.int64)
        table["hash"][taken >= 0], table["place"][taken >= 0] = (
            column[taken[taken >= 0]] for column in (hashes, places)
        )
        tables.append(table.tobytes())
        at += table.nbytes
    by_number = places[:-1].astype("<u4").tobytes() if at < 2**32 else b""
    size = at + len(by_number)
    head = _DATABASE.pack(b"CQDB", size, 0, _BYTE_ORDER, len(keys), at if keys else 0)
    return b"".join([head, references.tobytes(), records, *tables, by_number])


def _references(kind: bytes, bounds: NDArray[np.int64], n_empty: int, at: int) -> bytes:
    """Return the lists of the features ``bounds[i]..bounds[i + 1] - 1`` for each i, and `n_empty` without a place."""
    counts = np.diff(bounds)
    lists = np.insert(np.arange(bounds[0], bounds[-1]), bounds[:-1] - bounds[0], counts).astype("<u4")
    begin = _CHUNK.size + 4 * (len(counts) + n_empty)
    places = at + begin + 4 * (np.arange(len(counts)) + bounds[:-1] - bounds[0])
    if at + begin + lists.nbytes >= 2**32:
        raise ValueError("it would have more than 4 GiB")
    head = _CHUNK.pack(kind, begin + lists.nbytes, len(counts) + n_empty)
    return b"".join([head, places.astype("<u4").tobytes(), bytes(4 * n_empty), lists.tobytes()])


def _hashes(keys: Sequence[bytes], sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return Jenkins' hash ``lookup3`` of each key [N], which has at least one byte."""
    hashes, n_blocks = np.zeros(len(keys), np.uint32), -(-sizes // 12)
    for width in np.unique(n_blocks).tolist():
        chosen = np.flatnonzero(n_blocks == width)
        padded = b"".join(keys[i].ljust(12 * width, b"\0") for i in chosen.tolist())
        words = np.frombuffer(padded, "<u4").reshape(len(chosen), width, 3).astype(np.uint32)
        a = b = c = (0xDEADBEEF + sizes[chosen]).astype(np.uint32)
        for block in range(width):
            a, b, c = a + words[:, block, 0], b + words[:, block, 1], c + words[:, block, 2]
            if block < width - 1:
                for turn in (4, 6, 8, 16, 19, 4):
                    a, b, c = b, c + b, (a - c) ^ _turned(c, turn)  # the roles of the three go around
        for turn in (14, 11, 25, 16, 4, 14, 24):
            a, b, c = b, (c ^ b) - _turned(b, turn), a
        hashes[chosen] = b
    return hashes


def _turned(words: NDArray[np.uint32], n_bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(n_bits)) | (words >> np.uint32(32 - n_bits))


# Wapiti


def read_wapiti_model(path: Path | str) -> SavedModel:
    """Return the model in a file of ``wapiti train``.

    RAISES ModelFileError: If the file is damaged, cut short or foreign, or if the model is no CRF.
    """
    path = check_file(path)
    try:
        size = path.stat().st_size
        with opened(path) as file:
            data = file.read(_limit(size) + 1 if path.suffix == ZIPPED else -1)
        if path.suffix == ZIPPED:
            _check_unpacked(len(data), size)
        return _wapiti_of(data)
    except UNREADABLE as error:
        raise ModelFileError(f"{path}: this is no model of Wapiti, or it is damaged: {error}.") from None


def _limit(size: int) -> int:
    return max(LEAST, MOST * size)


def _check_unpacked(length: int, size: int) -> None:
    """RAISES ValueError: If a packed file of `size` bytes has far more of them unpacked."""
    if length > _limit(size):
        raise ValueError(f"it is packed, and has more than {_limit(size):,} bytes")


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
    """Return some strings ``length:text,``, and the place behind them; Wapiti may have cut the last character."""
    strings: list[str] = []
    for _ in range(number):
        match = _matched(_LENGTH, data, at)
        end = match.end() + int(match[1])
        if data[end : end + 1] != b",":
            raise ValueError(f"there is no string of a length and a comma at byte {at}")
        strings.append(data[match.end() : end].decode("utf8", "backslashreplace"))
        at = end + 2
    return strings, at


def _wapiti_model(
    patterns: list[str], labels: list[str], names: list[str], places: NDArray[np.int64], values: NDArray[np.float64]
) -> SavedModel:
    check_names(labels, names)
    if "" in (*labels, *names):
        raise ValueError("a label or an observation is empty")
    if wrong := [text for text in patterns if text[:1].lower() not in _KINDS]:
        raise ValueError(f"the pattern {wrong[0][:40]!r} begins with none of u, b and *")
    n, kinds = len(labels), np.array([_KINDS.get(name[0], 0) for name in names], np.int64)
    own, paired = kinds & 1 > 0, kinds & 2 > 0
    if not (own | paired).all():
        raise ValueError(f"the observation {names[(own | paired).argmin()][:40]!r} begins with none of u, b and *")
    ends = np.cumsum(n * own + n * n * paired)
    if len(places) and not 0 <= places.min() <= places.max() < ends.max(initial=0):
        raise ValueError("it has weights of observations that are not there")
    if not np.isfinite(values).all():
        raise ValueError("some of its weights are no finite numbers; train it again")
    rows = np.searchsorted(ends, places, side="right")
    columns = places - np.append(0, ends)[rows]
    of_pair = ~own[rows] | (columns >= n)
    columns -= n * (of_pair & own[rows])
    constant = {text for text in patterns if "%" not in text}  # there at every token
    everywhere = paired & np.array([name in constant for name in names], np.bool_)
    steps, transitions = of_pair & everywhere[rows], np.zeros(n * n)
    np.add.at(transitions, columns[steps], values[steps])

    def taken(kept: NDArray[np.bool_], which: NDArray[np.bool_]) -> NamedWeights:
        left = [name for name, stays in zip(names, kept.tolist(), strict=True) if stays]
        return NamedWeights(left, (np.cumsum(kept) - 1)[rows[which]], columns[which], values[which])

    pairs = taken(paired & ~everywhere, of_pair & ~steps)
    return SavedModel(labels, taken(own, ~of_pair), pairs, transitions.reshape(n, n), patterns)


def write_wapiti_model(path: Path, model: SavedModel) -> None:
    """Write a model with patterns to a file, as ``wapiti train --compact`` does; it is packed if the name ends in .gz.

    Weights of zero, and observations without any other, are left out.  A pattern "b" is added for transitions, if
    there is no pattern of pairs without macros.
    RAISES ModelFileError: If the format cannot hold the model, so that `read_wapiti_model` would refuse the file or
        return other names; nothing is written then.
    """
    try:
        data, names = _wapiti_bytes(model)
        packed = gzip.compress(data, mtime=0) if path.suffix == ZIPPED else data
        if path.suffix == ZIPPED:
            _check_unpacked(len(data), len(packed))
        _check_same(_wapiti_of(data), model.labels, names)
    except UNREADABLE as reason:
        raise ModelFileError(f"{path}: Wapiti cannot hold this model: {reason}.") from None
    with replacing(path) as temporary:
        temporary.write_bytes(packed)


def _wapiti_bytes(model: SavedModel) -> tuple[bytes, list[str]]:
    """Return the content of a file, and the names of the observations in it."""
    if model.patterns is None:
        raise ValueError("it computes attributes from columns by patterns, but this model has none")
    n, patterns = len(model.labels), list(model.patterns)
    steps = np.flatnonzero(model.transitions)
    constant = next((text for text in patterns if "%" not in text and text[:1] in ("b", "*")), "b")
    patterns += [constant] if len(steps) and constant not in patterns else []
    everywhere = NamedWeights([constant], np.zeros_like(steps), steps, model.transitions.ravel()[steps])
    tables = [(2, everywhere), (1, model.attributes), (2, model.pairs)]  # 1: kinds of labels, 2: of pairs
    active = [table.names[row] for _, table in tables for row in _active(table)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(active))}
    kinds = np.array([_KINDS.get(name[:1], 0) for name in numbers], np.int64)
    widths = n * (kinds & 1) + n * n * (kinds >> 1)
    starts, weights = np.cumsum(widths) - widths, dict[int, float]()
    for kind, table in tables:
        rows, columns, values = (column[table.values != 0] for column in table[1:])
        homes = np.array([numbers.get(name, -1) for name in table.names], np.int64)[rows]
        if (kinds[homes] & kind == 0).any():
            name = table.names[rows[np.argmax(kinds[homes] & kind == 0)]]
            raise ValueError(f"{name!r} is no observation, which begin with u, b or *")
        places = starts[homes] + columns + (n * (kinds[homes] & 1) if kind == 2 else 0)
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            weights[place] = weights.get(place, 0.0) + value  # pairs may have the pattern of transitions, too
    n_columns = max([0, *(int(column) for text in patterns for column in _COLUMN.findall(text))])
    parts = [f"#mdl#2#{len(weights)}\n#rdr#{len(patterns)}/{n_columns}/0\n".encode(), *map(_string, patterns)]
    for names in (model.labels, [*numbers]):
        parts += [b"#qrk#%d\n" % len(names), *map(_string, names)]
    parts += [f"{place}={_hexadecimal(value)}\n".encode() for place, value in sorted(weights.items())]
    return b"".join(parts), [*numbers]


def _string(text: str) -> bytes:
    """Return a string with its length, with bytes in the place of those that `_strings` could not read as a text."""
    data = _CUT.sub(lambda match: bytes([int(match[1], 16)]), text.encode())
    return b"%d:%s,\n" % (len(data), data)


def _hexadecimal(value: float) -> str:
    """Return a number as C prints it with ``%a``."""
    digits, _, exponent = value.hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}"
