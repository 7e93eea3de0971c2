"""Columns of tags on words, as numbers or as texts, in the records of data sets.

Numbers stand for names that the data set lists: in the "features" of ``dataset_info.json`` or of the Parquet or Arrow
file itself, or line by line in ``labels.txt``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import DataError, count_of
from ...schemes import OUTSIDE, decode_lenient, is_tag
from ..columns import MISSING_ENTITY
from ..tags import TagReader
from .placing import bounds_of_words
from .records import Annotated, CharSpan

COLUMNS = ("ner_tags", "tags", "ner_labels", "labels", "label", "ner", "bio_tags", "iob_tags", "fine_ner_tags")
INFO, NAMES = "dataset_info.json", "labels.txt"
_MISSING = (None, "", MISSING_ENTITY, -100)


class TagColumns:
    """The columns of tags of a file.

    names: The names that numbers of a column stand for, if the file has them itself.
    """

    def __init__(self, path: Path, names: Mapping[str, Sequence[str]] | None = None) -> None:
        self._path, self._own, self._readers = path, dict(names or {}), dict[str, TagReader]()

    def column_of(self, entry: Mapping[str, Any]) -> str | None:
        """Return the key of the tags of a record, None if it has none."""
        for name in COLUMNS:
            value = entry.get(name)
            if isinstance(value, list) and value and all(_is_tag(tag) for tag in value):
                return name
        return None

    def annotated(self, text: str, words: Sequence[str], column: str, tags: Sequence[Any]) -> Annotated:
        """Return words with the spans of their tags; RAISES DataError: If there are not as many, or they cannot be."""
        if len(words) != len(tags):
            raise DataError(f"{count_of(len(words), 'word')}, but {count_of(len(tags), 'tag')} under {column!r}.")
        names = [MISSING_ENTITY if tag in _MISSING else self._name(column, tag) for tag in tags]
        reader = self._readers.setdefault(column, TagReader())
        typed = reader.read([OUTSIDE if name == MISSING_ENTITY else name for name in names])
        if wrong := next((tag for tag in typed if not is_tag(tag)), None):
            raise DataError(f"{wrong!r} under {column!r} is no tag of spans, such as B-PER or O.")
        *_, starts, ends = bounds_of_words(words)
        spans = [CharSpan(starts[start], ends[end - 1], label) for start, end, label in decode_lenient(typed)]
        unknown = [(starts[i], ends[i]) for i, name in enumerate(names) if name == MISSING_ENTITY]
        return Annotated(text, spans, unknown=unknown, words=words)

    def _name(self, column: str, tag: Any) -> str:
        if isinstance(tag, str):
            return tag
        names = self._own.get(column) or self._beside.get(column) or self._beside.get("")
        if names is None:
            raise DataError(
                f"numbers under {column!r} stand for tags, but nothing says which. Write them to {NAMES} beside the "
                f'file, one a line, from that of 0, or put the {INFO} with "features" there.'
            )
        if not 0 <= tag < len(names):
            raise DataError(f"{tag} under {column!r} is no number of the {len(names)} tags ({', '.join(names[:6])}).")
        return str(names[tag])

    @cached_property
    def _beside(self) -> dict[str, list[str]]:
        """Names by columns, "" for any, from files beside this one or in the folder above it."""
        for folder in (self._path.parent, self._path.parent.parent):
            try:
                if (folder / NAMES).is_file():
                    lines = (folder / NAMES).read_text("utf8").removeprefix("\ufeff").splitlines()
                    return {"": [line.strip() for line in lines if line.strip()]}
                if (folder / INFO).is_file():
                    return names_of(json.loads((folder / INFO).read_text("utf8")))
            except (OSError, ValueError, RecursionError) as error:
                raise DataError(f"{folder}: the names of the tags cannot be read ({error}).") from None
        return {}


def names_of(info: Any) -> dict[str, list[str]]:
    """Return the names of the numbers of columns, from a data set's description."""
    features = _features(info) or {}
    by_column = {column: _names(feature) for column, feature in features.items()}
    return {column: names for column, names in by_column.items() if names}


def _features(info: Any) -> dict[str, Any] | None:
    if not isinstance(info, dict):
        return None
    if isinstance(info.get("features"), dict):
        return dict(info["features"])
    return next((features for value in info.values() if (features := _features(value)) is not None), None)


def _names(feature: Any) -> list[str] | None:
    if isinstance(feature, list):
        return _names(feature[0]) if feature else None
    if not isinstance(feature, dict):
        return None
    names = feature.get("names")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    return _names(feature.get("feature"))


def _is_tag(value: Any) -> bool:
    return value is None or type(value) in (int, str)
