"""Settings and overrides, ``--paths.train FILE``, that nothing reads: spaCy drops them; here they are refused.

A training with a mistyped name would run on the wrong data, or with the settings that were to be changed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from spacy.language import DEFAULT_CONFIG
from spacy.schemas import ConfigSchemaInit, ConfigSchemaNlp, ConfigSchemaPretrain, ConfigSchemaTraining
from spacy.util import load_config
from thinc.api import Config, ConfigValidationError

from ..errors import ConfigError, suggest

_SCHEMAS: dict[str, Any] = {
    "training": ConfigSchemaTraining, "nlp": ConfigSchemaNlp, "initialize": ConfigSchemaInit,
    "pretraining": ConfigSchemaPretrain,
}  # fmt: skip
"""The sections of which spaCy drops what it does not know; it checks the blocks inside."""
_OF_SOURCED = ("source", "component", "replace_listeners")
"""The settings that count of a component that comes from a trained pipeline."""
_LISTS = {
    ("nlp", "pipeline"): "components", ("nlp", "disabled"): "pipeline", ("training", "frozen_components"): "pipeline",
    ("training", "annotating_components"): "pipeline",
}  # fmt: skip
"""The settings that list names of components, and where these are."""
_CALLBACKS = {"nlp": ("before_creation", "after_creation", "after_pipeline_creation"), "initialize": ("before_init",)}
"""The settings whose functions may add components, by their sections."""
FLAGS = ("--verbose", "-V")
"""The options of ``spacy train`` without a value."""


def check_settings(config: Mapping[str, Any]) -> None:
    """Refuse settings of spaCy's sections that nothing reads.

    Other sections are free, since they may have variables: ``[paths]``, ``[system]``, and those of users.  Functions,
    components and readers check their own settings.
    config (Mapping): As it is written, with its variables.
    RAISES ConfigError: Naming a setting, and the one that it is near.
    """
    for section in _SCHEMAS:
        for name in config.get(section, ()):
            if name not in (fields := _fields(section)):
                raise ConfigError(f"Nothing reads {name!r} in [{section}]. {suggest(name, fields)}")
    components = config.get("components", {})
    for name in config.get("initialize", {}).get("components", ()):
        if name not in components:
            raise ConfigError(f"[initialize.components.{name}]: no such component. {suggest(name, components)}")


def check_components(config: Config) -> None:
    """Refuse names of components that the pipeline does not have; spaCy ignores some of them.

    Where a callback may add components, only the names in the pipeline itself are checked.
    RAISES ConfigError: Naming such a component, its setting, and the component that it is near.
    """
    try:
        values = config.interpolate()
    except ConfigValidationError:
        return  # who reads the values reports it
    places = {"components": values.get("components", {}), "pipeline": values.get("nlp", {}).get("pipeline")}
    if not isinstance(places["pipeline"], list):
        return  # spaCy's schema refuses it
    open_ended = any(values.get(section, {}).get(name) for section, names in _CALLBACKS.items() for name in names)
    for (section, setting), place in _LISTS.items():
        if place == "pipeline" and open_ended:
            continue
        names = values.get(section, {}).get(setting)
        for name in names if isinstance(names, list) else ():
            if name not in [*places[place]]:  # of a list, as a name may be anything
                raise ConfigError(
                    f"[{section}] {setting}: {name!r} is not in the {place}. {suggest(str(name), places[place])}"
                )


def check_variables(config: Config) -> None:
    """RAISES ConfigError: Naming a variable that the config does not have, and the setting that it is near."""
    try:
        config.interpolate()
    except ConfigValidationError as error:
        pattern = r"option '([^']+)' in section '([^']+)' contains an interpolation key '([^']+)'"
        if (match := re.search(pattern, str(error))) is None:
            return  # an override may mend it; who reads the values reports it
        name, section, variable = match.groups()
        near = get_close_matches(variable.replace(":", "."), _keys(config), n=1, cutoff=0.8)
        hint = f"Did you mean {near[0]}?" if near else f"Add it, or give {name} another value."
        raise ConfigError(f"[{section}] {name}: ${{{variable}}} is not in the config. {hint}") from None


def check_overrides(config: Mapping[str, Any], overrides: Mapping[str, Any], sections: Collection[str] = ()) -> None:
    """Refuse overrides that nothing reads.

    config (Mapping): With its variables, such as ``${paths.train}``; what it leaves out has spaCy's defaults.
    sections (Collection[str]): Further sections that the caller reads.
    RAISES ConfigError: Naming an override, and one that it is near.
    """
    whole = Config(DEFAULT_CONFIG).merge(Config(dict(config)))
    text = whole.to_str(interpolate=False) + json.dumps(list(overrides.values()), default=str)
    named = {name.replace(":", ".") for name in re.findall(r"\$\{([^}]+)\}", text)}  # variables
    named.update(re.findall(r'"(corpora\.[^"\\]+)', text))
    pipeline = overrides.get("nlp.pipeline", whole["nlp"].get("pipeline", []))
    names = pipeline if isinstance(pipeline, list) else whole["components"]  # it may be a variable
    components = {name: whole["components"].get(name, {}) for name in names}

    def reads(key: str) -> bool:
        section, name, *rest = [*key.split("."), ""]
        if section in _SCHEMAS:
            return name in _fields(section)
        if section == "components":
            return name in components and ("source" not in components[name] or rest[0] in _OF_SOURCED)
        return section in sections or any(key == of_all or key.startswith(f"{of_all}.") for of_all in named)

    for key in overrides:
        if not reads(key):
            fields = [f"{section}.{name}" for section in _SCHEMAS for name in _fields(section)]
            section, _, *rest = [*key.split("."), ""]
            siblings = [".".join([section, name, *rest[:-1]]) for name in whole.get(section, ())]
            candidates = filter(reads, [*named, *_keys(whole), *fields, *siblings])
            near = get_close_matches(key, candidates, n=1, cutoff=0.8)
            hint = f"Did you mean --{near[0]}?" if near else "Check its name."
            raise ConfigError(f"--{key} changes nothing: nothing in the config reads it. {hint}")


def _fields(section: str) -> set[str]:
    schema: Any = _SCHEMAS[section]
    fields = schema.model_fields if hasattr(schema, "model_fields") else schema.__fields__  # of pydantic 1
    return {field.alias or name for name, field in fields.items()}


def _keys(block: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in block.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def spacy_command() -> str:
    """Return the command of spaCy that runs, such as "train"; "" if another program does, or one of this package."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    spacy = Path(sys.argv[0]).stem == "spacy" or (main is not None and main.name == "spacy.__main__")
    name = sys.argv[1] if spacy and len(sys.argv) > 1 else ""
    return "" if name == "crfseq" else name


def check_command_line() -> None:
    """Check the config and the overrides of ``spacy train``, which does not, as `configs.load_config` does.

    The config is that of the file: spaCy's own forgets which components are sourced, and so what names the source.
    RAISES SystemExit: With the message, as spaCy's commands report mistakes.
    """
    path = _config_file(sys.argv[2:]) if spacy_command() == "train" else None
    if path is None or not path.is_file():
        return
    from spacy.cli._util import parse_config_overrides

    overrides = parse_config_overrides(_override_options(sys.argv[2:]))  # and those of the environment
    try:
        check_overrides(load_config(path, interpolate=False), overrides)
        config = load_config(path, overrides, interpolate=False)
        check_settings(config)
        check_components(config)
    except ConfigError as error:
        raise SystemExit(f"\N{HEAVY BALLOT X} {error}") from None


def _override_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that are overrides, and their values: only these options have a point in their names."""
    options = list[str]()
    for argument, after in pairwise([*arguments, "--"]):
        name, is_whole, _ = argument.partition("=")
        if name.startswith("--") and "." in name:
            options += [argument] if is_whole or after.startswith("--") else [argument, after]
    return options


def _config_file(arguments: Sequence[str]) -> Path | None:
    """Return the argument of ``spacy train`` that is neither an option nor the value of one."""
    for before, argument in pairwise(["", *arguments]):
        is_value = before.startswith("-") and "=" not in before and before not in FLAGS
        if not is_value and not argument.startswith("-"):
            return Path(argument)
    return None
