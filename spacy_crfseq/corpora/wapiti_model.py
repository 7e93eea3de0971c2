"""Trained models of Wapiti (Lavergne, Cappe & Yvon 2010), which are text.

A header, the patterns, labels and observations as strings ``length:text,``, and a line ``number=weight`` for each
weight that is not zero.  An observation that begins with "u" has a weight for each of L labels, one with "b" for each
of L * L pairs of labels, one with "*" both.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFileError
from ._lines import check_file
from .crfsuite_model import NamedWeights, SavedModel, check_names

MAGIC = b"#mdl#"
_TYPES = {b"0": "maxent", b"1": "memm"}
_MODEL = re.compile(rb"#mdl#(?:(?P<type>\d+)#)?(?P<count>\d+)\n")
_READER = re.compile(rb"#rdr#(?P<count>\d+)/\d+(?:/(?P<single>\d+))?\n")
_NAMES = re.compile(rb"#qrk#(?P<count>\d+)\n")
_LENGTH = re.compile(rb"\s*(\d+):")


def name_of(text: bytes) -> str:
    """Return the name of an observation, of which Wapiti may have cut a character of several bytes."""
    return text.decode("utf8", "backslashreplace")


def read_wapiti_model(path: Path | str) -> SavedModel:
    """Return the model in a file of ``wapiti train``.

    RAISES ModelFileError: If the file is damaged, cut short or foreign, or if the model is no CRF.
    """
    path = check_file(path)
    try:
        return _Reader(path.read_bytes()).model()
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: this is no model of Wapiti, or it is damaged: {error}.") from None


class _Reader:
    """Reads the parts of a file one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def model(self) -> SavedModel:
        """Return the model.  RAISES ValueError: If a part is not as it must be."""
        head, reader = self._head(_MODEL, "header"), self._head(_READER, "list of patterns")
        kind = _TYPES.get(head["type"] or b"", "maxent" if int(reader["single"] or 0) else "crf")
        if kind != "crf":
            raise ValueError(f"it is of type {kind}, but only models of type crf have the same form here")
        patterns = [name_of(text) for text in self._strings(int(reader["count"]))]
        labels = self._strings(int(self._head(_NAMES, "list of labels")["count"]))
        observations = self._strings(int(self._head(_NAMES, "list of observations")["count"]))
        return _assembled(patterns, labels, observations, *self._weights(int(head["count"])))

    def _head(self, pattern: re.Pattern[bytes], what: str) -> re.Match[bytes]:
        match = pattern.match(self._data, self._at)
        if match is None:
            raise ValueError(f"there is no {what} at byte {self._at}")
        self._at = match.end()
        return match

    def _strings(self, number: int) -> list[bytes]:
        """Return so many strings ``length:text,``."""
        data, at, found = self._data, self._at, list[bytes]()
        for _ in range(number):
            match = _LENGTH.match(data, at)
            end = match.end() + int(match[1]) if match else len(data)
            if match is None or data[end : end + 1] != b",":
                raise ValueError(f"there is no string of a length and a comma at byte {at}")
            found.append(data[match.end() : end])
            at = end + 2
        self._at = at
        return found

    def _weights(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        lines = self._data[self._at :].decode("ascii").split()
        if len(lines) != number:
            raise ValueError(f"it has {len(lines)} of {number} weights; copy it again")
        pairs = [line.partition("=") for line in lines]
        places = np.array([int(place) for place, _, _ in pairs], np.int64)
        values = np.array([float.fromhex(text) if "x" in text else float(text) for _, _, text in pairs], np.float64)
        if not np.isfinite(values).all():
            raise ValueError("some of its weights are no finite numbers; train it again")
        return places, values


def _assembled(
    patterns: list[str],
    labels: list[bytes],
    observations: list[bytes],
    places: NDArray[np.int64],
    values: NDArray[np.float64],
) -> SavedModel:
    n = len(labels)
    kinds = np.array([b"ub*".find(text[:1] or b"?") for text in observations], np.int64)
    if (kinds < 0).any():
        strange = observations[int((kinds < 0).argmax())]
        raise ValueError(f"the observation {strange[:40]!r} begins with none of u, b and *")
    names = [name_of(text) for text in observations]
    tags = [name_of(text) for text in labels]
    check_names(tags, names)
    for_label, for_pair = kinds != 1, kinds != 0
    ends = np.cumsum(np.where(for_label, n, 0) + np.where(for_pair, n * n, 0))
    if len(places) and (places.min() < 0 or places.max() >= (ends[-1] if len(ends) else 0)):
        raise ValueError("it has weights of observations that are not there")
    owners = np.searchsorted(ends, places, side="right")
    inside = places - np.append(0, ends)[owners]
    pair = (kinds[owners] == 1) | ((kinds[owners] == 2) & (inside >= n))
    inside -= np.where(pair & (kinds[owners] == 2), n, 0)
    constant = {text for text in patterns if "%" not in text}
    bare = np.array([name in constant for name in names], np.bool_)
    steps = pair & bare[owners]
    transitions = np.zeros(n * n)
    np.add.at(transitions, inside[steps], values[steps])
    own, paired = _taken(names, for_label, owners, inside, values, ~pair), pair & ~steps
    pairs = _taken(names, for_pair & ~bare, owners, inside, values, paired)
    return SavedModel(tags, own, pairs, transitions.reshape(n, n), patterns)


def _taken(
    names: list[str],
    kept: NDArray[np.bool_],
    owners: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    which: NDArray[np.bool_],
) -> NamedWeights:
    """Return the weights `which` [W] of the names that are `kept` [A]."""
    numbers = np.cumsum(kept) - 1
    left = [name for name, stays in zip(names, kept.tolist(), strict=True) if stays]
    return NamedWeights(left, numbers[owners[which]], columns[which], values[which])
