"""The grid of a sweep: its file, the settings that it varies, and their combinations.

A setting is written as in the overrides of ``fit``; one that is in no section of the config is one of the component.
A block such as a loss may be named by its function, a short name being that of this package's function.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from spacy.util import registry

from ...errors import ConfigError, suggest

Place: TypeAlias = tuple[str, ...]
"""Where a setting stands in a config, such as ("training", "seed")."""
_EXAMPLE = "Write, for example, regularizer.rho = [0.1, 1, 10] under [sweep.grid]."


class Range(NamedTuple):
    """All numbers from `low` to `high`, whole ones if these are; `log` if small ones are as likely as large ones."""

    low: float
    high: float
    log: bool = False


Choices: TypeAlias = list[Any] | Range
"""The values of a setting."""


class GridFile(NamedTuple):
    """The file of a sweep: a training config, the component to train, and the values of each setting.

    config (Config): Its variables are not filled in.
    component: None for the only one.
    """

    file: Path
    config: Any
    component: str | None
    grid: dict[str, Choices]


class Combination(NamedTuple):
    """One combination of the values of a grid.

    settings: Values as the file has them, without those that its functions do not take.
    changes: The same by their places in the config, blocks written out, outer ones first.
    picked: The same as numbers in the lists of values, or as values from ranges.
    """

    settings: dict[str, Any]
    changes: dict[Place, Any]
    picked: dict[str, Any]

    def __str__(self) -> str:
        return " ".join(f"{key}={show(value)}" for key, value in self.settings.items()) or "the config as it is"

    @property
    def key(self) -> str:
        """A text that is the same for equal combinations."""
        return key_of(self.settings)


def key_of(settings: Mapping[str, Any]) -> str:
    """Return a text that is the same for equal settings."""
    return json.dumps(settings, sort_keys=True)


def show(value: Any) -> str:
    """Return a value of a setting for people: a function by its short name and settings."""
    at = _registry_of(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if at is None:
        return value if isinstance(value, str) else json.dumps(value)
    rest = ", ".join(f"{key}={show(part)}" for key, part in value.items() if key != at)
    return _short(value[at]) + (f"({rest})" if rest else "")


def read_grid(file: Path, overrides: dict[str, Any], load: Callable[[Path, dict[str, Any]], Any]) -> GridFile:
    """Read the file of a sweep; `overrides` go to its training config.

    load (Callable): Reads a config with some overrides.
    RAISES ConfigError: If it is no such file.
    """
    text = load(file, {})
    if not isinstance(sweep := text.pop("sweep", None), dict):
        raise ConfigError(f"{file}: there is no section [sweep]. {_EXAMPLE}")
    source, component, grid = (sweep.get(key) for key in ("config", "component", "grid"))
    for key in sweep.keys() - {"config", "component", "grid", "ranges"}:
        hint = suggest(key, ("config", "component", "grid", "ranges"))
        raise ConfigError(f"{file}: [sweep] has no setting {key!r}. {hint} List what to vary under [sweep.grid].")
    ranges = {key: _range(file, key, ends) for key, ends in sweep.get("ranges", {}).items()}
    grid = {} if grid is None and ranges else grid
    if not isinstance(grid, dict) or not (grid or ranges):
        raise ConfigError(f"{file}: there is no setting under [sweep.grid]. {_EXAMPLE}")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            example = json.dumps([values] if values != [] else [1, 2])
            said = f"must be a list of values, but {values!r} was given. Write {key} = {example}."
            raise ConfigError(f"{file}: [sweep.grid] {key} {said}")
    if source is not None and text:
        raise ConfigError(
            f"{file}: [sweep] config = {source!r} names the training config, but the file has sections of one: "
            f"{', '.join(text)}. Take them out, or the setting `config`."
        )
    config = load(file if source is None else file.parent / str(source), overrides)
    config.pop("sweep", None)
    return GridFile(file, config, component, {**grid, **ranges})


def _range(file: Path, key: str, ends: Any) -> Range:
    numbers, scale = (ends[:2], ends[2:]) if isinstance(ends, list) else ([], [])
    if len(numbers) < 2 or not all(map(is_number, numbers)) or numbers[0] > numbers[1] or scale not in ([], ["log"]):
        raise ConfigError(
            f'{file}: [sweep.ranges] {key} must be [low, high] or [low, high, "log"], but {ends!r} was given.'
        )
    return Range(numbers[0], numbers[1], bool(scale))


def is_number(value: Any) -> bool:
    """Whether a value of a setting is a number."""
    return type(value) in (int, float)


def changed(config: Any, changes: Mapping[Place, Any], filled: Mapping[str, Any]) -> Any:
    """Return a config with some settings changed; what it leaves to defaults is taken from `filled` where needed."""
    result = config.copy()
    for place, value in changes.items():
        block: Any = result
        for depth, key in enumerate(place[:-1], start=1):
            if not isinstance(block.get(key), dict):
                block[key] = deepcopy(_get(filled, place[:depth]))
            block = block[key]
        block[place[-1]] = deepcopy(value)
    return result


class Space:
    """The settings of a grid: their places in the config, and their values, functions written out as blocks.

    filled (Mapping): The training config with all defaults.
    RAISES ConfigError: If a setting or a function does not exist, or a setting is there twice.
    """

    def __init__(self, source: GridFile, filled: Mapping[str, Any], component: str) -> None:
        self._file, self._grid, self._filled = source.file, source.grid, filled
        self._functions = lru_cache(lambda name: getattr(registry, name).get_all())
        names: dict[Place, str] = {}
        for key in source.grid:
            place = tuple(key.split("."))
            place = place if place[0] in filled else ("components", component, *place)
            if place == ("training", "seed"):
                raise self._error(f"{key}: seeds are repetitions of a combination. Give --seeds N instead.")
            if place in names:
                raise self._error(f"{names[place]} and {key} are the same setting. Take one out.")
            names[place] = key
        self._places = {key: place for place, key in sorted(names.items(), key=lambda item: len(item[0]))}
        self._values = dict(source.grid)
        for key, place in self._places.items():
            values = source.grid[key]
            if isinstance(values, list) and (at := _registry_of(now := _get(filled, place))) is not None:
                self._values[key] = [self._block(key, value, now, at) for value in values]
        for key, place in self._places.items():
            self._check_setting(key, place[:-1], place[-1])

    def choose(self, pick: Callable[[str, Choices], Any]) -> Combination:
        """Return the combination that `pick` chooses, called with the name of a setting and its values as given.

        A setting of a function is left out where the combination has another function that does not take it.

        pick (Callable): Returns the number of a value of a list, or a value of a range.
        """
        changes: dict[Place, Any] = {}
        settings: dict[str, Any] = {}
        picked: dict[str, Any] = {}
        for key, place in self._places.items():  # a block before its settings
            parent = place[:-1]
            if self._takes(changes.get(parent, _get(self._filled, parent)), place[-1]):
                picked[key] = choice = pick(key, values := self._grid[key])
                changes[place] = self._values[key][choice] if isinstance(values, list) else choice
                settings[key] = values[choice] if isinstance(values, list) else choice
        return Combination({key: settings[key] for key in self._grid if key in settings}, changes, picked)

    def all(self) -> list[Combination]:
        """Return all combinations, each once.  RAISES ConfigError: If a setting has a range."""
        combinations: dict[str, Combination] = {}
        if ranges := [key for key, values in self._grid.items() if isinstance(values, Range)]:
            raise ConfigError(
                f"{self._file}: [sweep.ranges] {ranges[0]}: a grid has no ranges. Give --sampler tpe --trials N."
            )
        for numbers in product(*(range(len(self._values[key])) for key in self._places)):
            chosen = dict(zip(self._places, numbers, strict=True))
            combination = self.choose(lambda key, _: chosen[key])  # noqa: B023
            combinations.setdefault(key_of(combination.settings), combination)
        return list(combinations.values())

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self._file}: [sweep.grid] {text}")

    def _block(self, key: str, value: Any, now: Mapping[str, Any], at: str) -> dict[str, Any]:
        # of a block given by its name; the function that the config has keeps its settings there
        block = {at: value} if isinstance(value, str) else value
        if not isinstance(block, dict) or not isinstance(block.get(at), str):
            raise self._error(
                f'{key} must list names of functions or blocks {{"{at}": NAME, ...}}, but {value!r} was given.'
            )
        registered, wanted = self._functions(at[1:]), block[at]
        full_names = {_short(name): name for name in registered}
        candidates = (wanted, f"spacy_crfseq.{wanted}.v1", f"spacy_crfseq.{wanted}", full_names.get(wanted))
        name = next((name for name in candidates if name in registered), None)
        if name is None:
            raise self._error(f"{key}: there is no function {wanted!r}. {suggest(wanted, {*map(_short, registered)})}")
        block = dict(now) if isinstance(value, str) and name == now[at] else {**block, at: name}
        for setting in block:
            if setting != at and not self._takes(block, setting):
                hint = suggest(setting, self._parameters(block) or [])
                raise self._error(f"{key}: {wanted} has no setting {setting!r}. {hint}")
        return block

    def _check_setting(self, key: str, parent: Place, name: str) -> None:
        # in the config or a function that the grid puts there
        outer = next((other for other, place in self._places.items() if place == parent), None)
        blocks: list[Any] = list(self._values[outer]) if outer else [_get(self._filled, parent)]
        sections = [block for block in blocks if isinstance(block, dict)]
        if any(self._takes(block, name) for block in sections):
            return
        settings = {setting for block in sections for setting in self._parameters(block) or block}
        where = ".".join(parent)
        if settings:
            raise self._error(f"{key}: [{where}] has no setting {name!r}. {suggest(name, settings)}")
        raise self._error(
            f"{key}: there is no section [{where}]. Settings are those of the component "
            f"({parent[1] if len(parent) > 1 else name}), or begin with one of: {', '.join(self._filled)}."
        )

    def _takes(self, block: Any, name: str) -> bool:
        parameters = self._parameters(block)
        if parameters is None:  # an empty section, such as attributes, has room for any block
            return block == {} or name in (block or ())
        return name in parameters

    def _parameters(self, block: Any) -> list[str] | None:
        # what the function of a block takes; None where the block names none, or one that takes anything
        at = _registry_of(block)
        if at is None:
            return None
        parameters = inspect.signature(self._functions(at[1:])[block[at]]).parameters
        variable = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if variable else list(parameters)


def _registry_of(value: Any) -> str | None:
    # the key of a block that names its function, such as "@crf_losses"; None if it is no such block
    ats = [key for key in value if isinstance(key, str) and key.startswith("@")] if isinstance(value, dict) else []
    return ats[0] if len(ats) == 1 else None


def _get(config: Mapping[str, Any], place: Place) -> Any:
    value: Any = config
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _short(name: str) -> str:
    # without package and version
    parts = name.split(".")
    return parts[-2] if len(parts) > 1 and parts[-1][:1] == "v" else name
