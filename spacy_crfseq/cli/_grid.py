"""The grid of a sweep: what its file says, and the combinations of settings that come of it.

A setting is written as in the overrides of ``fit``; one that is in no section of the config is one of the component.
A block such as a loss may be named by its function, a short name being that of this package's function.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spacy import util

from ..errors import ConfigError, suggest
from .fit import load_config

if TYPE_CHECKING:
    from thinc.api import Config

Place: TypeAlias = tuple[str, ...]
METHOD = ("loss", "regularizer", "optimizer", "decoder")
"""Settings of a component that change nothing in how its corpus is encoded."""
_EXAMPLE = "Write, for example, regularizer.rho = [0.1, 1, 10] under [sweep.grid]."


class GridFile(NamedTuple):
    """What the file of a sweep says.

    file (Path): The file.
    config (Config): The training config, its variables as they stand.
    component (str | None): Component to train; None for the only one.
    grid (dict[str, list]): Values of each setting.
    """

    file: Path
    config: Config
    component: str | None
    grid: dict[str, list[Any]]


class Combination(NamedTuple):
    """One combination of the values of a grid.

    settings (dict[str, Any]): Values as the file has them, without those that its functions do not take.
    changes (dict[Place, Any]): The same by their places in the config, blocks written out, outer ones first.
    """

    settings: dict[str, Any]
    changes: dict[Place, Any]

    def __str__(self) -> str:
        return " ".join(f"{key}={show(value)}" for key, value in self.settings.items()) or "the config as it is"


def show(value: Any) -> str:
    """Return a value of a setting for people: a function by its short name and settings."""
    at = registry_of(value)
    if at is None:
        return value if isinstance(value, str) else json.dumps(value)
    rest = ", ".join(f"{key}={show(part)}" for key, part in value.items() if key != at)
    return _short(value[at]) + (f"({rest})" if rest else "")


def read_grid(file: Path, overrides: dict[str, Any]) -> GridFile:
    """Read the file of a sweep; `overrides` go to its training config.

    RAISES ConfigError: If it is no such file.
    """
    text = load_config(file, {})
    sweep = text.pop("sweep", None)
    if not isinstance(sweep, dict):
        raise ConfigError(f"{file}: there is no section [sweep]. {_EXAMPLE}")
    sweep = dict(sweep)
    source, component, grid = sweep.pop("config", None), sweep.pop("component", None), sweep.pop("grid", None)
    for key in sweep:
        hint = suggest(key, ("config", "component", "grid"))
        raise ConfigError(f"{file}: [sweep] has no setting {key!r}. {hint} What to vary stands under [sweep.grid].")
    if not isinstance(grid, dict) or not grid:
        raise ConfigError(f"{file}: there is no setting under [sweep.grid]. {_EXAMPLE}")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(
                f"{file}: [sweep.grid] {key} must be a list of values, but {values!r} was given. "
                f"Write {key} = {json.dumps([values] if values != [] else [1, 2])}."
            )
    if source is None:
        config = load_config(file, overrides)
        config.pop("sweep")
    else:
        if text:
            raise ConfigError(
                f"{file}: [sweep] config = {source!r} names the training config, but the file has sections of one: "
                f"{', '.join(text)}. Take them out, or the setting `config`."
            )
        config = load_config(file.parent / str(source), overrides)
    return GridFile(file, config, component, grid)


def combinations(source: GridFile, filled: Mapping[str, Any], component: str) -> list[Combination]:
    """Return all combinations of a grid's values, each once.

    A setting of a function is left out where the combination has another function that does not take it.
    filled (Mapping): The training config with all defaults.
    RAISES ConfigError: If a setting or a function is not known, or a setting is there twice.
    """
    places = {key: _place(key, filled, component) for key in source.grid}
    for place in places.values():
        same = [key for key, other in places.items() if other == place]
        if len(same) > 1:
            raise ConfigError(f"{source.file}: [sweep.grid] {' and '.join(same)} are the same setting. Take one out.")
    keys = sorted(places, key=lambda key: len(places[key]))  # a block before its settings
    values = {key: _values(source, key, places[key], filled) for key in keys}
    for key in keys:
        _check_known(source, key, places, values, filled)
    found: dict[str, Combination] = {}
    for chosen in product(*(range(len(values[key])) for key in keys)):
        changes: dict[Place, Any] = {}
        settings: dict[str, Any] = {}
        for key, number in zip(keys, chosen, strict=True):
            place = places[key]
            if _takes(_block_at(place[:-1], changes, filled), place[-1]):
                changes[place], settings[key] = values[key][number], source.grid[key][number]
        ordered = {key: settings[key] for key in source.grid if key in settings}
        found.setdefault(json.dumps(list(changes.items()), sort_keys=True), Combination(ordered, changes))
    return list(found.values())


def apply(config: Config, changes: Mapping[Place, Any], filled: Mapping[str, Any]) -> Config:
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


def registry_of(value: Any) -> str | None:
    """Return the key of a block that names its function, such as "@crf_losses"; None if it is no such block."""
    ats = [key for key in value if isinstance(key, str) and key.startswith("@")] if isinstance(value, dict) else []
    return ats[0] if len(ats) == 1 else None


def _place(key: str, filled: Mapping[str, Any], component: str) -> Place:
    place = tuple(key.split("."))
    return place if place[0] in filled else ("components", component, *place)


def _get(config: Mapping[str, Any], place: Place) -> Any:
    """Return what stands at a place, None if nothing."""
    value: Any = config
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _block_at(place: Place, changes: Mapping[Place, Any], filled: Mapping[str, Any]) -> Any:
    return changes.get(place, _get(filled, place))


def _values(source: GridFile, key: str, place: Place, filled: Mapping[str, Any]) -> list[Any]:
    """Return the values of a setting, functions written out as blocks."""
    now = _get(filled, place)
    at = registry_of(now)
    if at is None:
        return source.grid[key]
    return [_block(source, key, value, now, at) for value in source.grid[key]]


def _block(source: GridFile, key: str, value: Any, now: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return a block that a name stands for; the function that the config has keeps its settings there."""
    block = {at: value} if isinstance(value, str) else value
    if not isinstance(block, dict) or not isinstance(block.get(at), str):
        raise ConfigError(
            f'{source.file}: [sweep.grid] {key} must list names of functions or blocks {{"{at}": NAME, ...}}, but '
            f"{value!r} was given."
        )
    known = getattr(util.registry, at[1:]).get_all()
    names = {**{_short(name): name for name in known}, **{name: name for name in known}}
    wanted = block[at]
    name = next((name for name in (wanted, f"spacy_crfseq.{wanted}.v1", names.get(wanted)) if name in known), None)
    if name is None:
        hint = suggest(wanted, map(_short, known))
        raise ConfigError(f"{source.file}: [sweep.grid] {key}: there is no function {wanted!r}. {hint}")
    same = isinstance(value, str) and name == now[at]
    block = dict(now) if same else {**block, at: name}
    for setting in block:
        if setting != at and not _takes(block, setting):
            hint = suggest(setting, _parameters(block) or [])
            raise ConfigError(f"{source.file}: [sweep.grid] {key}: {wanted} has no setting {setting!r}. {hint}")
    return block


def _short(name: str) -> str:
    """Return the name of a function without its package and version."""
    parts = name.split(".")
    return parts[-2] if len(parts) > 1 and parts[-1][:1] == "v" else name


def _check_known(
    source: GridFile,
    key: str,
    places: Mapping[str, Place],
    values: Mapping[str, Sequence[Any]],
    filled: Mapping[str, Any],
) -> None:
    """RAISES ConfigError: If there is no such setting, in the config or in any function that the grid puts there."""
    parent, name = places[key][:-1], places[key][-1]
    outer = [other for other, place in places.items() if place == parent]
    blocks = list(values[outer[0]]) if outer else [_get(filled, parent)]
    if any(isinstance(block, dict) and _takes(block, name) for block in blocks):
        return
    known: set[str] = set()
    for block in blocks:
        known.update(_parameters(block) or (block if isinstance(block, dict) else ()))
    where = ".".join(parent)
    if not known:
        sections = ", ".join(filled)
        raise ConfigError(
            f"{source.file}: [sweep.grid] {key}: there is no section [{where}]. Settings are those of the component "
            f"({parent[1] if len(parent) > 1 else name}), or begin with one of: {sections}."
        )
    raise ConfigError(f"{source.file}: [sweep.grid] {key}: [{where}] has no setting {name!r}. {suggest(name, known)}")


def _takes(block: Any, name: str) -> bool:
    """Tell whether a block has, or its function takes, a setting."""
    parameters = _parameters(block)
    return name in (block or ()) if parameters is None else name in parameters


def _parameters(block: Any) -> list[str] | None:
    """Return what the function of a block takes; None where the block names none, or one that takes anything."""
    at = registry_of(block)
    if at is None:
        return None
    found = inspect.signature(getattr(util.registry, at[1:]).get(block[at])).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values()):
        return None
    return list(found)


def varying(combinations: Sequence[Combination]) -> Iterator[str]:
    """Yield the settings that are not the same in all combinations."""
    for key in dict.fromkeys(key for combination in combinations for key in combination.settings):
        if len({json.dumps(combination.settings.get(key), sort_keys=True) for combination in combinations}) > 1:
            yield key
