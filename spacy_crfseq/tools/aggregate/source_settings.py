"""A source of labels as a text of users: where its labels are, then settings, which say how it is read.

labels.jsonl,match=all,min_score=0.6,map=person:PER,city:LOC
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...corpora.layouts import Asked
from ...corpora.spans.rules import OUTSIDE as SAYS
from ...errors import ConfigError, suggest
from ...schemes import OUTSIDE
from .settings_text import split_settings, value_of

FUNCTION = "@"
"""First character of the place of a source that is a registered function."""
UNSURE = "unsure"
TEXTS = ("all", "some")
_OF_FILES = ("format", "scheme", "encoding", "match")
NAMES = ("map", "trim", "labels", "outside", "min_score", "texts", "spans", *_OF_FILES)


@dataclass(frozen=True)
class SourceSettings:
    """Where a source has its labels, and how they are read.

    place (str): An annotated file over the same texts; a pipeline, as a folder or package; a file .jsonl with patterns
        of an entity ruler; a file .txt, a list of phrases with one per line, whose label is its name; or @ and the name
        of a function of the registry crf_sources.
    map (Mapping[str, str]): New names of labels, one for several merges them.  "O" means that the source says that a
        token is in no span to learn, "" that it says nothing.
    trim (tuple[str, ...]): Words, in lower case, that spans do not begin or end with, such as "the" and "'s": they are
        outside of spans.
    labels (tuple[str, ...]): Labels, by their new names, that the source has besides those that it gives.  Pipelines,
        patterns and lists have known labels, so this is for files and functions.
    outside (str): "known" if tokens outside of its spans are in no span of its labels, "unknown" if it says nothing of
        them; "unsure" if it says nothing of those that it may not know, see `unsure_tokens`; "" for "unknown" with
        patterns, lists and functions, else "known".
    min_score (float): It says nothing where a span, or in a CRF also that there is none, is less probable.
    texts (str): "all" if it has the same texts in the same order; "some" if it has texts in any order, and says nothing
        of others.
    spans (str): Of a file .spacy, the key of the spans in doc.spans that are read instead of the entities.
    layout (Asked): Of a file, if neither its name nor that of the texts says it, and how spans without positions are
        looked up.
    more (Mapping[str, Any]): Settings of a registered function.
    RAISES ConfigError: If one of them cannot be.
    """

    place: str
    map: Mapping[str, str] = field(default_factory=dict)
    trim: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    outside: str = ""
    min_score: float = 0.0
    texts: str = "all"
    spans: str = ""
    layout: Asked = field(default_factory=Asked)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, choices in (("outside", self.outside, ("", *SAYS, UNSURE)), ("texts", self.texts, TEXTS)):
            if value not in choices:
                raise ConfigError(f"{self.place}, {name}={value}: give {' or '.join(filter(None, choices))}.")
        if not 0 <= self.min_score <= 1:
            raise ConfigError(f"{self.place}, min_score={self.min_score:g}: give a number from 0 to 1.")

    @property
    def is_function(self) -> bool:
        """Whether the source is a registered function."""
        return self.place.startswith(FUNCTION)

    def renamed(self, label: str) -> str:
        """Return the new name of a label, "O" or ""; see `map`."""
        return self.map.get(label, label)

    def refuse(self, kind: str, *allowed: str) -> None:
        """Raise ConfigError if a setting is given that a kind of source does not have."""
        values = {**self.layout._asdict(), **vars(self), "format": self.layout.name, "texts": self.texts != "all"}
        given = [name for name in NAMES if values[name] and name not in ("map", "trim", "outside", *allowed)]
        if given:
            raise ConfigError(f"{self.place}: {given[0]} is not a setting of {kind}.")


def parse_source(text: str) -> SourceSettings:
    """Return the settings in a text such as "labels.jsonl,match=all,map=person:PER,city:LOC".

    RAISES ConfigError: If a setting is unknown, comes twice, or has a value that cannot be.
    """
    place, settings = split_settings(text)
    values, more = dict[str, Any](), dict[str, Any]()
    for name, value in settings.items():
        if name in NAMES:
            values[name] = _read(name, value, text)
        elif place.startswith(FUNCTION):
            more[name] = value_of(value)
        else:
            raise ConfigError(f"{text}: unknown setting {name!r}. {suggest(name, NAMES)}")
    if not place.strip(FUNCTION):
        raise ConfigError(f"{text}: give a file, a pipeline, or {FUNCTION} and the name of a function first.")
    layout = {"name" if name == "format" else name: values.pop(name) for name in _OF_FILES if name in values}
    return SourceSettings(place, layout=Asked(**layout), more=more, **values)


def _read(name: str, value: str, text: str) -> Any:
    """Return the value of a setting."""
    items = [item.strip() for item in value.split(",")]
    if name == "map":
        pairs = [item.rpartition(":") for item in items]
        if strange := [item for item, (old, sign, _) in zip(items, pairs, strict=True) if not (old and sign)]:
            raise ConfigError(
                f"{text}: map={strange[0]}: give old and new names, as in map=person:PER,city:LOC; the new name "
                f'"{OUTSIDE}" for none of the labels, and no new name for unknown.'
            )
        old_names = [old for old, _, _ in pairs]
        if again := [old for number, old in enumerate(old_names) if old in old_names[:number]]:
            raise ConfigError(f"{text}: map={again[0]}: the label has two new names; give it one.")
        return {old: new for old, _, new in pairs}
    if name in ("trim", "labels"):
        return tuple(filter(None, items))
    if name == "min_score":
        try:
            return float(value)
        except ValueError:
            raise ConfigError(f"{text}: min_score={value}: give a number from 0 to 1.") from None
    return value
