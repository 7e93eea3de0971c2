"""``pipe.cfg``: the settings of a component beside its `Method`, and the numbers that `calibrate` has fitted.

Settings of a prediction are those of the config, which the files of a model never override: a change of one reaches the
configs of all pipelines that have the component, which are then saved with it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

from spacy.language import Language

from ..errors import ConfigError, suggest
from ..registry import check_types
from ..reliability import POINTS

UNCALIBRATED: dict[str, Any] = {"temperature": 1.0, "calibration": {}, "cover": {}}
"""The settings that `calibrate` fits to some weights, as they are for others."""
HIGHEST = 1000.0
"""The log-odds of curves are smaller."""
_TYPES: dict[str, Any] = {"threshold": "float", "scores": "bool"}
"""The settings of the config that may change."""


class ComponentSettings(dict[str, Any]):
    """The settings of a component by their names; `threshold` and `scores` may be changed.

    component (Any): The component, whose name and pipelines change.
    fixed (Mapping[str, Any]): Those that its task is made of, which may not change.
    present (Mapping[str, Any]): The others of its config.
    RAISES ConfigError: On a change of a fixed setting, one that is not there, or to an impossible value; here, too.
    """

    def __init__(self, component: Any, fixed: Mapping[str, Any], present: Mapping[str, Any]) -> None:
        super().__init__(**fixed, **dict.fromkeys(present), **deepcopy(UNCALIBRATED))
        self._component, self._fixed = component, frozenset(fixed)
        for key, value in present.items():
            super().__setitem__(key, self._checked(key, value))

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self and self[key] == value:
            return
        super().__setitem__(key, value := self._checked(key, value))
        if key in _TYPES:
            write_configs(self._component, {key: value})

    update = MutableMapping.update
    setdefault = MutableMapping.setdefault

    def __ior__(self, other: Any) -> ComponentSettings:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        """Return how to copy the settings: without the component, they are values by their names."""
        return dict, (dict(self),)

    def __delitem__(self, key: str) -> None:
        raise ConfigError(f"[components.{self._component.name}]: settings of a component cannot be removed.")

    def pop(self, key: str, *default: Any) -> Any:
        """Refuse to remove a setting."""
        del self[key]

    def popitem(self) -> Any:
        """Refuse to remove a setting."""
        del self[""]

    def clear(self) -> None:
        """Refuse to remove the settings."""
        del self[""]

    def _checked(self, key: str, value: Any) -> Any:
        name = self._component.name
        where = f"[components.{name}]"
        if key not in self:
            raise ConfigError(f"{where} has no setting {key!r}. {suggest(key, set(self) - self._fixed)}")
        if key in self._fixed:
            raise ConfigError(
                f"{where}: {key} cannot change in a component that has been made. Set it when you load the pipeline: "
                f'spacy.load(..., config={{"components": {{{name!r}: {{{key!r}: {value!r}}}}}}}).'
            )
        if key in UNCALIBRATED:
            if not is_learned(key, value):
                raise ConfigError(f"{where}: {key} cannot be {value!r}. Let 'python -m spacy crfseq calibrate' fit it.")
            return deepcopy(value)
        check_types(where, _TYPES, {key: value})
        if key == "threshold" and not 0 <= value <= 1:
            raise ConfigError(f"{where}: threshold is a probability, 0 to 1, but {value} was given.")
        return bool(value) if key == "scores" else float(value)  # which may be NumPy's


def is_learned(key: str, value: Any) -> bool:
    """Whether a value can be the temperature, the calibration or the thresholds of coverage of a model."""
    if key == "temperature":
        return _is_number(value) and 0 < value < float("inf")
    if key == "cover":
        return isinstance(value, dict) and all(_is_number(share) and 0 < share <= 1 for share in value.values())
    return isinstance(value, dict) and all(map(_is_curve, value.values()))


def _is_curve(value: Any) -> bool:
    is_list = isinstance(value, (list, tuple)) and len(value) == len(POINTS) and all(map(_is_number, value))
    return is_list and all(a < b for a, b in pairwise([-HIGHEST, *value, HIGHEST]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def write_configs(component: Any, settings: Mapping[str, Any]) -> None:
    """Write settings of a component to the configs of all pipelines that have it.

    Python's garbage collector lists these pipelines.  A component could only note some of them itself: its factory and
    `initialize` get theirs, and so do pipelines that are loaded from a disk or from bytes.  But ``add_pipe(source=)``
    gives the same object to another pipeline without a call that names this pipeline, and pickle restores both without
    their factories.
    """
    for nlp in _languages():
        for name, pipe in nlp.components:
            if pipe is component:
                nlp.get_pipe_config(name).update(settings)


def _languages() -> Iterator[Language]:
    """Yield all pipelines of this process: objects that refer to their class, of the million that it has."""
    classes = [Language]
    for language in classes:  # which grows
        classes.extend(language.__subclasses__())
    for nlp in _referrers(classes):
        if isinstance(nlp, Language) and hasattr(nlp, "_components"):  # not one that is being made
            yield nlp


def _referrers(objects: Sequence[Any]) -> list[Any]:
    """Return the objects that refer to some, also to frozen ones, which Python's garbage collector does not list."""
    if not _has_frozen():
        return gc.get_referrers(*objects)
    gc.unfreeze()
    try:
        return gc.get_referrers(*objects)
    finally:
        gc.freeze()


def _has_frozen() -> bool:
    return gc.get_freeze_count() > 0
