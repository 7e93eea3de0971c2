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
from .crfsuite_model import NamedWeights, SavedModel, check_names, check_transitions
from .lines import check_file

MAGIC = b"#mdl#"
_HEAD = re.compile(rb"#mdl#(?:(\d+)#)?(\d+)\n#rdr#(\d+)/\d+(?:/(\d+))?\n")
_NAMES, _LENGTH = re.compile(rb"#qrk#(\d+)\n"), re.compile(rb"\s*(\d+):")
_CRF = b"2"


def read_wapiti_model(path: Path | str) -> SavedModel:
    """Return the model in a file of ``wapiti train``.

    RAISES ModelFileError: If the file is damaged, cut short or foreign, or if the model is no CRF.
    """
    path = check_file(path)
    try:
        return _of_bytes(path.read_bytes())
    except (ValueError, LookupError, OverflowError) as error:
        raise ModelFileError(f"{path}: this is no model of Wapiti, or it is damaged: {error}.") from None


def _of_bytes(data: bytes) -> SavedModel:
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
    return _assembled(patterns, labels, observations, places, np.array(values, np.float64))


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


def _assembled(
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
